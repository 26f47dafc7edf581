"""The causal context of a pixel, exact: twin of dqcodec.flows.context, on the integers that networks see.

Arrays are (N, features), a row a pixel. All numbers are integers carried in float32, below 2^24; what is not, is one
multiplication or division that IEEE 754 rounds the same everywhere.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, inlined
from dqcodec.context.least_squares import place_of, predict, set_neighbours
from dqcodec.frozen.autoregressive import (
    ERROR_FLOOR,
    FEATURE_PLACES,
    GRID,
    MOMENT_WEIGHTS,
    NEIGHBOURS,
    PREDICTED,
    PREDICTION_BITS,
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


class Canvas(NamedTuple):
    """Tiles, the pixels of one tile after the other, row by row; what is not yet known is 0. All arrays are int16.

    planes: (pixels, P): G, R - G, B - G, or gray. features: (pixels, F), learned, for later pixels. errors: (pixels, P), the
    absolute errors of the predictions, in steps of 2^-PREDICTION_BITS.
    """

    planes: np.ndarray
    features: np.ndarray
    errors: np.ndarray

    @classmethod
    def blank(cls, pixels: int, planes: int, features: int) -> "Canvas":
        """The canvas on which nothing is known."""
        return cls(*(np.zeros((pixels, count), np.int16) for count in (planes, features, planes)))


class Seen(NamedTuple):
    """What is known of N pixels before they are coded.

    inputs: of the network, (N, inputs + 6 F + predicted inputs), float32. moments: of the nearest neighbours (P, 2, N), int32:
    8 mean, and 64 spread. predictions: (P, N), int32, in steps of 2^-PREDICTION_BITS: without least squares the means; those of
    later planes are set by `predictions.set_plane`. log_errors: log2 of the errors of the predictions around (P, N), int32, in
    steps of 1/GRID.
    """

    inputs: np.ndarray
    moments: np.ndarray
    predictions: np.ndarray
    log_errors: np.ndarray


@compiled
def standard(value, mean, spread):
    """A plane's value, freed of mean and spread, its moments, in steps of 1/GRID."""
    freed = np.float32(8 * value - mean) * (np.float32(256) / np.float32(spread))
    return min(max(np.floor(freed + np.float32(0.5)), -_BOUND), _BOUND)


@inlined
def context(canvas, places, bits, log_spreads, predictor):
    """What is Seen of pixels (N, 5), as Fronts gives them. All their neighbours are on the canvas.

    predictor: of their batch, its weights fitted for this front; without blocks, nothing is predicted.
    """
    count, channels, length = len(places), canvas.planes.shape[1], len(_NEIGHBOURS)
    own = channels * (length + 2) + 2
    extra = own + len(_FEATURE_PLACES) * canvas.features.shape[1]
    predicting = len(predictor.starts) > 0
    seen = np.empty((count, extra + (PREDICTED + 2 * (channels - 1) if predicting else 0)), np.float32)
    moments, predictions = np.empty((channels, 2, count), np.int32), np.empty((channels, count), np.int32)
    log_errors = np.zeros((channels, count), np.int32)
    cells, values = np.empty(length, np.int64), np.empty(length, np.int64)
    wests, norths = np.zeros(channels, np.int64), np.zeros(channels, np.int64)
    for n in range(count):
        cell, y, x, width = places[n, 0], places[n, 1], places[n, 2], places[n, 3]
        _neighbours(cell, y, x, width, cells)
        for p in range(channels):
            start = 1 << bits - 1 if p == 0 else 0
            for i in range(length):
                values[i] = start if cells[i] == _START else canvas.planes[cells[i], p]
            mean, spread = _moments(values)
            moments[p, 0, n], moments[p, 1, n] = mean, spread
            predictions[p, n] = mean << PREDICTION_BITS >> 3
            for i in range(length):
                seen[n, i * channels + p] = standard(values[i], mean, spread)
            seen[n, length * channels + p] = log_spreads[spread]
            level = np.float32(mean)
            if p == 0:
                level = np.floor((level - np.float32(8 << bits - 1)) * np.float32(2.0 ** (8 - bits) / 16))
            seen[n, (length + 1) * channels + p] = min(max(level, -_BOUND), _BOUND)
            if predicting:
                wests[p], norths[p] = values[_WEST], values[_NORTH]
                block, lane = place_of(predictor, places[n, 4], y)
                set_neighbours(predictor, block, lane, p, values, mean, spread, wests, norths)
                log_errors[p, n] = _log_error(canvas.errors, cells, p, log_spreads)
                if p == 0:
                    predictions[0, n] = predict(predictor, block, lane, 0, mean, 0, (1 << bits) - 1)
                    set_predicted(seen[n, extra : extra + PREDICTED], predictions[0, n], mean, spread, log_errors[0, n], log_spreads)
                else:
                    seen[n, extra + 2 + 2 * p] = min(max(np.float32(log_errors[p, n]), -_BOUND), _BOUND)
                    relative = np.float32(log_errors[p, n] - log_spreads[spread])
                    seen[n, extra + 3 + 2 * p] = min(max(relative, -_BOUND), _BOUND)
        seen[n, own - 2] = GRID if y == 0 else 0
        seen[n, own - 1] = GRID if x == 0 else 0
        _neighbour_features(canvas.features, cell, y, x, width, seen, n, own)
    return Seen(seen, moments, predictions, log_errors)


@compiled
def set_predicted(out, prediction, mean, spread, log_error, log_spreads):
    """Set out (4,) to what a network sees of a prediction, in steps of 1/GRID: (prediction - mean) / spread, the same clamped to
    one spread, the log error around, and that less the log spread."""
    freed = np.float32(np.float32(prediction) * np.float32(1 / 8) - np.float32(mean)) * (np.float32(256) / np.float32(spread))
    out[0] = min(max(np.floor(freed + np.float32(0.5)), -_BOUND), _BOUND)
    out[1] = min(max(out[0], np.float32(-GRID)), np.float32(GRID))
    out[2] = min(max(np.float32(log_error), -_BOUND), _BOUND)
    out[3] = min(max(np.float32(log_error - log_spreads[spread]), -_BOUND), _BOUND)


@compiled
def _log_error(errors, cells, p, log_spreads):
    """Piecewise linear log2 of the mean error around plus its floor, in steps of 1 / GRID."""
    total, shift = ERROR_FLOOR, 0
    for i in range(len(_WEIGHTS)):
        total += _WEIGHTS[i] * (0 if cells[i] == _START else errors[cells[i], p])
    while total >> shift >= len(log_spreads):  # what the shift drops is below the logarithm's steps
        shift += 1
    return log_spreads[total >> shift] + GRID * (shift - 3)


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
def enter(canvas, places, values, features, predictions):
    """Set the planes (N, P) of pixels, their features (N, F), and the errors of their predictions (P, N), on a canvas."""
    for n in range(len(places)):
        for p in range(values.shape[1]):
            canvas.planes[places[n, 0], p] = values[n, p]
            canvas.errors[places[n, 0], p] = abs((np.int64(values[n, p]) << PREDICTION_BITS) - predictions[p, n])
        for f in range(features.shape[1]):
            canvas.features[places[n, 0], f] = features[n, f]


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
