"""Exact bijections on (grid integers, stack), twins of dqcodec.flows.transforms and couplings.

Latents are int64 arrays (B, H, W, C) on a grid of 2^-K. forward is data -> latent. Both directions change the stack;
each undoes the other, stack included. forward returns the bits that its Jacobian is worth, -log2|det|.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dqcodec.ans.stack import Stack
from dqcodec.errors import LatentOverflow, ModelError
from dqcodec.exact.networks import LOG_SCALE_BOUND, map_batch, to_input
from dqcodec.exact.tables import LOAN_CHUNK

SCALE_BITS = 10  # r: scales are R / S, R = 2^r
R = 1 << SCALE_BITS
MAX_LATENT = 1 << 38  # beyond, sums and products might leave 2^63
SHEAR_BITS = 14


class ExactTransform(Protocol):
    def forward(self, g: np.ndarray, stack: Stack) -> tuple[np.ndarray, float]:
        """Data -> (latent, bits of the Jacobian)."""

    def inverse(self, g: np.ndarray, stack: Stack) -> np.ndarray:
        """Latent -> data, undoing forward."""


def check_range(g: np.ndarray) -> None:
    """Raises LatentOverflow where a latent leaves the range for which the arithmetic is proven."""
    if g.size and (g.max() >= MAX_LATENT or g.min() <= -MAX_LATENT):
        raise LatentOverflow("a latent leaves the proven range")


def scale(g: np.ndarray, size: np.ndarray, stack: Stack) -> np.ndarray:
    """g -> about g R / size (the modular scale transform of iFlow, Zhang et al. 2021). Shapes are equal."""
    check_range(g)
    flat, sizes = g.ravel(), size.ravel()
    out = np.empty_like(flat)
    for start in range(0, len(flat), LOAN_CHUNK):
        part = slice(start, start + LOAN_CHUNK)
        t = (flat[part] << SCALE_BITS) + stack.pop(R, flat[part].shape)
        out[part], remainder = divmod_exact(t, sizes[part])
        stack.push(remainder, sizes[part])
    return out.reshape(g.shape)


def unscale(g: np.ndarray, size: np.ndarray, stack: Stack) -> np.ndarray:
    """Undo scale."""
    check_range(g)
    flat, sizes = g.ravel(), size.ravel()
    out = np.empty_like(flat)
    for start in reversed(range(0, len(flat), LOAN_CHUNK)):
        part = slice(start, start + LOAN_CHUNK)
        t = flat[part] * sizes[part] + stack.pop(sizes[part])
        out[part] = t >> SCALE_BITS
        stack.push(t & (R - 1), R)
    return out.reshape(g.shape)


def divmod_exact(t: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Floor division of int64 by positive sizes: a float64 quotient, off by at most one, set right by its remainder."""
    quotient = np.floor(t / size).astype(np.int64)
    remainder = t - quotient * size
    low, high = remainder < 0, remainder >= size
    quotient += high
    quotient -= low
    remainder += size * (low.astype(np.int64) - high)
    return quotient, remainder


class ScaleTable:
    """log-scale indices -> sizes S = R exp(log_scale): what the net's raw output means, computed once at export."""

    def __init__(self, sizes: np.ndarray):
        if len(sizes) != 2 * LOG_SCALE_BOUND + 1 or sizes.min() < 1 or sizes.max() >= 1 << 18:
            raise ModelError("the scale table is not one")
        self.sizes = sizes.astype(np.int64)
        self.bits = np.log2(self.sizes / R)  # what forward gains, for the report alone

    def __call__(self, index: np.ndarray) -> tuple[np.ndarray, float]:
        """Indices -> (sizes, the sum of their log2 S/R in bits)."""
        index = index.astype(np.int64) + LOG_SCALE_BOUND
        return self.sizes[index], float(self.bits[index].sum())


def split_output(output: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A net's (B, H, W, 2C) integers -> (m on the latent grid, raw log-scale indices)."""
    m, raw = np.split(output, 2, -1)
    return m.astype(np.int64), raw


class Affine:
    """The step that all conditional layers share: forward z = (x - m) R/S, [m, S] from net outputs."""

    def __init__(self, scales: ScaleTable):
        self.scales = scales

    def forward(self, x: np.ndarray, output: np.ndarray, stack: Stack) -> tuple[np.ndarray, float]:
        m, raw = split_output(output)
        size, bits = self.scales(raw)
        return scale(x - m, size, stack), bits

    def inverse(self, z: np.ndarray, output: np.ndarray, stack: Stack) -> tuple[np.ndarray, float]:
        """-> (x, the bits that forward at x would report)."""
        m, raw = split_output(output)
        size, bits = self.scales(raw)
        return unscale(z, size, stack) + m, bits


class AffineCoupling:
    """Twin of flows.couplings.AffineCoupling."""

    def __init__(self, net: Callable[..., np.ndarray], kept: int, affine: Affine, grid_bits: int):
        self.net, self.kept, self.affine, self.grid_bits = net, kept, affine, grid_bits

    def _output(self, g1, context):
        inputs = (to_input(g1, self.grid_bits),) + (() if context is None else (context,))
        return map_batch(self.net, *inputs)

    def forward(self, g, stack, context=None):
        g1, g2 = g[..., : self.kept], g[..., self.kept :]
        z2, bits = self.affine.forward(g2, self._output(g1, context), stack)
        return np.concatenate([g1, z2], -1), bits

    def inverse(self, g, stack, context=None):
        return self.inverse_and_bits(g, stack, context)[0]

    def inverse_and_bits(self, g, stack, context=None):
        """inverse, and the bits that forward would report."""
        g1, g2 = g[..., : self.kept], g[..., self.kept :]
        x2, bits = self.affine.inverse(g2, self._output(g1, context), stack)
        return np.concatenate([g1, x2], -1), bits


class Squeeze:
    """Twin of flows.transforms.Squeeze: channel 4c + 2i + j is pixel (i, j) of each 2x2 block."""

    def forward(self, g, stack=None):
        batch, height, width, channels = g.shape
        blocks = g.reshape(batch, height // 2, 2, width // 2, 2, channels)
        return blocks.transpose(0, 1, 3, 5, 2, 4).reshape(batch, height // 2, width // 2, 4 * channels), 0.0

    def inverse(self, g, stack=None):
        batch, height, width, channels = g.shape
        blocks = g.reshape(batch, height, width, channels // 4, 2, 2)
        return blocks.transpose(0, 1, 4, 2, 5, 3).reshape(batch, 2 * height, 2 * width, channels // 4)


class Conv1x1:
    """Twin of flows.transforms.Conv1x1, P L D U: two shears, a scale per channel, a permutation.

    lower, upper: int (C, C), strictly triangular, on a grid of 2^-14. sizes: (C,) S of the diagonal |d| = R/S;
    negative: (C,) bool, where d < 0. A shear adds floor of an integer sum to one channel at a time, thus is undone
    by subtracting the same.
    """

    def __init__(self, permutation, lower, upper, sizes, negative):
        channels = len(permutation)
        if channels > 128 or sorted(permutation) != list(range(channels)) or lower.shape != (channels, channels):
            raise ModelError("a 1x1 convolution's tensors do not fit together")
        if sizes is not None and (sizes.shape != (channels,) or sizes.min() < 1 or sizes.max() >= 1 << 18):
            raise ModelError("a 1x1 convolution's tensors are not valid")
        if max(np.abs(lower).max(), np.abs(upper).max()) >= 1 << 17:
            raise ModelError("a 1x1 convolution's weights are too large")
        self.permutation = np.asarray(permutation)
        self.inverse_permutation = np.argsort(self.permutation)
        self.lower, self.upper = lower.astype(np.int64), upper.astype(np.int64)
        self.sizes = None if sizes is None else sizes.astype(np.int64)
        self.sign = np.where(negative, -1, 1)
        self.bits = 0.0 if sizes is None else float(np.log2(self.sizes / R).sum())

    @staticmethod
    def _shift(g, row, start, stop):
        """Exact in any order: |g| < 2^38, |weights| < 2^17 and at most 128 channels keep the int64 sum below 2^62."""
        return (g[..., start:stop] @ row[start:stop] + (1 << (SHEAR_BITS - 1))) >> SHEAR_BITS

    def forward(self, g, stack):
        check_range(g)
        g = g.copy()
        channels = g.shape[-1]
        for i in range(channels - 1):  # U x, from the first row: later channels are still untouched
            g[..., i] += self._shift(g, self.upper[i], i + 1, channels)
        if self.sizes is not None:
            g = scale(g * self.sign, np.broadcast_to(self.sizes, g.shape), stack)
        check_range(g)
        for i in reversed(range(1, channels)):  # L x, from the last row
            g[..., i] += self._shift(g, self.lower[i], 0, i)
        positions = g.size // channels
        return g[..., self.permutation], self.bits * positions

    def inverse(self, g, stack):
        check_range(g)
        g = g[..., self.inverse_permutation]
        channels = g.shape[-1]
        for i in range(1, channels):
            g[..., i] -= self._shift(g, self.lower[i], 0, i)
            check_range(g[..., i])
        if self.sizes is not None:
            g = unscale(g, np.broadcast_to(self.sizes, g.shape), stack) * self.sign
        for i in reversed(range(channels - 1)):
            g[..., i] -= self._shift(g, self.upper[i], i + 1, channels)
            check_range(g[..., i])
        return g
