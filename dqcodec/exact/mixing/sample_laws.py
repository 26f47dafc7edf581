"""Laws of a sample, in integers: predictions from its neighbours and the channel before,
each with a logistic distribution.

A law's scale follows from its mean absolute error. The error is learned in rows: by the spread of the neighbours, and
by the surprise of the channel before. So laws also predict bits of smooth and soft pixels whose contexts were never
seen.

Predictions are in eighths of a sample.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.exact.mixing.counters import moved
from dqcodec.exact.mixing.logistic import squash, stretch
from dqcodec.exact.mixing.pixels import channel, clamped
from dqcodec.frozen.mixing import LIMIT
from dqcodec.frozen.trained_mixing import LAWS, LEAST_ERROR, LEAST_SHARE, LEVELS, MAX_USES, SLOPE


class SampleLaws(NamedTuple):
    """The laws of the sample at hand, and what they learn.

    Attributes:
        errors: of each law in each row, uint32 (LAW_ROWS, LAWS): counters of the mean
            absolute error, in units of 2^-14.
        means, slopes: of the laws; the slope is 32 times the logits of a sample, int64 (LAWS,).
        below, above, here: their distribution functions, 65536ths, at both ends of the
            remaining samples, and at the threshold.

    Without laws, all have 0 laws.
    """

    errors: np.ndarray
    means: np.ndarray
    slopes: np.ndarray
    below: np.ndarray
    above: np.ndarray
    here: np.ndarray

    @classmethod
    def new(cls, errors: np.ndarray) -> "SampleLaws":
        """errors: the first ones."""
        return cls(errors.copy(), *(np.zeros(errors.shape[1], np.int64) for _ in range(5)))


@part_of_loop_in_place
def set_sample_laws(laws, layer, at, c, known, near):
    """Set the laws of a sample, channel c; returns their row. Compass points: neighbours;
    small letters: the channel before.

    known: the channels before c. near: the sample's channel of the neighbours W, N, NW, NE, WW and NN.
    """
    pixels, stride, channels = layer.pixels, layer.stride, layer.channels
    W, N, NW, NE, WW, NN = near
    means, gradient, alpha = laws.means, clamped(N + W - NW), np.int64(0)
    if c:
        last, up = known & 255, 8 * (channels - c)
        w, n = channel(pixels[at - 1], up), channel(pixels[at - stride], up)
        nw, ne = channel(pixels[at - stride - 1], up), channel(pixels[at - stride + 1], up)
        expected = clamped(n + w - nw)
        means[0] = clamped(gradient + last - expected) << 3
        means[1] = (W + N << 2) + (last << 3) - (w + n << 2)
        means[2] = W + last - w << 3
        means[3] = N + last - n << 3
        means[6] = W + NE - N + last - (w + ne - n) << 3
        means[7] = (W + N + NE + NW + WW + NN << 3) // 6
        surprise = abs(last - expected)
        if c > 1:
            before, w, n = known >> 8 & 255, channel(pixels[at - 1], up + 8), channel(pixels[at - stride], up + 8)
            means[7] = (W + N << 2) + (before << 3) - (w + n << 2)
        if channels % 2 == 0:
            first = known >> 8 * (c - 1)
            alpha = np.int64(first == 255) + 2 * np.int64(first == 0)
    else:
        means[0] = W + N << 2
        means[1] = W << 3
        means[2] = N << 3
        means[3] = W + NE - N << 3
        means[6] = 2 * W - WW << 3
        means[7] = 2 * N - NN << 3
        surprise = max(abs(W - WW), abs(N - NN))
    means[4] = gradient << 3
    means[5] = 3 * (W + N) + NE + NW
    spread = max(max(abs(W - NW), abs(N - NW)), abs(N - NE))
    row = ((c * 3 + alpha) * 6 + _level(spread)) * 6 + _level(surprise)
    largest = (1 << layer.bits) - 1 << 3
    for k in range(LAWS):
        means[k] = min(max(means[k], 0), largest)
        laws.slopes[k] = (SLOPE << 19) // (np.int64(laws.errors[row, k] >> 10) + LEAST_ERROR)
        laws.below[k], laws.above[k] = 0, 65536
    return row


@part_of_loop_in_place
def law_logit(laws, k, threshold, half):
    """The logit that a law gives to the remaining samples that are at least a threshold.

    Args:
        k: the law.
        threshold: half a sample below the least of these, in eighths.
        half: the remaining samples at each side of the threshold, in eighths.
    """
    below, above, slope, mean = laws.below[k], laws.above[k], laws.slopes[k], laws.means[k]
    here = squash(min(LIMIT, max(-LIMIT, (threshold - mean) * slope >> 8)))
    laws.here[k] = min(above, max(below, here))
    share = above - below
    if share < LEAST_SHARE or here <= below or here >= above:
        logit = min(LIMIT, half * slope >> 8)
        return logit if mean > threshold else -logit
    return stretch(min(65535, max(1, (above - here) * 65536 // share)))


@part_of_loop_in_place
def narrow_laws(laws, bit):
    """Leave out the samples at one side of the threshold."""
    for k in range(len(laws.means)):
        if bit:
            laws.below[k] = laws.here[k]
        else:
            laws.above[k] = laws.here[k]


@part_of_loop_in_place
def learn_sample_laws(laws, row, value):
    """Learn from a sample, after it is coded."""
    errors = laws.errors
    for k in range(len(laws.means)):
        errors[row, k] = moved(np.int64(errors[row, k]), abs((value << 3) - laws.means[k]) << 11, MAX_USES)


@part_of_loop_in_place
def _level(difference):
    level = np.int64(0)
    for least in LEVELS:
        level += np.int64(difference > least)
    return level
