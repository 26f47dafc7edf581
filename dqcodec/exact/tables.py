"""Laws as integer tables: frequencies for the high bits of a grid integer, a uniform for its low bits.

Everything is coded with uniforms alone. A symbol s of frequency f_s out of 2^P is coded by popping r below f_s and
pushing c_s + r below 2^P (c = cumulated frequencies): net bits log2(2^P / f_s).
"""

from dataclasses import dataclass

import numpy as np

from dqcodec.ans.stack import Stack
from dqcodec.errors import LatentOverflow, ModelError

PRECISION = 20  # P: frequencies sum to 2^P
LOAN_CHUNK = 1 << 12  # elements coded at a time: bounds what is borrowed meanwhile
ESCAPE_WORDS, ESCAPE_WORD_BITS = 3, 16  # an integer outside the table is told in 48 more bits


@dataclass(frozen=True)
class TableLaw:
    """A law on integers: cell (g >> low_bits) - first of a table, then low_bits uniform bits.

    frequencies: (n,) positive, sum 2^20. Where `unbounded`, the first and the last cell hold everything below and
    above the others; else there is nothing, as a law must have it that is sampled by popping it off random bits.
    """

    frequencies: np.ndarray
    first: int
    low_bits: int
    unbounded: bool = True

    def __post_init__(self):
        f = self.frequencies
        if f.ndim != 1 or len(f) < 3 or f.min() < 1 or f.sum() != 1 << PRECISION or not 0 <= self.low_bits <= 22:
            raise ModelError("a frequency table is not one")
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(f)[:-1]]).astype(np.int64))
        slots = np.repeat(np.arange(len(f), dtype=np.int32), f)
        object.__setattr__(self, "symbol_of_slot", slots)

    def push(self, stack: Stack, g: np.ndarray) -> None:
        """Code grid integers (any shape).

        Raises:
            LatentOverflow: one lies more than 2^47 cells outside the table.
        """
        flat = g.ravel()
        for start in range(0, flat.size, LOAN_CHUNK):
            self._push_chunk(stack, flat[start : start + LOAN_CHUNK])

    def pop(self, stack: Stack, shape: tuple[int, ...]) -> np.ndarray:
        """Undo push: int64 grid integers."""
        flat = np.empty(shape, np.int64).ravel()
        for start in reversed(range(0, flat.size, LOAN_CHUNK)):
            flat[start : start + LOAN_CHUNK] = self._pop_chunk(stack, flat[start : start + LOAN_CHUNK].size)
        return flat.reshape(shape)

    def _push_chunk(self, stack: Stack, g: np.ndarray) -> None:
        cell = (g >> self.low_bits) - self.first
        last = len(self.frequencies) - 1
        symbol = cell.clip(0, last)
        escaped = self._escaped(symbol)
        if escaped.any():
            self._push_escapes(stack, cell[escaped] - symbol[escaped])
        elif not self.unbounded and (cell != symbol).any():
            raise LatentOverflow("a latent lies outside the support of its law")
        stack.push(g & ((1 << self.low_bits) - 1), 1 << self.low_bits)
        r = stack.pop(self.frequencies[symbol])
        stack.push(self.starts[symbol] + r, 1 << PRECISION)

    def _pop_chunk(self, stack: Stack, count: int) -> np.ndarray:
        slot = stack.pop(1 << PRECISION, (count,))
        symbol = self.symbol_of_slot[slot].astype(np.int64)
        stack.push(slot - self.starts[symbol], self.frequencies[symbol])
        low = stack.pop(1 << self.low_bits, (count,))
        escaped = self._escaped(symbol)
        if escaped.any():
            symbol[escaped] += self._pop_escapes(stack, int(escaped.sum()))
        return ((symbol + self.first) << self.low_bits) + low

    def _escaped(self, symbol: np.ndarray) -> np.ndarray:
        return self.unbounded & ((symbol == 0) | (symbol == len(self.frequencies) - 1))

    @staticmethod
    def _push_escapes(stack: Stack, excess: np.ndarray) -> None:
        """excess: how many cells an escaped integer lies beyond its end cell, signed."""
        half = 1 << (ESCAPE_WORDS * ESCAPE_WORD_BITS - 1)
        if (np.abs(excess) >= half).any():
            raise LatentOverflow("a latent lies too far out to be coded")
        for word in range(ESCAPE_WORDS):
            stack.push(((excess + half) >> (word * ESCAPE_WORD_BITS)) & 0xFFFF, 1 << ESCAPE_WORD_BITS)

    @staticmethod
    def _pop_escapes(stack: Stack, count: int) -> np.ndarray:
        excess = np.zeros(count, np.int64)
        for _ in range(ESCAPE_WORDS):
            excess = (excess << ESCAPE_WORD_BITS) | stack.pop(1 << ESCAPE_WORD_BITS, (count,))
        return excess - (1 << (ESCAPE_WORDS * ESCAPE_WORD_BITS - 1))
