"""Uniforms of any size without loss.

The coder shares its 2^24 slots out among the n symbols of a uniform in equal parts, and leaves the rest to the last one: that
is exact where n is a power of two, but costs up to a tenth of a bit where n has 18 bits. Here the symbol is the high
part of a uniform integer of a few bits more, a power of two, and what is left of that goes back.
"""

import numpy as np

from dqcodec.ans.stack import Stack

_MAX_BITS = 23
_SPARE_BITS = 11


def push(stack: Stack, symbols: np.ndarray, sizes: np.ndarray) -> None:
    """Push integers 0 <= symbol < size, 1 <= size <= 2^20; (N,) both.

    Raises:
        StackUnderflow: fewer bits are there than the spare ones that it borrows.
    """
    bits = _bits(sizes)
    low, high = _share(symbols, sizes, bits), _share(symbols + 1, sizes, bits)
    stack.push(low + stack.pop(high - low), 1 << bits)


def pop(stack: Stack, sizes: np.ndarray) -> np.ndarray:
    """Undo push: int64 integers below sizes.

    Raises:
        StackUnderflow: fewer bits are there than that takes.
    """
    bits = _bits(sizes)
    fine = stack.pop(1 << bits)
    symbols = (fine * sizes) >> bits
    low, high = _share(symbols, sizes, bits), _share(symbols + 1, sizes, bits)
    stack.push(fine - low, high - low)
    return symbols


def _bits(sizes: np.ndarray) -> np.ndarray:
    """Of the integer that holds the symbol."""
    return np.minimum(np.frexp(sizes.astype(np.float64))[1].astype(np.int64) + _SPARE_BITS, _MAX_BITS)


def _share(symbols: np.ndarray, sizes: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The first of the 2^bits integers that holds the symbol: ceil(symbol 2^bits / size)."""
    return -((-symbols.astype(np.int64) << bits) // sizes)
