"""Samples by context mixing (Mahoney 2005), bit by bit, in integers.

A context is a set of values: neighbours, channels that are already known, pixels one period away. It remembers how likely a
bit was where its values were the same. Weights that are learned on the way mix these predictions; two final stages correct
the mixture. The decoder learns in the same way.

Pixels lie in one array, uint32, one number each: the channels in the order of coding, 8 bits each. A layer has MARGIN
rows above it and MARGIN columns at both sides; these pixels are 0.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled_in_place
from dqcodec.exact.mixing.binary_coder import code_bit
from dqcodec.exact.mixing.logistic import count, counted, learn, learn_stage, mixed, squash, staged, stretch
from dqcodec.exact.mixing.priors import UNTRAINED, Prior
from dqcodec.exact.mixing.sample_laws import SampleLaws, channel, clamped, law_logit, learn_laws, narrow_laws, set_laws
from dqcodec.frozen.pixel_mixing import (
    CONTEXTS,
    FINAL_RATE,
    FIRST_ROWS,
    MAX_SLOT_BITS,
    MAX_STAGE_BITS,
    NEXT,
    SETS,
    STAGE,
    STATE_RATES,
)
from dqcodec.frozen.trained_mixing import FIRST_LAW, FIRST_LAW_ROW


class BitMixer(NamedTuple):
    """The state that learns to predict bits.

    Attributes:
        entries: for each context slots of 16: a check, and for each node of 4 bits a probability and a state, uint32.
        maps: for each context and state a counter, uint32.
        weights: of the inputs, in sets, int32 (rows, inputs).
        finals: of the mixed logits, int32 (32, sets).
        stages: by channel and node, and by neighbours, int32.
        trust: for each match and its length, a counter of how often it was right, uint32.
        laws: of a sample; none in an untrained mixer.
        hashes, slots, inputs, logits, rows: of the bit at hand.
        sizes: log2 of a context's slots, log2 of the second stage's rows, samples done.
    """

    entries: np.ndarray
    maps: np.ndarray
    weights: np.ndarray
    finals: np.ndarray
    stages: np.ndarray
    trust: np.ndarray
    laws: SampleLaws
    hashes: np.ndarray
    slots: np.ndarray
    inputs: np.ndarray
    logits: np.ndarray
    rows: np.ndarray
    sizes: np.ndarray

    @classmethod
    def new(cls, samples: int, prior: Prior = UNTRAINED) -> "BitMixer":
        """samples: the number of samples that will be coded. prior: what is known before."""
        slot_bits = min(MAX_SLOT_BITS, (2 * samples).bit_length())
        stage_bits = min(MAX_STAGE_BITS, slot_bits)
        sets = prior.finals.shape[1]
        return cls(
            np.zeros((CONTEXTS << slot_bits) * 16, np.uint32), prior.maps.copy(), prior.weights.copy(), prior.finals.copy(),
            np.tile(STAGE, (1024 + (1 << stage_bits), 1)).astype(np.int32), prior.trust.copy(), SampleLaws.new(prior.errors),
            np.empty(CONTEXTS, np.uint64), np.empty((3, CONTEXTS), np.int64), np.zeros(prior.weights.shape[1], np.int32),
            np.empty(sets, np.int32), np.empty(sets, np.int64), np.array([slot_bits, stage_bits, prior.done]),
        )  # fmt: skip


@compiled_in_place
def hashed(hash_, value):
    """A hash (uint64), extended by a value."""
    return (hash_ ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15) ^ (hash_ >> np.uint64(29))


@compiled_in_place
def place_of(hash_, bits):
    """The place of a hash in a table of 2^bits."""
    return np.int64(hash_ * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(64 - bits))


@compiled_in_place
def _set_contexts(hashes, pixels, at, stride, c, channels, bits, known, periods, is_rest, canvas):
    """Set the hash of each context of a sample; returns which of its neighbours agree. Compass points: neighbours; Q:
    pixels one period away; small letters: the channel before.

    Args: see code_samples. known: the channels before c.
    """
    shift = 8 * (channels - 1 - c)
    pW, pN, pNW, pNE = pixels[at - 1], pixels[at - stride], pixels[at - stride - 1], pixels[at - stride + 1]
    pWW, pNN = pixels[at - 2], pixels[at - 2 * stride]
    first, second = at - periods[0], at - periods[1]
    if first < 2 * stride:  # before all pixels
        first = at - 2 * stride
    if second < 2 * stride:
        second = at - 2 * stride
    W, N, NW, NE = channel(pW, shift), channel(pN, shift), channel(pNW, shift), channel(pNE, shift)
    WW, NN = channel(pWW, shift), channel(pNN, shift)
    Q, QW, QN, QE = pixels[first], pixels[first - 1], pixels[first - stride], pixels[first + 1]
    R, RW, RE = pixels[second], pixels[second - 1], pixels[second + 1]
    gradient, busy = clamped(N + W - NW), abs(W - NW) + abs(N - NW) + abs(N - NE)
    alpha = known >> 8 * (c - 1) if c and channels % 2 == 0 else 128
    seed = np.uint64((c << 4 | bits) + 1 + 64 * is_rest + 128 * (alpha == 0) + 256 * (alpha == 255))
    hashes[0] = seed
    hashes[1] = hashed(seed, W << 8 | N)
    hashes[2] = hashed(seed, W << 24 | N << 16 | NW << 8 | NE)
    hashes[3] = hashed(hashes[2], WW << 8 | NN)
    if channels > 1:
        last = before = n = w = nw = q = np.int64(0)
        if c > 0:
            last, q = known & 255, channel(Q, shift + 8)
            n, w, nw = channel(pN, shift + 8), channel(pW, shift + 8), channel(pNW, shift + 8)
        if c > 1:
            before = known >> 8 & 255
        last_gradient = clamped(n + w - nw)
        shifted = clamped(gradient + last - last_gradient)
        Q_W = channel(Q, shift) + W - channel(QW, shift)
        Q_N = channel(Q, shift) + N - channel(QN, shift)
        R_W = channel(R, shift) + W - channel(RW, shift)
        base = hashed(seed, known)
        far = channel(pixels[at - stride - 2], shift) << 24 | channel(pixels[at - stride + 2], shift) << 16
        far |= channel(pixels[at - 2 * stride - 1], shift) << 8 | channel(pixels[at - 2 * stride + 1], shift)
        hashes[4] = hashed(seed, W << 16 | last << 8 | before)
        hashes[5] = hashed(seed, N << 16 | last << 8 | before)
        hashes[6] = base
        hashes[7] = hashed(seed, shifted)
        hashes[8] = hashed(seed, clamped(W + last - w) << 8 | clamped(N + last - n))
        hashes[9] = hashed(hashed(base, pW), pN)
        hashes[10] = hashed(hashed(hashes[9], pNW), pNE)
        hashes[11] = hashed(base, pW)
        hashes[12] = hashed(base, pN)
        hashes[13] = hashed(seed, gradient << 16 | last - last_gradient + 256 << 5 | abs(W - N) >> 3)
        hashes[14] = hashed(seed, (W + N + 1 >> 1) << 9 | (last - (w + n + 1 >> 1) >> 1) + 256)
        hashes[15] = hashed(hashed(hashed(hashes[10], pWW), pNN), far)
        hashes[16] = hashed(seed, shifted << 8 | busy >> 2)
        hashes[17] = hashed(hashed(base, pNE), pNN)
        hashes[18] = hashed(base, Q)
        hashes[19] = hashed(seed, clamped(Q_W) << 17 | clamped(Q_N) << 9 | last - q + 256)
        hashes[20] = hashed(hashes[18], R)
        hashes[21] = hashed(seed, clamped(R_W) << 17 | clamped(Q_W) << 9 | last - q + 256)
        if canvas:
            hashes[20] = hashed(hashed(hashes[18], QE), pixels[first + stride])
            hashes[21] = hashed(seed, channel(Q, shift) << 18 | W - channel(QW, shift) + 256 << 9 | last - q + 256)
    else:
        two, three = at - 2 * stride, at - 3 * stride
        W3, N3 = pixels[at - 3], pixels[three]
        hashes[4] = hashed(seed, W)
        hashes[5] = hashed(seed, N)
        hashes[6] = hashed(seed, W << 16 | WW << 8 | W3)
        hashes[7] = hashed(seed, N << 16 | NN << 8 | N3)
        hashes[8] = hashed(
            hashes[3], _packed(pixels[at - stride - 2], pixels[at - stride + 2], pixels[two - 1], pixels[two + 1])
        )
        hashes[9] = hashed(
            hashes[8], _packed(pixels[at - stride - 3], pixels[at - stride + 3], pixels[two - 2], pixels[two + 2])
        )
        hashes[9] = hashed(hashes[9], W3 << 8 | N3)
        hashes[10] = hashed(hashes[9], _packed(pixels[two - 3], pixels[two + 3], pixels[three - 1], pixels[three + 1]))
        hashes[10] = hashed(
            hashes[10], _packed(pixels[at - stride - 4], pixels[at - stride + 4], pixels[three - 2], pixels[three + 2])
        )
        four = at - 4 * stride
        hashes[11] = hashed(hashes[10], _packed(pixels[at - 4], pixels[four], pixels[four - 1], pixels[four + 1]))
        hashes[11] = hashed(
            hashes[11], _packed(pixels[at - 5], pixels[at - stride - 5], pixels[at - stride + 5], pixels[at - 6])
        )
        hashes[11] = hashed(hashes[11], _packed(pixels[two - 4], pixels[two + 4], pixels[three - 3], pixels[three + 3]))
        hashes[12] = hashed(seed, gradient << 8 | busy >> 2)
        hashes[13] = hashed(seed, gradient << 8 | abs(W - N) >> 3)
        hashes[14] = hashed(seed, (W + N + 1 >> 1) << 8 | NW + NE + 1 >> 1)
        hashes[15] = hashed(seed, NW << 16 | NE << 8 | NN)
        hashes[16] = hashed(hashes[8], W3 << 8 | N3)
        hashes[17] = hashed(hashes[6], _packed(pixels[at - 4], pixels[at - 5], pixels[at - 6], 0))
        hashes[18] = hashed(seed, Q << 16 | W << 8 | N)
        hashes[19] = hashed(hashed(hashes[18], _packed(QW, QE, QN, 0)), NW << 8 | NE)
        hashes[20] = hashed(hashed(hashes[18], R), QW << 8 | QE)
        hashes[21] = hashed(seed, _packed(R, RW, RE, W))
    for i in range(CONTEXTS):
        hashes[i] += np.uint64(i)
    agree = np.int64(W == N) | np.int64(N == NW) << 1 | np.int64(N == NE) << 2 | np.int64(W == NW) << 3
    return agree | np.int64(W == WW) << 4 | np.int64(N == NN) << 5


@compiled_in_place
def _packed(a, b, c, d):
    return np.int64(a) << 24 | np.int64(b) << 16 | np.int64(c) << 8 | np.int64(d)


@compiled_in_place
def _find_slots(entries, hashes, slots, slot_bits, node):
    """Set row 0 of slots to the slots for the next 4 bits, after those in `node`. A slot of another context is cleared."""
    shift = np.uint64(64 - slot_bits)
    for i in range(CONTEXTS):
        own = hashed(hashes[i], node) * np.uint64(0xE7037ED1A0B428DB)
        slots[0, i] = (i << slot_bits) + np.int64(own >> shift) << 4
        slots[1, i] = np.int64(own & np.uint64(0xFFFFFFFF)) | 1
    for i in range(CONTEXTS):  # all loads start together, because memory is slow
        slots[2, i] = np.int64(entries[slots[0, i]])
    for i in range(CONTEXTS):
        if slots[1, i] != slots[2, i]:
            slot = slots[0, i]
            entries[slot] = slots[1, i]
            for j in range(slot + 1, slot + 16):
                entries[j] = 32768 << 8


@compiled_in_place
def code_samples(mixer, coder, pixels, at, stride, channels, bits, periods, missed, predicted, matches, canvas):
    """Code the samples of a pixel, and learn from them.

    Args:
        mixer: a BitMixer, which changes.
        coder: a BinaryCoder.
        pixels, at, stride: all pixels, the place of this one, and places from row to row.
        channels: of a pixel.
        bits: of a sample.
        periods: places to the left, int64 (2,).
        missed: 1 if the pixel is known not to be `predicted`; else 0.
        predicted: a pixel.
        matches: for each match, its pixel, and its length, or 0; last, the pixel of the canvas, and 1 and the neighbours
            that agree; int64 (3, 2).
        canvas: see pixel_mixing.code_layer.
    """
    entries, maps, trust = mixer.entries, mixer.maps, mixer.trust
    weights, finals, stages = mixer.weights, mixer.finals, mixer.stages
    hashes, slots, inputs, logits, rows = mixer.hashes, mixer.slots, mixer.inputs, mixer.logits, mixer.rows
    slot_bits, stage_bits = mixer.sizes[0], mixer.sizes[1]
    whole, rest, known = np.int64(pixels[at]), missed, np.int64(0)
    others = 3 if canvas else 2
    laws, law_count, sets = mixer.laws, len(mixer.laws.means), len(logits)
    for c in range(channels):
        shift = 8 * (channels - 1 - c)
        mixer.sizes[2] += 1
        rate = 6 + 40 * 256 // (256 + mixer.sizes[2])
        agree = _set_contexts(hashes, pixels, at, stride, c, channels, bits, known, periods, rest > 0, canvas)
        W, N = channel(pixels[at - 1], shift), channel(pixels[at - stride], shift)
        law_row = set_laws(laws, pixels, at, stride, c, channels, bits, known) if law_count else np.int64(0)
        value, node = whole >> shift & 255, np.int64(1)
        for position in range(bits):
            if position % 4 == 0:
                _find_slots(entries, hashes, slots, slot_bits, node)
            inner = 1 << position % 4 | node & (1 << position % 4) - 1
            left = bits - 1 - position
            familiar = 0
            for i in range(CONTEXTS):
                entry = np.int64(entries[slots[0, i] + inner])
                state = entry & 255
                inputs[2 * i], inputs[2 * i + 1] = stretch(entry >> 8), counted(maps, i << 8 | state)
                familiar += state != 0
            both = 0
            for k in range(others):
                expected = matches[k, 0] >> shift & 255 | 1 << bits
                inputs[2 * CONTEXTS + k] = 0
                if matches[k, 1] and matches[k, 0] >> shift + 8 == known and expected >> left + 1 == node:
                    logit, one = counted(trust, k << 6 | matches[k, 1]), expected >> left & 1
                    inputs[2 * CONTEXTS + k] = logit if one else -logit
                    both += (1 + one) * (3, 1, 0)[k]
            threshold = (2 * node + 1 << left) - (1 << bits) << 3
            for k in range(law_count):
                inputs[FIRST_LAW + k] = law_logit(laws, k, threshold - 4, 8 << left)
            rows[0] = FIRST_ROWS[0] + (c * 8 + position) * 3 + rest
            rows[1] = FIRST_ROWS[1] + familiar * 8 + position
            rows[2] = FIRST_ROWS[2] + (both * 8 + position) * 4 + c
            rows[3] = FIRST_ROWS[3] + agree * 4 + c
            if law_count:
                rows[SETS] = FIRST_LAW_ROW + law_row
            for k in range(sets):
                logits[k] = mixed(weights, rows[k], inputs)
            logit = mixed(finals, c * 8 + position, logits)
            stage = c << 8 | node
            other_stage = 1024 + place_of(hashed(np.uint64(W << 8 | N), stage), stage_bits)
            plain = squash(logit)
            probability, cell = staged(stages, stage, logit)
            other_probability, other_cell = staged(stages, other_stage, logit)
            final = 2 * plain + probability + other_probability >> 2
            bit = code_bit(coder, min(65535, max(1, final)), value >> left & 1)
            target = (bit << 16) - bit
            learn_stage(stages, stage, cell, bit)
            learn_stage(stages, other_stage, other_cell, bit)
            for k in range(sets):
                learn(weights, rows[k], inputs, target - squash(logits[k]), rate)
            learn(finals, c * 8 + position, logits, target - plain, FINAL_RATE)
            for k in range(others):
                if (both or canvas) and matches[k, 1] and matches[k, 0] >> shift + 8 == known:
                    expected = matches[k, 0] >> shift & 255 | 1 << bits
                    if expected >> left + 1 == node:
                        count(trust, k << 6 | matches[k, 1], np.int64(expected >> left & 1 == bit))
            for i in range(CONTEXTS):
                entry = np.int64(entries[slots[0, i] + inner])
                state, chance = entry & 255, entry >> 8
                chance += (target - chance) * STATE_RATES[state] >> 16
                count(maps, i << 8 | state, bit)
                entries[slots[0, i] + inner] = chance << 8 | NEXT[bit, state]
            narrow_laws(laws, bit)
            node = node * 2 + bit
        learn_laws(laws, law_row, node - (1 << bits))
        known = known << 8 | node - (1 << bits)
        if rest == 1 and known != np.int64(predicted) >> shift:
            rest = 2
    pixels[at] = known
