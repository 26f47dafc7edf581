"""Products of matrices of short integers, twice as fast as those of floats.

Processors of the family x86 have an instruction that multiplies 16-bit integers two by two, and adds the two products. It
takes both numbers of a pair from one 32-bit number, so matrices are stored as pairs. Nothing rounds: if the sums fit in 32 bits,
they are exact.
"""

import itertools
import platform
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from dqcodec.base.compiled import part_of_loop

# elsewhere, products of floats are used
IS_FAST = platform.machine().lower() in {"x86_64", "amd64"} and not config.DISABLE_JIT
LARGEST = (1 << 15) - 1  # number that a pair holds

_ROWS = 4  # of a product that are computed together
_COLUMNS = 16  # the widths of matrices are multiples of this; all vectors have at most as many lanes
_WIDE = 64
_INSTRUCTIONS = {
    16: "llvm.x86.avx512.pmaddw.d.512",
    8: "llvm.x86.avx2.pmadd.wd",
    4: "llvm.x86.sse2.pmadd.wd",
}  # by lanes
_VECTORS = {16: 4, 8: 2, 4: 2}  # that are multiplied together with the rows, as many as there are registers for


@part_of_loop
def pairs(a):
    """The rows of a matrix of integers up to LARGEST, two by two, int32 (ceil(K / 2), N').

    a: (K, N), of any type. N' is N, rounded up to whole vectors. Numbers that are not in `a` are zeros.
    """
    count, width = a.shape
    packed = np.zeros(((count + 1) // 2, -(-width // _COLUMNS) * _COLUMNS), np.int32)
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
    halves = np.zeros((-(-rows // _COLUMNS) * _COLUMNS, -(-columns // 2) * 2), np.int16)
    for n in range(rows):
        for k in range(columns):
            halves[n, k] = np.int16(a[n, k])
    return halves.view(np.int32).T


@part_of_loop
def product(left, right, rows):
    """The sums over k of a[k, m] b[k, n], int32 (M', N'), M' >= rows, for the pairs of a (K, M) and b (K, N). Columns after N are zeros.

    left: the pairs of a. right: the pairs of b, contiguous. rows: M.
    """
    rows, columns = -(-rows // _ROWS) * _ROWS, right.shape[1]
    sums = np.empty((rows, columns), np.int32)
    wide = columns // _WIDE * _WIDE
    for row in range(0, rows, _ROWS):
        for column in range(wide, columns, _COLUMNS):
            _set_narrow_block(left, right, sums, row, column)
    for column in range(0, wide, _WIDE):
        for row in range(0, rows, _ROWS):
            _set_wide_block(left, right, sums, row, column)
    return sums


def _block(width: int) -> Callable:
    """A part of compiled loops that sets a block of a product, (_ROWS, width) from (row, column) on."""

    @intrinsic
    def set_block(_, left, right, sums, row, column):
        return types.void(left, right, sums, row, column), _generator(width)

    return set_block


def _generator(width: int) -> Callable:
    def generate(context, builder, signature, arguments):
        if IS_FAST:  # else nothing calls it
            kinds, (*values, row, first) = signature.args, arguments
            matrices = [context.make_array(kind)(context, builder, value) for kind, value in zip(kinds, values)]
            lanes = _lanes(context)
            step = min(width, _VECTORS[lanes] * lanes)
            for start in range(0, width, step):
                place = row, builder.add(first, first.type(start))
                _multiply(context, builder, matrices, place, lanes, step // lanes)
        return context.get_dummy_value()

    return generate


def _lanes(context) -> int:
    """The 32-bit lanes of the longest vectors that the processor multiplies so."""
    features = context.codegen()._tm_features.split(",")
    return 16 if "+avx512bw" in features else 8 if "+avx2" in features else 4


def _multiply(context, builder, matrices, place, lanes: int, vectors: int) -> None:
    """Generate: set the block (_ROWS, vectors lanes) of sums at a place (row, column)."""
    left, right, sums = matrices
    row, column = place
    index, number = row.type, ir.IntType(32)
    numbers, halves = ir.VectorType(number, lanes), ir.VectorType(ir.IntType(16), 2 * lanes)
    kind = ir.FunctionType(numbers, [halves, halves])
    instruction = cgutils.get_or_insert_function(builder.module, kind, _INSTRUCTIONS[lanes])

    def pointer_to(matrix, i, j):
        strides = cgutils.unpack_tuple(builder, matrix.strides)
        offset = builder.add(builder.mul(i, strides[0]), builder.mul(j, strides[1]))
        return cgutils.pointer_add(builder, matrix.data, offset)

    def pointer_to_vector(matrix, i, v):
        pointer = pointer_to(matrix, i, builder.add(column, index(v * lanes)))
        return builder.bitcast(pointer, numbers.as_pointer())

    totals = [[cgutils.alloca_once(builder, numbers) for _ in range(vectors)] for _ in range(_ROWS)]
    for total in itertools.chain(*totals):
        builder.store(numbers(None), total)  # zeros
    with cgutils.for_range(builder, cgutils.unpack_tuple(builder, right.shape)[0]) as loop:
        vectors_of_right = [builder.load(pointer_to_vector(right, loop.index, v), align=4) for v in range(vectors)]
        for i, of_row in enumerate(totals):
            factor = builder.load(pointer_to(left, loop.index, builder.add(row, index(i))))
            factor = builder.insert_element(numbers(ir.Undefined), factor, number(0))
            factor = builder.shuffle_vector(factor, numbers(ir.Undefined), numbers([0] * lanes))  # in all lanes
            for vector, total in zip(vectors_of_right, of_row):
                products = builder.call(instruction, [builder.bitcast(each, halves) for each in (vector, factor)])
                builder.store(builder.add(builder.load(total), products), total)
    for i, of_row in enumerate(totals):
        for v, total in enumerate(of_row):
            pointer = pointer_to_vector(sums, builder.add(row, index(i)), v)
            builder.store(builder.load(total), pointer, align=4)


_set_wide_block, _set_narrow_block = _block(_WIDE), _block(_COLUMNS)
