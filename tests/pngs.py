"""A tiny PNG writer for tests: every bit depth, colour type and interlacing, and any chunks, valid or not."""

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
BIT_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
KINDS = [(color_type, bit_depth) for color_type, bit_depths in BIT_DEPTHS.items() for bit_depth in bit_depths]
_ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def header(width, height, bit_depth=8, color_type=2, interlace=0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bit_depth, color_type, 0, 0, interlace))


def write(samples, bit_depth=8, color_type=None, interlace=False, before=b"", after=b"", tail=b"", idats=1) -> bytes:
    """A PNG of (height, width, samples per pixel) integers, with filter None."""
    samples = np.asarray(samples)
    height, width, count = samples.shape
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[count] if color_type is None else color_type
    passes = [samples[top::down, left::right] for top, left, down, right in _ADAM7] if interlace else [samples]
    raw = b"".join(_rows(part, bit_depth) for part in passes if part.size)
    stream = zlib.compress(raw)
    cuts = np.linspace(0, len(stream), idats + 1).astype(int)
    data = b"".join(chunk(b"IDAT", stream[start:stop]) for start, stop in zip(cuts, cuts[1:]))
    if color_type == 3:
        before = chunk(b"PLTE", bytes(range(3 << bit_depth)) if bit_depth < 7 else bytes(range(256)) * 3) + before
    start = SIGNATURE + header(width, height, bit_depth, color_type, int(interlace))
    return start + before + data + after + chunk(b"IEND") + tail


def random(rng, height, width, color_type=2, bit_depth=8, **options) -> bytes:
    samples = rng.integers(0, 1 << bit_depth, (height, width, SAMPLES[color_type]))
    return write(samples, bit_depth, color_type, **options)


def _rows(samples, bit_depth) -> bytes:
    bits = samples.reshape(len(samples), -1)[..., None] >> np.arange(bit_depth)[::-1] & 1
    rows = np.packbits(bits.reshape(len(samples), -1).astype(np.uint8), axis=1)
    return b"".join(b"\0" + row.tobytes() for row in rows)
