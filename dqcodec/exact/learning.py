"""A network's last layer that goes on learning from what is coded: exact Adam (Kingma and Ba 2015).

Encoder and decoder make the same steps, so the weights need not be sent. Gradients are integers, whose sums are exact; all else is
single additions, multiplications, divisions and roots of float64, which IEEE 754 rounds the same everywhere.
"""

import numpy as np

from dqcodec.exact.networks import Linear

GRADIENT_GRID = 1024  # gradients come in 1024ths of a nat ...
GRADIENT_BOUND = 64 * GRADIENT_GRID  # ... up to 64
_MOMENTUM, _SECOND_MOMENTUM = 0.9, 0.99
_EPSILON = 1.0  # in units of the integer gradients' sums
_EXACT = float(1 << 24)


class LearningLinear:
    """A copy of a Linear that learns. rates: the step size of each row's weights, and of its bias, (O, 2)."""

    def __init__(self, linear: Linear, rates: np.ndarray):
        self.linear = linear
        self._weights = linear.matrix.astype(np.float64)
        self._rates = np.concatenate([np.repeat(rates[:, :1], linear.inputs, 1), rates[:, 1:]], 1)
        self._quantum = np.ldexp(1.0, -linear.shift)[:, None]
        self._limits = np.append(np.full(linear.inputs, float(linear.max_input)), 1.0)
        self._first, self._second = np.zeros((2, *self._weights.shape))
        self._first_decay = self._second_decay = 1.0
        self._sums = np.zeros(self._weights.shape)
        self.matrix = linear.matrix

    def __call__(self, a: np.ndarray) -> np.ndarray:
        """a (I + 1, N) -> (O, N)"""
        return self.linear.rounded(self.matrix @ a)

    def observe(self, gradient: np.ndarray, a: np.ndarray) -> None:
        """Add a batch: the gradient of the loss by the outputs (O, N), integers, and the inputs (I + 1, N)."""
        self._sums += gradient.astype(np.float64) @ a.T.astype(np.float64)

    def step(self) -> None:
        """Learn from what was observed since the last step."""
        self._first += (1 - _MOMENTUM) * (self._sums - self._first)
        self._second += (1 - _SECOND_MOMENTUM) * (self._sums * self._sums - self._second)
        self._sums[:] = 0
        self._first_decay *= _MOMENTUM
        self._second_decay *= _SECOND_MOMENTUM
        size = np.sqrt(self._second / (1 - self._second_decay)) + _EPSILON
        weights = self._weights - self._rates * (self._first / (1 - self._first_decay) / size)
        integers = np.rint(weights / self._quantum)
        if ((np.abs(integers) * self._limits).sum(1) < _EXACT).all():  # else sums would not be exact: rather not learn
            self._weights = weights
            self.matrix = (integers * self._quantum).astype(np.float32)
