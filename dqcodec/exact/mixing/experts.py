"""Coding by experts: samples of any number of bits, by several predictions that adapt, mixed decision by decision.

An expert is a law of the next sample: a place, a scale, and a distribution function. Local least squares with a short and a long
memory, the median edge detector (Martucci 1990), and a blend of all predictions with its bias corrected by contexts (Wu and Memon
1997) give the places; errors nearby, at the same intensity, or of another channel at the same pixel, give the scales.
A decision says whether the sample is at least a threshold. Thresholds are quantiles of the blend's law, so a few decisions make a
sample. Each expert gives the probability of a decision, given those before; so do histograms, which count in contexts how decisions
went. Logistic mixing (Mahoney 2005) makes one probability of all. Where the remaining range is small against the scale,
the blend's law alone decides.

Channels are coded one after the other, so a later one sees earlier ones on all sides. Samples are integers; floats are float64
unless said otherwise, and each operation on them stands alone, in a fixed order.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.exact.mixing.binary_coder import POSITION, BinaryCoder, code_bit
from dqcodec.exact.mixing.logistic import learn, mixed, squash, stretch
from dqcodec.exact.mixing.regression import Regression, advance, predicted, remember, start_row
from dqcodec.frozen.experts import (
    CELLS,
    CONTEXTS,
    DEPTH,
    DIRECT,
    DIRECT_BITS,
    DIRECT_USES,
    DISTRIBUTION,
    DOWN,
    GRID,
    HISTOGRAM_USES,
    HISTOGRAMS,
    INPUTS,
    LAW_WEIGHT,
    LAWS,
    LEAST_SCALE,
    MARGIN,
    MAX_SAMPLE_BYTES,
    MIN_PROBABILITY,
    NEAREST,
    NODES,
    OTHER,
    OTHER_WEIGHT,
    OWN,
    OWN_FIRST,
    OWN_LATER,
    PREDICTIONS,
    QUANTILES,
    RANGE,
    REFIT,
    SETS,
    STEPS,
    UP,
)
from dqcodec.frozen.mixing import LIMIT, RATES, SQUASH

_CELL = (2 * LIMIT + CELLS) // CELLS  # logits of a cell
_TREE = 1 << DEPTH  # nodes below are of the tree; others are of its tails


class Experts(NamedTuple):
    """The state that learns, from sample to sample and from image to image.

    Attributes:
        weights: of the inputs, int32 (SETS, 2048, INPUTS), and of the sets' logits, int32 (32, SETS), 2^-16.
        histograms: 2^22 times the probability of a 1, and the number of uses, int32 (HISTOGRAMS CONTEXTS NODES, 2).
        direct: the same for hashed contexts, and 16 bits of the hash, int32 (DIRECT 2^DIRECT_BITS, 3).
        refinements: 2^22 times the probability of a 1, int32 (2, 4096, CELLS + 1).
        biases: sums of standardised errors, and their numbers, (3, 2048, 2).
        intensities: sums of absolute errors, and their numbers, (4, 64, 2).
        done: the number of samples so far, int64 (1,).
    """

    weights: np.ndarray
    finals: np.ndarray
    histograms: np.ndarray
    direct: np.ndarray
    refinements: np.ndarray
    biases: np.ndarray
    intensities: np.ndarray
    done: np.ndarray

    @classmethod
    def new(cls) -> "Experts":
        """Experts that know nothing."""
        weights = np.full((SETS, 2048, INPUTS), OTHER_WEIGHT, np.int32)
        weights[:, :, :LAWS] = LAW_WEIGHT
        cells = SQUASH[np.clip(_CELL * np.arange(CELLS + 1) - LIMIT, -LIMIT, LIMIT) + LIMIT] << 6
        return cls(
            weights,
            np.full((32, SETS), 65536 // SETS, np.int32),
            np.zeros((HISTOGRAMS * CONTEXTS * NODES, 2), np.int32),
            np.zeros((DIRECT << DIRECT_BITS, 3), np.int32),
            np.tile(cells.astype(np.int32), (2, 4096, 1)),
            np.zeros((3, 2048, 2)),
            np.ones((4, 64, 2)),
            np.zeros(1, np.int64),
        )


class Canvas(NamedTuple):
    """An image with margins around it. Channels are in the order of coding.

    Attributes:
        samples: int32 (UP + H + DOWN, W + 2 MARGIN, C).
        errors: absolute errors of the blend, float32 (H + 2, W + 2 MARGIN, C).
        classes: of the blend's errors in scales, 0 to 6, int8 (H + 2, W + 2 MARGIN, C).
    """

    samples: np.ndarray
    errors: np.ndarray
    classes: np.ndarray

    @classmethod
    def new(cls, shape: tuple[int, int, int]) -> "Canvas":
        """For an image (H, W, C)."""
        height, width, channels = shape
        columns = width + 2 * MARGIN
        return cls(
            np.zeros((UP + height + DOWN, columns, channels), np.int32),
            np.zeros((height + 2, columns, channels), np.float32),
            np.full((height + 2, columns, channels), 3, np.int8),
        )

    @property
    def inside(self) -> np.ndarray:
        """The image's samples, a view (H, W, C)."""
        return self.samples[UP:-DOWN, MARGIN:-MARGIN]


class Sample(NamedTuple):
    """The data about the next sample.

    Attributes:
        values: regressors, then the sample itself less its mean (n + 1,).
        predictions: (PREDICTIONS,).
        spreads: their errors nearby (PREDICTIONS + 1,); the last is the blend's.
        places, inverses: of the laws, the inverse of the scale (LAWS,).
        below, above, here: the laws' distribution functions at both ends of the remaining range, and at the threshold
        (LAWS,).
        contexts: of the histograms, int64 (HISTOGRAMS,).
        hashes: uint64 (DIRECT,). slots: of the counts, int64 (HISTOGRAMS + DIRECT,).
        inputs: int32 (INPUTS,). logits: of the sets, int32 (SETS,). sets: int64 (SETS,).
        blend: the place without correction, its scale, the error nearby (3,).
        keys: of the biases (3), of the intensity, classes of scale and of spread, int64 (6,).
    """

    values: np.ndarray
    predictions: np.ndarray
    spreads: np.ndarray
    places: np.ndarray
    inverses: np.ndarray
    below: np.ndarray
    above: np.ndarray
    here: np.ndarray
    contexts: np.ndarray
    hashes: np.ndarray
    slots: np.ndarray
    inputs: np.ndarray
    logits: np.ndarray
    sets: np.ndarray
    blend: np.ndarray
    keys: np.ndarray

    @classmethod
    def new(cls, n: int) -> "Sample":
        """With n regressors."""
        reals = (n + 1, PREDICTIONS, PREDICTIONS + 1, LAWS, LAWS, LAWS, LAWS, LAWS)
        return cls(
            *map(np.zeros, reals),
            np.zeros(HISTOGRAMS, np.int64),
            np.zeros(DIRECT, np.uint64),
            np.zeros(HISTOGRAMS + DIRECT, np.int64),
            np.zeros(INPUTS, np.int32),
            np.zeros(SETS, np.int32),
            np.zeros(SETS, np.int64),
            np.zeros(3),
            np.zeros(6, np.int64),
        )


class Nearby(NamedTuple):
    """Errors near the next sample of a channel.

    Attributes:
        rows: absolute errors of each prediction and the blend, in this row and the one above, (2, W + 2 MARGIN, PREDICTIONS + 1).
        columns: the blend's, averaged down the columns (W + 2 MARGIN,).
        sums: averaged along the row; sums of the channel's errors and of the earlier channel's nearby (3,).
    """

    rows: np.ndarray
    columns: np.ndarray
    sums: np.ndarray

    @classmethod
    def new(cls, width: int) -> "Nearby":
        """width: the number of samples in a row."""
        return cls(
            np.ones((2, width + 2 * MARGIN, PREDICTIONS + 1)), np.ones(width + 2 * MARGIN), np.array([1.0, 0.5, 0.5])
        )


def code_channel(experts: Experts, canvas: Canvas, channel: int, largest: int, coder: BinaryCoder) -> BinaryCoder:
    """Code a channel of a canvas, whose earlier channels are known: its samples, 0 to largest, are written or read and entered.

    Returns the coder, with more room for its code if it needed this.
    """
    height, width, _ = canvas.inside.shape
    n = own(channel) + len(OTHER) * channel
    short, long = (Regression.new(width, n, memory) for memory in range(2))
    nearby, sample, row, room = Nearby.new(width), Sample.new(n), 0, MAX_SAMPLE_BYTES * width
    while row < height:
        if not coder.is_sought and len(coder.code) < coder.position + room:
            coder = coder._replace(code=np.concatenate([coder.code, np.empty(len(coder.code) + room, np.uint8)]))
        row = _code_rows(experts, canvas, nearby, short, long, sample, channel, largest, coder, row, room)
    return coder


@compiled
def own(channel):
    """The number of regressors from the channel itself."""
    return OWN_FIRST if channel == 0 else OWN_LATER


@compiled
def _code_rows(experts, canvas, nearby, short, long, sample, c, largest, coder, first, room):
    """Code rows from the first one on, while a row's code surely has room; returns the next row."""
    samples = canvas.samples
    height, width = samples.shape[0] - UP - DOWN, samples.shape[1] - 2 * MARGIN
    for y in range(UP + first, UP + height):
        if not coder.is_sought and len(coder.code) < coder.state[POSITION] + room:
            return y - UP
        samples[y, :MARGIN, c] = samples[y - 1, MARGIN, c]
        start_row(short)
        start_row(long)
        for x in range(MARGIN, MARGIN + width):
            if y == UP:  # above the first row lie copies of the sample before
                samples[:UP, x : x + MARGIN, c] = samples[y, x - 1, c]
            mean = _set_values(sample, samples, y, x, c)
            advance(short, x, 1)
            advance(long, x, REFIT)
            _predict(sample, short, long, samples, mean, y, x, c, largest)
            other = _blend(experts, sample, nearby, canvas, y, x, c, largest)
            _set_contexts(sample, canvas, y, x, c, other)
            samples[y, x, c] = _code_sample(experts, sample, samples[y, x, c], samples[y, x - 1, c], c, largest, coder)
            _learn(experts, sample, nearby, canvas, y, x, c, other)
            gain, place = sample.blend[2], len(sample.values) - 1
            sample.values[place] = samples[y, x, c] - mean
            remember(short, x, sample.values, 1.0 / (gain * (gain + 0.125) + 1.0))
            remember(long, x, sample.values, 1.0 / (gain + 1.0))
        samples[y, MARGIN + width :, c] = samples[y, MARGIN + width - 1, c]
        now = (y - UP) & 1
        nearby.rows[now, MARGIN + width :] = nearby.rows[now, MARGIN + width - 1]
        nearby.rows[1 - now, :MARGIN] = nearby.rows[now, MARGIN]  # becomes the row of the next samples
    samples[UP + height :, :, c] = samples[UP + height - 1, :, c]
    return height


@compiled
def _mean(samples, y, x, c):
    sides = np.float64(samples[y, x - 1, c] + samples[y - 1, x, c])
    return sides * 0.375 + np.float64(samples[y - 1, x - 1, c] + samples[y - 1, x + 1, c]) * 0.125


@compiled
def _set_values(sample, samples, y, x, c):
    """Set the regressors; returns the mean of the nearest neighbours."""
    values, mean = sample.values, _mean(samples, y, x, c)
    for i in range(NEAREST):
        values[i] = samples[y + OWN[i, 0], x + OWN[i, 1], c] - mean
    n = NEAREST
    for other in range(c):
        others = _mean(samples, y, x, other)
        for i in range(len(OTHER)):
            values[n] = samples[y + OTHER[i, 0], x + OTHER[i, 1], other] - others
            n += 1
    for i in range(NEAREST, own(c)):
        values[n] = samples[y + OWN[i, 0], x + OWN[i, 1], c] - mean
        n += 1
    return mean


@compiled
def _predict(sample, short, long, samples, mean, y, x, c, largest):
    """Set the predictions, between 0 and the largest sample."""
    predictions, values = sample.predictions, sample.values
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


@compiled
def _nearby(rows, now, x, i):
    """The average error of a prediction around a sample."""
    old = 1 - now
    total = rows[now, x - 1, i] * 2.0 + rows[old, x, i] * 2.0
    total = total + rows[old, x - 1, i] + rows[old, x + 1, i] + rows[now, x - 2, i] + rows[old, x + 2, i] * 0.5
    return total * 0.125


@compiled
def _blend(experts, sample, nearby, canvas, y, x, c, largest):
    """Set the laws; returns the error of the earlier channel around the sample."""
    predictions, spreads, places, inverses = sample.predictions, sample.spreads, sample.places, sample.inverses
    now, biases, samples, classes = (y - UP) & 1, experts.biases, canvas.samples, canvas.classes
    total = weights = 0.0
    for i in range(PREDICTIONS):
        spreads[i] = _nearby(nearby.rows, now, x, i)
        weight = 1.0 / (spreads[i] + 0.015625)
        weight = weight * weight
        weights += weight
        total += weight * predictions[i]
    blend, error = total / weights, _nearby(nearby.rows, now, x, PREDICTIONS)
    spread = 0.0
    for i in range(PREDICTIONS):
        spread += abs(predictions[i] - blend)
    spread = spread * 0.125

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
    keys = sample.keys
    keys[0] = 128 * c + pattern
    keys[1] = 512 * c + 16 * min(_level(error) >> 1, 31) + min(_level(spread) >> 2, 15)
    keys[2] = ((7 * c + before) * 7 + above) * 7 + last
    bias = 0.0
    for i in range(3):
        bias += biases[i, keys[i], 0] / (biases[i, keys[i], 1] + 4.0)
    place = blend + bias * 0.3125 * (error + 0.0625)
    place = min(max(place, 0.0), np.float64(largest))
    scale = max(error * 0.625 + spread * 0.5, LEAST_SCALE)
    sample.blend[0], sample.blend[1], sample.blend[2] = blend, scale, error
    keys[3] = np.int64(place * 63.0 / np.float64(largest))
    keys[4], keys[5] = min(_level(scale), 63), min(_level(spread), 63)

    row, other = y - UP + 1, 0.0
    if c > 0:
        errors = canvas.errors
        total = np.float64(errors[row, x, c - 1]) * 2.0 + np.float64(errors[row, x - 1, c - 1])
        total = total + np.float64(errors[row, x + 1, c - 1])
        total = total + np.float64(errors[row - 1, x, c - 1])
        other = (total + np.float64(errors[row + 1, x, c - 1])) * 0.1875
    wide = 0.0
    for i in range(x - 2, x + 4):
        wide += nearby.columns[i]
    wide = wide * 0.09375 + nearby.sums[0] * 0.4375
    intensity = experts.intensities[c, keys[3]]
    for i in range(LAWS):
        places[i] = place
    places[3], places[4], places[5] = predictions[2], predictions[4], predictions[5]
    inverses[0] = 1.0 / scale
    inverses[1] = 1.0 / (scale * 3.0)
    inverses[2] = 1.0 / max(wide, LEAST_SCALE)
    inverses[3] = 1.0 / max(spreads[2], LEAST_SCALE)
    inverses[4] = 1.0 / max(spreads[4], LEAST_SCALE)
    inverses[5] = 1.0 / max(spreads[5], LEAST_SCALE)
    inverses[6] = 1.0 / max(intensity[0] / intensity[1], LEAST_SCALE)
    if c > 0:
        inverses[7] = 1.0 / max((other + 0.125) * nearby.sums[1] / nearby.sums[2], LEAST_SCALE)
    else:
        places[7], inverses[7] = predictions[6], 1.0 / max(spreads[6], LEAST_SCALE)
    return other


@compiled
def _level(value):
    """About 4 log2(1 + 8 value), rounded down: a class of an error."""
    rest, level = value * 8.0 + 1.0, 0
    while rest >= 2.0:
        rest *= 0.5
        level += 4
    return level + np.int64(rest >= 1.1875) + np.int64(rest >= 1.40625) + np.int64(rest >= 1.6875)


@compiled
def _class(error):
    """The class of an error in scales, 0 to 6; 3 is near 0."""
    size = abs(error)
    away = np.int64(size > 0.3125) + np.int64(size > 0.8125) + np.int64(size > 1.75)
    return 3 + away if error > 0.0 else 3 - away


@compiled
def _set_contexts(sample, canvas, y, x, c, other):
    """Set the contexts of the histograms and hashes, and the sets of weights, whose decision is still missing."""
    samples, classes, contexts, keys, places = (
        canvas.samples,
        canvas.classes,
        sample.contexts,
        sample.keys,
        sample.places,
    )
    place, scale, row = places[0], sample.blend[1], y - UP + 1
    level, part = keys[4], 0
    if scale < 4.0:
        part = 1 + np.int64((place - np.floor(place)) * 7.0)
    contexts[0] = (8 * c + part) * 64 + level
    contexts[1] = keys[2]
    contexts[2] = keys[0] * 4 + min(level >> 3, 3)
    inverse = sample.inverses[0]
    first, second = _class((places[3] - place) * inverse), _class((places[4] - place) * inverse)
    contexts[3] = ((7 * c + first) * 7 + second) * 7 + _class((places[5] - place) * inverse)
    last, before = np.int64(classes[row - 1, x + 1, c]), np.int64(0)
    if c > 0:
        last = np.int64(classes[row, x, c - 1])
    if c > 1:
        before = 1 + np.int64(classes[row, x, c - 2])
    contexts[4] = ((8 * c + last) * 8 + before) * 8 + min(level >> 3, 7)

    west = np.int64(samples[y, x - 1, c])
    north, right = np.int64(samples[y - 1, x, c]) - west, np.int64(samples[y - 1, x + 1, c]) - west
    change = np.int64(samples[y, x, c - 1]) - np.int64(samples[y, x - 1, c - 1]) if c > 0 else np.int64(0)
    sample.hashes[0] = _hashed(_hashed(np.uint64(c), north), right)
    value = _hashed(sample.hashes[0], np.int64(samples[y - 1, x - 1, c]) - west)
    value = _hashed(value, np.int64(samples[y, x - 2, c]) - west)
    sample.hashes[1] = _hashed(_hashed(value, np.int64(samples[y - 2, x, c]) - west), change)
    sample.sets[0] = 64 * c
    sample.sets[1] = 8 * level
    sample.sets[2] = 8 * (32 * c + (keys[5] >> 1 if c == 0 else min(_level(other), 63) >> 1))


@compiled
def _hashed(value, other):
    value = (value + np.uint64(other)) * np.uint64(0xE7037ED1A0B428DB)
    return value ^ value >> np.uint64(29)


@compiled
def _below(place, inverse, threshold):
    """The probability that a law gives to all samples below a threshold."""
    z = (threshold - 0.5 - place) * inverse * GRID + GRID * RANGE
    if z < 0.0:
        return 0.0
    if z >= 2.0 * GRID * RANGE:
        return 1.0
    cell = np.int64(z)
    low = DISTRIBUTION[cell]
    return low + (DISTRIBUTION[cell + 1] - low) * (z - cell)


@compiled
def _share(below, here, above):
    """The probability, in 65536ths, of a sample that is not below `here`, if it is between both others; 0: unknown."""
    rest = above - below
    if rest < 1e-7:
        return np.int64(0)
    return min(65535, max(1, np.int64((above - here) / rest * 65536.0)))


@compiled
def _code_sample(experts, sample, value, west, c, largest, coder):
    """Code a sample, and learn from each decision; returns it."""
    places, inverses, below, above, here = sample.places, sample.inverses, sample.below, sample.above, sample.here
    place, scale = places[0], sample.blend[1]
    low, end, node, step = np.int64(0), np.int64(largest) + 1, np.int64(1), np.int64(0)
    for i in range(LAWS):
        below[i], above[i] = _below(places[i], inverses[i], 0.0), _below(places[i], inverses[i], np.float64(end))
    experts.done[0] += 1
    rate = np.int64(5) + 20 * 1024 // (1024 + experts.done[0])
    while end - low > 1:
        if node < _TREE:
            threshold = np.int64(np.floor(place + scale * QUANTILES[node])) + 1
            if threshold <= low or threshold >= end:
                node = 2 * node + np.int64(threshold <= low)
                continue
        elif low > 0 and end <= largest:  # between two quantiles
            threshold = low + end >> 1
            half = _below(place, inverses[0], np.float64(threshold))
            probability = _share(below[0], half, above[0])
            if probability == 0:
                probability = np.int64(32768)
            probability = min(65536 - 64, max(64, probability))
            if code_bit(coder, probability, np.int64(value >= threshold)):
                low, below[0] = threshold, half
            else:
                end, above[0] = threshold, half
            continue
        else:  # in a tail
            step += 1
            distance = scale * QUANTILES[_TREE - 1] * np.float64(1 << min(step, 20))
            is_upper = np.int64(low > 0 or end > place)
            threshold = np.int64(np.floor(place + distance if is_upper else place - distance)) + 1
            if threshold <= low or threshold >= end:
                threshold = low + end >> 1
            node = _TREE + 2 * (min(step, STEPS) - 1) + is_upper
        for i in range(LAWS):
            here[i] = _below(places[i], inverses[i], np.float64(threshold))
        if _decide(experts, sample, node, value, threshold, low, end, west, c, rate, coder):
            low = threshold
            below[:] = here
            node = 2 * node + 1 if node < _TREE else node
        else:
            end = threshold
            above[:] = here
            node = 2 * node if node < _TREE else node
        if node >= _TREE and step == 0:
            node = np.int64(_TREE)
    return low


@compiled
def _decide(experts, sample, node, value, threshold, low, end, west, c, rate, coder):
    """Code whether the value is at least the threshold, and learn from this."""
    inputs, logits, sets, contexts, slots = sample.inputs, sample.logits, sample.sets, sample.contexts, sample.slots
    weights, histograms, direct, refinements = experts.weights, experts.histograms, experts.direct, experts.refinements
    for i in range(LAWS):
        share = _share(sample.below[i], sample.here[i], sample.above[i])
        inputs[i] = stretch(share) if share else 0
    for i in range(HISTOGRAMS):
        slot = (i * CONTEXTS + contexts[i]) * NODES + node
        slots[i] = slot
        inputs[LAWS + i] = stretch(histograms[slot, 0] >> 6) if histograms[slot, 1] else 0
    gap = np.int64(threshold - west) << 10 | min(end - threshold, 31) << 5 | min(threshold - low, 31)
    for i in range(DIRECT):
        key = _hashed(sample.hashes[i], gap) * np.uint64(0xA0761D6478BD642F)
        slot = (i << DIRECT_BITS) + np.int64(key >> np.uint64(64 - DIRECT_BITS))
        slots[HISTOGRAMS + i], check = slot, np.int32(key >> np.uint64(24) & np.uint64(65535))
        if direct[slot, 2] != check:
            direct[slot, 1], direct[slot, 2] = 0, check
        inputs[LAWS + HISTOGRAMS + i] = stretch(direct[slot, 0] >> 6) if direct[slot, 1] else 0
    inputs[INPUTS - 1] = 256

    depth, rest = np.int64(0), node
    while rest:
        depth, rest = depth + 1, rest >> 1
    rows = sets[0] + node, sets[1] + depth, sets[2] + depth
    for m in range(SETS):
        logits[m] = mixed(weights[m], rows[m], inputs)
    logit = mixed(experts.finals, 8 * c + depth, logits)
    mixture = squash(logit)
    cell, offset = (logit + LIMIT) // _CELL, (logit + LIMIT) % _CELL
    first, second = node * 64 + (sets[1] >> 3), contexts[1] % 49 * 64 + node
    refined = np.int64(refinements[0, first, cell]) + np.int64(refinements[1, second, cell])
    upper = np.int64(refinements[0, first, cell + 1]) + np.int64(refinements[1, second, cell + 1])
    refined = (refined * (_CELL - offset) + upper * offset) // (_CELL * 64)
    probability = min(65536 - MIN_PROBABILITY, max(MIN_PROBABILITY, (2 * mixture + refined) >> 2))
    bit = code_bit(coder, probability, np.int64(value >= threshold))

    for m in range(SETS):
        learn(weights[m], rows[m], inputs, (bit << 16) - squash(logits[m]), rate)
    learn(experts.finals, 8 * c + depth, logits, (bit << 16) - mixture, 2)
    near = cell + np.int64(2 * offset > _CELL)
    target = bit * ((1 << 22) - 64)
    refinements[0, first, near] += (target - np.int64(refinements[0, first, near])) >> 6
    refinements[1, second, near] += (target - np.int64(refinements[1, second, near])) >> 6
    for i in range(HISTOGRAMS):
        _count(histograms, slots[i], target, HISTOGRAM_USES)
    for i in range(DIRECT):
        _count(direct, slots[HISTOGRAMS + i], target, DIRECT_USES)
    return bit


@compiled
def _count(entries, slot, target, most):
    """Move a probability toward a bit. The more often it was used, the less it moves."""
    uses = np.int64(entries[slot, 1])
    probability = np.int64(entries[slot, 0]) if uses else np.int64(1 << 21)
    entries[slot, 0] = probability + ((target - probability) * RATES[uses] >> 16)
    entries[slot, 1] = min(uses + 1, most)


@compiled
def _learn(experts, sample, nearby, canvas, y, x, c, other):
    """Learn from a sample, after it is coded."""
    rows, columns, sums, biases, keys = nearby.rows, nearby.columns, nearby.sums, experts.biases, sample.keys
    value, now, row = np.float64(canvas.samples[y, x, c]), (y - UP) & 1, y - UP + 1
    for i in range(PREDICTIONS):
        rows[now, x, i] = abs(value - sample.predictions[i])
    error = value - sample.places[0]
    size = abs(error)
    rows[now, x, PREDICTIONS] = size
    if y == UP:
        rows[1 - now, x + 1] = rows[now, x]
        rows[1 - now, x + 2] = rows[now, x]
    canvas.errors[row, x, c] = size
    canvas.classes[row, x, c] = _class(error * sample.inverses[0])
    columns[x] += (size - columns[x]) * 0.25
    sums[0] += (size - sums[0]) * 0.09375
    sums[1] = sums[1] * 0.9990234375 + size
    sums[2] = sums[2] * 0.9990234375 + other + 0.125
    standard = (value - sample.blend[0]) / (sample.blend[2] + 0.0625)
    standard = min(max(standard, -4.0), 4.0)
    for i in range(3):
        _add(biases[i, keys[i]], standard, 200.0)
    _add(experts.intensities[c, keys[3]], size, 400.0)


@compiled
def _add(entry, value, most):
    """Add a value to a sum and count it; both are halved from time to time, so that old values count less."""
    entry[0] += value
    entry[1] += 1.0
    if entry[1] > most:
        entry[0] *= 0.5
        entry[1] *= 0.5
