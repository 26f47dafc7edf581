"""Last layers that go on learning from what is coded: exact Adam (Kingma and Ba 2015).

Encoder and decoder make the same steps, so the weights need not be sent. Gradients are integers, whose sums are exact;
all else is single additions, multiplications, divisions and roots of float64, which IEEE 754 rounds the same everywhere.
"""

from collections.abc import Sequence

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.exact.networks import Linear
from dqcodec.frozen.autoregressive import EPSILON, EXACT, MOMENTUM, SECOND_MOMENTUM


class LearningLinears:
    """Copies of P Linears of one shape that learn.

    rates: the step size of each output's weights, and of its bias, (2, O). matrices: as they are now, float32 (P, I + 1, O).
    """

    def __init__(self, linears: Sequence[Linear], rates: np.ndarray):
        self.matrices = np.stack([linear.matrix for linear in linears])
        self._weights = self.matrices.astype(np.float64)
        inputs, max_input = linears[0].inputs, float(linears[0].max_input)
        self._rates = np.repeat(rates, [inputs, 1], axis=0)
        self._quanta = np.ldexp(1.0, -np.stack([linear.shift for linear in linears]))
        self._limits = np.append(np.full(inputs, max_input), 1.0)
        self._first, self._second = np.zeros((2, *self._weights.shape))
        self._first_decay = self._second_decay = 1.0

    def step(self, sums: np.ndarray) -> None:
        """Learn from the gradients of the loss by the matrices, integers, summed over a batch; float64 (P, I + 1, O)."""
        self._first_decay *= MOMENTUM
        self._second_decay *= SECOND_MOMENTUM
        _adam(
            self._weights, sums, self._first, self._second, 1 - self._first_decay, 1 - self._second_decay,
            self._rates, self._quanta, self._limits, self.matrices,
        )


@compiled
def _adam(layers, sums, first, second, first_decay, second_decay, rates, quanta, limits, matrices):
    """Set the weights and moments of all layers (P, I + 1, O), and the matrices, the weights on their quanta (P, O)."""
    for p in range(len(layers)):
        weights, bounds = np.empty(layers.shape[1:]), np.zeros(layers.shape[2])
        for i in range(layers.shape[1]):
            for o in range(layers.shape[2]):
                gradient = sums[p, i, o]
                first[p, i, o] += (1 - MOMENTUM) * (gradient - first[p, i, o])
                second[p, i, o] += (1 - SECOND_MOMENTUM) * (gradient * gradient - second[p, i, o])
                size = np.sqrt(second[p, i, o] / second_decay) + EPSILON
                weights[i, o] = layers[p, i, o] - rates[i, o] * (first[p, i, o] / first_decay / size)
                bounds[o] += abs(np.rint(weights[i, o] / quanta[p, o])) * limits[i]
        if bounds.max() < EXACT:  # else sums would not be exact any more: rather not learn
            for i in range(layers.shape[1]):
                for o in range(layers.shape[2]):
                    layers[p, i, o] = weights[i, o]
                    matrices[p, i, o] = np.rint(weights[i, o] / quanta[p, o]) * quanta[p, o]
