"""Layers of pixels, as the loops of mixing see them: one array of numbers, with margins.

A pixel is one number, uint32: its channels in the order of coding, 8 bits each, the first one highest. Layers follow
each other in one array, row by row. A layer has MARGIN rows above it and MARGIN columns at both sides; these pixels are
0. So a neighbour is always at a fixed distance: of the pixel at place p, W is at p - 1 and N at p - stride.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.base.errors import CorruptError
from dqcodec.frozen.mixing import ORDERS
from dqcodec.frozen.pixel_mixing import MARGIN


class PixelLayer(NamedTuple):
    """A layer of a Pixels.

    Attributes:
        pixels: of all layers, uint32. Those of this layer are entered if they are read.
        first: the place of this layer's first pixel.
        height, width: of the layer.
        stride: places from row to row.
        channels: of a pixel.
        bits: of a sample.
        periods: places to the left, int64 (2,).
        canvas: places to the left, where a copy of the canvas has the same pixel; 0 without
            a canvas. It is period 0, too.
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


class Pixels:
    """The pixels of layers, one layer after the other.

    Attributes:
        flat: all of them, uint32 (places,).
        firsts: the place of each layer's first pixel.
        shapes: of the layers, (H, W, C).
    """

    def __init__(self, shapes: Sequence[tuple[int, int, int]], before: int = 0) -> None:
        """Pixels that are all 0. before: free places before the first layer. Raises CorruptError: too many pixels."""
        sizes = [(height + MARGIN) * stride_of(width) for height, width, _ in shapes]
        if before + sum(sizes) >= 1 << 31:
            raise CorruptError("the layers are too large for mixing")
        starts = itertools.accumulate(sizes[:-1], initial=before)
        self.shapes = shapes
        self.firsts = [start + place_of_first(width) for start, (_, width, _) in zip(starts, shapes)]
        self.flat = np.zeros(before + sum(sizes), np.uint32)

    @classmethod
    def of(cls, layers: Sequence[np.ndarray], before: int = 0) -> "Pixels":
        """The pixels of layers (H, W, C) uint8."""
        pixels = cls([layer.shape for layer in layers], before)
        for number, layer in enumerate(layers):
            pixels.part(number)[:] = numbers(layer)
        return pixels

    def part(self, number: int) -> np.ndarray:
        """The pixels of a layer, a view (H, W)."""
        return part_of(self.flat, self.firsts[number], *self.shapes[number][:2])

    def layer(self, number: int, bits: int, periods: Sequence[int] = (0, 0), canvas: int = 0) -> PixelLayer:
        """A layer for loops; see PixelLayer."""
        height, width, channels = self.shapes[number]
        first, stride = self.firsts[number], stride_of(width)
        return PixelLayer(self.flat, first, height, width, stride, channels, bits, np.array(periods), canvas)

    def layers(self) -> list[np.ndarray]:
        """All layers (H, W, C) uint8."""
        return [_layer(self.part(number), shape[2]) for number, shape in enumerate(self.shapes)]


@part_of_loop_in_place
def stride_of(width: int) -> int:
    """Places from row to row."""
    return width + 2 * MARGIN


def place_of_first(width: int) -> int:
    """The place of a layer's first pixel behind its margin."""
    return MARGIN * stride_of(width) + MARGIN


def part_of(flat: np.ndarray, first: int, height: int, width: int) -> np.ndarray:
    """The pixels (H, W) of the layer whose first pixel is at `first`, a view."""
    start, stride = first - MARGIN, stride_of(width)
    return flat[start : start + height * stride].reshape(height, stride)[:, MARGIN:-MARGIN]


def numbers(layer: np.ndarray) -> np.ndarray:
    """The pixels (H, W) uint32 of a layer (H, W, C) uint8."""
    whole = np.zeros(layer.shape[:2], np.uint32)
    for channel in ORDERS[layer.shape[2]]:
        whole = whole << 8 | layer[..., channel]
    return whole


def bits_of(layer: np.ndarray) -> int:
    """The binary digits of a layer's largest sample, at least 1."""
    return max(1, int(layer.max()).bit_length())


def _layer(pixels: np.ndarray, channels: int) -> np.ndarray:
    """The inverse of numbers."""
    layer = np.empty((*pixels.shape, channels), np.uint8)
    for place, channel in enumerate(reversed(ORDERS[channels])):
        layer[..., channel] = pixels >> 8 * place
    return layer


class Neighbours(NamedTuple):
    """The nearest neighbours of a pixel, by compass points: pixels, or one channel of them."""

    W: int
    N: int
    NW: int
    NE: int
    WW: int
    NN: int


@part_of_loop_in_place
def neighbours(pixels, at, stride):
    """The Neighbours of the pixel at a place."""
    north = at - stride
    return Neighbours(
        pixels[at - 1], pixels[north], pixels[north - 1], pixels[north + 1], pixels[at - 2], pixels[north - stride]
    )


@part_of_loop_in_place
def of_channel(near, shift):
    """A channel of Neighbours."""
    W, N, NW, NE, WW, NN = near
    return Neighbours(
        channel(W, shift), channel(N, shift), channel(NW, shift), channel(NE, shift), channel(WW, shift), channel(NN, shift)
    )  # fmt: skip


@part_of_loop_in_place
def pattern(near):
    """Which of Neighbours are equal: 6 bits."""
    W, N, NW, NE, WW, NN = near
    equal = np.int64(W == N) | np.int64(N == NW) << 1 | np.int64(N == NE) << 2 | np.int64(W == NW) << 3
    return equal | np.int64(W == WW) << 4 | np.int64(N == NN) << 5


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
