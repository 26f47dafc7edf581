"""Layers that learn from the coded pixels: exact Adam (Kingma and Ba 2015).

Encoder and decoder make the same steps, so the weights need not be sent. Gradients are integers, and their sums are
exact. The rest is float64; dqcodec.context.context says how numbers stay exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop
from dqcodec.exact.networks import Linear
from dqcodec.frozen.autoregressive import EPSILON, EXACT, MOMENTUM, SECOND_MOMENTUM


class _Layers(NamedTuple):
    """P layers that learn, their weights with the biases as last row.

    Attributes:
        weights: float64 (P, I + 1, O).
        first, second: the moments of their gradients, float64 (P, I + 1, O).
        matrices: the weights, rounded to their quanta, float32 (P, I + 1, O).
        quanta: the steps of the weights' grids, float64 (P, O).
        rates: the step sizes, float64 (I + 1, O).
        bounds: of the inputs, float64 (I + 1,).
        passed: the bound of the gradients with respect to the outputs, if they are passed
            back to the inputs; otherwise 0.
    """

    weights: np.ndarray
    first: np.ndarray
    second: np.ndarray
    matrices: np.ndarray
    quanta: np.ndarray
    rates: np.ndarray
    bounds: np.ndarray
    passed: float


class LearningLinears:
    """P linear layers of one shape that learn.

    Args:
        shifts: of the quanta, 2^-shifts, integers (P, O).
        matrices, rates, bounds, passed: see _Layers. The last input is the constant 1.
    """

    def __init__(
        self, matrices: np.ndarray, shifts: np.ndarray, rates: np.ndarray, bounds: np.ndarray, passed: float = 0.0
    ):
        self._layers = _Layers(
            weights=matrices.astype(np.float64),
            first=np.zeros(matrices.shape),
            second=np.zeros(matrices.shape),
            matrices=matrices,
            quanta=np.ldexp(1.0, -shifts),
            rates=rates,
            bounds=bounds,
            passed=passed,
        )
        self._first_decay = self._second_decay = 1.0

    @property
    def matrices(self) -> np.ndarray:
        """The layers as they are now. Each step changes this array."""
        return self._layers.matrices

    @classmethod
    def copies(cls, linears: Sequence[Linear], rates: np.ndarray) -> "LearningLinears":
        """Copies of Linears of one shape. rates: the step size of each output's weights, and of its bias, (2, O)."""
        inputs, max_input = linears[0].inputs, float(linears[0].max_input)
        return cls(
            np.stack([linear.matrix for linear in linears]),
            np.stack([linear.shift for linear in linears]),
            np.repeat(rates, [inputs, 1], axis=0),
            np.append(np.full(inputs, max_input), 1.0),
        )

    def step(self, sums: np.ndarray) -> None:
        """Learn from the gradients for the matrices, summed over a batch; integers in float64 (P, I + 1, O)."""
        self._first_decay *= MOMENTUM
        self._second_decay *= SECOND_MOMENTUM
        _adam(self._layers, sums, 1 - self._first_decay, 1 - self._second_decay)


@compiled
def _adam(layers, sums, first_share, second_share):
    """Make a step from the sums of gradients (P, I + 1, O). The shares are the sums of the moments' weights."""
    planes, inputs, outputs = layers.weights.shape
    weights = np.empty((inputs, outputs))
    for p in range(planes):
        inverse = 1 / layers.quanta[p]  # exact: quanta are powers of two
        largest = np.zeros(outputs)  # the largest sums that inputs within their bounds can give, in quanta
        for i in range(inputs):
            new, bound = weights[i], layers.bounds[i]
            first, second = layers.first[p, i], layers.second[p, i]
            _set_moments(first, second, sums[p, i])
            _set_weights(new, layers.weights[p, i], layers.rates[i], first, second, first_share, second_share)
            for o in range(outputs):
                largest[o] += abs(np.rint(new[o] * inverse[o])) * bound
        is_exact = largest.max() < EXACT
        if layers.passed:
            is_exact &= largest_passed(weights, layers.quanta[p], layers.passed) < EXACT
        if is_exact:  # otherwise the layer stays as it is
            for i in range(inputs):
                for o in range(outputs):
                    layers.weights[p, i, o] = weights[i, o]
                    layers.matrices[p, i, o] = np.rint(weights[i, o] * inverse[o]) * layers.quanta[p, o]


@part_of_loop
def _set_moments(first, second, gradients):
    """Short loops over few arrays become loops over vectors; see also _set_weights."""
    for o in range(len(gradients)):
        gradient = gradients[o]
        first[o] += (1 - MOMENTUM) * (gradient - first[o])
        second[o] += (1 - SECOND_MOMENTUM) * (gradient * gradient - second[o])


@part_of_loop
def _set_weights(new, old, rates, first, second, first_share, second_share):
    for o in range(len(new)):
        size = np.sqrt(second[o] / second_share) + EPSILON
        new[o] = old[o] - rates[o] * (first[o] / first_share / size)


@compiled
def largest_passed(weights, quanta, passed):
    """The largest sum, in the finest quantum, that gradients up to `passed` give when they are passed back to an input.

    weights: (I + 1, O), rounded here to quanta (O,).
    """
    largest, inverse, relative = 0.0, 1 / quanta, quanta / quanta.min()
    steps = np.empty(len(quanta))
    for i in range(len(weights) - 1):
        for o in range(len(quanta)):
            steps[o] = abs(np.rint(weights[i, o] * inverse[o]))
        largest = max(largest, np.dot(steps, relative) * passed)  # of integers, so in any order
    return largest
