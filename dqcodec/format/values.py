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

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.format import palette
from dqcodec.png import Header, Png, Skeleton, color_types
from dqcodec.png.skeleton import check_palette

KEPT, COPY, RANKED, ZERO, FULL = 0, 1, 5, 6, 7  # modes of a channel
_MALFORMED = "malformed values in the .dqc file"
MODES_BYTES = 2  # of the code of a map; the tables follow
_MERGED = 1 << 12


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
        return modes.to_bytes(MODES_BYTES, "little") + b"".join(map(pack_table, self.tables))

    @classmethod
    def unpack(cls, code: bytes, header: Header) -> Map:
        """The inverse of pack. header: of the image. Raises CorruptError."""
        reader = Reader(code, error=_MALFORMED)
        number = int.from_bytes(reader.take(MODES_BYTES), "little")
        modes = tuple(number >> 3 * channel & 7 for channel in range(header.samples))
        is_merged = bool(number & _MERGED)
        is_sound = number == number & (_MERGED | (1 << 3 * header.samples) - 1)
        for channel, mode in enumerate(modes):
            if COPY <= mode < RANKED:
                is_sound &= mode - COPY < channel and not COPY <= modes[mode - COPY] < RANKED
            is_sound &= not (is_merged and mode == RANKED)
        counts = [modes.count(KEPT)] if is_merged else [1] * modes.count(RANKED)
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
        if not self.is_merged and KEPT in self.modes:
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
        return dict(zip((channel for channel, mode in enumerate(self.modes) if mode == RANKED), self.tables))

    @cached_property
    def _kept(self) -> list[int]:
        """The channels that are not left out."""
        return [
            channel for channel, mode in enumerate(self.modes) if mode == KEPT or len(self._ranked.get(channel, ())) > 1
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
            if mode == RANKED:
                samples[..., channel] = self._ranked[channel]
            elif mode in (ZERO, FULL):
                samples[..., channel] = (1 << self.header.bit_depth) - 1 if mode == FULL else 0
            else:
                samples[..., channel] = samples[..., mode - COPY]
        return samples


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


def pack_table(table: np.ndarray) -> bytes:
    """The code of a table (n, C) uint8 or uint16."""
    differences = np.diff(table, axis=0, prepend=table.dtype.type(0))  # wraps
    planes = differences.astype(table.dtype.newbyteorder(">")).view(np.uint8).reshape(len(table), -1)
    return write_varint(len(table)) + planes.T.tobytes()


def _read_table(reader: Reader, channels: int, bit_depth: int) -> np.ndarray:
    """The table (n, channels): the inverse of pack_table. Raises CorruptError."""
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
