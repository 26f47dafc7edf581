"""From decoded pixels back to the coefficients of the JPEG file."""

from __future__ import annotations

import numpy as np

from dqcodec.exact.jpeg import chroma, decoding, fitting, grid, lattice, tables
from dqcodec.exact.jpeg.blocks import blocks, padded
from dqcodec.exact.jpeg.component import Component
from dqcodec.exact.jpeg.decoding import BLUE_OFFSET, GREEN_BY_CB, GREEN_BY_CR, RED_OFFSET, SAMPLINGS, Jpeg, Sampling
from dqcodec.frozen.jpeg import CHROMA, LUMA, MAX_NUMBER

_TOLERANCES = 0, 3, 8  # the error of luma's bounds that is allowed where chroma may be wrong
_PROGRESS = 0.9  # a refinement is repeated while it leaves less than this part of the wrong pixels
_LEAST_SIDE = 16  # pixels; smaller images show too little
_SAMPLED, _SAMPLED_PIXELS = 160, 4096  # blocks; pixels
_LEAST_COLOURED = 64  # pixels that show a lattice
_ON_LATTICE, _LEAST_FIT, _LEAST_STEP = 0.98, 0.5, 1.5
_SMALL_PIXELS = 6144  # in smaller images only blocks without clamped samples count: few others do not show a table
_FEW, _HOPELESS = 0.1, 0.5  # with fewer wrong pixels, a sampling is taken at once; with more, it is not refined


def may_be_decoded(pixels: np.ndarray) -> bool:
    """Whether a JPEG decoder may have made an image (H, W, C) uint8: a sample of its colours and blocks shows it."""
    height, width, channels = pixels.shape
    if channels not in (1, 3) or min(height, width) < _LEAST_SIDE:
        return False
    return (channels == 1 or _is_on_lattice(pixels)) and _offset(pixels) is not None


def _offset(pixels: np.ndarray) -> tuple[int, int] | None:
    """The rows and columns, 0 to 7, that whole blocks lack above and to the left; None if
    the blocks are not those of a JPEG.
    """
    luma, is_free = lattice.luma(pixels), ((pixels > 0) & (pixels < 255)).all(-1)
    for down, right in dict.fromkeys([(0, 0), grid.likeliest(luma, is_free, grid.SHIFTS)]):
        rows, columns = (8 * ((length - shift) // 8) for length, shift in zip(luma.shape, (down, right)))
        if rows and columns:
            part = slice(down, down + rows), slice(right, right + columns)
            free = blocks(is_free[part])
            chosen = tables.informative(blocks(luma[part]), free)
            if luma.size < _SMALL_PIXELS:
                chosen = chosen[free[chosen].all(1)]
            if len(chosen) and _is_quantised(blocks(pixels[part])[chosen[:: -(-len(chosen) // _SAMPLED)]]):
                return -down % 8, -right % 8
    return None


def _is_quantised(some: np.ndarray) -> bool:
    """Whether nearly all blocks (n, 64, 1 or 3) of pixels fit a table."""
    luma, is_sure = some[..., 0].astype(np.int64), (some[..., 0] > 0) & (some[..., 0] < 255)
    if some.shape[-1] == 3:
        found, is_sure = lattice.components(some)
        luma = found[..., 0]
    if not tables.may_fit(luma, is_sure, LUMA, _LEAST_STEP):
        return False
    table, _, fits = tables.choose(luma, is_sure, LUMA, 0)
    return fits >= _LEAST_FIT and table.mean() >= _LEAST_STEP


def _is_on_lattice(pixels: np.ndarray) -> bool:
    """Whether nearly all coloured pixels of a sample are on the lattice of a decoder; True if there are too few."""
    flat = pixels.reshape(-1, 3)
    coloured = flat[(flat != flat[:, :1]).any(1) & (flat > 0).all(1) & (flat < 255).all(1)]
    some = coloured[:: -(-len(coloured) // _SAMPLED_PIXELS)] if len(coloured) else coloured
    return len(some) < _LEAST_COLOURED or bool(lattice.components(some[None])[1].mean() >= _ON_LATTICE)


def recover(pixels: np.ndarray) -> Jpeg:
    """The JPEG whose decoded pixels come nearest to an image (H, W, 1 or 3) uint8."""
    found = (_recover_gray if pixels.shape[2] == 1 else _recover_colour)(pixels)
    return found._replace(levels=tuple(np.clip(levels, -MAX_NUMBER, MAX_NUMBER) for levels in found.levels))


def _recover_gray(pixels: np.ndarray) -> Jpeg:
    offset = _offset(pixels) or (0, 0)
    pixels, is_there = _extended(pixels, offset)
    plane = pixels[..., 0].astype(np.int64)
    component = Component(*plane.shape, SAMPLINGS[0])
    component.table, *_ = tables.choose(blocks(plane), blocks(is_there & (plane > 0) & (plane < 255)), LUMA, 0)
    component.start(plane)
    low, high = np.where(is_there, plane, -fitting.OPEN), np.where(is_there, plane, fitting.OPEN)
    component.fit(*_clamped(low, high), plane, np.ones(component.shape, bool))
    return Jpeg(SAMPLINGS[0], (component.table,), (component.levels,), offset)


def _recover_colour(pixels: np.ndarray) -> Jpeg:
    best: _Image | None = None
    first = _Image(pixels, _offset(pixels) or (0, 0))
    for sampling in chroma.samplings(first.planes[1:], first.is_sure):
        whole = [] if any(first.offset) else [(0, 0)]
        for offset in dict.fromkeys([*whole, first.offset_with(sampling)]):
            image = _Image(pixels, offset)
            image.find(sampling)
            if best is None or image.wrong.sum() < best.wrong.sum():
                best = image
            if best.wrong.mean() < _FEW:
                break
        if best.wrong.mean() < _FEW:
            break
    best.refine()
    return best.jpeg


def _extended(pixels: np.ndarray, offset: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (H, W, C) with copies of the first row and column for the missing ones, and a mask of the given pixels."""
    missing = [(each, 0) for each in offset]
    return np.pad(pixels, [*missing, (0, 0)], mode="edge"), np.pad(np.ones(pixels.shape[:2], bool), missing)


class _Image:
    """A colour image, and the JPEG found so far.

    Attributes:
        pixels, is_there: RGB, uint8 (H, W, 3), with the missing rows and columns, and a mask
            of the given pixels, bool (H, W).
        offset: the numbers of missing rows and columns, above and to the left.
        planes, is_sure: its components, from the colours alone, int64 (H, W) each, and where
            they are sure, bool (H, W).
        sampling, components: of chroma; Y, Cb, Cr.
        full: the components of the JPEG at all pixels, int64 (H, W) each.
        wrong: the pixels where the JPEG differs from the image, bool (H, W).
    """

    def __init__(self, pixels: np.ndarray, offset: tuple[int, int]) -> None:
        self.pixels, self.is_there = _extended(pixels, offset)
        self.offset, self.shape = offset, self.pixels.shape[:2]
        found, is_sure = lattice.components(self.pixels)
        self.planes, self.is_sure = list(np.moveaxis(found, -1, 0)), is_sure & self.is_there

    def offset_with(self, sampling: Sampling) -> tuple[int, int]:
        """The offset if chroma has this sampling: blocks of sampled chroma cover more pixels, so they may lack more."""
        both = (chroma.downsampled(plane, self.is_sure, sampling) for plane in self.planes[1:])
        samples, is_sure = (np.concatenate([padded(each) for each in parts]) for parts in zip(*both))
        shifts = [
            (down, right) for down in range(0, 4 * sampling.rows, 4) for right in range(0, 4 * sampling.columns, 4)
        ]
        down, right = grid.likeliest(samples, is_sure, shifts)
        return self.offset[0] + 2 * down, self.offset[1] + 2 * right

    @property
    def jpeg(self) -> Jpeg:
        luma, blue, red = self.components
        return Jpeg(self.sampling, (luma.table, blue.table), (luma.levels, blue.levels, red.levels), self.offset)

    def find(self, sampling: Sampling) -> None:
        """Find tables and levels: of chroma from all sure pixels, then of luma from chroma and the channels."""
        self.sampling = sampling
        self.components = [Component(*self.shape, each) for each in (SAMPLINGS[0], sampling, sampling)]
        luma, *both = self.components
        luma.table, quality, _ = tables.choose(blocks(self.planes[0]), blocks(self.is_sure), LUMA, 0)
        small = [chroma.downsampled(plane, self.is_sure, self.sampling) for plane in self.planes[1:]]
        samples, sure = (np.concatenate([blocks(each) for each in parts]) for parts in zip(*small))
        table, *_ = tables.choose(samples, sure, CHROMA, quality)
        for component, plane, (start, _) in zip(both, self.planes[1:], small):
            component.table = table
            component.start(start)
            low, high = self._where_sure(plane, -fitting.OPEN), self._where_sure(plane, fitting.OPEN)
            component.fit(low, high, plane, np.ones(component.shape, bool))
        self._decode()
        low, high, guess = self._luma_bounds(0)
        luma.start(guess)
        luma.fit(low, high, guess, np.ones(luma.shape, bool))
        self._decode()

    def refine(self) -> None:
        """Fit blocks with wrong pixels again: where channels are clamped, chroma gives
        bounds of luma, and luma of chroma.
        """
        for tolerance in _TOLERANCES:
            while 0 < self.wrong.mean() < _HOPELESS:
                before = self.wrong.sum()
                self._fit_again(tolerance)
                if self.wrong.sum() > _PROGRESS * before:
                    break

    def _fit_again(self, tolerance: int) -> None:
        """Fit blocks with wrong pixels again: luma, chroma, luma. Blocks that do not improve get their old levels back.

        tolerance: the error of luma's bounds that is allowed at first; 0 leaves out the first step.
        """
        luma, *both = self.components
        before, count = [each.levels.copy() for each in self.components], both[0].wrong(self.wrong)
        wanted = luma.wrong(self.wrong) > 0
        trusted = ~wanted
        if tolerance:
            trusted = luma.fit(*self._luma_bounds(tolerance), wanted)
            self._decode()
        at_pixels = trusted.repeat(8, 0).repeat(8, 1)[: self.shape[0], : self.shape[1]]
        for number, component in enumerate(both, 1):
            component.fit(*self._chroma_bounds(number, at_pixels), count > 0)
        self._decode()
        luma.fit(*self._luma_bounds(0), wanted)
        self._decode()
        is_worse = both[0].wrong(self.wrong) >= count
        rows, columns = luma.shape
        of_luma = is_worse.repeat(self.sampling.rows, 0).repeat(self.sampling.columns, 1)[:rows, :columns]
        for component, levels, where in zip(self.components, before, (of_luma, is_worse, is_worse)):
            component.levels[where] = levels[where]
        self._decode()

    def _luma_bounds(self, tolerance: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The bounds of luma that channels and chroma give, and a guess."""
        _, blue, red = self.full
        low, high = np.full(self.shape, -fitting.OPEN), np.full(self.shape, fitting.OPEN)
        offsets = RED_OFFSET[red], (GREEN_BY_CB[blue] + GREEN_BY_CR[red]) >> 16, BLUE_OFFSET[blue]
        for channel, offset in enumerate(offsets):
            value = self.pixels[..., channel].astype(np.int64)
            low = np.maximum(low, np.where(self.is_there & (value > 0), value - offset, -fitting.OPEN))
            high = np.minimum(high, np.where(self.is_there & (value < 255), value - offset, fitting.OPEN))
        return self._bounds(np.minimum(low, high) - tolerance, np.maximum(low, high) + tolerance, 0, self.planes[0])

    def _chroma_bounds(self, number: int, trusted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The bounds of a component of chroma that its channel and trusted luma give, and a guess."""
        offset, channel = ((BLUE_OFFSET, 2), (RED_OFFSET, 0))[number - 1]
        value = self.pixels[..., channel].astype(np.int64)
        gap = np.clip(value - self.full[0], -256, 511)
        first, last = np.searchsorted(offset, gap), np.searchsorted(offset, gap, "right") - 1
        low = np.where((value > 0) & trusted & self.is_there, np.minimum(first, last), -fitting.OPEN)
        high = np.where((value < 255) & trusted & self.is_there, np.maximum(first, last), fitting.OPEN)
        return self._bounds(low, high, number, self.full[number])

    def _bounds(
        self, low: np.ndarray, high: np.ndarray, number: int, guess: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounds of a component and a guess within them. They are closed where it is sure,
        and open where it may be clamped.
        """
        plane = self.planes[number]
        low, high = self._where_sure(plane, low), self._where_sure(plane, high)
        return *_clamped(low, high), np.clip(guess, np.clip(low, 0, 255), np.clip(high, 0, 255))

    def _where_sure(self, plane: np.ndarray, other: np.ndarray | int) -> np.ndarray:
        return np.where(self.is_sure, plane, other)

    def _decode(self) -> None:
        """Set the components at all pixels, and where pixels are wrong."""
        luma, *both = self.jpeg.planes()
        height, width = self.shape
        self.full = [luma[:height, :width]]
        for component, plane in zip(self.components[1:], both):
            samples = plane[: component.size[0], : component.size[1]]
            self.full.append(decoding.upsampled(samples, height, width, self.sampling))
        self.wrong = (decoding.colours(*self.full) != self.pixels).any(-1) & self.is_there


def _clamped(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of samples before they were clamped."""
    return np.where(low <= 0, -fitting.OPEN, low), np.where(high >= 255, fitting.OPEN, high)
