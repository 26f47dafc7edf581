"""Last layers that go on learning from what is coded: exact Adam (Kingma and Ba 2015).

Encoder and decoder make the same steps, so the weights need not be sent. Gradients are integers, whose sums are exact;
all else is single additions, multiplications, divisions and roots of float64, which IEEE 754 rounds the same everywhere.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.exact.networks import Linear
from dqcodec.frozen.autoregressive import EPSILON, EXACT, MOMENTUM, SECOND_MOMENTUM


class _Layers(NamedTuple):
    """P layers that learn, (P, I + 1, O): their weights, the moments of their gradients, float64; the weights on their quanta,
    float32."""

    weights: np.ndarray
    first: np.ndarray
    second: np.ndarray
    matrices: np.ndarray


class _Limits(NamedTuple):
    """rates: the step size of each weight (I + 1, O). quanta: of each output's weights (P, O). inputs: their bounds (I + 1,)."""

    rates: np.ndarray
    quanta: np.ndarray
    inputs: np.ndarray


class LearningLinears:
    """Copies of P Linears of one shape that learn.

    rates: the step size of each output's weights, and of its bias, (2, O). matrices: as they are now, float32 (P, I + 1, O).
    """

    def __init__(self, linears: Sequence[Linear], rates: np.ndarray):
        self.matrices = np.stack([linear.matrix for linear in linears])
        self._layers = _Layers(self.matrices.astype(np.float64), *np.zeros((2, *self.matrices.shape)), self.matrices)
        inputs, max_input = linears[0].inputs, float(linears[0].max_input)
        self._limits = _Limits(
            np.repeat(rates, [inputs, 1], axis=0),
            np.ldexp(1.0, -np.stack([linear.shift for linear in linears])),
            np.append(np.full(inputs, max_input), 1.0),
        )
        self._first_decay = self._second_decay = 1.0

    def step(self, sums: np.ndarray) -> None:
        """Learn from the gradients of the loss by the matrices, integers, summed over a batch; float64 (P, I + 1, O)."""
        self._first_decay *= MOMENTUM
        self._second_decay *= SECOND_MOMENTUM
        _adam(self._layers, sums, 1 - self._first_decay, 1 - self._second_decay, self._limits)


@compiled
def _adam(layers, sums, first_decay, second_decay, limits):
    """Make a step, from the sums of gradients (P, I + 1, O); the decays are what the moments' weights add up to."""
    first, second, quanta = layers.first, layers.second, limits.quanta
    planes, inputs, outputs = layers.weights.shape
    for p in range(planes):
        weights, bounds = np.empty((inputs, outputs)), np.zeros(outputs)
        for i in range(inputs):
            for o in range(outputs):
                gradient = sums[p, i, o]
                first[p, i, o] += (1 - MOMENTUM) * (gradient - first[p, i, o])
                second[p, i, o] += (1 - SECOND_MOMENTUM) * (gradient * gradient - second[p, i, o])
                size = np.sqrt(second[p, i, o] / second_decay) + EPSILON
                weights[i, o] = layers.weights[p, i, o] - limits.rates[i, o] * (first[p, i, o] / first_decay / size)
                bounds[o] += abs(np.rint(weights[i, o] / quanta[p, o])) * limits.inputs[i]
        if bounds.max() < EXACT:  # else sums would not be exact any more: rather not learn
            for i in range(inputs):
                for o in range(outputs):
                    layers.weights[p, i, o] = weights[i, o]
                    layers.matrices[p, i, o] = np.rint(weights[i, o] / quanta[p, o]) * quanta[p, o]
