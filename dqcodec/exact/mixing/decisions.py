"""Decisions: a search for a sample, each step of which codes whether the sample is at least a threshold.

Thresholds are quantiles of the first law, so a few decisions determine a sample. Each law gives the probability of a
decision, given the earlier ones; histograms do, too, which count decisions in contexts. Logistic mixing (Mahoney 2005)
combines all to one probability. Between two quantiles, the first law alone gives it.

In a sharp channel, the places of the laws are tried first, one after the other: is the
sample at least the place, is it above?
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.exact.mixing.binary_coder import code_bit
from dqcodec.exact.mixing.counters import UNUSED, interpolated, moved
from dqcodec.exact.mixing.hashes import hashed_by_sum
from dqcodec.exact.mixing.laws import SCALE, below
from dqcodec.exact.mixing.logistic import Network, learn_twice, mixed_twice, squash, stretch
from dqcodec.frozen.experts import (
    CANDIDATES,
    CELLS,
    CONTEXTS,
    DEPTH,
    DIRECT,
    DIRECT_BITS,
    DIRECT_USES,
    HISTOGRAM_USES,
    HISTOGRAMS,
    INPUTS,
    LAW_WEIGHT,
    LAWS,
    MIN_PROBABILITY,
    NODES,
    OTHER_WEIGHT,
    QUANTILES,
    SETS,
    SHARP_STEPS,
    STEPS,
)
from dqcodec.frozen.mixing import LIMIT, SQUASH
from dqcodec.frozen.pixel_mixing import STAGE_STEP

_TREE = 1 << DEPTH  # nodes below are of the tree; others are of its tails
_FIRST_CANDIDATE = _TREE + 2 * SHARP_STEPS  # two nodes for each candidate of a sharp channel
_ROWS = 2048  # of a set of weights
_STAGE_ROWS = 4096  # of a stage
_FINAL_RATE = 2


class Decisions(NamedTuple):
    """The state that learns, from decision to decision and from image to image.

    Attributes:
        network: mixes a logit of each law, histogram and direct count, and a constant; SETS
            sets of _ROWS rows, 32 final rows.
        histograms: counters, uint32 (HISTOGRAMS CONTEXTS NODES,).
        direct: counters of hashed contexts, then 16 bits of the hash, int64 (DIRECT 2^DIRECT_BITS,).
        stages: two, one after the other: 2^22 times the probability of a 1, int32 (2 _STAGE_ROWS, CELLS + 1).
        done: the number of samples so far, int64 (1,).
    """

    network: Network
    histograms: np.ndarray
    direct: np.ndarray
    stages: np.ndarray
    done: np.ndarray

    @classmethod
    def new(cls) -> "Decisions":
        """Nothing is learned yet."""
        weights = np.full((SETS * _ROWS, INPUTS), OTHER_WEIGHT, np.int32)
        weights[:, :LAWS] = LAW_WEIGHT
        cells = SQUASH[np.clip(STAGE_STEP * np.arange(CELLS + 1), 0, 2 * LIMIT)] << 6
        return cls(
            Network.new(weights, np.full((32, SETS), 65536 // SETS, np.int32)),
            np.full(HISTOGRAMS * CONTEXTS * NODES, UNUSED, np.uint32),
            np.full(DIRECT << DIRECT_BITS, UNUSED << 16, np.int64),
            np.tile(cells.astype(np.int32), (2 * _STAGE_ROWS, 1)),
            np.zeros(1, np.int64),
        )


class Contexts(NamedTuple):
    """The contexts of the decisions on the next sample, and room to compute them.

    Attributes:
        histograms: contexts, int64 (HISTOGRAMS,).
        hashes: of what direct counts depend on, uint64 (DIRECT,).
        sets: rows of weights, to which a decision adds its own, int64 (SETS,).
        base: the sample to which direct counts see thresholds relative, and the row of the final weights, int64 (2,).
        below, above, here: the laws' distribution functions at both ends of the remaining range, and at the threshold,
            float64 (LAWS,).
        slots: of the counts, int64 (HISTOGRAMS + DIRECT,).
    """

    histograms: np.ndarray
    hashes: np.ndarray
    sets: np.ndarray
    base: np.ndarray
    below: np.ndarray
    above: np.ndarray
    here: np.ndarray
    slots: np.ndarray

    @classmethod
    def new(cls) -> "Contexts":
        """Of no sample yet."""
        return cls(
            np.zeros(HISTOGRAMS, np.int64), np.zeros(DIRECT, np.uint64), np.zeros(SETS, np.int64), np.zeros(2, np.int64),
            *map(np.zeros, (LAWS, LAWS, LAWS)), np.zeros(HISTOGRAMS + DIRECT, np.int64),
        )  # fmt: skip


class Question(NamedTuple):
    """Whether a sample, low <= sample < end, is at least a threshold: a node of the tree, of
    a tail or of a candidate, or 0.
    """

    node: int
    threshold: int
    low: int
    end: int


@part_of_loop_in_place
def code_sample(decisions, contexts, laws, value, largest, coder):
    """Code a sample, 0 to largest, and learn from each decision; returns it.

    Args:
        decisions: what is learned.
        contexts: of this sample.
        laws: a Laws, of this sample.
        value: the sample, if it is written.
    """
    places, inverses, lower, upper, here = laws.places, laws.inverses, contexts.below, contexts.above, contexts.here
    place, scale = places[0], laws.blend[SCALE]
    low, end, node, step = np.int64(0), np.int64(largest) + 1, np.int64(1), np.int64(0)
    for i in range(len(places)):
        lower[i], upper[i] = below(places[i], inverses[i], 0.0), below(places[i], inverses[i], np.float64(end))
    decisions.done[0] += 1
    while end - low > 1:
        threshold, asked = _candidate(laws, low, end) if laws.is_sharp else (np.int64(0), np.int64(0))
        if asked:
            pass  # for a candidate
        elif node < _TREE:
            threshold = np.int64(np.floor(place + scale * QUANTILES[node])) + 1
            if threshold <= low or threshold >= end:
                node = 2 * node + np.int64(threshold <= low)
                continue
            asked = node
        elif low > 0 and end <= largest:  # between two quantiles
            threshold = low + end >> 1
            if not laws.is_sharp:
                half = below(place, inverses[0], np.float64(threshold))
                probability = _share(lower[0], half, upper[0])
                if probability == 0:
                    probability = np.int64(32768)
                probability = min(65536 - 64, max(64, probability))
                if code_bit(coder, probability, np.int64(value >= threshold)):
                    low, lower[0] = threshold, half
                else:
                    end, upper[0] = threshold, half
                continue
        else:  # in a tail
            step += 1
            distance = scale * QUANTILES[_TREE - 1] * np.float64(1 << min(step, 20))
            is_upper = np.int64(low > 0 or end > place)
            threshold = np.int64(np.floor(place + distance if is_upper else place - distance)) + 1
            if threshold <= low or threshold >= end:
                threshold = low + end >> 1
            asked = _TREE + 2 * (min(step, SHARP_STEPS if laws.is_sharp else STEPS) - 1) + is_upper
        for i in range(len(places)):
            here[i] = below(places[i], inverses[i], np.float64(threshold))
        bit = _decide(decisions, contexts, Question(asked, threshold, low, end), value, coder)
        if bit:
            low = threshold
            for i in range(len(here)):
                lower[i] = here[i]
        else:
            end = threshold
            for i in range(len(here)):
                upper[i] = here[i]
        if asked == node:
            node = min(2 * node + bit, np.int64(_TREE))
    return low


@part_of_loop_in_place
def _candidate(laws, low, end):
    """(threshold, node) of the decision whether a sample is the first candidate from `low`
    up to `end`; node 0: none is left.
    """
    for i in range(len(CANDIDATES)):
        whole = np.int64(np.floor(laws.places[CANDIDATES[i]] + 0.5))
        if low < whole < end:
            return whole, np.int64(_FIRST_CANDIDATE + 2 * i)
        if whole == low:
            return whole + 1, np.int64(_FIRST_CANDIDATE + 2 * i + 1)
    return low, np.int64(0)


@part_of_loop_in_place
def _decide(decisions, contexts, question, value, coder):
    """Code whether the value is at least the threshold, and learn from this."""
    # in one piece: passing these tuples of arrays on for each decision takes a quarter more time
    node, threshold, low, end = question.node, question.threshold, question.low, question.end
    network, histograms, direct, stages = decisions.network, decisions.histograms, decisions.direct, decisions.stages
    inputs, sets, slots, laws = network.inputs, contexts.sets, contexts.slots, len(contexts.here)
    for i in range(laws):
        share = _share(contexts.below[i], contexts.here[i], contexts.above[i])
        inputs[i] = stretch(share) if share else 0
    for i in range(HISTOGRAMS):
        slot = (i * CONTEXTS + contexts.histograms[i]) * NODES + node
        slots[i] = slot
        inputs[laws + i] = stretch(histograms[slot] >> 16)
    gap = np.int64(threshold - contexts.base[0]) << 10 | min(end - threshold, 31) << 5 | min(threshold - low, 31)
    for i in range(DIRECT):
        key = hashed_by_sum(contexts.hashes[i], gap) * np.uint64(0xA0761D6478BD642F)
        slot = (i << DIRECT_BITS) + np.int64(key >> np.uint64(64 - DIRECT_BITS))
        slots[HISTOGRAMS + i], check = slot, np.int64(key >> np.uint64(24) & np.uint64(65535))
        if direct[slot] & 65535 != check:
            direct[slot] = np.int64(UNUSED) << 16 | check
        inputs[laws + HISTOGRAMS + i] = stretch(direct[slot] >> 32)
    inputs[laws + HISTOGRAMS + DIRECT] = 256

    depth, rest = np.int64(0), node
    while rest:
        depth, rest = depth + 1, rest >> 1
    network.rows[0], network.rows[1], network.rows[2] = (
        sets[0] + node,
        _ROWS + sets[1] + depth,
        2 * _ROWS + sets[2] + depth,
    )
    final = contexts.base[1] + depth
    logit = mixed_twice(network, final)
    mixture = squash(logit)
    first, second = node * 64 + (sets[1] >> 3), _STAGE_ROWS + contexts.histograms[1] % 49 * 64 + node
    probable, cell = interpolated(stages, first, logit + LIMIT)
    other, _ = interpolated(stages, second, logit + LIMIT)
    staged = (probable + other) // (64 * STAGE_STEP)
    probability = min(65536 - MIN_PROBABILITY, max(MIN_PROBABILITY, (2 * mixture + staged) >> 2))
    bit = code_bit(coder, probability, np.int64(value >= threshold))

    rate = np.int64(5) + 20 * 1024 // (1024 + decisions.done[0])
    learn_twice(network, final, bit << 16, mixture, rate, _FINAL_RATE)
    target = bit * ((1 << 22) - 64)
    stages[first, cell] += (target - np.int64(stages[first, cell])) >> 6
    stages[second, cell] += (target - np.int64(stages[second, cell])) >> 6
    for i in range(HISTOGRAMS):
        histograms[slots[i]] = moved(np.int64(histograms[slots[i]]), target, HISTOGRAM_USES)
    for i in range(DIRECT):
        slot = slots[HISTOGRAMS + i]
        direct[slot] = moved(direct[slot] >> 16, target, DIRECT_USES) << 16 | direct[slot] & 65535
    return bit


@part_of_loop_in_place
def _share(below, here, above):
    """The probability, in 65536ths, that a sample between `below` and `above` is not below `here`; 0: unknown.

    All three are values of a law's distribution function.
    """
    rest = above - below
    if rest < 1e-7:
        return np.int64(0)
    return min(65535, max(1, np.int64((above - here) / rest * 65536.0)))
