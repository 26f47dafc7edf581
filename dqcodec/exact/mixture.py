"""Mixtures of logistics as exact distribution functions over symbols; twin of dqcodec.flows.mixture.

Positions are 64ths of a pixel step. The symbol x holds the slots start(x) .. start(x + 1) - 1 of TOTAL, at least one. All
functions are of one symbol's mixture, to be compiled into the loops over pixels that call them.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.compiled import compiled
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
_MASS_SHIFT = 16 + _WEIGHT_BITS - TOTAL_BITS
_SIGMOID_SHIFT = POSITION_BITS + INVERSE_SCALE_BITS - 8  # a sigmoid's cell is 1/256
_LEAST_MEAN, _LARGEST_MEAN = -320 << POSITION_BITS, 576 << POSITION_BITS


# A law is int64 (3, K), a column a component. Together its weights are a little less than 2^14, so that every symbol gets a
# slot beside its mass.
WEIGHT, MEAN, INVERSE_SCALE = range(3)


class MixtureTables(NamedTuple):
    """int32. sigmoid: 2^16 sigmoid at the middle of each cell. weight: 2^16 e^-(i / LOGIT_GRID). inverse_scale: 2^11 2^-s
    for log2 scales s from LOG2_SCALE_LOW."""

    sigmoid: np.ndarray
    weight: np.ndarray
    inverse_scale: np.ndarray

    @classmethod
    def checked(cls, sigmoid: np.ndarray, weight: np.ndarray, inverse_scale: np.ndarray) -> "MixtureTables":
        """Raises ModelError unless every mixture of them is a law."""
        shapes = (SIGMOID_CELLS,), (LOGIT_RANGE + 1,), (LOG2_SCALE_HIGH - LOG2_SCALE_LOW + 1,)
        highest = (1 << 16), (1 << 16), (1 << 15)
        for table, shape, high in zip((sigmoid, weight, inverse_scale), shapes, highest):
            if table.shape != shape or table.min() < 0 or table.max() > high:
                raise ModelError("a table of the mixture is not one")
        if (np.diff(sigmoid) < 0).any() or weight[0] < 1 or inverse_scale.min() < 1:
            raise ModelError("a table of the mixture is not one")
        return cls(*(np.ascontiguousarray(table, np.int32) for table in (sigmoid, weight, inverse_scale)))


@compiled
def set_mixture(law, symbols, tables, out, n, sums, spread, log_spread, offset):
    """Set a law from row n of a network's raw outputs (N, 3 K).

    sums, spread, log_spread: the plane's moments there, see exact.context. offset: added to all means, pixel steps.
    """
    components = law.shape[1]
    highest, whole = out[n, 0], 0
    for k in range(1, components):
        highest = max(highest, out[n, k])
    for k in range(components):
        law[WEIGHT, k] = tables.weight[min(np.int64(highest - out[n, k]), LOGIT_RANGE)]
        whole += law[WEIGHT, k]
    for k in range(components):
        law[WEIGHT, k] = law[WEIGHT, k] * ((1 << _WEIGHT_BITS) - max(1, symbols >> 16 - _MASS_SHIFT)) // whole
        mean = (np.int64(out[n, components + k]) * spread >> 8) + 8 * sums
        mean += (offset << POSITION_BITS) + (1 << POSITION_BITS >> 1)
        law[MEAN, k] = min(max(mean, _LEAST_MEAN), _LARGEST_MEAN)
        scale = np.int64(out[n, 2 * components + k]) + log_spread - LOG2_SCALE_LOW
        law[INVERSE_SCALE, k] = tables.inverse_scale[min(max(scale, 0), LOG2_SCALE_HIGH - LOG2_SCALE_LOW)]


@compiled
def _cell(law, k, symbol):
    """Where in the sigmoid's table the lower edge of a symbol lies for a component; not clamped."""
    return (((symbol << POSITION_BITS) - law[MEAN, k]) * law[INVERSE_SCALE, k] >> _SIGMOID_SHIFT) + SIGMOID_CELLS // 2


@compiled
def _sigmoid(law, sigmoid, k, symbol):
    """2^16 times what a component has below a symbol, between the first and the last."""
    return np.int64(sigmoid[min(max(_cell(law, k, symbol), 0), SIGMOID_CELLS - 1)])


@compiled
def start(law, sigmoid, symbols, symbol):
    """The first slot of a symbol; TOTAL for the one after the last."""
    if symbol == 0:
        return 0
    if symbol == symbols:
        return TOTAL
    return _inner_start(law, sigmoid, symbol)


@compiled
def _inner_start(law, sigmoid, symbol):
    slots = 0
    for k in range(law.shape[1]):
        slots += _sigmoid(law, sigmoid, k, symbol) * law[WEIGHT, k]
    return (slots >> _MASS_SHIFT) + symbol


@compiled
def find(law, sigmoid, symbols, slot):
    """The symbol that holds a slot."""
    symbol, step = 0, symbols >> 1
    while step:
        symbol += step * (_inner_start(law, sigmoid, symbol + step) <= slot)
        step >>= 1
    return symbol


@compiled
def _edge(law, sigmoid, symbols, k, symbol):
    """A component's mass below a symbol, and its derivatives by its mean and by its log-scale, but for a factor; float32."""
    if symbol == 0:
        mass = np.float32(0)
    elif symbol == symbols:
        mass = np.float32(1)
    else:
        mass = np.float32(_sigmoid(law, sigmoid, k, symbol)) * np.float32(2.0**-16)
    slope = mass * (np.float32(1) - mass)
    z = np.float32(_cell(law, k, symbol) - SIGMOID_CELLS // 2) * np.float32(1 / SIGMOID_GRID)
    return mass, slope, z * slope


@compiled
def gradient(law, sigmoid, symbols, symbol, spread, out, n):
    """The derivative of -log P(symbol) by the raw outputs, into row n of out (N, 3 K): integers, 1/GRADIENT_GRID nats.

    All is float32, each operation alone.
    """
    components = law.shape[1]
    whole = np.float32(2.0**-TOTAL_BITS)
    for k in range(components):
        low, low_slope, low_steep = _edge(law, sigmoid, symbols, k, symbol)
        high, high_slope, high_steep = _edge(law, sigmoid, symbols, k, symbol + 1)
        mass = np.float32(law[WEIGHT, k]) * np.float32(2.0**-_WEIGHT_BITS) * (high - low)
        whole += mass
        out[n, k], out[n, components + k] = mass, high_slope - low_slope
        out[n, 2 * components + k] = high_steep - low_steep
    for k in range(components):
        weight = np.float32(law[WEIGHT, k]) * np.float32(2.0**-_WEIGHT_BITS)
        share = weight / whole
        scale = np.float32(law[INVERSE_SCALE, k]) * np.float32(2.0**-INVERSE_SCALE_BITS)
        out[n, k] = weight - out[n, k] / whole
        out[n, components + k] = out[n, components + k] * share * (scale * (np.float32(spread) * np.float32(1 / 64)))
        out[n, 2 * components + k] = out[n, 2 * components + k] * share * np.float32(0.6931472)
    for i in range(out.shape[1]):
        out[n, i] = min(max(np.rint(out[n, i] * np.float32(GRADIENT_GRID)), np.float32(-GRADIENT_BOUND)), np.float32(GRADIENT_BOUND))
