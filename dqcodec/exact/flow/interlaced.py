"""The exact interlaced flow as a codec for grid integers v: the twin of flows.interlaced.InterlacedFlow."""

import math
from collections.abc import Sequence

import numpy as np

from dqcodec.ans import uniform
from dqcodec.ans.logarithms import log2
from dqcodec.ans.protocol import BitStack
from dqcodec.base.errors import LatentOverflow
from dqcodec.context.interlacing import seen
from dqcodec.context.planes import coding_order, differences
from dqcodec.exact.flow.mixture_coupling import Laws, MixtureCoupling
from dqcodec.exact.flow.tables import growing_chunks, loan_chunks
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
        return self._push_images(_Values(stack, self.fraction_bits), v)

    def pop(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """The inverse of push: v, int64 (count, height, width, C). Raises StackUnderflow."""
        return self._pop_images(_Values(stack, self.fraction_bits), (count, height, width, self.channels))

    def push_symbols(self, stack: BitStack, x: np.ndarray, before: int, growth: int) -> np.ndarray:
        """Code symbols x, int64 (B, H, W, C), by their masses P(x): this borrows almost nothing.

        before: how many symbols lie on the stack. growth: of the parts (tables.growing_chunks). Returns -log2 P(x) of
        each image, as push does.

        Raises StackUnderflow.
        """
        return self._push_images(_Symbols(stack, before, growth), x)

    def pop_symbols(self, stack: BitStack, shape: tuple[int, int, int, int], before: int, growth: int) -> np.ndarray:
        """The inverse of push_symbols: x of `shape`. Raises StackUnderflow."""
        size = math.prod(shape)
        return self._pop_images(_Symbols(stack, before + size - size // self._step**2, growth), shape)

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """v ~ p(v) from random bits: pop, because every law is bounded."""
        return self.pop(stack, count, height, width)

    def _push_images(self, code: "_Values | _Symbols", v: np.ndarray) -> np.ndarray:
        """Code values (B, H, W, C); returns the cost of each image."""
        if (v >> code.fraction_bits + self.bits).any():
            raise LatentOverflow("a value lies outside of all bins")
        values = coding_order(v)
        coarsest = values[:, :: self._step, :: self._step]
        cost = np.full(len(v), coarsest[0].size * self.bits << LOG2_BITS)
        for couplings in self.levels:
            y = differences(values >> code.fraction_bits)
            for coupling in reversed(couplings):
                cost += self._push_pixels(code, coupling, y, coupling.own(values))
            values = values[:, ::2, ::2]
        code.stack.push(coarsest, 1 << self.bits + code.fraction_bits)
        return cost

    def _pop_images(self, code: "_Values | _Symbols", shape: tuple[int, int, int, int]) -> np.ndarray:
        """The inverse of _push_images: values of `shape`."""
        values = np.zeros(shape, np.int64)
        coarsest = values[:, :: self._step, :: self._step]
        coarsest[:] = code.stack.pop(1 << self.bits + code.fraction_bits, coarsest.shape)
        for level in reversed(range(len(self.levels))):
            of_level = values[:, :: 1 << level, :: 1 << level]
            for coupling in self.levels[level]:
                y = differences(of_level >> code.fraction_bits)
                self._pop_pixels(code, coupling, y, coupling.own(of_level))
        return coding_order(values)

    def _push_pixels(
        self, code: "_Values | _Symbols", coupling: MixtureCoupling, y: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """Code the pixels of a coupling, (B, h, w, C) in coding order; returns the cost of
        each image. y: planes of the level.
        """
        c, own, cost = seen(y, coupling.number, self.bits), coupling.own(y), np.zeros(len(y), np.int64)
        trunk = coupling.trunk(c)
        for plane in reversed(range(self.channels)):
            laws = coupling.laws(c, trunk, own, plane)
            cost += code.push(laws, values[..., plane].ravel()).reshape(len(y), -1).sum(1)
        return cost

    def _pop_pixels(
        self, code: "_Values | _Symbols", coupling: MixtureCoupling, y: np.ndarray, values: np.ndarray
    ) -> None:
        """The inverse of _push_pixels: sets values."""
        c, own = seen(y, coupling.number, self.bits), coupling.own(y)
        trunk = coupling.trunk(c)
        for plane in range(self.channels):
            laws = coupling.laws(c, trunk, own, plane)
            values[..., plane] = code.pop(laws, values[..., plane].size).reshape(values.shape[:3])
            own[..., : plane + 1] = differences(values[..., : plane + 1] >> code.fraction_bits)


class _Values:
    """Codes values v = x 2^fraction_bits + u by their laws, on a stack."""

    def __init__(self, stack: BitStack, fraction_bits: int):
        self.stack, self.fraction_bits, self._rest_bits = stack, fraction_bits, fraction_bits - CELL_BITS

    def push(self, laws: Laws, values: np.ndarray) -> np.ndarray:
        """Code values, int64 (N,); returns the cost of each."""
        x = values >> self.fraction_bits
        (first, count), cells = laws.bins(x), laws.cells(x)
        cell = (values >> self._rest_bits & (1 << CELL_BITS) - 1)[:, None]
        starts = np.take_along_axis(cells, cell, 1)[:, 0]
        sizes = np.take_along_axis(cells, cell + 1, 1)[:, 0] - starts
        for part in loan_chunks(len(values)):
            self.stack.push(values[part] & (1 << self._rest_bits) - 1, 1 << self._rest_bits)
            self.stack.push(starts[part] + self.stack.pop(sizes[part]), 1 << CELL_TOTAL_BITS)
            _push_bins(self.stack, first[part], count[part])
        return _MOST_COST - log2(count) - log2(sizes)

    def pop(self, laws: Laws, size: int) -> np.ndarray:
        """The inverse of push: int64 (size,)."""
        values = np.empty(size, np.int64)
        for part in reversed(loan_chunks(size)):
            of_part = laws.part(part)
            x = _pop_bins(self.stack, of_part)
            slots, cells = self.stack.pop(1 << CELL_TOTAL_BITS, x.shape), of_part.cells(x)
            cell = (cells[:, 1:] <= slots[:, None]).sum(1)[:, None]
            starts = np.take_along_axis(cells, cell, 1)[:, 0]
            self.stack.push(slots - starts, np.take_along_axis(cells, cell + 1, 1)[:, 0] - starts)
            rest = self.stack.pop(1 << self._rest_bits, x.shape)
            values[part] = (x << self.fraction_bits) + (cell[:, 0] << self._rest_bits) + rest
        return values


class _Symbols:
    """Codes symbols by the masses of their bins, on a stack that may be almost empty: so the first parts are small."""

    fraction_bits = 0

    def __init__(self, stack: BitStack, coded: int, growth: int):
        """coded: how many symbols are coded already."""
        self.stack, self._coded, self._growth = stack, coded, growth

    def push(self, laws: Laws, x: np.ndarray) -> np.ndarray:
        """Code symbols, int64 (N,); returns the cost of each."""
        first, count = laws.bins(x)
        for part in growing_chunks(self._coded, len(x), self._growth):
            _push_bins(self.stack, first[part], count[part])
        self._coded += len(x)
        return (TOTAL_BITS << LOG2_BITS) - log2(count)

    def pop(self, laws: Laws, size: int) -> np.ndarray:
        """The inverse of push: int64 (size,)."""
        self._coded -= size
        x = np.empty(size, np.int64)
        for part in reversed(growing_chunks(self._coded, size, self._growth)):
            x[part] = _pop_bins(self.stack, laws.part(part))
        return x


def _push_bins(stack: BitStack, first: np.ndarray, count: np.ndarray) -> None:
    """Code bins by their first slots and numbers of slots, int64 (N,)."""
    stack.push(first + uniform.pop(stack, count), TOTAL)


def _pop_bins(stack: BitStack, laws: Laws) -> np.ndarray:
    """The inverse of _push_bins: the symbols, int64 (N,)."""
    slots = stack.pop(TOTAL, laws.mixtures.shape[2:])
    x = laws.find(slots)
    first, count = laws.bins(x)
    uniform.push(stack, slots - first, count)
    return x
