"""The exact network of an autoregressive density, twin of flows.autoregressive_density.ContextNet; a row a pixel."""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, inlined
from dqcodec.base.errors import ModelError
from dqcodec.exact.autoregressive.linear import activated, leaky, linear, rounded
from dqcodec.exact.model_file import Tensors
from dqcodec.exact.networks import check_chain, load_level, load_linear
from dqcodec.frozen.autoregressive import (
    FEATURE_PLACES,
    GRID,
    MAX_LOG_SCALE,
    MAX_LOGIT,
    MEAN_BOUND,
    PREDICTED,
    STANDARD_BOUND,
    inputs,
    predicted_inputs,
)

_BOUND = STANDARD_BOUND * GRID
_MAX_LEVEL = 1 << 16  # times gradients below 2^17, summed over the 2^20 pixels of a front at most, stays below 2^53


class Weights(NamedTuple):
    """The network's weights (inputs, outputs) and biases, float32, for compiled loops.

    level: the largest activation. blocks: (B, 2, W, W). known: of each head's known planes and its prediction (P, 2 P - 2 or 2 P + 2, H). bound: of the
    heads' raw outputs (3 K,).
    """

    level: np.float32
    first: np.ndarray
    first_bias: np.ndarray
    blocks: np.ndarray
    block_biases: np.ndarray
    heads: np.ndarray
    heads_bias: np.ndarray
    known: np.ndarray
    bound: np.ndarray
    features: np.ndarray
    features_bias: np.ndarray


class ContextNet:
    """See the module. Raises ModelError where the tensors do not fit, or their sums are not proven exact."""

    def __init__(self, planes: int, features: int, blocks: int, mixtures: int, tensors: Tensors, *, least_squares: bool):
        self.own_inputs, self.level = inputs(planes), load_level(tensors, "net")
        if self.level > _MAX_LEVEL:
            raise ModelError("a network's learning is not proven exact")
        level = np.float32(self.level)
        self.features = load_linear(tensors, "net.features", _BOUND, np.float32(-_BOUND), np.float32(_BOUND))
        self.first = load_linear(tensors, "net.in", _BOUND, -level, level)
        self.blocks = [
            tuple(load_linear(tensors, f"net.{index}.{part}", self.level, -level, level) for part in (1, 2))
            for index in range(blocks)
        ]
        self.heads = load_linear(tensors, "net.heads", self.level, -level, level)
        self.known = [load_linear(tensors, f"net.known.{plane}", _BOUND, -level, level) for plane in range(1, planes)]
        bound = np.repeat([MAX_LOGIT, MEAN_BOUND, MAX_LOG_SCALE], mixtures).astype(np.float32)
        self.out = [load_linear(tensors, f"net.out.{plane}", self.level, -bound, bound) for plane in range(planes)]
        predicted = (predicted_inputs(planes), PREDICTED) if least_squares else (0, 0)
        self._check(planes, features, 3 * mixtures, *predicted)
        self.weights = self._weights(bound, predicted[1])

    def _weights(self, bound: np.ndarray, predicted: int) -> Weights:
        planes, width = len(self.out), self.first.outputs
        known = np.zeros((planes, 2 * planes - 2 + predicted, self.heads.outputs // planes), np.float32)
        for plane, layer in enumerate(self.known, 1):
            known[plane, : layer.inputs] = layer.weights
        blocks = [layer for block in self.blocks for layer in block]
        return Weights(
            np.float32(self.level), self.first.weights, self.first.scaled_bias,
            np.array([layer.weights for layer in blocks], np.float32).reshape(-1, 2, width, width),
            np.array([layer.scaled_bias for layer in blocks], np.float32).reshape(-1, 2, width),
            self.heads.weights, self.heads.scaled_bias, known, bound, self.features.weights, self.features.scaled_bias,
        )

    def _check(self, planes: int, features: int, outputs: int, trunk_predicted: int, head_predicted: int) -> None:
        """Raises ModelError unless the layers fit together, and the sums that two of them enter are exact too."""
        check_chain("net", self.first, *[layer for block in self.blocks for layer in block], self.heads)
        head = self.heads.outputs // planes
        if self.heads.outputs % planes or any(out.inputs != head or out.outputs != outputs for out in self.out):
            raise ModelError("a network's tensors do not fit together")
        if any(second.outputs != self.first.outputs for _, second in self.blocks):
            raise ModelError("a network's tensors do not fit together")
        if self.features.inputs != self.own_inputs + planes or self.features.outputs != features:
            raise ModelError("a network's features do not fit their place")
        if self.first.inputs != self.own_inputs + len(FEATURE_PLACES) * features + trunk_predicted:
            raise ModelError("a network's input does not fit its place")
        for plane, known in enumerate(self.known, 1):
            # both enter one sum
            part = slice(plane * head, (plane + 1) * head)
            if known.inputs != 2 * plane + head_predicted or known.outputs != head or (known.shift != self.heads.shift[part]).any():
                raise ModelError("a network's heads do not fit together")
            if (self.heads.bounds[part] + known.bounds).max() >= 1 << 24:
                raise ModelError("a network's sums are not proven exact")


@inlined
def head_sums(net, seen):
    """What all heads start from (N, P H), from contexts (N, I) as exact.context has them; without the known planes."""
    h = linear(seen, net.first, net.first_bias)
    for n in range(h.shape[0]):
        for i in range(h.shape[1]):
            h[n, i] = rounded(h[n, i], net.level)
    for block in range(len(net.blocks)):
        inner = linear(_leaky(h), net.blocks[block, 0], net.block_biases[block, 0])
        _activate(inner, net.level)
        branch = linear(inner, net.blocks[block, 1], net.block_biases[block, 1])
        for n in range(h.shape[0]):
            for i in range(h.shape[1]):
                h[n, i] = min(max(h[n, i] + rounded(branch[n, i], net.level), -net.level), net.level)
    return linear(_leaky(h), net.heads, net.heads_bias)


@inlined
def successor_features(net, seen, standards):
    """What pixels tell their successors (N, F), from their contexts and standardised planes (N, P)."""
    planes = standards.shape[1]
    own = len(net.features) - planes
    inputs = np.empty((len(seen), own + planes), np.float32)
    for n in range(len(seen)):
        for i in range(own):
            inputs[n, i] = seen[n, i]
        for p in range(planes):
            inputs[n, own + p] = standards[n, p]
    told = linear(inputs, net.features, net.features_bias)
    _activate(told, np.float32(_BOUND))
    return told


@compiled
def _leaky(h):
    out = np.empty_like(h)
    for n in range(h.shape[0]):
        for i in range(h.shape[1]):
            out[n, i] = leaky(h[n, i])
    return out


@compiled
def _activate(sums, bound):
    for n in range(sums.shape[0]):
        for i in range(sums.shape[1]):
            sums[n, i] = activated(sums[n, i], bound)
