"""The interface of a stack of bits. Codecs and integer programs use it with any engine behind it."""

from typing import Protocol

import numpy as np


class BitStack(Protocol):
    """A stack: last in, first out. A pop undoes a push, and the bits of the stack are the same as before.

    A symbol is an integer below a size, coded as uniform. Codecs for other distributions consist of uniforms, see
    dqcodec.exact.flow.tables.
    """

    def push(self, symbols: np.ndarray, sizes: np.ndarray | int) -> None:
        """Push integers, 0 <= symbol < size.

        Args:
            symbols: any shape. sizes: one number, or an array of that shape; 1 <= size <= 2^23.
        """

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Pop int64 integers below sizes.

        Args:
            sizes: an array, which gives the shape of the result, or one number, with the shape in `shape`.

        Raises:
            StackUnderflow: the stack holds too few bits.
        """
