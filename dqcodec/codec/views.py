"""The views of an image that an encoder tries: its own samples, and simpler ones by ranks of
values or indices of colours.

format/values.py says what a view is. Which may be smaller is estimated from the samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.codec.differences import differing, distinct
from dqcodec.format import palette
from dqcodec.format.values import COPY, FULL, KEPT, RANKED, ZERO, Map, Values, pack_table
from dqcodec.png import Png
from dqcodec.png.color_types import PALETTE

_FEW = 16  # values or colours: a layer of at most 4 bits
_MAX_COLORS = 1 << 12  # more colours make no palette; their order takes a time that grows with the square
_PIXELS_PER_COLOR = 8  # with fewer, the table costs more than the indices save
_PROBE_PIXELS = 1 << 15  # a palette is sought only if these pixels have few colours
_SMALL_PIXELS = 1 << 16  # of smaller images, all views are tried
_LEAST_GAIN = 0.05  # bits a sample that ranks must save beyond their table, by an estimate
_DENSE = 15 / 16  # of the values between the least and the largest: if more occur, ranks save little
_COUNTED_PIXELS = 1 << 21  # to count the colours of more takes long
_REPEATED = 0.3  # colours for each pixel that differs from a neighbour; photographs have more
_MAX_VALUES = 1 << 15  # more values in a table are not worth their bytes


@dataclass(frozen=True, eq=False)
class View:
    """An image as layers hold it. code: of the map, or b"" if the image is its own view."""

    image: Png
    code: bytes = b""


def find_views(image: Png) -> dict[Values, View]:
    """The views of an image that an encoder tries, the one that suits models best first."""
    header, own = image.header, {Values.SAMPLES: View(image)}
    if header.bit_depth < 8:
        return own
    if header.color_type == PALETTE:
        reordered = _reordered(image)
        return {Values.RANKS: reordered} | own if reordered else own
    modes = _modes(image)
    if KEPT not in modes:  # all pixels are equal
        return own
    colors = _colors(image, modes) if modes.count(KEPT) > 1 else None
    found = {}
    if colors is not None:
        merged = tuple(KEPT if mode == RANKED else mode for mode in modes)
        found[Values.INDICES] = _view(image, merged, (colors,), is_merged=True)
    else:
        modes = _with_ranks(image, modes)
    if any(modes):
        tables = [_present(image, channel) for channel, mode in enumerate(modes) if mode == RANKED]
        found[Values.RANKS] = _view(image, tuple(modes), tuple(tables))
    is_small = sum(raster[..., 0].size for raster in image.rasters) <= _SMALL_PIXELS
    if colors is not None and len(colors) <= _FEW:
        return found | own if is_small else {Values.INDICES: found[Values.INDICES]}
    found = {kind: found[kind] for kind in (Values.RANKS, Values.INDICES) if kind in found}
    is_useful = Values.RANKS not in found or (is_small and any(len(table) > 1 for table in tables))
    is_useful = is_useful or (header.bit_depth == 16 and repeats_colors(image))
    return found | own if is_useful else found


def repeats_colors(image: Png) -> bool:
    """Whether an image of colours, not a very large one, has few for its pixels that differ
    from the left or upper neighbour.
    """
    if image.header.samples < 3 or image.area > _COUNTED_PIXELS:
        return False
    colors = np.concatenate([palette.numbers(raster).ravel() for raster in image.rasters])
    return distinct(colors) < _REPEATED * sum(int(differing(raster).sum()) for raster in image.rasters)


def _reordered(image: Png) -> View | None:
    """A palette image with its colours in another order: by brightness, then alpha, or in a chain.

    None if neighbours are hardly more alike then, by an estimate, or if a 4-bit view would hold all colours.
    """
    try:
        entries = palette.table(image.skeleton).astype(np.int64)
    except CorruptError:
        return None
    table = _present(image, 0)
    if len(table) <= _FEW or table[-1, 0] >= len(entries):
        return None
    colors = entries[table[:, 0]]
    alpha = colors[:, 3] if colors.shape[1] == 4 else np.ones(len(colors), np.int64)
    by_brightness = np.lexsort((alpha, palette.brightness(*colors[:, :3].T) * alpha))
    found = [_view(image, (RANKED,), (table[order],)) for order in (by_brightness, chain(colors))]
    bits = {_step_bits(view.image) + 8 * len(zlib.compress(view.code, 9)): view for view in found}
    saved = _step_bits(image) - min(bits)
    return bits[min(bits)] if saved > _LEAST_GAIN * sum(raster.size for raster in image.rasters) else None


def _step_bits(image: Png) -> float:
    """About the bits of the differences between neighbours in a row."""
    return sum(float(np.log2(1 + abs(np.diff(raster.astype(np.int16), axis=1))).sum()) for raster in image.rasters)


def _view(image: Png, modes: tuple[int, ...], tables: tuple[np.ndarray, ...], *, is_merged: bool = False) -> View:
    found = Map(image.header, modes, tables, is_merged)
    return View(found.apply(image), found.pack())


def _modes(image: Png) -> list[int]:
    """The mode of each channel, if none with more than one value is ranked."""
    modes: list[int] = []
    for channel in range(image.header.samples):
        parts = [raster[..., channel] for raster in image.rasters]
        value = int(parts[0][0, 0])
        if all((part[0] == value).all() and (part == value).all() for part in parts):
            modes.append({0: ZERO, (1 << image.header.bit_depth) - 1: FULL}.get(value, RANKED))
            continue
        equal = (
            other
            for other in range(channel)
            if modes[other] == KEPT
            and all(np.array_equal(raster[0, :, other], part[0]) for raster, part in zip(image.rasters, parts))
            and all(np.array_equal(raster[..., other], part) for raster, part in zip(image.rasters, parts))
        )
        modes.append(next((COPY + other for other in equal), KEPT))
    return modes


def _with_ranks(image: Png, modes: list[int]) -> list[int]:
    """The modes, with the gray or colour channels ranked if their ranks are much cheaper, by an estimate.

    The ranks of the colours of an image are more alike if all are ranked.
    """
    count = image.header.samples - (image.header.samples in (2, 4))  # without alpha
    colors = [channel for channel in range(count) if modes[channel] == KEPT]
    is_lone = modes.count(KEPT) == len(colors) == 1
    if not colors or not (
        is_lone
        and len(_present(image, colors[0])) <= _FEW
        or sum(_saved_bits(image, channel) for channel in colors) > 0
    ):
        return modes
    return [RANKED if channel in colors else mode for channel, mode in enumerate(modes)]


def _saved_bits(image: Png, channel: int) -> float:
    """The bits that ranks of a channel save, by an estimate, less those of the table and what makes the change
    worthwhile.

    A sample among values of a mean distance d costs log2 d bits more than its rank, where the prediction does not know
    which values occur. Samples that equal their left neighbours cost nothing either way.
    """
    present = _present(image, channel)[:, 0].astype(np.int64)
    span = present[-1] - present[0] + 1
    if len(present) > min(_MAX_VALUES, _DENSE * span):
        return 0.0
    parts = [raster[..., channel] for raster in image.rasters]
    changed = np.concatenate([part[:, 1:][part[:, 1:] != part[:, :-1]] for part in parts])
    unit = 257 if image.header.bit_depth == 16 and not (present % 257).any() else 1  # see Step.SCALED
    saved = np.log2(np.maximum(1, np.gradient(present / unit)))
    table_bytes = len(zlib.compress(pack_table(_present(image, channel)), 9))
    counts = np.bincount(changed, minlength=1 << image.header.bit_depth)[present]
    return float(counts @ saved) - 8 * table_bytes - _LEAST_GAIN * sum(part.size for part in parts)


def _present(image: Png, channel: int) -> np.ndarray:
    """The table (n, 1) of the values of a channel, ascending."""
    size = 1 << image.header.bit_depth
    histogram = sum(np.bincount(raster[..., channel].ravel(), minlength=size) for raster in image.rasters)
    return histogram.nonzero()[0].astype(image.pixels.dtype)[:, None]


def _colors(image: Png, modes: Sequence[int]) -> np.ndarray | None:
    """The colours (n, C) of the channels that are not left out as ZERO, FULL or COPY, in a good order for indices; None
    if there are too many."""
    channels = [channel for channel, mode in enumerate(modes) if mode in (KEPT, RANKED)]
    flat = [raster.reshape(-1, raster.shape[2]) for raster in image.rasters]
    pixels = sum(map(len, flat))
    most = min(_MAX_COLORS, pixels // _PIXELS_PER_COLOR)
    step = -(-pixels // _PROBE_PIXELS)
    if len(np.unique(np.concatenate([palette.numbers(part[::step, channels]) for part in flat]))) > most:
        return None
    numbers = np.concatenate([palette.numbers(part[:, channels]) for part in flat])
    found, first = np.unique(numbers, return_index=True)
    if len(found) > most:
        return None
    colors = np.concatenate([part[:, channels] for part in flat])[first]
    return colors[chain(colors)]


def chain(colors: np.ndarray) -> np.ndarray:
    """The order of colours (n, C) in a chain from the darkest on: the nearest of the other colours follows each."""
    left, places, order = colors.T.astype(float), np.arange(len(colors)), []
    squares = (left**2).sum(0)
    at = int(left.sum(0).argmin())
    for last in range(len(colors) - 1, -1, -1):
        order.append(places[at])
        color = left[:, at].copy()
        for each in (left.T, places, squares):
            each[at] = each[last]
        if last:  # whole numbers below 2^53: exact
            at = int((squares[:last] - 2 * color @ left[:, :last]).argmin())
    return np.array(order)
