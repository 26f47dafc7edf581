"""The planes of pixels that models code: G, R - G, B - G, or gray. Channels are the last axis."""

import numpy as np
from numpy.typing import DTypeLike


def coding_order(values: np.ndarray) -> np.ndarray:
    """R, G, B in the order G, R, B, and back. Gray stays as it is. A copy."""
    return values[..., [1, 0, 2]] if values.shape[-1] == 3 else values.copy()


def differences(values: np.ndarray, dtype: DTypeLike = np.int32) -> np.ndarray:
    """G, R, B, as far as they are known, -> planes G, R - G, B - G of this type. Gray stays as it is."""
    planes = values.astype(dtype)
    planes[..., 1:] -= planes[..., :1]
    return planes


def to_planes(pixels: np.ndarray) -> np.ndarray:
    """Pixels (H, W, C) uint8 -> planes (H W, P) int16: G, R - G, B - G, or gray."""
    return differences(coding_order(pixels.reshape(-1, pixels.shape[2])), np.int16)


def to_pixels(planes: np.ndarray) -> np.ndarray:
    """The inverse of to_planes, for planes in the order of channels: int16 (H, W, C) -> uint8."""
    if planes.shape[2] == 3:
        planes = planes + planes[..., 1:2] * np.array([1, 0, 1], np.int16)
    return planes.astype(np.uint8)
