"""Pixels that a JPEG decoder made lie on a lattice: every RGB comes from integers Y, Cb and
Cr. A quarter of all colours do.
"""

import numpy as np

from dqcodec.exact.jpeg.decoding import BLUE_OFFSET, GREEN_BY_CB, GREEN_BY_CR, RED_OFFSET

_FARTHEST = 256  # above every difference of a channel and Y


def _inverse(offsets: np.ndarray) -> np.ndarray:
    """offset + 256 -> the chroma, 0 to 255, that gives the offset, -256 to 511; -1 if none does."""
    chroma = np.full(3 * _FARTHEST, -1)
    chroma[offsets + _FARTHEST] = np.arange(256)
    return chroma


TO_RED, TO_BLUE = _inverse(RED_OFFSET), _inverse(BLUE_OFFSET)


def luma(pixels: np.ndarray) -> np.ndarray:
    """Luma, int64 (...), of gray or RGB pixels (..., 1 or 3) uint8; it may err by 1."""
    red, green, blue = (pixels[..., channel % pixels.shape[-1]].astype(np.int64) for channel in range(3))
    return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16


def components(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Y, Cb and Cr (H, W, 3) int64 of pixels, and where they are sure, bool (H, W).

    They are unique unless a channel is 0 or 255: clamping may have lost them there. Where
    none gives a pixel, they are near.

    Args:
        pixels: RGB (H, W, 3) uint8.
    """
    red, green, blue = (pixels[..., channel].astype(np.int64) for channel in range(3))
    near = luma(pixels)
    found, found_at = np.zeros((*red.shape, 3), np.int64), np.zeros(red.shape, bool)
    for guess in (near, near - 1, near + 1):
        y = np.clip(guess, 0, 255)
        cb, cr = TO_BLUE[blue - y + _FARTHEST], TO_RED[red - y + _FARTHEST]
        fits = (cb >= 0) & (cr >= 0) & (y + ((GREEN_BY_CB[cb] + GREEN_BY_CR[cr]) >> 16) == green) & ~found_at
        found[fits] = np.stack([y, cb, cr], -1)[fits]
        found_at |= fits
    found[~found_at] = np.stack([near, 128 + (36984 * (blue - near) >> 16), 128 + (46745 * (red - near) >> 16)], -1)[
        ~found_at
    ]
    is_sure = found_at & ((pixels > 0) & (pixels < 255)).all(-1)
    return np.clip(found, 0, 255), is_sure
