"""Where the blocks of a JPEG lie in an image that was cut out of a larger one: at this shift most coefficients are 0."""

from collections.abc import Sequence

import numpy as np

from dqcodec.exact.jpeg import fitting
from dqcodec.exact.jpeg.blocks import blocks, pooled

SHIFTS = [(down, right) for down in range(8) for right in range(8)]
_BLOCKS = 160  # are enough to choose a shift
_LEAST_CLEAN, _LEAST_VARIANCE = 16, 1
_ZERO = 0.75  # rounding samples rarely changes a coefficient of 0 by more


def likeliest(plane: np.ndarray, is_sure: np.ndarray, shifts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The one of these shifts, (down, right) below 8, at which blocks of a plane (H, W) have the most zeros."""
    rows, columns = plane.shape[0] // 8 - 1, plane.shape[1] // 8 - 1
    if rows < 1 or columns < 1:
        return shifts[0]
    sure = pooled(is_sure[: 8 * rows + 8, : 8 * columns + 8], 8, 8)
    known = (sure[1:, 1:] + sure[1:, :-1] + sure[:-1, 1:] + sure[:-1, :-1]).ravel()
    busy = np.flatnonzero(blocks(plane[4 : 8 * rows + 4, 4 : 8 * columns + 4]).var(1) > _LEAST_VARIANCE)
    chosen = busy[known[busy] == 256]
    if len(chosen) < _LEAST_CLEAN:
        chosen = busy[np.argsort(-known[busy], kind="stable")][:_BLOCKS]
    chosen = chosen[:: max(1, -(-len(chosen) // _BLOCKS))]
    top, left = chosen // columns * 8, chosen % columns * 8
    y, x = np.mgrid[:8, :8]
    counts = []
    for down, right in shifts:
        chosen = plane[(top + down)[:, None, None] + y, (left + right)[:, None, None] + x]
        coefficients = fitting.coefficients(chosen)
        counts.append((np.abs(coefficients[:, 1:]) > _ZERO).sum())
    return shifts[int(np.argmin(counts))]
