"""From pixels back to the coefficients of the JPEG file that they came out of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.exact.jpeg import chroma, decoding, fitting, lattice, tables
from dqcodec.exact.jpeg.decoding import BLUE_OFFSET, GREEN_BY_CB, GREEN_BY_CR, RED_OFFSET, SAMPLINGS, Jpeg, Sampling
from dqcodec.frozen.jpeg import CHROMA, LUMA, MAX_NUMBER

_ROUNDS, _PROGRESS = 4, 0.9  # refinements, while each leaves less than this part of the wrong pixels
_WINDOW = 256  # pixels each way that show the sampling
_LEAST_CLEAN = 16
_LEAST_SIDE = 16  # pixels; of smaller images little is sure
_SAMPLED, _SAMPLED_PIXELS, _LEAST_COLOURED = 160, 4096, 64  # blocks; pixels; pixels in colour that say something
_ON_LATTICE, _LEAST_GAIN, _LEAST_FIT, _LEAST_STEP = 0.98, 0.4, 0.5, 1.5
_TRIED = 128  # blocks by which a table is chosen
_ENOUGH = 0.95
_FEW = 0.1  # wrong pixels of a sampling that is taken at once


def may_be_decoded(pixels: np.ndarray) -> bool:
    """Whether an image (H, W, C) uint8 may have come out of a JPEG decoder, by samples of it: its colours, and some blocks."""
    height, width, channels = pixels.shape
    if channels not in (1, 3) or min(height, width) < _LEAST_SIDE:
        return False
    if channels == 3 and not _is_on_lattice(pixels):
        return False
    rows, columns = height // 8, width // 8
    chosen = np.arange(0, rows * columns, -(-rows * columns // _SAMPLED))
    blocks = pixels[: 8 * rows, : 8 * columns].reshape(rows, 8, columns, 8, channels).swapaxes(1, 2)
    strip = blocks[chosen // columns, chosen % columns].reshape(-1, 8, channels)
    luma, is_sure = (strip[..., 0].astype(np.int64), (strip[..., 0] > 0) & (strip[..., 0] < 255))
    if channels == 3:
        found, is_sure = lattice.components(strip)
        luma = found[..., 0]
    clean = is_sure.reshape(-1, 64).all(1)
    coefficients = fitting.BASIS @ (luma.reshape(-1, 8, 8)[clean] - 128.0) @ fitting.BASIS.T
    if not clean.any() or tables.gain(coefficients.reshape(-1, 64)) < _LEAST_GAIN:
        return False
    table, _, fits = _table([_Component(*luma.shape)], [luma], [is_sure], LUMA, 0)
    return fits >= _LEAST_FIT and table.mean() >= _LEAST_STEP


def _is_on_lattice(pixels: np.ndarray) -> bool:
    """Whether nearly all coloured pixels, of a sample, are on the lattice of a decoder."""
    flat = pixels.reshape(-1, 3)
    some = flat[:: -(-len(flat) // _SAMPLED_PIXELS)]
    coloured = some[(some != some[:, :1]).any(1) & (some > 0).all(1) & (some < 255).all(1)]
    return len(coloured) >= _LEAST_COLOURED and lattice.components(coloured[None])[1].mean() >= _ON_LATTICE


def recover(pixels: np.ndarray) -> Jpeg:
    """The JPEG whose pixels are those of an image (H, W, 1 or 3) uint8, as far as they are."""
    if pixels.shape[2] == 1:
        plane = pixels[..., 0].astype(np.int64)
        is_sure = (plane > 0) & (plane < 255)
        component = _Component(*plane.shape)
        low = np.where(plane == 0, -fitting.OPEN, plane)
        high = np.where(plane == 255, fitting.OPEN, plane)
        table, *_ = _table([component], [plane], [is_sure], LUMA, 0)
        component.fit(low, high, plane, table)
        found = Jpeg(Sampling(1, 1), (table,), (component.levels,))
    else:
        found = _recover_colour(pixels)
    return found._replace(levels=tuple(np.clip(levels, -MAX_NUMBER, MAX_NUMBER) for levels in found.levels))


def _recover_colour(pixels: np.ndarray) -> Jpeg:
    found, is_sure = lattice.components(pixels)
    planes = list(np.moveaxis(found, -1, 0))
    best: _Image | None = None
    for sampling in _samplings(planes[1:], is_sure):
        image = _recover_sampled(pixels, planes, is_sure, sampling)
        if best is None or image.wrong.sum() < best.wrong.sum():
            best = image
        if best.wrong.mean() < _FEW:
            break
    return best.jpeg


def _recover_sampled(pixels: np.ndarray, planes: list[np.ndarray], is_sure: np.ndarray, sampling: Sampling) -> _Image:
    image = _Image(pixels, sampling)
    image.find(planes, is_sure)
    for _ in range(_ROUNDS):
        before = image.wrong.sum()
        if before:
            image.refine(planes, is_sure)
        if image.wrong.sum() >= _PROGRESS * before:
            break
    return image


class _Image:
    """An image in colour, and the JPEG that is found so far."""

    def __init__(self, pixels: np.ndarray, sampling: Sampling) -> None:
        self.pixels, self.sampling = pixels, sampling
        self.shape = pixels.shape[:2]
        size = decoding.component_size(*self.shape, sampling)
        self.components = _Component(*self.shape), _Component(*size), _Component(*size)
        self.tables: list[np.ndarray] = []

    @property
    def jpeg(self) -> Jpeg:
        return Jpeg(self.sampling, tuple(self.tables), tuple(each.levels for each in self.components))

    def find(self, planes: Sequence[np.ndarray], is_sure: np.ndarray) -> None:
        """Find tables and levels by the components of all sure pixels."""
        luma, *both = self.components
        table, quality, _ = _table([luma], planes[:1], [is_sure], LUMA, 0)
        luma.fit(*_bounds(planes[0], is_sure), table)
        small = [chroma.downsampled(plane, is_sure, self.sampling) for plane in planes[1:]]
        self.tables = [table, _table(both, *zip(*small), CHROMA, quality)[0]]
        for component, (plane, sure) in zip(both, small):
            component.fit(*_bounds(plane, sure), self.tables[1])
        self._decode()

    def _decode(self) -> None:
        """Set the components at all pixels, and where pixels are wrong."""
        luma, *both = self.jpeg.planes()
        height, width = self.shape
        self.full = [luma[:height, :width]]
        for component, plane in zip(self.components[1:], both):
            plane = plane[: component.rows, : component.columns]
            self.full.append(decoding.upsampled(plane, height, width, self.sampling))
        self.wrong = (decoding.colours(*self.full) != self.pixels).any(-1)

    def refine(self, planes: Sequence[np.ndarray], is_sure: np.ndarray) -> None:
        """Fit blocks with wrong pixels again: where a channel is 0 or 255, luma is known from chroma and the others, and chroma from
        luma."""
        _, blue, red = self.full
        channels = [self.pixels[..., channel].astype(np.int64) for channel in range(3)]
        free = [(each > 0) & (each < 255) for each in channels]
        offsets = RED_OFFSET[red], (GREEN_BY_CB[blue] + GREEN_BY_CR[red]) >> 16, BLUE_OFFSET[blue]
        guess = np.full(self.shape, -1)
        for channel in (2, 0, 1):
            guess = np.where(free[channel], channels[channel] - offsets[channel], guess)
        right = (guess >= 0) & (decoding.colours(np.clip(guess, 0, 255), blue, red) == self.pixels).all(-1)
        values = np.where(is_sure, planes[0], np.where(right, guess, self.full[0]))
        self._refit(self.components[:1], [_bounds(values, is_sure | right)])
        bounds, targets = [], []
        for channel, inverse, full, plane in (
            (2, lattice.TO_BLUE, blue, planes[1]),
            (0, lattice.TO_RED, red, planes[2]),
        ):
            value = inverse[np.clip(channels[channel] - self.full[0], -256, 511) + 256]
            known = is_sure | (free[channel] & (value >= 0))
            value = np.where(is_sure, plane, np.where(known, value, full))
            bounds.append(_bounds(*chroma.downsampled(value, known, self.sampling)))
            targets.append((value, known))
        self._refit(self.components[1:], bounds)
        if self.sampling.fancy:
            self._settle(targets)

    def _settle(self, targets: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Change levels of chroma one by one where pixels are wrong. targets: the values at all pixels, and which are known."""
        for component, (value, known) in zip(self.components[1:], targets):
            samples = decoding.samples(component.levels, self.tables[1])
            factors = np.array([self.sampling.rows, self.sampling.columns, component.rows, component.columns])
            wanted = component.wrong(self.wrong) > 0
            chroma.settle(component.levels, self.tables[1], samples, value, known, factors, wanted)
        self._decode()

    def _refit(self, components: Sequence[_Component], bounds: Sequence[tuple[np.ndarray, ...]]) -> None:
        """Fit the blocks of components with wrong pixels again; blocks with as many wrong pixels as before come back."""
        table = self.tables[components[0] is not self.components[0]]
        before = [(component.wrong(self.wrong), component.levels.copy()) for component in components]
        for component, each, (wrong, _) in zip(components, bounds, before):
            component.fit(*each, table, wrong > 0)
        self._decode()
        for component, (wrong, levels) in zip(components, before):
            is_worse = component.wrong(self.wrong) >= wrong
            component.levels[is_worse] = levels[is_worse]
        self._decode()


def _bounds(plane: np.ndarray, is_sure: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bounds of samples, and a guess."""
    return np.where(is_sure, plane, -fitting.OPEN), np.where(is_sure, plane, fitting.OPEN), plane


class _Component:
    """The blocks of a component of some rows and columns of samples."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.shape = decoding.blocks_of(rows), decoding.blocks_of(columns)
        self.levels = np.zeros((*self.shape, 64), np.int16)

    def padded(self, plane: np.ndarray, value: int | None = None) -> np.ndarray:
        """A plane with whole blocks: its edges go on, or a value does."""
        missing = [(0, 8 * blocks - length) for blocks, length in zip(self.shape, plane.shape)]
        return np.pad(plane, missing, mode="edge") if value is None else np.pad(plane, missing, constant_values=value)

    def fit(
        self, low: np.ndarray, high: np.ndarray, start: np.ndarray, table: np.ndarray, wanted: np.ndarray | None = None
    ) -> None:
        """Find levels whose samples are within bounds, for the wanted blocks."""
        low, high = self.padded(low * 1.0, -fitting.OPEN), self.padded(high * 1.0, fitting.OPEN)
        is_exact, start = start.dtype == np.int64, self.padded(start) * 1.0
        wanted = np.ones(self.shape, bool) if wanted is None else wanted
        fitting.fit(low, high, start, table, fitting.BASIS, self.levels, wanted, is_exact)

    def wrong(self, pixels: np.ndarray) -> np.ndarray:
        """How many pixels of each block are wrong. pixels: whether they are, (H, W)."""
        down, right = (-(-length // own) for length, own in zip(pixels.shape, (self.rows, self.columns)))
        whole = np.zeros((self.shape[0] * 8 * down, self.shape[1] * 8 * right), np.int64)
        whole[: pixels.shape[0], : pixels.shape[1]] = pixels
        return whole.reshape(self.shape[0], 8 * down, self.shape[1], 8 * right).sum((1, 3))


def _table(
    components: Sequence[_Component],
    planes: Sequence[np.ndarray],
    sure: Sequence[np.ndarray],
    base: np.ndarray,
    quality: int,
) -> tuple[np.ndarray, int, float]:
    """The table of some components, its quality, and the part of some blocks that fit it, by blocks whose samples are sure."""
    blocks = []
    for component, plane, is_sure in zip(components, planes, sure):
        rows, columns = component.shape
        whole = component.padded(plane).reshape(rows, 8, columns, 8).swapaxes(1, 2).reshape(-1, 8, 8)
        count = component.padded(is_sure, False).reshape(rows, 8, columns, 8).sum((1, 3)).ravel()
        blocks.append(whole[count >= min(64, np.sort(count)[-min(_LEAST_CLEAN, count.size)])])
    clean = np.concatenate(blocks)
    coefficients = fitting.transform(clean.reshape(-1, 8).astype(np.float64), fitting.BASIS)[:, 0]
    found = tables.candidates(coefficients, base, quality)
    some = clean[:: -(-len(clean) // _TRIED)].reshape(-1, 8) * 1.0
    levels = np.zeros((len(some) // 8, 1, 64), np.int16)
    is_exact = clean.dtype == np.int64
    fits = [
        fitting.fit(some, some, some, table, fitting.BASIS, levels, np.ones(levels.shape[:2], bool), is_exact).mean()
        for table, _ in found
    ]
    best = next(number for number, fit in enumerate(fits) if fit >= _ENOUGH * max(fits))
    return *found[best], fits[best]


def _samplings(planes: Sequence[np.ndarray], is_sure: np.ndarray) -> Iterator[Sampling]:
    """The samplings that chroma may have, by the middle of the image; at last that of all pixels."""
    height, width = is_sure.shape
    top, left = max(0, height - _WINDOW) // 4 * 2, max(0, width - _WINDOW) // 4 * 2
    window = slice(top, top + _WINDOW), slice(left, left + _WINDOW)
    for sampling in SAMPLINGS[1:]:
        if all(chroma.is_sampled(plane[window], is_sure[window], sampling) for plane in planes):
            yield sampling
    yield SAMPLINGS[0]
