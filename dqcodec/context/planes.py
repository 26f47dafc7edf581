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
