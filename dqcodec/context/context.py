"""The causal context of a pixel, exact: twin of dqcodec.flows.context, on the integers that networks see.

The rule of numbers, for all loops of this package and of exact/autoregressive. Arrays are (features, N): a pixel is a column,
so loops over pixels become vector instructions. Numbers are integers below 2^24 in float32, or below 2^53 in float64, so sums
are exact in any order. Where a number is not an integer, each operation stands alone and IEEE 754 rounds it, the same way on
every machine.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, inlined
from dqcodec.context.least_squares import predict, rows_of, set_neighbours, set_pixels
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
_ONE_SPREAD = np.float32(GRID)
_MAX_SPREAD = 64 * 255 + SPREAD_FLOOR  # a mean absolute deviation is at most half a range of 510
_NEIGHBOURS, _WEIGHTS, _FEATURE_PLACES = (np.array(a) for a in (NEIGHBOURS, MOMENT_WEIGHTS, FEATURE_PLACES))
_WEST, _NORTH = NEIGHBOURS.index((0, -1)), NEIGHBOURS.index((1, 0))
_START = -1  # instead of a neighbour's position: where nothing is known yet


@cache
def log_spreads() -> np.ndarray:
    """The piecewise linear log2 of spread / 64 in steps of 1/GRID, for spreads from 0 to the largest, int32."""
    mantissa, exponent = np.frexp(np.arange(_MAX_SPREAD + 1) / 64)
    return np.floor((exponent + 2 * mantissa - 2) * GRID).astype(np.int32)


class Canvas(NamedTuple):
    """The pixels of tiles, tile after tile, row by row. All arrays are int16. A pixel that is not yet known has 0.

    Attributes:
        planes: (pixels, P): G, R - G, B - G, or gray.
        features: (pixels, F), which the network learned to compute for later pixels.
        errors: (pixels, P), the absolute errors of the predictions, in steps of 2^-PREDICTION_BITS.
    """

    planes: np.ndarray
    features: np.ndarray
    errors: np.ndarray

    @classmethod
    def blank(cls, pixels: int, planes: int, features: int) -> "Canvas":
        """A canvas on which nothing is known."""
        return cls(*(np.zeros((pixels, count), np.int16) for count in (planes, features, planes)))


class Seen(NamedTuple):
    """What is known of N pixels before they are coded.

    Attributes:
        inputs: of the network, float32 (inputs + 6 F + predicted inputs, N).
        moments: 8 times the mean and 64 times the spread of the nearest neighbours, int32 (P, 2, N).
        predictions: int32 (P, N), in steps of 2^-PREDICTION_BITS. Without least squares they are the means. With it
            `predict_next` sets the predictions of the planes after the first.
        log_errors: log2 of the errors of the predictions around, int32 (P, N), in steps of 1/GRID.
        rows: the rows of the pixels in their Predictor, int64 (N,).
    """

    inputs: np.ndarray
    moments: np.ndarray
    predictions: np.ndarray
    log_errors: np.ndarray
    rows: np.ndarray


@compiled
def standard(value, mean, spread):
    """(value - mean) / spread in steps of 1/GRID, clamped, float32. mean: 8 times the mean; spread: 64 times the spread."""
    return _standard(np.int32(8 * value - mean), np.float32(256) / np.float32(spread))


@compiled
def _standard(freed, gain):
    """As standard, from 8 (value - mean) and 256 / spread."""
    return min(max(np.floor(np.float32(freed) * gain + np.float32(0.5)), -_BOUND), _BOUND)


@compiled
def context(canvas, predictor, places, log_spreads, bits):
    """What is Seen of pixels.

    Args:
        canvas: a Canvas, which has all their neighbours.
        predictor: of their batch, its weights fitted for this front. A predictor of no tiles predicts nothing.
        places: int64 (N, 5), see Fronts.places.
        log_spreads: see log_spreads().
        bits: of a sample.
    """
    count, channels, length = len(places), canvas.planes.shape[1], len(_NEIGHBOURS)
    own = channels * (length + 2) + 2
    extra = own + len(_FEATURE_PLACES) * canvas.features.shape[1]
    predicting = len(predictor.starts) > 0
    inputs = np.empty((extra + (PREDICTED + 2 * (channels - 1) if predicting else 0), count), np.float32)
    moments, predictions = np.empty((channels, 2, count), np.int32), np.empty((channels, count), np.int32)
    log_errors, near = np.zeros((channels, count), np.int32), np.empty((channels, length, count), np.int32)
    cells, gains = np.empty((length, count), np.int64), np.empty(count, np.float32)
    rows = rows_of(predictor, places) if predicting else cells[0]
    _set_cells(places, cells)
    for p in range(channels):
        start = np.int32(1 << bits - 1 if p == 0 else 0)
        for i in range(length):
            for n in range(count):
                near[p, i, n] = start if cells[i, n] == _START else canvas.planes[cells[i, n], p]
        means, spreads = moments[p, 0], moments[p, 1]
        _set_moments(near[p], means, spreads)
        for n in range(count):
            gains[n] = np.float32(256) / np.float32(spreads[n])
            predictions[p, n] = means[n] << PREDICTION_BITS >> 3
        for i in range(length):
            for n in range(count):
                inputs[i * channels + p, n] = _standard(np.int32(8 * near[p, i, n] - means[n]), gains[n])
        middle, scale = (np.float32(8 << bits - 1), np.float32(2.0 ** (8 - bits) / 16)) if p == 0 else (np.float32(0), np.float32(1))
        for n in range(count):
            inputs[length * channels + p, n] = log_spreads[spreads[n]]
            level = np.floor((np.float32(means[n]) - middle) * scale)
            inputs[(length + 1) * channels + p, n] = min(max(level, -_BOUND), _BOUND)
        if predicting:
            set_neighbours(predictor, rows, p, near, means, spreads)
            _set_log_errors(canvas.errors, cells, p, log_spreads, log_errors[p])
    for n in range(count):
        inputs[own - 2, n] = GRID if places[n, 1] == 0 else 0
        inputs[own - 1, n] = GRID if places[n, 2] == 0 else 0
    _set_features(canvas.features, places, inputs[own:extra])
    if predicting:
        predict(predictor, rows, 0, moments[0, 0], 0, (1 << bits) - 1, predictions[0])
        set_predicted(inputs[extra:], predictions[0], moments[0], log_errors[0], log_spreads)
        for p in range(1, channels):
            _set_errors_seen(inputs[extra + 2 + 2 * p :], moments[p, 1], log_errors[p], log_spreads)
    return Seen(inputs, moments, predictions, log_errors, rows)


@compiled
def set_predicted(out, predictions, moments, log_errors, log_spreads):
    """Set rows of out (4, N), float32, to what a network sees of predictions, in steps of 1/GRID.

    They are (prediction - mean) / spread, the same clamped to one spread, the log error, and that less the log spread.
    predictions: int32 (N,). moments: int32 (2, N). log_errors: int32 (N,).
    """
    for n in range(len(predictions)):
        freed = np.float32(predictions[n]) * np.float32(1 / 8) - np.float32(moments[0, n])
        out[0, n] = _standard(freed, np.float32(256) / np.float32(moments[1, n]))
        out[1, n] = min(max(out[0, n], -_ONE_SPREAD), _ONE_SPREAD)
    _set_errors_seen(out[2:], moments[1], log_errors, log_spreads)


@compiled
def _set_errors_seen(out, spreads, log_errors, log_spreads):
    """Set rows of out (2, N) to the log errors, and to these less the log spreads, clamped."""
    for n in range(len(spreads)):
        out[0, n] = min(max(np.float32(log_errors[n]), -_BOUND), _BOUND)
        out[1, n] = min(max(np.float32(log_errors[n] - log_spreads[spreads[n]]), -_BOUND), _BOUND)


@compiled
def predict_next(predictor, seen, p, values, known, log_spreads, bits):
    """Enter plane p of pixels, int16 (N,), into the predictor, and predict the next plane, where there is one.

    Sets seen.predictions of the next plane, and known, float32 (4, N), to what its head sees of them; see set_predicted.
    """
    set_pixels(predictor, seen.rows, p, values, seen.moments[p, 0])
    if p + 1 < len(seen.predictions):
        largest = (1 << bits) - 1
        predict(predictor, seen.rows, p + 1, seen.moments[p + 1, 0], -largest, largest, seen.predictions[p + 1])
        set_predicted(known, seen.predictions[p + 1], seen.moments[p + 1], seen.log_errors[p + 1], log_spreads)


@inlined
def _set_cells(places, cells):
    """Set cells, int64 (neighbours, N), to the positions of pixels' neighbours. At a tile's border other pixels stand in."""
    for n in range(len(places)):
        cell, y, x, width = places[n, 0], places[n, 1], places[n, 2], places[n, 3]
        inside = y >= REACH and REACH <= x < width - REACH
        for i in range(len(cells)):
            up, right = _NEIGHBOURS[i]
            if not inside:  # repeat the border
                up, right = min(up, y), min(max(x + right, 0), width - 1) - x
            cells[i, n] = cell + right - up * width
        if x == 0:  # nothing to the left: the pixel above
            above = cells[_NORTH, n] if y else _START
            for i in range(len(cells)):
                if _NEIGHBOURS[i, 0] == 0:
                    cells[i, n] = above
        if y == 0:  # nothing above: the pixel to the left
            for i in range(len(cells)):
                if _NEIGHBOURS[i, 0]:
                    cells[i, n] = cells[_WEST, n]


@inlined
def _set_moments(near, means, spreads):
    """Set 8 mean and 64 spread, int32 (N,), of the nearest neighbours (neighbours, N), weighted."""
    count = len(means)
    for n in range(count):
        means[n], spreads[n] = 0, SPREAD_FLOOR
    for i in range(len(_WEIGHTS)):
        for n in range(count):
            means[n] += np.int32(_WEIGHTS[i] * near[i, n])
    for i in range(len(_WEIGHTS)):
        for n in range(count):
            spreads[n] += np.int32(_WEIGHTS[i] * abs(np.int32(8 * near[i, n] - means[n])))


@inlined
def _set_log_errors(errors, cells, p, log_spreads, out):
    """Set out, int32 (N,), to the piecewise linear log2 of the mean error around plus its floor, in steps of 1/GRID."""
    for n in range(len(out)):
        total, shift = ERROR_FLOOR, 0
        for i in range(len(_WEIGHTS)):
            total += _WEIGHTS[i] * (0 if cells[i, n] == _START else errors[cells[i, n], p])
        while total >> shift >= len(log_spreads):  # the logarithm's steps are coarser than what the shift drops
            shift += 1
        out[n] = log_spreads[total >> shift] + GRID * (shift - 3)


@inlined
def _set_features(features, places, out):
    """Set out (places F, N) to the features of the neighbours at FEATURE_PLACES; 0 outside the tile."""
    count = features.shape[1]
    cells = np.empty(len(places), np.int64)
    for i in range(len(_FEATURE_PLACES)):
        up, right = _FEATURE_PLACES[i]
        for n in range(len(places)):
            inside = up <= places[n, 1] and 0 <= places[n, 2] + right < places[n, 3]
            cells[n] = places[n, 0] + right - up * places[n, 3] if inside else -1
        for f in range(count):
            for n in range(len(places)):
                out[i * count + f, n] = features[cells[n], f] if cells[n] >= 0 else 0
