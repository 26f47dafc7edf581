"""The likeliest coefficients of a block, given what pixels show of its samples: one
coefficient after another is rounded.

A priori, coefficients are independent and Gaussian. Pixels give samples, or sums of samples, with Gaussian noise. So a
posteriori the coefficients are Gaussian and correlated. The surest one is rounded to its steps, and the means of the
others follow; then the surest of the others, and so on. This is the method of Babai (1986) for a near point of a
lattice, in the order of Foschini (1996). Several candidates are kept, as in the M-algorithm.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.frozen.jpeg import MAX_NUMBER

_LEAST_LIKELY = 80.0  # a candidate's cost may exceed the best one's by this: it is e^-40 as likely


class Search(NamedTuple):
    """Scratch memory of a search.

    Attributes:
        order: places, the first one rounded last, int64 (64,).
        means: of the coefficients, given the rounded ones, of each candidate, now and next, float64 (2, most, 64).
        costs: squared deviations of the rounded ones, in variances, float64 (2, most).
        levels: int64 (2, most, 64); after a search, [0] has the candidates, the likeliest first.
        parents, values: of the candidates that come next, int64 (most,) each.
    """

    order: np.ndarray
    means: np.ndarray
    costs: np.ndarray
    levels: np.ndarray
    parents: np.ndarray
    values: np.ndarray

    @classmethod
    def new(cls, most: int) -> "Search":
        """most: the largest number of candidates."""
        return cls(
            np.empty(64, np.int64), np.empty((2, most, 64)), np.empty((2, most)), np.empty((2, most, 64), np.int64),
            np.empty(most, np.int64), np.empty(most, np.int64),
        )  # fmt: skip


@part_of_loop_in_place
def search_levels(search, precision, target, variances, table):
    """Find levels of a block; returns how many candidates there are.

    Args:
        search: a Search, which gets the candidates.
        precision: of the coefficients, from pixels, float64 (64, 64). It changes.
        target: precision times the coefficients, float64 (8, 8).
        variances: of the coefficients a priori, float64 (64,).
        table: the steps, int64 (64,).
    """
    for i in range(64):
        precision[i, i] += 1.0 / variances[i]
    _invert(precision)
    for i in range(64):
        total = 0.0
        for j in range(64):
            total += precision[i, j] * target[j >> 3, j & 7]
        search.means[0, 0, i] = total
    _eliminate(precision, search.order, table)
    search.costs[0, 0] = 0.0
    count = 1
    for left in range(63, -1, -1):
        now = 1 - left & 1
        found = _choose(search, now, count, search.order[left], precision, table)
        _follow(search, now, found, left, precision, table)
        count = found
    return count


@part_of_loop_in_place
def _invert(matrix):
    """Replace a positive definite matrix (64, 64) by its inverse, by Gauss-Jordan sweeps."""
    for k in range(64):
        pivot = 1.0 / matrix[k, k]
        for i in range(64):
            if i != k:
                part = matrix[i, k] * pivot
                for j in range(64):
                    matrix[i, j] -= part * matrix[k, j]
                matrix[i, k] = -part
        for j in range(64):
            matrix[k, j] *= pivot
        matrix[k, k] = pivot


@part_of_loop_in_place
def _eliminate(covariance, order, table):
    """Find the order of rounding. A place's row becomes its covariance with later places, given the earlier ones."""
    for i in range(64):
        order[i] = i
    for left in range(63, -1, -1):
        surest, least = 0, 1e300
        for n in range(left + 1):
            i = order[n]
            variance = covariance[i, i] / (table[i] * table[i])
            if variance < least:
                surest, least = n, variance
        i = order[surest]
        order[surest], order[left] = order[left], i
        scale = 1.0 / covariance[i, i]
        for n in range(left):
            j = order[n]
            part = covariance[i, j] * scale
            for m in range(left):
                covariance[j, order[m]] -= part * covariance[i, order[m]]


@part_of_loop_in_place
def _choose(search, now, count, place, covariance, table):
    """Round a coefficient of each candidate to its two nearest levels, and keep the best; returns their number."""
    costs, following = search.costs[now], search.costs[1 - now]
    parents, values, most = search.parents, search.values, len(search.parents)
    step, found = table[place], 0
    scale = step * step / covariance[place, place]
    for n in range(count):
        at = search.means[now, n, place] / step
        near = np.rint(at)
        for value in (near, near + 1.0 if at > near else near - 1.0):
            cost = costs[n] + (at - value) * (at - value) * scale
            if found == most and cost >= following[found - 1]:
                continue
            found = min(found + 1, most)
            k = found - 1
            while k > 0 and following[k - 1] > cost:
                following[k], parents[k], values[k] = following[k - 1], parents[k - 1], values[k - 1]
                k -= 1
            following[k], parents[k] = cost, n
            values[k] = np.int64(min(MAX_NUMBER, max(-MAX_NUMBER, value)))
    while following[found - 1] > following[0] + _LEAST_LIKELY:
        found -= 1
    return found


@part_of_loop_in_place
def _follow(search, now, count, left, covariance, table):
    """Enter the values of a place in the next candidates, and move the means of later places."""
    order, means, levels = search.order, search.means, search.levels
    place = order[left]
    for n in range(count):
        parent = search.parents[n]
        for m in range(left + 1, 64):
            levels[1 - now, n, order[m]] = levels[now, parent, order[m]]
        levels[1 - now, n, place] = search.values[n]
        change = (search.values[n] * table[place] - means[now, parent, place]) / covariance[place, place]
        for m in range(left):
            means[1 - now, n, order[m]] = means[now, parent, order[m]] + covariance[place, order[m]] * change
