"""Coding by experts: samples of any number of bits, by several predictions that adapt, mixed decision by decision.

An expert is a law of the next sample (laws.py) or a count of how decisions went; decisions.py mixes them. Channels are
coded one after the other, so a later one sees earlier ones on all sides.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled_in_place, part_of_loop_in_place
from dqcodec.exact.mixing.binary_coder import POSITION, BinaryCoder
from dqcodec.exact.mixing.decisions import Contexts, Decisions, code_sample
from dqcodec.exact.mixing.hashes import hashed_by_sum
from dqcodec.exact.mixing.laws import (
    EARLIER_ERROR,
    SCALE,
    Errors,
    Laws,
    class_of,
    end_laws,
    learn_laws,
    level_of,
    set_laws,
    start_laws,
)
from dqcodec.frozen.experts import DOWN, MARGIN, MAX_SAMPLE_BYTES, OWN_FIRST, OWN_LATER, OWN_WIDE, UP


class Kind(IntEnum):
    """What predicts the first channel of a layer. The numbers are part of the format.

    NARROW and WIDE are for noise, from a narrow or a wide neighbourhood. SHARP is for
    surfaces without noise and with sharp edges.
    """

    NARROW = 0
    WIDE = 1
    SHARP = 2


class Experts(NamedTuple):
    """What is learned from sample to sample and from image to image."""

    errors: Errors
    decisions: Decisions

    @classmethod
    def new(cls) -> "Experts":
        """Experts that know nothing."""
        return cls(Errors.new(), Decisions.new())


class Padded(NamedTuple):
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
    def new(cls, shape: tuple[int, int, int]) -> "Padded":
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


class _Channel(NamedTuple):
    """A channel of a padded image: its number, its largest sample, and what codes it."""

    number: int
    largest: int
    padded: Padded
    experts: Experts
    laws: Laws
    contexts: Contexts


def code_channel(
    experts: Experts, padded: Padded, channel: int, largest: int, coder: BinaryCoder, kind: Kind
) -> BinaryCoder:
    """Code a channel of a padded image: write its samples, 0 to largest, or read and enter
    them. Earlier channels are known.

    kind: of the first channel. Later ones take no notice.

    Returns the coder, whose code may be a larger array.
    """
    height, width, _ = padded.inside.shape
    own = OWN_LATER if channel else OWN_WIDE if kind == Kind.WIDE else OWN_FIRST
    laws = Laws.new(width, channel, own, is_sharp=kind == Kind.SHARP and channel == 0)
    coded = _Channel(channel, largest, padded, experts, laws, Contexts.new())
    row, room = 0, MAX_SAMPLE_BYTES * width
    while row < height:
        if not coder.is_sought and len(coder.code) < coder.position + room:
            coder = coder._replace(code=np.concatenate([coder.code, np.empty(len(coder.code) + room, np.uint8)]))
        row = _code_rows(coded, coder, row, room)
    return coder


@compiled_in_place
def _code_rows(channel, coder, first, room):
    """Code rows from `first` on, as long as the code has room for one more row; returns the next row."""
    padded, laws, contexts, c, largest = channel.padded, channel.laws, channel.contexts, channel.number, channel.largest
    errors, decisions, samples = channel.experts.errors, channel.experts.decisions, padded.samples
    height, width = samples.shape[0] - UP - DOWN, samples.shape[1] - 2 * MARGIN
    for y in range(UP + first, UP + height):
        if not coder.is_sought and len(coder.code) < coder.state[POSITION] + room:
            return y - UP
        samples[y, :MARGIN, c] = samples[y - 1, MARGIN, c]
        start_laws(laws)
        for x in range(MARGIN, MARGIN + width):
            if y == UP:  # above the first row lie copies of the sample before
                samples[:UP, x : x + MARGIN, c] = samples[y, x - 1, c]
            set_laws(laws, errors, padded, y, x, c, largest)
            _set_contexts(contexts, laws, padded, y, x, c)
            samples[y, x, c] = code_sample(decisions, contexts, laws, samples[y, x, c], largest, coder)
            learn_laws(laws, errors, padded, y, x, c)
        samples[y, MARGIN + width :, c] = samples[y, MARGIN + width - 1, c]
        end_laws(laws, y)
    for x in range(samples.shape[1]):
        samples[UP + height :, x, c] = samples[UP + height - 1, x, c]
    return height


@part_of_loop_in_place
def _set_contexts(contexts, laws, padded, y, x, c):
    """Set the contexts of a sample's decisions.

    Histograms: by the scale, and where the place lies between two samples; by the classes of errors nearby; by which
    neighbours exceed the blend; by where laws 3 to 5 lie; by the classes of the earlier channels' errors, or that of
    NE, and the scale. Hashes: of N and NE, and of more neighbours, all less W. Sets of weights: by the channel; by the
    scale; by the spread, or the earlier channel's errors.
    """
    samples, classes, keys, places = padded.samples, padded.classes, laws.keys, laws.places
    place, scale, row = places[0], laws.blend[SCALE], y - UP + 1
    histograms, sets, hashes, other = contexts.histograms, contexts.sets, contexts.hashes, laws.blend[EARLIER_ERROR]
    level, part = keys[4], 0
    if scale < 4.0:
        part = 1 + np.int64((place - np.floor(place)) * 7.0)
    histograms[0] = (8 * c + part) * 64 + level
    histograms[1] = keys[2]
    histograms[2] = keys[0] * 4 + min(level >> 3, 3)
    inverse = laws.inverses[0]
    first, second = class_of((places[3] - place) * inverse), class_of((places[4] - place) * inverse)
    histograms[3] = ((7 * c + first) * 7 + second) * 7 + class_of((places[5] - place) * inverse)
    last, before = np.int64(classes[row - 1, x + 1, c]), np.int64(0)
    if c > 0:
        last = np.int64(classes[row, x, c - 1])
    if c > 1:
        before = 1 + np.int64(classes[row, x, c - 2])
    histograms[4] = ((8 * c + last) * 8 + before) * 8 + min(level >> 3, 7)

    west = np.int64(samples[y, x - 1, c])
    north, right = np.int64(samples[y - 1, x, c]) - west, np.int64(samples[y - 1, x + 1, c]) - west
    change = np.int64(samples[y, x, c - 1]) - np.int64(samples[y, x - 1, c - 1]) if c > 0 else np.int64(0)
    hashes[0] = hashed_by_sum(hashed_by_sum(np.uint64(c), north), right)
    value = hashed_by_sum(hashes[0], np.int64(samples[y - 1, x - 1, c]) - west)
    value = hashed_by_sum(value, np.int64(samples[y, x - 2, c]) - west)
    hashes[1] = hashed_by_sum(hashed_by_sum(value, np.int64(samples[y - 2, x, c]) - west), change)
    sets[0] = 64 * c
    sets[1] = 8 * level
    sets[2] = 8 * (32 * c + (keys[5] >> 1 if c == 0 else min(level_of(other), 63) >> 1))
    contexts.base[0], contexts.base[1] = west, 8 * c
