"""A PNG file byte for byte: a recipe to pack its samples and chunks exactly as before.

Most programs compress with zlib. If a setting of its deflate gives the same stream as the file, a short recipe restores
the file's bytes. The recipe is a part of the .dqc format (in short; docs/format.md is the complete specification):

    1    packing     bit 0 interlace; bits 1-4 level; bit 5 memLevel: 8, or 9 if set
    1    deflate     bits 0-2 strategy; bits 3-6 window bits, as given to zlib
    2    header      the first two bytes of the zlib stream
    8    checksum    first 8 bytes of the file's SHA-256
    *    IDAT        varint n, the number of IDAT chunks; 0 means one chunk. If n > 1, the sizes of all chunks except
                     the last follow: a varint size + 1 for each; or, if they are equal, a varint 0 and a varint size.
                     The last chunk has the rest of the stream
    1    filters     0 to 4: the filter of all rows. 5: a number in base 5 follows, little-endian; the lowest digit is
                     the filter of the first row. 6: a raw deflate stream follows, with one byte for each row
    *

Animations have no recipe.

A recipe needs zlib's own deflate; versions 1.2.8 to 1.3.1 give the same streams. zlib-ng and other implementations give
different streams. On a machine with one of these, no recipes are made, and files are stored. Such a machine cannot use
a recipe either: the checksum differs, which is an error. It can still decode the image, with a new packing.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.png import Png, chunks, samples
from dqcodec.png.filters import FILTERS

_CHECKSUM_BYTES = 8
_PREFIX_BYTES = 1 << 17  # a setting is first tried on these bytes; deflate then writes at least one block
_BASE_5, _DEFLATED = 5, 6
_MAX_ROWS_BASE_5 = 4096  # converting longer numbers is slow
_MALFORMED = "malformed recipe in the .dqc file"
_ZLIBS_OWN = "09bb265c0b2ed9b7"  # checksum of the streams that zlib's own deflate makes in `is_zlibs_own`


class _Setting(NamedTuple):
    """The arguments of zlib's deflateInit2."""

    level: int
    window_bits: int
    memory_level: int
    strategy: int

    def compressor(self) -> zlib._Compress:
        """A compressor with this setting."""
        return zlib.compressobj(self.level, zlib.DEFLATED, self.window_bits, self.memory_level, self.strategy)

    def deflate(self, data: bytes) -> bytes:
        """The stream without zlib's header."""
        stream = self.compressor()
        return (stream.compress(data) + stream.flush())[2:]


def find(data: bytes, image: Png) -> bytes | None:
    """The recipe for the PNG file `data`, which was read as `image`.

    None if no setting gives the file's stream, or if this machine's zlib is not the usual one.
    """
    if image.skeleton is None or len(image.rasters) > 1 or not is_zlibs_own():
        return None
    structure = chunks.parse(data, image.header.width * image.header.height)
    size, pieces = (image.header.height, image.header.width), structure.streams[0]
    filtered, _ = samples.inflate(pieces, size, image.header, structure.interlace)
    kinds = np.concatenate([part[:, 0] for part in filtered])
    stream = b"".join(pieces)
    setting = _find_setting(b"".join(part.tobytes() for part in filtered), stream)
    if setting is None:
        return None
    packing = structure.interlace | setting.level << 1 | (setting.memory_level == 9) << 5
    deflate = setting.strategy | setting.window_bits << 3
    fields = [bytes([packing, deflate]), stream[:2], _checksum(data), _pack_cuts([len(piece) for piece in pieces])]
    recipe = b"".join([*fields, _pack_kinds(kinds)])
    try:
        return recipe if restore(image, recipe) == data else None
    except CorruptError:  # for example, padding bits of a row are not zero; no recipe holds them
        return None


def restore(image: Png, recipe: bytes) -> bytes:
    """The PNG file that the recipe was made for.

    Raises CorruptError: the result differs from that file. This machine's zlib gives other streams, or the recipe is
    damaged.
    """
    if len(image.rasters) > 1:
        raise CorruptError(_MALFORMED)
    reader = Reader(recipe, error=_MALFORMED)
    packing, deflate, header, checksum = reader.byte(), reader.byte(), reader.take(2), reader.take(_CHECKSUM_BYTES)
    if packing >> 6 or deflate >> 7:
        raise CorruptError(_MALFORMED)
    interlace = packing & 1
    setting = _Setting(packing >> 1 & 15, deflate >> 3, 9 if packing >> 5 else 8, deflate & 7)
    cuts = _read_cuts(reader)
    rows = samples.to_rows(image.pixels, image.header, interlace)
    kinds = _unpack_kinds(reader.rest(), sum(map(len, rows)))
    ends = list(itertools.accumulate(map(len, rows)))
    filtered = samples.filtered(rows, np.split(kinds, ends[:-1]), image.header)
    try:
        stream = header + setting.deflate(filtered)
    except ValueError as error:
        raise CorruptError(_MALFORMED) from error
    if sum(cuts) > len(stream):
        raise CorruptError(_MALFORMED)
    starts = [0, *itertools.accumulate(cuts)]
    pieces = [stream[start:stop] for start, stop in zip(starts, [*starts[1:], len(stream)])]
    data = chunks.assemble(image.skeleton, [pieces], interlace)
    if _checksum(data) != checksum:
        other = f"this needs zlib's own deflate, and {zlib.ZLIB_RUNTIME_VERSION} here is another"
        cause = "the recipe is damaged" if is_zlibs_own() else other
        advice = "--repack gives the image, packed anew"
        raise CorruptError(f"the PNG file cannot be restored byte for byte: {cause} ({advice})")
    return data


@functools.cache
def is_zlibs_own() -> bool:
    """Whether this machine's zlib gives the same streams as the original zlib, tested on 64 KiB."""
    noise = np.frombuffer(hashlib.shake_256(b"dqcodec").digest(1 << 16), np.uint8)
    probe = ((noise & 7) * (np.arange(1 << 16) >> 6 & 31)).astype(np.uint8).tobytes()
    settings = [_Setting(level, 15, 8, zlib.Z_DEFAULT_STRATEGY) for level in range(1, 10)]
    strategies = (zlib.Z_FILTERED, zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED)
    settings += [_Setting(6, 15, 9, strategy) for strategy in strategies]
    return _checksum(b"".join(setting.deflate(probe) for setting in settings)).hex() == _ZLIBS_OWN


def _find_setting(filtered: bytes, stream: bytes) -> _Setting | None:
    """The setting that compresses `filtered` to the zlib stream, or None."""
    for setting in _settings(stream):
        start = setting.compressor().compress(filtered[:_PREFIX_BYTES])[2:]
        if stream[2:].startswith(start) and setting.deflate(filtered) == stream[2:]:
            return setting
    return None


def _settings(stream: bytes) -> Iterator[_Setting]:
    """The possible settings, likely ones first. zlib's header gives the window and, roughly, the level."""
    level_class = stream[1] >> 6
    levels = sorted(range(1, 10), key=lambda level: (level_class != (level > 1) + (level > 5) + (level > 6), -level))
    windows = dict.fromkeys((max(9, (stream[0] >> 4) + 8), 15))
    for window_bits, level, strategy, memory_level in itertools.product(
        windows, levels, (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED), (8, 9)
    ):
        yield _Setting(level, window_bits, memory_level, strategy)
    for window_bits, strategy, memory_level in itertools.product(
        windows, (zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED), (8, 9)
    ):
        yield _Setting(6, window_bits, memory_level, strategy)


def _pack_cuts(sizes: list[int]) -> bytes:
    """The field IDAT of the module's docstring, for chunks of these sizes."""
    *first, last = sizes
    if not first:
        return write_varint(0)
    if len(set(first)) == 1 and first[0]:
        return write_varint(len(sizes)) + write_varint(0) + write_varint(first[0])
    return write_varint(len(sizes)) + b"".join(write_varint(size + 1) for size in first)


def _read_cuts(reader: Reader) -> list[int]:
    """The bytes of each chunk except the last: the inverse of _pack_cuts."""
    count = reader.varint()
    if count < 2:
        return []
    first = reader.varint()
    if first == 0:
        size = reader.varint()
        if not size or count > 1 << 20:
            raise CorruptError(_MALFORMED)
        return [size] * (count - 1)
    sizes = [first, *(reader.varint() for _ in range(count - 2))]
    if 0 in sizes:
        raise CorruptError(_MALFORMED)
    return [size - 1 for size in sizes]


def _pack_kinds(kinds: np.ndarray) -> bytes:
    """The field filters of the module's docstring. kinds: the filter of each row, (H,) uint8."""
    if (kinds == kinds[0]).all():
        return bytes(kinds[:1])
    deflate = zlib.compressobj(9, wbits=-15)
    packed = bytes([_DEFLATED]) + deflate.compress(kinds.tobytes()) + deflate.flush()
    if len(kinds) <= _MAX_ROWS_BASE_5:
        number = int("".join(map(str, kinds[::-1])), FILTERS)
        packed = min(packed, bytes([_BASE_5]) + number.to_bytes(-(-number.bit_length() // 8), "little"), key=len)
    return packed


def _unpack_kinds(code: bytes, count: int) -> np.ndarray:
    """The filter of each row, (count,) uint8."""
    form, rest = code[:1], code[1:]
    kinds = b""
    if form and form[0] < FILTERS:
        kinds = form * count
    elif form == bytes([_BASE_5]) and count <= _MAX_ROWS_BASE_5 and 8 * len(rest) <= 3 * count + 8:
        digits = np.base_repr(int.from_bytes(rest, "little"), FILTERS)[::-1].ljust(count, "0")
        kinds = bytes(map(int, digits))
    elif form == bytes([_DEFLATED]):
        inflater = zlib.decompressobj(-15)
        try:
            kinds = inflater.decompress(rest, count + 1)
        except zlib.error as error:
            raise CorruptError(_MALFORMED) from error
        if not inflater.eof or inflater.unused_data:
            raise CorruptError(_MALFORMED)
    if len(kinds) != count or max(kinds) >= FILTERS:
        raise CorruptError(_MALFORMED)
    return np.frombuffer(kinds, np.uint8)


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:_CHECKSUM_BYTES]
