"""Coefficients whose samples are those of an image, block by block."""

import numpy as np

from dqcodec.base.compiled import compiled, compiled_in_place
from dqcodec.exact.jpeg.decoding import inverse
from dqcodec.frozen.jpeg import MAX_NUMBER

OPEN = 1 << 12  # a bound beyond all samples
_ROUNDS, _MOVES, _PAIRS = 40, 30, 24
_EXACT_MARGIN, _MARGIN, _ERROR = 0.45, 0.6, 1.6
_SLACK = 0.46  # by which a sample may be rounded, and what the integer transform adds


def _basis() -> np.ndarray:
    """The transform's matrix, float64 (8 frequencies, 8 samples)."""
    k, n = np.arange(8)[:, None], np.arange(8)
    basis = np.cos((2 * n + 1) * k * np.pi / 16) / 2
    basis[0] /= np.sqrt(2)
    return basis


BASIS = _basis()


@compiled
def _product(left, right, out):
    for i in range(8):
        for j in range(8):
            total = 0.0
            for k in range(8):
                total += left[i, k] * right[k, j]
            out[i, j] = total


@compiled
def transform(plane, basis):
    """The coefficients, float64 (rows, columns, 64), of samples (8 rows, 8 columns)."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    out = np.empty((rows, columns, 64))
    block, half, whole, transposed = np.empty((8, 8)), np.empty((8, 8)), np.empty((8, 8)), basis.T.copy()
    for row in range(rows):
        for column in range(columns):
            for y in range(8):
                for x in range(8):
                    block[y, x] = plane[8 * row + y, 8 * column + x] - 128.0
            _product(basis, block, half)
            _product(half, transposed, whole)
            for v in range(8):
                for u in range(8):
                    out[row, column, 8 * v + u] = whole[v, u]
    return out


@compiled
def fit(low, high, start, table, basis, levels, wanted, is_exact):
    """Find the levels of blocks whose samples lie within bounds, as well as it can.

    Args:
        low, high: bounds of the samples, float64 (8 rows, 8 columns).
        start: guesses of the samples, float64.
        table: the steps, int64 (64,).
        basis: BASIS.
        levels: int16 (rows, columns, 64), which change.
        wanted: blocks to fit, bool (rows, columns).
        is_exact: whether samples are integers that must be within bounds. Others may err by _ERROR.

    Returns the blocks that fit, bool (rows, columns).
    """
    rows, columns = levels.shape[:2]
    fits = np.ones((rows, columns), np.bool_)
    transposed = basis.T.copy()
    x, half, s, c = np.empty((8, 8)), np.empty((8, 8)), np.empty((8, 8)), np.empty((8, 8))
    lo, hi = np.empty((8, 8)), np.empty((8, 8))
    k, block, moves = np.empty((8, 8), np.int64), np.empty((8, 8), np.int64), np.empty(64, np.int64)
    steps = table.reshape(8, 8)
    margin = _EXACT_MARGIN if is_exact else _MARGIN
    for row in range(rows):
        for column in range(columns):
            if not wanted[row, column]:
                continue
            for i in range(8):
                for j in range(8):
                    lo[i, j] = low[8 * row + i, 8 * column + j] - 128.0
                    hi[i, j] = high[8 * row + i, 8 * column + j] - 128.0
                    x[i, j] = start[8 * row + i, 8 * column + j] - 128.0
            is_known = True
            for i in range(8):
                for j in range(8):
                    is_known = is_known and hi[i, j] - lo[i, j] < OPEN
            best = 1e9
            for _ in range(1 if is_known else _ROUNDS):
                _product(basis, x, half)
                _product(half, transposed, c)
                for i in range(8):
                    for j in range(8):
                        k[i, j] = min(MAX_NUMBER, max(-MAX_NUMBER, np.int64(np.rint(c[i, j] / steps[i, j]))))
                        c[i, j] = k[i, j] * steps[i, j]
                _product(transposed, c, half)
                _product(half, basis, s)
                cost = _cost(s, lo, hi)
                if cost < best:
                    best = cost
                    for i in range(8):
                        for j in range(8):
                            levels[row, column, 8 * i + j] = k[i, j]
                if cost < 1e-9:
                    break
                for i in range(8):
                    for j in range(8):
                        x[i, j] = min(hi[i, j] + margin, max(lo[i, j] - margin, s[i, j]))
            one = levels[row, column]
            misses = _misses(one, table, lo, hi, block, 0.0 if is_exact else _ERROR)
            if misses > 0 and is_exact:
                _improve(one, steps, lo, hi, basis, s, half, c, best, 8 if is_known else 255)
                misses = _search(one, table, lo, hi, block, moves)
            fits[row, column] = misses == 0
    return fits


@compiled_in_place
def _misses(levels, table, lo, hi, block, error):
    """How far the samples of a block are beyond their bounds."""
    for place in range(64):
        block[place >> 3, place & 7] = np.int64(levels[place]) * table[place]
    inverse(block)
    total = 0.0
    for i in range(8):
        for j in range(8):
            total += max(0.0, lo[i, j] - block[i, j] + 128 - error, block[i, j] - 128 - hi[i, j] - error)
    return total


@compiled_in_place
def _search(levels, table, lo, hi, block, moves):
    """Change one or two levels by one while fewer samples miss their bounds; returns the misses."""
    best = _misses(levels, table, lo, hi, block, 0.0)
    count = 0
    for place in range(64):
        if table[place] <= 2:
            moves[count] = place
            count += 1
    is_pair = False
    while best > 0:
        least, first, second, one, two = best, 0, 0, 0, 0
        for i in range(count):
            for j in range(i if is_pair else 1):
                for signs in range(4 if is_pair else 2):
                    up, other = 2 * (signs & 1) - 1, ((signs & 2) - 1 if is_pair else 0)
                    levels[moves[i]] += up
                    levels[moves[j]] += other
                    misses = _misses(levels, table, lo, hi, block, 0.0)
                    if misses < least:
                        least, first, second, one, two = misses, moves[i], moves[j], up, other
                    levels[moves[i]] -= up
                    levels[moves[j]] -= other
        if least == best and (is_pair or count > _PAIRS):
            break
        is_pair = least == best
        levels[first] += one
        levels[second] += two
        best = least
    return best


@compiled
def _cost(s, lo, hi):
    total = 0.0
    for i in range(8):
        for j in range(8):
            beyond = max(lo[i, j] - _SLACK - s[i, j], s[i, j] - hi[i, j] - _SLACK)
            if beyond > 0:
                total += beyond * beyond
    return total


@compiled
def _improve(levels, steps, lo, hi, basis, s, half, c, best, most_step):
    """Change one level by one, again and again, while the samples come nearer to their bounds."""
    transposed = basis.T.copy()
    for i in range(8):
        for j in range(8):
            c[i, j] = levels[8 * i + j] * steps[i, j]
    _product(transposed, c, half)
    _product(half, basis, s)
    for move in range(_MOVES):
        found, sign, least = -1, 0.0, best
        for place in range(64):
            v, u = place >> 3, place & 7
            step = steps[v, u]
            if step > most_step:
                continue
            for direction in (-1.0, 1.0):
                total = 0.0
                for i in range(8):
                    for j in range(8):
                        value = s[i, j] + direction * step * basis[v, i] * basis[u, j]
                        beyond = max(lo[i, j] - _SLACK - value, value - hi[i, j] - _SLACK)
                        if beyond > 0:
                            total += beyond * beyond
                    if total >= least:
                        break
                if total < least:
                    found, sign, least = place, direction, total
        if found < 0:
            break
        v, u = found >> 3, found & 7
        levels[found] += np.int64(sign)
        for i in range(8):
            for j in range(8):
                s[i, j] += sign * steps[v, u] * basis[v, i] * basis[u, j]
        best = least
        if best < 1e-9:
            break
    return best
