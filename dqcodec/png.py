"""PNG files: structure read here, pixels decoded and encoded by Pillow.

Pillow alone would not do: it silently degrades 16-bit RGB and 2- or 4-bit gray, and drops chunks that it does not
know. So the chunks are walked here, every CRC checked, and Pillow only ever sees IHDR and IDAT.

A PNG has `pixels` when it is 8-bit gray or 8-bit RGB and nothing in it changes what the samples mean (no tRNS, no
animation, no unknown critical chunk, nothing after IEND). Any other valid PNG has `pixels is None` and is for the
stored method. Filters, compression and interlacing are the file's packing, not its image: they are not kept.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image, PngImagePlugin

from .errors import CorruptError, UnsupportedImageError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_PIXELS = 1 << 27  # default limit on width * height

_HEADER_BYTES = len(SIGNATURE) + 25  # signature and IHDR chunk
_IEND = b"\0\0\0\0IEND\xaeB`\x82"
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # colour type -> samples per pixel
_BIT_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_KNOWN_CRITICAL = {b"IHDR", b"PLTE", b"IDAT", b"IEND"}
_CHANGES_MEANING = {b"tRNS", b"acTL", b"fcTL", b"fdAT"}
_ZLIB_MAX_RATIO = 1032  # deflate cannot expand further


@dataclass(frozen=True)
class Chunks:
    """A PNG's ancillary chunks (and a suggested PLTE), whole and verbatim: those before and those after the IDATs."""

    before: bytes = b""
    after: bytes = b""

    def __len__(self) -> int:
        """Number of bytes."""
        return len(self.before) + len(self.after)


@dataclass(frozen=True, eq=False)
class Png:
    """One parsed PNG file. `pixels` is (height, width, channels) uint8, channels 1 or 3, or None (see the module);
    `chunks` are those around the pixels, empty where there are none."""

    width: int
    height: int
    bit_depth: int
    color_type: int
    interlace: int
    chunks: Chunks
    pixels: np.ndarray | None

    @property
    def samples(self) -> int:
        """Samples per pixel as stored (1 for a palette index)."""
        return _SAMPLES[self.color_type]


def read(data: bytes, max_pixels: int = MAX_PIXELS, *, decode: bool = True) -> Png:
    """Parse a PNG file and, where it has them, decode its pixels; without `decode` only check its structure.

    Raises UnsupportedImageError (no PNG, or more than `max_pixels`, before any allocation) and CorruptError.
    """
    if not data.startswith(SIGNATURE):
        raise UnsupportedImageError("not a PNG file")
    header, idat_start, idat_end, end, types = None, 0, 0, 0, set()
    for kind, start, stop in _walk(data, len(SIGNATURE)):
        if header is None:
            header = _parse_header(data, kind, start, stop, max_pixels)
        elif kind == b"IHDR":
            raise CorruptError("PNG with two headers")
        elif kind == b"IDAT":
            if idat_end not in (0, start):
                raise CorruptError("PNG image data is not contiguous")
            idat_start, idat_end = idat_start or start, stop
        types.add(kind)
        end = stop
        if kind == b"IEND":
            break
    if b"IEND" not in types:
        raise CorruptError("truncated PNG: no IEND chunk")
    if not idat_end:
        raise CorruptError("PNG without image data")

    width, height, bit_depth, color_type, interlace = header
    plain = bit_depth == 8 and color_type in (0, 2) and end == len(data) and data.endswith(_IEND)
    plain = plain and not types & _CHANGES_MEANING and not any(map(_is_unknown_critical, types))
    chunks, pixels = Chunks(), None
    if plain and decode:
        chunks = Chunks(data[_HEADER_BYTES:idat_start], data[idat_end : -len(_IEND)])
        minimal = data[:_HEADER_BYTES] + data[idat_start:idat_end] + _IEND
        pixels = _decode(minimal, height, width, _SAMPLES[color_type], idat_end - idat_start)
    return Png(width, height, bit_depth, color_type, interlace, chunks, pixels)


def write(pixels: np.ndarray, chunks: Chunks = Chunks()) -> bytes:
    """A PNG file of (height, width, 1 or 3) uint8 pixels, with `chunks` back in their places.

    Raises CorruptError if `chunks` is not a run of whole chunks that may stand there.
    """
    for part in (chunks.before, chunks.after):
        for kind, _, _ in _walk(part, 0):
            if kind in _CHANGES_MEANING | (_KNOWN_CRITICAL - {b"PLTE"}) or _is_unknown_critical(kind):
                raise CorruptError(f"chunk {_show(kind)} cannot be among the ancillary chunks")
    buffer = BytesIO()
    squeezed = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    Image.fromarray(np.ascontiguousarray(squeezed)).save(buffer, "PNG", optimize=True, compress_level=9)
    png = buffer.getvalue()
    return b"".join((png[:_HEADER_BYTES], chunks.before, png[_HEADER_BYTES : -len(_IEND)], chunks.after, _IEND))


def _walk(data: bytes, position: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield (type, start, stop) of each chunk from `position` on, CRC checked, until the data end."""
    view = memoryview(data)
    while position < len(data):
        if position + 12 > len(data):
            raise CorruptError("truncated PNG")
        length, kind = struct.unpack_from(">I4s", data, position)
        stop = position + 12 + length
        if not kind.isalpha():
            raise CorruptError("PNG chunk with a malformed type")
        if stop > len(data):
            raise CorruptError(f"truncated PNG: chunk {_show(kind)} runs past the end")
        if zlib.crc32(view[position + 4 : stop - 4]) != struct.unpack_from(">I", data, stop - 4)[0]:
            raise CorruptError(f"PNG chunk {_show(kind)} is damaged (its CRC differs)")
        yield kind, position, stop
        position = stop


def _parse_header(data: bytes, kind: bytes, start: int, stop: int, max_pixels: int) -> tuple[int, int, int, int, int]:
    """(width, height, bit depth, colour type, interlace) of a first chunk that must be a valid IHDR."""
    if kind != b"IHDR" or stop - start != 25:
        raise CorruptError("PNG without a valid header")
    width, height, depth, color, compression, filtering, interlace = struct.unpack_from(">IIBBBBB", data, start + 8)
    if not (0 < width < 1 << 31 and 0 < height < 1 << 31):
        raise CorruptError(f"PNG of an impossible size, {width} x {height}")
    if depth not in _BIT_DEPTHS.get(color, ()) or compression or filtering or interlace > 1:
        raise CorruptError("PNG header with invalid values")
    if width * height > max_pixels:
        raise UnsupportedImageError(f"{width} x {height} is more than the limit of {max_pixels} pixels")
    return width, height, depth, color, interlace


def _decode(data: bytes, height: int, width: int, channels: int, idat_bytes: int) -> np.ndarray:
    """Pixels (height, width, channels) uint8 of a PNG reduced to IHDR, IDAT and IEND."""
    if height * (width * channels + 1) > _ZLIB_MAX_RATIO * idat_bytes:
        raise CorruptError("PNG image data is too short for its size")
    try:
        with PngImagePlugin.PngImageFile(BytesIO(data)) as image:  # not Image.open: its limit is process-wide
            pixels = np.array(image)
    except (OSError, SyntaxError, ValueError, EOFError, zlib.error) as error:
        raise CorruptError(f"PNG image data is damaged ({error})") from error
    return pixels.reshape(height, width, channels)


def _is_unknown_critical(kind: bytes) -> bool:
    return kind[:1].isupper() and kind not in _KNOWN_CRITICAL


def _show(kind: bytes) -> str:
    return kind.decode("ascii", "replace")
