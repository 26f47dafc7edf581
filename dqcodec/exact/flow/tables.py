"""Laws as integer tables: frequencies for the high bits of a grid integer, a uniform for its low bits.

Everything is coded with uniforms alone. A symbol s of frequency f_s out of 2^P is coded by popping r below f_s and
pushing c_s + r below 2^P (c = cumulated frequencies): net bits log2(2^P / f_s).
"""

from dataclasses import dataclass

import numpy as np

from dqcodec.ans.logarithms import log2
from dqcodec.ans.protocol import BitStack
from dqcodec.base.errors import LatentOverflow, ModelError
from dqcodec.frozen.ans import LOG2_BITS
from dqcodec.frozen.flow import CHUNKS, ESCAPE_WORDS, MIN_CHUNK, PRECISION, WORD_BITS

_MAX_ESCAPE_BITS = ESCAPE_WORDS * WORD_BITS


def loan_chunks(count: int) -> list[slice]:
    """Parts of an array that are coded one after the other, so that what is borrowed meanwhile stays small."""
    size = max(MIN_CHUNK, -(-count // CHUNKS))
    return [slice(start, start + size) for start in range(0, count, size)]


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
        if f.ndim != 1 or len(f) < 3 or f.min() < 1 or f.max() > 1 << PRECISION or f.sum() != 1 << PRECISION or not 0 <= self.low_bits <= 22:
            raise ModelError("a frequency table is not one")
        if abs(self.first) > 1 << 24:
            raise ModelError("a frequency table lies too far out")
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(f)[:-1]]).astype(np.int64))
        slots = np.repeat(np.arange(len(f), dtype=np.int32), f)
        object.__setattr__(self, "symbol_of_slot", slots)
        object.__setattr__(self, "costs", (PRECISION + self.low_bits << LOG2_BITS) - log2(f))

    def push(self, stack: BitStack, g: np.ndarray) -> None:
        """Code grid integers (any shape).

        Raises:
            LatentOverflow: one lies 2^48 cells or more outside the table.
        """
        flat = g.ravel()
        for part in loan_chunks(flat.size):
            self._push_chunk(stack, flat[part])

    def pop(self, stack: BitStack, shape: tuple[int, ...]) -> np.ndarray:
        """Undo push: int64 grid integers."""
        flat = np.empty(shape, np.int64).ravel()
        for part in reversed(loan_chunks(flat.size)):
            flat[part] = self._pop_chunk(stack, flat[part].size)
        return flat.reshape(shape)

    def cost(self, g: np.ndarray) -> np.ndarray:
        """What push takes for each image of grid integers (B, ...), (B,) int64 in fixed point (ans.logarithms)."""
        cell = (g >> self.low_bits) - self.first
        symbol = cell.clip(0, len(self.frequencies) - 1)
        costs, escaped = self.costs[symbol], self._escaped(symbol)
        if escaped.any():
            costs[escaped] += _escape_costs(np.abs(cell[escaped] - symbol[escaped]))
        return costs.reshape(len(g), -1).sum(1)

    def _push_chunk(self, stack: BitStack, g: np.ndarray) -> None:
        cell = (g >> self.low_bits) - self.first
        last = len(self.frequencies) - 1
        symbol = cell.clip(0, last)
        escaped = self._escaped(symbol)
        if escaped.any():
            self._push_escapes(stack, np.abs(cell[escaped] - symbol[escaped]))
        elif not self.unbounded and (cell != symbol).any():
            raise LatentOverflow("a latent lies outside the support of its law")
        stack.push(g & ((1 << self.low_bits) - 1), 1 << self.low_bits)
        r = stack.pop(self.frequencies[symbol])
        stack.push(self.starts[symbol] + r, 1 << PRECISION)

    def _pop_chunk(self, stack: BitStack, count: int) -> np.ndarray:
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
        return self.unbounded & ((symbol == 0) | (symbol == len(self.frequencies) - 1))

    @staticmethod
    def _push_escapes(stack: BitStack, distance: np.ndarray) -> None:
        """How many cells escaped integers lie beyond their end cell: the bit count of each, and the bits after its
        leading one."""
        if (distance >> _MAX_ESCAPE_BITS).any():
            raise LatentOverflow("a latent lies too far out to be coded")
        count = _bit_length(distance)
        rest = distance - ((1 << count) >> 1)
        for word in range(ESCAPE_WORDS):
            stack.push((rest >> (word * WORD_BITS)) & (_word_sizes(count, word) - 1), _word_sizes(count, word))
        stack.push(count, _MAX_ESCAPE_BITS + 1)

    @staticmethod
    def _pop_escapes(stack: BitStack, number: int) -> np.ndarray:
        count = stack.pop(_MAX_ESCAPE_BITS + 1, (number,))
        rest = np.zeros(number, np.int64)
        for word in reversed(range(ESCAPE_WORDS)):
            rest += stack.pop(_word_sizes(count, word)) << (word * WORD_BITS)
        return ((1 << count) >> 1) + rest


def _bit_length(numbers: np.ndarray) -> np.ndarray:
    """0 -> 0, 1 -> 1, 2 and 3 -> 2, ...: exact below 2^53."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


def _escape_costs(distance: np.ndarray) -> np.ndarray:
    """What _push_escapes takes for each."""
    return log2(np.array(_MAX_ESCAPE_BITS + 1)) + (np.maximum(_bit_length(distance) - 1, 0) << LOG2_BITS)


def _word_sizes(bit_count: np.ndarray, word: int) -> np.ndarray:
    """How many values the word-th 16 bits can take of a number of that many bits, its leading one left out."""
    return 1 << np.clip(bit_count - 1 - word * WORD_BITS, 0, WORD_BITS)


def logistic_bits(g: np.ndarray, grid_bits: int) -> np.ndarray:
    """log2 of dy/du for u = sigmoid(y), y = g 2^-grid_bits, summed over each image, (B,) float64; for the report alone."""
    z = np.abs(g.reshape(len(g), -1)).astype(np.float32) * np.float32(2.0**-grid_bits)
    return (z + 2 * np.log1p(np.exp(-z))).sum(1, dtype=np.float64) / np.log(2)
