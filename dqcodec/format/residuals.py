"""16-bit samples <-> residuals of a prediction from neighbours, see split.py. numba compiles the loops at the first
use."""

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop


def encode(samples: np.ndarray) -> np.ndarray:
    """Samples (H, W, C) uint16 -> residuals (H, W, C) uint16."""
    return _encode(_add_green(samples, -1))


def decode(residuals: np.ndarray) -> np.ndarray:
    """Residuals (H, W, C) uint16 -> samples: the inverse of encode."""
    return _add_green(_decode(residuals), 1)


def _add_green(samples: np.ndarray, sign: int) -> np.ndarray:
    """Add sign times green to red and blue, modulo 2^16; gray stays as it is."""
    if samples.shape[2] < 3:
        return samples
    shifted = samples.copy()
    shifted[..., [0, 2]] += np.uint16(sign & 65535) * samples[..., 1:2]
    return shifted


@part_of_loop
def _predicted(samples, y, x, c):
    """left + up - corner, clamped to the range of left and up."""
    left = np.int64(samples[y, x - 1, c]) if x else 0
    up = np.int64(samples[y - 1, x, c]) if y else 0
    corner = np.int64(samples[y - 1, x - 1, c]) if x and y else 0
    return max(min(left, up), min(max(left, up), left + up - corner))


@compiled
def _encode(samples):
    out = np.empty(samples.shape, np.uint16)
    for y in range(samples.shape[0]):
        for x in range(samples.shape[1]):
            for c in range(samples.shape[2]):
                value = (samples[y, x, c] - _predicted(samples, y, x, c)) & 65535
                out[y, x, c] = 2 * value if value < 32768 else 2 * (65535 - value) + 1
    return out


@compiled
def _decode(residuals):
    samples = np.empty(residuals.shape, np.uint16)
    for y in range(residuals.shape[0]):
        for x in range(residuals.shape[1]):
            for c in range(residuals.shape[2]):
                code = np.int64(residuals[y, x, c])
                value = code >> 1 if code % 2 == 0 else 65535 - (code >> 1)
                samples[y, x, c] = (value + _predicted(samples, y, x, c)) & 65535
    return samples
