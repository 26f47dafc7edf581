"""Exact bijections on (grid integers, stack): the twins of dqcodec.flows.transforms and couplings.

Latents g are int64 arrays (B, H, W, C) on a grid of 2^-K. `forward` is data -> latent, `inverse` is latent -> data.
Both change the stack, and one undoes the other, stack included. `forward` also returns the cost of the Jacobian,
-log2|det| of each image, (B,) int64 in fixed point (ans.logarithms). All raise LatentOverflow and StackUnderflow.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from dqcodec.ans.logarithms import log2
from dqcodec.ans.protocol import BitStack
from dqcodec.base.errors import LatentOverflow, ModelError
from dqcodec.exact.flow.networks import map_batch, to_input
from dqcodec.exact.flow.tables import loan_chunks
from dqcodec.frozen.ans import LOG2_BITS
from dqcodec.frozen.flow import LOG_SCALE_BOUND, MAX_LATENT, MAX_SCALE, SCALE_BITS, SHEAR_BITS, R


class ExactTransform(Protocol):
    """A bijection on (g, stack): see the module."""

    def forward(self, g: np.ndarray, stack: BitStack) -> tuple[np.ndarray, np.ndarray | int]:
        """Data g -> (latent, cost of the Jacobian)."""

    def inverse(self, g: np.ndarray, stack: BitStack) -> np.ndarray:
        """Latent g -> data: the inverse of forward."""


def check_range(g: np.ndarray) -> None:
    """Raise LatentOverflow if a latent leaves the range for which the arithmetic is proven, |g| < 2^38."""
    if g.size and (g.max() >= MAX_LATENT or g.min() <= -MAX_LATENT):
        raise LatentOverflow("a latent leaves the proven range")


def scale(g: np.ndarray, size: np.ndarray, stack: BitStack) -> np.ndarray:
    """g -> about g R / size: the modular scale transform of iFlow (Zhang et al. 2021). g and size have the same
    shape."""
    check_range(g)
    flat, sizes = g.ravel(), size.ravel()
    out = np.empty_like(flat)
    for part in loan_chunks(len(flat)):
        t = (flat[part] << SCALE_BITS) + stack.pop(R, flat[part].shape)
        out[part], remainder = divmod_exact(t, sizes[part])
        stack.push(remainder, sizes[part])
    return out.reshape(g.shape)


def unscale(g: np.ndarray, size: np.ndarray, stack: BitStack) -> np.ndarray:
    """The inverse of scale."""
    check_range(g)
    flat, sizes = g.ravel(), size.ravel()
    out = np.empty_like(flat)
    for part in reversed(loan_chunks(len(flat))):
        t = flat[part] * sizes[part] + stack.pop(sizes[part])
        out[part] = t >> SCALE_BITS
        stack.push(t & (R - 1), R)
    return out.reshape(g.shape)


def scale_cost(size: np.ndarray) -> np.ndarray:
    """log2 S/R, the bits that `scale` takes for an element, in fixed point."""
    return log2(size) - (SCALE_BITS << LOG2_BITS)


def divmod_exact(t: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(quotient, remainder) of floor division of int64 by positive sizes.

    The float64 quotient is off by at most one; its remainder corrects it.
    """
    quotient = np.floor(t / size).astype(np.int64)
    remainder = t - quotient * size
    low, high = remainder < 0, remainder >= size
    quotient += high
    quotient -= low
    remainder += size * (low.astype(np.int64) - high)
    return quotient, remainder


class Affine:
    """The affine map of all conditional layers: forward is z = (x - m) R/S. A network gives m and the raw log-scale.

    sizes: the table raw log-scale -> S = R exp(log_scale), computed at export.
    """

    def __init__(self, sizes: np.ndarray):
        """sizes: (2 LOG_SCALE_BOUND + 1,) integers. Raises ModelError."""
        if sizes.shape != (2 * LOG_SCALE_BOUND + 1,) or sizes.min() < 1 or sizes.max() >= MAX_SCALE:
            raise ModelError("the scale table is not valid")
        self.sizes = sizes.astype(np.int64)
        self.costs = scale_cost(self.sizes)

    def parameters(
        self, net: Callable[..., np.ndarray], *inputs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(m on the latent grid, S, cost of forward for each image), computed from net(*inputs), (B, H, W, 2 C)
        integers."""

        def piece(*inputs):
            m, raw = np.split(net(*inputs), 2, -1)
            index = raw.astype(np.int64) + LOG_SCALE_BOUND
            return m.astype(np.int64), self.sizes[index], self.costs[index].sum((1, 2, 3))

        return map_batch(piece, *inputs)


class AffineCoupling:
    """The twin of flows.couplings.AffineCoupling: the first channels give the affine map of the others."""

    def __init__(self, net: Callable[..., np.ndarray], kept: int, affine: Affine, grid_bits: int):
        """kept: the number of first channels. grid_bits: K of the latent grid."""
        self.net, self.kept, self.affine, self.grid_bits = net, kept, affine, grid_bits

    def _parameters(self, g1: np.ndarray, context: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        def net(g1: np.ndarray, *context: np.ndarray) -> np.ndarray:
            return self.net(to_input(g1, self.grid_bits), *context)

        return self.affine.parameters(net, g1, *([] if context is None else [context]))

    def forward(
        self, g: np.ndarray, stack: BitStack, context: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Data g -> (latent, cost of the Jacobian)."""
        g1, g2 = g[..., : self.kept], g[..., self.kept :]
        m, size, cost = self._parameters(g1, context)
        return np.concatenate([g1, scale(g2 - m, size, stack)], -1), cost

    def inverse(self, g: np.ndarray, stack: BitStack, context: np.ndarray | None = None) -> np.ndarray:
        """Latent g -> data."""
        return self.inverse_and_cost(g, stack, context)[0]

    def inverse_and_cost(
        self, g: np.ndarray, stack: BitStack, context: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(inverse, the cost that forward returns)."""
        g1, g2 = g[..., : self.kept], g[..., self.kept :]
        m, size, cost = self._parameters(g1, context)
        return np.concatenate([g1, unscale(g2, size, stack) + m], -1), cost


def squeezed(g: np.ndarray) -> np.ndarray:
    """(B, H, W, C) -> (B, H/2, W/2, 4 C), the twin of flows.transforms.Squeeze.

    Channel 4c + 2i + j is pixel (i, j) of each 2 x 2 block of channel c.
    """
    batch, height, width, channels = g.shape
    blocks = g.reshape(batch, height // 2, 2, width // 2, 2, channels)
    return blocks.transpose(0, 1, 3, 5, 2, 4).reshape(batch, height // 2, width // 2, 4 * channels)


def unsqueezed(g: np.ndarray) -> np.ndarray:
    """The inverse of squeezed: (B, H, W, 4 C) -> (B, 2 H, 2 W, C)."""
    batch, height, width, channels = g.shape
    blocks = g.reshape(batch, height, width, channels // 4, 2, 2)
    return blocks.transpose(0, 1, 4, 2, 5, 3).reshape(batch, 2 * height, 2 * width, channels // 4)


class Conv1x1:
    """The twin of flows.transforms.Conv1x1, P L D U: two shears, a scale for each channel, and a permutation.

    A shear adds a rounded sum of other channels to a channel; its inverse subtracts the same sum.
    """

    def __init__(
        self,
        permutation: Sequence[int],
        lower: np.ndarray,
        upper: np.ndarray,
        sizes: np.ndarray | None,
        negative: np.ndarray,
    ):
        """permutation: of C channels. lower, upper: int (C, C), strictly triangular, on a grid of 2^-14.

        sizes: (C,) S of the diagonal |d| = R/S, or None for |d| = 1. negative: (C,) bool, whether d < 0. Raises
        ModelError.
        """
        channels = len(permutation)
        if channels > 128 or sorted(permutation) != list(range(channels)) or lower.shape != (channels, channels):
            raise ModelError("a 1x1 convolution's tensors do not fit together")
        if sizes is not None and (sizes.shape != (channels,) or sizes.min() < 1 or sizes.max() >= MAX_SCALE):
            raise ModelError("a 1x1 convolution's tensors are not valid")
        if upper.shape != lower.shape or np.triu(lower).any() or np.tril(upper).any():
            raise ModelError("a 1x1 convolution's shears are not triangular")
        if max(np.abs(lower).max(), np.abs(upper).max()) >= 1 << 17:
            raise ModelError("a 1x1 convolution's weights are too large")
        self.permutation = np.asarray(permutation)
        self.inverse_permutation = np.argsort(self.permutation)
        self.lower, self.upper = lower.astype(np.int64), upper.astype(np.int64)
        self.sizes = None if sizes is None else sizes.astype(np.int64)
        self.sign = np.where(negative, -1, 1)
        self._position_cost = 0 if sizes is None else int(scale_cost(self.sizes).sum())

    def forward(self, g: np.ndarray, stack: BitStack) -> tuple[np.ndarray, np.ndarray]:
        """Data g -> (latent, cost of the Jacobian)."""
        check_range(g)
        g = g + _rounded_product(g, self.upper)
        if self.sizes is not None:
            g = scale(g * self.sign, np.broadcast_to(self.sizes, g.shape), stack)
        check_range(g)
        g = g + _rounded_product(g, self.lower)
        positions = g.shape[1] * g.shape[2]
        return g[..., self.permutation], np.full(len(g), self._position_cost * positions)

    def inverse(self, g: np.ndarray, stack: BitStack) -> np.ndarray:
        """Latent g -> data."""
        check_range(g)
        g = _solve_shear(g[..., self.inverse_permutation], self.lower, range(1, g.shape[-1]))
        if self.sizes is not None:
            g = unscale(g, np.broadcast_to(self.sizes, g.shape), stack) * self.sign
        return _solve_shear(g, self.upper, reversed(range(g.shape[-1] - 1)))


def _rounded_product(g: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """round(W g 2^-14) at every position: (..., C) by int (R, C) -> (..., R)."""
    return (_exact_product(g, weight.T) + (1 << (SHEAR_BITS - 1))) >> SHEAR_BITS


def _exact_product(g: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """g @ weight in int64. Products of float64 are faster, and are used if they are exact for these latents.

    |g| < 2^38, |weight| < 2^17 and at most 128 channels keep the int64 sums below 2^62.
    """
    if _largest_sum(g, weight.T) < 1 << 52:
        return (g.astype(np.float64) @ weight.astype(np.float64)).astype(np.int64)
    return g @ weight


def _solve_shear(g: np.ndarray, weight: np.ndarray, order: Iterable[int]) -> np.ndarray:
    """The inverse of g + _rounded_product(g, weight), weight strictly triangular: one channel at a time, in this
    order."""
    channels = g.shape[-1]
    columns = np.ascontiguousarray(np.moveaxis(g, -1, 0)).reshape(channels, -1)
    real = columns.astype(np.float64)
    scaled = weight * 2.0**-SHEAR_BITS
    order = list(order)
    for i in order:
        real[i] -= np.floor(scaled[i] @ real + 0.5)
    # if all sums of the results are exact in float64, all sums before were exact too
    if _largest_sum(real, weight) < 1 << 52:
        columns = real.astype(np.int64)
    else:
        for i in order:
            columns[i] -= (weight[i] @ columns + (1 << (SHEAR_BITS - 1))) >> SHEAR_BITS
            check_range(columns[i])
    return np.moveaxis(columns.reshape(channels, *g.shape[:-1]), 0, -1)


def _largest_sum(g: np.ndarray, weight: np.ndarray) -> float:
    """A bound on all sums of products of weight (C, C) and latents g of any shape."""
    return float(np.abs(g).max(initial=0)) * float(np.abs(weight).sum(1).max(initial=0))
