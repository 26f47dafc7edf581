"""The symbols and sizes that a stack takes."""

import numpy as np

from dqcodec.ans.protocol import MAX_SIZE
from dqcodec.base.compiled import compiled
from dqcodec.base.errors import SymbolError


def check_sizes(sizes: np.ndarray | int) -> None:
    """Check that 1 <= size <= MAX_SIZE.

    Raises:
        SymbolError: a size is out of range.
    """
    if not _are_sizes(_flat(sizes)):
        raise SymbolError(f"a stack codes symbols of sizes from 1 to {MAX_SIZE}")


def check_symbols(symbols: np.ndarray, sizes: np.ndarray | int) -> None:
    """Check that 0 <= symbol < size and 1 <= size <= MAX_SIZE, for arrays of one shape, or one size for all.

    Raises:
        SymbolError: a symbol or a size is out of range.
    """
    check_sizes(sizes)
    if not _are_symbols(_flat(symbols), _flat(sizes)):
        raise SymbolError("a symbol is negative or not below its size")


def _flat(numbers: np.ndarray | int) -> np.ndarray:
    """Numbers as int64 (N,). Those that do not fit become too large for a size, or negative."""
    return np.ravel(numbers).astype(np.int64, copy=False)


@compiled
def _are_sizes(sizes):
    for n in range(len(sizes)):
        if not 1 <= sizes[n] <= MAX_SIZE:
            return False
    return True


@compiled
def _are_symbols(symbols, sizes):
    last = len(sizes) - 1
    for n in range(len(symbols)):
        if not 0 <= symbols[n] < sizes[min(n, last)]:
            return False
    return True
