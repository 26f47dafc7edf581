"""The symbols and sizes that a stack takes."""

import numpy as np

from dqcodec.ans.protocol import MAX_SIZE
from dqcodec.base.compiled import compiled
from dqcodec.base.errors import SymbolError


def checked_sizes(sizes: np.ndarray | int) -> tuple[np.ndarray, int]:
    """(sizes as int32 (N,), the least of them; MAX_SIZE of none).

    Raises SymbolError: a size is not from 1 to MAX_SIZE.
    """
    if isinstance(sizes, int) and 1 <= sizes <= MAX_SIZE:
        return np.array([sizes], np.int32), sizes
    flat = _flat(sizes)
    narrow = np.empty(len(flat), np.int32)
    least = _narrow(flat, narrow)
    if least < 1:
        raise SymbolError(f"a stack codes symbols of sizes from 1 to {MAX_SIZE}")
    return narrow, least


def checked_symbols(symbols: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Symbols as int32 (N,), below checked sizes, (N,) or one for all.

    Raises SymbolError: a symbol is negative or not below its size.
    """
    flat = _flat(symbols)
    narrow = np.empty(len(flat), np.int32)
    if not _narrow_below(flat, sizes, narrow):
        raise SymbolError("a symbol is negative or not below its size")
    return narrow


def _flat(numbers: np.ndarray | int) -> np.ndarray:
    """Numbers as int64 (N,). Those that do not fit become too large for a size, or negative."""
    return np.ravel(numbers).astype(np.int64, copy=False)


@compiled
def _narrow(sizes, narrow):
    """Set narrow to sizes; returns the least of them, or 0."""
    least = MAX_SIZE
    for n in range(len(sizes)):
        if not 1 <= sizes[n] <= MAX_SIZE:
            return 0
        least = min(least, sizes[n])
        narrow[n] = sizes[n]
    return least


@compiled
def _narrow_below(symbols, sizes, narrow):
    last = len(sizes) - 1
    for n in range(len(symbols)):
        if not 0 <= symbols[n] < sizes[min(n, last)]:
            return False
        narrow[n] = symbols[n]
    return True
