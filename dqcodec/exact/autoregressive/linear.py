"""Linear layers over pixels, and activations, compiled. dqcodec.context.context says how numbers stay exact."""

from typing import NamedTuple

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401 np.dot calls it; it must be loaded before its threads are limited

from dqcodec.base.compiled import compiled, part_of_loop
from dqcodec.base.instructions import MULTIPLIES_PAIRS
from dqcodec.exact.autoregressive.products import LARGEST, pairs, product
from dqcodec.frozen.networks import LEAK

_LARGEST = np.float32(LARGEST)


class Layers(NamedTuple):
    """L linear layers of one shape.

    Attributes:
        matrices: the weights, integers times `steps`; the last row is the bias. float32 (L, I + 1, O).
        steps: powers of two, float32 (L, O).
        inputs: the number of first inputs I' <= I for which `linear` computes the outputs.
        largest: the bound of their absolute values.
        pairs: the integers of the weights for these inputs, see products; int32 (L, ceil(I' / 2), O').
        are_short: whether inputs and weights of each layer fit in pairs; otherwise its pairs are not used. bool (L,).
    """

    matrices: np.ndarray
    steps: np.ndarray
    inputs: int
    largest: int
    pairs: np.ndarray
    are_short: np.ndarray


def layers(matrices: np.ndarray, shifts: np.ndarray, inputs: int, largest: int) -> Layers:
    """Layers with matrices float32 (L, I + 1, O), integers times 2^-shifts (L, O), ready for use."""
    packed = np.zeros((len(matrices), *pairs(matrices[0, :inputs]).shape), np.int32)
    made = Layers(matrices, np.ldexp(np.float32(1), -shifts), inputs, largest, packed, np.zeros(len(matrices), bool))
    set_pairs(made)
    return made


@compiled
def set_pairs(layers):
    """Set the pairs of layers from their matrices, in place: at least twice as fast as by
    `pairs`, and learning needs it often.
    """
    for index in range(len(layers.matrices)):
        matrix, steps, packed = layers.matrices[index], layers.steps[index], layers.pairs[index]
        is_short = MULTIPLIES_PAIRS and layers.largest <= LARGEST
        for i in range(layers.inputs):
            for o in range(len(steps)):
                integer = matrix[i, o] / steps[o]
                is_short &= abs(integer) <= _LARGEST
                if i % 2 == 0:
                    packed[i // 2, o] = np.int32(integer) & 0xFFFF
                else:
                    packed[i // 2, o] |= np.int32(integer) << 16
        layers.are_short[index] = is_short


@part_of_loop
def linear(layers, index, a):
    """The outputs of a layer for its first inputs, float32 (I', N), before rounding, float32 (O, N)."""
    matrix, steps = layers.matrices[index], layers.steps[index]
    if not layers.are_short[index]:
        out = np.dot(matrix[: len(a)].T, a)
        for o in range(out.shape[0]):
            for n in range(out.shape[1]):
                out[o, n] += matrix[-1, o]
        return out
    out = np.empty((matrix.shape[1], a.shape[1]), np.float32)
    sums = product(layers.pairs[index], pairs(a), len(out))
    for o in range(out.shape[0]):
        for n in range(out.shape[1]):
            out[o, n] = np.float32(sums[o, n]) * steps[o] + matrix[-1, o]
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
