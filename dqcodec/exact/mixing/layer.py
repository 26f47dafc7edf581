"""A layer of pixels, as the loops of mixing see it.

Pixels lie in one array, uint32, one number each: the channels in the order of coding, 8 bits each. A layer has MARGIN
rows above it and MARGIN columns at both sides; these pixels are 0.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place


class PixelLayer(NamedTuple):
    """A layer.

    Attributes:
        pixels: of all layers, uint32. Those of this layer are entered if they are read.
        first: the place of this layer's first pixel.
        height, width: of the layer.
        stride: places from row to row.
        channels: of a pixel.
        bits: of a sample.
        periods: places to the left, int64 (2,).
        canvas: places to the left, where a copy of the canvas has the same pixel; 0 without a canvas. It is period 0, too.
    """

    pixels: np.ndarray
    first: int
    height: int
    width: int
    stride: int
    channels: int
    bits: int
    periods: np.ndarray
    canvas: int


@part_of_loop_in_place
def equals(pixels, at, other):
    """Whether two places have the same pixel: 0 or 1."""
    return np.int64(pixels[at] == pixels[other])


@part_of_loop_in_place
def channel(pixel, shift):
    """The channel of a pixel whose lowest bit is bit `shift`."""
    return np.int64(pixel) >> shift & 255


@part_of_loop_in_place
def clamped(value):
    """The nearest sample of 8 bits."""
    return min(255, max(0, value))


@part_of_loop_in_place
def hashed(hash_, value):
    """A hash (uint64), extended by a value."""
    return (hash_ ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15) ^ (hash_ >> np.uint64(29))


@part_of_loop_in_place
def place_of(hash_, bits):
    """The place of a hash in a table of 2^bits."""
    return np.int64(hash_ * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(64 - bits))
