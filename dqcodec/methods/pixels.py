"""Layers (H, W, C) uint8 as one array of pixels with margins, for the loops of exact/mixing/pixel_mixing.py.

A pixel is one number: its channels in the order of coding, 8 bits each, the first one highest.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.exact.mixing.bit_mixing import BitMixer
from dqcodec.exact.mixing.layer import PixelLayer
from dqcodec.exact.mixing.pixel_mixing import PixelMixer
from dqcodec.exact.mixing.priors import UNTRAINED, Prior
from dqcodec.frozen.mixing import ORDERS
from dqcodec.frozen.pixel_mixing import MARGIN

_MAX_PIXELS_A_BYTE = 363_408  # a byte holds at most 8 / log2(65536 / 65535) of the most certain pixels
_MAX_PIXEL_BYTES = 4  # of a pixel, and 2 bytes of each bit of a sample, as the least probability is 2^-16


class Pixels:
    """The pixels of layers, one layer after the other.

    Attributes:
        flat: all of them, uint32. Margins are 0.
        firsts: the place of each layer's first pixel.
        shapes: of the layers.
    """

    def __init__(self, shapes: Sequence[tuple[int, int, int]], before: int = 0) -> None:
        """Pixels that are all 0. before: free places before the first layer. Raises CorruptError: too many pixels."""
        sizes = [(height + MARGIN) * stride_of(width) for height, width, _ in shapes]
        if before + sum(sizes) >= 1 << 31:
            raise CorruptError("the layers are too large for pixel mixing")
        starts = itertools.accumulate(sizes[:-1], initial=before)
        self.shapes = shapes
        self.firsts = [start + place_of_first(width) for start, (_, width, _) in zip(starts, shapes)]
        self.flat = np.zeros(before + sum(sizes), np.uint32)

    @classmethod
    def of(cls, layers: Sequence[np.ndarray], before: int = 0) -> Pixels:
        """The pixels of layers (H, W, C) uint8."""
        pixels = cls([layer.shape for layer in layers], before)
        for number, layer in enumerate(layers):
            pixels.part(number)[:] = numbers(layer)
        return pixels

    def mixers(self, prior: Prior = UNTRAINED, *, has_canvas: bool = False) -> tuple[PixelMixer, BitMixer]:
        """Mixers for all pixels of layers with the same number of channels."""
        count, widest = _count(self.shapes), max(width for _, width, _ in self.shapes)
        hits = PixelMixer.new(count, widest, prior, has_canvas=has_canvas)
        return hits, BitMixer.new(count * self.shapes[0][2], prior)

    def part(self, number: int) -> np.ndarray:
        """The pixels of a layer, a view (H, W)."""
        return part_of(self.flat, self.firsts[number], *self.shapes[number][:2])

    def layer(self, number: int, bits: int, periods: Sequence[int], canvas: int = 0) -> PixelLayer:
        """A layer for the loops of mixing; see PixelLayer."""
        height, width, channels = self.shapes[number]
        first, stride = self.firsts[number], stride_of(width)
        return PixelLayer(self.flat, first, height, width, stride, channels, bits, np.array(periods), canvas)

    def layers(self) -> list[np.ndarray]:
        """All layers (H, W, C) uint8."""
        return [_layer(self.part(number), shape[2]) for number, shape in enumerate(self.shapes)]


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


def most_bytes(shapes: Sequence[tuple[int, int, int]], bits: Sequence[int]) -> int:
    """The largest length of a code of layers, bytes. bits: of the samples of each."""
    return sum(h * w * (_MAX_PIXEL_BYTES + 2 * each * channels) for (h, w, channels), each in zip(shapes, bits))


def check_length(shapes: Sequence[tuple[int, int, int]], size: int) -> None:
    """Raise CorruptError if a code of `size` bytes is too short for layers of these shapes."""
    if _count(shapes) > _MAX_PIXELS_A_BYTE * (size + 5):
        raise CorruptError("the payload is too short for its image")


def _count(shapes: Sequence[tuple[int, int, int]]) -> int:
    """The pixels of layers."""
    return sum(height * width for height, width, _ in shapes)


def _layer(pixels: np.ndarray, channels: int) -> np.ndarray:
    """The inverse of numbers."""
    layer = np.empty((*pixels.shape, channels), np.uint8)
    for place, channel in enumerate(reversed(ORDERS[channels])):
        layer[..., channel] = pixels >> 8 * place
    return layer
