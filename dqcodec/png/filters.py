"""The five row filters of PNG, in both directions, on rows of bytes. numba compiles them at the first use."""

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop

FILTERS = 5  # None, Sub, Up, Average, Paeth


@part_of_loop
def _paeth(left, up, corner):
    to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner


@part_of_loop
def _predicted(rows, y, x, distance, kind):
    """The prediction of a byte by a filter, from the bytes to the left, above, and above on the left."""
    left = np.int64(rows[y, x - distance]) if x >= distance else 0
    up = np.int64(rows[y - 1, x]) if y else 0
    corner = np.int64(rows[y - 1, x - distance]) if y and x >= distance else 0
    if kind == 1:
        return left
    if kind == 2:
        return up
    if kind == 3:
        return (left + up) >> 1
    return _paeth(left, up, corner) if kind == 4 else 0


@compiled
def undo(filtered, distance):
    """Filtered rows (H, 1 + B) uint8 -> rows (H, B) uint8.

    The first byte of each filtered row is its filter, at most 4. distance: bytes from a pixel to the next.
    """
    height, width = filtered.shape[0], filtered.shape[1] - 1
    rows = np.empty((height, width), np.uint8)
    for y in range(height):
        kind = filtered[y, 0]
        for x in range(width):
            rows[y, x] = (filtered[y, 1 + x] + _predicted(rows, y, x, distance, kind)) & 255
    return rows


@compiled
def apply(rows, kinds, distance):
    """The inverse of undo: rows (H, B) uint8 -> filtered rows (H, 1 + B) uint8.

    kinds: the filter of each row, (H,) uint8. distance: bytes from a pixel to the next.
    """
    height, width = rows.shape
    filtered = np.empty((height, 1 + width), np.uint8)
    for y in range(height):
        kind = kinds[y]
        filtered[y, 0] = kind
        for x in range(width):
            filtered[y, 1 + x] = (rows[y, x] - _predicted(rows, y, x, distance, kind)) & 255
    return filtered


@compiled
def smallest(rows, distance):
    """The best filter of each row, (H,) uint8, for rows (H, B) uint8.

    It is the one whose filtered bytes, as signed numbers, have the smallest sum of magnitudes.
    """
    height, width = rows.shape
    kinds = np.empty(height, np.uint8)
    for y in range(height):
        best = np.int64(-1)
        for kind in range(FILTERS):
            total = np.int64(0)
            for x in range(width):
                value = (np.int64(rows[y, x]) - _predicted(rows, y, x, distance, kind)) & 255
                total += min(value, 256 - value)
            if best < 0 or total < best:
                best, kinds[y] = total, kind
    return kinds
