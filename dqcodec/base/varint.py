"""Varints: unsigned numbers in base 128, 7 bits a byte, low bits first. The high bit is set on each byte except the
last.

Only the shortest form is valid, at most 5 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from dqcodec.base.errors import CorruptError

if TYPE_CHECKING:
    import numpy as np

Numbers = TypeVar("Numbers", int, "np.ndarray")

MAX_BYTES = 5


def folded(values: Numbers) -> Numbers:
    """Signed numbers as unsigned ones, the sign in the lowest bit: 0, -1, 1, -2 -> 0, 1, 2, 3. An int, or int64 of any
    shape; magnitudes below 2^62."""
    return values << 1 ^ values >> 63


def unfolded(codes: Numbers) -> Numbers:
    """The inverse of folded."""
    return codes >> 1 ^ -(codes & 1)


def write_varint(value: int) -> bytes:
    """The varint of 0 <= value < 2^35."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a varint at `position`: (value, position after it).

    Raises CorruptError: the data end, or the number is not in its shortest form, or longer than 5 bytes.
    """
    value = 0
    for index, byte in enumerate(data[position : position + MAX_BYTES]):
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            if index and not byte:
                break
            return value, position + index + 1
    raise CorruptError("malformed number")
