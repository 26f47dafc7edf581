"""The heads of an autoregressive density: plane by plane, the pixels' mixtures, their symbols, and what these teach."""

import numpy as np

from dqcodec.base.compiled import compiled, inlined
from dqcodec.context.context import standard
from dqcodec.context.predictions import set_plane
from dqcodec.exact.autoregressive.linear import activated, rounded
from dqcodec.exact.autoregressive.mixture import edges, find, set_gradients, set_mixtures, set_slots
from dqcodec.frozen.autoregressive import GRID, PREDICTED

_ONE_SPREAD = np.float32(GRID)


@inlined
def code(net, sums, matrices, tables, log_spreads, seen, places, predictor, bits, wanted, values, slots, matrix_gradients):
    """Code N pixels of P planes, G, R - G, B - G, or gray.

    Args:
        net: ContextNet.weights. sums: see head_sums. matrices: last layers, see LearningLinears. seen: see context.
        places: see Fronts. predictor: see least_squares.
        wanted: the slots whose symbols are sought (N, P), or none, (0, P), where the symbols are known.
        values: the planes (N, P), int16; set where they are sought.
        slots: set to each symbol's first slot and their number (N, P, 2), int32.
        matrix_gradients: the gradients by the matrices are added to it, float64.

    Returns:
        the standardised planes (N, P), float32.
    """
    count, planes = values.shape
    standards, known = np.empty((count, planes), np.float32), np.empty((count, 2 * planes + PREDICTED), np.float32)
    laws, coded, offsets = np.empty((3, matrices.shape[2] // 3, count)), np.empty(count, np.int32), np.zeros(count, np.int64)
    symbols = 1 << bits
    for p in range(planes):
        head, out = predict_plane(net, sums, known, p, matrices, tables, log_spreads, seen, offsets, symbols, laws)
        if len(wanted):
            find(laws, tables.sigmoid, symbols, wanted[:, p], coded)
        else:
            for n in range(count):
                coded[n] = values[n, p] + offsets[n]
        masses = learn(head, out, laws, tables.sigmoid, symbols, coded, seen.moments[p], p, matrix_gradients)
        set_slots(laws, masses, symbols, coded, slots, p)
        record(coded, offsets, seen.moments[p], p, values, standards, known)
        if len(predictor.starts):
            set_plane(predictor, places, seen, p, values, known, log_spreads, symbols)
    return standards


@compiled
def predict_plane(net, sums, known, p, matrices, tables, log_spreads, seen, offsets, symbols, laws):
    """Set the laws of plane p -> its last activations and a one (N, H + 1), and what its last layer
    makes of them (3 K, N), clamped."""
    head = _activations(sums, net.known, known, p, matrices.shape[1], net.level)
    out = np.dot(matrices[p].T, head.T)
    for o in range(out.shape[0]):
        for n in range(out.shape[1]):
            out[o, n] = rounded(out[o, n], net.bound[o])
    set_mixtures(laws, symbols, tables, out, seen.predictions[p], seen.moments[p, 1], log_spreads, offsets)
    return head, out


@compiled
def learn(head, out, laws, sigmoid, symbols, coded, moments, p, matrix_gradients):
    """Add what the symbols (N,) of plane p teach its last layer; `out` is overwritten -> the masses below their edges."""
    masses, places = edges(laws, sigmoid, symbols, coded)
    set_gradients(laws, masses, places, moments[1], out)
    add_gradients(head, out, matrix_gradients, p)
    return masses


@compiled
def _activations(sums, weights, known, p, inputs, level):
    """Plane p's last activations and a one (N, H + 1), from its part of the sums and the planes before."""
    size, predicted = inputs - 1, weights.shape[1] - 2 * (len(weights) - 1) if p else 0
    head = np.empty((len(sums), inputs), np.float32)
    for n in range(len(sums)):
        for i in range(size):
            head[n, i] = sums[n, p * size + i]
        for j in range(2 * p + predicted):
            for i in range(size):
                head[n, i] += weights[p, j, i] * known[n, j]
        for i in range(size):
            head[n, i] = activated(head[n, i], level)
        head[n, size] = 1
    return head


@compiled
def record(coded, offsets, moments, p, values, standards, known):
    """Note the symbols of plane p, int32 (N,), whose moments are (2, N): as its values, as what is told of pixels, standardised
    (N, P), and as known to the planes that follow (N, 2 P). After the first plane, G, it sets the offsets, int64 (N,): R and B
    come less G.
    """
    for n in range(len(coded)):
        values[n, p] = coded[n] - offsets[n]
        value = standard(np.int64(values[n, p]), np.int64(moments[0, n]), np.int64(moments[1, n]))
        standards[n, p] = known[n, 2 * p] = value
        known[n, 2 * p + 1] = min(max(value, -_ONE_SPREAD), _ONE_SPREAD)
    if p == 0:
        for n in range(len(coded)):
            offsets[n] = coded[n]


@compiled
def add_gradients(head, gradients, matrix_gradients, p):
    """Add the gradients (3 K, N) by a plane's matrix: integers below 2^53, exact in any order."""
    sums = np.dot(head.T.astype(np.float64), gradients.T.astype(np.float64))
    for i in range(sums.shape[0]):
        for o in range(sums.shape[1]):
            matrix_gradients[p, i, o] += sums[i, o]
