"""A copy of a program's network whose last layers learn while it codes."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.errors import ModelError
from dqcodec.exact.autoregressive.context_net import ContextNet
from dqcodec.exact.autoregressive.learning import LearningLinears, largest_passed
from dqcodec.exact.autoregressive.linear import set_pairs
from dqcodec.exact.networks import Linear
from dqcodec.frozen.autoregressive import EXACT, GRID, INPUT_BOUND, NET_GRADIENT_BOUND

_INPUT_BITS = GRID.bit_length() - 1
# times level: the sum of the finest quanta in the last layer's quanta that leaves float64 exact for gradients
# up to 2^16 in steps that differ by 2^3
_OUT_QUANTA = 1 << 53 - 24 - 16 - 3


class LearningRule(NamedTuple):
    """How a layer learns.

    Attributes:
        gradient_bits: gradients with respect to the layer's sums are in steps of 2^-gradient_bits.
        rate_bits: biases learn by steps of 2^-rate_bits.
        input_bits: activations are in steps of 2^-input_bits, so their weights learn by
            steps of 2^-(rate_bits + input_bits).
    """

    gradient_bits: int
    rate_bits: int
    input_bits: int


def check_learning(net: ContextNet, rules: Sequence[LearningRule]) -> None:
    """Raise ModelError unless the network has a layer for each rule, and gradients pass through the layers exactly."""
    layers = [layer for layer, _ in _backwards(net)]
    if len(rules) > len(layers):
        raise ModelError("a network has fewer layers than learn")
    for layer in layers[: len(rules)][:-1]:
        weights, quanta = layer.matrix.astype(np.float64), np.ldexp(1.0, -layer.shift)
        if largest_passed(weights, quanta, float(NET_GRADIENT_BOUND)) >= EXACT:
            raise ModelError("a network's gradients are not proven exact")
    for out in net.out if rules else ():  # weights that learn stay below 2^24 / level
        if np.ldexp(1.0, out.shift.max() - out.shift).sum() >= _OUT_QUANTA * net.level:
            raise ModelError("a network's gradients are not proven exact")


class LearningNet:
    """A network that learns: the heads, then the layers before them, the last first, as far as there are rules.

    Attributes:
        weights: as they are now. A step changes the arrays.
        scales: the steps of gradients in a unit, for each layer that learns, float32 (D,).
        size: the number of weights of these layers, with biases.
    """

    def __init__(self, net: ContextNet, rules: tuple[LearningRule, ...]):
        self.weights = copy.deepcopy(net.weights) if rules else net.weights
        self.scales = np.ldexp(np.float32(1), np.array([rule.gradient_bits for rule in rules], np.int32))
        weights = self.weights
        matrices = [*weights.heads.matrices, *weights.blocks.matrices[::-1], *weights.first.matrices]
        self._layers = [
            _learning(matrix, *layer, rule, is_last=index == len(rules) - 1)
            for index, (rule, matrix, layer) in enumerate(zip(rules, matrices, _backwards(net)))
        ]
        self._changing = [weights.heads, weights.blocks, weights.first][: len(rules)]
        self.size = sum(layer.matrices.size for layer in self._layers)

    def step(self, sums: np.ndarray) -> None:
        """Learn from summed gradients with respect to all weights of these layers, one layer
        after the other, float64 (size,).
        """
        first = 0
        for layer in self._layers:
            end = first + layer.matrices.size
            layer.step(sums[first:end].reshape(layer.matrices.shape))
            first = end
        for layers in self._changing:
            set_pairs(layers)


def _backwards(net: ContextNet) -> list[tuple[Linear, int]]:
    """The layers from the heads back, and how many inputs of each are activations."""
    blocks = [layer for block in net.blocks for layer in block]
    return [(layer, layer.inputs) for layer in (net.heads, *blocks[::-1])] + [(net.first, 0)]


def _learning(
    matrix: np.ndarray, layer: Linear, activations: int, rule: LearningRule, *, is_last: bool
) -> LearningLinears:
    """A layer that learns, and passes gradients on unless it is the last one that they reach.

    matrix: float32 (I + 1, O). Its inputs are activations, then inputs of the network or the like, and the constant 1.
    """
    counts = [activations, len(matrix) - 1 - activations, 1]
    rates = np.ldexp(1.0, -rule.rate_bits - np.repeat([rule.input_bits, _INPUT_BITS, 0], counts))
    return LearningLinears(
        matrix[None],
        layer.shift[None],
        np.repeat(rates[:, None], layer.outputs, 1),
        np.repeat([float(layer.max_input), float(INPUT_BOUND), 1.0], counts),
        0.0 if is_last else float(NET_GRADIENT_BOUND),
    )
