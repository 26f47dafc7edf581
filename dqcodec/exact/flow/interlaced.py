"""The exact interlaced flow as a codec for grid integers v: the twin of flows.interlaced.InterlacedFlow."""

from collections.abc import Sequence

import numpy as np

from dqcodec.ans import uniform
from dqcodec.ans.logarithms import log2
from dqcodec.ans.protocol import BitStack
from dqcodec.base.errors import LatentOverflow
from dqcodec.context.interlacing import seen
from dqcodec.context.planes import coding_order, differences
from dqcodec.exact.flow.mixture_coupling import Laws, MixtureCoupling
from dqcodec.exact.flow.tables import loan_chunks
from dqcodec.frozen.ans import LOG2_BITS
from dqcodec.frozen.autoregressive import TOTAL, TOTAL_BITS
from dqcodec.frozen.interlaced import CELL_BITS, CELL_TOTAL_BITS

# -log2 p of a value is this number minus log2 of its slots; p is per pixel step, and a cell is 2^-CELL_BITS of a step
_MOST_COST = TOTAL_BITS + CELL_TOTAL_BITS - CELL_BITS << LOG2_BITS


class InterlacedFlow:
    """Levels of couplings. The coarsest image is uniform.

    v = x 2^fraction_bits + u, int64 (B, H, W, C), is on a grid of 2^-fraction_bits pixel steps.
    """

    def __init__(self, levels: Sequence[Sequence[MixtureCoupling]], channels: int, bits: int, fraction_bits: int):
        """levels: the couplings of each level, one for each of frozen.interlaced.PLACES; the finest level first.

        bits: of symbols. fraction_bits: of u, at least CELL_BITS.
        """
        self.levels, self.channels, self.bits, self.fraction_bits = levels, channels, bits, fraction_bits
        self._step = 1 << len(levels)

    def push(self, stack: BitStack, v: np.ndarray) -> np.ndarray:
        """Code v. Returns -log2 p(v) of each image, in pixel units, (B,) int64 in fixed point (ans.logarithms).

        Raises LatentOverflow: a value lies outside of all bins; StackUnderflow.
        """
        if (v >> self.fraction_bits + self.bits).any():
            raise LatentOverflow("a value lies outside of all bins")
        values = coding_order(v)
        coarsest = values[:, :: self._step, :: self._step]
        cost = np.full(len(v), coarsest[0].size * self.bits << LOG2_BITS)
        for couplings in self.levels:
            y = differences(values >> self.fraction_bits)
            for coupling in reversed(couplings):
                cost += self._push_pixels(stack, coupling, y, coupling.own(values))
            values = values[:, ::2, ::2]
        stack.push(coarsest, 1 << self.bits + self.fraction_bits)
        return cost

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """The inverse of push: v, int64 (count, height, width, C). Raises StackUnderflow."""
        values = np.zeros((count, height, width, self.channels), np.int64)
        coarsest = values[:, :: self._step, :: self._step]
        coarsest[:] = stack.pop(1 << self.bits + self.fraction_bits, coarsest.shape)
        for level in reversed(range(len(self.levels))):
            of_level = values[:, :: 1 << level, :: 1 << level]
            for coupling in self.levels[level]:
                y = differences(of_level >> self.fraction_bits)
                self._pop_pixels(stack, coupling, y, coupling.own(of_level))
        return coding_order(values)

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """v ~ p(v) from random bits: pop, because every law is bounded."""
        return self.pop(stack, count, height, width)

    def _push_pixels(self, stack: BitStack, coupling: MixtureCoupling, y: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Code the pixels of a coupling, (B, h, w, C) in coding order; returns the cost of
        each image. y: planes of the level.
        """
        c, own, cost = seen(y, coupling.number, self.bits), coupling.own(y), np.zeros(len(y), np.int64)
        trunk = coupling.trunk(c)
        for plane in reversed(range(self.channels)):
            laws = coupling.laws(c, trunk, own, plane)
            cost += self._push(stack, laws, values[..., plane].ravel()).reshape(len(y), -1).sum(1)
        return cost

    def _pop_pixels(self, stack: BitStack, coupling: MixtureCoupling, y: np.ndarray, values: np.ndarray) -> None:
        """The inverse of _push_pixels: sets values."""
        c, own = seen(y, coupling.number, self.bits), coupling.own(y)
        trunk = coupling.trunk(c)
        for plane in range(self.channels):
            laws = coupling.laws(c, trunk, own, plane)
            values[..., plane] = self._pop(stack, laws, values[..., plane].size).reshape(values.shape[:3])
            own[..., : plane + 1] = differences(values[..., : plane + 1] >> self.fraction_bits)

    def _push(self, stack: BitStack, laws: Laws, values: np.ndarray) -> np.ndarray:
        """Code values, int64 (N,); returns the cost of each."""
        x = values >> self.fraction_bits
        (first, count), cells = laws.bins(x), laws.cells(x)
        rest_bits = self.fraction_bits - CELL_BITS
        cell = (values >> rest_bits & (1 << CELL_BITS) - 1)[:, None]
        starts = np.take_along_axis(cells, cell, 1)[:, 0]
        sizes = np.take_along_axis(cells, cell + 1, 1)[:, 0] - starts
        for part in loan_chunks(len(values)):
            stack.push(values[part] & (1 << rest_bits) - 1, 1 << rest_bits)
            stack.push(starts[part] + stack.pop(sizes[part]), 1 << CELL_TOTAL_BITS)
            stack.push(first[part] + uniform.pop(stack, count[part]), TOTAL)
        return _MOST_COST - log2(count) - log2(sizes)

    def _pop(self, stack: BitStack, laws: Laws, size: int) -> np.ndarray:
        """The inverse of _push: int64 (size,)."""
        values, rest_bits = np.empty(size, np.int64), self.fraction_bits - CELL_BITS
        for part in reversed(loan_chunks(size)):
            of_part = laws.part(part)
            slots = stack.pop(TOTAL, values[part].shape)
            x = of_part.find(slots)
            first, count = of_part.bins(x)
            uniform.push(stack, slots - first, count)
            slots, cells = stack.pop(1 << CELL_TOTAL_BITS, x.shape), of_part.cells(x)
            cell = (cells[:, 1:] <= slots[:, None]).sum(1)[:, None]
            starts = np.take_along_axis(cells, cell, 1)[:, 0]
            stack.push(slots - starts, np.take_along_axis(cells, cell + 1, 1)[:, 0] - starts)
            rest = stack.pop(1 << rest_bits, x.shape)
            values[part] = (x << self.fraction_bits) + (cell[:, 0] << rest_bits) + rest
        return values
