"""Instructions of the processor that Python has no words for, as parts of compiled loops."""

import itertools
import platform
from collections.abc import Callable

from llvmlite import ir
from numba import config, extending, types
from numba.core import cgutils

_TO_READ = 0, 3, 1  # arguments of llvm.prefetch: to read, in all caches, data

# Processors of the family x86 multiply two pairs of 16-bit integers, each in a 32-bit number, and add the two products
MULTIPLIES_PAIRS = platform.machine().lower() in {"x86_64", "amd64"} and not config.DISABLE_JIT
ROWS, LANES = 4, 16  # of blocks of sums; no vector has more lanes
_INSTRUCTIONS = {
    16: "llvm.x86.avx512.pmaddw.d.512",
    8: "llvm.x86.avx2.pmadd.wd",
    4: "llvm.x86.sse2.pmadd.wd",
}  # by lanes
_VECTORS = {16: 4, 8: 2, 4: 2}  # of a row that are multiplied together: there are registers for their sums


def prefetch(array, place):
    """Begin to load element `place`, an integer, of a contiguous array, which a loop reads soon.

    This is a hint to the processor: no result depends on it. Python does nothing.
    """


@extending.overload(prefetch, inline="always")
def _prefetch(array, place):
    return lambda array, place: _hint(array, place)


@extending.intrinsic
def _hint(typing, array, place):
    """The processor's instruction for prefetch."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = cgutils.int32_t
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(hint, [address, *map(number, _TO_READ)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def sums_of_pairs(vectors: int) -> Callable:
    """A part of loops: set_block(left, right, sums, row, column) sets a block of sums,
    (ROWS, vectors LANES), from (row, column) on.

    sums[m, n], int32, is the sum over k of the products of left[k, m] and right[k, n], int32. Each of these two holds a
    pair. Rows of `right` and `sums` are contiguous. Only loops call it, and only if MULTIPLIES_PAIRS.
    """

    @extending.intrinsic
    def set_block(_, left, right, sums, row, column):
        return types.void(left, right, sums, row, column), _generator(vectors * LANES)

    return set_block


def _generator(width: int) -> Callable:
    def generate(context, builder, signature, arguments):
        if MULTIPLIES_PAIRS:  # else there is no such instruction, and nothing calls it
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
    """The 32-bit lanes of the longest vectors that the processor multiplies so; 4 if numba does not say what it has."""
    features = getattr(context.codegen(), "_tm_features", "").split(",")
    return 16 if "+avx512bw" in features else 8 if "+avx2" in features else 4


def _multiply(context, builder, matrices, place, lanes: int, vectors: int) -> None:
    """Generate: set the block (ROWS, vectors lanes) of sums at a place (row, column)."""
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

    totals = [[cgutils.alloca_once(builder, numbers) for _ in range(vectors)] for _ in range(ROWS)]
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
