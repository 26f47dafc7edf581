"""The causal context of a pixel, exact: twin of dqcodec.flows.context, on the integers that networks see.

How numbers stay exact, in all loops of this package and of exact/autoregressive: numbers are integers below 2^24 in
float32, or below 2^53 in float64, so sums are exact in any order, and in integers, too. Where a number is not an
integer, each operation stands alone and IEEE 754 rounds it, the same way on every machine. Arrays are (features, N): a
pixel is a column, so loops over pixels become vector instructions.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop
from dqcodec.context.least_squares import predict, predicts, set_neighbours, set_pixels, set_rows
from dqcodec.frozen.autoregressive import (
    ERROR_FLOOR,
    FEATURE_PLACES,
    GRID,
    INPUT_BOUND,
    MOMENT_WEIGHTS,
    NEIGHBOURS,
    PREDICTED,
    PREDICTION_BITS,
    REACH,
    SPREAD_FLOOR,
)

_BOUND, ONE_SPREAD = np.float32(INPUT_BOUND), np.float32(GRID)
_MAX_SPREAD = 64 * 255 + SPREAD_FLOOR  # a mean absolute deviation is at most half a range of 510
# loops take these as arguments: LLVM unrolls loops over constants, which takes long
_NEIGHBOURS, _WEIGHTS, _FEATURE_PLACES = (np.array(a) for a in (NEIGHBOURS, MOMENT_WEIGHTS, FEATURE_PLACES))
_START = -1  # instead of a neighbour's position: where nothing is known yet


@cache
def log_spreads(largest: int = _MAX_SPREAD) -> np.ndarray:
    """The piecewise linear log2 of spread / 64 in steps of 1/GRID, for spreads from 0 to the largest, int32."""
    mantissa, exponent = np.frexp(np.arange(largest + 1) / 64)
    return np.floor((exponent + 2 * mantissa - 2) * GRID).astype(np.int32)


class TilePixels(NamedTuple):
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
    def blank(cls, pixels: int, planes: int, features: int) -> "TilePixels":
        """Pixels that are not known."""
        return cls(*(np.zeros((pixels, count), np.int16) for count in (planes, features, planes)))


class Seen(NamedTuple):
    """The context of N pixels, known before they are coded.

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


@part_of_loop
def standardised(value, mean, spread):
    """(value - mean) / spread in steps of 1/GRID, clamped, float32. mean: 8 times the mean;
    spread: 64 times the spread.
    """
    return _scaled(np.int32(8 * value - mean), np.float32(256) / np.float32(spread))


@part_of_loop
def _scaled(centred, gain):
    """As standardised, from 8 (value - mean) and 256 / spread."""
    return min(max(np.floor(np.float32(centred) * gain + np.float32(0.5)), -_BOUND), _BOUND)


@part_of_loop
def context(pixels, predictor, places, log_spreads, bits):
    """The Seen of pixels.

    Args:
        pixels: a TilePixels, which has all neighbours of these pixels.
        predictor: of their batch, its weights fitted for this front; one without tiles where
            the network sees no predictions.
        places: int64 (N, 5), see Fronts.places.
        log_spreads: see log_spreads().
        bits: of a sample.
    """
    count, channels, length = len(places), pixels.planes.shape[1], len(_NEIGHBOURS)
    own = channels * (length + 2) + 2
    extra = own + len(_FEATURE_PLACES) * pixels.features.shape[1]
    inputs = np.empty((extra + (PREDICTED + 2 * (channels - 1) if predicts(predictor) else 0), count), np.float32)
    moments, predictions = np.empty((channels, 2, count), np.int32), np.empty((channels, count), np.int32)
    log_errors, rows = np.zeros((channels, count), np.int32), np.zeros(count, np.int64)
    near, cells = np.empty((channels, length, count), np.int32), np.empty((length, count), np.int64)
    _set_cells(places, _NEIGHBOURS, cells)
    for p in range(channels):
        _set_near(pixels.planes, cells, p, 1 << bits - 1 if p == 0 else 0, near[p])
        _set_moments(near[p], _WEIGHTS, moments[p], predictions[p])
        _set_standards(near[p], moments[p], channels, inputs[p:])
        _set_levels(moments[p], p, bits, log_spreads, channels, inputs[length * channels + p :])
    _set_borders(places, inputs[own - 2 :])
    _set_features(pixels.features, places, _FEATURE_PLACES, inputs[own:])
    if predicts(predictor):
        set_rows(predictor.first_rows, predictor.first_tile, places, rows)
        for p in range(channels):
            set_neighbours(predictor, rows, p, near, moments[p])
            _set_log_errors(pixels.errors, cells, p, _WEIGHTS, log_spreads, log_errors[p])
            _set_errors_seen(moments[p, 1], log_errors[p], log_spreads, inputs[extra + 2 + 2 * p :])
        predict(predictor, rows, 0, moments[0, 0], bits, predictions[0])
        _set_predictions_seen(predictions[0], moments[0], inputs[extra:])
    return Seen(inputs, moments, predictions, log_errors, rows)


@part_of_loop
def predict_next(predictor, seen, p, values, known, log_spreads, bits):
    """Enter plane p of pixels, int16 (N,), into the predictor, and predict the next plane, where there is one.

    Sets seen.predictions of the next plane. Sets known, float32 (PREDICTED, N), to what the
    next plane's head sees of them.
    """
    set_pixels(predictor, seen.rows, p, values, seen.moments[p, 0])
    if p + 1 < len(seen.predictions):
        p += 1
        moments, predictions = seen.moments[p], seen.predictions[p]
        predict(predictor, seen.rows, p, moments[0], bits, predictions)
        _set_predictions_seen(predictions, moments, known)
        _set_errors_seen(moments[1], seen.log_errors[p], log_spreads, known[2:])


@part_of_loop
def _set_predictions_seen(predictions, moments, out):
    """Set rows of out (2, N) to (prediction - mean) / spread, and the same clamped to one spread, in steps of 1/GRID."""
    for n in range(len(predictions)):
        centred = np.float32(predictions[n]) * np.float32(1 / 8) - np.float32(moments[0, n])
        out[0, n] = _scaled(centred, np.float32(256) / np.float32(moments[1, n]))
        out[1, n] = min(max(out[0, n], -ONE_SPREAD), ONE_SPREAD)


@part_of_loop
def _set_errors_seen(spreads, log_errors, log_spreads, out):
    """Set rows of out (2, N) to the log errors of predictions, and to these less the log spreads, clamped."""
    for n in range(len(spreads)):
        out[0, n] = min(max(np.float32(log_errors[n]), -_BOUND), _BOUND)
        out[1, n] = min(max(np.float32(log_errors[n] - log_spreads[spreads[n]]), -_BOUND), _BOUND)


@part_of_loop
def _set_cells(places, neighbours, cells):
    """Set cells, int64 (neighbours, N), to the positions of pixels' neighbours. At a tile's
    border other pixels stand in.
    """
    for n in range(len(places)):
        cell, y, x, width = places[n, 0], places[n, 1], places[n, 2], places[n, 3]
        inside = y >= REACH and REACH <= x < width - REACH
        for i in range(len(cells)):
            up, right = neighbours[i]
            if not inside:  # repeat the border
                up, right = min(up, y), min(max(x + right, 0), width - 1) - x
            if x == 0 and up == 0:  # nothing to the left: the pixel above
                up, right = 1, 0
            if y == 0:  # nothing above: the pixel to the left
                up, right = 0, -1 if neighbours[i, 0] or x == 0 else right
            cells[i, n] = cell + right - up * width if x or y else _START


@part_of_loop
def _set_near(planes, cells, p, start, near):
    """Set near, int32 (neighbours, N), to plane p of the neighbours; to `start` where there are none."""
    for i in range(len(cells)):
        for n in range(cells.shape[1]):
            near[i, n] = start if cells[i, n] == _START else planes[cells[i, n], p]


@part_of_loop
def _set_moments(near, weights, moments, predictions):
    """Set 8 mean and 64 spread (2, N) of the nearest neighbours, weighted, and predictions (N,) to the means."""
    means, spreads = moments[0], moments[1]
    for n in range(len(means)):
        means[n], spreads[n] = 0, SPREAD_FLOOR
    for i in range(len(weights)):
        for n in range(len(means)):
            means[n] += np.int32(weights[i] * near[i, n])
    for i in range(len(weights)):
        for n in range(len(means)):
            spreads[n] += np.int32(weights[i] * abs(np.int32(8 * near[i, n] - means[n])))
    for n in range(len(means)):
        predictions[n] = means[n] << PREDICTION_BITS >> 3


@part_of_loop
def _set_standards(near, moments, step, out):
    """Set each step-th row of out to a neighbour, standardised."""
    gains = np.empty(near.shape[1], np.float32)
    for n in range(len(gains)):
        gains[n] = np.float32(256) / np.float32(moments[1, n])
    for i in range(len(near)):
        for n in range(len(gains)):
            out[i * step, n] = _scaled(np.int32(8 * near[i, n] - moments[0, n]), gains[n])


@part_of_loop
def _set_levels(moments, p, bits, log_spreads, step, out):
    """Set row 0 of out to the log spreads of plane p, and row `step` to its means; G and
    gray in 16ths of 8 bits' steps.
    """
    middle, scale = np.float32(0), np.float32(1)
    if p == 0:
        middle, scale = np.float32(8 << bits - 1), np.float32(2.0 ** (8 - bits) / 16)
    for n in range(moments.shape[1]):
        out[0, n] = log_spreads[moments[1, n]]
        out[step, n] = min(max(np.floor((np.float32(moments[0, n]) - middle) * scale), -_BOUND), _BOUND)


@part_of_loop
def _set_borders(places, out):
    """Set rows of out (2, N) to GRID for pixels of a tile's first row, and of its first column; to 0 for others."""
    for n in range(len(places)):
        out[0, n] = GRID if places[n, 1] == 0 else 0
        out[1, n] = GRID if places[n, 2] == 0 else 0


@part_of_loop
def _set_log_errors(errors, cells, p, weights, log_spreads, out):
    """Set out, int32 (N,), to the piecewise linear log2 of the mean error around plus its floor, in steps of 1/GRID."""
    for n in range(len(out)):
        total, shift = ERROR_FLOOR, 0
        for i in range(len(weights)):
            total += weights[i] * (0 if cells[i, n] == _START else errors[cells[i, n], p])
        while total >> shift >= len(log_spreads):  # the logarithm's steps are coarser than what the shift drops
            shift += 1
        out[n] = log_spreads[total >> shift] + GRID * (shift - 3)


@part_of_loop
def _set_features(features, places, neighbours, out):
    """Set rows of out (neighbours F, N) to the features of neighbours (rows up, columns to
    the right); 0 outside the tile.
    """
    count, cells = features.shape[1], np.empty(len(places), np.int64)
    for i in range(len(neighbours)):
        up, right = neighbours[i]
        for n in range(len(places)):
            cell, y, x, width = places[n, 0], places[n, 1], places[n, 2], places[n, 3]
            cells[n] = cell + right - up * width if up <= y and 0 <= x + right < width else _START
        for f in range(count):
            for n in range(len(places)):
                out[i * count + f, n] = 0 if cells[n] == _START else features[cells[n], f]
