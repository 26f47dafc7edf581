"""A chunk whose body ends with a zlib stream <-> the same with the content of the stream. A part of the .dqc format.

It is for iCCP, zTXt and compressed iTXt, if deflate.py makes the stream again. The form of such a body:

    1      level   bits 0-3: the level, 4 to 9. Bit 7: the content is a profile in hexadecimal digits, kept as bytes
    2      header  the first two bytes of the stream; they hold its window
    1-5    prefix  varint, the bytes of the body before the stream
    *      body    before the stream
    *      content of the stream

A profile in hexadecimal digits ("Raw profile type exif" of ImageMagick) is a line end, a name, a line end, the number
of its bytes with at least 8 places, and lines of 36 bytes, each after a line end, and a last line end. As bytes it is
the name, a line end and the bytes.
"""

from __future__ import annotations

import functools
import re
import zlib
from typing import NamedTuple

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.png.deflate import LEVELS, deflate

KINDS = {b"iCCP", b"zTXt", b"iTXt"}
MAX_BYTES = 1 << 16  # of the contents of all streams of a PNG: deflating one takes about 12 microseconds a byte
_HEX = 1 << 7
_LINE = 36
_MALFORMED = "malformed inflated chunk in the .dqc file"
_DUMP = re.compile(rb"\n([^\n]*)\n *[0-9]+\n([0-9a-f\n]*)")


def pack(kind: bytes, body: bytes, max_bytes: int) -> tuple[bytes, int] | None:
    """(form of a chunk's body, bytes of the content); None if it has no stream that deflate makes again, or the content
    has more than `max_bytes`."""
    prefix = _prefix_bytes(kind, body)
    return _pack(body, prefix, max_bytes) if prefix and len(body) <= 2 * MAX_BYTES else None


@functools.lru_cache(maxsize=64)  # a search for the smallest file packs the same chunks many times
def _pack(body: bytes, prefix: int, max_bytes: int) -> tuple[bytes, int] | None:
    stream = body[prefix:]
    if len(stream) < 8 or stream[0] & 15 != 8 or not 1 <= stream[0] >> 4 <= 7:
        return None
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stream, max_bytes + 1)
        if len(content) > max_bytes or not inflater.eof or inflater.unused_data:
            return None
        likely = {1: (5, 4), 2: (6,), 3: (9, 8, 7)}.get(stream[1] >> 6, ())
        level = next((level for level in likely if _deflated(stream[:2], content, level) == stream), None)
    except (zlib.error, CorruptError):
        return None
    if level is None:
        return None
    short = _from_hex(content)
    first = level if short is None else level | _HEX
    rest = body[:prefix] + (content if short is None else short)
    return bytes([first]) + stream[:2] + write_varint(prefix) + rest, len(content)


def content_bytes(form: bytes, max_bytes: int) -> int:
    """The bytes of a form's content.

    Raises CorruptError: the form is malformed, or its content has more than `max_bytes`.
    """
    count = len(_parse(form, max_bytes).content)
    if count > max_bytes:
        raise CorruptError(_MALFORMED)
    return count


def deflated(form: bytes) -> bytes:
    """The body of the chunk: the inverse of pack. Raises CorruptError: the content is too repetitive."""
    prefix, header, level, content = _parse(form, MAX_BYTES)
    return prefix + _deflated(header, content, level)


class _Parsed(NamedTuple):
    """A form's parts. prefix: of the body before the stream. header: of the stream."""

    prefix: bytes
    header: bytes
    level: int
    content: bytes


def _parse(form: bytes, max_bytes: int) -> _Parsed:
    """The parts of a form; a dump of more than `max_bytes` stays bytes. Raises CorruptError: the form is malformed."""
    reader = Reader(form, error=_MALFORMED)
    first, header = reader.byte(), reader.take(2)
    level = first & ~_HEX
    if level not in LEVELS or header[0] & 15 != 8 or not 1 <= header[0] >> 4 <= 7:
        raise CorruptError(_MALFORMED)
    prefix, content = reader.take(reader.varint()), reader.rest()
    if first & _HEX:
        if b"\n" not in content:
            raise CorruptError(_MALFORMED)
        content = _to_hex(content) if len(content) <= max_bytes else content
    return _Parsed(prefix, header, level, content)


@functools.lru_cache(maxsize=64)  # many images have the same profile
def _deflated(header: bytes, content: bytes, level: int) -> bytes:
    """The zlib stream of a content."""
    return header + deflate(content, level, (header[0] >> 4) + 8) + zlib.adler32(content).to_bytes(4, "big")


def _prefix_bytes(kind: bytes, body: bytes) -> int:
    """The bytes of a body before its zlib stream, or 0 if it has none."""
    keyword = body.find(b"\0")
    if keyword < 0:
        return 0
    if kind in (b"iCCP", b"zTXt"):
        return keyword + 2
    if kind == b"iTXt" and body[keyword + 1 : keyword + 3] == b"\1\0":
        language = body.find(b"\0", keyword + 3)
        translation = body.find(b"\0", language + 1)
        return translation + 1 if 0 < language < translation else 0
    return 0


def _from_hex(text: bytes) -> bytes | None:
    """A profile in hexadecimal digits as bytes; None if it is none, or of another layout."""
    found = _DUMP.fullmatch(text)
    if not found or len(found[2].replace(b"\n", b"")) % 2:
        return None
    short = found[1] + b"\n" + bytes.fromhex(found[2].decode().replace("\n", ""))
    return short if _to_hex(short) == text else None


def _to_hex(short: bytes) -> bytes:
    """The inverse of _from_hex."""
    name, _, data = short.partition(b"\n")
    lines = [data[start : start + _LINE].hex().encode() for start in range(0, len(data), _LINE)]
    return b"\n%s\n%8d\n" % (name, len(data)) + b"".join(line + b"\n" for line in lines)
