"""What codecs and exact programs ask of a stack of bits, whatever engine is below it."""

from typing import Protocol

import numpy as np

from dqcodec.base.errors import SymbolError

MAX_SIZE = 1 << 23


class BitStack(Protocol):
    """Last in, first out. All that is ever coded is an integer below a size, taken as uniform: any other law is made
    of uniforms (see dqcodec.exact.flow.tables). push and pop undo each other, the stack's bits included."""

    def push(self, symbols: np.ndarray, sizes: np.ndarray | int) -> None:
        """Push integers 0 <= symbol < size (any shape; sizes a number or an array of that shape), 1 <= size <= MAX_SIZE.

        Raises:
            SymbolError: a symbol or a size is another; nothing is pushed.
        """

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Pop int64 integers below sizes: an array's shape, or `shape` with one size for all.

        Raises:
            StackUnderflow: fewer bits are there than that takes.
            SymbolError: a size is not one of 1 to MAX_SIZE; nothing is popped.
        """


class ImageCodec(Protocol):
    """A codec of images of one shape, on any stack: x is (B, H, W, C), integers, and C is `channels`.

    No image helps to code another. Values from 0 to 2^bits - 1 are pixels; a codec may refuse others (ValueError).
    """

    channels: int
    bits: int

    def push_images(self, stack: BitStack, x: np.ndarray) -> None:
        """Push images; raises StackUnderflow if the stack cannot lend enough, LatentOverflow if the model cannot code them."""

    def pop_images(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push_images: int64 images; raises StackUnderflow, LatentOverflow, CorruptError if the stack holds none."""


def check_sizes(sizes: np.ndarray | int) -> None:
    """Raise SymbolError unless 1 <= size <= MAX_SIZE."""
    if np.size(sizes) and not (np.min(sizes) >= 1 and np.max(sizes) <= MAX_SIZE):
        raise SymbolError(f"a stack codes symbols of sizes from 1 to {MAX_SIZE}")


def check_symbols(symbols: np.ndarray, sizes: np.ndarray | int) -> None:
    """Raise SymbolError unless 0 <= symbol < size and 1 <= size <= MAX_SIZE; arrays of one shape, or one size for all."""
    check_sizes(sizes)
    if symbols.size and (symbols.min() < 0 or (symbols >= sizes).any()):
        raise SymbolError("a symbol is negative or not below its size")
