"""A hint to the processor: memory that a loop reads soon is loaded while it computes. No result depends on it."""

from numba import extending
from numba.core import cgutils, types
from numba.core.typing import signature

from dqcodec.base.compiled import part_of_loop_in_place

_LINE = 16  # elements of 4 bytes in a line of the cache
_READ, _KEEP, _DATA = 0, 3, 1  # arguments of llvm.prefetch


def prefetch(array, place):
    """Begin to load element `place`, an integer, of a contiguous array. Without the compiler it does nothing."""


@extending.overload(prefetch, inline="always")
def _compiled(array, place):
    return lambda array, place: _hint(array, place)


@extending.intrinsic
def _hint(typing, array, place):
    """The instruction."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = cgutils.int32_t
        kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(hint, [address, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return signature(types.void, array, types.intp), generate


@part_of_loop_in_place
def prefetch_row(array, row):
    """Begin to load a row of a contiguous array (rows, n) with elements of 4 bytes."""
    for column in range(0, array.shape[1], _LINE):
        prefetch(array, row * array.shape[1] + column)
