"""Products of matrices of short integers, twice as fast as those of floats.

Processors of the family x86 have an instruction that multiplies 16-bit integers two by two, and adds the two products. It
takes both numbers of a pair from one 32-bit number, so matrices are stored as pairs. Nothing rounds: if the sums fit in 32 bits,
they are exact.
"""

import platform
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dqcodec.base.compiled import part_of_loop

IS_FAST = platform.machine().lower() in {"x86_64", "amd64"}  # elsewhere, products of floats are used
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
        left, right, sums = (
            context.make_array(kind)(context, builder, value) for kind, value in zip(signature.args[:3], arguments)
        )
        row, first = arguments[3:]
        lanes = _lanes(context)
        step = min(width, _VECTORS[lanes] * lanes)
        for start in range(0, width, step):
            column = builder.add(first, first.type(start))
            _multiply(context, builder, (left, right, sums), (row, column), lanes, step // lanes)
        return context.get_dummy_value()

    return generate


def _lanes(context) -> int:
    """The 32-bit lanes of the longest vectors that the processor multiplies so."""
    features = context.codegen()._tm_features.split(",")
    return 16 if "+avx512bw" in features else 8 if "+avx2" in features else 4


def _multiply(context, builder, matrices, place, lanes: int, vectors: int) -> None:
    """Generate: set the block of sums (_ROWS, vectors lanes) at a place (row, column)."""
    left, right, sums = matrices
    row, column = place
    numbers, index = ir.VectorType(ir.IntType(32), lanes), row.type
    halves = ir.VectorType(ir.IntType(16), 2 * lanes)
    instruction = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(numbers, [halves, halves]), _INSTRUCTIONS[lanes]
    )

    def place_of(matrix, i, j):
        """A pointer to the element (i, j)."""
        strides = cgutils.unpack_tuple(builder, matrix.strides)
        offset = builder.add(builder.mul(i, strides[0]), builder.mul(j, strides[1]))
        return cgutils.pointer_add(builder, matrix.data, offset)

    def vector_at(matrix, i, vector):
        pointer = place_of(matrix, i, builder.add(column, index(vector * lanes)))
        return builder.bitcast(pointer, numbers.as_pointer())

    totals = [[cgutils.alloca_once_value(builder, numbers(None)) for _ in range(vectors)] for _ in range(_ROWS)]
    for of_row in totals:
        for total in of_row:
            builder.store(numbers(None), total)
    with cgutils.for_range(builder, cgutils.unpack_tuple(builder, right.shape)[0]) as loop:
        k = loop.index
        factors = [builder.bitcast(builder.load(vector_at(right, k, v), align=4), halves) for v in range(vectors)]
        for i, of_row in enumerate(totals):
            number = builder.load(place_of(left, k, builder.add(row, index(i))))
            everywhere = builder.insert_element(numbers(ir.Undefined), number, ir.IntType(32)(0))
            everywhere = builder.shuffle_vector(everywhere, numbers(ir.Undefined), numbers([0] * lanes))
            everywhere = builder.bitcast(everywhere, halves)
            for factor, total in zip(factors, of_row):
                builder.store(builder.add(builder.load(total), builder.call(instruction, [factor, everywhere])), total)
    for i, of_row in enumerate(totals):
        for v, total in enumerate(of_row):
            pointer = vector_at(sums, builder.add(row, index(i)), v)
            builder.store(builder.load(total), pointer, align=4)


_set_wide_block, _set_narrow_block = _block(_WIDE), _block(_COLUMNS)
