"""The exact flow density, twin of flows.densities.FlowDensity, as a codec for grid integers v."""

import numpy as np

from dqcodec.ans.protocol import BitStack
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.exact.flow.transforms import ExactTransform, Squeeze, check_range
from dqcodec.frozen.ans import LOG2_BITS


class FlowDensity:
    """Levels of exact transforms; each level's second half of channels is factored out under the logistic table.

    Args:
        levels: per level the transforms after its squeeze. offset: the pixel that is latent 0. unit_bits: a latent
        unit is 2^unit_bits pixels. v comes on a grid of 2^-fraction_bits pixels; latents are on 2^-grid_bits, and where
        that is finer, v's place within its cell is popped.
    """

    def __init__(
        self, levels: list[list[ExactTransform]], logistic: TableLaw, channels: int, offset: int, unit_bits: int,
        fraction_bits: int, grid_bits: int,
    ):
        self.levels, self.logistic, self.channels, self.unit_bits = levels, logistic, channels, unit_bits
        self.grid_bits = grid_bits
        self._offset = offset << fraction_bits
        self._refinement = grid_bits - unit_bits - fraction_bits

    def push(self, stack: BitStack, v: np.ndarray) -> np.ndarray:
        """Code v (B, H, W, C) -> -log2 p(v) of each image, v in pixel units, (B,) int64 in fixed point (ans.logarithms).

        That is exact: the same on any machine, if the stack pops the same remainders.
        """
        cost = np.full(len(v), v[0].size * self.unit_bits << LOG2_BITS)
        g = (v - self._offset) << self._refinement
        if self._refinement:
            g += stack.pop(1 << self._refinement, g.shape)
        for transforms in self.levels:
            g, _ = Squeeze().forward(g)
            for transform in transforms:
                g, jacobian_cost = transform.forward(g, stack)
                cost += jacobian_cost
            g, out = np.split(g, 2, -1)
            cost += self._push_base(stack, out)
        return cost + self._push_base(stack, g)

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push: v (count, height, width, C)."""
        depth = len(self.levels)
        channels = self.channels << depth
        g = self.logistic.pop(stack, (count, height >> depth, width >> depth, channels))
        for transforms in reversed(self.levels):
            out = self.logistic.pop(stack, g.shape)
            g = np.concatenate([g, out], -1)
            for transform in reversed(transforms):
                g = transform.inverse(g, stack)
            g = Squeeze().inverse(g)
        if self._refinement:
            stack.push(g & (1 << self._refinement) - 1, 1 << self._refinement)
        return (g >> self._refinement) + self._offset

    def _push_base(self, stack, g):
        check_range(g)  # as pop will
        self.logistic.push(stack, g)
        return self.logistic.cost(g) - (g[0].size * self.grid_bits << LOG2_BITS)
