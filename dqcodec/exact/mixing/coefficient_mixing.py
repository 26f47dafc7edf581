"""Coefficients of JPEG files, and differences of pixels from the decoded ones, by context mixing.

A number is coded by decisions: whether it is 0, its sign, its number of binary digits, its digits. Contexts are the
same coefficient of blocks around, coefficients of higher frequency in the block, other components, and the value that
continuity across the edges of blocks demands. Contexts, weights and stages work as in bit_mixing.py.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop_in_place
from dqcodec.exact.mixing.binary_coder import code_bit
from dqcodec.exact.mixing.counters import UNUSED, count, counted, learn_stage, staged
from dqcodec.exact.mixing.hashes import hashed, place_of
from dqcodec.exact.mixing.logistic import Network, learn_twice, mixed_twice, squash
from dqcodec.frozen.jpeg import (
    CONTEXTS,
    EDGE,
    FINAL_RATE,
    FIRST_FINAL_WEIGHT,
    FIRST_ROWS,
    FIRST_WEIGHT,
    INNER,
    INPUTS,
    MAX_EXPONENT,
    MAX_NUMBER,
    MAX_TABLE_BITS,
    MIN_PROBABILITY,
    RATE,
    ROWS,
    SETS,
    STAGE_ROWS,
    ZIGZAG,
)
from dqcodec.frozen.pixel_mixing import STAGE

_KINDS = 8  # of decisions


class CoefficientMixer(NamedTuple):
    """The state that learns to predict decisions.

    Attributes:
        counters: for each context, uint32.
        network: mixes the inputs; a final row for each kind of decision.
        stages: int32 (STAGE_ROWS, cells).
        values: of the contexts of the number at hand, below 2^24, int64.
        hashes: of these contexts, uint64.
        places: of their counters.
        keys: of the number at hand, one for each set of weights, the first one for stages too, int64 (SETS,).
        done: the number of decisions so far, int64 (1,).
        bits: log2 of the counters of a context.
    """

    counters: np.ndarray
    network: Network
    stages: np.ndarray
    values: np.ndarray
    hashes: np.ndarray
    places: np.ndarray
    keys: np.ndarray
    done: np.ndarray
    bits: int

    @classmethod
    def new(cls, samples: int) -> "CoefficientMixer":
        """samples: of all components that will be coded."""
        bits = min(MAX_TABLE_BITS, samples.bit_length())
        weights = np.full((ROWS, INPUTS), FIRST_WEIGHT, np.int32)
        finals = np.full((_KINDS, SETS), FIRST_FINAL_WEIGHT, np.int32)
        return cls(
            np.full(CONTEXTS << bits, UNUSED, np.uint32), Network.new(weights, finals),
            np.tile(STAGE, (STAGE_ROWS, 1)).astype(np.int32), np.zeros(CONTEXTS, np.int64), np.zeros(CONTEXTS, np.uint64),
            np.zeros(CONTEXTS, np.int64), np.zeros(SETS, np.int64), np.zeros(1, np.int64), bits,
        )  # fmt: skip


@part_of_loop_in_place
def _decide(mixer, coder, node, kind, bit):
    """Code a decision, and learn from it; returns it.

    node: of the tree of a number's decisions. kind: of decision, below _KINDS. bit: the decision, if it is written.
    """
    counters, network, places, bits = mixer.counters, mixer.network, mixer.places, mixer.bits
    mixer.done[0] += 1
    for i in range(CONTEXTS):
        places[i] = (i << bits) + place_of(hashed(mixer.hashes[i], node), bits)
    for i in range(CONTEXTS):
        network.inputs[i] = counted(counters, places[i])
    network.inputs[CONTEXTS] = 256
    for k in range(SETS):
        network.rows[k] = FIRST_ROWS[k] + (mixer.keys[k] << 3 | kind)
    logit = mixed_twice(network, kind)
    plain, stage = squash(logit), mixer.keys[0] << 3 | kind
    corrected, cell = staged(mixer.stages, stage, logit)
    probability = min(65536 - MIN_PROBABILITY, max(MIN_PROBABILITY, plain + corrected >> 1))
    bit = code_bit(coder, probability, bit)
    learn_stage(mixer.stages, stage, cell, bit)
    rate = RATE + 20480 // (1024 + mixer.done[0])
    learn_twice(network, kind, (bit << 16) - bit, plain, rate, FINAL_RATE)
    for i in range(CONTEXTS):
        count(counters, places[i], bit)
    return bit


@part_of_loop_in_place
def _code_number(mixer, coder, number):
    """Code a number whose size is below 2^MAX_EXPONENT; returns it.

    The decisions: whether it is 0; whether it is negative; whether it has more than 1 binary digit, more than
    2, and so on; its digits after the first.
    """
    # one loop with one call of _decide, because each call is compiled into this function
    size = abs(number)
    step, digits, place, value, is_negative = np.int64(0), np.int64(1), np.int64(-1), np.int64(0), np.int64(0)
    while True:
        if step == 0:
            node, kind, bit = np.int64(0), np.int64(0), np.int64(number != 0)
        elif step == 1:
            node, kind, bit = np.int64(1), np.int64(1), np.int64(number < 0)
        elif place < 0:
            node, kind, bit = 1 + digits, min(5, 1 + digits), np.int64(size >> digits != 0)
        else:
            node, kind, bit = 16 + (digits << 8 | min(value, 7) << 4 | place), np.int64(6), size >> place & 1
        bit = _decide(mixer, coder, node, kind, bit)
        if step == 0:
            if not bit:
                return np.int64(0)
        elif step == 1:
            is_negative, value = bit, np.int64(1)
        elif place < 0:
            digits += bit
            if not bit or digits == MAX_EXPONENT:
                place = digits - 1
        else:
            value = value << 1 | bit
        step += 1
        if place >= 0:
            place -= 1
            if place < 0:
                return -value if is_negative else value


@part_of_loop_in_place
def _size_class(size):
    """The class of a number, 0 or more: exact up to 4, then four classes for each doubling."""
    if size < 5:
        return size
    digits = np.int64(0)
    while size >> digits > 7:
        digits += 1
    return min(31, 4 * digits + (size >> digits))


@part_of_loop_in_place
def _clipped(number, bound):
    return min(bound, max(-bound, number))


@part_of_loop_in_place
def _set_hashes(mixer, seed, first, second, third):
    """Set the hashes of contexts by their values, and the keys."""
    for i in range(CONTEXTS):
        mixer.hashes[i] = hashed(seed, np.int64(i) << 24 | mixer.values[i])
    mixer.keys[0], mixer.keys[1], mixer.keys[2] = first, second, third


class _Around(NamedTuple):
    """The blocks around a block, and the other component's block at its place, int16 (64,)
    each; zeros where there is none.
    """

    above: np.ndarray
    left: np.ndarray
    corner: np.ndarray
    right: np.ndarray
    across: np.ndarray


class _Progress(NamedTuple):
    """How far the coding of a block has come.

    Attributes:
        z: the number of the next coefficient, in zigzag order.
        last: that of the first one.
        seen, energy: the number of coefficients so far that are not 0, and the sum of their sizes.
        counts: the sum of `last` of the blocks above and to the left.
    """

    z: int
    last: int
    seen: int
    energy: int
    counts: int


@compiled
def code_component(mixer, coder, levels, other, factors, component, table):
    """Code the levels of a component, block by block, each from its last coefficient in zigzag order to its first.

    Args:
        mixer: a CoefficientMixer, which changes.
        coder: a BinaryCoder.
        levels: int16 (rows, columns, 64); entered if they are read.
        other: those of the component before, or, of the first component, of itself.
        factors: blocks of the other for one of this, down and to the right, int64 (2,).
        component: 0 luma, 1, 2 chroma.
        table: the steps, int64 (64,).
    """
    rows, columns = levels.shape[:2]
    none = np.zeros(64, np.int16)
    counts = np.zeros((2, columns + 1), np.int64)  # last coefficients of the row above and of this one
    bottoms, rights = np.zeros((columns, 8), np.int64), np.zeros(8, np.int64)
    residuals = np.zeros(columns + 1, np.int64)
    for row in range(rows):
        residuals[0] = 0
        for column in range(columns):
            block = levels[row, column]
            above = levels[row - 1, column] if row else none
            left = levels[row, column - 1] if column else none
            corner = levels[row - 1, column - 1] if row and column else none
            right = levels[row - 1, column + 1] if row and column + 1 < columns else none
            across = none
            if component:
                i, j = min(row * factors[0], other.shape[0] - 1), min(column * factors[1], other.shape[1] - 1)
                across = other[i, j]
            last = _last(block)
            before = counts[0, column + 1] if row else counts[1, column]
            beside = counts[1, column] if column else counts[0, column + 1]
            far = _last(across) if component else np.int64(0)
            last = _code_last(mixer, coder, last, component, before, beside, far)
            around, seen, energy = _Around(above, left, corner, right, across), np.int64(0), np.int64(0)
            predicted = np.int64(0)
            for z in range(last, -1, -1):
                place = ZIGZAG[z]
                down, side = _expected(block, bottoms[column], rights, table, place, row > 0, column > 0)
                progress = _Progress(z, last, seen, energy, before + beside)
                if z:
                    _set_contexts(mixer, block, around, component, progress, down, side)
                else:
                    predicted = _clipped((down + side) // (2 if row == 0 or column == 0 else 4), MAX_NUMBER)
                    gap = _size_class(abs(down - side) >> 1) if row and column else np.int64(31)
                    west, north = residuals[column], residuals[column + 1]
                    _set_mean_contexts(mixer, component, progress, gap, west, north, across[0])
                number = _code_number(mixer, coder, np.int64(block[place]) - predicted)
                block[place] = predicted + number
                seen += np.int64(number != 0)
                energy += abs(number)
            residuals[column + 1] = number
            counts[1, column + 1] = last
            _set_edges(block, table, bottoms[column], rights)
        counts[0, 1:] = counts[1, 1:]


@part_of_loop_in_place
def _last(block):
    """The place, in zigzag order, of the last coefficient that is not 0; 0 if there is none after the mean."""
    last = np.int64(0)
    for z in range(1, 64):
        if block[ZIGZAG[z]]:
            last = z
    return last


@part_of_loop_in_place
def _code_last(mixer, coder, last, component, above, left, far):
    """Code the result of _last, and return it. above, left, far: the same of the blocks above, to the left and across."""
    values = mixer.values
    values[:] = 0
    both = above + left + 1 >> 1
    values[1] = both
    values[2] = above << 6 | left
    values[3] = above
    values[4] = left
    values[5] = far << 6 | both
    values[6] = far
    values[7] = both >> 2 << 6 | abs(above - left) >> 2
    _set_hashes(mixer, hashed(np.uint64(1), component), 64 + component, 32 + (both >> 3), 32 + (far >> 3))
    node = np.int64(1)
    for place in range(5, -1, -1):
        node = node << 1 | _decide(mixer, coder, node, 5 - place, last >> place & 1)
    return node & 63


@part_of_loop_in_place
def _expected(block, bottom, rights, table, place, has_above, has_left):
    """The values of a coefficient that continuity with the blocks above and to the left
    demands, in half steps, int64 each.
    """
    v, u = place >> 3, place & 7
    down = _demanded(block, table, place, bottom[u], v, 8) if has_above else np.int64(0)
    across = _demanded(block, table, place, rights[v], u, 1) if has_left else np.int64(0)
    return down, across


@part_of_loop_in_place
def _demanded(block, table, place, total, frequency, stride):
    """The part of an edge's total that coefficients of higher frequencies, `stride` apart,
    leave for this one, in half steps.
    """
    for other in range(place + stride, place + (8 - frequency) * stride, stride):
        total -= np.int64(block[other]) * table[other] * INNER
    scale = table[place] * (INNER if frequency else EDGE)
    return (4 * total + scale) // (2 * scale)


@part_of_loop_in_place
def _set_edges(block, table, bottom, rights):
    """Set the sums of a block's coefficients at its lower edge, for each u, and at its right edge, for each v."""
    for a in range(8):
        down = across = np.int64(0)
        sign = np.int64(1)
        for k in range(8):
            weight = sign * (INNER if k else EDGE)
            down += np.int64(block[8 * k + a]) * table[8 * k + a] * weight
            across += np.int64(block[8 * a + k]) * table[8 * a + k] * weight
            sign = -sign
        bottom[a], rights[a] = down, across


@part_of_loop_in_place
def _set_contexts(mixer, block, around, component, progress, down, side):
    """Set the contexts of a coefficient. down, side: see _expected."""
    values, (above, left, corner, right, across) = mixer.values, around
    z, last, seen, energy, counts = progress
    place = ZIGZAG[z]
    v, u = place >> 3, place & 7
    north, west = np.int64(above[place]), np.int64(left[place])
    northwest, northeast = np.int64(corner[place]), np.int64(right[place])
    neighbours = _size_class(3 * (abs(north) + abs(west)) + abs(northwest) + abs(northeast) + 1 >> 1)
    below = np.int64(block[place + 8]) if v < 7 else np.int64(0)
    beside = np.int64(block[place + 1]) if u < 7 else np.int64(0)
    inner = np.int64(block[place + 9]) if v < 7 and u < 7 else np.int64(0)
    far = abs(np.int64(block[place + 16])) if v < 6 else np.int64(0)
    far += abs(np.int64(block[place + 2])) if u < 6 else np.int64(0)
    near = _size_class(2 * (abs(below) + abs(beside)) + abs(inner) + far)
    down, side = _clipped(down, 40), _clipped(side, 40)
    other, total, both = np.int64(across[place]), _size_class(energy), _size_class(abs(down + side))
    values[0] = neighbours
    values[1] = near
    values[2] = down + 40
    values[3] = side + 40
    values[4] = _clipped(down >> 1, 7) + 7 << 4 | _clipped(side >> 1, 7) + 7
    values[5] = seen << 6 | last
    values[6] = near << 5 | neighbours
    values[7] = _clipped(north, 7) + 7 << 4 | _clipped(west, 7) + 7
    values[8] = _clipped(other, 15) + 15 << 3 | min(neighbours, 7)
    values[9] = min(near, 15) << 7 | counts
    values[10] = total << 5 | min(seen, 31)
    values[11] = _clipped(below, 7) + 7 << 4 | _clipped(beside, 7) + 7
    values[12] = total << 5 | neighbours
    values[13] = min(neighbours, 15) << 8 | min(near, 15) << 4 | min(both, 15)
    values[14] = _clipped(north + west, 15) + 15 << 5 | _clipped(down + side >> 2, 15) + 15
    values[15] = min(abs(north), 3) << 6 | min(abs(west), 3) << 4 | min(abs(northwest), 3) << 2 | min(abs(northeast), 3)
    seed = hashed(hashed(np.uint64(2), component), z)
    _set_hashes(mixer, seed, z, min(neighbours, 7) << 3 | min(near, 7), min(component, 1) << 3 | min(both, 7))
    mixer.hashes[6] = hashed(hashed(hashed(np.uint64(3), min(component, 1)), z >> 2), values[6])
    mixer.hashes[12] = hashed(hashed(hashed(np.uint64(4), min(component, 1)), z), values[12])


@part_of_loop_in_place
def _set_mean_contexts(mixer, component, progress, gap, west, north, other):
    """Set the contexts of a mean's residual."""
    values = mixer.values
    values[:] = 0
    size, total = _size_class(abs(west) + abs(north)), _size_class(progress.energy)
    values[0] = gap
    values[1] = size
    values[2] = gap << 5 | size
    values[3] = progress.last
    values[4] = total
    values[5] = _clipped(west, 15) + 15 << 5 | _clipped(north, 15) + 15
    values[6] = _clipped(west + north, 31) + 31
    values[7] = total << 5 | gap
    values[8] = _clipped(np.int64(other) >> 2, 63) + 63
    _set_hashes(mixer, hashed(np.uint64(5), component), 68 + component, 40 + min(gap, 15), 40 + min(size, 15))


@compiled
def code_differences(mixer, coder, differences):
    """Code the differences of an image from the decoded pixels: a flag for each 8 x 8 block,
    then each difference of a flagged block.

    Args:
        mixer, coder: see code_component.
        differences: -128 to 127, int16 (H, W, C), channels in the order of coding; entered if they are read.
    """
    height, width, channels = differences.shape
    flags = np.zeros((-(-height // 8) + 1, -(-width // 8) + 2), np.int64)
    for row in range(flags.shape[0] - 1):
        for column in range(flags.shape[1] - 2):
            top, left, flag = 8 * row, 8 * column, np.int64(0)
            bottom, right = min(height, top + 8), min(width, left + 8)
            for y in range(top, bottom):
                for x in range(left, right):
                    for c in range(channels):
                        flag |= np.int64(differences[y, x, c] != 0)
            near = (
                flags[row + 1, column]
                | flags[row, column + 1] << 1
                | flags[row, column] << 2
                | flags[row, column + 2] << 3
            )
            edge = np.int64(bottom - top < 8) | np.int64(right - left < 8) << 1
            _set_flag_contexts(mixer, near, edge)
            flag = _decide(mixer, coder, 0, 7, flag)
            flags[row + 1, column + 1] = flag
            if flag:
                for y in range(top, bottom):
                    for x in range(left, right):
                        for c in range(channels):
                            _set_difference_contexts(mixer, differences, y, x, c)
                            number = _code_number(mixer, coder, np.int64(differences[y, x, c]))
                            differences[y, x, c] = (number + 128 & 255) - 128


@part_of_loop_in_place
def _set_flag_contexts(mixer, near, edge):
    """Set the contexts of a block's flag."""
    values = mixer.values
    values[:] = 0
    values[0] = near
    values[1] = edge
    values[2] = near << 2 | edge
    _set_hashes(mixer, np.uint64(6), np.int64(71), np.int64(56), np.int64(56))


@part_of_loop_in_place
def _set_difference_contexts(mixer, differences, y, x, c):
    """Set the contexts of a difference."""
    values = mixer.values
    west = np.int64(differences[y, x - 1, c]) if x else np.int64(0)
    north = np.int64(differences[y - 1, x, c]) if y else np.int64(0)
    corner = np.int64(differences[y - 1, x - 1, c]) if x and y else np.int64(0)
    last = np.int64(differences[y, x, c - 1]) if c else np.int64(0)
    second = np.int64(differences[y, x, c - 2]) if c > 1 else np.int64(0)
    before = np.int64(differences[y, x - 1, c - 1]) if c and x else np.int64(0)
    near, others = _size_class(abs(west) + abs(north)), _size_class(abs(last) + abs(second))
    values[0] = near
    values[1] = west + 128 << 8 | north + 128
    values[2] = last + 128 << 8 | second + 128
    values[3] = last + 128
    values[4] = west + north + 256
    values[5] = _clipped(west, 7) + 7 << 8 | _clipped(north, 7) + 7 << 4 | _clipped(last, 7) + 7
    values[6] = _clipped(last, 7) + 7 << 8 | _clipped(second, 7) + 7 << 4 | min(near, 15)
    values[7] = (y & 7) << 3 | x & 7
    values[8] = last - before + 256 << 9 | west + 128
    values[9] = west + 128 << 8 | last + 128
    values[10] = north + 128 << 8 | last + 128
    values[11] = west + north - corner + 512
    values[12] = west + 128
    values[13] = north + 128
    values[14] = others << 5 | near
    values[15] = 0
    _set_hashes(mixer, hashed(np.uint64(7), c), 72 + c, 57 + min(near, 6), 57 + min(_size_class(abs(last)), 6))
