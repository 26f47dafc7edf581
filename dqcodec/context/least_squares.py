"""Local least squares: a prediction of each pixel by the weights that fit the pixels around
it best (Li and Orchard 2001).

Each plane of each pixel has a ridge regression of its own over the pixels that are already coded. The regressors are
five of the six nearest neighbours, less the mean of all six. Each earlier plane adds two: the pixel itself, and W, less
the mean of W and N. A coded pixel weighs with the inverse of its local spread, and with its nearness. Its weight falls
by DECAY for each row between it and the pixel. Along the rows above a filter weighs columns; it peaks at the pixel's
own column. To the left the weight falls by DECAY for each column.

All numbers are float32. Each operation stands alone, in a fixed order, so every machine makes the same predictions. The
rows of tiles are lanes, since a front (x + SLOPE y constant) has at most one pixel in each row. At most LANES rows form
a block, and the rows of a tile start a block. Loops over lanes become vector instructions, and skip rows that have no
pixel near the front. Their indices are unsigned, because signed ones may count from the end, which no vector can.

A regression of n regressors is n (n + 1) / 2 + n numbers: the lower triangle of its matrix, row by row, then its right
side. The regressions of all planes follow each other.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop
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

LANES = 128  # the scratch memory of a block fits into the second cache
_NEXT = np.uint64(1)
_KEPT_FRONTS = 4  # in the history: three before this one, and this one
_DECAY, _PERSISTENCE, _RIDGE, _LEAST_PIVOT = map(np.float32, (DECAY, PERSISTENCE, RIDGE, LEAST_PIVOT))
_TAPS = np.array(TAPS, np.float32)
_WEST, _NORTH = NEIGHBOURS.index((0, -1)), NEIGHBOURS.index((1, 0))


class Predictor(NamedTuple):
    """The regressions of P planes over T tiles that share their fronts. They have B blocks of L lanes, R = B L rows.

    Attributes:
        first_tile: the number of the first tile.
        first_rows: the first row of each tile, int64 (T,).
        starts: the first front that has a pixel of a block, int64 (B,).
        stops: one more than the last front that has a pixel of a block, int64 (B,).
        widths: of the tile of a block, int64 (B,).
        follows: whether the next block's rows follow in the same tile, bool (B,).
        above: the filtered sums over the rows above, float32 (B, M, L). M numbers describe
            the regressions of all planes.
        left: the sums over a row's own pixels, float32 (B, M, L).
        history: the sums of a column down to a row, for the last fronts, float32 (fronts, B, M, L + 1). Lane i + 1
            belongs to row i, and lane 0 to the row above the block.
        weights: the weights of the regressors for the pixels of this front, float32 (P, n, R).
        values: the regressors of these pixels, and last these pixels less their means, float32 (P, n + 1, R).
            Rows without a pixel in this front have 0.
        gains: the inverse spreads of these pixels, float32 (P, R), or 0.
    """

    first_tile: int
    first_rows: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    widths: np.ndarray
    follows: np.ndarray
    above: np.ndarray
    left: np.ndarray
    history: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    gains: np.ndarray


def predictor(tiles: np.ndarray, first_tile: int, planes: int) -> Predictor:
    """The Predictor of tiles (height, width), int64 (T, 2), before the first pixel. The
    first tile has the number first_tile.

    Without tiles it `predicts` nothing.
    """
    lanes = min(LANES, int(tiles[:, 0].max(initial=1)))
    counts = -(-tiles[:, 0] // lanes)
    blocks = int(counts.sum())
    parts = np.arange(blocks) - np.repeat(np.cumsum(counts) - counts, counts)
    heights, widths = np.repeat(tiles.T, counts, axis=1)
    numbers, most = int(sum(_size(regressors(plane)) for plane in range(planes))), regressors(planes - 1)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    return Predictor(
        first_tile=first_tile,
        first_rows=lanes * (np.cumsum(counts) - counts),
        starts=SLOPE * lanes * parts,
        stops=SLOPE * (np.minimum(lanes * (parts + 1), heights) - 1) + widths,
        widths=widths,
        follows=parts + 1 < np.repeat(counts, counts),
        above=zeros(blocks, numbers, lanes),
        left=zeros(blocks, numbers, lanes),
        history=zeros(_KEPT_FRONTS, blocks, numbers, lanes + 1),
        weights=zeros(planes, most, blocks * lanes),
        values=zeros(planes, most + 1, blocks * lanes),
        gains=zeros(planes, blocks * lanes),
    )


@part_of_loop
def predicts(predictor):
    """Whether a Predictor has tiles. One without is of the same type, so that loops are compiled once for both."""
    return len(predictor.starts) > 0


@part_of_loop
def regressors(plane):
    """The number of regressors of a plane."""
    return OWN_REGRESSORS + OTHER_REGRESSORS * plane


@part_of_loop
def _size(n):
    """The number of numbers that describe a regression of n regressors."""
    return n * (n + 1) // 2 + n


@compiled
def advance(predictor, front):
    """Learn from the pixels of the front before, and set the weights of a front; nothing is known of its pixels then."""
    planes, numbers, lanes = len(predictor.gains), predictor.left.shape[1], predictor.left.shape[2]
    system, scaled = np.empty((numbers, lanes), np.float32), np.empty(lanes, np.float32)
    for block in range(len(predictor.starts)):
        start, stop, first = predictor.starts[block], predictor.stops[block], np.int64(0)
        for p in range(planes):
            if start <= front - 1 < stop + 2:
                _remember(predictor, block, front - 1, p, first, _lanes(predictor, block, front - 1, 0), scaled)
            if start - 2 <= front < stop + 2:
                _fit(predictor, block, front, p, first, _lanes(predictor, block, front, 2), system)
            first += _size(regressors(p))


@part_of_loop
def _lanes(predictor, block, front, before):
    """The lanes of a block that have a pixel within `before` fronts after a front or within 2 before it: (from, to)."""
    start, lanes = predictor.starts[block], predictor.left.shape[2]
    first = (front - 2 - start - predictor.widths[block]) // SLOPE + 1
    return np.uint64(max(0, first)), np.uint64(min(lanes, (front + before - start) // SLOPE + 1))


@part_of_loop
def set_rows(first_rows, first_tile, places, rows):
    """Set the rows, int64 (N,), of pixels at places (N, 5) in a Predictor with these attributes."""
    for n in range(len(places)):
        rows[n] = first_rows[places[n, 4] - first_tile] + places[n, 1]


@part_of_loop
def set_neighbours(predictor, rows, p, near, moments):
    """Set the regressors of plane p that neighbours give, and the gains.

    rows: of the pixels (N,). near: the neighbours of planes 0 to p, int32 (P, neighbours,
    N). moments: of plane p, int32 (2, N).
    """
    values, gains = predictor.values[p], predictor.gains[p]
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


@part_of_loop
def predict(predictor, rows, p, means, bits, predictions):
    """Set predictions of plane p, int32 (N,), in steps of 2^-PREDICTION_BITS, when all regressors are set.

    rows: of the pixels (N,). means: 8 times the means, int32 (N,). bits: of a sample.
    """
    values, weights = predictor.values[p], predictor.weights[p]
    largest = (1 << bits) - 1
    least = -largest if p else 0
    centred, scale = np.zeros(len(rows), np.float32), np.float32(1 << PREDICTION_BITS)
    for i in range(regressors(p)):
        for n in range(len(rows)):
            centred[n] += values[i, rows[n]] * weights[i, rows[n]]
    for n in range(len(rows)):
        steps = np.floor((centred[n] + np.float32(means[n]) * np.float32(1 / 8)) * scale + np.float32(0.5))
        predictions[n] = np.int32(min(max(steps, np.float32(least) * scale), np.float32(largest) * scale))


@part_of_loop
def set_pixels(predictor, rows, p, values, means):
    """Set plane p of pixels, int16 (N,), when it is known: as the targets, and as regressors of later planes."""
    for n in range(len(rows)):
        predictor.values[p, regressors(p), rows[n]] = np.float32(np.int32(8 * values[n] - means[n])) * np.float32(1 / 8)
    for later in range(p + 1, len(predictor.gains)):
        for n in range(len(rows)):
            predictor.values[later, OWN_REGRESSORS + OTHER_REGRESSORS * p, rows[n]] += np.float32(values[n])


@part_of_loop
def _fit(predictor, block, front, p, first, lanes, system):
    """Set the weights of plane p of a front in lanes of a block, and forget the pixels of the front before.

    first: where the plane's numbers start. system: scratch memory (M, L).
    """
    n = regressors(p)
    above, left, history = predictor.above[block], predictor.left[block], predictor.history
    two, one, here = (
        history[(front + 3) % _KEPT_FRONTS, block],
        history[(front + 2) % _KEPT_FRONTS, block],
        history[(front + 1) % _KEPT_FRONTS, block],
    )
    begin, end = lanes
    for e in range(_size(n)):
        for q in range(begin, end):
            total = above[first + e, q] * _PERSISTENCE + two[first + e, q] * _TAPS[0]
            total = total + one[first + e, q] * _TAPS[1] + here[first + e, q] * _TAPS[2]
            above[first + e, q] = total
            system[e, q] = total + left[first + e, q]
    weights, values, gains = predictor.weights[p], predictor.values[p], predictor.gains[p]
    _solve(system, n, lanes)
    row = np.uint64(block * left.shape[1])
    right = n * (n + 1) // 2
    for i in range(n):
        for q in range(begin, end):
            weights[i, row + q] = system[right + i, q]
            values[i, row + q] = 0
    for q in range(begin, end):
        values[n, row + q] = 0
        gains[row + q] = 0


@part_of_loop
def _solve(system, n, lanes):
    """Replace the right sides of regressions of n regressors by their solutions, with a ridge.

    L D L' takes the place of the matrix: L below the diagonal, 1 / D on it. Then come both substitutions.
    """
    begin, end = lanes
    right = n * (n + 1) // 2
    for i in range(n):
        line = i * (i + 1) // 2
        for q in range(begin, end):
            system[line + i, q] += _RIDGE
        for j in range(i):
            other = j * (j + 1) // 2
            for k in range(0, j - 1, 2):  # two products a loop save half of the loads and stores
                for q in range(begin, end):
                    rest = system[line + j, q] - system[line + k, q] * system[other + k, q]
                    system[line + j, q] = rest - system[line + k + 1, q] * system[other + k + 1, q]
            if j % 2:
                for q in range(begin, end):
                    system[line + j, q] -= system[line + j - 1, q] * system[other + j - 1, q]
        for j in range(i):
            diagonal = j * (j + 1) // 2 + j
            for q in range(begin, end):
                product = system[line + j, q] * system[diagonal, q]
                system[line + i, q] -= product * system[line + j, q]
                system[line + j, q] = product
        for q in range(begin, end):
            system[line + i, q] = np.float32(1) / max(system[line + i, q], _LEAST_PIVOT)
    for i in range(n):
        line = i * (i + 1) // 2
        for k in range(i):
            for q in range(begin, end):
                system[right + i, q] -= system[line + k, q] * system[right + k, q]
    for i in range(n - 1, -1, -1):
        for q in range(begin, end):
            system[right + i, q] *= system[i * (i + 1) // 2 + i, q]
        for k in range(i + 1, n):
            for q in range(begin, end):
                system[right + i, q] -= system[k * (k + 1) // 2 + i, q] * system[right + k, q]


@part_of_loop
def _remember(predictor, block, front, p, first, lanes, scaled):
    """Add the pixels of plane p of a front in lanes of a block.

    first: where the plane's numbers start. scaled: scratch memory (L,).
    """
    n = regressors(p)
    left, history, values, gains = predictor.left[block], predictor.history, predictor.values[p], predictor.gains[p]
    here, now = history[(front + 1) % _KEPT_FRONTS, block], history[front % _KEPT_FRONTS, block]
    (begin, end), row, e = lanes, np.uint64(block * left.shape[1]), first
    for i in range(n + 1):
        for q in range(begin, end):
            scaled[q] = values[i, row + q] * gains[row + q]
        for j in range(i + 1 if i < n else n):
            for q in range(begin, end):
                product = scaled[q] * values[j, row + q]
                left[e, q] = left[e, q] * _DECAY + product
                now[e, q + _NEXT] = here[e, q] * _DECAY + product
            e += 1
    if predictor.follows[block]:
        for e in range(first, first + _size(n)):
            history[front % _KEPT_FRONTS, block + 1, e, 0] = now[e, left.shape[1]]
