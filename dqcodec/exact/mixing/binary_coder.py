"""A binary arithmetic coder, as that of Mahoney (2005): bits with probabilities, coded one by one, in 32 bits.

The interval starts as 0 to 2^32 - 1. A bit's probability divides it in two parts, and the bit keeps one of them.
Leading bytes that both ends share are written. A decoder divides the interval in the same way, so it finds the bits.
"""

import math
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.base.errors import CorruptError, DqcodecError

_LOW, _HIGH, _VALUE, POSITION = range(4)
_FRESH = (0, 0xFFFFFFFF, 0, 0)


class BinaryCoder(NamedTuple):
    """Writes or reads a code.

    Attributes:
        state: the interval's ends, the code's value in it, and the bytes written or read, int64 (4,).
        code: the bytes, uint8.
        is_sought: whether bits are read; otherwise they are written.
    """

    state: np.ndarray
    code: np.ndarray
    is_sought: bool

    @classmethod
    def writer(cls, most_bytes: int) -> "BinaryCoder":
        """A coder that writes. most_bytes: the largest length of the code."""
        return cls(np.array(_FRESH), np.empty(most_bytes + 8, np.uint8), False)

    @classmethod
    def reader(cls, code: bytes, symbols: int, most_a_byte: int) -> "BinaryCoder":
        """A coder that reads this number of symbols: bits, pixels or the like. Any bytes are
        a code; zeros follow their end.

        most_a_byte: of the symbols, in a byte of code. Raises CorruptError: the code is too short for all symbols.
        """
        if symbols > most_a_byte * (len(code) + 5):
            raise CorruptError("the payload is too short for its image")
        coder = cls(np.array(_FRESH), np.frombuffer(code, np.uint8).copy(), True)
        for _ in range(4):
            _read_byte(coder.state, coder.code)
        return coder

    @property
    def position(self) -> int:
        """The number of bytes that are written or read."""
        return int(self.state[POSITION])

    def finish(self) -> bytes:
        """The code, after the last bit. It ends with a number of the interval, without the number's last zero bytes.

        Raises DqcodecError: the code is longer than the writer has room for.
        """
        if self.position > len(self.code):
            raise DqcodecError("the code is longer than its bound")
        low, high = map(int, self.state[[_LOW, _HIGH]])
        numbers = (((low + (1 << zeros) - 1) >> zeros) << zeros for zeros in range(24, -1, -8))
        last = next(number for number in numbers if number <= high)
        return self.code[: self.position].tobytes() + last.to_bytes(4, "big").rstrip(b"\0")


@part_of_loop_in_place
def code_bit(coder, probability, bit):
    """Write a bit, or read it; returns it.

    Args:
        coder: a BinaryCoder, which changes.
        probability: of a 1, in 65536ths, 1 to 65535.
        bit: the bit, if it is written.
    """
    state, code = coder.state, coder.code
    low, high = state[_LOW], state[_HIGH]
    middle = low + ((high - low) * probability >> 16)
    if coder.is_sought:
        bit = np.int64(state[_VALUE] <= middle)
    if bit:
        high = middle
    else:
        low = middle + 1
    while (low ^ high) >> 24 == 0:
        if coder.is_sought:
            _read_byte(state, code)
        else:
            if state[POSITION] < len(code):
                code[state[POSITION]] = high >> 24
            state[POSITION] += 1
        low, high = low << 8 & 0xFFFFFFFF, high << 8 & 0xFFFFFFFF | 255
    state[_LOW], state[_HIGH] = low, high
    return np.int64(bit)


@part_of_loop_in_place
def bits_written(coder):
    """The bits of the code that a BinaryCoder has written so far, float64."""
    low, high = coder.state[_LOW], coder.state[_HIGH]
    return 8.0 * coder.state[POSITION] - math.log2(high - low + 1.0)


@part_of_loop_in_place
def _read_byte(state, code):
    byte = np.int64(code[state[POSITION]]) if state[POSITION] < len(code) else 0
    state[_VALUE] = state[_VALUE] << 8 & 0xFFFFFFFF | byte
    state[POSITION] += 1
