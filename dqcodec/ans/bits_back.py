"""Bits-back coding of x through a latent v = x + u (Townsend et al. 2019; Ho et al. 2019 for dequantization).

With one sample of u it takes the vi bound, with K coupled ones the importance-weighted bound of K samples (Burda et al. 2016;
Ruan et al. 2021 for codes by Monte Carlo): particle k is a bijection of the one u that is borrowed, so that K of them
borrow no more than one does.
"""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np

from dqcodec.ans.logarithms import ONE, exp2
from dqcodec.ans.protocol import BitStack
from dqcodec.frozen.flow import CHOICE_BITS

_WEIGHED_AT_ONCE = 1 << 18  # dimensions


class Dequantizer(Protocol):
    """Q: u given x, exact on integers."""

    def pop(self, stack: BitStack, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sample v in the bins of x (B, ...) by decoding it -> (v, log2 q(u|x) of each image, (B,) float64)."""

    def push(self, stack: BitStack, v: np.ndarray, x: np.ndarray) -> None:
        """Undo pop."""

    def quantize(self, v: np.ndarray) -> np.ndarray:
        """The x whose bin holds v."""


class UniformDequantizer(Dequantizer, Protocol):
    """Q under which all of a bin is alike."""

    fraction_bits: int

    def shift(self, v: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """v, moved within its bin by offsets of 2^-fraction_bits; the negative offsets move it back."""


class Density(Protocol):
    """P: a codec for v, exact on integers."""

    def push(self, stack: BitStack, v: np.ndarray) -> np.ndarray:
        """Code v (B, ...) -> -log2 p(v) of each image, (B,) int64 in fixed point (ans.logarithms)."""

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push."""


class BitsBack:
    """The codec of x: push returns the bits that the model says each image costs, -log2 p(x+u) + log2 q(u|x), (B,) float64."""

    def __init__(self, dequantizer: Dequantizer, density: Density):
        self.dequantizer, self.density = dequantizer, density

    def push(self, stack: BitStack, x: np.ndarray) -> np.ndarray:
        v, log2_q = self.dequantizer.pop(stack, x)
        return self.density.push(stack, v) / ONE + log2_q

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        v = self.density.pop(stack, count, height, width)
        x = self.dequantizer.quantize(v)
        self.dequantizer.push(stack, v, x)
        return x


class CoupledBitsBack:
    """The codec of x at the importance-weighted bound: push returns -log2 of the mean of p(x + u_k) over K particles.

    u is popped; the particles are u_k = u + c_k modulo the bin's width, with constants c_k; one, j, is popped under its
    weight, pushed as one of K alike, and v_j = x + u_j is coded. Given v_j and j, the decoder finds u, thus all particles
    and weights. These are integers (ans.logarithms), computed alike on both sides: the latents' remainders, which the
    stack gives when v_j is coded, are the middle ones for the weights.
    """

    def __init__(self, dequantizer: UniformDequantizer, density: Density, particles: int):
        self.dequantizer, self.density, self.particles = dequantizer, density, particles

    def push(self, stack: BitStack, x: np.ndarray) -> np.ndarray:
        v, _ = self.dequantizer.pop(stack, x)
        offsets = self._offsets(x.shape[1:])
        weights = self._weights(v, offsets)
        starts, sizes = _shares(weights)
        slots = stack.pop(1 << CHOICE_BITS, (len(x),))
        chosen = (slots[:, None] >= starts[:, 1:]).sum(1)
        images = np.arange(len(x))
        stack.push(slots - starts[images, chosen], sizes[images, chosen])
        stack.push(chosen, self.particles)
        self.density.push(stack, self.dequantizer.shift(v, offsets[chosen]))
        largest = weights.max(1)
        return np.log2(self.particles) - np.log2(np.exp2((weights - largest[:, None]) / ONE).sum(1)) - largest / ONE

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        v = self.density.pop(stack, count, height, width)
        offsets = self._offsets(v.shape[1:])
        chosen, images = stack.pop(self.particles, (count,)), np.arange(count)
        v = self.dequantizer.shift(v, -offsets[chosen])
        starts, sizes = _shares(self._weights(v, offsets))
        remainders = stack.pop(sizes[images, chosen])
        stack.push(starts[images, chosen] + remainders, 1 << CHOICE_BITS)
        x = self.dequantizer.quantize(v)
        self.dequantizer.push(stack, v, x)
        return x

    def _offsets(self, shape: tuple[int, ...]) -> np.ndarray:
        return coupling(self.particles, shape, self.dequantizer.fraction_bits)

    def _weights(self, v: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """log2 p of every particle of each image, (B, K) int64 in fixed point."""
        pairs, step = len(v) * self.particles, max(1, _WEIGHED_AT_ONCE // v[0].size)
        costs = []
        for first in range(0, pairs, step):
            image, particle = np.divmod(np.arange(first, min(first + step, pairs)), self.particles)
            costs.append(self.density.push(MiddleStack(), self.dequantizer.shift(v[image], offsets[particle])))
        return -np.concatenate(costs).reshape(len(v), -1)


class MiddleStack:
    """A BitStack that keeps nothing: every pop gives the middle."""

    def push(self, symbols: np.ndarray, sizes: np.ndarray | int) -> None:
        pass

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        return np.full(shape, sizes >> 1, np.int64) if np.ndim(sizes) == 0 else sizes >> 1


def _shares(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the first, how many) of 2^CHOICE_BITS slots for each particle, in proportion to its weight, at least one; (B, K)."""
    images, particles = weights.shape
    powers = exp2(weights - weights.max(1, keepdims=True))
    total = (1 << CHOICE_BITS) - particles
    sizes = 1 + powers * total // powers.sum(1, keepdims=True)
    # what rounding leaves goes to the heaviest
    sizes[np.arange(images), weights.argmax(1)] += (1 << CHOICE_BITS) - sizes.sum(1)
    return np.cumsum(sizes, 1) - sizes, sizes


@lru_cache(8)
def coupling(particles: int, shape: tuple[int, ...], fraction_bits: int) -> np.ndarray:
    """c_k of every dimension, (K, *shape) int64 below 2^fraction_bits; c_0 = 0.

    In every dimension the particles lie evenly spread, in an order of its own: so their mean tells more than that of
    independent ones. The order is that of hashes of (k, dimension): splitmix64 of their number (Steele et al. 2014).
    """
    dims = math.prod(shape)
    number = np.arange(1, particles * dims + 1, dtype=np.uint64).reshape(particles, dims)
    mixed = number * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    places = np.argsort(np.argsort(mixed ^ mixed >> np.uint64(31), 0, "stable"), 0, "stable")
    turns = (places - places[0]) % particles
    return ((turns << fraction_bits) // particles).reshape(particles, *shape)
