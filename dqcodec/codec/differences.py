"""What differs among pixels: each from its neighbours, and from all others."""

from __future__ import annotations

import functools

import numpy as np


def differing(pixels: np.ndarray) -> np.ndarray:
    """Whether each pixel (H, W, C) differs from its left or upper neighbour, bool (H - 1, W - 1)."""
    differs = (pixels[1:, 1:] != pixels[1:, :-1]) | (pixels[1:, 1:] != pixels[:-1, 1:])
    return functools.reduce(np.logical_or, np.moveaxis(differs, 2, 0))  # faster than any(axis=2)


def distinct(values: np.ndarray) -> int:
    """How many of values (n,) differ. Sorting is faster than np.unique."""
    ordered = np.sort(values)
    return int((ordered[1:] != ordered[:-1]).sum()) + min(1, len(values))
