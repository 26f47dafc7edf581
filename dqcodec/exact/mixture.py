"""Mixtures of logistics as exact distribution functions over symbols; twin of dqcodec.flows.mixture.

Positions are 64ths of a pixel step. The symbol x holds the slots start(x) .. start(x + 1) - 1 of TOTAL, at least one.
The laws of N symbols are int32 (3, K, N): weights, means and inverse scales. The weights of a law add up to a little
less than 2^14, so that every symbol gets a slot beside its mass. No product below reaches 2^31.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop
from dqcodec.base.errors import ModelError
from dqcodec.exact.model_file import Tensors
from dqcodec.frozen.autoregressive import (
    GRADIENT_BOUND,
    GRADIENT_GRID,
    INVERSE_SCALE_BITS,
    LARGEST_MEAN,
    LEAST_MEAN,
    LOG2_SCALE_HIGH,
    LOG2_SCALE_LOW,
    LOGIT_RANGE,
    MEAN_GRID,
    POSITION_BITS,
    SIGMOID_CELLS,
    SIGMOID_GRID,
    TOTAL,
    TOTAL_BITS,
    WEIGHT_BITS,
)

_MASS_SHIFT = 16 + WEIGHT_BITS - TOTAL_BITS
_MEAN_SHIFT = MEAN_GRID.bit_length() - 1
SIGMOID_SHIFT = POSITION_BITS + INVERSE_SCALE_BITS - 8  # a sigmoid's cell is 1/256
WEIGHT, MEAN, INVERSE_SCALE = range(3)


class MixtureTables(NamedTuple):
    """int32. sigmoid: 2^16 sigmoid at the middle of each cell. weight: 2^16 e^-(i / LOGIT_GRID). inverse_scale: 2^11
    2^-s for log2 scales s from LOG2_SCALE_LOW.
    """

    sigmoid: np.ndarray
    weight: np.ndarray
    inverse_scale: np.ndarray

    @classmethod
    def load(cls, tensors: Tensors) -> "MixtureTables":
        """The tables of a model file. Raises ModelError, see checked."""
        return cls.checked(*(tensors[f"mixture.{name}"] for name in cls._fields))

    @classmethod
    def checked(cls, sigmoid: np.ndarray, weight: np.ndarray, inverse_scale: np.ndarray) -> "MixtureTables":
        """Raises ModelError unless every mixture of them is a law."""
        shapes = (SIGMOID_CELLS,), (LOGIT_RANGE + 1,), (LOG2_SCALE_HIGH - LOG2_SCALE_LOW + 1,)
        highest = (1 << 16), (1 << 16), (1 << 15)
        for table, shape, high in zip((sigmoid, weight, inverse_scale), shapes, highest):
            if table.shape != shape or table.min() < 0 or table.max() > high:
                raise ModelError("a table of the mixture is not valid")
        if (np.diff(sigmoid) < 0).any() or weight[0] < 1 or inverse_scale.min() < 1:
            raise ModelError("a table of the mixture is not valid")
        return cls(*(np.ascontiguousarray(table, np.int32) for table in (sigmoid, weight, inverse_scale)))


@part_of_loop
def set_mixtures(laws, symbols, tables, out, centers, spreads, log_spreads, offsets):
    """Set laws from a network's raw outputs.

    Args:
        laws: int32 (3, K, N), set.
        symbols: their number.
        tables: MixtureTables.
        out: the raw outputs, float32 (3 K, N).
        centers: where a mean of 0 lies, 64ths of a pixel step, int32 (N,).
        spreads: of the plane, 64ths of a pixel step, int32 (N,).
        log_spreads: see context.log_spreads.
        offsets: added to all means, pixel steps, int32 (N,).
    """
    _set_weights(laws, symbols, tables, out)
    components, count = laws.shape[1:]
    for k in range(components):
        for n in range(count):
            mean = np.int32(np.int32(np.int32(out[components + k, n]) * spreads[n]) >> _MEAN_SHIFT)
            mean += np.int32(centers[n] + (offsets[n] << POSITION_BITS) + (1 << POSITION_BITS >> 1))
            laws[MEAN, k, n] = min(max(mean, np.int32(LEAST_MEAN)), np.int32(LARGEST_MEAN))
        for n in range(count):
            scale = np.int32(out[2 * components + k, n]) + log_spreads[spreads[n]] - LOG2_SCALE_LOW
            laws[INVERSE_SCALE, k, n] = tables.inverse_scale[min(max(scale, 0), LOG2_SCALE_HIGH - LOG2_SCALE_LOW)]


@part_of_loop
def _set_weights(laws, symbols, tables, out):
    """Set the weights of laws from raw outputs."""
    components, count = laws.shape[1:]
    highest, whole = np.empty(count, np.float32), np.zeros(count)
    for n in range(count):
        highest[n] = out[0, n]
    for k in range(1, components):
        for n in range(count):
            highest[n] = max(highest[n], out[k, n])
    for k in range(components):
        for n in range(count):
            laws[WEIGHT, k, n] = tables.weight[np.int32(min(highest[n] - out[k, n], np.float32(LOGIT_RANGE)))]
            whole[n] += laws[WEIGHT, k, n]
    shares = np.float64((1 << WEIGHT_BITS) - max(1, symbols >> 16 - _MASS_SHIFT))
    for k in range(components):
        for n in range(count):  # the quotient of integers below 2^30 is rounded to no other integer
            laws[WEIGHT, k, n] = np.int32(laws[WEIGHT, k, n] * shares / whole[n])


@part_of_loop
def _cell(position, mean, inverse_scale):
    """The cell of the sigmoid's table where a position lies for a component, counted from the middle; not clamped."""
    return np.int32(np.int32(np.int32((position << POSITION_BITS) - mean) * inverse_scale) >> SIGMOID_SHIFT)


@part_of_loop
def _sigmoid(sigmoid, cell):
    """2^16 times the mass of a component below a cell; cells outside the table count as its first or last."""
    middle = np.int32(SIGMOID_CELLS // 2)
    return sigmoid[min(max(cell, -middle), middle - np.int32(1)) + middle]


@part_of_loop
def start(laws, n, sigmoid, symbols, symbol):
    """The first slot of a symbol by law n. The symbol after the last has TOTAL."""
    if symbol == 0:
        return 0
    if symbol == symbols:
        return TOTAL
    slots = 0
    for k in range(laws.shape[1]):
        cell = _cell(symbol, laws[MEAN, k, n], laws[INVERSE_SCALE, k, n])
        slots += _sigmoid(sigmoid, cell) * np.int64(laws[WEIGHT, k, n])
    return (slots >> _MASS_SHIFT) + symbol


@part_of_loop
def find(laws, sigmoid, symbols, slots, found):
    """Set found, int32 (N,), to the symbols that hold slots, integers (N,)."""
    components, count = laws.shape[1:]
    sums = np.empty(count, np.int32)
    for n in range(count):
        found[n] = 0
    step = symbols >> 1
    while step:
        for n in range(count):
            sums[n] = 0
        for k in range(components):
            for n in range(count):
                cell = _cell(found[n] + step, laws[MEAN, k, n], laws[INVERSE_SCALE, k, n])
                sums[n] += np.int32(_sigmoid(sigmoid, cell) * laws[WEIGHT, k, n])
        for n in range(count):
            found[n] += step * ((sums[n] >> _MASS_SHIFT) + found[n] + step <= slots[n])
        step >>= 1


@part_of_loop
def edges(laws, sigmoid, symbols, coded):
    """The lower and upper edges of symbols (N,), int32, for every component.

    Returns:
        2^16 times the mass below, int32 (2, K, N).
        where the edges lie, in scales from the means, float32 (2, K, N).
    """
    components, count = laws.shape[1:]
    masses, places = np.empty((2, components, count), np.int32), np.empty((2, components, count), np.float32)
    for edge in range(2):
        for k in range(components):
            for n in range(count):
                symbol = coded[n] + edge
                cell = _cell(symbol, laws[MEAN, k, n], laws[INVERSE_SCALE, k, n])
                inner = _sigmoid(sigmoid, cell)
                masses[edge, k, n] = 0 if symbol == 0 else (1 << 16 if symbol == symbols else inner)
                places[edge, k, n] = np.float32(cell) * np.float32(1 / SIGMOID_GRID)
    return masses, places


@part_of_loop
def set_slots(laws, masses, symbols, coded, slots, p):
    """Set slots, int32 (N, P, 2), of plane p to the first slot and the number of slots of symbols. masses: see edges."""
    components, count = laws.shape[1:]
    sums = np.zeros((2, count), np.int32)
    for edge in range(2):
        for k in range(components):
            for n in range(count):
                sums[edge, n] += np.int32(masses[edge, k, n] * laws[WEIGHT, k, n])
    for n in range(count):
        end = TOTAL if coded[n] + 1 == symbols else (sums[1, n] >> _MASS_SHIFT) + coded[n] + 1
        slots[n, p, 0] = (sums[0, n] >> _MASS_SHIFT) + coded[n]
        slots[n, p, 1] = end - slots[n, p, 0]


@part_of_loop
def set_gradients(laws, masses, places, spreads, out):
    """Set out (3 K, N) to the derivatives of -log P with respect to the raw outputs: integers, 1/GRADIENT_GRID nats.

    masses, places: see edges. spreads: of the plane, int32 (N,). Each operation is float32.
    """
    components, count = laws.shape[1:]
    one, bound = np.float32(1), np.float32(GRADIENT_BOUND)
    whole = np.full(count, np.float32(2.0**-TOTAL_BITS))
    for k in range(components):
        for n in range(count):
            low = np.float32(masses[0, k, n]) * np.float32(2.0**-16)
            high = np.float32(masses[1, k, n]) * np.float32(2.0**-16)
            low_slope, high_slope = low * (one - low), high * (one - high)
            mass = np.float32(laws[WEIGHT, k, n]) * np.float32(2.0**-WEIGHT_BITS) * (high - low)
            whole[n] += mass
            out[k, n], out[components + k, n] = mass, high_slope - low_slope
            out[2 * components + k, n] = places[1, k, n] * high_slope - places[0, k, n] * low_slope
    for k in range(components):
        for n in range(count):
            weight = np.float32(laws[WEIGHT, k, n]) * np.float32(2.0**-WEIGHT_BITS)
            share = weight / whole[n]
            scale = np.float32(laws[INVERSE_SCALE, k, n]) * np.float32(2.0**-INVERSE_SCALE_BITS)
            out[k, n] = weight - out[k, n] / whole[n]
            out[components + k, n] = (
                out[components + k, n] * share * (scale * (np.float32(spreads[n]) * np.float32(1 / 64)))
            )
            out[2 * components + k, n] = out[2 * components + k, n] * share * np.float32(0.6931472)
    for i in range(out.shape[0]):
        for n in range(count):
            out[i, n] = min(max(np.rint(out[i, n] * np.float32(GRADIENT_GRID)), -bound), bound)
