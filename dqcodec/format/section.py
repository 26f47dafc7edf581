"""Sections: bytes in the smallest of some packings, raw, deflate with one of two dictionaries, or LZMA."""

from __future__ import annotations

import lzma
import zlib

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.png import dictionary

RAW = 1  # the packing of bytes as they are
_DEFLATE, _LZMA, _PROFILES = 2, 3, 4
_DICTIONARIES = {_DEFLATE: dictionary.TEXTS, _PROFILES: dictionary.PROFILES}
_MAX_RAW_BYTES, _MIN_LZMA_BYTES = 1 << 26, 1 << 11
LZMA_FILTERS = [{"id": lzma.FILTER_LZMA1, "preset": 9, "lc": 3, "lp": 0, "pb": 0, "dict_size": 1 << 20}]
_MAX_NOISE_BYTES = 1 << 20  # LZMA takes a second; longer noise is not tried
_ODD = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: multiplying by it hashes a word


def pack_section(raw: bytes) -> tuple[int, bytes]:
    """The smallest (packing, section) of bytes."""
    sections = {RAW: raw}
    if len(raw) <= _MAX_RAW_BYTES:
        for packing, texts in _DICTIONARIES.items():
            deflate = zlib.compressobj(9, wbits=-15, zdict=texts)
            sections[packing] = write_varint(len(raw)) + deflate.compress(raw) + deflate.flush()
        is_hopeless = len(raw) > _MAX_NOISE_BYTES and len(sections[_DEFLATE]) >= len(raw) and not _has_repeats(raw)
        if len(raw) >= _MIN_LZMA_BYTES and not is_hopeless:
            sections[_LZMA] = write_varint(len(raw)) + lzma.compress(raw, lzma.FORMAT_RAW, filters=LZMA_FILTERS)
    smallest = min(sections, key=lambda each: len(sections[each]))
    return smallest, write_varint(len(sections[smallest])) + sections[smallest]


def read_section(reader: Reader, packing: int) -> bytes:
    """Read and unpack a section.

    Raises CorruptError: it is damaged, or it unpacks to more than 64 MiB, or to more than the reader has left.
    """
    section = reader.take(reader.varint())
    if packing == RAW:
        return section
    if packing not in (*_DICTIONARIES, _LZMA):
        raise CorruptError("a section of the .dqc file has an unknown packing")
    inner = Reader(section)
    raw_bytes = inner.varint()
    reader.allowance.unpacked -= raw_bytes
    if raw_bytes > _MAX_RAW_BYTES or reader.allowance.unpacked < 0:
        raise CorruptError("the .dqc file unpacks to too many bytes")
    stream: zlib._Decompress | lzma.LZMADecompressor
    if packing in _DICTIONARIES:
        stream = zlib.decompressobj(-15, _DICTIONARIES[packing])
    else:
        stream = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=LZMA_FILTERS)
    try:
        raw = stream.decompress(inner.rest(), raw_bytes + 1)
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise CorruptError("a section of the .dqc file is damaged") from error
    if len(raw) != raw_bytes or not stream.eof or stream.unused_data:
        raise CorruptError("a section of the .dqc file is damaged")
    return raw


def pack_tagged(raw: bytes) -> bytes:
    """A byte, the packing, and the smallest section of bytes."""
    packing, section = pack_section(raw)
    return bytes([packing]) + section


def read_tagged(header: bytes) -> Reader:
    """A reader of what pack_tagged packed; raises CorruptError."""
    reader = Reader(header)
    raw = read_section(reader, reader.byte())
    if reader.rest():
        raise CorruptError("malformed header in an archive")
    return Reader(raw, allowance=reader.allowance)


def _has_repeats(raw: bytes) -> bool:
    """Whether a kilobyte or more occurs twice, at any distance.

    It looks for equal 8-byte words. A hash of the word selects 1 of 256 words, so both copies of a text select the same
    ones.
    """
    at_offsets = [np.frombuffer(raw, "<u8", (len(raw) - offset) // 8, offset) for offset in range(8)]
    words = np.concatenate([each[each * np.uint64(_ODD) >> np.uint64(56) == 0] for each in at_offsets])
    return len(np.unique(words)) < len(words)
