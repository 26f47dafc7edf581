"""Bits-back coding of x through a latent v = x + u (Townsend et al. 2019; Ho et al. 2019 for dequantization)."""

from typing import Protocol

import numpy as np

from dqcodec.ans.protocol import BitStack


class Dequantizer(Protocol):
    """Q: u given x, exact on integers."""

    def pop(self, stack: BitStack, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Sample v in the bin of x by decoding it -> (v, log2 q(u|x))."""

    def push(self, stack: BitStack, v: np.ndarray, x: np.ndarray) -> None:
        """Undo pop."""

    def quantize(self, v: np.ndarray) -> np.ndarray:
        """The x whose bin holds v."""


class Density(Protocol):
    """P: a codec for v, exact on integers."""

    def push(self, stack: BitStack, v: np.ndarray) -> float:
        """Code v -> -log2 p(v)."""

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push."""


class BitsBack:
    """The codec of x: push returns the bits that the model says it costs, -log2 p(x+u) + log2 q(u|x)."""

    def __init__(self, dequantizer: Dequantizer, density: Density):
        self.dequantizer, self.density = dequantizer, density

    def push(self, stack: BitStack, x: np.ndarray) -> float:
        v, log2_q = self.dequantizer.pop(stack, x)
        return self.density.push(stack, v) + log2_q

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        v = self.density.pop(stack, count, height, width)
        x = self.dequantizer.quantize(v)
        self.dequantizer.push(stack, v, x)
        return x
