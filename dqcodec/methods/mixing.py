"""Layers by context mixing: icons, drawings, screenshots, palette indices, masks.

Each sample is coded bit by bit, the highest first. Every context, a set of neighbours' values and of channels already known,
remembers how often the bit was 0 and 1 where the context was the same; these opinions are mixed, by weights that are
learned on the way, and an arithmetic coder takes what comes out. The decoder learns just the same: all is done in
integers, so that no machine decodes otherwise. About 5 microseconds a sample, both ways.

Layers of as many channels are coded one after the other, as one image: what is learned from one is known for the next. The
payload: 1 byte for each layer, the number of bits that its largest sample needs; then the coder's bytes. Of a pixel's
channels alpha is coded first, then green, red, blue; outside the layer all is 0.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ..compiled import compiled
from ..errors import CorruptError

_CONTEXTS = 18
_INPUTS = 2 * _CONTEXTS
_MAX_SLOT_BITS = 16  # slots of each context, 64 bytes each
_ORDERS = {1: [0], 2: [1, 0], 3: [1, 0, 2], 4: [3, 1, 0, 2]}  # of channels
_MARGIN = 2  # how far contexts reach, pixels
_MAX_BYTES = 12  # of a sample: 8 bits, each with a probability of at least 2^-12

# Logits are in units of 1/256, between -_LIMIT and _LIMIT; probabilities, always of a 1, in 1/65536. No value is so near to
# a half that another machine's exp could round it otherwise.
_LIMIT = 2815
_SQUASH = np.array([round(65536 / (1 + math.exp(-logit / 256))) for logit in range(-_LIMIT, _LIMIT + 1)])
_STRETCH = np.searchsorted(_SQUASH, np.arange(4096) * 16 + 8) - _LIMIT
_MIN_PROBABILITY = 16
# A state is how many zeros and ones a context saw of late, 4 bits each; 0 is none. How it starts to be understood:
_STATES = np.array([65536 * (5 * (state & 15) + 2) // (5 * ((state >> 4) + (state & 15)) + 4) for state in range(256)])
_RATES = np.array([65536 * 2 // (2 * count + 3) for count in range(256)])  # by how often something was updated before
_MIN_USES, _MAX_USES = 6, 240
_WEIGHT = 65536 // 10
# The arithmetic coder: the interval, the code's value in it, bytes written or read, samples done.
_LOW, _HIGH, _VALUE, _POSITION, _DONE = range(5)
_FRESH = (0, 0xFFFFFFFF, 0, 0, 0)


def encode(layers: Sequence[np.ndarray]) -> tuple[bytes, list[int]]:
    """(payload, the bytes that each layer takes of it) of layers (H, W, C) of 1 to 4 channels, the same for all, uint8."""
    bits = [max(1, int(pixels.max()).bit_length()) for pixels in layers]
    out = np.empty(_MAX_BYTES * sum(pixels.size for pixels in layers) + 8, np.uint8)
    slot_bits, coder = _slot_bits([pixels.shape for pixels in layers], bits), np.array(_FRESH)
    model, ends = _new_model(slot_bits), [0]
    for pixels, bits_here in zip(layers, bits):
        _encode(_padded(pixels), bits_here, slot_bits, model, coder, out)
        ends.append(int(coder[_POSITION]))
    ends[-1] = _finish(coder, out)
    return bytes(bits) + out[: ends[-1]].tobytes(), [1 + end - start for start, end in itertools.pairwise(ends)]


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C), uint8, of a payload; raises CorruptError where it has no possible form."""
    bits, code = data[: len(shapes)], np.frombuffer(data[len(shapes) :], np.uint8)
    if len(bits) < len(shapes) or not all(1 <= each <= 8 for each in bits):
        raise CorruptError("malformed payload")
    slot_bits, coder = _slot_bits(shapes, bits), np.array(_FRESH)
    _begin(coder, code)
    model, layers = _new_model(slot_bits), []
    for shape, bits_here in zip(shapes, bits):
        padded = _padded(np.zeros(shape, np.uint8))
        _decode(code, bits_here, slot_bits, model, coder, padded)
        layers.append(np.empty(shape, np.uint8))
        layers[-1][..., _ORDERS[shape[2]]] = padded[_MARGIN:, _MARGIN:-_MARGIN]
    return layers


def _padded(pixels: np.ndarray) -> np.ndarray:
    """Channels in coding order, and a margin at the top, left and right."""
    margins = ((_MARGIN, 0), (_MARGIN, _MARGIN), (0, 0))
    return np.ascontiguousarray(np.pad(pixels[..., _ORDERS[pixels.shape[2]]], margins))


def _slot_bits(shapes: Sequence[tuple[int, int, int]], bits: Sequence[int]) -> int:
    uses = sum(math.prod(shape) * -(-bits_here // 4) for shape, bits_here in zip(shapes, bits))
    return min(_MAX_SLOT_BITS, uses.bit_length())


@compiled
def _hashed(value, other):
    return (value * np.uint64(0x9E3779B97F4A7C15) + np.uint64(other) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)


@compiled
def _clamped(value):
    return min(255, max(0, value))


@compiled
def _whole(pixels, y, x):
    """All channels of a pixel as one number."""
    whole = np.int64(0)
    for c in range(pixels.shape[2]):
        whole = whole << 8 | np.int64(pixels[y, x, c])
    return whole


@compiled
def _set_contexts(pixels, y, x, c, bits, hashes, values):
    """The hash of each context of a sample. Compass points: neighbours, small letters for the last channel."""
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
    gradient, gradient_last = _clamped(N + W - NW), _clamped(n + w - nw)
    shifted = _clamped(gradient + last - gradient_last)
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
    values[8, 0], values[8, 1] = _clamped(W + last - w), _clamped(N + last - n)
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
    for i in range(_CONTEXTS):
        value = _hashed(np.uint64(i), c << 4 | bits)
        for k in range(values.shape[1]):
            value = _hashed(value, values[i, k])
        hashes[i] = value


@compiled
def _new_model(slot_bits):
    """What is learned: entries, each a probability and a state, 16 to a slot, one for each node of 4 bits; for each context
    and state a probability, and how often it was used; two mixers' weights."""
    entries = np.full((_CONTEXTS << slot_bits) * 16, 32768 << 8, np.uint32)
    maps = np.empty((_CONTEXTS, 256), np.int64)
    maps[:] = _STATES
    return entries, maps, np.zeros((_CONTEXTS, 256), np.int64), np.full((2, 64, _INPUTS), _WEIGHT, np.int32)


@compiled
def _new_scratch():
    """What is known of the bit at hand: hashes and their values; slots; inputs; each mixer's set of weights and logit."""
    return (
        np.empty(_CONTEXTS, np.uint64), np.empty((_CONTEXTS, 9), np.int64), np.empty(_CONTEXTS, np.int64),
        np.empty(_INPUTS, np.int32), np.zeros(2, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip


@compiled
def _find_slots(scratch, node, slot_bits):
    """The slots for the next 4 bits, after those in `node`."""
    hashes, _, slots = scratch[:3]
    shift = np.uint64(64 - slot_bits)
    for i in range(_CONTEXTS):
        mixed = (hashes[i] + np.uint64(node) * np.uint64(0xA0761D6478BD642F)) * np.uint64(0xE7037ED1A0B428DB)
        slots[i] = ((i << slot_bits) + np.int64(mixed >> shift)) << 4


@compiled
def _predict(model, scratch, place, node):
    """The probability of a 1, for a bit at a `place` among a pixel's bits; node: 1, and those of the 4 bits that are known."""
    entries, maps, _, weights = model
    _, _, slots, inputs, sets, logits = scratch
    familiar = 0
    for i in range(_CONTEXTS):
        entry = np.int64(entries[slots[i] + node])
        state = entry & 255
        if state:
            inputs[2 * i], inputs[2 * i + 1] = _STRETCH[entry >> 12], _STRETCH[maps[i, state] >> 4]
            familiar += 1
        else:
            inputs[2 * i], inputs[2 * i + 1] = 0, 0
    sets[0], sets[1] = place, familiar
    total = 0
    for m in range(2):
        row = weights[m, sets[m]]
        dot = np.int64(0)
        for i in range(_INPUTS):
            dot += np.int64(row[i]) * np.int64(inputs[i])
        logits[m] = min(_LIMIT, max(-_LIMIT, dot >> 16))
        total += logits[m]
    return min(65536 - _MIN_PROBABILITY, max(_MIN_PROBABILITY, _SQUASH[(total >> 1) + _LIMIT]))


@compiled
def _learn(model, scratch, node, bit, rate):
    """From a bit, once it is known."""
    entries, maps, uses, weights = model
    _, _, slots, inputs, sets, logits = scratch
    for m in range(2):
        error = ((bit << 16) - _SQUASH[logits[m] + _LIMIT]) * rate
        row = weights[m, sets[m]]
        for i in range(_INPUTS):
            row[i] += (inputs[i] * error + (1 << 17)) >> 18
    target = 65535 * bit
    for i in range(_CONTEXTS):
        entry = np.int64(entries[slots[i] + node])
        state, probability = entry & 255, entry >> 8
        zeros, ones = state >> 4, state & 15
        probability += ((target - probability) * _RATES[zeros + ones]) >> 16
        if state:
            seen = uses[i, state]
            maps[i, state] += ((target - maps[i, state]) * _RATES[seen + _MIN_USES]) >> 16
            uses[i, state] = min(seen + 1, _MAX_USES)
        if bit:  # what was seen is half forgotten when the contrary is seen
            ones = min(ones + 1, 15)
            zeros = (zeros + 1) >> 1 if zeros > 2 else zeros
        else:
            zeros = min(zeros + 1, 15)
            ones = (ones + 1) >> 1 if ones > 2 else ones
        entries[slots[i] + node] = probability << 8 | zeros << 4 | ones


@compiled
def _rate(done):
    """How fast weights learn after so many samples."""
    return 6 + 40 * 256 // (256 + done)


@compiled
def _encode(pixels, bits, slot_bits, model, coder, out):
    """Go on filling `out`."""
    height, width, channels = pixels.shape
    scratch = _new_scratch()
    low, high, length, done = coder[_LOW], coder[_HIGH], coder[_POSITION], coder[_DONE]
    for y in range(_MARGIN, height):
        for x in range(_MARGIN, width - _MARGIN):
            for c in range(channels):
                _set_contexts(pixels, y, x, c, bits, scratch[0], scratch[1])
                node, value, rate = 1, np.int64(pixels[y, x, c]), _rate(done)
                done += 1
                for position in range(bits):
                    if position % 4 == 0:
                        _find_slots(scratch, (c << 8) + node, slot_bits)
                    inner = 1 << position % 4 | node & (1 << position % 4) - 1
                    probability = _predict(model, scratch, c * 8 + position, inner)
                    bit = value >> (bits - 1 - position) & 1
                    middle = low + ((high - low) * probability >> 16)
                    if bit:
                        high = middle
                    else:
                        low = middle + 1
                    while (low ^ high) >> 24 == 0:
                        out[length] = high >> 24
                        length += 1
                        low, high = low << 8 & 0xFFFFFFFF, high << 8 & 0xFFFFFFFF | 255
                    _learn(model, scratch, inner, bit, rate)
                    node = node * 2 + bit
    coder[_LOW], coder[_HIGH], coder[_POSITION], coder[_DONE] = low, high, length, done


@compiled
def _finish(coder, out):
    """Write what is left; how many bytes of `out` are the code. The decoder reads zeros after the end: of the numbers in the
    interval, that which has the most of them."""
    low, high, length = coder[_LOW], coder[_HIGH], coder[_POSITION]
    last = np.int64(0)
    for zeros in range(24, -1, -8):
        last = ((low + (1 << zeros) - 1) >> zeros) << zeros
        if last <= high:
            break
    while last:
        out[length] = last >> 24
        length += 1
        last = last << 8 & 0xFFFFFFFF
    return length


@compiled
def _begin(coder, data):
    """Read the first four bytes."""
    for _ in range(4):
        coder[_VALUE] = coder[_VALUE] << 8 | (np.int64(data[coder[_POSITION]]) if coder[_POSITION] < len(data) else 0)
        coder[_POSITION] += 1


@compiled
def _decode(data, bits, slot_bits, model, coder, pixels):
    """Go on reading `data`; set the pixels within the margin."""
    height, width, channels = pixels.shape
    scratch = _new_scratch()
    low, high, value, taken, done = coder[_LOW], coder[_HIGH], coder[_VALUE], coder[_POSITION], coder[_DONE]
    for y in range(_MARGIN, height):
        for x in range(_MARGIN, width - _MARGIN):
            for c in range(channels):
                _set_contexts(pixels, y, x, c, bits, scratch[0], scratch[1])
                node, rate = 1, _rate(done)
                done += 1
                for position in range(bits):
                    if position % 4 == 0:
                        _find_slots(scratch, (c << 8) + node, slot_bits)
                    inner = 1 << position % 4 | node & (1 << position % 4) - 1
                    probability = _predict(model, scratch, c * 8 + position, inner)
                    middle = low + ((high - low) * probability >> 16)
                    bit = 1 if value <= middle else 0
                    if bit:
                        high = middle
                    else:
                        low = middle + 1
                    while (low ^ high) >> 24 == 0:
                        low, high = low << 8 & 0xFFFFFFFF, high << 8 & 0xFFFFFFFF | 255
                        value = (value << 8 & 0xFFFFFFFF) | (np.int64(data[taken]) if taken < len(data) else 0)
                        taken += 1
                    _learn(model, scratch, inner, bit, rate)
                    node = node * 2 + bit
                pixels[y, x, c] = node - (1 << bits)
    coder[_LOW], coder[_HIGH], coder[_VALUE], coder[_POSITION], coder[_DONE] = low, high, value, taken, done
