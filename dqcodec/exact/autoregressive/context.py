"""The causal context of a pixel, exact: twin of dqcodec.flows.context, on the integers that networks see.

Arrays are (N, features), a row a pixel. All numbers are integers carried in float32, below 2^24; what is not, is one
multiplication or division that IEEE 754 rounds the same everywhere.
"""

from functools import cache

import numpy as np

from dqcodec.base.compiled import compiled, inlined
from dqcodec.frozen.autoregressive import (
    FEATURE_PLACES,
    GRID,
    MOMENT_WEIGHTS,
    NEIGHBOURS,
    REACH,
    SPREAD_FLOOR,
    STANDARD_BOUND,
)

_BOUND = np.float32(STANDARD_BOUND * GRID)
_MAX_SPREAD = 64 * 255 + SPREAD_FLOOR  # a mean absolute deviation is at most half a range of 510
_NEIGHBOURS, _WEIGHTS, _FEATURE_PLACES = (np.array(a) for a in (NEIGHBOURS, MOMENT_WEIGHTS, FEATURE_PLACES))
_WEST, _NORTH = NEIGHBOURS.index((0, -1)), NEIGHBOURS.index((1, 0))
_START = -1  # instead of a neighbour's position: where nothing is known yet


@cache
def log_spreads() -> np.ndarray:
    """Piecewise linear log2 of spread / 64, in steps of 1/GRID, for every spread, int32; the table starts at 0."""
    mantissa, exponent = np.frexp(np.arange(_MAX_SPREAD + 1) / 64)
    return np.floor((exponent + 2 * mantissa - 2) * GRID).astype(np.int32)


class Canvas:
    """Tiles as far as they are known, their pixels one tile after the other, row by row.

    planes: int16 (pixels, P): G, R - G, B - G, or gray. features: int16 (pixels, F): what pixels tell their successors.
    """

    def __init__(self, pixels: int, planes: int, features: int):
        self.planes = np.zeros((pixels, planes), np.int16)
        self.features = np.zeros((pixels, features), np.int16)


@compiled
def standard(value, mean, spread):
    """A plane's value, freed of mean and spread, its moments, in steps of 1/GRID."""
    freed = np.float32(8 * value - mean) * (np.float32(256) / np.float32(spread))
    return min(max(np.floor(freed + np.float32(0.5)), -_BOUND), _BOUND)


@inlined
def context(planes, features, places, bits, log_spreads):
    """Of pixels (N, 5), as Fronts gives them, all of whose neighbours are known; planes, features: a Canvas's.

    Returns:
        what networks see (N, inputs + 6 F), float32: the neighbours' planes, then their features.
        the local moments (P, 2, N), int32: 8 mean, and 64 spread.
    """
    count, channels, length = len(places), planes.shape[1], len(_NEIGHBOURS)
    own = channels * (length + 2) + 2
    seen = np.empty((count, own + len(_FEATURE_PLACES) * features.shape[1]), np.float32)
    moments = np.empty((channels, 2, count), np.int32)
    cells, values = np.empty(length, np.int64), np.empty(length, np.int64)
    for n in range(count):
        cell, y, x, width = places[n, 0], places[n, 1], places[n, 2], places[n, 3]
        _neighbours(cell, y, x, width, cells)
        for p in range(channels):
            start = 1 << bits - 1 if p == 0 else 0
            for i in range(length):
                values[i] = start if cells[i] == _START else planes[cells[i], p]
            mean, spread = _moments(values)
            moments[p, 0, n], moments[p, 1, n] = mean, spread
            for i in range(length):
                seen[n, i * channels + p] = standard(values[i], mean, spread)
            seen[n, length * channels + p] = log_spreads[spread]
            level = np.float32(mean)
            if p == 0:
                level = np.floor((level - np.float32(8 << bits - 1)) * np.float32(2.0 ** (8 - bits) / 16))
            seen[n, (length + 1) * channels + p] = min(max(level, -_BOUND), _BOUND)
        seen[n, own - 2] = GRID if y == 0 else 0
        seen[n, own - 1] = GRID if x == 0 else 0
        _neighbour_features(features, cell, y, x, width, seen, n, own)
    return seen, moments


@compiled
def _moments(values):
    """8 mean and 64 spread of the nearest neighbours, weighted."""
    mean, spread = 0, SPREAD_FLOOR
    for i in range(len(_WEIGHTS)):
        mean += _WEIGHTS[i] * values[i]
    for i in range(len(_WEIGHTS)):
        spread += _WEIGHTS[i] * abs(8 * values[i] - mean)
    return mean, spread


@inlined
def enter(planes, features, places, values, told):
    """Set the planes (N, P) of pixels, and what they tell (N, F), on a Canvas."""
    for n in range(len(places)):
        for p in range(values.shape[1]):
            planes[places[n, 0], p] = values[n, p]
        for f in range(told.shape[1]):
            features[places[n, 0], f] = told[n, f]


@inlined
def _neighbours(cell, y, x, width, cells):
    """The positions of a pixel's neighbours; at a tile's border, of what stands in for them."""
    inside = y >= REACH and REACH <= x < width - REACH
    for i in range(len(cells)):
        up, right = _NEIGHBOURS[i]
        if not inside:  # repeat the border
            up, right = min(up, y), min(max(x + right, 0), width - 1) - x
        cells[i] = cell + right - up * width
    if x == 0:  # nothing to the left: what is above
        above = cells[_NORTH] if y else _START
        for i in range(len(cells)):
            if _NEIGHBOURS[i, 0] == 0:
                cells[i] = above
    if y == 0:  # nothing above: what is to the left
        for i in range(len(cells)):
            if _NEIGHBOURS[i, 0]:
                cells[i] = cells[_WEST]


@inlined
def _neighbour_features(features, cell, y, x, width, seen, n, own):
    """What the neighbours in the tile tell, from seen[n, own] on; nought elsewhere."""
    count = features.shape[1]
    for i in range(len(_FEATURE_PLACES)):
        up, right = _FEATURE_PLACES[i]
        inside = up <= y and 0 <= x + right < width
        for f in range(count):
            seen[n, own + i * count + f] = features[cell + right - up * width, f] if inside else 0
