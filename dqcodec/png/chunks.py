"""A PNG file as chunks: the compressed streams of image data, and the other chunks, verbatim and in order.

All CRCs are checked. A PNG has one raster, the default image (IDAT). An animated PNG has another raster for each frame
with its own data (fcTL holds its size, fdAT its data). A `Skeleton` (skeleton.py) is everything except the rasters;
with them it gives the PNG again. Only the packing is lost: the division of streams into chunks, and the sequence
numbers of fcTL and fdAT. A valid PNG that does not fit this form (unknown critical chunks, malformed animations, many
bytes after IEND) has no skeleton.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.png.skeleton import KINDS, Chunk, Header, Skeleton, check_palette, check_size, show

MAX_PIXELS = 1 << 27  # the default limit on width * height, summed over all frames
SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_TRAILING_BYTES = 1 << 24  # the largest number of bytes after IEND; a PNG with more is refused
MAX_CHUNKS = 1 << 20  # the largest number of chunks; they take much more memory than the file
_IDAT_BYTES = 1 << 20  # the largest image data chunk that is written


@dataclass(frozen=True)
class Structure:
    """A parsed PNG file.

    interlace: 0, or 1 for Adam7. skeleton: see the module, or None. streams: the compressed data of each raster, one
    piece for each chunk; without a skeleton only the default image.
    """

    header: Header
    interlace: int
    skeleton: Skeleton | None
    streams: tuple[tuple[memoryview, ...], ...]


def parse(data: bytes, max_pixels: int) -> Structure:
    """Parse a PNG file.

    Raises UnsupportedImageError: not a PNG, or all frames together have more than `max_pixels`, or it has more than
    MAX_CHUNKS chunks, or MAX_TRAILING_BYTES after its end; CorruptError: the file is damaged.
    """
    if not data.startswith(SIGNATURE):
        raise UnsupportedImageError("not a PNG file")
    view, end = memoryview(data), len(SIGNATURE)
    gathered = None
    for number, (kind, start, end) in enumerate(walk(data)):
        body = view[start + 8 : end - 4]
        if number == MAX_CHUNKS:
            raise UnsupportedImageError(f"the PNG has more than {MAX_CHUNKS} chunks")
        if gathered is None:
            gathered = _Gathered(*_parse_header(kind, body))
        elif kind == b"IHDR":
            raise CorruptError("PNG with two headers")
        elif kind == b"IEND":
            break
        else:
            gathered.add(kind, body)
    else:
        raise CorruptError("truncated PNG: no IEND chunk")
    _check_trailing(len(data) - end)
    if gathered.default is None:
        raise CorruptError("PNG without image data")
    header = gathered.header
    check_palette(header, gathered.parts[0])
    skeleton = gathered.skeleton(data[end:]) if not len(body) else None
    check_size(header.width, header.height, max_pixels, skeleton)
    streams = gathered.streams if skeleton else [gathered.default]
    return Structure(header, gathered.interlace, skeleton, tuple(map(tuple, streams)))


@dataclass
class _Gathered:
    """What the chunks of a PNG file hold.

    parts: the chunks before each raster, and after the last one. streams: the compressed data of each raster. default:
    the stream of the default image, if there is one. numbers: the sequence numbers of fcTL and fdAT. last: the type of
    the last chunk.
    """

    header: Header
    interlace: int
    parts: list[list[Chunk]] = field(default_factory=lambda: [[]])
    streams: list[list[memoryview]] = field(default_factory=list)
    default: list[memoryview] | None = None
    numbers: list[bytes] = field(default_factory=list)
    last: bytes = b"IHDR"

    def add(self, kind: bytes, body: memoryview) -> None:
        """Add a chunk; raises CorruptError: image data are not contiguous."""
        if kind in (b"fcTL", b"fdAT"):
            self.numbers.append(bytes(body[:4]))
            body = body[4:]
        if kind not in (b"IDAT", b"fdAT"):
            self.parts[-1].append(Chunk(kind, bytes(body)))
        elif kind == self.last:
            self.streams[-1].append(body)
        else:
            if kind == b"IDAT" and self.default is not None:
                raise CorruptError("PNG image data is not contiguous")
            self.streams.append([body])
            self.parts.append([])
            self.default = self.streams[-1] if kind == b"IDAT" else self.default
        self.last = kind

    def skeleton(self, tail: bytes) -> Skeleton | None:
        """The skeleton, or None if a skeleton cannot express the file. tail: the bytes after IEND."""
        is_numbered = self.numbers == [struct.pack(">I", number) for number in range(len(self.numbers))]
        if not is_numbered or self.streams[0] is not self.default:
            return None
        skeleton = Skeleton(self.header, tuple(map(tuple, self.parts)), bytes(tail))
        with contextlib.suppress(CorruptError):
            skeleton.check()
            return skeleton
        return None


def read_header(data: bytes, max_pixels: int = MAX_PIXELS) -> Header:
    """The header of a PNG file; the rest of the file is not read.

    Raises UnsupportedImageError: not a PNG, or its canvas has more than `max_pixels`;
    CorruptError: the header is invalid.
    """
    if not data.startswith(SIGNATURE):
        raise UnsupportedImageError("not a PNG file")
    for kind, start, end in walk(data):
        header, _ = _parse_header(kind, memoryview(data)[start + 8 : end - 4])
        check_size(header.width, header.height, max_pixels)
        return header
    raise CorruptError("PNG without a valid header")


def assemble(skeleton: Skeleton, streams: Sequence[Sequence[bytes | memoryview]], interlace: int = 0) -> bytes:
    """The PNG file of a skeleton and its image data.

    Args:
        streams: the compressed data of each raster, as pieces; each piece becomes one chunk.
    """
    out = [SIGNATURE, *_chunk(b"IHDR", skeleton.header.pack(interlace))]
    number = 0

    def add(kind: bytes, body: bytes | memoryview) -> None:
        nonlocal number
        if kind in (b"fcTL", b"fdAT"):
            out.extend(_chunk(kind, struct.pack(">I", number), body))
            number += 1
        else:
            out.extend(_chunk(kind, body))

    for index, part in enumerate(skeleton.parts):
        for chunk in part:
            add(*chunk)
        for piece in streams[index] if index < len(streams) else ():
            add(b"fdAT" if index else b"IDAT", piece)
    return b"".join([*out, *_chunk(b"IEND", b""), skeleton.tail])


def cut(stream: bytes) -> list[memoryview]:
    """Divide a compressed stream into pieces, one for each chunk."""
    view = memoryview(stream)
    return [view[start : start + _IDAT_BYTES] for start in range(0, len(stream), _IDAT_BYTES)]


def walk(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield (type, start, stop) of each chunk of a PNG file, up to IEND or the end of the data.

    Raises CorruptError: a chunk is cut off, or its CRC is wrong, or its type is malformed.
    """
    view, position, kind = memoryview(data), len(SIGNATURE), b""
    while position < len(data) and kind != b"IEND":
        if position + 12 > len(data):
            raise CorruptError("truncated PNG")
        length, kind = struct.unpack_from(">I4s", data, position)
        stop = position + 12 + length
        if not kind.isalpha():
            raise CorruptError("PNG chunk with a malformed type")
        if stop > len(data):
            raise CorruptError(f"truncated PNG: chunk {show(kind)} runs past the end")
        if zlib.crc32(view[position + 4 : stop - 4]) != struct.unpack_from(">I", data, stop - 4)[0]:
            raise CorruptError(f"PNG chunk {show(kind)} is damaged (its CRC differs)")
        yield kind, position, stop
        position = stop


def without(data: bytes, kinds: Collection[bytes]) -> bytes:
    """A PNG file without its chunks of these types, and without bytes after IEND. All other bytes stay as they are."""
    return SIGNATURE + b"".join(data[start:stop] for kind, start, stop in walk(data) if kind not in kinds)


def check_trailing(file: BinaryIO, size: int) -> None:
    """Check how many bytes follow the end of a PNG file; only the heads of its chunks are read.

    Args:
        file: seekable; a file that is no PNG, or a damaged one, or one of more than MAX_CHUNKS chunks, passes.
        size: of the file, bytes.

    Raises UnsupportedImageError: there are more than MAX_TRAILING_BYTES.
    """
    file.seek(0)
    position = len(SIGNATURE)
    if size <= MAX_TRAILING_BYTES or file.read(position) != SIGNATURE:
        return
    for _ in range(MAX_CHUNKS):
        file.seek(position)
        head = file.read(8)
        if len(head) < 8:
            return
        length, kind = struct.unpack(">I4s", head)
        position += 12 + length
        if kind == b"IEND":
            _check_trailing(size - position)
            return


def _check_trailing(count: int) -> None:
    if count > MAX_TRAILING_BYTES:
        raise UnsupportedImageError(
            f"{count} bytes follow the end of the PNG, more than the limit of {MAX_TRAILING_BYTES}"
        )


def _parse_header(kind: bytes, body: memoryview) -> tuple[Header, int]:
    """(header, interlace) of the first chunk.

    Raises CorruptError: it is no valid IHDR.
    """
    if kind != b"IHDR" or len(body) != 13:
        raise CorruptError("PNG without a valid header")
    width, height, bit_depth, color_type, compression, filtering, interlace = struct.unpack(">IIBBBBB", body)
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        raise CorruptError(f"PNG of an invalid size, {width} x {height}")
    if (color_type, bit_depth) not in KINDS or compression or filtering or interlace > 1:
        raise CorruptError("PNG header with invalid values")
    return Header(width, height, color_type, bit_depth), interlace


def _chunk(kind: bytes, *body: bytes | memoryview) -> list[bytes | memoryview]:
    """The parts of a chunk in the file. The body stays in parts, so that image data are copied only once."""
    crc = functools.reduce(lambda crc, part: zlib.crc32(part, crc), body, zlib.crc32(kind))
    return [struct.pack(">I", sum(map(len, body))), kind, *body, crc.to_bytes(4, "big")]
