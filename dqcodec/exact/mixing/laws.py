"""Laws of the next sample: each has a place, a scale, and a distribution function.

PREDICTIONS p_i come from local least squares with a short and a long memory, from neighbours and from the earlier
channel. The blend b weighs them by their errors nearby, and contexts correct its bias (Wu and Memon 1997):

    w_i = 1 / (e_i + 1/64)^2            e_i: the mean absolute error of prediction i at 6 neighbours; e: that of the blend
    b = sum w_i p_i / sum w_i           spread: the mean of |p_i - b|
    place = b + 5/16 (e + 1/16) sum of the mean errors in 3 contexts, errors divided by e + 1/16
    scale = max(5/8 e + 1/2 spread, LEAST_SCALE)

The distribution function of all laws is that of Student's t with 4 degrees of freedom, F((x - place) / scale).

    law   place                             scale
    0     as above                          as above
    1     as above                          3 times that
    2     as above                          errors of the blend down the columns and along the row
    3     least squares, short memory       e_2
    4     least squares, long memory        e_4
    5     median edge detector              e_5    (Martucci 1990)
    6     as above                          errors of the blend at this intensity
    7     as above                          the earlier channel's errors around the sample; of channel 0 place p_6, scale e_6

In a sharp channel, laws 1, 2, 6 and 7 continue the plane through three neighbours, or the line through two. Their scale
is small and constant: at an edge one of them is often exact, and errors nearby do not tell which.

Samples are integers; floats are float64, in steps of a sample, and each operation on them stands alone, in a fixed
order. Loops take a place in a Padded (see experts.py): row y, column x, margins included, and channel c.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.exact.mixing.regression import Regression, advance, predicted, remember, start_row
from dqcodec.frozen.experts import (
    DISTRIBUTION,
    GRID,
    LAWS,
    LEAST_SCALE,
    MARGIN,
    NEAREST,
    OTHER,
    OWN,
    PREDICTIONS,
    RANGE,
    REFIT,
    SHARP_INVERSE,
    UP,
)

BLEND, SCALE, ERROR, EARLIER_ERROR, MEAN = range(5)  # of Laws.blend


class Errors(NamedTuple):
    """The errors of the blend, learned from sample to sample and from image to image.

    Attributes:
        biases: sums of standardised errors, and their numbers, float64 (3, 2048, 2).
        intensities: sums of absolute errors, and their numbers, float64 (4, 64, 2).
    """

    biases: np.ndarray
    intensities: np.ndarray

    @classmethod
    def new(cls) -> "Errors":
        """No error is known."""
        return cls(np.zeros((3, 2048, 2)), np.ones((4, 64, 2)))


class Laws(NamedTuple):
    """The laws of a channel's next sample, and what they are made of. All are float64 but keys.

    Attributes:
        short, long: the regressions.
        rows: absolute errors of each prediction and the blend, in this row and the one
            above, (2, W + 2 MARGIN, PREDICTIONS + 1).
        columns: the blend's, averaged down the columns (W + 2 MARGIN,).
        sums: averaged along the row; sums of the channel's errors and of the earlier channel's nearby (3,).
        values: regressors, then the sample itself less its mean (n + 1,).
        predictions: (PREDICTIONS,).
        spreads: their errors nearby (PREDICTIONS,).
        places, inverses: of the laws, the inverse of the scale (LAWS,).
        blend: at BLEND the place without correction, at SCALE its scale, at ERROR the error nearby, at EARLIER_ERROR
            the earlier channel's, at MEAN the mean of neighbours (5,).
        keys: of the three biases and of the intensity; the classes of scale and spread; int64 (6,).
        is_sharp: whether the channel is sharp.
    """

    short: Regression
    long: Regression
    rows: np.ndarray
    columns: np.ndarray
    sums: np.ndarray
    values: np.ndarray
    predictions: np.ndarray
    spreads: np.ndarray
    places: np.ndarray
    inverses: np.ndarray
    blend: np.ndarray
    keys: np.ndarray
    is_sharp: bool

    @classmethod
    def new(cls, width: int, channel: int, own: int, *, is_sharp: bool) -> "Laws":
        """width: the number of samples in a row. channel: its number. own: regressors from the channel itself."""
        n, columns = own + len(OTHER) * channel, width + 2 * MARGIN
        return cls(
            *(Regression.new(width, n, memory) for memory in range(2)),
            np.ones((2, columns, PREDICTIONS + 1)),
            np.ones(columns),
            np.array([1.0, 0.5, 0.5]),
            *map(np.zeros, (n + 1, PREDICTIONS, PREDICTIONS, LAWS, LAWS, 5)),
            np.zeros(6, np.int64),
            is_sharp,
        )


@part_of_loop_in_place
def start_laws(laws):
    """Start a row."""
    start_row(laws.short)
    start_row(laws.long)


@part_of_loop_in_place
def end_laws(laws, y):
    """End row y: fill the margins with its ends."""
    rows, now = laws.rows, (y - UP) & 1
    width = rows.shape[1] - 2 * MARGIN
    for i in range(PREDICTIONS + 1):
        rows[now, MARGIN + width :, i] = rows[now, MARGIN + width - 1, i]
        rows[1 - now, :MARGIN, i] = rows[now, MARGIN, i]  # becomes the row of the next samples


@part_of_loop_in_place
def set_laws(laws, errors, padded, y, x, c, largest):
    """Set the laws of a sample, 0 to largest."""
    _set_values(laws, padded.samples, y, x, c)
    advance(laws.short, x, 1)
    advance(laws.long, x, REFIT)
    _predict(laws, padded.samples, y, x, c, largest)
    spread = _blend(laws, (y - UP) & 1, x)
    _set_keys(laws, padded, y, x, c, spread)
    _set_places(laws, errors, padded.samples, y, x, c, largest)
    _set_scales(laws, errors, padded, y, x, c)


@part_of_loop_in_place
def learn_laws(laws, errors, padded, y, x, c):
    """Learn from a sample, after it is coded."""
    _learn(laws, errors, padded, y, x, c)
    values, gain = laws.values, laws.blend[ERROR]
    values[len(values) - 1] = padded.samples[y, x, c] - laws.blend[MEAN]
    remember(laws.short, x, values, 1.0 / (gain * (gain + 0.125) + 1.0))
    remember(laws.long, x, values, 1.0 / (gain + 1.0))


@part_of_loop_in_place
def _mean(samples, y, x, c):
    """The weighted mean of the neighbours W, N, NW and NE."""
    sides = np.float64(samples[y, x - 1, c] + samples[y - 1, x, c])
    return sides * 0.375 + np.float64(samples[y - 1, x - 1, c] + samples[y - 1, x + 1, c]) * 0.125


@part_of_loop_in_place
def _set_values(laws, samples, y, x, c):
    """Set the regressors, and the mean of the nearest neighbours."""
    values, mean = laws.values, _mean(samples, y, x, c)
    for i in range(NEAREST):
        values[i] = samples[y + OWN[i, 0], x + OWN[i, 1], c] - mean
    n = NEAREST
    for other in range(c):
        others = _mean(samples, y, x, other)
        for i in range(len(OTHER)):
            values[n] = samples[y + OTHER[i, 0], x + OTHER[i, 1], other] - others
            n += 1
    for i in range(NEAREST, len(values) - 1 - len(OTHER) * c):
        values[n] = samples[y + OWN[i, 0], x + OWN[i, 1], c] - mean
        n += 1
    laws.blend[MEAN] = mean


@part_of_loop_in_place
def _predict(laws, samples, y, x, c, largest):
    """Set the predictions, between 0 and the largest sample.

    0 to 2: short memory, by few, by some and by all regressors; 3, 4: long memory, by few and by all; 5: median edge
    detector; 6: the mean of neighbours, or, after channel 0, that of W and N moved as the earlier channel moves; 7: W +
    NE - N.
    """
    predictions, values, short, long, mean = laws.predictions, laws.values, laws.short, laws.long, laws.blend[MEAN]
    n, few = len(values) - 1, NEAREST + len(OTHER) * c
    west, north = np.float64(samples[y, x - 1, c]), np.float64(samples[y - 1, x, c])
    predictions[0] = mean + predicted(short, values, few)
    predictions[1] = mean + predicted(short, values, few + 4)
    predictions[2] = mean + predicted(short, values, n)
    predictions[3] = mean + predicted(long, values, few)
    predictions[4] = mean + predicted(long, values, n)
    gradient = west + north - samples[y - 1, x - 1, c]
    predictions[5] = min(max(gradient, min(west, north)), max(west, north))
    predictions[6] = mean
    if c > 0:
        others = samples[y, x - 1, c - 1] + samples[y - 1, x, c - 1]
        predictions[6] = (west + north) * 0.5 + samples[y, x, c - 1] - others * 0.5
    predictions[7] = west + (samples[y - 1, x + 1, c] - north)
    for i in range(PREDICTIONS):
        predictions[i] = min(max(predictions[i], 0.0), np.float64(largest))


@part_of_loop_in_place
def _nearby(rows, now, x, i):
    """The average error of a prediction around a sample."""
    old = 1 - now
    total = rows[now, x - 1, i] * 2.0 + rows[old, x, i] * 2.0
    total = total + rows[old, x - 1, i] + rows[old, x + 1, i] + rows[now, x - 2, i] + rows[old, x + 2, i] * 0.5
    return total * 0.125


@part_of_loop_in_place
def _blend(laws, now, x):
    """Set the blend, its error nearby and its scale; returns the spread of the predictions. now: the row of errors."""
    predictions, spreads = laws.predictions, laws.spreads
    total = weights = 0.0
    for i in range(PREDICTIONS):
        spreads[i] = _nearby(laws.rows, now, x, i)
        weight = 1.0 / (spreads[i] + 0.015625)
        weight = weight * weight
        weights += weight
        total += weight * predictions[i]
    blend, error = total / weights, _nearby(laws.rows, now, x, PREDICTIONS)
    spread = 0.0
    for i in range(PREDICTIONS):
        spread += abs(predictions[i] - blend)
    spread = spread * 0.125
    scale = max(error * 0.625 + spread * 0.5, LEAST_SCALE)
    laws.blend[BLEND], laws.blend[SCALE], laws.blend[ERROR] = blend, scale, error
    return spread


@part_of_loop_in_place
def _set_keys(laws, padded, y, x, c, spread):
    """Set the keys of the biases, and the classes of scale and spread."""
    keys, samples, classes, blend = laws.keys, padded.samples, padded.classes, laws.blend[BLEND]
    west, north = samples[y, x - 1, c], samples[y - 1, x, c]
    pattern = (
        np.int64(west > blend)
        + 2 * np.int64(north > blend)
        + 4 * np.int64(samples[y - 1, x + 1, c] > blend)
        + 8 * np.int64(samples[y - 1, x - 1, c] > blend)
        + 16 * np.int64(2 * west - samples[y, x - 2, c] > blend)
        + 32 * np.int64(2 * north - samples[y - 2, x, c] > blend)
    )
    if c > 0:
        pattern += 64 * np.int64(2 * samples[y, x, c - 1] > samples[y, x - 1, c - 1] + samples[y - 1, x, c - 1])
    last = np.int64(classes[y - UP + 1, x, c - 1] if c > 0 else classes[y - UP, x + 1, c])
    before, above = np.int64(classes[y - UP + 1, x - 1, c]), np.int64(classes[y - UP, x, c])
    keys[0] = 128 * c + pattern
    keys[1] = 512 * c + 16 * min(level_of(laws.blend[ERROR]) >> 1, 31) + min(level_of(spread) >> 2, 15)
    keys[2] = ((7 * c + before) * 7 + above) * 7 + last
    keys[4], keys[5] = min(level_of(laws.blend[SCALE]), 63), min(level_of(spread), 63)


@part_of_loop_in_place
def _set_places(laws, errors, samples, y, x, c, largest):
    """Set the places of the laws, and the key of the intensity."""
    predictions, places, keys, biases = laws.predictions, laws.places, laws.keys, errors.biases
    bias = 0.0
    for i in range(3):
        bias += biases[i, keys[i], 0] / (biases[i, keys[i], 1] + 4.0)
    place = laws.blend[BLEND] + bias * 0.3125 * (laws.blend[ERROR] + 0.0625)
    place = min(max(place, 0.0), np.float64(largest))
    keys[3] = np.int64(place * 63.0 / np.float64(largest))
    for i in range(LAWS):
        places[i] = place
    places[3], places[4], places[5] = predictions[2], predictions[4], predictions[5]
    if laws.is_sharp:
        places[1] = samples[y - 1, x, c] + samples[y - 1, x + 1, c] - samples[y - 2, x + 1, c]
        places[2] = 2 * samples[y, x - 1, c] - samples[y, x - 2, c]
        places[6] = 2 * samples[y - 1, x, c] - samples[y - 2, x, c]
        places[7] = predictions[7]
    elif c == 0:
        places[7] = predictions[6]


@part_of_loop_in_place
def _set_scales(laws, errors, padded, y, x, c):
    """Set the inverse scales of the laws, and the error of the earlier channel around the sample."""
    spreads, inverses, scale = laws.spreads, laws.inverses, laws.blend[SCALE]
    row, other = y - UP + 1, 0.0
    if c > 0:
        before = padded.errors
        total = np.float64(before[row, x, c - 1]) * 2.0 + np.float64(before[row, x - 1, c - 1])
        total = total + np.float64(before[row, x + 1, c - 1])
        total = total + np.float64(before[row - 1, x, c - 1])
        other = (total + np.float64(before[row + 1, x, c - 1])) * 0.1875
    wide = 0.0
    for i in range(x - 2, x + 4):
        wide += laws.columns[i]
    wide = wide * 0.09375 + laws.sums[0] * 0.4375
    intensity = errors.intensities[c, laws.keys[3]]
    inverses[0] = 1.0 / scale
    inverses[1] = 1.0 / (scale * 3.0)
    inverses[2] = 1.0 / max(wide, LEAST_SCALE)
    inverses[3] = 1.0 / max(spreads[2], LEAST_SCALE)
    inverses[4] = 1.0 / max(spreads[4], LEAST_SCALE)
    inverses[5] = 1.0 / max(spreads[5], LEAST_SCALE)
    inverses[6] = 1.0 / max(intensity[0] / intensity[1], LEAST_SCALE)
    if c > 0:
        inverses[7] = 1.0 / max((other + 0.125) * laws.sums[1] / laws.sums[2], LEAST_SCALE)
    else:
        inverses[7] = 1.0 / max(spreads[6], LEAST_SCALE)
    if laws.is_sharp:
        inverses[1] = inverses[2] = inverses[6] = inverses[7] = SHARP_INVERSE
    laws.blend[EARLIER_ERROR] = other


@part_of_loop_in_place
def level_of(value):
    """About 4 log2(1 + 8 value), rounded down: a class of an error."""
    rest, level = value * 8.0 + 1.0, 0
    while rest >= 2.0:
        rest *= 0.5
        level += 4
    return level + np.int64(rest >= 1.1875) + np.int64(rest >= 1.40625) + np.int64(rest >= 1.6875)


@part_of_loop_in_place
def class_of(error):
    """The class of an error in scales, 0 to 6; 3 is near 0."""
    size = abs(error)
    away = np.int64(size > 0.3125) + np.int64(size > 0.8125) + np.int64(size > 1.75)
    return 3 + away if error > 0.0 else 3 - away


@part_of_loop_in_place
def below(place, inverse, threshold):
    """The probability that a law gives to all samples below a threshold."""
    z = (threshold - 0.5 - place) * inverse * GRID + GRID * RANGE
    if z < 0.0:
        return 0.0
    if z >= 2.0 * GRID * RANGE:
        return 1.0
    cell = np.int64(z)
    low = DISTRIBUTION[cell]
    return low + (DISTRIBUTION[cell + 1] - low) * (z - cell)


@part_of_loop_in_place
def _learn(laws, errors, padded, y, x, c):
    """Learn from the errors of the predictions and of the blend."""
    rows, columns, sums, biases, keys = laws.rows, laws.columns, laws.sums, errors.biases, laws.keys
    value, now, row = np.float64(padded.samples[y, x, c]), (y - UP) & 1, y - UP + 1
    for i in range(PREDICTIONS):
        rows[now, x, i] = abs(value - laws.predictions[i])
    error = value - laws.places[0]
    size = abs(error)
    rows[now, x, PREDICTIONS] = size
    if y == UP:
        for i in range(PREDICTIONS + 1):
            rows[1 - now, x + 1, i] = rows[1 - now, x + 2, i] = rows[now, x, i]
    padded.errors[row, x, c] = size
    padded.classes[row, x, c] = class_of(error * laws.inverses[0])
    columns[x] += (size - columns[x]) * 0.25
    sums[0] += (size - sums[0]) * 0.09375
    sums[1] = sums[1] * 0.9990234375 + size
    sums[2] = sums[2] * 0.9990234375 + laws.blend[EARLIER_ERROR] + 0.125
    standard = (value - laws.blend[BLEND]) / (laws.blend[ERROR] + 0.0625)
    standard = min(max(standard, -4.0), 4.0)
    for i in range(3):
        _add(biases[i, keys[i]], standard, 200.0)
    _add(errors.intensities[c, keys[3]], size, 400.0)


@part_of_loop_in_place
def _add(entry, value, most):
    """Add a value to a sum and count it; both are halved from time to time, so that old values count less."""
    entry[0] += value
    entry[1] += 1.0
    if entry[1] > most:
        entry[0] *= 0.5
        entry[1] *= 0.5
