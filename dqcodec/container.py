"""The .dqc file format, version 1. This docstring is its specification.

A varint is an unsigned little-endian base-128 number: 7 bits a byte, low bits first, the high bit set on every byte
but the last, in the fewest bytes, at most 5. A file is, in this order:

    bytes  field       content
    4      magic       89 44 51 43 ("\\x89DQC")
    1      version     1
    1      kind        bits 0-1 method: 0 stored, 1 classical, 2 flow, 3 autoregressive
                       bits 2-3 channels: 1 gray, 3 RGB; 0 for stored
                       bits 4-5 chunks: 0 absent, 1 raw, 2 zlib; 0 for stored
                       bits 6-7 zero
    1-5    width       varint, at least 1                       } not for stored
    1-5    height      varint, at least 1                       }
    8      model id    first 8 bytes of the model file's SHA-256    only for flow, autoregressive
    1-5    chunk bytes varint n                                 } only if chunks are present
    n      chunks      see below                                }
    8      checksum    of the pixels, see below                   not for stored
    *      payload     all that is left, up to the CRC
    4      CRC-32      of everything before it, little-endian

**stored**: the payload is the PNG file, verbatim. **classical**: see `methods/classical.py`. **flow**: see
`methods/flow.py`. **autoregressive**: see `methods/autoregressive.py`.

**chunks** are the PNG's ancillary chunks, whole (length, type, data, CRC). Raw: a varint, the number of bytes that
stand before the first IDAT; those bytes; and the bytes that stand between the last IDAT and IEND. Zlib: a varint, the
length of the raw form (at most 2^26), and a zlib stream of the raw form.

**checksum** is the first 8 bytes of SHA-256(width ‖ height ‖ channels, each as a varint ‖ the samples, one byte each,
row by row, channels innermost).

Magic and version are read first (FormatError), then the CRC, then the rest (CorruptError). The size of a file is its
payload, its chunks, and 10 bytes for stored, at most 32 for a model's up to 2^28 - 1 pixels.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from .errors import CorruptError, FormatError, UnsupportedImageError
from .png import MAX_PIXELS, Chunks
from .varint import read_varint, write_varint

MAGIC = b"\x89DQC"
VERSION = 1
MODEL_ID_BYTES = 8
CHECKSUM_BYTES = 8
_CRC_BYTES = 4
_MAX_ZLIB_BYTES = 1 << 26
_RAW, _ZLIB = 1, 2


class Method(IntEnum):
    """How the payload carries the image."""

    STORED = 0
    CLASSICAL = 1
    FLOW = 2
    AUTOREGRESSIVE = 3


LEARNED = {Method.FLOW, Method.AUTOREGRESSIVE}


@dataclass(frozen=True)
class Container:
    """The fields of one .dqc file. For stored only `payload` is set; `model_id` only for a model's.

    shape: (height, width, channels), channels 1 or 3.
    """

    method: Method
    payload: bytes
    shape: tuple[int, int, int] | None = None
    checksum: bytes = b""
    model_id: bytes = b""
    chunks: Chunks = Chunks()

    def pack(self) -> bytes:
        """The .dqc file."""
        kind, fields = int(self.method), []
        if self.method != Method.STORED:
            height, width, channels = self.shape
            coding, section = _pack_chunks(self.chunks)
            kind |= channels << 2 | coding << 4
            fields = [write_varint(width), write_varint(height), self.model_id, section, self.checksum]
        body = b"".join((MAGIC, bytes((VERSION, kind)), *fields, self.payload))
        return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little")

    @classmethod
    def parse(cls, data: bytes, max_pixels: int = MAX_PIXELS) -> Container:
        """The fields of the .dqc file `data`.

        Raises FormatError (no .dqc, or another version), CorruptError (damaged), UnsupportedImageError (more than
        `max_pixels`).
        """
        if data[:4] != MAGIC:
            raise FormatError("not a .dqc file")
        if len(data) < 6 + _CRC_BYTES:
            raise CorruptError("truncated .dqc file")
        if data[4] != VERSION:
            raise FormatError(f".dqc version {data[4]}, but this release reads version {VERSION} only")
        end = len(data) - _CRC_BYTES
        if zlib.crc32(memoryview(data)[:end]).to_bytes(_CRC_BYTES, "little") != data[end:]:
            raise CorruptError("damaged .dqc file (its CRC differs)")
        reader = _Reader(data, 6, end)
        kind = data[5]
        method, channels, coding = kind & 3, kind >> 2 & 3, kind >> 4 & 3
        if kind >> 6 or coding > _ZLIB:
            raise CorruptError("malformed .dqc header")
        if method == Method.STORED:
            if kind:
                raise CorruptError("malformed .dqc header")
            return cls(Method.STORED, reader.rest())
        width, height = reader.varint(), reader.varint()
        if channels not in (1, 3) or not width or not height:
            raise CorruptError("malformed .dqc header")
        if width * height > max_pixels:
            raise UnsupportedImageError(f"{width} x {height} is more than the limit of {max_pixels} pixels")
        model_id = reader.take(MODEL_ID_BYTES) if method in LEARNED else b""
        chunks = _parse_chunks(coding, reader.take(reader.varint())) if coding else Chunks()
        checksum = reader.take(CHECKSUM_BYTES)
        return cls(Method(method), reader.rest(), (height, width, channels), checksum, model_id, chunks)


def pixel_checksum(pixels: np.ndarray) -> bytes:
    """The checksum field for (height, width, channels) uint8 pixels."""
    height, width, channels = pixels.shape
    digest = hashlib.sha256(write_varint(width) + write_varint(height) + write_varint(channels))
    digest.update(np.ascontiguousarray(pixels))
    return digest.digest()[:CHECKSUM_BYTES]


class _Reader:
    """Takes fields off the front of data[position:end]; raises CorruptError where they run past the end."""

    def __init__(self, data: bytes, position: int, end: int) -> None:
        self.data, self.position, self.end = data, position, end

    def take(self, count: int) -> bytes:
        start, self.position = self.position, self.position + count
        if self.position > self.end:
            raise CorruptError("a field of the .dqc file runs past its end")
        return self.data[start : self.position]

    def varint(self) -> int:
        value, position = read_varint(self.data, self.position)
        self.take(position - self.position)
        return value

    def rest(self) -> bytes:
        return self.take(self.end - self.position)


def _pack_chunks(chunks: Chunks) -> tuple[int, bytes]:
    """(chunks bits of the kind byte, the section with its length)."""
    if not len(chunks):
        return 0, b""
    coding, section = _RAW, write_varint(len(chunks.before)) + chunks.before + chunks.after
    if len(section) <= _MAX_ZLIB_BYTES:
        packed = write_varint(len(section)) + zlib.compress(section, 9)
        if len(packed) < len(section):
            coding, section = _ZLIB, packed
    return coding, write_varint(len(section)) + section


def _parse_chunks(coding: int, section: bytes) -> Chunks:
    reader = _Reader(section, 0, len(section))
    if coding == _ZLIB:
        raw_bytes = reader.varint()
        if raw_bytes > _MAX_ZLIB_BYTES:
            raise CorruptError("too many chunk bytes in the .dqc file")
        stream = zlib.decompressobj()
        try:
            section = stream.decompress(reader.rest(), raw_bytes + 1)
        except zlib.error as error:
            raise CorruptError("damaged chunks in the .dqc file") from error
        if len(section) != raw_bytes or not stream.eof or stream.unused_data:
            raise CorruptError("damaged chunks in the .dqc file")
        reader = _Reader(section, 0, raw_bytes)
    return Chunks(reader.take(reader.varint()), reader.rest())
