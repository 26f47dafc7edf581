"""Back-propagation through the network of an autoregressive density, exact.

All gradients are those of the loss. Gradients with respect to a layer's sums are integers up to NET_GRADIENT_BOUND, in
steps that the model gives for each layer. So the products with activations add up exactly in float32, and so do those
with weights; see dqcodec.context.context.
"""

import numpy as np

from dqcodec.base.compiled import part_of_loop
from dqcodec.base.instructions import MULTIPLIES_PAIRS
from dqcodec.exact.autoregressive.context_net import trunk_width
from dqcodec.exact.autoregressive.products import LARGEST, column_pairs, pairs, product
from dqcodec.frozen.autoregressive import INPUT_BOUND, NET_GRADIENT_BOUND
from dqcodec.frozen.networks import LEAK

_BOUND = np.float32(NET_GRADIENT_BOUND)
_EXACT = (1 << 24) - 1
_EXACT_SHORT = (1 << 31) - 1  # of products of pairs


@part_of_loop
def head_gradients(matrix, out, units, head, scale, gradients):
    """Set gradients, float32 (H, N), to those with respect to the sums of a plane's head.

    matrix: the last layer (H + 1, 3 K). out: the gradients with respect to its outputs (3 K, N), which are in steps of
    1 / units, float64 (3 K,). head: its inputs (H + 1, N). scale: the number of steps in a unit of `out`.
    """
    passed = np.dot(matrix[:-1] / units, out.astype(np.float64))
    for i in range(gradients.shape[0]):
        for n in range(gradients.shape[1]):
            gradients[i, n] = _gradient(np.float32(passed[i, n] * scale), head[i, n])


@part_of_loop
def add_known_gradients(net, known, p, gradients, sums):
    """Add to sums the gradients for the weights of the known values that plane p's head sees; see add_net_gradients.

    known: float32 (K', N). gradients: see head_gradients.
    """
    first, trunk = p * len(gradients), trunk_width(net)
    matrix = net.heads.matrices[0]
    _add(known, gradients, INPUT_BOUND, sums[: matrix.size].reshape(matrix.shape), trunk, first)


@part_of_loop
def add_net_gradients(net, scales, inputs, activations, gradients, sums):
    """Add to sums the gradients for the weights of the layers that learn. Those for the
    weights of known values are there already.

    Args:
        net: Weights.
        scales: the steps of gradients in a unit, for each layer that learns, float32 (D,);
            the first is that of the heads.
        inputs: of the network, float32 (I, N).
        activations: see head_sums.
        gradients: with respect to the sums of all heads, float32 (P H, N).
        sums: of the layers that learn, the heads first, one after the other, float64 (all their weights,).
    """
    depth, trunk, bound = len(scales), trunk_width(net), int(net.level)
    heads, first = net.heads.matrices[0], net.first.matrices[0]
    _add_layer(activations[-1], gradients, bound, sums[: heads.size].reshape(heads.shape))
    if depth == 1:
        return
    stream = _back(net.heads, 0, trunk, gradients)
    _pass(stream, activations[-1], scales[1] / scales[0])
    layer, end, size = 1, heads.size, (trunk + 1) * trunk
    for block in range(len(net.blocks.matrices) - 2, -1, -2):
        _add_layer(activations[block + 1], stream, bound, sums[end : end + size].reshape(trunk + 1, trunk))
        if depth == layer + 1:
            return
        inner = _back(net.blocks, block + 1, trunk, stream)
        _pass(inner, activations[block + 1], scales[layer + 1] / scales[layer])
        _add_layer(activations[block], inner, bound, sums[end + size : end + 2 * size].reshape(trunk + 1, trunk))
        if depth == layer + 2:
            return
        own, passed = scales[layer + 2] / scales[layer], scales[layer + 2] / scales[layer + 1]
        branch = _back(net.blocks, block, trunk, inner)
        for i in range(stream.shape[0]):
            for n in range(stream.shape[1]):
                slope = passed if activations[block, i, n] > 0 else passed * np.float32(LEAK)
                stream[i, n] = _bounded(stream[i, n] * own + branch[i, n] * slope)
        layer, end = layer + 2, end + 2 * size
    _add_layer(inputs, stream, INPUT_BOUND, sums[end:].reshape(first.shape))


@part_of_loop
def _back(layers, index, inputs, gradients):
    """The gradients with respect to the first inputs of a layer (I', N), from those with respect to its sums (O, N)."""
    matrix, steps = layers.matrices[index, :inputs], layers.steps[index]
    finest = coarsest = steps[0]
    for step in steps:
        finest, coarsest = min(finest, step), max(coarsest, step)
    if not layers.are_short[index] or NET_GRADIENT_BOUND * (coarsest / finest) > LARGEST:
        return np.dot(matrix, gradients)
    in_finest = np.empty_like(gradients)
    for o in range(gradients.shape[0]):
        for n in range(gradients.shape[1]):
            in_finest[o, n] = gradients[o, n] * (steps[o] / finest)
    sums = product(column_pairs(matrix / steps), pairs(in_finest), inputs)
    passed = np.empty((inputs, gradients.shape[1]), np.float32)
    for i in range(passed.shape[0]):
        for n in range(passed.shape[1]):
            passed[i, n] = np.float32(sums[i, n]) * finest
    return passed


@part_of_loop
def _pass(passed, activations, scale):
    """From gradients with respect to activations (I, N) to those with respect to the sums
    before the leaky rectifier, in place.

    scale: the number of new steps in an old one.
    """
    for i in range(passed.shape[0]):
        for n in range(passed.shape[1]):
            passed[i, n] = _gradient(passed[i, n] * scale, activations[i, n])


@part_of_loop
def _gradient(passed, activation):
    """The gradient with respect to a sum, from that with respect to its activation."""
    return _bounded(passed if activation > 0 else passed * np.float32(LEAK))


@part_of_loop
def _bounded(value):
    return min(max(np.rint(value), -_BOUND), _BOUND)


@part_of_loop
def _add_layer(activations, gradients, bound, sums):
    """Add a layer's gradients to sums (>= I + 1, O): those for weights first, those for biases last."""
    _add(activations, gradients, bound, sums, 0, 0)
    for o in range(gradients.shape[0]):
        total = 0
        for n in range(gradients.shape[1]):
            total += int(gradients[o, n])
        sums[-1, o] += total


@part_of_loop
def _add(activations, gradients, bound, sums, row, column):
    """Add the products of activations (I, N) up to a bound and gradients (O, N) to sums, from (row, column) on."""
    pixels, largest = activations.shape[1], NET_GRADIENT_BOUND * bound
    if MULTIPLIES_PAIRS and bound <= LARGEST and pixels <= _EXACT_SHORT // largest:
        right = np.ascontiguousarray(column_pairs(gradients))
        products = product(column_pairs(activations), right, len(activations))
        for i in range(len(activations)):
            for o in range(len(gradients)):
                sums[row + i, column + o] += products[i, o]
        return
    size = max(1, _EXACT // largest)  # pixels whose products are exact in float32
    for start in range(0, pixels, size):
        a = np.ascontiguousarray(activations[:, start : start + size])
        exact = np.dot(a, np.ascontiguousarray(gradients[:, start : start + size]).T)
        for i in range(len(activations)):
            for o in range(len(gradients)):
                sums[row + i, column + o] += exact[i, o]
