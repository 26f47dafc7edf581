"""The interface of a stack of bits. Codecs and integer programs use it with any engine behind it."""

from typing import Protocol

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.base.errors import SymbolError

MAX_SIZE = 1 << 23  # of a symbol's alphabet


class BitStack(Protocol):
    """A stack: last in, first out. A pop undoes a push, and the bits of the stack are the same as before.

    A symbol is an integer below a size, coded as uniform. Codecs for other distributions consist of uniforms, see
    dqcodec.exact.flow.tables.
    """

    def push(self, symbols: np.ndarray, sizes: np.ndarray | int) -> None:
        """Push integers, 0 <= symbol < size.

        Args:
            symbols: any shape. sizes: one number, or an array of that shape; 1 <= size <= MAX_SIZE.

        Raises:
            SymbolError: a symbol or a size is out of range; then nothing is pushed.
        """

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Pop int64 integers below sizes.

        Args:
            sizes: an array, which gives the shape of the result, or one number, with the shape in `shape`.

        Raises:
            StackUnderflow: the stack holds too few bits.
            SymbolError: a size is out of range, 1 to MAX_SIZE; then nothing is popped.
        """


class ImageCodec(Protocol):
    """A codec of images with one shape, on any stack. x is (B, H, W, C) with C = `channels`, integers.

    The images are coded independently. Values from 0 to 2^bits - 1 are pixels; a codec may refuse others (ValueError).
    """

    channels: int
    bits: int

    def push_images(self, stack: BitStack, x: np.ndarray) -> None:
        """Push images.

        Raises:
            StackUnderflow: the stack holds fewer bits than the codec borrows.
            LatentOverflow: the model cannot code these images.
        """

    def pop_images(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push_images: int64 images, (count, height, width, C).

        Raises:
            StackUnderflow, LatentOverflow, CorruptError: the stack does not hold such images.
        """


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
