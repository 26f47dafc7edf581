"""The exact flow density as a codec for grid integers v: the twin of flows.densities.FlowDensity."""

import dataclasses

import numpy as np

from dqcodec.ans.protocol import BitStack
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.exact.flow.transforms import ExactTransform, check_range, squeezed, unsqueezed
from dqcodec.frozen.ans import LOG2_BITS


class FlowDensity:
    """Levels of exact transforms. After each level, the second half of the channels is coded with the logistic table.

    v is on a grid of 2^-fraction_bits pixels, latents are on a grid of 2^-grid_bits latent units. If the latent grid is
    finer, the position of v in its cell is popped.
    """

    def __init__(
        self,
        levels: list[list[ExactTransform]],
        logistic: TableLaw,
        channels: int,
        *,
        offset: int,
        unit_bits: int,
        fraction_bits: int,
        grid_bits: int,
    ):
        """levels: for each level the transforms after its squeeze. channels: of v. offset: the pixel value of latent 0.

        unit_bits: a latent unit is 2^unit_bits pixel steps.
        """
        self.levels, self.logistic, self.channels, self.unit_bits = levels, logistic, channels, unit_bits
        self.grid_bits = grid_bits
        self._offset = offset << fraction_bits
        self._refinement = grid_bits - unit_bits - fraction_bits

    def push(self, stack: BitStack, v: np.ndarray) -> np.ndarray:
        """Code v, int64 (B, H, W, C). Returns -log2 p(v) of each image, in pixel units, (B,) int64 in fixed point
        (ans.logarithms).

        The result is the same on any machine if the stack has the same bits. Raises LatentOverflow, StackUnderflow.
        """
        cost = np.full(len(v), v[0].size * self.unit_bits << LOG2_BITS)
        g = (v - self._offset) << self._refinement
        if self._refinement:
            g += stack.pop(1 << self._refinement, g.shape)
        for transforms in self.levels:
            g = squeezed(g)
            for transform in transforms:
                g, jacobian_cost = transform.forward(g, stack)
                cost += jacobian_cost
            g, out = np.split(g, 2, -1)
            cost += self._push_base(stack, out)
        return cost + self._push_base(stack, g)

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """The inverse of push: v, int64 (count, height, width, C). Raises LatentOverflow, StackUnderflow."""
        return self._pop(stack, count, height, width, self.logistic)

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """v ~ p(v) from random bits, int64 (count, height, width, C). Raises LatentOverflow, StackUnderflow.

        The end cells of the base stand for themselves: a code of all integers beyond them has room for any distance, so
        random bits would give absurd ones.
        """
        return self._pop(stack, count, height, width, dataclasses.replace(self.logistic, unbounded=False))

    def _pop(self, stack: BitStack, count: int, height: int, width: int, base: TableLaw) -> np.ndarray:
        """v, int64 (count, height, width, C), from latents that are popped under a law."""
        depth = len(self.levels)
        channels = self.channels << depth
        g = base.pop(stack, (count, height >> depth, width >> depth, channels))
        for transforms in reversed(self.levels):
            out = base.pop(stack, g.shape)
            g = np.concatenate([g, out], -1)
            for transform in reversed(transforms):
                g = transform.inverse(g, stack)
            g = unsqueezed(g)
        if self._refinement:
            stack.push(g & (1 << self._refinement) - 1, 1 << self._refinement)
        return (g >> self._refinement) + self._offset

    def _push_base(self, stack: BitStack, g: np.ndarray) -> np.ndarray:
        """Code latents with the logistic table; returns the cost."""
        check_range(g)  # pop checks the same range
        self.logistic.push(stack, g)
        return self.logistic.cost(g) - (g[0].size * self.grid_bits << LOG2_BITS)
