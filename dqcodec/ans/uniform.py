"""Uniforms of any size without loss.

The coder shares its 2^24 slots out among the n symbols of a uniform in equal parts, and leaves the rest to the last one: that
is exact where n is a power of two, but costs up to a tenth of a bit where n has 18 bits. Here the symbol is the high
part of a uniform integer of a few bits more, a power of two, and what is left of that goes back.
"""

import numpy as np

from dqcodec.ans.protocol import BitStack
from dqcodec.base.compiled import compiled
from dqcodec.frozen.ans import SPARE_BITS, UNIFORM_BITS


def push(stack: BitStack, symbols: np.ndarray, sizes: np.ndarray) -> None:
    """Push integers 0 <= symbol < size, 1 <= size <= 2^20; (N,) both.

    Raises:
        StackUnderflow: fewer bits are there than the spare ones that it borrows.
    """
    totals, low, count = _shares(symbols, sizes)
    stack.push(low + stack.pop(count), totals)


def pop(stack: BitStack, sizes: np.ndarray) -> np.ndarray:
    """Undo push: int64 integers below sizes.

    Raises:
        StackUnderflow: fewer bits are there than that takes.
    """
    totals = _totals(sizes)
    fine = stack.pop(totals)
    symbols = fine * sizes // totals
    _, low, count = _shares(symbols, sizes)
    stack.push(fine - low, count)
    return symbols


@compiled
def _totals(sizes):
    """Of how many integers those are that hold the symbols: 2^bits."""
    totals = np.empty(len(sizes), np.int64)
    for n in range(len(sizes)):
        totals[n] = 1 << SPARE_BITS
        while totals[n] >> SPARE_BITS <= sizes[n] and totals[n] < 1 << UNIFORM_BITS:
            totals[n] <<= 1
    return totals


@compiled
def _shares(symbols, sizes):
    """(totals, the first of the integers that holds each symbol, ceil(symbol 2^bits / size), how many hold it)"""
    totals = _totals(sizes)
    low, count = np.empty_like(totals), np.empty_like(totals)
    for n in range(len(sizes)):
        low[n] = -(-symbols[n] * totals[n] // sizes[n])
        count[n] = -(-(symbols[n] + 1) * totals[n] // sizes[n]) - low[n]
    return totals, low, count
