"""Tiles of layers as boxes: a layer's number, rows and columns."""

from collections.abc import Sequence

import numpy as np

Box = tuple[int, slice, slice]  # a layer's number, rows, columns


def cut(number: int, size: tuple[int, int], tile: tuple[int, int]) -> list[Box]:
    """Cut a layer of `size` (height, width) from its top left into tiles, row by row. Edge tiles may be smaller."""
    (height, width), (rows, columns) = size, tile
    return [
        (number, slice(top, min(top + rows, height)), slice(left, min(left + columns, width)))
        for top in range(0, height, rows)
        for left in range(0, width, columns)
    ]


def part(layers: Sequence[np.ndarray], box: Box) -> np.ndarray:
    """The pixels in a box, a view (H, W, C)."""
    number, rows, columns = box
    return layers[number][rows, columns]


def sides(box: Box) -> tuple[int, int]:
    """(height, width) of a box."""
    _, rows, columns = box
    return rows.stop - rows.start, columns.stop - columns.start
