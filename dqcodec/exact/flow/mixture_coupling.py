"""Exact mixture couplings: twins of dqcodec.flows.interlaced.CouplingNet and of its laws.

A value v = x + u is coded in three steps: the symbol x by the masses of all bins, the cell of u by the law given x, and
the rest of u as uniform. The masses are those of dqcodec.exact.mixture.
"""

from dataclasses import dataclass

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop
from dqcodec.base.errors import ModelError
from dqcodec.context.context import log_spreads
from dqcodec.context.interlacing import LARGEST_SPREAD, Seen, standardised
from dqcodec.exact.flow.networks import Trunk, leaky, map_batch
from dqcodec.exact.mixture import INVERSE_SCALE, MEAN, SIGMOID_SHIFT, WEIGHT, MixtureTables, find, set_mixtures, start
from dqcodec.exact.model_file import Tensors
from dqcodec.exact.networks import check_chain, load_conv
from dqcodec.frozen.autoregressive import (
    GRID,
    INPUT_BOUND,
    MAX_LOG_SCALE,
    MAX_LOGIT,
    MEAN_BOUND,
    POSITION_BITS,
    SIGMOID_CELLS,
    TOTAL_BITS,
    WEIGHT_BITS,
)
from dqcodec.frozen.interlaced import CELL_BITS, CELL_TOTAL_BITS, NEIGHBOURS, PLACES

_MASS_BITS = 16 + SIGMOID_SHIFT + WEIGHT_BITS


class CouplingNet:
    """The network of a coupling: from known pixels to the raw mixture parameters of each plane."""

    def __init__(self, tensors: Tensors, name: str, planes: int, mixtures: int):
        """Load the tensors `name`.*. Raises ModelError: they do not fit together, or the sums are not proven exact."""
        self.trunk = Trunk(tensors, name, INPUT_BOUND)
        level, bound = self.trunk.level, np.repeat([MAX_LOGIT, MEAN_BOUND, MAX_LOG_SCALE], mixtures)
        self.heads = [load_conv(tensors, f"{name}.heads.{p}", level, -level, level) for p in range(planes)]
        self.known = [load_conv(tensors, f"{name}.known.{p}", INPUT_BOUND, -level, level) for p in range(1, planes)]
        self.outs = [load_conv(tensors, f"{name}.out.{p}", level, -bound, bound) for p in range(planes)]
        for head, out in zip(self.heads, self.outs):
            check_chain(name, self.trunk.conv_in, head, out)
        if self.trunk.conv_in.inputs != (len(NEIGHBOURS[0]) + 2) * planes:
            raise ModelError(f"{name}: a network's input does not fit its place")
        for p, (head, known) in enumerate(zip(self.heads[1:], self.known), 1):
            # the sums of the trunk and of the earlier planes are added, so both share shift and bound
            fits = known.inputs == 2 * p and known.outputs == head.outputs and (known.shift == head.shift).all()
            if not fits or head.bound + known.bound >= 1 << 53:
                raise ModelError(f"{name}: a network's heads do not fit together")

    def raw(self, trunk: np.ndarray, standard: np.ndarray, plane: int) -> np.ndarray:
        """The parameters of a plane, float32 (B, h, w, 3 K).

        trunk: (B, h, w, N). standard: the earlier planes, standardised, float32 (B, h, w, plane).
        """
        head = self.heads[plane]
        sums = head.sums(trunk).astype(np.float64)
        if plane:
            known = np.concatenate([standard, np.clip(standard, -GRID, GRID)], -1)
            sums += self.known[plane - 1].sums(known)
        return self.outs[plane](leaky(head.finish(sums).astype(np.float32))).astype(np.float32)


@dataclass(frozen=True)
class Laws:
    """The laws of the values of a plane, at N places.

    mixtures: int32 (3, K, N), see exact.mixture. symbols: their number.
    """

    mixtures: np.ndarray
    tables: MixtureTables
    symbols: int

    def part(self, which: slice) -> "Laws":
        """The laws at some of the places."""
        return Laws(np.ascontiguousarray(self.mixtures[..., which]), self.tables, self.symbols)

    def bins(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first slot and the number of slots of symbols x, int64 (N,)."""
        return _bins(self.mixtures, self.tables.sigmoid, self.symbols, x)

    def find(self, slots: np.ndarray) -> np.ndarray:
        """The symbols that hold slots, int64 (N,)."""
        return _find(self.mixtures, self.tables.sigmoid, self.symbols, slots)

    def cells(self, x: np.ndarray) -> np.ndarray:
        """The first slots of the cells of the bins of x, and the end of the last, int64 (N, 2^CELL_BITS + 1)."""
        return _cells(self.mixtures, self.tables.sigmoid, x)


class MixtureCoupling:
    """The laws of a coupling's pixels, given what it sees."""

    def __init__(self, net: CouplingNet, tables: MixtureTables, number: int, bits: int):
        """number: the place of its pixels in frozen.interlaced.PLACES. bits: of symbols."""
        self.net, self.tables, self.number, self.bits = net, tables, number, bits

    def own(self, level: np.ndarray) -> np.ndarray:
        """The coupling's pixels of a level's image, a view (B, h, w, ...)."""
        row, column = PLACES[self.number]
        return level[:, row::2, column::2]

    def trunk(self, seen: Seen) -> np.ndarray:
        """What all planes share, (B, h, w, N) float32, for networks of width N."""
        return map_batch(lambda inputs: (self.net.trunk(inputs),), seen.inputs)[0]

    def laws(self, seen: Seen, trunk: np.ndarray, own: np.ndarray, plane: int) -> Laws:
        """The laws of a plane. own: the planes of the coupling's pixels, int32 (B, h, w, P);
        only earlier planes are used.
        """
        known = standardised(own[..., :plane], seen.sums[..., :plane], seen.spreads[..., :plane])
        raw = map_batch(lambda *inputs: (self.net.raw(*inputs, plane),), trunk, known)[0]
        centers = 8 * seen.sums[..., plane].ravel()  # 64ths of a pixel step
        offsets = own[..., 0].ravel() if plane else np.zeros_like(centers)
        out, spreads = np.ascontiguousarray(raw.reshape(len(centers), -1).T), seen.spreads[..., plane].ravel()
        logs, symbols = log_spreads(LARGEST_SPREAD), 1 << self.bits
        return Laws(_mixtures(symbols, self.tables, out, centers, spreads, logs, offsets), self.tables, symbols)


@compiled
def _mixtures(symbols, tables, out, centers, spreads, logs, offsets):
    """See set_mixtures."""
    laws = np.empty((3, out.shape[0] // 3, out.shape[1]), np.int32)
    set_mixtures(laws, symbols, tables, out, centers, spreads, logs, offsets)
    return laws


@compiled
def _bins(laws, sigmoid, symbols, x):
    first, count = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    for n in range(len(x)):
        first[n] = start(laws, n, sigmoid, symbols, x[n])
        count[n] = start(laws, n, sigmoid, symbols, x[n] + 1) - first[n]
    return first, count


@compiled
def _find(laws, sigmoid, symbols, slots):
    found = np.empty(len(slots), np.int32)
    find(laws, sigmoid, symbols, slots, found)
    return found.astype(np.int64)


@compiled
def _cells(laws, sigmoid, x):
    """See Laws.cells. Masses are in units of 2^-39. Every bin has one slot beside its mass,
    and every cell a part of that slot.
    """
    count, least = 1 << CELL_BITS, 1 << _MASS_BITS - TOTAL_BITS - CELL_BITS
    starts = np.empty((len(x), count + 1), np.int64)
    for n in range(len(x)):
        for j in range(count + 1):
            position = (x[n] << POSITION_BITS) + (j << POSITION_BITS - CELL_BITS)
            starts[n, j] = j * least
            for k in range(laws.shape[1]):
                scaled = (position - laws[MEAN, k, n]) * np.int64(laws[INVERSE_SCALE, k, n])
                starts[n, j] += laws[WEIGHT, k, n] * _interpolated(sigmoid, scaled)
        first, whole = starts[n, 0], starts[n, count] - starts[n, 0]
        for j in range(count + 1):
            starts[n, j] = (starts[n, j] - first) * ((1 << CELL_TOTAL_BITS) - count) // whole + j
    return starts


@part_of_loop
def _interpolated(sigmoid, scaled):
    """The sigmoid in units of 2^-25, linear between the middles of the table's cells.
    scaled: (position - mean) / scale, 2^-17.
    """
    place = scaled - (1 << SIGMOID_SHIFT - 1)
    cell, part = (place >> SIGMOID_SHIFT) + SIGMOID_CELLS // 2, place & (1 << SIGMOID_SHIFT) - 1
    low = sigmoid[min(max(cell, 0), SIGMOID_CELLS - 1)]
    high = sigmoid[min(max(cell + 1, 0), SIGMOID_CELLS - 1)]
    return low * ((1 << SIGMOID_SHIFT) - part) + high * part
