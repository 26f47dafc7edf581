"""The samples of an image <-> samples of a simpler kind, its view. The step before split.py. A part of the .dqc format.

Each channel of the samples is kept, ranked, or left out:

    KEPT      the samples as they are
    COPY      left out: equal to an earlier channel, whose number is the mode minus COPY
    RANKED    each sample is replaced by its rank in a table of the values that occur. A channel of one value is left out
    ZERO      left out: all samples are 0
    FULL      left out: all samples are the largest value of the bit depth

At least one channel remains. If the map is `merged`, the remaining channels, none of them ranked, become one channel of
indices into a table of the colours that occur. The code of a map:

    2     modes   little-endian; bits 3 c to 3 c + 2: mode of channel c; bit 12: merged; others 0
    *     tables  of each ranked channel, or of the colours: varint n, at least 1, then n differences of each channel

Each difference is an entry minus the one before it (0 for the first), modulo 2^8, or modulo 2^16 if the bit depth is
16; the differences of a channel have their high bytes first, then their low bytes. Entries may have any order.

A view is a PNG of 1 to 4 channels, gray, gray and alpha, RGB or RGBA. Its bit depth is the smallest of 1, 2, 4, 8, 16
that holds all its samples; 8 or 16 if it has more than one channel.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.format import palette
from dqcodec.format.differences import differing, distinct
from dqcodec.png import Header, Png, Skeleton, color_types
from dqcodec.png.chunks import check_palette
from dqcodec.png.color_types import PALETTE

_KEPT, _COPY, _RANKED, _ZERO, _FULL = 0, 1, 5, 6, 7  # modes of a channel
_MALFORMED = "malformed values in the .dqc file"
MODES_BYTES = 2  # of the code of a map; the tables follow
_MERGED = 1 << 12
_MAX_MODES = 2 * _MERGED
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


class Values(IntEnum):
    """The view of an image that layers hold: its own samples, ranks of values, or indices of colours."""

    SAMPLES = 0
    RANKS = 1
    INDICES = 2


@dataclass(frozen=True, eq=False)
class Map:
    """The map from the samples of an image to its view: see the module.

    modes: of each channel. tables: of each ranked channel (n, 1), or one of the colours (n, C); uint8, or uint16 for 16
    bits.
    """

    header: Header
    modes: tuple[int, ...]
    tables: tuple[np.ndarray, ...] = ()
    is_merged: bool = False

    @property
    def kind(self) -> Values:
        """The kind of the view."""
        return Values.INDICES if self.is_merged else Values.RANKS

    def pack(self) -> bytes:
        """The code of the map."""
        modes = sum(mode << 3 * channel for channel, mode in enumerate(self.modes)) | _MERGED * self.is_merged
        return modes.to_bytes(MODES_BYTES, "little") + b"".join(map(_pack_table, self.tables))

    @classmethod
    def unpack(cls, code: bytes, header: Header) -> Map:
        """The inverse of pack. header: of the image. Raises CorruptError."""
        reader = Reader(code, error=_MALFORMED)
        number = int.from_bytes(reader.take(MODES_BYTES), "little")
        modes = tuple(number >> 3 * channel & 7 for channel in range(header.samples))
        is_merged = bool(number & _MERGED)
        is_sound = number == number & (_MERGED | (1 << 3 * header.samples) - 1)
        for channel, mode in enumerate(modes):
            if _COPY <= mode < _RANKED:
                is_sound &= mode - _COPY < channel and not _COPY <= modes[mode - _COPY] < _RANKED
            is_sound &= not (is_merged and mode == _RANKED)
        counts = [modes.count(_KEPT)] if is_merged else [1] * modes.count(_RANKED)
        if not is_sound or 0 in counts:
            raise CorruptError(_MALFORMED)
        tables = tuple(_read_table(reader, channels, header.bit_depth) for channels in counts)
        found = cls(header, modes, tables, is_merged)
        if reader.rest() or not found._kept:
            raise CorruptError(_MALFORMED)
        return found

    def view(self, skeleton: Skeleton) -> Skeleton:
        """The skeleton of the view of an image with this skeleton."""
        channels = 1 if self.is_merged else len(self._kept)
        largest = [len(table) - 1 for table in self.tables]
        if not self.is_merged and _KEPT in self.modes:
            largest.append((1 << self.header.bit_depth) - 1)
        bits = max(largest).bit_length()
        depth = next(depth for depth in ((1, 2, 4, 8, 16) if channels == 1 else (8, 16)) if bits <= depth)
        header = self.header._replace(color_type=color_types.OF_SAMPLES[channels], bit_depth=depth)
        return Skeleton(header, skeleton.parts)

    def apply(self, image: Png) -> Png:
        """The view of an image, whose samples the map fits."""
        skeleton = self.view(image.skeleton)
        dtype = np.uint16 if skeleton.header.bit_depth == 16 else np.uint8
        rasters = tuple(self._to_view(raster).astype(dtype, copy=False) for raster in image.rasters)
        return Png(skeleton.header, skeleton, rasters)

    def undo(self, view: Png, skeleton: Skeleton) -> Png:
        """The image with this skeleton: the inverse of apply. Raises CorruptError: a sample of the view is in no
        table."""
        check_palette(skeleton.header, skeleton.parts[0])
        return Png(skeleton.header, skeleton, tuple(map(self._from_view, view.rasters)))

    @cached_property
    def _ranked(self) -> dict[int, np.ndarray]:
        """The table of each ranked channel."""
        return dict(zip((channel for channel, mode in enumerate(self.modes) if mode == _RANKED), self.tables))

    @cached_property
    def _kept(self) -> list[int]:
        """The channels that are not left out."""
        return [
            channel
            for channel, mode in enumerate(self.modes)
            if mode == _KEPT or len(self._ranked.get(channel, ())) > 1
        ]

    def _to_view(self, samples: np.ndarray) -> np.ndarray:
        """Samples (H, W, C) -> samples of the view."""
        if self.is_merged:
            return _places(palette.numbers(self.tables[0]), palette.numbers(samples[..., self._kept]))[..., None]
        parts = [samples[..., channel] for channel in self._kept]
        tables = [self._ranked.get(channel) for channel in self._kept]
        ranks = [part if table is None else _places(table[:, 0], part) for part, table in zip(parts, tables)]
        return np.stack(ranks, axis=-1)

    def _from_view(self, view: np.ndarray) -> np.ndarray:
        """The inverse of _to_view; raises CorruptError."""
        samples = np.empty((*view.shape[:2], len(self.modes)), np.uint16 if self.header.bit_depth == 16 else np.uint8)
        if self.is_merged:
            samples[..., self._kept] = _looked_up(self.tables[0], view[..., 0])
        else:
            for place, channel in enumerate(self._kept):
                table, part = self._ranked.get(channel), view[..., place]
                samples[..., channel] = part if table is None else _looked_up(table, part)[..., 0]
        for channel, mode in enumerate(self.modes):
            if channel in self._kept:
                continue
            if mode == _RANKED:
                samples[..., channel] = self._ranked[channel]
            elif mode in (_ZERO, _FULL):
                samples[..., channel] = (1 << self.header.bit_depth) - 1 if mode == _FULL else 0
            else:
                samples[..., channel] = samples[..., mode - _COPY]
        return samples


@dataclass(frozen=True, eq=False)
class View:
    """An image as layers hold it. code: of the map, or b"" if the image is its own view."""

    image: Png
    code: bytes = b""


def views(image: Png) -> Mapping[Values, View]:
    """The views of an image that an encoder tries, the one that suits models best first.

    They are kept as long as the image, because the search in codec/choose.py asks for them many times.
    """
    if image not in _VIEWS:
        _VIEWS[image] = _find(image)
    return {kind: view or View(image) for kind, view in _VIEWS[image].items()}


def repeats_colors(image: Png) -> bool:
    """Whether an image of colours, not a very large one, has few for its pixels that differ from the left or upper neighbour."""
    if image not in _REPEATS:
        _REPEATS[image] = image.header.samples >= 3 and image.area <= _COUNTED_PIXELS and _repeats(image)
    return _REPEATS[image]


def _repeats(image: Png) -> bool:
    colors = np.concatenate([palette.numbers(raster).ravel() for raster in image.rasters])
    return distinct(colors) < _REPEATED * sum(int(differing(raster).sum()) for raster in image.rasters)


_REPEATS: weakref.WeakKeyDictionary[Png, bool] = weakref.WeakKeyDictionary()
# None stands for the image itself: a value that refers to its key would keep it.
_VIEWS: weakref.WeakKeyDictionary[Png, Mapping[Values, View | None]] = weakref.WeakKeyDictionary()


def _find(image: Png) -> dict[Values, View | None]:
    """The views; None for the image itself."""
    header, own = image.header, {Values.SAMPLES: None}
    if header.bit_depth < 8:
        return own
    if header.color_type == PALETTE:
        reordered = _reordered(image)
        return {Values.RANKS: reordered} | own if reordered else own
    modes = _modes(image)
    if _KEPT not in modes:  # all pixels are equal
        return own
    colors = _colors(image, modes) if modes.count(_KEPT) > 1 else None
    found = {}
    if colors is not None:
        merged = tuple(_KEPT if mode == _RANKED else mode for mode in modes)
        found[Values.INDICES] = _view(image, merged, (colors,), is_merged=True)
    else:
        modes = _ranked(image, modes)
    if any(modes):
        tables = [_present(image, channel) for channel, mode in enumerate(modes) if mode == _RANKED]
        found[Values.RANKS] = _view(image, tuple(modes), tuple(tables))
    is_small = sum(raster[..., 0].size for raster in image.rasters) <= _SMALL_PIXELS
    if colors is not None and len(colors) <= _FEW:
        return found | own if is_small else {Values.INDICES: found[Values.INDICES]}
    found = {kind: found[kind] for kind in (Values.RANKS, Values.INDICES) if kind in found}
    is_needless = Values.RANKS in found and not (is_small and any(len(table) > 1 for table in tables))
    is_needless &= not (header.bit_depth == 16 and repeats_colors(image))
    return found if is_needless else found | own


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
    found = [_view(image, (_RANKED,), (table[order],)) for order in (by_brightness, _chain(colors))]
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
            modes.append({0: _ZERO, (1 << image.header.bit_depth) - 1: _FULL}.get(value, _RANKED))
            continue
        equal = (
            other
            for other in range(channel)
            if modes[other] == _KEPT
            and all(np.array_equal(raster[0, :, other], part[0]) for raster, part in zip(image.rasters, parts))
            and all(np.array_equal(raster[..., other], part) for raster, part in zip(image.rasters, parts))
        )
        modes.append(next((_COPY + other for other in equal), _KEPT))
    return modes


def _ranked(image: Png, modes: list[int]) -> list[int]:
    """The modes, with the gray or colour channels ranked if their ranks are much cheaper, by an estimate.

    The ranks of the colours of an image are more alike if all are ranked.
    """
    colors = [channel for channel in range(image.header.samples - (image.header.samples in (2, 4)))]
    colors = [channel for channel in colors if modes[channel] == _KEPT]
    is_lone = modes.count(_KEPT) == len(colors) == 1
    if not colors or not (
        is_lone
        and len(_present(image, colors[0])) <= _FEW
        or sum(_saved_bits(image, channel) for channel in colors) > 0
    ):
        return modes
    return [_RANKED if channel in colors else mode for channel, mode in enumerate(modes)]


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
    unit = 257 if image.header.bit_depth == 16 and not (present % 257).any() else 1  # see SCALED in split.py
    saved = np.log2(np.maximum(1, np.gradient(present / unit)))
    table_bytes = len(zlib.compress(_pack_table(_present(image, channel)), 9))
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
    channels = [channel for channel, mode in enumerate(modes) if mode in (_KEPT, _RANKED)]
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
    return colors[_chain(colors)]


def _chain(colors: np.ndarray) -> np.ndarray:
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


def _places(table: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The place of each of `wanted` in a table (n,) of distinct numbers."""
    if table.dtype.itemsize <= 2:
        inverse = np.zeros(1 << 8 * table.dtype.itemsize, np.uint16)
        inverse[table] = np.arange(len(table))
        return inverse[wanted]
    order = np.argsort(table)
    return order[np.searchsorted(table[order], wanted)]


def _looked_up(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The entries (..., C) at places (...); raises CorruptError."""
    if places.max() >= len(table):
        raise CorruptError("a decoded sample is in no table of values")
    return table[places]


def _pack_table(table: np.ndarray) -> bytes:
    """The code of a table (n, C) uint8 or uint16."""
    differences = np.diff(table, axis=0, prepend=table.dtype.type(0))  # wraps
    planes = differences.astype(table.dtype.newbyteorder(">")).view(np.uint8).reshape(len(table), -1)
    return write_varint(len(table)) + planes.T.tobytes()


def _read_table(reader: Reader, channels: int, bit_depth: int) -> np.ndarray:
    """The table (n, channels): the inverse of _pack_table. Raises CorruptError."""
    count = reader.varint()
    dtype = np.dtype(np.uint16 if bit_depth == 16 else np.uint8)
    if not 0 < count <= 1 << 16:
        raise CorruptError(_MALFORMED)
    planes = np.frombuffer(reader.take(count * channels * dtype.itemsize), np.uint8).reshape(-1, count)
    differences = np.ascontiguousarray(planes.T).view(dtype.newbyteorder(">")).astype(dtype)
    table = np.cumsum(differences, axis=0, dtype=dtype)
    if bit_depth < 8 and table.max() >= 1 << bit_depth:
        raise CorruptError(_MALFORMED)
    return table
