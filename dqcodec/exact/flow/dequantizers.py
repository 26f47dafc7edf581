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
from dqcodec.context.context import log_spreads
from dqcodec.context.interlacing import LARGEST_SPREAD, standardised
from dqcodec.context.planes import coding_order, differences
from dqcodec.exact.flow.tables import TableLaw, logistic_bits
from dqcodec.exact.flow.transforms import Affine, AffineCoupling, Squeeze, check_range, divmod_exact, scale, unscale
from dqcodec.exact.networks import AutoregressiveNet, ResidualNet, map_batch, to_input
from dqcodec.frozen.autoregressive import GRID, SPREAD_FLOOR
from dqcodec.frozen.flow import AROUND, INPUT_BITS, INPUT_BOUND, SCALE_BITS, R


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
        return self._lookup[np.clip(y, self.edges[0] - 1, self.edges[-1]) - self.edges[0]].astype(np.int64) * (
            y >= self.edges[0]
        )

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

    def _regions(self, u):
        """(inner, first, last) cells, bool arrays."""
        low, high = u == 0, u == self.cells - 1
        return ~(low | high), low, high


class PixelFeatures:
    """The twin of flows.features.PixelFeatures: integer sums times 2^log2_gain, on the networks' input grid."""

    def __init__(self, matrix: np.ndarray, log2_gain: np.ndarray, offset: int):
        """matrix: int (4 C, 4 C). log2_gain: int (4 C,). offset: subtracted from pixels. Raises ModelError."""
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or log2_gain.shape != matrix.shape[:1]:
            raise ModelError("the pixel features' tensors do not fit together")
        if np.abs(matrix).max() > 8 or np.abs(log2_gain).max() > 16:
            raise ModelError("the pixel features are not proven exact")
        self.matrix, self.offset = matrix.astype(np.int64), offset
        self.log2_gain = log2_gain.astype(np.int64)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Pixels (B, H, W, C) int64 -> features (B, H/2, W/2, 4 C) float32."""
        sums = Squeeze().forward(x - self.offset)[0] @ self.matrix.T
        return to_input(sums << (16 + self.log2_gain), 16)


class StandardFeatures:
    """The twin of flows.features.StandardFeatures, on the networks' input grid."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Pixels (B, H, W, C) int64 -> features (B, H/2, W/2, 8 C) float32."""
        y, (height, width) = differences(coding_order(x)), x.shape[1:3]
        padded = np.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
        near = [padded[:, dy : dy + height, dx : dx + width] for dy, dx in AROUND]
        sums = sum(near)
        spreads = sum(np.abs(8 * each - sums) for each in near) + SPREAD_FLOOR
        features = [standardised(y, sums, spreads), log_spreads(LARGEST_SPREAD)[spreads]]
        scaled = np.concatenate(features, -1, dtype=np.float32) * np.float32((1 << INPUT_BITS) / GRID)
        return np.clip(Squeeze().forward(scaled)[0], -INPUT_BOUND, INPUT_BOUND)


class FlowDequantizer:
    """A flow as a dequantizer: eps from the table of the noise, transforms eps -> y, and u is the sigmoid's cell of y."""

    def __init__(
        self,
        features: PixelFeatures | StandardFeatures,
        context_net: ResidualNet | None,
        transforms: Sequence,
        noise: TableLaw,
        cells: SigmoidCells,
        grid_bits: int,
        fraction_bits: int,
        *,
        is_logistic: bool = False,
    ):
        """context_net: features -> context; None: the features are the context. transforms: in the order of sampling.

        noise: of eps, a logistic or a normal law. grid_bits: of eps and y. fraction_bits: of u. Raises ModelError.
        """
        if cells.cells != 1 << fraction_bits:
            raise ModelError("the sigmoid's cells are not those of u")
        self.features, self.context_net, self.transforms = features, context_net, transforms
        self.noise, self.cells, self.grid_bits, self.fraction_bits = noise, cells, grid_bits, fraction_bits
        self.is_logistic = is_logistic

    def _context(self, x):
        """The context of pixels x, (B, H/2, W/2, context channels) float32."""
        features = self.features(x)
        if self.context_net is None:
            return features
        return map_batch(lambda piece: (self.context_net(piece).astype(np.float32),), features)[0]

    def pop(self, stack, x):
        """Pixels x -> (v in the bins of x, log2 q(u|x) of each image (B,), u in pixel units)."""
        context = self._context(x)
        batch, height, width, channels = x.shape
        eps = self.noise.pop(stack, (batch, height // 2, width // 2, 4 * channels))
        y, jacobian_cost = eps, np.zeros(batch, np.int64)
        for transform in self.transforms:
            y, cost = transform.sample(y, stack, context)
            jacobian_cost += cost
        y = Squeeze().inverse(y)
        u = self.cells.u(y)
        self.cells.push_position(stack, y, u)
        return (x << self.fraction_bits) + u, self._log2_q(eps, y) - jacobian_cost / ONE

    def push(self, stack, v, x):
        """The inverse of pop."""
        u = v - (x << self.fraction_bits)
        y, _ = Squeeze().forward(self.cells.pop_position(stack, u))
        context = self._context(x)
        for transform in reversed(self.transforms):
            y = transform.unsample(y, stack, context)
        self.noise.push(stack, y)

    def quantize(self, v):
        """v -> the pixels x."""
        return v >> self.fraction_bits

    def _log2_q(self, eps, y):
        """log2 of (density of eps times dy/du) of each image, (B,) float64. Only for reports."""
        if self.is_logistic:
            return logistic_bits(y, self.grid_bits) - logistic_bits(eps, self.grid_bits)
        squares = np.square(eps * 2.0**-self.grid_bits).sum((1, 2, 3))
        normal_bits = (squares + np.log(2 * np.pi) * eps[0].size) / (2 * np.log(2))
        return logistic_bits(y, self.grid_bits) - normal_bits


class SampledAffine:
    """y = m(context) + eps S/R, for the Gaussian dequantizer: the twin of flows.couplings.ConditionalAffine."""

    def __init__(self, net: ResidualNet, affine: Affine):
        """net: context -> (m, raw log-scale)."""
        self.net, self.affine = net, affine

    def sample(self, eps, stack, context):
        """eps (B, H, W, C) int64 -> (y, cost of the Jacobian of each image)."""
        m, size, cost = self.affine.parameters(self.net, context)
        return unscale(eps, size, stack) + m, cost

    def unsample(self, y, stack, context):
        """y -> eps: the inverse of sample."""
        m, size, _ = self.affine.parameters(self.net, context)
        return scale(y - m, size, stack)


class SampledCoupling:
    """A bipartite step eps -> y, followed by a reversal of channels, as in flows.couplings.ReverseChannels."""

    def __init__(self, coupling: AffineCoupling):
        """coupling: its inverse is eps -> y."""
        self.coupling = coupling

    def sample(self, eps, stack, context):
        """eps (B, H, W, C) int64 -> (y, cost of the Jacobian of each image)."""
        y, cost = self.coupling.inverse_and_cost(eps, stack, context)
        return y[..., ::-1], cost

    def unsample(self, y, stack, context):
        """y -> eps: the inverse of sample."""
        return self.coupling.forward(y[..., ::-1], stack, context)[0]


class SampledAutoregressive:
    """A step of ARD: y = m(eps_<) + eps S(eps_<)/R, computed in one parallel pass. The twin of flows.autoregressive.

    unsample solves the triangular system by fixed-point iteration on integers. It first pops the remainders modulo R;
    then it repeats eps <- floor((R (y - m(eps)) + remainder) / S(eps)). Place d is right after at most d steps. A step
    without change has found the solution, which is unique.
    """

    def __init__(self, net: AutoregressiveNet, affine: Affine, grid_bits: int):
        """net: (eps, context) -> (m, raw log-scale) from places before. grid_bits: of eps."""
        self.net, self.affine, self.grid_bits = net, affine, grid_bits
        self.iterations = 0  # of the last unsample

    def _context_sums(self, context):
        return map_batch(lambda piece: (self.net.context_sums(piece),), context)[0]

    def _parameters(self, eps, context_sums):
        def net(eps, context_sums):
            return self.net(to_input(eps, self.grid_bits), context_sums)

        return self.affine.parameters(net, eps, context_sums)

    def sample(self, eps, stack, context):
        """eps (B, H, W, C) int64 -> (y, cost of the Jacobian of each image)."""
        check_range(eps)
        m, size, cost = self._parameters(eps, self._context_sums(context))
        t = eps * size + stack.pop(size)
        stack.push(t & (R - 1), R)  # all remainders at once: unsample needs them from the start
        return (t >> SCALE_BITS) + m, cost

    def unsample(self, y, stack, context):
        """y -> eps: the inverse of sample."""
        check_range(y)
        context_sums = self._context_sums(context)
        remainder = stack.pop(R, y.shape)
        eps, left = np.zeros_like(y), np.zeros_like(y)
        size = np.full_like(y, R)
        active = np.arange(len(y))  # numbers of the images that still change
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
    """A step in the reverse order of places: the twin of flows.autoregressive.Reversed."""

    def __init__(self, step: SampledAutoregressive):
        """step: the step that gets the reversed places."""
        self.step = step

    def sample(self, eps, stack, context):
        """eps (B, H, W, C) int64 -> (y, cost of the Jacobian of each image)."""
        y, cost = self.step.sample(_reversed(eps), stack, _reversed(context, channels=1))
        return _reversed(y), cost

    def unsample(self, y, stack, context):
        """y -> eps: the inverse of sample."""
        return _reversed(self.step.unsample(_reversed(y), stack, _reversed(context, channels=1)))


def _reversed(places: np.ndarray, channels: int = -1) -> np.ndarray:
    """Reverse rows, columns and channels of (B, H, W, C). channels=1 keeps the channels, as a context needs."""
    return np.ascontiguousarray(places[:, ::-1, ::-1, ::channels])
