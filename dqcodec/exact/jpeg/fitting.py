"""Coefficients whose samples are those of an image, block by block."""

import numpy as np

from dqcodec.base.compiled import compiled, compiled_in_place
from dqcodec.exact.jpeg.decoding import inverse
from dqcodec.exact.jpeg.rounding import search_levels
from dqcodec.frozen.jpeg import MAX_NUMBER

OPEN = 1 << 12  # a bound beyond all samples
NARROW = 1 << 9  # bounds that are nearer to each other bound a sample from both sides
_LEAST_BLOCKS, _LEAST_LEVEL = 30, 0.15  # that tell the variances; the deviation of a level that is always 0
_ALL = 1 << 60  # above all errors of a block
_NOISE, _NEIGHBOUR_NOISE = 0.12, 0.2  # variances of a rounded pixel, and of a sample of another block
# by the spread: the mean and the variance of samples beyond a bound, the variance of those without one
_CLAMPED_MEAN, _CLAMPED_VARIANCE, _OPEN_VARIANCE = 0.8, 0.4, 2.0


def _basis() -> np.ndarray:
    """The transform's matrix, float64 (8 frequencies, 8 samples)."""
    k, n = np.arange(8)[:, None], np.arange(8)
    basis = np.cos((2 * n + 1) * k * np.pi / 16) / 2
    basis[0] /= np.sqrt(2)
    return basis


BASIS = _basis()
_FREQUENCIES = np.add.outer(np.arange(8), np.arange(8)).ravel()


def variances_of(levels: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Variances of coefficients, float64 (64,), by the levels (n, 64) of blocks; flat ones say nothing."""
    busy = levels[levels[:, 1:].any(1)]
    if len(busy) < _LEAST_BLOCKS:
        found = 20000 / (1.0 + _FREQUENCIES) ** 2
    else:
        found = (busy.astype(np.float64) ** 2).mean(0) * table**2
    found = np.maximum(found, (_LEAST_LEVEL * table) ** 2)
    found[0] = 1e6
    return found


def spread(table: np.ndarray, variances: np.ndarray) -> float:
    """The deviation of samples from what they were before coefficients were rounded to steps."""
    return float(np.sqrt(np.minimum(table**2 / 12, variances).mean()))


@compiled
def transform(plane, basis):
    """The coefficients, float64 (rows, columns, 64), of samples (8 rows, 8 columns)."""
    rows, columns = plane.shape[0] // 8, plane.shape[1] // 8
    out = np.empty((rows, columns, 64))
    block, half = np.empty((8, 8)), np.empty((8, 8))
    for row in range(rows):
        for column in range(columns):
            for y in range(8):
                for x in range(8):
                    block[y, x] = plane[8 * row + y, 8 * column + x] - 128.0
            _transform(block, half, basis)
            for place in range(64):
                out[row, column, place] = block[place >> 3, place & 7]
    return out


def rounded(plane: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The levels, int16 (rows, columns, 64), that are nearest to samples (8 rows, 8 columns) float64."""
    return np.clip(np.rint(transform(plane, BASIS) / table), -MAX_NUMBER, MAX_NUMBER).astype(np.int16)


@compiled
def fit(low, high, start, factors, table, variances, trials, sweeps, tolerance, basis, search, levels, samples, wanted):
    """Find the levels of blocks that make the pixels of a component, as well as it can.

    Args:
        low, high: bounds of the component at all pixels, int64 (H, W).
        start: guesses of the component at all pixels, int64 (H, W).
        factors: rows and columns of pixels for a sample, the component's rows and columns of samples, and whether pixels
            are interpolated, int64 (5,).
        table: the steps, int64 (64,).
        variances: of the coefficients, float64 (64,).
        trials: searches to make in turn, float64 (n, 2): the deviation of samples that are not known from what they were before
            they were coded, and a factor of the variances.
        sweeps: in which levels change by one at last, at most.
        tolerance: by how much pixels may miss their bounds.
        basis: BASIS.
        search: a Search.
        levels: int16 (rows, columns, 64), which change.
        samples: those of the levels, int64 (8 rows, 8 columns), which change.
        wanted: blocks to fit, bool (rows, columns).

    Returns the blocks that fit, bool (rows, columns).
    """
    fits = np.ones(wanted.shape, np.bool_)
    one, block, whole, half = np.empty(64, np.int64), np.empty((8, 8), np.int64), np.empty((8, 8)), np.empty((8, 8))
    precision, target, scaled = np.empty((64, 64)), np.empty((8, 8)), np.empty(64)
    for row in range(levels.shape[0]):
        for column in range(levels.shape[1]):
            if not wanted[row, column]:
                continue
            found, at = levels[row, column], (row, column)
            best = _errors(found, table, block, samples, low, high, factors, at, tolerance, _ALL)
            for trial in range(len(trials)):
                if best == 0:
                    break
                _observe(precision, target, samples, low, high, start, factors, at, trials[trial, 0])
                _transform_both(precision, whole, half, basis)
                _transform(target, half, basis)
                for place in range(64):
                    scaled[place] = variances[place] * trials[trial, 1]
                for n in range(search_levels(search, precision, target, scaled, table)):
                    one[:] = search.levels[0, n]
                    errors = _errors(one, table, block, samples, low, high, factors, at, tolerance, best)
                    if errors < best:
                        best = errors
                        for place in range(64):
                            found[place] = one[place]
                    if best == 0:
                        break
            for _ in range(sweeps):
                before = best
                for place in range(64):
                    for move in (-1, 1):
                        found[place] += move
                        errors = _errors(found, table, block, samples, low, high, factors, at, tolerance, best)
                        if errors < best:
                            best = errors
                        else:
                            found[place] -= move
                if best == before or best == 0:
                    break
            _errors(found, table, block, samples, low, high, factors, at, tolerance, _ALL)
            fits[row, column] = best == 0
    return fits


@compiled_in_place
def _transform(block, half, basis):
    """Replace samples (8, 8) by their coefficients."""
    for v in range(8):
        for x in range(8):
            total = 0.0
            for y in range(8):
                total += basis[v, y] * block[y, x]
            half[v, x] = total
    for v in range(8):
        for u in range(8):
            total = 0.0
            for x in range(8):
                total += half[v, x] * basis[u, x]
            block[v, u] = total


@compiled_in_place
def _transform_both(matrix, block, half, basis):
    """Replace a symmetric matrix (64, 64) over samples by that over coefficients."""
    for _ in range(2):
        for n in range(64):
            for k in range(64):
                block[k >> 3, k & 7] = matrix[n, k]
            _transform(block, half, basis)
            for k in range(64):
                matrix[n, k] = block[k >> 3, k & 7]
        for n in range(64):
            for k in range(n):
                matrix[n, k], matrix[k, n] = matrix[k, n], matrix[n, k]


@compiled_in_place
def _taps(at, factor, length, is_fancy):
    """The nearest sample of a pixel and the next, and their weights."""
    near = at // factor
    if factor == 1 or not is_fancy:
        return near, near, 1, 0
    return near, min(length - 1, max(0, near + 2 * (at % 2) - 1)), 3, 1


@compiled_in_place
def _observe(precision, target, samples, low, high, start, factors, at, spread):
    """Set what pixels say of a block's samples: precision (64, 64), and precision times values (8, 8)."""
    precision[:] = 0.0
    target[:] = 0.0
    row, column = at
    down, right = factors[0], factors[1]
    reach_down, reach_right = (down - 1) * factors[4], (right - 1) * factors[4]
    height, width = low.shape
    bottom, end = 8 * down * (row + 1), 8 * right * (column + 1)
    for y in range(max(0, 8 * down * row - reach_down), min(max(height, bottom), bottom + reach_down)):
        i, other_i, by, other_by = _taps(y, down, factors[2], factors[4] and y < height)
        for x in range(max(0, 8 * right * column - reach_right), min(max(width, end), end + reach_right)):
            j, other_j, bx, other_bx = _taps(x, right, factors[3], factors[4] and x < width)
            within_y, within_x = min(y, height - 1), min(x, width - 1)
            lo, hi = low[within_y, within_x], high[within_y, within_x]
            value, variance = np.float64(start[within_y, within_x]), spread * spread
            if y >= height or x >= width:
                lo, hi = -OPEN, OPEN
            if hi - lo < NARROW:
                value, variance = 0.5 * (lo + hi), _NOISE + (hi - lo) * (hi - lo) / 12.0
            elif lo > -NARROW:
                value, variance = lo + _CLAMPED_MEAN * spread, _CLAMPED_VARIANCE * variance
            elif hi < NARROW:
                value, variance = hi - _CLAMPED_MEAN * spread, _CLAMPED_VARIANCE * variance
            else:
                variance *= _OPEN_VARIANCE
            scale = 1.0 / ((by + other_by) * (bx + other_bx))
            value -= 128.0
            for part in range(4):
                a, b = (other_i if part & 2 else i), (other_j if part & 1 else j)
                weight = (other_by if part & 2 else by) * (other_bx if part & 1 else bx) * scale
                if a >> 3 != row or b >> 3 != column:
                    value -= weight * (samples[a, b] - 128)
                    variance += _NEIGHBOUR_NOISE * weight * weight
            for part in range(4):
                a, b = (other_i if part & 2 else i), (other_j if part & 1 else j)
                weight = (other_by if part & 2 else by) * (other_bx if part & 1 else bx) * scale
                if weight > 0 and a >> 3 == row and b >> 3 == column:
                    n = 8 * (a & 7) + (b & 7)
                    target[a & 7, b & 7] += weight * value / variance
                    for other in range(4):
                        c, d = (other_i if other & 2 else i), (other_j if other & 1 else j)
                        others = (other_by if other & 2 else by) * (other_bx if other & 1 else bx) * scale
                        if c >> 3 == row and d >> 3 == column:
                            precision[n, 8 * (c & 7) + (d & 7)] += weight * others / variance


@compiled_in_place
def _errors(levels, table, block, samples, low, high, factors, at, tolerance, enough):
    """Enter a block's samples; the squared errors of the pixels that they reach, counted until they are enough."""
    row, column = at
    for place in range(64):
        block[place >> 3, place & 7] = np.int64(levels[place]) * table[place]
    inverse(block)
    for i in range(8):
        for j in range(8):
            samples[8 * row + i, 8 * column + j] = block[i, j]
    down, right = factors[0], factors[1]
    reach_down, reach_right = (down - 1) * factors[4], (right - 1) * factors[4]
    left, end = max(0, 8 * right * column - reach_right), min(low.shape[1], 8 * right * (column + 1) + reach_right)
    total = 0
    for y in range(max(0, 8 * down * row - reach_down), min(low.shape[0], 8 * down * (row + 1) + reach_down)):
        i, other_i, by, other_by = _taps(y, down, factors[2], factors[4])
        for x in range(left, end):
            j, other_j, bx, other_bx = _taps(x, right, factors[3], factors[4])
            value = by * (bx * samples[i, j] + other_bx * samples[i, other_j])
            if other_by:
                value += bx * samples[other_i, j] + other_bx * samples[other_i, other_j]
                value = (value + 8 - x % 2) >> 4 if other_bx else (value + 1 + y % 2) >> 2
            elif other_bx:
                value = (value + 1 + x % 2) >> 2
            error = max(0, low[y, x] - value - tolerance, value - high[y, x] - tolerance)
            total += error * error
        if total >= enough:
            break
    return total
