"""Tiles of layers as boxes: a layer's number, rows and columns. Windows of layers: rows and columns."""

from collections.abc import Sequence

import numpy as np

Box = tuple[int, slice, slice]  # a layer's number, rows, columns
Window = tuple[slice, slice]  # rows, columns


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


def sides(box: Box | Window) -> tuple[int, int]:
    """(height, width) of a box or a window."""
    *_, rows, columns = box
    return rows.stop - rows.start, columns.stop - columns.start


def area(box: Box | Window) -> int:
    """The pixels of a box or a window."""
    height, width = sides(box)
    return height * width


def whole(shape: tuple[int, ...]) -> Window:
    """The window of all pixels of an array (H, W, ...)."""
    return slice(0, shape[0]), slice(0, shape[1])


def overlap(tile: Window, window: Window | None) -> Window | None:
    """The pixels that a tile and a window share, or None. Both are places in one layer; None has no pixels."""
    if window is None:
        return None
    rows, columns = (
        slice(max(mine.start, other.start), min(mine.stop, other.stop)) for mine, other in zip(tile, window)
    )
    return (rows, columns) if rows.start < rows.stop and columns.start < columns.stop else None


def inside(window: Window, outer: Window) -> Window:
    """A window's place in the array that `outer` cuts out; it must lie in `outer`."""
    rows, columns = (slice(mine.start - other.start, mine.stop - other.start) for mine, other in zip(window, outer))
    return rows, columns


def hull(window: Window, other: Window) -> Window:
    """The smallest window that holds both."""
    rows, columns = (
        slice(min(mine.start, their.start), max(mine.stop, their.stop)) for mine, their in zip(window, other)
    )
    return rows, columns
