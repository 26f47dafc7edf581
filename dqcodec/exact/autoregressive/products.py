"""Products of matrices of short integers, faster than those of floats.

A processor may have an instruction that multiplies 16-bit integers two by two, and adds the two products. It takes both
from one 32-bit number, so matrices are stored as pairs. Nothing rounds: if the sums fit in 32 bits, they are exact.
Without the instruction (MULTIPLIES_PAIRS), products of floats are used.
"""

import numpy as np

from dqcodec.base.compiled import part_of_loop
from dqcodec.base.instructions import LANES, ROWS, sums_of_pairs

LARGEST = (1 << 15) - 1  # integer of a pair

_VECTORS = 4  # of a row that are set together
_WIDE = _VECTORS * LANES
_set_wide_block, _set_narrow_block = sums_of_pairs(_VECTORS), sums_of_pairs(1)


@part_of_loop
def pairs(a):
    """The rows of a matrix of integers up to LARGEST, two by two, int32 (ceil(K / 2), N').

    a: (K, N), of any type. N' is N, rounded up to whole vectors. Numbers that are not in `a` are zeros.
    """
    count, width = a.shape
    packed = np.zeros(((count + 1) // 2, -(-width // LANES) * LANES), np.int32)
    for k in range(count // 2):
        for n in range(width):
            packed[k, n] = np.int32(a[2 * k, n]) & 0xFFFF | np.int32(a[2 * k + 1, n]) << 16
    if count % 2:
        for n in range(width):
            packed[-1, n] = np.int32(a[-1, n]) & 0xFFFF
    return packed


@part_of_loop
def column_pairs(a):
    """The pairs of the transpose of a matrix (N, K). As the right factor of a product they must be made contiguous."""
    rows, columns = a.shape
    halves = np.zeros((-(-rows // LANES) * LANES, -(-columns // 2) * 2), np.int16)
    for n in range(rows):
        for k in range(columns):
            halves[n, k] = np.int16(a[n, k])
    return halves.view(np.int32).T


@part_of_loop
def product(left, right, rows):
    """The sums over k of a[k, m] b[k, n], int32 (M', N'), M' >= rows, for the pairs of a (K, M)
    and b (K, N). Columns after N are zeros.

    left: the pairs of a. right: the pairs of b, contiguous. rows: M.
    """
    rows, columns = -(-rows // ROWS) * ROWS, right.shape[1]
    sums = np.empty((rows, columns), np.int32)
    wide = columns // _WIDE * _WIDE
    for row in range(0, rows, ROWS):
        for column in range(wide, columns, LANES):
            _set_narrow_block(left, right, sums, row, column)
    for column in range(0, wide, _WIDE):
        for row in range(0, rows, ROWS):
            _set_wide_block(left, right, sums, row, column)
    return sums
