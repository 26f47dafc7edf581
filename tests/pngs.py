"""A tiny PNG writer for tests: every bit depth, colour type and interlacing, and any chunks, valid or not."""

import dataclasses
import itertools
import struct
import zlib

import numpy as np

from dqcodec import png

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
BIT_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
KINDS = [(color_type, bit_depth) for color_type, bit_depths in BIT_DEPTHS.items() for bit_depth in bit_depths]
_ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def plain(pixels, before=()) -> png.Png:
    """png.plain, with chunks before the image data."""
    image = png.plain(pixels)
    return dataclasses.replace(image, skeleton=dataclasses.replace(image.skeleton, parts=(before, ())))


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def header(width, height, bit_depth=8, color_type=2, interlace=0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bit_depth, color_type, 0, 0, interlace))


def write(
    samples, bit_depth=8, color_type=None, interlace=False, before=b"", after=b"", end=b"", tail=b"", idats=1
) -> bytes:
    """A PNG of (height, width, samples per pixel) integers, with filter None.

    end: the body of IEND, which no program writes; a PNG with one is kept as it is.
    """
    samples = np.asarray(samples)
    height, width, count = samples.shape
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[count] if color_type is None else color_type
    data = b"".join(chunk(b"IDAT", piece) for piece in pieces(samples, bit_depth, interlace, idats))
    if color_type == 3:
        before = chunk(b"PLTE", bytes(range(3 << bit_depth)) if bit_depth < 7 else bytes(range(256)) * 3) + before
    start = SIGNATURE + header(width, height, bit_depth, color_type, int(interlace))
    return start + before + data + after + chunk(b"IEND", end) + tail


def pieces(samples, bit_depth=8, interlace=False, count=1) -> list[bytes]:
    """The zlib stream of the samples, cut."""
    passes = [samples[top::down, left::right] for top, left, down, right in _ADAM7] if interlace else [samples]
    stream = zlib.compress(b"".join(_rows(part, bit_depth) for part in passes if part.size))
    cuts = np.linspace(0, len(stream), count + 1).astype(int)
    return [stream[start:stop] for start, stop in zip(cuts, cuts[1:])]


def animated(default, frames, bit_depth=8, color_type=None, is_first=True, idats=1, between=b"", **options) -> bytes:
    """An APNG of a default image and frames of ((top, left), samples); is_first: the default image is a frame, too.

    ways: (dispose_op, blend_op) of each frame in turn, again and again.
    """
    height, width, _ = np.shape(default)
    ways = itertools.cycle(options.pop("ways", [(0, 0)]))
    numbers, before, after = iter(range(1 << 20)), options.pop("before", b""), options.pop("after", b"")

    def control(top, left, height, width):
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", next(numbers), width, height, left, top, 1, 10, *next(ways)))

    before += chunk(b"acTL", struct.pack(">II", len(frames) + is_first, 0))
    before += control(0, 0, height, width) if is_first else b""
    for (top, left), samples in frames:
        after += between + control(top, left, *samples.shape[:2])
        after += b"".join(
            chunk(b"fdAT", struct.pack(">I", next(numbers)) + piece)
            for piece in pieces(samples, bit_depth, False, idats)
        )
    return write(default, bit_depth, color_type, before=before, after=after, **options)


def random(rng, height, width, color_type=2, bit_depth=8, **options) -> bytes:
    samples = rng.integers(0, 1 << bit_depth, (height, width, SAMPLES[color_type]))
    return write(samples, bit_depth, color_type, **options)


def _rows(samples, bit_depth) -> bytes:
    bits = samples.reshape(len(samples), -1)[..., None] >> np.arange(bit_depth)[::-1] & 1
    rows = np.packbits(bits.reshape(len(samples), -1).astype(np.uint8), axis=1)
    return b"".join(b"\0" + row.tobytes() for row in rows)
