"""Linear layers over rows (N, features), and what follows them, compiled: float32 that holds integers with proven sums."""

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 what np.dot calls here: loaded before its threads are limited

from dqcodec.base.compiled import compiled
from dqcodec.frozen.networks import LEAK


@compiled
def linear(a, weights, bias):
    """a (N, I) @ weights (I, O) + bias (O,), before rounding."""
    out = np.dot(a, weights)
    for n in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[n, i] += bias[i]
    return out


@compiled
def rounded(value, bound):
    """Round down, clamp."""
    return min(max(np.floor(value), -bound), bound)


@compiled
def activated(value, bound):
    """Leaky rectifier, round, clamp."""
    return rounded(max(value, value * np.float32(LEAK)), bound)


@compiled
def leaky(value):
    """max(a, a / 8 rounded, half to even)"""
    return max(value, np.rint(value * np.float32(LEAK)))
