"""Linear layers over pixels, and activations, compiled. dqcodec.context.context says how numbers stay exact."""

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 np.dot calls it; it must be loaded before its threads are limited

from dqcodec.base.compiled import part_of_loop
from dqcodec.frozen.networks import LEAK


@part_of_loop
def linear(matrix, a):
    """The outputs of a layer for its first inputs a (I', N), before rounding, float32 (O, N).

    matrix: float32 (I + 1, O), I >= I'; its last row is the bias.
    """
    out = np.dot(matrix[: len(a)].T, a)
    for o in range(out.shape[0]):
        for n in range(out.shape[1]):
            out[o, n] += matrix[-1, o]
    return out


@part_of_loop
def rounded(value, bound):
    """Round down and clamp to +-bound."""
    return min(max(np.floor(value), -bound), bound)


@part_of_loop
def activated(value, bound):
    """A leaky rectifier, then `rounded`."""
    return rounded(max(value, value * np.float32(LEAK)), bound)


@part_of_loop
def leaky(value):
    """max(a, a / 8 rounded, half to even)."""
    return max(value, np.rint(value * np.float32(LEAK)))
