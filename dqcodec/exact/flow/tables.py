"""Probability laws as integer tables: frequencies for the high bits of a grid integer, a uniform law for its low bits.

Only uniform symbols are pushed and popped. A symbol s of frequency f_s out of 2^P is coded in two steps: pop r below
f_s, then push c_s + r below 2^P, where c_s is the sum of the frequencies before s. The net cost is log2(2^P / f_s)
bits.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dqcodec.ans.logarithms import log2
from dqcodec.ans.protocol import BitStack
from dqcodec.base.errors import LatentOverflow, ModelError
from dqcodec.frozen.ans import LOG2_BITS
from dqcodec.frozen.flow import CHUNKS, ESCAPE_WORDS, MIN_CHUNK, PRECISION, WORD_BITS

_MAX_ESCAPE_BITS = ESCAPE_WORDS * WORD_BITS


def loan_chunks(count: int) -> list[slice]:
    """Parts of an array of `count` elements. Coded one after the other, each borrows few bits before it pays them back."""
    size = max(MIN_CHUNK, -(-count // CHUNKS))
    return [slice(start, start + size) for start in range(0, count, size)]


def growing_chunks(coded: int, count: int, growth: int) -> list[slice]:
    """Parts of `count` symbols, for a stack that holds nothing but `coded` symbols. A part has one symbol for each 2^growth
    symbols before it, and one at least.

    2^growth symbols pay the loan of one more. So images of little code need more growth.
    """
    chunks, start = [], 0
    while start < count:
        size = min(max(1, coded + start >> growth), MIN_CHUNK, count - start)
        chunks.append(slice(start, start + size))
        start += size
    return chunks


@dataclass(frozen=True)
class TableLaw:
    """A law on grid integers g: its cell (g >> low_bits) - first has a frequency; its low_bits low bits are uniform.

    frequencies: (n,) positive int64, with sum 2^20. unbounded: the first and the last cell also stand for all integers
    below and above the table. A law that is sampled by popping random bits must be bounded.
    """

    frequencies: np.ndarray
    first: int
    low_bits: int
    unbounded: bool = True

    def __post_init__(self):
        """Raise ModelError unless the table is valid."""
        f = self.frequencies
        total = 1 << PRECISION
        is_law = f.ndim == 1 and len(f) >= 3 and f.min() >= 1 and f.max() <= total and f.sum() == total
        if not is_law or not 0 <= self.low_bits <= (14 if self.unbounded else 22):  # integers stay below 2^63
            raise ModelError("a frequency table is not valid")
        if abs(self.first) > 1 << 24:
            raise ModelError("a frequency table starts too far from 0")

    @cached_property
    def starts(self) -> np.ndarray:
        """The first slot of each cell, int64 (n,)."""
        return np.cumsum(self.frequencies, dtype=np.int64) - self.frequencies

    @cached_property
    def symbol_of_slot(self) -> np.ndarray:
        """The number of the cell of each slot, int32 (2^20,)."""
        return np.repeat(np.arange(len(self.frequencies), dtype=np.int32), self.frequencies)

    @cached_property
    def costs(self) -> np.ndarray:
        """The bits that an integer of each cell takes, int64 (n,) in fixed point."""
        return (PRECISION + self.low_bits << LOG2_BITS) - log2(self.frequencies)

    def push(self, stack: BitStack, g: np.ndarray) -> None:
        """Code grid integers, int64 of any shape.

        Raises LatentOverflow: an integer is 2^48 cells or more outside of the table, or outside of a bounded table;
        StackUnderflow: the stack is too short for the first loan.
        """
        flat = g.ravel()
        for part in loan_chunks(flat.size):
            self._push_chunk(stack, flat[part])

    def pop(self, stack: BitStack, shape: tuple[int, ...]) -> np.ndarray:
        """The inverse of push: int64 grid integers of `shape`. Raises StackUnderflow."""
        flat = np.empty(shape, np.int64).ravel()
        for part in reversed(loan_chunks(flat.size)):
            flat[part] = self._pop_chunk(stack, flat[part].size)
        return flat.reshape(shape)

    def cost(self, g: np.ndarray) -> np.ndarray:
        """Grid integers (B, ...) -> the bits that push takes for each image, (B,) int64 in fixed point
        (ans.logarithms)."""
        cell = (g >> self.low_bits) - self.first
        symbol = cell.clip(0, len(self.frequencies) - 1)
        costs, escaped = self.costs[symbol], self._escaped(symbol)
        if escaped.any():
            costs[escaped] += _escape_costs(np.abs(cell[escaped] - symbol[escaped]))
        return costs.reshape(len(g), -1).sum(1)

    def _push_chunk(self, stack: BitStack, g: np.ndarray) -> None:
        """Code a part, (N,) int64."""
        cell = (g >> self.low_bits) - self.first
        last = len(self.frequencies) - 1
        symbol = cell.clip(0, last)
        escaped = self._escaped(symbol)
        if escaped.any():
            self._push_escapes(stack, np.abs(cell[escaped] - symbol[escaped]))
        elif not self.unbounded and (cell != symbol).any():
            raise LatentOverflow("a latent is outside of the support of its law")
        stack.push(g & ((1 << self.low_bits) - 1), 1 << self.low_bits)
        r = stack.pop(self.frequencies[symbol])
        stack.push(self.starts[symbol] + r, 1 << PRECISION)

    def _pop_chunk(self, stack: BitStack, count: int) -> np.ndarray:
        """The inverse of _push_chunk."""
        slot = stack.pop(1 << PRECISION, (count,))
        symbol = self.symbol_of_slot[slot].astype(np.int64)
        stack.push(slot - self.starts[symbol], self.frequencies[symbol])
        low = stack.pop(1 << self.low_bits, (count,))
        escaped = self._escaped(symbol)
        if escaped.any():
            distance = self._pop_escapes(stack, int(escaped.sum()))
            symbol[escaped] += np.where(symbol[escaped] == 0, -distance, distance)
        return ((symbol + self.first) << self.low_bits) + low

    def _escaped(self, symbol: np.ndarray) -> np.ndarray:
        """Whether each symbol is an end cell of an unbounded law."""
        return self.unbounded & ((symbol == 0) | (symbol == len(self.frequencies) - 1))

    @staticmethod
    def _push_escapes(stack: BitStack, distance: np.ndarray) -> None:
        """Code distances from the end cell, in cells: first the bits after the leading 1, then the number of bits."""
        if (distance >> _MAX_ESCAPE_BITS).any():
            raise LatentOverflow("a latent is too large to be coded")
        count = _bit_length(distance)
        rest = distance - ((1 << count) >> 1)
        for word in range(ESCAPE_WORDS):
            stack.push((rest >> (word * WORD_BITS)) & (_word_sizes(count, word) - 1), _word_sizes(count, word))
        stack.push(count, _MAX_ESCAPE_BITS + 1)

    @staticmethod
    def _pop_escapes(stack: BitStack, number: int) -> np.ndarray:
        """The inverse of _push_escapes."""
        count = stack.pop(_MAX_ESCAPE_BITS + 1, (number,))
        rest = np.zeros(number, np.int64)
        for word in reversed(range(ESCAPE_WORDS)):
            rest += stack.pop(_word_sizes(count, word)) << (word * WORD_BITS)
        return ((1 << count) >> 1) + rest


def _bit_length(numbers: np.ndarray) -> np.ndarray:
    """The number of binary digits: 0 -> 0, 1 -> 1, 2 and 3 -> 2. Exact below 2^53."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def _escape_costs(distance: np.ndarray) -> np.ndarray:
    """The bits that _push_escapes takes for each distance, in fixed point."""
    return log2(np.array(_MAX_ESCAPE_BITS + 1)) + (np.maximum(_bit_length(distance) - 1, 0) << LOG2_BITS)


def _word_sizes(bit_count: np.ndarray, word: int) -> np.ndarray:
    """The number of values of 16-bit word number `word`, for numbers of `bit_count` bits without the leading 1."""
    return 1 << np.clip(bit_count - 1 - word * WORD_BITS, 0, WORD_BITS)


def logistic_bits(g: np.ndarray, grid_bits: int) -> np.ndarray:
    """log2 of dy/du for u = sigmoid(y), y = g 2^-grid_bits, summed over each image: (B,) float64. Only for reports."""
    z = np.abs(g.reshape(len(g), -1)).astype(np.float32) * np.float32(2.0**-grid_bits)
    return (z + 2 * np.log1p(np.exp(-z))).sum(1, dtype=np.float64) / np.log(2)
