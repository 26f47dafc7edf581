"""Exact dequantizers: the twins of dqcodec.flows.dequantizers.

`pop` samples u by decoding it from the stack; `push` gives these bits back. Pixels x are int64 (B, H, W, C). v = x
2^fraction_bits + u, with 0 <= u < 2^fraction_bits, is int64 on a grid of 2^-fraction_bits pixel units. All raise
LatentOverflow and StackUnderflow; `push` raises CorruptError if no encoder can have made v.
"""

from collections.abc import Sequence

import numpy as np

from dqcodec.ans.logarithms import ONE
from dqcodec.ans.protocol import MAX_SIZE, BitStack
from dqcodec.base.errors import CorruptError, ModelError
from dqcodec.exact.flow.features import PixelFeatures, StandardFeatures
from dqcodec.exact.flow.networks import ResidualNet, map_batch
from dqcodec.exact.flow.steps import Step
from dqcodec.exact.flow.tables import TableLaw, logistic_bits
from dqcodec.exact.flow.transforms import squeezed, unsqueezed


class UniformDequantizer:
    """A dequantizer with uniform u."""

    def __init__(self, fraction_bits: int):
        """fraction_bits: bits of u."""
        self.fraction_bits = fraction_bits

    def pop(self, stack: BitStack, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels x -> (v, log2 q(u|x) of each image (B,), which is 0)."""
        return (x << self.fraction_bits) + stack.pop(1 << self.fraction_bits, x.shape), np.zeros(len(x))

    def push(self, stack: BitStack, v: np.ndarray, x: np.ndarray) -> None:
        """The inverse of pop."""
        stack.push(v - (x << self.fraction_bits), 1 << self.fraction_bits)

    def quantize(self, v: np.ndarray) -> np.ndarray:
        """v -> the pixels x."""
        return v >> self.fraction_bits

    def shift(self, v: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Replace u by u + offset modulo the bin's width. The result is a sample too; -offset undoes it."""
        u = v & ((1 << self.fraction_bits) - 1)
        return v - u + (u + offsets & ((1 << self.fraction_bits) - 1))


class SigmoidCells:
    """u = sigmoid(y) on grids: a cell of y is one value of u.

    The position of y in an inner cell is coded as uniform. The first and the last cell are infinite; there the law
    `tail` codes the distance from the edge, because the density falls as exp(-distance).
    """

    def __init__(self, edges: np.ndarray, tail: TableLaw):
        """edges: (cells - 1,) increasing grid integers, between cell j and j + 1. Raises ModelError."""
        if edges.ndim != 1 or len(edges) < 3 or np.abs(edges).max() >= 1 << 24:
            raise ModelError("the sigmoid's cells are not valid")
        if np.diff(edges).min() < 1 or np.diff(edges).max() > MAX_SIZE:
            raise ModelError("the sigmoid's cells are not increasing, or too large")
        self.edges, self.tail = edges.astype(np.int64), tail
        self.cells = len(edges) + 1
        self._lookup = np.searchsorted(self.edges, np.arange(edges[0], edges[-1] + 1), side="right").astype(np.int16)

    def u(self, y: np.ndarray) -> np.ndarray:
        """y -> u, the number of its cell, int64 of the same shape."""
        place = np.clip(y, self.edges[0] - 1, self.edges[-1]) - self.edges[0]  # -1 in the first cell
        return self._lookup[place].astype(np.int64) * (place >= 0)

    def push_position(self, stack: BitStack, y: np.ndarray, u: np.ndarray) -> None:
        """Code the position of y in its cell u."""
        inner, low, high = self._regions(u)
        stack.push(y[inner] - self.edges[u[inner] - 1], self.edges[u[inner]] - self.edges[u[inner] - 1])
        distance = np.where(low, self.edges[0] - 1 - y, y - self.edges[-1])[low | high]
        self.tail.push(stack, distance)

    def pop_position(self, stack: BitStack, u: np.ndarray) -> np.ndarray:
        """u -> y: the inverse of push_position. Raises CorruptError: a position outside of its cell."""
        inner, low, high = self._regions(u)
        distance = np.zeros(u.shape, np.int64)
        distance[low | high] = self.tail.pop(stack, (int((low | high).sum()),))
        if (distance < 0).any():
            raise CorruptError("a dequantization is outside of its cell")
        y = np.where(low, self.edges[0] - 1 - distance, self.edges[-1] + distance)
        y[inner] = self.edges[u[inner] - 1] + stack.pop(self.edges[u[inner]] - self.edges[u[inner] - 1])
        return y

    def _regions(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(inner, first, last) cells, bool arrays."""
        low, high = u == 0, u == self.cells - 1
        return ~(low | high), low, high


class FlowDequantizer:
    """A flow as a dequantizer: eps from the table of the noise, steps from eps to y, and u is the sigmoid's cell of y."""

    def __init__(
        self,
        features: PixelFeatures | StandardFeatures,
        context_net: ResidualNet | None,
        steps: Sequence[Step],
        noise: TableLaw,
        cells: SigmoidCells,
        *,
        grid_bits: int,
        is_logistic: bool,
    ):
        """context_net: features -> context; None: the features are the context. steps: in the order of sampling.

        noise: the law of eps. is_logistic: whether it is logistic or normal. grid_bits: of eps and y.
        """
        self.features, self.context_net, self.steps = features, context_net, steps
        self.noise, self.cells, self.is_logistic = noise, cells, is_logistic
        self.grid_bits, self.fraction_bits = grid_bits, (cells.cells - 1).bit_length()

    def _context(self, x: np.ndarray) -> np.ndarray:
        """The context of pixels x, (B, H/2, W/2, context channels) float32."""
        features = self.features(x)
        if self.context_net is None:
            return features
        return map_batch(lambda piece: (self.context_net(piece).astype(np.float32),), features)[0]

    def pop(self, stack: BitStack, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels x -> (v in the bins of x, log2 q(u|x) of each image, (B,) float64, u in pixel units)."""
        context = self._context(x)
        batch, height, width, channels = x.shape
        eps = self.noise.pop(stack, (batch, height // 2, width // 2, 4 * channels))
        y, jacobian_cost = eps, np.zeros(batch, np.int64)
        for step in self.steps:
            y, cost = step.sample(y, stack, context)
            jacobian_cost += cost
        y = unsqueezed(y)
        u = self.cells.u(y)
        self.cells.push_position(stack, y, u)
        return (x << self.fraction_bits) + u, self._log2_q(eps, y) - jacobian_cost / ONE

    def push(self, stack: BitStack, v: np.ndarray, x: np.ndarray) -> None:
        """The inverse of pop."""
        u = v - (x << self.fraction_bits)
        y = squeezed(self.cells.pop_position(stack, u))
        context = self._context(x)
        for step in reversed(self.steps):
            y = step.unsample(y, stack, context)
        self.noise.push(stack, y)

    def quantize(self, v: np.ndarray) -> np.ndarray:
        """v -> the pixels x."""
        return v >> self.fraction_bits

    def _log2_q(self, eps: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log2 of (density of eps times dy/du) of each image, (B,) float64. Only for reports."""
        if self.is_logistic:
            return logistic_bits(y, self.grid_bits) - logistic_bits(eps, self.grid_bits)
        squares = np.square(eps * 2.0**-self.grid_bits).sum((1, 2, 3))
        normal_bits = (squares + np.log(2 * np.pi) * eps[0].size) / (2 * np.log(2))
        return logistic_bits(y, self.grid_bits) - normal_bits
