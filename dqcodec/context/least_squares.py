"""Local least squares: a prediction of each pixel by the weights that fit the pixels around it best (Li and Orchard 2001).

Each plane of each pixel has a ridge regression of its own over the pixels that are already coded. The regressors are five
of the six nearest neighbours, less the mean of all six. Each earlier plane adds two: the pixel itself, and W, less the mean
of W and N. A coded pixel weighs with the inverse of its local spread, and with its nearness. Its weight falls by DECAY for
each row between it and the pixel. Along the rows above a filter weighs columns; it peaks at the pixel's own column. To the
left the weight falls by DECAY for each column.

All numbers are float32. Each operation stands alone, in a fixed order, so every machine makes the same predictions. The rows
of tiles are lanes, since a front (x + SLOPE y constant) has at most one pixel in each row. LANES rows form a block, and the
rows of a tile start a block. Loops over the lanes of a block become vector instructions; the loops' length is not a constant,
because LLVM unrolls loops of a constant length before it looks for vectors. A regression of n regressors is n (n + 1) / 2 + n
numbers: the lower triangle of its matrix, row by row, then its right side. The regressions of all planes follow each other.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.frozen.autoregressive import (
    DECAY,
    LEAST_PIVOT,
    NEIGHBOURS,
    OTHER_REGRESSORS,
    OWN_REGRESSORS,
    PERSISTENCE,
    PREDICTION_BITS,
    RIDGE,
    SLOPE,
    TAPS,
)

LANES = 32  # more lanes make longer vectors, but more of them have no pixel
_SLOTS = 4  # fronts that the history remembers: three before this one, and this one
_DECAY, _PERSISTENCE, _RIDGE, _LEAST_PIVOT = map(np.float32, (DECAY, PERSISTENCE, RIDGE, LEAST_PIVOT))
_TAPS = np.array(TAPS, np.float32)
_WEST, _NORTH = NEIGHBOURS.index((0, -1)), NEIGHBOURS.index((1, 0))


class Predictor(NamedTuple):
    """The regressions of P planes over T tiles that share their fronts. They have B blocks of lanes, R = B LANES rows.

    Attributes:
        first_tile: the number of the first tile.
        first_rows: the first row of each tile, int64 (T,).
        starts: the first front that has a pixel of a block, int64 (B,).
        stops: one more than the last front that has a pixel of a block, int64 (B,).
        follows: whether the next block's rows follow in the same tile, bool (B,).
        above: the filtered sums over the rows above, float32 (B, M, LANES). M numbers describe the regressions of all planes.
        left: the sums over a row's own pixels, float32 (B, M, LANES).
        history: the sums of a column down to a row, for the last fronts, float32 (fronts, B, M, LANES + 1). Lane i + 1 belongs
            to row i, and lane 0 to the row above the block.
        weights: the weights of the regressors for the pixels of this front, float32 (P, n, R).
        values: the regressors of these pixels, float32 (P, n, R). Rows without a pixel in this front have 0.
        targets: these pixels less their means, float32 (P, R), or 0.
        gains: the inverse spreads of these pixels, float32 (P, R), or 0.
    """

    first_tile: int
    first_rows: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    follows: np.ndarray
    above: np.ndarray
    left: np.ndarray
    history: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    targets: np.ndarray
    gains: np.ndarray


def predictor(tiles: np.ndarray, first_tile: int, planes: int) -> Predictor:
    """The Predictor of tiles (height, width), int64 (T, 2), before the first pixel. The first tile has the number first_tile."""
    counts = -(-tiles[:, 0] // LANES)
    blocks = int(counts.sum())
    parts = np.arange(blocks) - np.repeat(np.cumsum(counts) - counts, counts)
    heights, widths = np.repeat(tiles, counts, axis=0).T
    numbers, most = int(sum(_size(regressors(plane)) for plane in range(planes))), regressors(planes - 1)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    return Predictor(
        first_tile=first_tile,
        first_rows=LANES * (np.cumsum(counts) - counts),
        starts=SLOPE * LANES * parts,
        stops=SLOPE * (np.minimum(LANES * (parts + 1), heights) - 1) + widths,
        follows=parts + 1 < np.repeat(counts, counts),
        above=zeros(blocks, numbers, LANES),
        left=zeros(blocks, numbers, LANES),
        history=zeros(_SLOTS, blocks, numbers, LANES + 1),
        weights=zeros(planes, most, blocks * LANES),
        values=zeros(planes, most, blocks * LANES),
        targets=zeros(planes, blocks * LANES),
        gains=zeros(planes, blocks * LANES),
    )


@compiled
def regressors(plane):
    """The number of regressors of a plane."""
    return OWN_REGRESSORS + OTHER_REGRESSORS * plane


@compiled
def _size(n):
    """The number of numbers that describe a regression of n regressors."""
    return n * (n + 1) // 2 + n


@compiled
def advance(predictor, front):
    """Learn from the pixels of the front before, and set the weights of a front; nothing is known of its pixels then."""
    planes, numbers, lanes = len(predictor.gains), predictor.left.shape[1], predictor.left.shape[2]
    system = np.empty((numbers, lanes), np.float32)
    for block in range(len(predictor.starts)):
        start, stop, first = predictor.starts[block], predictor.stops[block], np.int64(0)
        for p in range(planes):
            n = regressors(p)
            if start <= front - 1 < stop + 2:
                _remember(predictor, block, front - 1, p, n, first)
            if start - 2 <= front < stop + 2:
                _fit(predictor, block, front, p, n, first, system)
            first += _size(n)


@compiled
def set_rows(first_rows, first_tile, places, rows):
    """Set the rows, int64 (N,), of pixels at places (N, 5) in a Predictor with these attributes."""
    for n in range(len(places)):
        rows[n] = first_rows[places[n, 4] - first_tile] + places[n, 1]


@compiled
def set_neighbours(values, gains, rows, p, near, moments):
    """Set the regressors of plane p that neighbours give, and the gains.

    values (n, R), gains (R,): a Predictor's, of plane p. rows: of the pixels (N,). near: the neighbours of planes 0 to p, int32
    (P, neighbours, N). moments: of plane p, int32 (2, N).
    """
    for i in range(OWN_REGRESSORS):
        for n in range(len(rows)):
            values[i, rows[n]] = np.float32(np.int32(8 * near[p, i, n] - moments[0, n])) * np.float32(1 / 8)
    for other in range(p):
        i = OWN_REGRESSORS + OTHER_REGRESSORS * other
        for n in range(len(rows)):
            west, north = near[other, _WEST, n], near[other, _NORTH, n]
            values[i, rows[n]] = np.float32(np.int32(west + north)) * np.float32(-1 / 2)
            values[i + 1, rows[n]] = np.float32(np.int32(west - north)) * np.float32(1 / 2)
    for n in range(len(rows)):
        gains[rows[n]] = np.float32(64) / np.float32(moments[1, n])


@compiled
def predict(values, weights, rows, p, means, least, largest, predictions):
    """Set predictions of plane p, int32 (N,), in steps of 2^-PREDICTION_BITS, when all regressors are set.

    values, weights (n, R): a Predictor's, of plane p. rows: of the pixels (N,). means: 8 times the means, int32 (N,). least,
    largest: the range of the plane, in pixel steps.
    """
    freed, scale = np.zeros(len(rows), np.float32), np.float32(1 << PREDICTION_BITS)
    for i in range(regressors(p)):
        for n in range(len(rows)):
            freed[n] += values[i, rows[n]] * weights[i, rows[n]]
    for n in range(len(rows)):
        steps = np.floor((freed[n] + np.float32(means[n]) * np.float32(1 / 8)) * scale + np.float32(0.5))
        predictions[n] = np.int32(min(max(steps, np.float32(least) * scale), np.float32(largest) * scale))


@compiled
def set_pixels(predictor, rows, p, values, means):
    """Set plane p of pixels, int16 (N,), when it is known: as the targets, and as regressors of later planes."""
    for n in range(len(rows)):
        predictor.targets[p, rows[n]] = np.float32(np.int32(8 * values[n] - means[n])) * np.float32(1 / 8)
    for later in range(p + 1, len(predictor.gains)):
        for n in range(len(rows)):
            predictor.values[later, OWN_REGRESSORS + OTHER_REGRESSORS * p, rows[n]] += np.float32(values[n])


@compiled
def _fit(predictor, block, front, p, n, first, system):
    """Set the weights of plane p of a front in a block, and forget the pixels of the front before.

    n: the number of regressors. first: where the plane's numbers start. system: scratch memory (M, LANES).
    """
    lanes, numbers = predictor.left.shape[2], slice(first, first + _size(n))
    above, left = predictor.above[block, numbers], predictor.left[block, numbers]
    two, one = (
        predictor.history[(front + 3) % _SLOTS, block, numbers],
        predictor.history[(front + 2) % _SLOTS, block, numbers],
    )
    here = predictor.history[(front + 1) % _SLOTS, block, numbers]
    for e in range(len(above)):
        for q in range(lanes):
            total = above[e, q] * _PERSISTENCE + two[e, q] * _TAPS[0]
            total = total + one[e, q] * _TAPS[1] + here[e, q] * _TAPS[2]
            above[e, q] = total
            system[e, q] = total + left[e, q]
    weights, rows = np.empty((n, lanes), np.float32), slice(block * lanes, (block + 1) * lanes)
    _solve(system, weights, n)
    for i in range(n):
        predictor.weights[p, i, rows] = weights[i]
        predictor.values[p, i, rows] = 0
    predictor.targets[p, rows] = 0
    predictor.gains[p, rows] = 0


@compiled
def _solve(system, weights, n):
    """Set weights (n, LANES) to the solutions of a regression of n regressors with a ridge.

    L D L' takes the place of the matrix: L below the diagonal, 1 / D on it. Then come both substitutions.
    """
    lanes = system.shape[1]
    for i in range(n):
        line = i * (i + 1) // 2
        for q in range(lanes):
            system[line + i, q] += _RIDGE
        for j in range(i):
            other = j * (j + 1) // 2
            for k in range(0, j - 1, 2):  # two products a loop save half of the loads and stores
                for q in range(lanes):
                    rest = system[line + j, q] - system[line + k, q] * system[other + k, q]
                    system[line + j, q] = rest - system[line + k + 1, q] * system[other + k + 1, q]
            if j % 2:
                for q in range(lanes):
                    system[line + j, q] -= system[line + j - 1, q] * system[other + j - 1, q]
        for j in range(i):
            diagonal = j * (j + 1) // 2 + j
            for q in range(lanes):
                product = system[line + j, q] * system[diagonal, q]
                system[line + i, q] -= product * system[line + j, q]
                system[line + j, q] = product
        for q in range(lanes):
            system[line + i, q] = np.float32(1) / max(system[line + i, q], _LEAST_PIVOT)
    right = n * (n + 1) // 2
    for i in range(n):
        line = i * (i + 1) // 2
        for q in range(lanes):
            weights[i, q] = system[right + i, q]
        for k in range(i):
            for q in range(lanes):
                weights[i, q] -= system[line + k, q] * weights[k, q]
    for i in range(n - 1, -1, -1):
        for q in range(lanes):
            weights[i, q] *= system[i * (i + 1) // 2 + i, q]
        for k in range(i + 1, n):
            for q in range(lanes):
                weights[i, q] -= system[k * (k + 1) // 2 + i, q] * weights[k, q]


@compiled
def _remember(predictor, block, front, p, n, first):
    """Add the pixels of plane p of a front in a block. n: the number of regressors. first: where the plane's numbers start."""
    lanes, numbers, e = predictor.left.shape[2], slice(first, first + _size(n)), 0
    left, history = predictor.left[block, numbers], predictor.history
    here, now = history[(front + 1) % _SLOTS, block, numbers], history[front % _SLOTS, block, numbers]
    rows, gains = slice(block * lanes, (block + 1) * lanes), np.empty(lanes, np.float32)
    values, scaled = (
        np.empty((n + 1, lanes), np.float32),
        np.empty(lanes, np.float32),
    )  # copies, whose places the compiler knows
    gains[:] = predictor.gains[p, rows]
    values[:n] = predictor.values[p, :n, rows]
    values[n] = predictor.targets[p, rows]
    for i in range(n + 1):
        for q in range(lanes):
            scaled[q] = values[i, q] * gains[q]
        for j in range(i + 1 if i < n else n):
            for q in range(lanes):
                product = scaled[q] * values[j, q]
                left[e, q] = left[e, q] * _DECAY + product
                now[e, q + 1] = here[e, q] * _DECAY + product
            e += 1
    if predictor.follows[block]:
        for e in range(len(now)):
            history[front % _SLOTS, block + 1, first + e, 0] = now[e, lanes]
