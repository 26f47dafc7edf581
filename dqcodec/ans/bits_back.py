"""Bits-back coding of x through a latent v = x + u (Townsend et al. 2019; for dequantization local bits-back, Ho, Lohn and
Abbeel 2019).

One sample of u reaches the vi bound.
"""

from typing import Protocol

import numpy as np

from dqcodec.ans.logarithms import ONE
from dqcodec.ans.protocol import BitStack


class Dequantizer(Protocol):
    """q(u|x), exact on integers."""

    def pop(self, stack: BitStack, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sample v in the bins of x, (B, ...) int64, by decoding it.

        Returns:
            v (B, ...) int64, log2 q(u|x) of each image (B,) float64.

        Raises StackUnderflow: the stack holds too few bits.
        """

    def push(self, stack: BitStack, v: np.ndarray, x: np.ndarray) -> None:
        """Undo pop."""

    def quantize(self, v: np.ndarray) -> np.ndarray:
        """The symbols x whose bins hold v."""


class Density(Protocol):
    """p(v) as a codec, exact on integers."""

    def push(self, stack: BitStack, v: np.ndarray) -> np.ndarray:
        """Code v, (B, ...) int64.

        Returns:
            -log2 p(v) of each image, (B,) int64, fixed point (ans.logarithms).
        """

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push: v of `count` images.

        Raises StackUnderflow: the stack holds too few bits.
        """


class BitsBack:
    """The codec of x at the vi bound."""

    def __init__(self, dequantizer: Dequantizer, density: Density):
        self.dequantizer, self.density = dequantizer, density

    def push(self, stack: BitStack, x: np.ndarray) -> np.ndarray:
        """Code symbols x, (B, H, W, C) int64.

        Returns:
            The cost of each image by the model, -log2 p(x+u) + log2 q(u|x), (B,) float64, bits.

        Raises StackUnderflow: the stack holds fewer bits than a sample of u borrows.
        """
        v, log2_q = self.dequantizer.pop(stack, x)
        return self.density.push(stack, v) / ONE + log2_q

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push: x of `count` images.

        Raises StackUnderflow: the stack holds too few bits.
        """
        v = self.density.pop(stack, count, height, width)
        x = self.dequantizer.quantize(v)
        self.dequantizer.push(stack, v, x)
        return x
