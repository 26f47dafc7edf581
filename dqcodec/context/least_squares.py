"""Local least squares: a prediction of each pixel by the weights that fit the pixels around it best (Li and Orchard 2001).

Each plane of each pixel has a ridge regression of its own over the pixels that are already coded. The regressors are five
of the six nearest neighbours, less the mean of all six, and of each earlier plane the pixel itself and W, less the mean of
W and N. A coded pixel weighs with the inverse of its local spread and with its nearness: a row above with DECAY for each
row; a column with a filter that peaks at the pixel's own column; a pixel to the left with DECAY for each column.

All numbers are float32. Each operation stands alone, in a fixed order, so every machine makes the same predictions. The rows
of tiles are lanes: a front (x + SLOPE y constant) has at most one pixel in each row. LANES rows form a block, and loops over
its lanes become vector instructions. A regression of n regressors is m numbers: the lower triangle of its matrix, row by
row, then its right side.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.frozen.autoregressive import (
    DECAY,
    LEAST_PIVOT,
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


class Regression(NamedTuple):
    """What the regressions of one plane remember, float32, for every block of lanes.

    above: (blocks, m, LANES), the filtered sums over the rows above. left: the same over the row's own pixels. history:
    (slots, blocks, m, LANES + 1), per front the sums of a column down to a row; lane i + 1 holds those of row i.
    """

    above: np.ndarray
    left: np.ndarray
    history: np.ndarray


class Predictor(NamedTuple):
    """The regressions of P planes over tiles whose fronts are coded together.

    first_tile: its number. first_blocks: of each tile, int64 (T,). starts, stops: the first front that has a pixel of a block, and the one after the
    last, int64 (blocks,). follows: whether the rows of the next block follow in the tile. For the pixels of this front,
    float32: weights and values of the regressors (P, blocks, n, LANES), the pixels less their mean, and their inverse
    spreads (P, blocks, LANES).
    """

    regressions: tuple[Regression, ...]
    first_tile: int
    first_blocks: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    follows: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    targets: np.ndarray
    gains: np.ndarray


def predictor(tiles: np.ndarray, first_tile: int, planes: int) -> Predictor:
    """For tiles (height, width), int64 (T, 2), from one number on, before the first pixel."""
    counts = -(-tiles[:, 0] // LANES)
    first_blocks, blocks, most = np.cumsum(counts) - counts, int(counts.sum()), regressors(planes - 1)
    parts = np.arange(blocks) - np.repeat(first_blocks, counts)
    heights, widths = np.repeat(tiles, counts, axis=0).T
    return Predictor(
        tuple(_regression(blocks, plane) for plane in range(planes)),
        first_tile,
        first_blocks,
        SLOPE * LANES * parts,
        SLOPE * (np.minimum(LANES * (parts + 1), heights) - 1) + widths,
        parts + 1 < np.repeat(counts, counts),
        np.zeros((planes, blocks, most, LANES), np.float32),
        np.zeros((planes, blocks, most, LANES), np.float32),
        np.zeros((planes, blocks, LANES), np.float32),
        np.zeros((planes, blocks, LANES), np.float32),
    )


def _regression(blocks: int, plane: int) -> Regression:
    numbers = size(plane)
    return Regression(
        np.zeros((blocks, numbers, LANES), np.float32),
        np.zeros((blocks, numbers, LANES), np.float32),
        np.zeros((_SLOTS, blocks, numbers, LANES + 1), np.float32),
    )


@compiled
def regressors(plane: int) -> int:
    """How many regressors a plane has."""
    return OWN_REGRESSORS + OTHER_REGRESSORS * plane


@compiled
def size(plane: int) -> int:
    """How many numbers describe a plane's regression."""
    n = regressors(plane)
    return n * (n + 1) // 2 + n


@compiled
def fit(predictor, front, begin, end):
    """Set the weights of the pixels of a front in blocks begin to end, and forget the pixels of the front before."""
    planes = len(predictor.regressions)
    system = np.empty((size(planes - 1), predictor.weights.shape[3]), np.float32)
    for block in range(begin, end):
        if predictor.starts[block] - 2 <= front < predictor.stops[block] + 2:
            for p in range(planes):
                predictor.values[p, block] = 0
                predictor.targets[p, block] = 0
                predictor.gains[p, block] = 0
                _fit(predictor.regressions[p], block, front, regressors(p), system, predictor.weights[p, block])


@compiled
def remember(predictor, front, begin, end):
    """Add the pixels of a front, whose values, targets and gains are set, in blocks begin to end."""
    for block in range(begin, end):
        if predictor.starts[block] <= front < predictor.stops[block] + 2:
            for p in range(len(predictor.regressions)):
                _remember(
                    predictor.regressions[p], block, front, regressors(p), predictor.follows[block],
                    predictor.values[p, block], predictor.targets[p, block], predictor.gains[p, block],
                )


@compiled
def place_of(predictor, tile, y):
    """(block, lane) of a row of a tile."""
    return predictor.first_blocks[tile - predictor.first_tile] + y // LANES, y % LANES


@compiled
def set_neighbours(predictor, block, lane, p, near, mean, spread, west, north):
    """Set a pixel's regressors but the pixel of earlier planes: near: its nearest neighbours; mean, spread: its moments;
    west, north: W and N of all planes."""
    values = predictor.values[p, block]
    for i in range(OWN_REGRESSORS):
        values[i, lane] = np.float32(8 * near[i] - mean) * np.float32(1 / 8)
    for other in range(p):
        values[OWN_REGRESSORS + OTHER_REGRESSORS * other, lane] = np.float32(west[other] + north[other]) * np.float32(-1 / 2)
        values[OWN_REGRESSORS + OTHER_REGRESSORS * other + 1, lane] = np.float32(west[other] - north[other]) * np.float32(1 / 2)
    predictor.gains[p, block, lane] = np.float32(64) / np.float32(spread)


@compiled
def predict(predictor, block, lane, p, mean, least, largest):
    """A pixel's prediction in steps of 2^-PREDICTION_BITS, within least and largest pixel steps, when all regressors are set."""
    freed = np.float32(0)
    for i in range(regressors(p)):
        freed += predictor.values[p, block, i, lane] * predictor.weights[p, block, i, lane]
    steps = np.floor((freed + np.float32(mean) * np.float32(1 / 8)) * np.float32(1 << PREDICTION_BITS) + np.float32(0.5))
    return np.int64(min(max(steps, np.float32(least * (1 << PREDICTION_BITS))), np.float32(largest * (1 << PREDICTION_BITS))))


@compiled
def set_pixel(predictor, block, lane, p, value, mean):
    """Set a pixel's plane p when it is known: as what was to be predicted, and as a regressor of later planes."""
    predictor.targets[p, block, lane] = np.float32(8 * value - mean) * np.float32(1 / 8)
    for later in range(p + 1, len(predictor.regressions)):
        predictor.values[later, block, OWN_REGRESSORS + OTHER_REGRESSORS * p, lane] += np.float32(value)


@compiled
def _fit(regression, block, front, n, system, weights):
    """Set weights (n, LANES) of the pixels of a front in a block; system (m, LANES): scratch memory."""
    above, left, history = regression.above, regression.left, regression.history
    lanes = weights.shape[1]  # loops of a fixed length are unrolled before they can become vector instructions
    two, one, here = (front + 3) % _SLOTS, (front + 2) % _SLOTS, (front + 1) % _SLOTS
    for e in range(n * (n + 1) // 2 + n):
        for q in range(lanes):
            total = above[block, e, q] * _PERSISTENCE + history[two, block, e, q] * _TAPS[0]
            total = total + history[one, block, e, q] * _TAPS[1] + history[here, block, e, q] * _TAPS[2]
            above[block, e, q] = total
            system[e, q] = total + left[block, e, q]
    _solve(system, weights, n)


@compiled
def _solve(system, weights, n):
    """L D L' in place of the matrix plus ridge (below the diagonal L, on it 1 / D), then both substitutions."""
    lanes = weights.shape[1]
    for i in range(n):
        row = i * (i + 1) // 2
        for q in range(lanes):
            system[row + i, q] += _RIDGE
        for j in range(i):
            other = j * (j + 1) // 2
            for k in range(0, j - 1, 2):  # two products a loop save half of the loads and stores
                for q in range(lanes):
                    rest = system[row + j, q] - system[row + k, q] * system[other + k, q]
                    system[row + j, q] = rest - system[row + k + 1, q] * system[other + k + 1, q]
            if j % 2:
                for q in range(lanes):
                    system[row + j, q] -= system[row + j - 1, q] * system[other + j - 1, q]
        for j in range(i):
            diagonal = j * (j + 1) // 2 + j
            for q in range(lanes):
                product = system[row + j, q] * system[diagonal, q]
                system[row + i, q] -= product * system[row + j, q]
                system[row + j, q] = product
        for q in range(lanes):
            system[row + i, q] = np.float32(1) / max(system[row + i, q], _LEAST_PIVOT)
    right = n * (n + 1) // 2
    for i in range(n):
        row = i * (i + 1) // 2
        for q in range(lanes):
            weights[i, q] = system[right + i, q]
        for k in range(i):
            for q in range(lanes):
                weights[i, q] -= system[row + k, q] * weights[k, q]
    for i in range(n - 1, -1, -1):
        for q in range(lanes):
            weights[i, q] *= system[i * (i + 1) // 2 + i, q]
        for k in range(i + 1, n):
            for q in range(lanes):
                weights[i, q] -= system[k * (k + 1) // 2 + i, q] * weights[k, q]


@compiled
def _remember(regression, block, front, n, follows, values, targets, gains):
    """Add the pixels of a front in a block.

    follows: whether the next block's rows follow this one's in a tile. values (n, LANES): the regressors; targets (LANES,):
    the pixels less their mean; gains (LANES,): the inverse spreads. All are 0 where a row has no pixel in this front.
    """
    left, history = regression.left, regression.history
    lanes = targets.shape[0]
    here, now, e = (front + 1) % _SLOTS, front % _SLOTS, 0
    scaled = np.empty(lanes, np.float32)
    for i in range(n + 1):
        for q in range(lanes):
            scaled[q] = (values[i, q] if i < n else targets[q]) * gains[q]
        for j in range(i + 1 if i < n else n):
            for q in range(lanes):
                product = scaled[q] * values[j, q]
                left[block, e, q] = left[block, e, q] * _DECAY + product
                history[now, block, e, q + 1] = history[here, block, e, q] * _DECAY + product
            if follows:
                history[now, block + 1, e, 0] = history[now, block, e, lanes]
            e += 1
