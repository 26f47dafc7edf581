"""Images coded at the importance-weighted bound of K coupled samples of u, called particles (Burda et al. 2016; Ruan et
al. 2021).

Each particle is a bijection of one uniform u, so that K particles borrow the same number of bits as one. The package
decodes such images. The encoder is benchmarks/paper/particles.py.
"""

import math
from functools import lru_cache
from typing import Protocol

import numpy as np

from dqcodec.ans.bits_back import Density, Dequantizer
from dqcodec.ans.logarithms import exp2
from dqcodec.ans.protocol import BitStack
from dqcodec.frozen.flow import CHOICE_BITS

_CHUNK_DIMS = 1 << 18  # dimensions of the particles in one call of the density


class UniformDequantizer(Dequantizer, Protocol):
    """A dequantizer with a uniform q, so that all places of a bin are equally likely."""

    fraction_bits: int

    def shift(self, v: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Move v within its bin by offsets, modulo the bin's width. The negative offsets undo it.

        Args:
            offsets: int64, in units of 2^-fraction_bits.
        """


class CoupledBitsBack:
    """The codec of x at the importance-weighted bound of K particles, its decoding half.

    The encoder pops u. The particles are u_k = u + c_k modulo the bin's width, with constants c_k. It then pops the
    index j of one particle under the weights p(x + u_k), pushes j as uniform, and codes v_j = x + u_j. The decoder gets
    u, and hence all particles and weights, from v_j and j.

    Encoder and decoder compute the weights in integers (ans.logarithms). Coding v_j also pops remainders from the
    stack; for the weights, the middle remainders replace them.
    """

    def __init__(self, dequantizer: UniformDequantizer, density: Density, particles: int):
        self.dequantizer, self.density, self.particles = dequantizer, density, particles

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Decode x of `count` images.

        Raises StackUnderflow: the stack holds too few bits.
        """
        v = self.density.pop(stack, count, height, width)
        offsets = self.offsets(v.shape[1:])
        chosen, images = stack.pop(self.particles, (count,)), np.arange(count)
        v = self.dequantizer.shift(v, -offsets[chosen])
        starts, sizes = shares(self.weights(v, offsets))
        remainders = stack.pop(sizes[images, chosen])
        stack.push(starts[images, chosen] + remainders, 1 << CHOICE_BITS)
        x = self.dequantizer.quantize(v)
        self.dequantizer.push(stack, v, x)
        return x

    def offsets(self, shape: tuple[int, ...]) -> np.ndarray:
        """The offset of each particle in each dimension of an image of this shape, (K, *shape) int64."""
        return coupled_offsets(self.particles, shape, self.dequantizer.fraction_bits)

    def weights(self, v: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """log2 p of each particle of each image, (B, K) int64, fixed point.

        Args:
            v: the first particle of each image, (B, ...) int64. offsets: see above.
        """
        pairs, step = len(v) * self.particles, max(1, _CHUNK_DIMS // v[0].size)
        costs = []
        for first in range(0, pairs, step):
            image, particle = np.divmod(np.arange(first, min(first + step, pairs)), self.particles)
            costs.append(self.density.push(MiddleStack(), self.dequantizer.shift(v[image], offsets[particle])))
        return -np.concatenate(costs).reshape(len(v), -1)


class MiddleStack:
    """A BitStack that stores nothing. Every pop gives the middle of the range."""

    def push(self, symbols: np.ndarray, sizes: np.ndarray | int) -> None:
        """Ignore the symbols."""

    def pop(self, sizes: np.ndarray | int, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """size // 2 for every symbol, int64."""
        return np.full(shape, sizes >> 1, np.int64) if np.ndim(sizes) == 0 else sizes >> 1


def shares(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first slot, number of slots) of each particle, (B, K) int64, out of 2^CHOICE_BITS.

    The number is proportional to the weight, and at least 1.
    """
    images, particles = weights.shape
    powers = exp2(weights - weights.max(1, keepdims=True))
    total = (1 << CHOICE_BITS) - particles
    sizes = 1 + powers * total // powers.sum(1, keepdims=True)
    # the heaviest particle gets the slots that rounding leaves
    sizes[np.arange(images), weights.argmax(1)] += (1 << CHOICE_BITS) - sizes.sum(1)
    return np.cumsum(sizes, 1) - sizes, sizes


@lru_cache(8)
def coupled_offsets(particles: int, shape: tuple[int, ...], fraction_bits: int) -> np.ndarray:
    """The offset c_k of each dimension, (K, *shape) int64 below 2^fraction_bits, with c_0 = 0.

    In each dimension the particles are evenly spaced, in an order of its own. So their mean estimates better than that
    of independent samples. Hashes of (k, dimension) give the order: splitmix64 of a running number (Steele, Lea
    and Flood 2014).
    """
    dims = math.prod(shape)
    number = np.arange(1, particles * dims + 1, dtype=np.uint64).reshape(particles, dims)
    mixed = number * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    places = np.argsort(np.argsort(mixed ^ mixed >> np.uint64(31), 0, "stable"), 0, "stable")
    steps = (places - places[0]) % particles
    return ((steps << fraction_bits) // particles).reshape(particles, *shape)
