"""The heads of an autoregressive density: a plane's activations, its laws, and the gradients of the last layer."""

import numpy as np

from dqcodec.base.compiled import part_of_loop
from dqcodec.exact.autoregressive.context_net import trunk_width
from dqcodec.exact.autoregressive.linear import activated, rounded


@part_of_loop
def known_inputs(net, planes, p):
    """How many known values the head of plane p sees."""
    of_last = net.heads.matrices.shape[1] - trunk_width(net) - 1
    return of_last - 2 * (planes - 1 - p) if p else 0


@part_of_loop
def activations(net, planes, sums, known, p):
    """The last activations of plane p's head and a row of ones, float32 (H + 1, N).

    net: Weights. sums: see head_sums. known: what the head sees of the planes before, then of the prediction, float32
    (K, N).
    """
    size, count = len(sums) // planes, sums.shape[1]
    known_weights, first = net.heads.matrices[0, trunk_width(net) :], p * size
    head = np.empty((size + 1, count), np.float32)
    for i in range(size):
        for n in range(count):
            head[i, n] = sums[first + i, n]
        for j in range(len(known)):
            for n in range(count):
                head[i, n] += known_weights[j, first + i] * known[j, n]
        for n in range(count):
            head[i, n] = activated(head[i, n], net.level)
    for n in range(count):
        head[size, n] = 1
    return head


@part_of_loop
def outputs(matrix, head, bound):
    """The outputs of a last layer (H + 1, 3 K) for activations (H + 1, N): float32 (3 K, N), rounded and clamped to
    bound (3 K,)."""
    out = np.dot(matrix.T, head)
    for o in range(out.shape[0]):
        for n in range(out.shape[1]):
            out[o, n] = rounded(out[o, n], bound[o])
    return out


@part_of_loop
def add_gradients(head, gradients, matrix_gradients):
    """Add the gradients for the weights of a last layer to matrix_gradients, float64 (H + 1, 3 K).

    head: its activations, float32 (H + 1, N). gradients: with respect to its outputs, float32 (3 K, N). All
    are integers, and the sums stay below 2^53.
    """
    sums = np.dot(head.astype(np.float64), gradients.astype(np.float64).T)
    for i in range(sums.shape[0]):
        for o in range(sums.shape[1]):
            matrix_gradients[i, o] += sums[i, o]
