"""Frames: the groups, index blocks and models of an archive as bytes under CRCs, and how they are written and read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.format.container import CRC_BYTES, crc_field

MARK = b"\x89DQ"  # the start of all marks
GROUP_MARK, INDEX_MARK, MODEL_MARK = MARK + b"G", MARK + b"I", MARK + b"M"
ID_BYTES = 4
_PIECE = 1 << 20  # bytes read at a time
_MAX_SIZES = 3 * 5  # bytes of a frame's varints
_Parsed = TypeVar("_Parsed")


class Readable(Protocol):
    """What frames are read from, such as a Positional. size: in bytes."""

    size: int

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on, or fewer at the end; raises OSError."""


@dataclass(frozen=True)
class Frame:
    """A group, an index block or a model whose header is whole.

    offset, body_offset: places in the file, bytes. body_bytes: length of the body. crc: CRC-32 up to the header's end.
    """

    mark: bytes
    archive_id: bytes
    number: int
    header: bytes
    offset: int
    body_offset: int
    body_bytes: int
    crc: int

    @property
    def end(self) -> int:
        """The offset after the frame."""
        return self.body_offset + self.body_bytes + (CRC_BYTES if self.body_bytes else 0)


def pack_frame(mark: bytes, archive_id: bytes, number: int, header: bytes, body: bytes = b"") -> bytes:
    """A group, an index block or a model with mark, archive id, number, lengths and CRCs; header is packed."""
    sizes = write_varint(number) + write_varint(len(header)) + write_varint(len(body))
    start = b"".join((mark, archive_id, sizes, header))
    crc = zlib.crc32(start)
    end = body + crc_field(zlib.crc32(body, crc)) if body else b""
    return start + crc_field(crc) + end


def read_frame(file: Readable, offset: int) -> Frame | None:
    """The frame at `offset`; None if there is no frame, or its header is damaged."""
    start = file.read(offset, len(MARK) + 1 + ID_BYTES + _MAX_SIZES)
    mark, archive_id = start[:4], start[4 : 4 + ID_BYTES]
    if mark not in (GROUP_MARK, INDEX_MARK, MODEL_MARK):
        return None
    sizes, position = [], 4 + ID_BYTES
    try:
        for _ in range(3):
            value, position = read_varint(start, position)
            sizes.append(value)
    except CorruptError:
        return None
    number, header_bytes, body_bytes = sizes
    if offset + position + header_bytes + CRC_BYTES > file.size or (mark != INDEX_MARK) != (body_bytes > 0):
        return None
    stop = offset + position + header_bytes
    crc = _crc_of(file, offset, stop)  # checked in pieces, before the header takes memory
    if file.read(stop, CRC_BYTES) != crc_field(crc):
        return None
    header = file.read(offset + position, header_bytes)
    if zlib.crc32(header, zlib.crc32(start[:position])) != crc:
        return None
    return Frame(mark, archive_id, number, header, offset, stop + CRC_BYTES, body_bytes, crc)


def read_body(file: Readable, frame: Frame) -> bytes | None:
    """The body of a frame, or None if it is damaged."""
    data = file.read(frame.body_offset, frame.body_bytes + CRC_BYTES)
    body, crc = data[: frame.body_bytes], data[frame.body_bytes :]
    return body if crc_field(zlib.crc32(body, frame.crc)) == crc else None


def body_crc(file: Readable, frame: Frame) -> bytes | None:
    """The CRC after a body, or None if it is wrong."""
    stop = frame.body_offset + frame.body_bytes
    if stop + CRC_BYTES > file.size:
        return None
    crc = crc_field(_crc_of(file, frame.body_offset, stop, frame.crc))
    return crc if file.read(stop, CRC_BYTES) == crc else None


def parsed(unpack: Callable[[bytes], _Parsed], frame: Frame) -> _Parsed | None:
    """The header of a frame, unpacked; None if it is malformed although its CRC is right."""
    try:
        return unpack(frame.header)
    except CorruptError:
        return None


def _crc_of(file: Readable, start: int, stop: int, crc: int = 0) -> int:
    """The CRC-32 of file[start:stop], read in pieces; crc: CRC-32 of the bytes before."""
    for position in range(start, stop, _PIECE):
        crc = zlib.crc32(file.read(position, min(_PIECE, stop - position)), crc)
    return crc
