"""Planes <-> blocks of 8 x 8 samples, and sums over cells."""

import numpy as np


def block_count(length: int) -> int:
    """The number of blocks that cover this number of samples."""
    return -(-length // 8)


def padded(plane: np.ndarray) -> np.ndarray:
    """A plane (rows, columns, ...), padded to whole blocks: with copies of its edges, or with False if it is bool."""
    missing = [(0, -length % 8) for length in plane.shape[:2]] + [(0, 0)] * (plane.ndim - 2)
    return np.pad(plane, missing) if plane.dtype == bool else np.pad(plane, missing, mode="edge")


def blocks(plane: np.ndarray) -> np.ndarray:
    """The blocks (n, 64, ...) of a plane (rows, columns, ...)."""
    whole = padded(plane)
    rest = whole.shape[2:]
    return whole.reshape(whole.shape[0] // 8, 8, -1, 8, *rest).swapaxes(1, 2).reshape(-1, 64, *rest)


def pooled(plane: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Sums over cells of rows x columns pixels of a plane (H, W), float64. Pixels beyond the plane are 0."""
    height, width = -(-plane.shape[0] // rows), -(-plane.shape[1] // columns)
    whole = np.zeros((height * rows, width * columns))
    whole[: plane.shape[0], : plane.shape[1]] = plane
    return whole.reshape(height, rows, width, columns).sum((1, 3))
