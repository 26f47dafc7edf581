"""The method classical: one layer by lossless WebP, or as raw bytes.

The payload's first byte is a tag. 0: the samples follow, in the order rows, columns, channels. 1: WebP streams follow,
one for each block of 2048 x 2048 pixels (less at the right and bottom edges), row by row. The length of each stream
except the last precedes it, 4 bytes little-endian.

A stream lacks its first 25 bytes (RIFF and VP8L headers and the size), because they follow from the layer's shape and
the stream's length. WebP gets one channel as R = G = B, and two channels as R = G = B and alpha.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from io import BytesIO

import numpy as np
from PIL import Image, WebPImagePlugin

from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.base.reader import Reader
from dqcodec.base.threads import map_in_threads
from dqcodec.exact.boxes import Box, Window, area, cut, inside, overlap, part, sides, whole
from dqcodec.frozen.classical import BLOCK, FRAMING_BYTES, FROM_WEBP, TO_WEBP
from dqcodec.methods.payload import MALFORMED, Payload

_RAW, _WEBP = b"\0", b"\1"
_HAS_ALPHA = 1 << 28  # a flag in the size field
# A search of WebP's: its (quality, method), of which the smallest result is taken. They set the effort, never a loss. A
# search takes about ten times as long as the one before. SLOWEST alone gives larger files for many small or synthetic
# images.
Search = tuple[tuple[int, int], ...]
QUICK: Search = ((50, 3),)
THOROUGH: Search = ((100, 4), (90, 6))
SLOWEST: Search = ((100, 6),)


def encode(layers: Sequence[np.ndarray], search: Search = THOROUGH + SLOWEST) -> Payload:
    """The payload of one layer (H, W, 1 to 4) uint8.

    Raises UnsupportedImageError: this machine's libwebp writes other headers than expected.
    """
    (pixels,) = layers
    jobs = [(box, setting) for box in _blocks(pixels.shape) for setting in search]
    sizes = [area(box) for box, _ in jobs]
    tried = map_in_threads(lambda job: _encode_block(part(layers, job[0]), *job[1]), jobs, sizes)
    streams = [min(tried[start : start + len(search)], key=len) for start in range(0, len(tried), len(search))]
    lengths = [len(stream).to_bytes(4, "little") for stream in streams[:-1]] + [b""]
    webp = b"".join(itertools.chain(*zip(lengths, streams)))
    data = _WEBP + webp if len(webp) < pixels.size else _RAW + pixels.tobytes()
    return Payload(data, (len(data),))


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The one layer (H, W, C) uint8 of a payload; raises CorruptError: damaged, or of another shape."""
    return decode_windows(data, shapes, list(map(whole, shapes)))


def decode_windows(data: bytes, shapes: Sequence[tuple[int, int, int]], windows: Sequence[Window]) -> list[np.ndarray]:
    """The pixels (H, W, C) uint8 in a window of the one layer. Only blocks that hold some of them are decoded. Raises
    CorruptError: damaged, or of another shape."""
    (shape,), (window,) = shapes, windows
    reader = Reader(data, error=MALFORMED)
    tag = reader.take(1)
    if tag == _RAW:
        if len(data) - 1 != int(np.prod(shape)):
            raise CorruptError("raw pixels of the wrong length")
        return [np.frombuffer(data, np.uint8, offset=1).reshape(shape)[window]]
    if tag != _WEBP:
        raise CorruptError("classical payload with an unknown tag")
    boxes = _blocks(shape)
    # all lengths are checked before the pixels take memory
    streams = [reader.take(int.from_bytes(reader.take(4), "little")) for _ in boxes[1:]] + [reader.rest()]
    pixels = np.empty((*sides(window), shape[2]), np.uint8)

    def place(number: int) -> None:
        _, *block = boxes[number]
        if shared := overlap(block, window):
            block_pixels = _decode_block(streams[number], (*sides(block), shape[2]))
            pixels[inside(shared, window)] = block_pixels[inside(shared, block)]

    map_in_threads(place, range(len(boxes)), list(map(area, boxes)))
    return [pixels]


def _blocks(shape: tuple[int, int, int]) -> list[Box]:
    """The blocks of the one layer, row by row."""
    return cut(0, shape[:2], (BLOCK, BLOCK))


def _encode_block(pixels: np.ndarray, quality: int, method: int) -> bytes:
    """The stream of a block (H, W, C)."""
    image = Image.fromarray(np.ascontiguousarray(pixels[..., TO_WEBP[pixels.shape[2]]]))
    buffer = BytesIO()
    image.save(buffer, "WEBP", lossless=True, quality=quality, method=method, exact=True)
    webp = buffer.getvalue()
    stream = webp[FRAMING_BYTES : 20 + int.from_bytes(webp[16:20], "little")]
    if webp not in (_framed(stream, pixels.shape), _framed(stream, pixels.shape[:2] + (3,))):
        raise UnsupportedImageError("this libwebp writes an unexpected framing")
    return stream


def _decode_block(stream: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    """The block (H, W, C) uint8 of a stream."""
    try:
        with WebPImagePlugin.WebPImageFile(BytesIO(_framed(stream, shape))) as image:
            pixels = np.asarray(image.convert("RGBA"))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise CorruptError("damaged WebP stream") from error
    if pixels.shape[:2] != shape[:2]:
        raise CorruptError("WebP stream of the wrong size")
    return pixels[..., FROM_WEBP[shape[2]]]


def _framed(stream: bytes, shape: tuple[int, int, int]) -> bytes:
    """The WebP file of a stream: with its RIFF and VP8L headers and its size."""
    height, width, channels = shape
    length = len(stream) + 5
    padding = length % 2
    riff = struct.pack("<4sI4s4sI", b"RIFF", 12 + length + padding, b"WEBP", b"VP8L", length)
    size = width - 1 | height - 1 << 14 | (_HAS_ALPHA if channels in (2, 4) else 0)
    return riff + struct.pack("<BI", 0x2F, size) + stream + bytes(padding)
