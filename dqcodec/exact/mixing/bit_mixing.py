"""Samples by context mixing (Mahoney 2005), bit by bit, in integers.

A context is a set of values: neighbours, channels that are already known, pixels one period away. It remembers how
likely a bit was where its values were the same. Weights, which are learned while coding, mix these predictions; two
final stages correct the mixture. The decoder learns in the same way.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.exact.mixing import slots
from dqcodec.exact.mixing.binary_coder import code_bit
from dqcodec.exact.mixing.counters import (
    count,
    counted,
    history_after,
    learn_stage,
    prefetch_stage,
    staged,
)
from dqcodec.exact.mixing.hashes import hashed, place_of
from dqcodec.exact.mixing.logistic import Network, learn_twice, mixed_twice, rate_after, squash, stretch
from dqcodec.exact.mixing.pixels import channel, clamped, neighbours, of_channel, pattern
from dqcodec.exact.mixing.priors import Prior
from dqcodec.exact.mixing.sample_laws import SampleLaws, law_logit, learn_sample_laws, narrow_laws, set_sample_laws
from dqcodec.exact.mixing.slots import Slots
from dqcodec.frozen.pixel_mixing import (
    CONTEXTS,
    FINAL_RATE,
    FIRST_ROWS,
    MAX_SLOT_BITS,
    MAX_STAGE_BITS,
    SETS,
    STAGE,
)
from dqcodec.frozen.trained_mixing import FIRST_LAW, FIRST_LAW_ROW


class BitMixer(NamedTuple):
    """The state that learns to predict bits.

    Attributes:
        contexts: their histories, as Slots.
        maps: for each context and state of a history a counter, uint32.
        network: mixes the inputs; a final row for each bit of a pixel.
        stages: by channel and node, and by neighbours, int32.
        trust: for each match and its length, a counter of how often it was right, uint32.
        laws: of a sample; none in an untrained mixer.
        hashes: of the contexts of the bit at hand.
        done: the number of samples so far, int64 (1,).
        stage_bits: log2 of the second stage's rows.
    """

    contexts: Slots
    maps: np.ndarray
    network: Network
    stages: np.ndarray
    trust: np.ndarray
    laws: SampleLaws
    hashes: np.ndarray
    done: np.ndarray
    stage_bits: int

    @classmethod
    def new(cls, samples: int, prior: Prior) -> "BitMixer":
        """samples: the number of samples that will be coded. prior: what is known before."""
        slot_bits = min(MAX_SLOT_BITS, (2 * samples).bit_length())
        stage_bits = min(MAX_STAGE_BITS, slot_bits)
        return cls(
            Slots.new(CONTEXTS, slot_bits),
            prior.maps.copy(),
            Network.new(prior.weights.copy(), prior.finals.copy()),
            np.tile(STAGE, (1024 + (1 << stage_bits), 1)).astype(np.int32), prior.trust.copy(), SampleLaws.new(prior.errors),
            np.empty(CONTEXTS, np.uint64), np.array([prior.done]), stage_bits,
        )  # fmt: skip


@part_of_loop_in_place
def _set_contexts(hashes, layer, at, c, known, near, is_rest):
    """Set the hash of each context of a sample, channel c.

    known: the channels before c. is_rest: whether an earlier channel, or the pixel, is known
    to differ from its prediction.
    """
    W, N, NW, NE, WW, NN = near
    alpha = known >> 8 * (c - 1) if c and layer.channels % 2 == 0 else 128
    seed = np.uint64((c << 4 | layer.bits) + 1 + 64 * is_rest + 128 * (alpha == 0) + 256 * (alpha == 255))
    hashes[0] = seed
    hashes[1] = hashed(seed, W << 8 | N)
    hashes[2] = hashed(seed, W << 24 | N << 16 | NW << 8 | NE)
    hashes[3] = hashed(hashes[2], WW << 8 | NN)
    if layer.channels > 1:
        _set_colour_contexts(hashes, layer, at, c, known, near, seed)
    else:
        _set_gray_contexts(hashes, layer, at, near, seed)
    for i in range(CONTEXTS):
        hashes[i] += np.uint64(i)


@part_of_loop_in_place
def _one_period_away(layer, at, number):
    """The place of the pixel that is period `number` away."""
    place = at - layer.periods[number]
    return at - 2 * layer.stride if place < 2 * layer.stride else place  # never before all pixels


@part_of_loop_in_place
def _set_colour_contexts(hashes, layer, at, c, known, near, seed):
    """Set the contexts from number 4 on, for colours. Q, R: pixels one period away. Small letters: the channel before."""
    pixels, stride, shift = layer.pixels, layer.stride, 8 * (layer.channels - 1 - c)
    pW, pN, pNW, pNE, pWW, pNN = neighbours(pixels, at, stride)
    first, second = _one_period_away(layer, at, 0), _one_period_away(layer, at, 1)
    Q, QW, QN, QE = pixels[first], pixels[first - 1], pixels[first - stride], pixels[first + 1]
    R, RW = pixels[second], pixels[second - 1]
    W, N, NW, NE, _, _ = near
    gradient, busy = clamped(N + W - NW), abs(W - NW) + abs(N - NW) + abs(N - NE)
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
    if layer.canvas:
        hashes[20] = hashed(hashed(hashes[18], QE), pixels[first + stride])
        hashes[21] = hashed(seed, channel(Q, shift) << 18 | W - channel(QW, shift) + 256 << 9 | last - q + 256)


@part_of_loop_in_place
def _set_gray_contexts(hashes, layer, at, near, seed):
    """Set the contexts from number 4 on, for one channel. Q, R: pixels one period away."""
    pixels, stride = layer.pixels, layer.stride
    first, second = _one_period_away(layer, at, 0), _one_period_away(layer, at, 1)
    Q, QW, QN, QE = pixels[first], pixels[first - 1], pixels[first - stride], pixels[first + 1]
    R, RW, RE = pixels[second], pixels[second - 1], pixels[second + 1]
    W, N, NW, NE, WW, NN = near
    gradient, busy = clamped(N + W - NW), abs(W - NW) + abs(N - NW) + abs(N - NE)
    one, two, three, four = at - stride, at - 2 * stride, at - 3 * stride, at - 4 * stride
    W3, N3 = pixels[at - 3], pixels[three]
    hashes[4] = hashed(seed, W)
    hashes[5] = hashed(seed, N)
    hashes[6] = hashed(seed, W << 16 | WW << 8 | W3)
    hashes[7] = hashed(seed, N << 16 | NN << 8 | N3)
    hashes[8] = hashed(hashes[3], _packed(pixels[one - 2], pixels[one + 2], pixels[two - 1], pixels[two + 1]))
    hashes[9] = hashed(hashes[8], _packed(pixels[one - 3], pixels[one + 3], pixels[two - 2], pixels[two + 2]))
    hashes[9] = hashed(hashes[9], W3 << 8 | N3)
    hashes[10] = hashed(hashes[9], _packed(pixels[two - 3], pixels[two + 3], pixels[three - 1], pixels[three + 1]))
    hashes[10] = hashed(hashes[10], _packed(pixels[one - 4], pixels[one + 4], pixels[three - 2], pixels[three + 2]))
    hashes[11] = hashed(hashes[10], _packed(pixels[at - 4], pixels[four], pixels[four - 1], pixels[four + 1]))
    hashes[11] = hashed(hashes[11], _packed(pixels[at - 5], pixels[one - 5], pixels[one + 5], pixels[at - 6]))
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


@part_of_loop_in_place
def _packed(a, b, c, d):
    return np.int64(a) << 24 | np.int64(b) << 16 | np.int64(c) << 8 | np.int64(d)


@part_of_loop_in_place
def _find_slots(mixer, node):
    """Find the slots for the next 4 bits, after those in `node`."""
    for i in range(CONTEXTS):
        own = hashed(mixer.hashes[i], node) * np.uint64(0xE7037ED1A0B428DB)
        slots.choose(mixer.contexts, i, own, np.uint32(own) | np.uint32(1))
    slots.find(mixer.contexts)


@part_of_loop_in_place
def code_samples(mixer, coder, layer, at, predicted, missed, matches):
    """Code the samples of a pixel, and learn from them.

    Args:
        mixer: a BitMixer, which changes.
        coder: a BinaryCoder.
        layer: a PixelLayer.
        at: the place of the pixel.
        predicted: a pixel.
        missed: 1 if the pixel is known to differ from `predicted`; else 0.
        matches: (pixel, length) of both matches, with a length of 0 for none; then (pixel, 1 + the neighbours
            that agree) of the canvas; int64 (3, 2).
    """
    laws, bits, rows = mixer.laws, layer.bits, mixer.network.rows
    whole, rest, known, law_row = np.int64(layer.pixels[at]), missed, np.int64(0), np.int64(0)
    for c in range(layer.channels):
        shift = 8 * (layer.channels - 1 - c)
        mixer.done[0] += 1
        near = of_channel(neighbours(layer.pixels, at, layer.stride), shift)
        _set_contexts(mixer.hashes, layer, at, c, known, near, rest > 0)
        if len(laws.means):
            law_row = set_sample_laws(laws, layer, at, c, known, near)
        value, node = whole >> shift & 255, np.int64(1)
        for position in range(bits):
            place = c * 8 + position
            stage = c << 8 | node
            other_stage = 1024 + place_of(hashed(np.uint64(near.W << 8 | near.N), stage), mixer.stage_bits)
            prefetch_stage(mixer.stages, other_stage)
            if position % 4 == 0:
                _find_slots(mixer, node)
            inner = 1 << position % 4 | node & (1 << position % 4) - 1
            familiar = _set_context_inputs(mixer, inner)
            here = _Bit(shift, known, node, bits - 1 - position)
            both = _set_match_inputs(mixer, layer, matches, here)
            _set_law_inputs(mixer, bits, here.left, node)
            rows[0] = FIRST_ROWS[0] + place * 3 + rest
            rows[1] = FIRST_ROWS[1] + familiar * 8 + position
            rows[2] = FIRST_ROWS[2] + (both * 8 + position) * 4 + c
            rows[3] = FIRST_ROWS[3] + pattern(near) * 4 + c
            if len(laws.means):
                rows[SETS] = FIRST_LAW_ROW + law_row
            bit = _code_bit(mixer, coder, place, stage, other_stage, value >> here.left & 1)
            if both or layer.canvas:
                _count_matches(mixer.trust, layer, matches, here, bit)
            _count_contexts(mixer, inner, bit)
            narrow_laws(laws, bit)
            node = node * 2 + bit
            if position % 4 == 3 or position == bits - 1:
                slots.leave(mixer.contexts, inner * 2 + bit)
        learn_sample_laws(laws, law_row, node - (1 << bits))
        known = known << 8 | node - (1 << bits)
        if rest == 1 and known != np.int64(predicted) >> shift:
            rest = 2
    layer.pixels[at] = known


@part_of_loop_in_place
def _set_context_inputs(mixer, inner):
    """Set the inputs that contexts give at a node of 4 bits; returns how many contexts know it."""
    entries, at, maps, inputs, familiar = mixer.contexts.entries, mixer.contexts.at, mixer.maps, mixer.network.inputs, 0
    for i in range(CONTEXTS):
        entry = np.int64(entries[at[0, i] + inner])
        state = entry & 255
        inputs[2 * i], inputs[2 * i + 1] = stretch(entry >> 8), counted(maps, i << 8 | state)
        familiar += state != 0
    return familiar


class _Bit(NamedTuple):
    """The place of a bit in a pixel.

    Attributes:
        shift: of its channel.
        known: the channels before it.
        node: 1, and the sample's bits before it.
        left: the number of the sample's bits after it.
    """

    shift: int
    known: int
    node: int
    left: int


@part_of_loop_in_place
def _expected(layer, match, at):
    """What a match (pixel, length) expects of a _Bit; -1: nothing."""
    sample = match[0] >> at.shift & 255 | 1 << layer.bits
    if match[1] and match[0] >> at.shift + 8 == at.known and sample >> at.left + 1 == at.node:
        return sample >> at.left & 1
    return np.int64(-1)


@part_of_loop_in_place
def _set_match_inputs(mixer, layer, matches, at):
    """Set the inputs that matches give. Returns 3 a + b, what the first two expect: 0 nothing, 1 a 0, 2 a 1."""
    inputs, both = mixer.network.inputs, 0
    for k in range(3 if layer.canvas else 2):
        one = _expected(layer, matches[k], at)
        inputs[2 * CONTEXTS + k] = 0
        if one >= 0:
            logit = counted(mixer.trust, k << 6 | matches[k, 1])
            inputs[2 * CONTEXTS + k] = logit if one else -logit
            both += (1 + one) * (3, 1, 0)[k]
    return both


@part_of_loop_in_place
def _set_law_inputs(mixer, bits, left, node):
    """Set the inputs that laws give to the upper half of the samples that are left."""
    threshold = (2 * node + 1 << left) - (1 << bits) << 3
    for k in range(len(mixer.laws.means)):
        mixer.network.inputs[FIRST_LAW + k] = law_logit(mixer.laws, k, threshold - 4, 8 << left)


@part_of_loop_in_place
def _code_bit(mixer, coder, place, stage, other_stage, bit):
    """Code a bit by the mixture of the inputs, corrected by two stages; weights and stages
    learn from it. Returns the bit.

    place: of the bit among the bits of a pixel. bit: the bit, if it is written.
    """
    stages = mixer.stages
    logit = mixed_twice(mixer.network, place)
    plain = squash(logit)
    probability, cell = staged(stages, stage, logit)
    other_probability, other_cell = staged(stages, other_stage, logit)
    final = 2 * plain + probability + other_probability >> 2
    bit = code_bit(coder, min(65535, max(1, final)), bit)
    learn_stage(stages, stage, cell, bit)
    learn_stage(stages, other_stage, other_cell, bit)
    learn_twice(mixer.network, place, (bit << 16) - bit, plain, rate_after(mixer.done[0]), FINAL_RATE)
    return bit


@part_of_loop_in_place
def _count_matches(trust, layer, matches, at, bit):
    """Count whether each match that expected a bit was right."""
    for k in range(3 if layer.canvas else 2):
        one = _expected(layer, matches[k], at)
        if one >= 0:
            count(trust, k << 6 | matches[k, 1], np.int64(one == bit))


@part_of_loop_in_place
def _count_contexts(mixer, inner, bit):
    """Enter a bit in the history of each context, and count it for the history's state."""
    entries, at, maps = mixer.contexts.entries, mixer.contexts.at, mixer.maps
    for i in range(CONTEXTS):
        history = np.int64(entries[at[0, i] + inner])
        count(maps, i << 8 | history & 255, bit)
        entries[at[0, i] + inner] = history_after(history, bit)
