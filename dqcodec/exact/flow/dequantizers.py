"""Exact dequantizers, twins of dqcodec.flows.dequantizers: pop samples u by decoding it, push gives the bits back.

Pixels x are int64 (B, H, W, C); v = x 2^fraction_bits + u, u in [0, 2^fraction_bits), is int64 on a grid of
2^-fraction_bits pixel units.
"""

from collections.abc import Sequence

import numpy as np

from dqcodec.ans.logarithms import ONE
from dqcodec.ans.protocol import MAX_SIZE, BitStack
from dqcodec.base.errors import CorruptError, ModelError
from dqcodec.exact.flow.tables import TableLaw, logistic_bits
from dqcodec.exact.flow.transforms import Affine, AffineCoupling, Squeeze, check_range, divmod_exact, scale, unscale
from dqcodec.exact.networks import AutoregressiveNet, ResidualNet, map_batch, to_input
from dqcodec.frozen.flow import SCALE_BITS, R


class UniformDequantizer:
    """u uniform."""

    def __init__(self, fraction_bits: int):
        self.fraction_bits = fraction_bits

    def pop(self, stack: BitStack, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (x << self.fraction_bits) + stack.pop(1 << self.fraction_bits, x.shape), np.zeros(len(x))

    def push(self, stack: BitStack, v: np.ndarray, x: np.ndarray) -> None:
        stack.push(v - (x << self.fraction_bits), 1 << self.fraction_bits)

    def quantize(self, v: np.ndarray) -> np.ndarray:
        return v >> self.fraction_bits

    def shift(self, v: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """v moved within its bin, u + offset modulo the bin's width: again a sample, and -offset moves it back."""
        u = v & ((1 << self.fraction_bits) - 1)
        return v - u + (u + offsets & ((1 << self.fraction_bits) - 1))


class SigmoidCells:
    """u = sigmoid(y) on grids: cell j of y, edges[j] <= y < edges[j + 1], is u = j.

    The position inside a cell is pushed as uniform; in the two outer cells, which have no end, under the law `tail`
    of the distance from their edge (density falls as exp(-distance)).
    """

    def __init__(self, edges: np.ndarray, tail: TableLaw):
        if edges.ndim != 1 or len(edges) < 3 or np.abs(edges).max() >= 1 << 24:
            raise ModelError("the sigmoid's cells are not cells")
        if np.diff(edges).min() < 1 or np.diff(edges).max() > MAX_SIZE:
            raise ModelError("the sigmoid's cells are not increasing, or too large")
        self.edges, self.tail = edges.astype(np.int64), tail  # the inner edges, between cell j and j + 1
        self.cells = len(edges) + 1
        self._lookup = np.searchsorted(self.edges, np.arange(edges[0], edges[-1] + 1), side="right").astype(np.int16)

    def u(self, y: np.ndarray) -> np.ndarray:
        """The cell of each y."""
        return self._lookup[np.clip(y, self.edges[0] - 1, self.edges[-1]) - self.edges[0]].astype(np.int64) * (
            y >= self.edges[0]
        )

    def push_position(self, stack: BitStack, y: np.ndarray, u: np.ndarray) -> None:
        inner, low, high = self._regions(u)
        stack.push(y[inner] - self.edges[u[inner] - 1], self.edges[u[inner]] - self.edges[u[inner] - 1])
        distance = np.where(low, self.edges[0] - 1 - y, y - self.edges[-1])[low | high]
        self.tail.push(stack, distance)

    def pop_position(self, stack: BitStack, u: np.ndarray) -> np.ndarray:
        """Undo push_position: y."""
        inner, low, high = self._regions(u)
        distance = np.zeros(u.shape, np.int64)
        distance[low | high] = self.tail.pop(stack, (int((low | high).sum()),))
        if (distance < 0).any():
            raise CorruptError("a dequantization lies outside its cell")
        y = np.where(low, self.edges[0] - 1 - distance, self.edges[-1] + distance)
        y[inner] = self.edges[u[inner] - 1] + stack.pop(self.edges[u[inner]] - self.edges[u[inner] - 1])
        return y

    def _regions(self, u):
        low, high = u == 0, u == self.cells - 1
        return ~(low | high), low, high


class PixelFeatures:
    """Twin of flows.dequantizers.PixelFeatures: integer sums times 2^log2_gain, on the networks' input grid."""

    def __init__(self, matrix: np.ndarray, log2_gain: np.ndarray, offset: int):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or log2_gain.shape != matrix.shape[:1]:
            raise ModelError("the pixel features' tensors do not fit together")
        if np.abs(matrix).max() > 8 or np.abs(log2_gain).max() > 16:
            raise ModelError("the pixel features are not proven exact")
        self.matrix, self.offset = matrix.astype(np.int64), offset
        self.log2_gain = log2_gain.astype(np.int64)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        sums = Squeeze().forward(x - self.offset)[0] @ self.matrix.T
        return to_input(sums << (16 + self.log2_gain), 16)


class FlowDequantizer:
    """eps from the normal table, transforms eps -> y, u = the sigmoid's cell of y."""

    def __init__(
        self, features: PixelFeatures, context_net: ResidualNet | None, transforms: Sequence, normal: TableLaw,
        cells: SigmoidCells, grid_bits: int, fraction_bits: int,
    ):
        if cells.cells != 1 << fraction_bits:
            raise ModelError("the sigmoid's cells are not those of u")
        self.features, self.context_net, self.transforms = features, context_net, transforms
        self.normal, self.cells, self.grid_bits, self.fraction_bits = normal, cells, grid_bits, fraction_bits

    def _context(self, x):
        features = self.features(x)
        if self.context_net is None:
            return features
        return map_batch(lambda piece: (self.context_net(piece).astype(np.float32),), features)[0]

    def pop(self, stack, x):
        """Sample v in the bin of x by decoding it -> (v, log2 q(u|x) of each image, u in pixel units)."""
        context = self._context(x)
        batch, height, width, channels = x.shape
        eps = self.normal.pop(stack, (batch, height // 2, width // 2, 4 * channels))
        y, jacobian_cost = eps, np.zeros(batch, np.int64)
        for transform in self.transforms:
            y, cost = transform.sample(y, stack, context)
            jacobian_cost += cost
        y = Squeeze().inverse(y)
        u = self.cells.u(y)
        self.cells.push_position(stack, y, u)
        return (x << self.fraction_bits) + u, self._log2_q(eps, y) - jacobian_cost / ONE

    def push(self, stack, v, x):
        u = v - (x << self.fraction_bits)
        y, _ = Squeeze().forward(self.cells.pop_position(stack, u))
        context = self._context(x)
        for transform in reversed(self.transforms):
            y = transform.unsample(y, stack, context)
        self.normal.push(stack, y)

    def quantize(self, v):
        return v >> self.fraction_bits

    def _log2_q(self, eps, y):
        """log2 of (normal density of eps x dy/du), for the report alone."""
        squares = np.square(eps * 2.0**-self.grid_bits).sum((1, 2, 3))
        normal_bits = (squares + np.log(2 * np.pi) * eps[0].size) / (2 * np.log(2))
        return logistic_bits(y, self.grid_bits) - normal_bits


class SampledAffine:
    """y = m(context) + eps S/R: the Gaussian dequantizer's transform (twin of flows.couplings.ConditionalAffine)."""

    def __init__(self, net: ResidualNet, affine: Affine):
        self.net, self.affine = net, affine

    def sample(self, eps, stack, context):
        m, size, cost = self.affine.parameters(self.net, context)
        return unscale(eps, size, stack) + m, cost

    def unsample(self, y, stack, context):
        m, size, _ = self.affine.parameters(self.net, context)
        return scale(y - m, size, stack)


class SampledCoupling:
    """One bipartite step, y <- eps, channels reversed after it as in flows.couplings.ReverseChannels."""

    def __init__(self, coupling: AffineCoupling):
        self.coupling = coupling

    def sample(self, eps, stack, context):
        y, cost = self.coupling.inverse_and_cost(eps, stack, context)
        return y[..., ::-1], cost

    def unsample(self, y, stack, context):
        return self.coupling.forward(y[..., ::-1], stack, context)[0]


class SampledAutoregressive:
    """ARD's step: y = m(eps_<) + eps S(eps_<)/R, sampled in one parallel pass (twin of flows.autoregressive).

    unsample solves the triangular system by fixed-point iteration on integers: the remainders modulo R lie on the
    stack and are popped first; then eps <- floor((R (y - m(eps)) + remainder) / S(eps)). Place d is right after at
    most d steps, and a step that changes nothing has found the one solution.
    """

    def __init__(self, net: AutoregressiveNet, affine: Affine, grid_bits: int):
        self.net, self.affine, self.grid_bits = net, affine, grid_bits
        self.iterations = 0  # of the last unsample

    def _context_sums(self, context):
        return map_batch(lambda piece: (self.net.context_sums(piece),), context)[0]

    def _parameters(self, eps, context_sums):
        def net(eps, context_sums):
            return self.net(to_input(eps, self.grid_bits), context_sums)

        return self.affine.parameters(net, eps, context_sums)

    def sample(self, eps, stack, context):
        check_range(eps)
        m, size, cost = self._parameters(eps, self._context_sums(context))
        t = eps * size + stack.pop(size)
        stack.push(t & (R - 1), R)  # all at once, so that unsample has them all from the start
        return (t >> SCALE_BITS) + m, cost

    def unsample(self, y, stack, context):
        check_range(y)
        context_sums = self._context_sums(context)
        remainder = stack.pop(R, y.shape)
        eps, left = np.zeros_like(y), np.zeros_like(y)
        size = np.full_like(y, R)
        active = np.arange(len(y))  # images that still move
        for self.iterations in range(1, y[0].size + 2):
            m, size[active], _ = self._parameters(eps[active], context_sums[active])
            t = ((y[active] - m) << SCALE_BITS) + remainder[active]
            solved, left[active] = divmod_exact(t, size[active])
            moved = (solved != eps[active]).any((1, 2, 3))
            eps[active] = solved
            active = active[moved]
            if not len(active):
                stack.push(left, size)
                return eps
        raise CorruptError("the autoregressive inverse has no solution")


class Reversed:
    """A step in reverse order of places, twin of flows.autoregressive.Reversed."""

    def __init__(self, step: SampledAutoregressive):
        self.step = step

    def sample(self, eps, stack, context):
        y, cost = self.step.sample(_turned(eps), stack, _turned(context, channels=1))
        return _turned(y), cost

    def unsample(self, y, stack, context):
        return _turned(self.step.unsample(_turned(y), stack, _turned(context, channels=1)))


def _turned(places: np.ndarray, channels: int = -1) -> np.ndarray:
    """(B, H, W, C) in reverse order of rows, columns and channels; of a context, channels are no places."""
    return np.ascontiguousarray(places[:, ::-1, ::-1, ::channels])
