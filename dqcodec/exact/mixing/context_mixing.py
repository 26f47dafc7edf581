"""Context mixing (Mahoney 2005), in integers: samples coded bit by bit, with predictions
from places with equal contexts.

A context is a set of values: neighbours, and channels that are already known. It counts how often a bit was 0 and 1
where its values were the same, and predicts the next bit from that. Weights, which are learned while coding, mix these
predictions with that of a trained model, if there is one. An arithmetic coder codes the bit by the mixture. The decoder
learns in the same way. All numbers are integers, so every machine decodes the same.

New files have it with a model, see model_mixing.py; without one, pixel_mixing.py took its place.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop_in_place
from dqcodec.exact.mixing import slots
from dqcodec.exact.mixing.binary_coder import BinaryCoder, bits_written, code_bit
from dqcodec.exact.mixing.counters import history_after
from dqcodec.exact.mixing.hashes import hashed_by_products
from dqcodec.exact.mixing.logistic import mixed, rate_after, squash
from dqcodec.exact.mixing.pixels import channel, clamped, neighbours, of_channel
from dqcodec.exact.mixing.slots import Slots
from dqcodec.exact.mixture import start
from dqcodec.frozen.autoregressive import TOTAL
from dqcodec.frozen.mixing import (
    CONTEXTS,
    INPUTS,
    MAX_SLOT_BITS,
    MAX_USES,
    MIN_PROBABILITY,
    MIN_USES,
    RATES,
    STATES,
    STRETCH,
    WEIGHT,
)

_MAX_BYTES = 13  # of a sample: each of its 8 bits costs at most 12 bits and a little, as the least probability is 2^-12
_MAX_BITS_A_BYTE = 23_000  # a byte holds at most 8 / log2(65536 / 65520) of the most certain bits


class Mixer(NamedTuple):
    """The state of an encoder or decoder.

    Attributes:
        contexts: their histories, as Slots. Contexts with the same place share it.
        maps, uses: for each context and state of a history a probability, and how often it
            was used, int64 (CONTEXTS, 256).
        weights: of two mixers, in sets of 64 rows, int32 (128, INPUTS), 2^-16.
        hashes, values: of the contexts of the bit at hand.
        inputs, rows, logits: of the bit at hand; each mixer's row of weights, and its logit.
        done: the number of samples so far, int64 (1,).
        coder: writes or reads the code.
    """

    contexts: Slots
    maps: np.ndarray
    uses: np.ndarray
    weights: np.ndarray
    hashes: np.ndarray
    values: np.ndarray
    inputs: np.ndarray
    rows: np.ndarray
    logits: np.ndarray
    done: np.ndarray
    coder: BinaryCoder

    @classmethod
    def new(cls, shapes: Sequence[tuple[int, int, int]], bits: Sequence[int], code: bytes | None = None) -> "Mixer":
        """A mixer for images whose samples have these numbers of bits. code: the code to read; None: write one.

        Raises CorruptError: the code is too short for such images.
        """
        samples = [math.prod(shape) for shape in shapes]
        if code is None:
            coder = BinaryCoder.writer(_MAX_BYTES * sum(samples))
        else:
            decisions = sum(count * bits_here for count, bits_here in zip(samples, bits))
            coder = BinaryCoder.reader(code, decisions, _MAX_BITS_A_BYTE)
        uses = sum(count * -(-bits_here // 4) for count, bits_here in zip(samples, bits))
        slot_bits = min(MAX_SLOT_BITS, uses.bit_length())
        return cls(
            Slots.new(CONTEXTS, slot_bits), np.tile(STATES, (CONTEXTS, 1)),
            np.zeros((CONTEXTS, 256), np.int64), np.full((128, INPUTS), WEIGHT, np.int32),
            np.empty(CONTEXTS, np.uint64), np.empty((CONTEXTS, 9), np.int64),
            np.empty(INPUTS, np.int32), np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(1, np.int64), coder,
        )  # fmt: skip


class Sample(NamedTuple):
    """A sample of a PixelLayer.

    Attributes:
        pixels, stride, channels, bits: see PixelLayer. Where samples are read, the sample is
            entered; its bits are 0 before.
        at: the place of its pixel.
        c: its channel, in the order of coding.
    """

    pixels: np.ndarray
    stride: int
    channels: int
    bits: int
    at: int
    c: int


@part_of_loop_in_place
def _shift(sample):
    """The lowest bit of a sample in its pixel."""
    return 8 * (sample.channels - 1 - sample.c)


@part_of_loop_in_place
def value_of(sample):
    """The value of a Sample."""
    return channel(sample.pixels[sample.at], _shift(sample))


@part_of_loop_in_place
def _set_contexts(mixer, sample):
    """Set the hash of each context of a sample. Compass points: neighbours, small letters for the last channel."""
    hashes, values, pixels, c, at = mixer.hashes, mixer.values, sample.pixels, sample.c, sample.at
    shift, north, second_north = _shift(sample), at - sample.stride, at - 2 * sample.stride
    near = neighbours(pixels, at, sample.stride)
    W, N, NW, NE, WW, NN = of_channel(near, shift)
    known = np.int64(pixels[at]) >> shift + 8
    last = second = n = w = nw = np.int64(0)
    if c > 0:
        last, n, w, nw = (
            known & 255,
            channel(near.N, shift + 8),
            channel(near.W, shift + 8),
            channel(near.NW, shift + 8),
        )
    if c > 1:
        second = known >> 8 & 255
    gradient, gradient_last = clamped(N + W - NW), clamped(n + w - nw)
    shifted = clamped(gradient + last - gradient_last)
    busy = abs(W - NW) + abs(N - NW) + abs(N - NE)

    values[:] = 0  # a row for each context
    values[1, 0], values[1, 1] = W, N
    values[2, 0], values[2, 1], values[2, 2], values[2, 3] = W, N, NW, NE
    values[3, 0], values[3, 1], values[3, 2], values[3, 3], values[3, 4], values[3, 5] = W, N, NW, NE, WW, NN
    values[4, 0], values[4, 1], values[4, 2] = W, last, second
    values[5, 0], values[5, 1], values[5, 2] = N, last, second
    values[6, 0] = known
    values[7, 0] = shifted
    values[8, 0], values[8, 1] = clamped(W + last - w), clamped(N + last - n)
    values[9, 0], values[9, 1], values[9, 2] = near.W, near.N, known
    values[10, 0], values[10, 1], values[10, 2], values[10, 3] = near.W, near.N, near.NW, near.NE
    values[10, 4] = known
    values[11, 0], values[11, 1] = near.W, known
    values[12, 0], values[12, 1] = near.N, known
    values[13, 0], values[13, 1], values[13, 2] = gradient, last - gradient_last, abs(W - N) >> 3
    values[14, 0], values[14, 1] = W + N + 1 >> 1, last - (w + n + 1 >> 1) >> 1
    values[15, 0], values[15, 1], values[15, 2], values[15, 3] = near.W, near.N, near.NW, near.NE
    values[15, 4], values[15, 5], values[15, 6] = near.WW, near.NN, known
    values[15, 7] = channel(pixels[north - 2], shift) << 8 | channel(pixels[north + 2], shift)
    values[15, 8] = channel(pixels[second_north - 1], shift) << 8 | channel(pixels[second_north + 1], shift)
    values[16, 0], values[16, 1] = shifted, busy >> 2
    values[17, 0], values[17, 1], values[17, 2] = near.NE, near.NN, known
    for i in range(CONTEXTS):
        value = hashed_by_products(np.uint64(i), c << 4 | sample.bits)
        for k in range(values.shape[1]):
            value = hashed_by_products(value, values[i, k])
        hashes[i] = value


@part_of_loop_in_place
def _find_slots(mixer, node):
    """Find the slots for the next 4 bits, after those in `node`."""
    for i in range(CONTEXTS):
        own = (mixer.hashes[i] + np.uint64(node) * np.uint64(0xA0761D6478BD642F)) * np.uint64(0xE7037ED1A0B428DB)
        slots.choose(mixer.contexts, i, own, 0)
    slots.find(mixer.contexts)


@part_of_loop_in_place
def _predict(mixer, place, node, prediction):
    """The probability of a 1, for a bit at a `place` among a pixel's bits. node: 1, and those of the 4 bits that
    are known. prediction: the model's logit.
    """
    entries, at, maps, inputs, familiar = mixer.contexts.entries, mixer.contexts.at, mixer.maps, mixer.inputs, 0
    for i in range(CONTEXTS):
        entry = np.int64(entries[at[0, i] + node])
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
    entries, at, maps, uses, weights = mixer.contexts.entries, mixer.contexts.at, mixer.maps, mixer.uses, mixer.weights
    inputs, rows, logits = mixer.inputs, mixer.rows, mixer.logits
    for m in range(2):
        row, step = rows[m], ((bit << 16) - squash(logits[m])) * rate
        for i in range(INPUTS):
            weights[row, i] += inputs[i] * step + (1 << 17) >> 18
    for i in range(CONTEXTS):
        history = np.int64(entries[at[0, i] + node])
        state = history & 255
        if state:
            seen = uses[i, state]
            maps[i, state] += (65535 * bit - maps[i, state]) * RATES[seen + MIN_USES] >> 16
            uses[i, state] = min(seen + 1, MAX_USES)
        entries[at[0, i] + node] = history_after(history, bit)


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
def code_bits(mixer, sample, law):
    """Code a Sample by a Law, with a Mixer, which learns from it. Returns the bits that it takes, float64."""
    c, bits, before = sample.c, sample.bits, bits_written(mixer.coder)
    _set_contexts(mixer, sample)
    node, value, rate = 1, value_of(sample), rate_after(mixer.done[0])
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
        if position % 4 == 3 or position == bits - 1:
            slots.leave(mixer.contexts, inner * 2 + bit)
    mixer.done[0] += 1
    sample.pixels[sample.at] |= np.uint32(node - (1 << bits) << _shift(sample))
    return bits_written(mixer.coder) - before


@compiled
def code_bits_of_layer(mixer, layer, lengths):
    """Code the samples of a PixelLayer, row by row; see code_bits.

    lengths: set to the bits of each sample, float64 (H, W, channels); of shape (0, 0, 0) if they are not wanted.
    """
    # a literal 0 would be a type of its own
    law = Law(np.empty((3, 0, 1), np.int32), np.int64(0), np.empty(0, np.int32))
    for y in range(layer.height):
        for x in range(layer.width):
            at = layer.first + y * layer.stride + x
            for c in range(layer.channels):
                sample = Sample(layer.pixels, layer.stride, layer.channels, layer.bits, at, c)
                length = code_bits(mixer, sample, law)
                if lengths.size:
                    lengths[y, x, c] = length
