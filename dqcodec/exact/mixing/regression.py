"""Local least squares in raster order: the weights that fit the samples around the next one best (Li and Orchard 2001).

A regression of n regressors is a row of numbers: the lower triangle of the matrix of their products, row by row, then
their products with the target. Near samples weigh more. The weight is multiplied by DECAYS for each row between a
sample and the next one, and for each column between them in the same row. A filter weighs the columns of the rows
above; it peaks at the next sample's own column.

All numbers are float64, and each operation stands alone in a fixed order, so every machine finds the same weights.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.frozen.experts import DECAYS, LEAST_PIVOT, MARGIN, PERSISTENCES, RIDGE

_LANES = 4  # numbers that a processor may handle at once


class Regression(NamedTuple):
    """A regression for each column of an image, and for the next sample.

    Attributes:
        columns: sums over a column down to a row, float64 (columns, numbers).
        above: the filtered sums over the rows above, float64 (numbers,).
        left: the sums over the row's own samples, float64 (numbers,).
        system: the sums of the next sample, then its factors, float64 (n + 1, n or more). Rows are filled to whole
            vectors; numbers above the diagonal are never used.
        scratch: a column, or the rest of a back substitution, float64 (n + 1 or more,).
        n: the number of regressors.
        decay, persistence: see frozen.experts.
    """

    columns: np.ndarray
    above: np.ndarray
    left: np.ndarray
    system: np.ndarray
    scratch: np.ndarray
    n: int
    decay: float
    persistence: float

    @classmethod
    def new(cls, width: int, n: int, memory: int) -> "Regression":
        """width: the number of samples in a row. n: of regressors. memory: 0 (short) or 1 (long)."""
        numbers = n * (n + 1) // 2 + n + _LANES
        return cls(
            np.zeros((width + 2 * MARGIN, numbers)),
            *map(np.zeros, (numbers, numbers, (n + 1, _whole(n)), _whole(n))),
            n,
            float(DECAYS[memory]),
            float(PERSISTENCES[memory]),
        )


@part_of_loop_in_place
def start_row(regression):
    """Forget the row before, and the filter's sums."""
    regression.above[:] = 0
    regression.left[:] = 0


@part_of_loop_in_place
def advance(regression, place, period):
    """Move to a column (margin included), and factor its system.

    L replaces the numbers below the diagonal, and the right side becomes that of the back substitution.
    """
    columns, above, left, system = regression.columns, regression.above, regression.left, regression.system
    persistence = regression.persistence
    square = persistence * persistence
    two, one, here = square, persistence - square * persistence, 1.0 - square
    for e in range(len(above)):
        total = above[e] * persistence + columns[place + 2, e] * two
        total = total + columns[place + 1, e] * one
        above[e] = total + columns[place, e] * here
    if place % period:
        return
    n, first = regression.n, 0
    for i in range(n + 1):
        for j in range(_whole(i)):
            system[i, j] = above[first + j] + left[first + j]
        first += i + 1
    _factor(system, regression.scratch, n)


@part_of_loop_in_place
def _factor(system, column, n):
    """Factor a system. column: scratch."""
    for k in range(n):
        pivot = 1.0 / max(system[k, k] + RIDGE, LEAST_PIVOT)
        for i in range(k + 1, n + 1):
            column[i] = system[i, k]
        column[k] = 0.0  # what is left of the column stays
        for i in range(k + 1, n + 1):
            factor = column[i] * pivot
            for j in range(_whole(i)):
                system[i, j] -= factor * column[j]
            system[i, k] = factor


@part_of_loop_in_place
def _whole(n):
    """The next multiple of _LANES."""
    return (n + _LANES) // _LANES * _LANES


@part_of_loop_in_place
def predicted(regression, values, n):
    """The prediction by the first n regressors alone, which have these values."""
    system, rest = regression.system, regression.scratch
    for i in range(n):
        rest[i] = system[regression.n, i]
    total = 0.0
    for i in range(n - 1, -1, -1):
        weight = rest[i]
        total += weight * values[i]
        for k in range(i):
            rest[k] -= system[i, k] * weight
    return total


@part_of_loop_in_place
def remember(regression, place, values, gain):
    """Add a sample. values: its regressors, then the sample itself, float64 (n + 1,). gain: its weight."""
    left, here, decay = regression.left, regression.columns[place], regression.decay
    n = len(values) - 1
    for i in range(n + 1):
        scaled, line = values[i] * gain, i * (i + 1) // 2
        for j in range(min(i + 1, n)):
            product = scaled * values[j]
            left[line + j] = left[line + j] * decay + product
            here[line + j] = here[line + j] * decay + product
