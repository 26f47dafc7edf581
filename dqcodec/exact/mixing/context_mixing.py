"""Context mixing (Mahoney 2005), in integers: samples coded bit by bit, with predictions from places with equal contexts.

A context is a set of values: neighbours, and channels that are already known. It counts how often a bit was 0 and 1 where its
values were the same, and predicts the next bit from that. Weights, which are learned while coding, mix these predictions with
that of a trained model, if there is one. An arithmetic coder codes the bit by the mixture. The decoder learns in the same way.
All numbers are integers, so every machine decodes the same.

Images are padded arrays (rows, columns, channels) uint8, channels in the order of coding. MARGIN rows above the image and
MARGIN columns at both sides of it are 0.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop_in_place
from dqcodec.base.errors import CorruptError
from dqcodec.exact.mixing.binary_coder import BinaryCoder, bits_written, code_bit
from dqcodec.exact.mixing.layer import clamped
from dqcodec.exact.mixing.logistic import mixed, rate_after, squash
from dqcodec.exact.mixture import start
from dqcodec.frozen.autoregressive import TOTAL
from dqcodec.frozen.mixing import (
    CONTEXTS,
    INPUTS,
    MARGIN,
    MAX_SLOT_BITS,
    MAX_USES,
    MIN_PROBABILITY,
    MIN_USES,
    ORDERS,
    RATES,
    STATES,
    STRETCH,
    WEIGHT,
)
from dqcodec.frozen.pixel_mixing import NEXT, STATE_RATES

_MAX_BYTES = 13  # of a sample: each of its 8 bits costs at most 12 bits and a little, as the least probability is 2^-12
_MAX_BITS_A_BYTE = 23_000  # a byte holds at most 8 / log2(65536 / 65520) of the most certain bits


class Mixer(NamedTuple):
    """The state of an encoder or decoder.

    Attributes:
        entries: for each context slots of 16; for each node of 4 bits a probability and a state, uint32.
        maps, uses: for each context and state a probability, and how often it was used, int64 (CONTEXTS, 256).
        weights: of two mixers, in sets of 64 rows, int32 (128, INPUTS), 2^-16.
        hashes, values, slots: of the contexts of the bit at hand.
        inputs, rows, logits: of the bit at hand; each mixer's row of weights, and its logit.
        done: the number of samples so far, int64 (1,).
        slot_bits: log2 of the slots of a context.
    """

    entries: np.ndarray
    maps: np.ndarray
    uses: np.ndarray
    weights: np.ndarray
    hashes: np.ndarray
    values: np.ndarray
    slots: np.ndarray
    inputs: np.ndarray
    rows: np.ndarray
    logits: np.ndarray
    done: np.ndarray
    coder: BinaryCoder
    slot_bits: int

    @classmethod
    def new(cls, shapes: Sequence[tuple[int, int, int]], bits: Sequence[int], code: bytes | None = None) -> "Mixer":
        """A mixer for images whose samples have these numbers of bits. code: the code to read; None: write one.

        Raises CorruptError: the code is too short for such images.
        """
        decisions = sum(math.prod(shape) * bits_here for shape, bits_here in zip(shapes, bits))
        if code is not None and decisions > _MAX_BITS_A_BYTE * (len(code) + 5):
            raise CorruptError("the payload is too short for its image")
        uses = sum(math.prod(shape) * -(-bits_here // 4) for shape, bits_here in zip(shapes, bits))
        slot_bits = min(MAX_SLOT_BITS, uses.bit_length())
        most_bytes = _MAX_BYTES * sum(map(math.prod, shapes))
        return cls(
            np.full((CONTEXTS << slot_bits) * 16, 32768 << 8, np.uint32), np.tile(STATES, (CONTEXTS, 1)),
            np.zeros((CONTEXTS, 256), np.int64), np.full((128, INPUTS), WEIGHT, np.int32),
            np.empty(CONTEXTS, np.uint64), np.empty((CONTEXTS, 9), np.int64), np.empty(CONTEXTS, np.int64),
            np.empty(INPUTS, np.int32), np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64),
            BinaryCoder.writer(most_bytes) if code is None else BinaryCoder.reader(code), slot_bits,
        )  # fmt: skip


def padded_shape(height: int, width: int, channels: int) -> tuple[int, int, int]:
    """The shape of a padded image."""
    return height + MARGIN, width + 2 * MARGIN, channels


def fill(padded: np.ndarray, pixels: np.ndarray) -> None:
    """Put an image (H, W, C) into its padded one."""
    padded[MARGIN:, MARGIN:-MARGIN] = pixels[..., ORDERS[pixels.shape[2]]]


@part_of_loop_in_place
def _hashed(value, other):
    return (value * np.uint64(0x9E3779B97F4A7C15) + np.uint64(other) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)


@part_of_loop_in_place
def _whole(pixels, y, x):
    """All channels of a pixel as one number."""
    whole = np.int64(0)
    for c in range(pixels.shape[2]):
        whole = whole << 8 | np.int64(pixels[y, x, c])
    return whole


@part_of_loop_in_place
def _set_contexts(mixer, pixels, y, x, c, bits):
    """The hash of each context of a sample. Compass points: neighbours, small letters for the last channel."""
    hashes, values = mixer.hashes, mixer.values
    N, W = np.int64(pixels[y - 1, x, c]), np.int64(pixels[y, x - 1, c])
    NW, NE = np.int64(pixels[y - 1, x - 1, c]), np.int64(pixels[y - 1, x + 1, c])
    known = last = second = n = w = nw = np.int64(0)
    for k in range(c):
        known = known << 8 | np.int64(pixels[y, x, k])
    if c > 0:
        last, n = np.int64(pixels[y, x, c - 1]), np.int64(pixels[y - 1, x, c - 1])
        w, nw = np.int64(pixels[y, x - 1, c - 1]), np.int64(pixels[y - 1, x - 1, c - 1])
    if c > 1:
        second = np.int64(pixels[y, x, c - 2])
    pixel_n, pixel_w = _whole(pixels, y - 1, x), _whole(pixels, y, x - 1)
    pixel_nw, pixel_ne, pixel_nn = _whole(pixels, y - 1, x - 1), _whole(pixels, y - 1, x + 1), _whole(pixels, y - 2, x)
    gradient, gradient_last = clamped(N + W - NW), clamped(n + w - nw)
    shifted = clamped(gradient + last - gradient_last)
    busy = abs(W - NW) + abs(N - NW) + abs(N - NE)

    values[:] = 0  # a row for each context
    values[1, 0], values[1, 1] = W, N
    values[2, 0], values[2, 1], values[2, 2], values[2, 3] = W, N, NW, NE
    values[3, 0], values[3, 1], values[3, 2], values[3, 3] = W, N, NW, NE
    values[3, 4], values[3, 5] = np.int64(pixels[y, x - 2, c]), np.int64(pixels[y - 2, x, c])
    values[4, 0], values[4, 1], values[4, 2] = W, last, second
    values[5, 0], values[5, 1], values[5, 2] = N, last, second
    values[6, 0] = known
    values[7, 0] = shifted
    values[8, 0], values[8, 1] = clamped(W + last - w), clamped(N + last - n)
    values[9, 0], values[9, 1], values[9, 2] = pixel_w, pixel_n, known
    values[10, 0], values[10, 1], values[10, 2], values[10, 3] = pixel_w, pixel_n, pixel_nw, pixel_ne
    values[10, 4] = known
    values[11, 0], values[11, 1] = pixel_w, known
    values[12, 0], values[12, 1] = pixel_n, known
    values[13, 0], values[13, 1], values[13, 2] = gradient, last - gradient_last, abs(W - N) >> 3
    values[14, 0], values[14, 1] = W + N + 1 >> 1, last - (w + n + 1 >> 1) >> 1
    values[15, 0], values[15, 1], values[15, 2], values[15, 3] = pixel_w, pixel_n, pixel_nw, pixel_ne
    values[15, 4], values[15, 5], values[15, 6] = _whole(pixels, y, x - 2), pixel_nn, known
    values[15, 7] = np.int64(pixels[y - 1, x - 2, c]) << 8 | np.int64(pixels[y - 1, x + 2, c])
    values[15, 8] = np.int64(pixels[y - 2, x - 1, c]) << 8 | np.int64(pixels[y - 2, x + 1, c])
    values[16, 0], values[16, 1] = shifted, busy >> 2
    values[17, 0], values[17, 1], values[17, 2] = pixel_ne, pixel_nn, known
    for i in range(CONTEXTS):
        value = _hashed(np.uint64(i), c << 4 | bits)
        for k in range(values.shape[1]):
            value = _hashed(value, values[i, k])
        hashes[i] = value


@part_of_loop_in_place
def _find_slots(mixer, node):
    """The slots for the next 4 bits, after those in `node`."""
    hashes, slots, slot_bits = mixer.hashes, mixer.slots, mixer.slot_bits
    shift = np.uint64(64 - slot_bits)
    for i in range(CONTEXTS):
        mixed = (hashes[i] + np.uint64(node) * np.uint64(0xA0761D6478BD642F)) * np.uint64(0xE7037ED1A0B428DB)
        slots[i] = ((i << slot_bits) + np.int64(mixed >> shift)) << 4


@part_of_loop_in_place
def _predict(mixer, place, node, prediction):
    """The probability of a 1, for a bit at a `place` among a pixel's bits. node: 1, and those of the 4 bits that are known.
    prediction: the model's logit."""
    entries, maps, slots, inputs, familiar = mixer.entries, mixer.maps, mixer.slots, mixer.inputs, 0
    for i in range(CONTEXTS):
        entry = np.int64(entries[slots[i] + node])
        state = entry & 255
        if state:
            inputs[2 * i], inputs[2 * i + 1] = STRETCH[entry >> 12], STRETCH[maps[i, state] >> 4]
            familiar += 1
        else:
            inputs[2 * i], inputs[2 * i + 1] = 0, 0
    inputs[INPUTS - 1] = prediction
    rows, logits = mixer.rows, mixer.logits
    rows[0], rows[1] = place, 64 + familiar
    for m in range(2):
        logits[m] = mixed(mixer.weights, rows[m], inputs)
    return min(65536 - MIN_PROBABILITY, max(MIN_PROBABILITY, squash(logits[0] + logits[1] >> 1)))


@part_of_loop_in_place
def _learn(mixer, node, bit, rate):
    """Learn from a bit, after it is coded."""
    entries, maps, uses, weights = mixer.entries, mixer.maps, mixer.uses, mixer.weights
    slots, inputs, rows, logits = mixer.slots, mixer.inputs, mixer.rows, mixer.logits
    for m in range(2):
        row, step = rows[m], ((bit << 16) - squash(logits[m])) * rate
        for i in range(INPUTS):
            weights[row, i] += inputs[i] * step + (1 << 17) >> 18
    target = 65535 * bit
    for i in range(CONTEXTS):
        entry = np.int64(entries[slots[i] + node])
        state, probability = entry & 255, entry >> 8
        probability += ((target - probability) * STATE_RATES[state]) >> 16
        if state:
            seen = uses[i, state]
            maps[i, state] += ((target - maps[i, state]) * RATES[seen + MIN_USES]) >> 16
            uses[i, state] = min(seen + 1, MAX_USES)
        entries[slots[i] + node] = probability << 8 | NEXT[bit, state]


class Law(NamedTuple):
    """A model's law of a sample.

    Attributes:
        laws: of several samples, int32 (3, K, N), see exact.mixture; (3, 0, 1) without a model.
        number: that of the sample.
        sigmoid: the table of the laws.
    """

    laws: np.ndarray
    number: int
    sigmoid: np.ndarray


@part_of_loop_in_place
def code_sample(mixer, pixels, y, x, c, bits, law):
    """Code a sample, channel c at (y, x) of a padded image, and learn from it. Returns its bits, float64.

    Args:
        mixer: a Mixer, which changes.
        pixels: the padded image. If the mixer reads, the sample is entered; else it is there.
        bits: of the sample.
        law: a Law.
    """
    before = bits_written(mixer.coder)
    _set_contexts(mixer, pixels, y, x, c, bits)
    node, value, rate = 1, np.int64(pixels[y, x, c]), rate_after(mixer.done[0])
    low, first, end = 0, 0, TOTAL  # the part of the law that the bits so far leave: its first symbol, its slots
    for position in range(bits):
        if position % 4 == 0:
            _find_slots(mixer, (c << 8) + node)
        half, half_start, prediction = low + (1 << bits - 1 - position), 0, 0
        if law.laws.shape[1]:
            half_start = start(law.laws, law.number, law.sigmoid, 1 << bits, half)
            prediction = STRETCH[min((end - half_start) * 4096 // (end - first), 4095)]
        inner = 1 << position % 4 | node & (1 << position % 4) - 1
        probability = _predict(mixer, c * 8 + position, inner, prediction)
        bit = code_bit(mixer.coder, probability, value >> bits - 1 - position & 1)
        if bit:
            low, first = half, half_start
        else:
            end = half_start
        _learn(mixer, inner, bit, rate)
        node = node * 2 + bit
    mixer.done[0] += 1
    pixels[y, x, c] = node - (1 << bits)
    return bits_written(mixer.coder) - before


@compiled
def code_image(mixer, pixels, bits, lengths):
    """Code the samples of a padded image, row by row; see code_sample.

    lengths: set to the bits of each sample, float64 (H, W, channels); of shape (0, 0, 0) if they are not wanted.
    """
    # a literal 0 would be a type of its own
    law = Law(np.empty((3, 0, 1), np.int32), np.int64(0), np.empty(0, np.int32))
    for y in range(MARGIN, pixels.shape[0]):
        for x in range(MARGIN, pixels.shape[1] - MARGIN):
            for c in range(pixels.shape[2]):
                length = code_sample(mixer, pixels, y, x, c, bits, law)
                if lengths.size:
                    lengths[y - MARGIN, x - MARGIN, c] = length
