"""The heads of an autoregressive density: plane by plane, the pixels' mixtures, their symbols, and what these teach."""

import numpy as np

from dqcodec.compiled import compiled, inlined
from dqcodec.exact.context import GRID, standard
from dqcodec.exact.linear import activated, rounded
from dqcodec.exact.mixture import find, gradient, set_mixture, start

_ONE_SPREAD = np.float32(GRID)


@inlined
def code(net, sums, matrices, tables, log_spreads, moments, bits, wanted, values, slots, taught):
    """Code N pixels of P planes, G, R - G, B - G, or gray.

    Args:
        net: ContextNet.weights. sums: see head_sums. matrices: last layers, see LearningLinears. moments: see context.
        wanted: the slots whose symbols are sought (N, P), or none, (0, P), where the symbols are known.
        values: the planes (N, P), int16; set where they are sought.
        slots: set to each symbol's first slot and their number (N, P, 2), int32.
        taught: the gradients by the matrices are added to it, float64.

    Returns:
        the standardised planes (N, P), float32.
    """
    count, planes = values.shape
    standards, known = np.empty((count, planes), np.float32), np.empty((count, 2 * planes), np.float32)
    for p in range(planes):
        head = activations(sums, net.known, known, p, matrices.shape[1], net.level)
        out = np.dot(head, matrices[p])
        _symbols(tables, out, net.bound, log_spreads, moments, bits, wanted, values, slots, p)
        note(values, moments, p, standards, known)
        teach(head, out, taught, p)
    return standards


@compiled
def activations(sums, weights, known, p, inputs, level):
    """Plane p's last activations and a one (N, H + 1), from its part of the sums and the planes before."""
    size = inputs - 1
    head = np.empty((len(sums), inputs), np.float32)
    for n in range(len(sums)):
        for i in range(size):
            head[n, i] = sums[n, p * size + i]
        for j in range(2 * p):
            for i in range(size):
                head[n, i] += weights[p, j, i] * known[n, j]
        for i in range(size):
            head[n, i] = activated(head[n, i], level)
        head[n, size] = 1
    return head


@inlined
def _symbols(tables, out, bound, log_spreads, moments, bits, wanted, values, slots, p):
    """Code a plane's symbols by the raw outputs (N, 3 K), which become the gradients."""
    law, symbols = np.empty((3, out.shape[1] // 3), np.int64), 1 << bits
    for n in range(out.shape[0]):
        spread = np.int64(moments[n, p, 1])
        offset = np.int64(values[n, 0]) if p else 0  # R and B come less G
        set_law(law, symbols, tables, out, n, bound, moments, p, log_spreads, offset)
        symbol = find(law, tables.sigmoid, symbols, wanted[n, p]) if len(wanted) else values[n, p] + offset
        first = start(law, tables.sigmoid, symbols, symbol)
        slots[n, p, 0] = first
        slots[n, p, 1] = start(law, tables.sigmoid, symbols, symbol + 1) - first
        values[n, p] = symbol - offset
        gradient(law, tables.sigmoid, symbols, symbol, spread, out, n)


@compiled
def set_law(law, symbols, tables, out, n, bound, moments, p, log_spreads, offset):
    """Set the mixture of plane p of pixel n from its raw outputs, which are clamped; offset: added to all means."""
    for o in range(out.shape[1]):
        out[n, o] = rounded(out[n, o], bound[o])
    mean, spread = np.int64(moments[n, p, 0]), np.int64(moments[n, p, 1])
    set_mixture(law, symbols, tables, out, n, mean, spread, log_spreads[spread], offset)


@compiled
def note(values, moments, p, standards, known):
    """Standardise plane p: as what is told of pixels (N, P), and as known to the planes that follow (N, 2 P)."""
    for n in range(len(values)):
        value = standard(np.int64(values[n, p]), np.int64(moments[n, p, 0]), np.int64(moments[n, p, 1]))
        standards[n, p] = known[n, 2 * p] = value
        known[n, 2 * p + 1] = min(max(value, -_ONE_SPREAD), _ONE_SPREAD)


@compiled
def teach(head, gradients, taught, p):
    """Add the gradients by a plane's matrix: integers below 2^53, exact in any order."""
    inputs, outputs = np.empty(head.shape), np.empty(gradients.shape)
    for n in range(len(head)):
        for i in range(head.shape[1]):
            inputs[n, i] = head[n, i]
        for o in range(gradients.shape[1]):
            outputs[n, o] = gradients[n, o]
    sums = np.dot(inputs.T, outputs)
    for i in range(sums.shape[0]):
        for o in range(sums.shape[1]):
            taught[p, i, o] += sums[i, o]
