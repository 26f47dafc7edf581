"""The interface of a stack of bits. Codecs and integer programs use it with any engine behind it."""

from typing import Protocol

import numpy as np

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

        Raises SymbolError: a symbol or a size is out of range; then nothing is pushed.
        """

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Pop int64 integers below sizes.

        Args:
            sizes: an array, which gives the shape of the result, or one number, with the shape in `shape`.

        Raises StackUnderflow: the stack holds too few bits; SymbolError: a size is out of
        range, 1 to MAX_SIZE; then nothing is popped.
        """


class ImageCodec(Protocol):
    """A codec of images with one shape, on any stack. x is (B, H, W, C) with C = `channels`, integers.

    The images are coded independently. Values from 0 to 2^bits - 1 are pixels; a codec may refuse others (ValueError).
    """

    channels: int
    bits: int

    def push_images(self, stack: BitStack, x: np.ndarray) -> None:
        """Push images.

        Raises StackUnderflow: the stack holds fewer bits than the codec borrows;
        LatentOverflow: the model cannot code these images.
        """

    def pop_images(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push_images: int64 images, (count, height, width, C).

        Raises StackUnderflow, LatentOverflow, CorruptError: the stack does not hold such images.
        """
