"""The steps of a learned dequantizer from eps to y: exact twins of flows.couplings and flows.autoregressive.

eps and y are int64 (B, H, W, C) on the dequantizer's grid, contexts float32 (B, H, W, K). Steps
raise LatentOverflow and StackUnderflow.
"""

from typing import Protocol

import numpy as np

from dqcodec.ans.protocol import BitStack
from dqcodec.base.errors import CorruptError
from dqcodec.exact.flow.networks import AutoregressiveNet, ResidualNet, map_batch, to_input
from dqcodec.exact.flow.transforms import Affine, AffineCoupling, check_range, divmod_exact, scale, unscale
from dqcodec.frozen.flow import SCALE_BITS, R


class Step(Protocol):
    """A bijection on (eps, stack), given a context."""

    def sample(self, eps: np.ndarray, stack: BitStack, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """eps -> (y, cost of the Jacobian of each image, (B,) int64 in fixed point (ans.logarithms))."""

    def unsample(self, y: np.ndarray, stack: BitStack, context: np.ndarray) -> np.ndarray:
        """y -> eps: the inverse of sample. Raises CorruptError: no eps gives y."""


class SampledAffine:
    """y = m(context) + eps S/R: the step of the Gaussian dequantizer, the twin of flows.couplings.ConditionalAffine."""

    def __init__(self, net: ResidualNet, affine: Affine):
        """net: context -> (m, raw log-scale)."""
        self.net, self.affine = net, affine

    def sample(self, eps: np.ndarray, stack: BitStack, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """eps -> (y, cost of the Jacobian); see Step."""
        m, size, cost = self.affine.parameters(self.net, context)
        return unscale(eps, size, stack) + m, cost

    def unsample(self, y: np.ndarray, stack: BitStack, context: np.ndarray) -> np.ndarray:
        """y -> eps."""
        m, size, _ = self.affine.parameters(self.net, context)
        return scale(y - m, size, stack)


class SampledCoupling:
    """A bipartite step: an affine coupling, then a reversal of channels, as in flows.couplings.ReverseChannels."""

    def __init__(self, coupling: AffineCoupling):
        """coupling: its inverse is eps -> y."""
        self.coupling = coupling

    def sample(self, eps: np.ndarray, stack: BitStack, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """eps -> (y, cost of the Jacobian); see Step."""
        y, cost = self.coupling.inverse_and_cost(eps, stack, context)
        return y[..., ::-1], cost

    def unsample(self, y: np.ndarray, stack: BitStack, context: np.ndarray) -> np.ndarray:
        """y -> eps."""
        return self.coupling.forward(y[..., ::-1], stack, context)[0]


class SampledAutoregressive:
    """A step of ARD: y = m(eps_<) + eps S(eps_<)/R, in one parallel pass. The twin of
    flows.autoregressive.AffineAutoregressive.

    unsample solves the triangular system by fixed-point iteration on integers. It first pops the remainders modulo R;
    then it repeats eps <- floor((R (y - m(eps)) + remainder) / S(eps)). Place d is right after at most d steps. A step
    without change has found the solution, which is unique.
    """

    def __init__(self, net: AutoregressiveNet, affine: Affine, grid_bits: int):
        """net: (eps, context) -> (m, raw log-scale) from places before. grid_bits: of eps."""
        self.net, self.affine, self.grid_bits = net, affine, grid_bits
        self.iterations = 0  # of the last unsample

    def _context_sums(self, context: np.ndarray) -> np.ndarray:
        return map_batch(lambda piece: (self.net.context_sums(piece),), context)[0]

    def _parameters(self, eps: np.ndarray, context_sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        def net(eps: np.ndarray, context_sums: np.ndarray) -> np.ndarray:
            return self.net(to_input(eps, self.grid_bits), context_sums)

        return self.affine.parameters(net, eps, context_sums)

    def sample(self, eps: np.ndarray, stack: BitStack, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """eps -> (y, cost of the Jacobian); see Step."""
        check_range(eps)
        m, size, cost = self._parameters(eps, self._context_sums(context))
        t = eps * size + stack.pop(size)
        stack.push(t & (R - 1), R)  # all remainders at once: unsample needs them from the start
        return (t >> SCALE_BITS) + m, cost

    def unsample(self, y: np.ndarray, stack: BitStack, context: np.ndarray) -> np.ndarray:
        """y -> eps. Raises CorruptError: no eps gives y."""
        check_range(y)
        context_sums = self._context_sums(context)
        remainder = stack.pop(R, y.shape)
        eps, left = np.zeros_like(y), np.zeros_like(y)
        size = np.full_like(y, R)
        active = np.arange(len(y))  # the images that still change
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

    def __init__(self, step: Step):
        """step: the step that gets the reversed places."""
        self.step = step

    def sample(self, eps: np.ndarray, stack: BitStack, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """eps -> (y, cost of the Jacobian); see Step."""
        y, cost = self.step.sample(_reversed(eps), stack, _reversed(context, channels=1))
        return _reversed(y), cost

    def unsample(self, y: np.ndarray, stack: BitStack, context: np.ndarray) -> np.ndarray:
        """y -> eps; errors: those of the step."""
        return _reversed(self.step.unsample(_reversed(y), stack, _reversed(context, channels=1)))


def _reversed(places: np.ndarray, channels: int = -1) -> np.ndarray:
    """Reverse rows, columns and channels of (B, H, W, C). channels=1 keeps the channels, as a context needs."""
    return np.ascontiguousarray(places[:, ::-1, ::-1, ::channels])
