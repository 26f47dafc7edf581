"""Uniform symbols of any size, almost without loss.

The coder divides its 2^24 slots among the n symbols of a uniform into equal parts, and gives the remainder to the last
symbol. This is exact if n is a power of two, but costs up to 0.1 bit if n has 18 bits. Here the symbol is the high part
of a uniform integer below a power of two, which has a few more bits; the low part is popped from the stack.
"""

import numpy as np

from dqcodec.ans.protocol import BitStack
from dqcodec.base.compiled import compiled
from dqcodec.frozen.ans import SPARE_BITS, UNIFORM_BITS


def push(stack: BitStack, symbols: np.ndarray, sizes: np.ndarray) -> None:
    """Push int64 integers 0 <= symbol < size, 1 <= size <= 2^20; both (N,).

    Raises StackUnderflow: the stack holds fewer bits than the spare ones that a push borrows.
    """
    totals, low, count = _shares(symbols, sizes)
    stack.push(low + stack.pop(count), totals)


def pop(stack: BitStack, sizes: np.ndarray) -> np.ndarray:
    """Undo push: int64 integers below sizes, (N,).

    Raises StackUnderflow: the stack holds too few bits.
    """
    totals = _totals(sizes)
    fine = stack.pop(totals)
    symbols = fine * sizes // totals
    _, low, count = _shares(symbols, sizes)
    stack.push(fine - low, count)
    return symbols


@compiled
def _totals(sizes):
    """For each size, the power of two below which the larger integer lies."""
    totals = np.full(len(sizes), 1 << SPARE_BITS, np.int64)
    for bits in range(UNIFORM_BITS - SPARE_BITS):
        for n in range(len(sizes)):
            totals[n] <<= sizes[n] >> bits > 0
    return totals


@compiled
def _shares(symbols, sizes):
    """(totals, the first integer of each symbol, ceil(symbol total / size), the number of its integers).

    A float64 holds symbol total < 2^43, and its quotient by a size is rounded to no other integer.
    """
    totals = _totals(sizes)
    low, count = np.empty_like(totals), np.empty_like(totals)
    for n in range(len(sizes)):
        low[n] = np.int64(np.ceil(np.float64(symbols[n] * totals[n]) / np.float64(sizes[n])))
        count[n] = np.int64(np.ceil(np.float64((symbols[n] + 1) * totals[n]) / np.float64(sizes[n]))) - low[n]
    return totals, low, count
