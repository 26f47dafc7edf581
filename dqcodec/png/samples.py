"""Compressed image data of a PNG <-> samples (H, W, C), exactly as stored: uint8, or uint16 if they have 16 bits.

Decoding inflates the stream, undoes the row filters, unpacks bits, and joins the passes of an interlaced image.
Encoding does the inverse. `rows` are the rows of a raster as bytes: a list of arrays (h, bytes) uint8. It has one
array, or one for each pass of an interlaced image that is not empty.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.threads import map_in_threads
from dqcodec.png import filters
from dqcodec.png.color_types import PALETTE
from dqcodec.png.skeleton import Header

# (top, left, steps down, steps right) of the pixels of each pass: without and with Adam7
_PASSES = (
    ((0, 0, 1, 1),),
    ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)),
)
_BAND_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_WINDOW_BYTES = 1 << zlib.MAX_WBITS
_ZLIB_HEADER = bytes((0x78, 0xDA))  # deflate with a window of 2^15 bytes; the level is a hint
_TRIAL_BYTES = 1 << 16  # of the rows that choose filters and strategy
# by strategy: at level 9, filtered noise takes much longer, and gains little
_LEVELS = {zlib.Z_DEFAULT_STRATEGY: 9, zlib.Z_FILTERED: 6}
_ZLIB_MAX_RATIO = 1032  # the largest compression ratio of deflate


def decode(
    pieces: Sequence[memoryview], size: tuple[int, int], header: Header, interlace: int
) -> tuple[np.ndarray, bool]:
    """Decode a raster of `size`, (height, width). Returns (samples, whether the stream has nothing else).

    Raises CorruptError: the stream is damaged or too short.
    """
    filtered, is_tidy = inflate(pieces, size, header, interlace)
    distance = _distance(header)
    return _from_rows([filters.undo(part, distance) for part in filtered], size, header, interlace), is_tidy


def encode(samples: np.ndarray, header: Header) -> bytes:
    """The zlib stream of a raster, not interlaced.

    With the best filter for each row or without filters, and with one of two strategies of zlib:
    what makes the rows in the middle smallest.
    """
    (rows,) = to_rows(samples, header, 0)
    distance = _distance(header)
    kinds = [np.zeros(len(rows), np.uint8)]
    if header.color_type != PALETTE and header.bit_depth >= 8:  # filters do not help other images
        kinds.append(filters.smallest(rows, distance))

    def deflated(part: slice, filters_of_rows: np.ndarray, strategy: int) -> list[bytes]:
        return _deflate(filters.apply(rows[part], filters_of_rows[part], distance).reshape(-1), strategy)

    count = max(1, _TRIAL_BYTES * len(rows) // rows.nbytes)
    first = max(0, len(rows) - count) // 2
    middle, tries = slice(first, first + count), itertools.product(kinds, _LEVELS)
    best = min(tries, key=lambda each: sum(map(len, deflated(middle, *each))))
    return b"".join(deflated(slice(None), *best))


def _deflate(data: np.ndarray, strategy: int) -> list[bytes]:
    """The zlib stream (RFC 1950) of bytes (N,), in pieces that threads deflate. A piece refers to the bytes before it."""

    def piece(start: int) -> bytes:
        stop, window = start + _PIECE_BYTES, data[max(0, start - _WINDOW_BYTES) : start]
        dictionary = {"zdict": window.tobytes()} if start else {}
        stream = zlib.compressobj(_LEVELS[strategy], wbits=-zlib.MAX_WBITS, strategy=strategy, **dictionary)
        end = zlib.Z_FINISH if stop >= len(data) else zlib.Z_SYNC_FLUSH
        return stream.compress(data[start:stop]) + stream.flush(end)

    starts = range(0, len(data), _PIECE_BYTES)
    pieces = map_in_threads(piece, starts, [1] * len(starts))
    return [_ZLIB_HEADER, *pieces, zlib.adler32(data).to_bytes(4, "big")]


def inflate(
    pieces: Sequence[memoryview], size: tuple[int, int], header: Header, interlace: int
) -> tuple[list[np.ndarray], bool]:
    """Returns (filtered rows, each (h, 1 + bytes) uint8, whether the stream has nothing else).

    Raises CorruptError: the stream is damaged or too short.
    """
    shapes = [(height, 1 + _row_bytes(width, header)) for height, width in _pass_sizes(size, interlace)]
    total = sum(height * width for height, width in shapes)
    if total > _ZLIB_MAX_RATIO * sum(map(len, pieces)):
        raise CorruptError("PNG image data is too short for its size")
    stream, data = zlib.decompressobj(), bytearray()
    try:
        for piece in pieces:
            data += stream.decompress(stream.unconsumed_tail + piece, total + 1 - len(data))
            if len(data) > total or stream.eof:
                break
    except zlib.error as error:
        raise CorruptError(f"PNG image data is damaged ({error})") from error
    if len(data) < total:
        raise CorruptError("PNG image data is too short")
    is_tidy = len(data) == total and stream.eof and not stream.unused_data and piece is pieces[-1]
    parts, position, flat = [], 0, np.frombuffer(data, np.uint8)
    for height, width in shapes:
        parts.append(flat[position : position + height * width].reshape(height, width))
        position += height * width
        if parts[-1][:, 0].max() >= filters.FILTERS:
            raise CorruptError("PNG image data is damaged (unknown filter)")
    return parts, is_tidy


def bands(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Rows (H, ...) in groups of about 1 MiB, for work that needs as much memory as its input."""
    step = max(1, _BAND_BYTES * len(rows) // max(1, rows.nbytes))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def to_rows(samples: np.ndarray, header: Header, interlace: int) -> list[np.ndarray]:
    """Samples -> rows, see the module."""
    passes = (samples[top::down, left::right] for top, left, down, right in _PASSES[interlace])
    return [_pack(part, header) for part in passes if part.size]


def filtered(rows: Sequence[np.ndarray], kinds: Sequence[np.ndarray], header: Header) -> bytes:
    """The uncompressed content of a zlib stream: these rows, each array filtered by its kinds (h,) uint8."""
    return b"".join(filters.apply(part, each, _distance(header)).tobytes() for part, each in zip(rows, kinds))


def _from_rows(rows: list[np.ndarray], size: tuple[int, int], header: Header, interlace: int) -> np.ndarray:
    """The inverse of to_rows."""
    if not interlace:
        return _unpack(rows[0], (*size, header.samples), header.bit_depth)
    samples = np.empty((*size, header.samples), np.uint16 if header.bit_depth == 16 else np.uint8)
    rows = iter(rows)
    for top, left, down, right in _PASSES[interlace]:
        part = samples[top::down, left::right]
        if part.size:
            part[:] = _unpack(next(rows), part.shape, header.bit_depth)
    return samples


def _unpack(rows: np.ndarray, shape: tuple[int, int, int], bit_depth: int) -> np.ndarray:
    """Rows (h, bytes) uint8 -> samples of `shape`, (h, w, C)."""
    if bit_depth == 16:
        return rows.view(">u2").astype(np.uint16).reshape(shape)
    if bit_depth < 8:
        rows = rows[..., None] >> np.arange(8 - bit_depth, -1, -bit_depth, dtype=np.uint8) & (1 << bit_depth) - 1
        rows = rows.reshape(shape[0], -1)[:, : shape[1]]
    return rows.reshape(shape)


def _pack(samples: np.ndarray, header: Header) -> np.ndarray:
    """The inverse of _unpack."""
    height = len(samples)
    rows = samples.reshape(height, -1)
    if header.bit_depth == 16:
        return np.ascontiguousarray(rows).astype(">u2").view(np.uint8)
    if header.bit_depth < 8:
        per_byte = 8 // header.bit_depth
        rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % per_byte))).reshape(height, -1, per_byte)
        shifts = np.arange(8 - header.bit_depth, -1, -header.bit_depth, dtype=np.uint8)
        rows = np.bitwise_or.reduce(rows << shifts, axis=2)
    return np.ascontiguousarray(rows)


def _pass_sizes(size: tuple[int, int], interlace: int) -> list[tuple[int, int]]:
    """(height, width) of each pass that is not empty."""
    height, width = size
    sides = ((-(-(height - top) // down), -(-(width - left) // right)) for top, left, down, right in _PASSES[interlace])
    return [side for side in sides if min(side) > 0]


def _row_bytes(width: int, header: Header) -> int:
    """Bytes of a row of `width` pixels, without the filter."""
    return -(-width * header.samples * header.bit_depth // 8)


def _distance(header: Header) -> int:
    """Bytes from a pixel to the next, at least 1."""
    return max(1, header.samples * header.bit_depth // 8)
