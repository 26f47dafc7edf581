"""Mixtures of logistics as exact distribution functions over symbols; twin of dqcodec.flows.mixture.

Everything is int32. Positions are 64ths of a pixel step. The symbol x holds the slots start(x) .. start(x + 1) - 1 of TOTAL, at
least one.
"""

from dataclasses import dataclass

import numpy as np

from dqcodec.errors import ModelError
from dqcodec.exact.learning import GRADIENT_BOUND, GRADIENT_GRID

TOTAL_BITS = 19
TOTAL = 1 << TOTAL_BITS
POSITION_BITS = 6  # positions are 64ths of a pixel step
MEAN_GRID = 256  # means come in 256ths of a spread ...
MEAN_BOUND = 16 * MEAN_GRID  # ... up to 16 of them
LOGIT_GRID = 32
LOGIT_RANGE = 16 * LOGIT_GRID  # a component whose logit is this far below the largest has no weight to speak of
LOG2_SCALE_GRID = 32  # equals exact.context.GRID: log-spreads and log-scales add
LOG2_SCALE_LOW, LOG2_SCALE_HIGH = -4 * LOG2_SCALE_GRID, 7 * LOG2_SCALE_GRID
SIGMOID_CELLS = 8192  # over [-16, 16)
SIGMOID_GRID = SIGMOID_CELLS // 32
INVERSE_SCALE_BITS = 11  # inverse scales are in 2^-11 per pixel step
_WEIGHT_BITS = 14
_DIGITS = np.array([[1], [2], [3]], np.int32)
_MASS_SHIFT = 16 + _WEIGHT_BITS - TOTAL_BITS
_SIGMOID_SHIFT = POSITION_BITS + INVERSE_SCALE_BITS - 8  # a sigmoid's cell is 1/256
_LEAST_MEAN, _LARGEST_MEAN = np.int32(-320 << POSITION_BITS), np.int32(576 << POSITION_BITS)  # so that no product leaves int32


@dataclass(frozen=True)
class MixtureTables:
    """sigmoid: 2^16 sigmoid at the middle of each cell. weight: 2^16 e^-(i / LOGIT_GRID). inverse_scale: 2^11 2^-s for
    log2 scales s from LOG2_SCALE_LOW."""

    sigmoid: np.ndarray
    weight: np.ndarray
    inverse_scale: np.ndarray

    def __post_init__(self):
        shapes = (SIGMOID_CELLS,), (LOGIT_RANGE + 1,), (LOG2_SCALE_HIGH - LOG2_SCALE_LOW + 1,)
        highest = (1 << 16), (1 << 16), (1 << 15)
        for table, shape, high in zip((self.sigmoid, self.weight, self.inverse_scale), shapes, highest):
            if table.shape != shape or table.min() < 0 or table.max() > high:
                raise ModelError("a table of the mixture is not one")
        if (np.diff(self.sigmoid) < 0).any() or self.weight[0] < 1 or self.inverse_scale.min() < 1:
            raise ModelError("a table of the mixture is not one")
        for name in ("sigmoid", "weight", "inverse_scale"):
            object.__setattr__(self, name, getattr(self, name).astype(np.int32))


class Mixture:
    """The distribution functions of N symbols, from the raw outputs (3 K, N) of a network.

    Args:
        sums, spreads, log_spread: the plane's local moments (N,), as exact.context.Moments has them. offset: added
            to all means, pixel steps (N,).
    """

    def __init__(
        self, tables: MixtureTables, out: np.ndarray, sums: np.ndarray, spreads: np.ndarray, log_spread: np.ndarray,
        offset: np.ndarray | int, bits: int,
    ):
        self.tables, self.bits = tables, bits
        k = len(out) // 3
        out = out.astype(np.int32)
        logits, means, scales = out[:k], out[k : 2 * k], out[2 * k :]
        weight = tables.weight.take(logits.max(0) - logits, mode="clip")
        whole = weight.sum(0, dtype=np.int32)
        # together a little less than 2^14, so that every symbol gets a slot beside its mass
        weight *= (1 << _WEIGHT_BITS) - max(1, 1 << bits >> 16 - _MASS_SHIFT)
        weight //= whole
        means *= spreads.astype(np.int32)
        means >>= 8
        means += 8 * sums.astype(np.int32) + ((offset << POSITION_BITS) + (1 << POSITION_BITS >> 1))
        means.clip(_LEAST_MEAN, _LARGEST_MEAN, out=means)
        scales += log_spread.astype(np.int32) - LOG2_SCALE_LOW
        self.weight, self.mean, self.inverse_scale = (
            a[:, None] for a in (weight, means, tables.inverse_scale.take(scales, mode="clip"))
        )

    def starts(self, symbols: np.ndarray) -> np.ndarray:
        """The first slot of symbols 1 .. 2^bits - 1, int32 (J, N)."""
        return self._starts(symbols, self.tables.sigmoid.take(self._cells(symbols), mode="clip"))

    def _cells(self, symbols: np.ndarray) -> np.ndarray:
        """Where in the sigmoid's table the lower edges of symbols lie for each component, (K, J, N); not clamped."""
        z = (symbols << POSITION_BITS) - self.mean
        z *= self.inverse_scale
        z >>= _SIGMOID_SHIFT
        z += SIGMOID_CELLS // 2
        return z

    def _starts(self, symbols: np.ndarray, sigmoid: np.ndarray) -> np.ndarray:
        slots = (sigmoid * self.weight).sum(0, dtype=np.int32)
        slots >>= _MASS_SHIFT
        slots += symbols
        return slots

    def find(self, slots: np.ndarray) -> np.ndarray:
        """The symbols that hold the slots (N,), int32: two bits at a time, the high ones first."""
        symbols = np.zeros(slots.shape, np.int32)
        for shift in range(self.bits - 2 + self.bits % 2, -1, -2):
            digits = _DIGITS if shift + 2 <= self.bits else _DIGITS[:1]
            symbols += (self.starts(symbols + (digits << shift)) <= slots).sum(0, dtype=np.int32) << shift
        return symbols

    def at(self, symbols: np.ndarray) -> "Coded":
        """What coding symbols (N,) takes, and teaches."""
        edges = np.stack([symbols, symbols + 1])
        cells = self._cells(edges)
        sigmoid = self.tables.sigmoid.take(cells, mode="clip")
        first, last = symbols == 0, symbols == (1 << self.bits) - 1
        begin, end = self._starts(edges, sigmoid)
        begin[first] = 0
        end[last] = TOTAL
        end -= begin
        sigmoid[:, 0, first] = 0
        sigmoid[:, 1, last] = 1 << 16
        return Coded(begin, end, self, cells, sigmoid)


@dataclass(frozen=True)
class Coded:
    """Symbols (N,) of a mixture: their first slots and numbers of slots, int32."""

    starts: np.ndarray
    sizes: np.ndarray
    mixture: Mixture
    cells: np.ndarray
    sigmoid: np.ndarray

    def gradient(self, spreads: np.ndarray) -> np.ndarray:
        """The derivative of -log P by the raw outputs (3 K, N), integers in 1/GRADIENT_GRID nats.

        In float32, each operation alone, rounded the same everywhere; spreads (N,) as exact.context.Moments has them.
        """
        weight = self.mixture.weight[:, 0].astype(np.float32) * np.float32(2.0**-_WEIGHT_BITS)
        value = self.sigmoid.astype(np.float32) * np.float32(2.0**-16)
        slope = value * (1 - value)
        mass = weight * (value[:, 1] - value[:, 0])
        whole = mass[0] + np.float32(2.0**-TOTAL_BITS)
        for part in mass[1:]:
            whole = whole + part
        share = weight / whole
        scale = self.mixture.inverse_scale[:, 0].astype(np.float32) * np.float32(2.0**-INVERSE_SCALE_BITS)
        z = (self.cells - SIGMOID_CELLS // 2).astype(np.float32) * np.float32(1 / SIGMOID_GRID)
        z *= slope
        k = len(weight)
        out = np.empty((3 * k, len(spreads)), np.float32)
        np.subtract(weight, mass / whole, out=out[:k])
        np.multiply((slope[:, 1] - slope[:, 0]) * share, scale * (spreads * np.float32(1 / 64)), out=out[k : 2 * k])
        np.multiply((z[:, 1] - z[:, 0]) * share, np.float32(0.6931472), out=out[2 * k :])
        out *= np.float32(GRADIENT_GRID)
        np.rint(out, out=out)
        return out.clip(-GRADIENT_BOUND, GRADIENT_BOUND, out=out)
