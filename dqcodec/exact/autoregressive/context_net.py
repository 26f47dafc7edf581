"""The exact network of an autoregressive density, twin of flows.autoregressive_density.ContextNet."""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop
from dqcodec.base.errors import ModelError
from dqcodec.exact.autoregressive.linear import Layers, activated, layers, leaky, linear, rounded
from dqcodec.exact.model_file import Tensors
from dqcodec.exact.networks import Linear, check_chain, load_level, load_linear
from dqcodec.frozen.autoregressive import (
    FEATURE_PLACES,
    INPUT_BOUND,
    MAX_LOG_SCALE,
    MAX_LOGIT,
    MEAN_BOUND,
    PREDICTED,
    inputs,
    predicted_inputs,
)

_MAX_LEVEL = 1 << 16  # times gradients below 2^17, summed over the 2^20 pixels of a front at most, stays below 2^53


class Weights(NamedTuple):
    """The network's layers for compiled loops.

    Attributes:
        level: the largest activation.
        first: one layer with W outputs.
        blocks: 2 B layers from W to W.
        heads: one layer, of all planes, (W + K + 1, P H). The K = 2 P - 2 or 2 P + 2 inputs after the trunk's are what
            a head sees of the planes before it, and of its prediction.
        bound: the largest absolute values of a head's raw outputs, float32 (3 K,).
        features: float32 (inputs + 1, F); the last row is the bias.
    """

    level: np.float32
    first: Layers
    blocks: Layers
    heads: Layers
    bound: np.ndarray
    features: np.ndarray


class ContextNet:
    """The network, checked.

    Raises ModelError: the tensors do not fit together, or the sums are not proven exact.
    """

    def __init__(
        self, planes: int, features: int, blocks: int, mixtures: int, tensors: Tensors, *, least_squares: bool
    ):
        self.own_inputs, self.level = inputs(planes), load_level(tensors, "net")
        if self.level > _MAX_LEVEL:
            raise ModelError("a network's learning is not proven exact")
        level = np.float32(self.level)
        self.features = load_linear(
            tensors, "net.features", INPUT_BOUND, np.float32(-INPUT_BOUND), np.float32(INPUT_BOUND)
        )
        self.first = load_linear(tensors, "net.in", INPUT_BOUND, -level, level)
        self.blocks = [
            tuple(load_linear(tensors, f"net.{index}.{part}", self.level, -level, level) for part in (1, 2))
            for index in range(blocks)
        ]
        self.heads = load_linear(tensors, "net.heads", self.level, -level, level)
        self.known = [
            load_linear(tensors, f"net.known.{plane}", INPUT_BOUND, -level, level) for plane in range(1, planes)
        ]
        bound = np.repeat([MAX_LOGIT, MEAN_BOUND, MAX_LOG_SCALE], mixtures).astype(np.float32)
        self.out = [load_linear(tensors, f"net.out.{plane}", self.level, -bound, bound) for plane in range(planes)]
        predicted = (predicted_inputs(planes), PREDICTED) if least_squares else (0, 0)
        self._check(planes, features, 3 * mixtures, *predicted)
        self.weights = self._weights(bound, predicted[1])

    @property
    def layers(self) -> dict[str, Linear]:
        """All layers by the names of their tensors, in the order in which they are computed."""
        blocks = {
            f"{index}.{part}": layer for index, block in enumerate(self.blocks) for part, layer in enumerate(block, 1)
        }
        known = {f"known.{plane}": layer for plane, layer in enumerate(self.known, 1)}
        outs = {f"out.{plane}": layer for plane, layer in enumerate(self.out)}
        named = {"features": self.features, "in": self.first, **blocks, "heads": self.heads, **known, **outs}
        return {f"net.{name}": layer for name, layer in named.items()}

    def _weights(self, bound: np.ndarray, predicted: int) -> Weights:
        planes, width, outputs = len(self.out), self.first.outputs, self.heads.outputs
        known = np.zeros((2 * planes - 2 + predicted, planes, outputs // planes), np.float32)
        for plane, layer in enumerate(self.known, 1):
            known[: layer.inputs, plane] = layer.weights
        heads = np.concatenate([self.heads.weights, known.reshape(-1, outputs), self.heads.scaled_bias[None]])
        blocks = [layer for block in self.blocks for layer in block]
        return Weights(
            np.float32(self.level),
            layers(self.first.matrix[None], self.first.shift[None], self.first.inputs, self.first.max_input),
            layers(
                np.array([layer.matrix for layer in blocks], np.float32).reshape(-1, width + 1, width),
                np.array([layer.shift for layer in blocks], int).reshape(-1, width),
                width,
                self.level,
            ),
            layers(heads[None], self.heads.shift[None], width, self.level),
            bound,
            self.features.matrix,
        )

    def _check(self, planes: int, features: int, outputs: int, trunk_predicted: int, head_predicted: int) -> None:
        """Raises ModelError unless the layers fit together, and the sums of each head are exact."""
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
            # the trunk's part and the known planes' part enter one sum
            part = slice(plane * head, (plane + 1) * head)
            if (
                known.inputs != 2 * plane + head_predicted
                or known.outputs != head
                or (known.shift != self.heads.shift[part]).any()
            ):
                raise ModelError("a network's heads do not fit together")
            if (self.heads.bounds[part] + known.bounds).max() >= 1 << 24:
                raise ModelError("a network's sums are not proven exact")


@part_of_loop
def trunk_width(net):
    """The number W of the trunk's outputs."""
    return net.blocks.matrices.shape[2]


@part_of_loop
def head_sums(net, inputs):
    """Compute the trunk for inputs, float32 (I, N), see context.

    Returns:
        the heads' sums, float32 (P H, N). The part of the known planes is missing.
        the activations, float32 (2 B + 1, W, N): of each block the inputs of its two layers, then those of the heads.
    """
    a = np.empty((len(net.blocks.matrices) + 1, trunk_width(net), inputs.shape[1]), np.float32)
    stream = linear(net.first, 0, inputs)
    for i in range(stream.shape[0]):
        for n in range(stream.shape[1]):
            stream[i, n] = rounded(stream[i, n], net.level)
            a[0, i, n] = leaky(stream[i, n])
    for block in range(0, len(net.blocks.matrices), 2):
        inner = linear(net.blocks, block, a[block])
        for i in range(inner.shape[0]):
            for n in range(inner.shape[1]):
                a[block + 1, i, n] = activated(inner[i, n], net.level)
        branch = linear(net.blocks, block + 1, a[block + 1])
        for i in range(branch.shape[0]):
            for n in range(branch.shape[1]):
                stream[i, n] = min(max(stream[i, n] + rounded(branch[i, n], net.level), -net.level), net.level)
                a[block + 2, i, n] = leaky(stream[i, n])
    return linear(net.heads, 0, a[-1]), a


@part_of_loop
def successor_features(net, inputs, standards):
    """The features of pixels that later pixels see, float32 (F, N).

    inputs: of the network, float32 (I, N). standards: the standardised planes, float32 (P, N).
    """
    own = len(net.features) - 1 - len(standards)
    features = np.dot(net.features[:own].T, inputs[:own])
    known = np.dot(net.features[own:-1].T, standards)
    for f in range(features.shape[0]):
        for n in range(features.shape[1]):
            features[f, n] = activated(features[f, n] + net.features[-1, f] + known[f, n], np.float32(INPUT_BOUND))
    return features
