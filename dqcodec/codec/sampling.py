"""Samples of layers: parts that stand for all pixels, so that a trial costs less than coding.

Layers are (H, W, C) uint8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.codec.differences import differing
from dqcodec.exact.boxes import cut, part, sides

_LEAST, _LARGEST = 1 << 12, 1 << 14  # pixels of a sample
_PART = 8  # a sample has 1/8 of the pixels
_SIDE = 64


def sample(layers: Sequence[np.ndarray], most: int | None = None) -> Iterator[np.ndarray]:
    """Square parts of evenly chosen layers, about `most` pixels in all. A narrow layer gives parts of its full width."""
    most = most or _sample_pixels(layers)
    pixels = min(_SIDE**2, count_pixels(layers) // len(layers))
    some = layers[:: -(-len(layers) // max(1, most // pixels))]
    for layer in some:
        parts = squares(layer, _SIDE)
        count = max(1, most // len(some) // parts[0][..., 0].size)
        yield from parts[:: max(1, len(parts) // count)][:count]


def sample_of_drawing(pixels: np.ndarray) -> tuple[list[np.ndarray], int, int]:
    """(parts of a drawing, their number of pixels that differ from neighbours, the number of all such pixels).

    Bits go to pixels that differ from their neighbours. So a part is chosen in proportion to its number of such pixels
    (Hansen and Hurwitz 1943), and its bits stand for those of all.
    """
    differs = differing(pixels).astype(np.int64)
    if not differs.any():
        return [], 0, 0
    rows, columns = (np.arange(0, length, _SIDE) for length in differs.shape)
    counts = np.add.reduceat(np.add.reduceat(differs, rows, axis=0), columns, axis=1)
    before = counts.cumsum()
    parts = _LARGEST // _SIDE**2
    chosen = np.unique(before.searchsorted((np.arange(parts) + 0.5) / parts * before[-1]))
    corners = np.stack(np.unravel_index(chosen, counts.shape), 1) * _SIDE
    some = [pixels[top : top + _SIDE + 1, left : left + _SIDE + 1] for top, left in corners]
    return some, int(counts.flat[chosen].sum()), int(before[-1])


def squares(pixels: np.ndarray, side: int) -> list[np.ndarray]:
    """The squares of a grid that lie wholly in a layer, row by row. Those of a narrow layer have its full width."""
    height, width = pixels.shape[:2]
    size = min(side, height), min(side, width)
    return [part((pixels,), box) for box in cut(0, (height, width), size) if sides(box) == size]


def is_small(layers: Sequence[np.ndarray]) -> bool:
    """Whether a sample of the layers is most of them: then a trial is no cheaper than coding them."""
    return 2 * _sample_pixels(layers) > count_pixels(layers)


def count_pixels(layers: Sequence[np.ndarray]) -> int:
    """The pixels of all layers."""
    return sum(layer[..., 0].size for layer in layers)


def _sample_pixels(layers: Sequence[np.ndarray]) -> int:
    return max(_LEAST, min(_LARGEST, count_pixels(layers) // _PART))
