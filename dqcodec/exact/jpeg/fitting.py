"""Find the coefficients whose samples are those of an image, block by block."""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop_in_place
from dqcodec.exact.jpeg.decoding import set_samples
from dqcodec.exact.jpeg.rounding import Search, search_levels
from dqcodec.frozen.jpeg import MAX_NUMBER

OPEN = 1 << 12  # no sample exceeds this bound
NARROW = 1 << 9  # two bounds that are both closed are nearer to each other
_LEAST_BLOCKS = 30  # that are needed to measure variances
_LEAST_LEVEL = 0.15  # the deviation of a level that is always 0
_ALL = 1 << 60  # above all errors of a block
_NOISE, _NEIGHBOUR_NOISE = 0.12, 0.2  # variances of a rounded pixel, and of a sample of another block
# in spreads: the mean and the variance of samples beyond a bound, the variance of samples without bounds
_CLAMPED_MEAN, _CLAMPED_VARIANCE, _OPEN_VARIANCE = 0.8, 0.4, 2.0


def _basis() -> np.ndarray:
    """The transform's matrix, float64 (8 frequencies, 8 samples)."""
    k, n = np.arange(8)[:, None], np.arange(8)
    basis = np.cos((2 * n + 1) * k * np.pi / 16) / 2
    basis[0] /= np.sqrt(2)
    return basis


BASIS = _basis()  # loops take it as an argument: LLVM unrolls loops over constants, which takes long
_FREQUENCIES = np.add.outer(np.arange(8), np.arange(8)).ravel()


def variances_of(levels: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Variances of coefficients, float64 (64,), from the levels (n, 64) of blocks that are not flat."""
    busy = levels[levels[:, 1:].any(1)]
    if len(busy) < _LEAST_BLOCKS:
        found = 20000 / (1.0 + _FREQUENCIES) ** 2
    else:
        found = (busy.astype(np.float64) ** 2).mean(0) * table**2
    found = np.maximum(found, (_LEAST_LEVEL * table) ** 2)
    found[0] = 1e6
    return found


def spread(table: np.ndarray, variances: np.ndarray) -> float:
    """The deviation of samples that rounding coefficients to steps causes."""
    return float(np.sqrt(np.minimum(table**2 / 12, variances).mean()))


@compiled
def _coefficients(plane, basis):
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


def coefficients(blocks: np.ndarray) -> np.ndarray:
    """The coefficients, float64 (n, 64), of blocks of samples, (n, 64) or (n, 8, 8)."""
    return _coefficients(blocks.reshape(-1, 8).astype(np.float64), BASIS)[:, 0]


def rounded(plane: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The levels, int16 (rows, columns, 64), that are nearest to samples (8 rows, 8 columns) float64."""
    return np.clip(np.rint(_coefficients(plane, BASIS) / table), -MAX_NUMBER, MAX_NUMBER).astype(np.int16)


class Aim(NamedTuple):
    """The pixels that the samples of a component should give.

    Attributes:
        low, high: bounds of the component at all pixels, int64 (H, W).
        start: guesses of the component at all pixels, int64 (H, W).
        down, right: rows and columns of pixels for a sample.
        rows, columns: of the component's samples.
        is_fancy: 1 if pixels are interpolated, else 0.
        tolerance: by how much pixels may miss their bounds.
    """

    low: np.ndarray
    high: np.ndarray
    start: np.ndarray
    down: int
    right: int
    rows: int
    columns: int
    is_fancy: int
    tolerance: int


class Plane(NamedTuple):
    """The blocks of a component.

    Attributes:
        table: the steps, int64 (64,).
        levels: int16 (rows, columns, 64).
        samples: those of the levels, int64 (8 rows, 8 columns).
    """

    table: np.ndarray
    levels: np.ndarray
    samples: np.ndarray


class Workspace(NamedTuple):
    """Scratch memory for a block: levels, samples, their precision and target, variances, a
    search; and the transform's matrix.
    """

    levels: np.ndarray
    block: np.ndarray
    whole: np.ndarray
    half: np.ndarray
    precision: np.ndarray
    target: np.ndarray
    variances: np.ndarray
    search: Search
    basis: np.ndarray

    @classmethod
    def new(cls, most: int) -> "Workspace":
        """most: candidates of the search."""
        return cls(
            np.empty(64, np.int64), np.empty((8, 8), np.int64), np.empty((8, 8)), np.empty((8, 8)), np.empty((64, 64)),
            np.empty((8, 8)), np.empty(64), Search.new(most), BASIS,
        )  # fmt: skip


@compiled
def fit(aim, plane, wanted, variances, trials, sweeps, work):
    """Find levels of blocks whose samples give the pixels of a component, or come near to them.

    Args:
        aim: an Aim.
        plane: a Plane, whose levels and samples change.
        wanted: blocks to fit, bool (rows, columns).
        variances: of the coefficients, float64 (64,).
        trials: searches to make in turn, float64 (n, 2): the deviation that coding causes in samples
            without bounds, and a factor of the variances.
        sweeps: the largest number of final sweeps, which change levels by one.
        work: a Workspace.

    Returns the blocks that fit, bool (rows, columns).
    """
    fits = np.ones(wanted.shape, np.bool_)
    for row in range(wanted.shape[0]):
        for column in range(wanted.shape[1]):
            if not wanted[row, column]:
                continue
            at, found = (row, column), plane.levels[row, column]
            errors = _errors(found, aim, plane, at, work.block, _ALL)
            for trial in range(len(trials)):
                if errors:
                    for place in range(64):
                        work.variances[place] = variances[place] * trials[trial, 1]
                    errors = _search_levels(found, aim, plane, at, trials[trial, 0], work, errors)
            for _ in range(sweeps):
                before = errors
                if errors:
                    errors = _change_levels(found, aim, plane, at, work.block, errors)
                if errors == before:
                    break
            _errors(found, aim, plane, at, work.block, _ALL)
            fits[row, column] = errors == 0
    return fits


@part_of_loop_in_place
def _search_levels(found, aim, plane, at, spread, work, least):
    """Set the levels found to the best candidate's if its errors are below `least`; returns the least errors."""
    _observe(work.precision, work.target, plane.samples, aim, at, spread)
    _transform_both(work.precision, work.whole, work.half, work.basis)
    _transform(work.target, work.half, work.basis)
    for n in range(search_levels(work.search, work.precision, work.target, work.variances, plane.table)):
        for place in range(64):
            work.levels[place] = work.search.levels[0, n, place]
        errors = _errors(work.levels, aim, plane, at, work.block, least)
        if errors < least:
            least = errors
            for place in range(64):
                found[place] = work.levels[place]
        if least == 0:
            break
    return least


@part_of_loop_in_place
def _change_levels(found, aim, plane, at, block, least):
    """Change levels found by one, each where errors then fall below `least`; returns the least errors."""
    for place in range(64):
        for move in (-1, 1):
            found[place] += move
            errors = _errors(found, aim, plane, at, block, least)
            if errors < least:
                least = errors
            else:
                found[place] -= move
    return least


@part_of_loop_in_place
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


@part_of_loop_in_place
def _transform_both(matrix, block, half, basis):
    """Transform a symmetric matrix (64, 64) from samples to coefficients, in place."""
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


@part_of_loop_in_place
def _taps(at, factor, length, is_fancy):
    """The nearest sample of a pixel and the next, and their weights."""
    near = at // factor
    if factor == 1 or not is_fancy:
        return near, near, 1, 0
    return near, min(length - 1, max(0, near + 2 * (at % 2) - 1)), 3, 1


@part_of_loop_in_place
def _reach(block, factor, is_fancy):
    """The first pixel that samples of a row or column of blocks reach, and the end of these pixels."""
    beyond = (factor - 1) * is_fancy
    return max(0, 8 * factor * block - beyond), 8 * factor * (block + 1) + beyond


@part_of_loop_in_place
def _observe(precision, target, samples, aim, at, spread):
    """Set the precision (64, 64) with which pixels determine a block's samples, and
    precision times their values (8, 8).
    """
    (row, column), (height, width) = at, aim.low.shape
    precision[:] = 0.0
    target[:] = 0.0
    top, bottom = _reach(row, aim.down, aim.is_fancy)
    left, end = _reach(column, aim.right, aim.is_fancy)
    for y in range(top, min(max(height, 8 * aim.down * (row + 1)), bottom)):
        vertical = _taps(y, aim.down, aim.rows, aim.is_fancy and y < height)
        for x in range(left, min(max(width, 8 * aim.right * (column + 1)), end)):
            horizontal = _taps(x, aim.right, aim.columns, aim.is_fancy and x < width)
            value, variance = _pixel(aim, y, x, spread)
            _add_pixel(precision, target, samples, at, vertical, horizontal, value - 128.0, variance)


@part_of_loop_in_place
def _pixel(aim, y, x, spread):
    """The expected value of a pixel, and its variance. A pixel beyond the image is that of the edge, without bounds."""
    height, width = aim.low.shape
    within_y, within_x = min(y, height - 1), min(x, width - 1)
    low, high = aim.low[within_y, within_x], aim.high[within_y, within_x]
    value, variance = np.float64(aim.start[within_y, within_x]), spread * spread
    if y >= height or x >= width:
        low, high = -OPEN, OPEN
    if high - low < NARROW:
        return 0.5 * (low + high), _NOISE + (high - low) * (high - low) / 12.0
    if low > -NARROW:
        return low + _CLAMPED_MEAN * spread, _CLAMPED_VARIANCE * variance
    if high < NARROW:
        return high - _CLAMPED_MEAN * spread, _CLAMPED_VARIANCE * variance
    return value, _OPEN_VARIANCE * variance


@part_of_loop_in_place
def _add_pixel(precision, target, samples, at, vertical, horizontal, value, variance):
    """Add what a pixel's value says of the block's samples. vertical, horizontal: its taps.
    Samples of other blocks are known.
    """
    (row, column), scale = at, 1.0 / ((vertical[2] + vertical[3]) * (horizontal[2] + horizontal[3]))
    for part in range(4):
        y, x, weight = _tap(vertical, horizontal, part, scale)
        if y >> 3 != row or x >> 3 != column:
            value -= weight * (samples[y, x] - 128)
            variance += _NEIGHBOUR_NOISE * weight * weight
    for part in range(4):
        y, x, weight = _tap(vertical, horizontal, part, scale)
        if weight > 0 and y >> 3 == row and x >> 3 == column:
            n = 8 * (y & 7) + (x & 7)
            target[y & 7, x & 7] += weight * value / variance
            for other in range(4):
                i, j, others = _tap(vertical, horizontal, other, scale)
                if i >> 3 == row and j >> 3 == column:
                    precision[n, 8 * (i & 7) + (j & 7)] += weight * others / variance


@part_of_loop_in_place
def _tap(vertical, horizontal, part, scale):
    """The sample (row, column) of one of the four pairs of taps, and its weight."""
    i, next_i, by, next_by = vertical
    j, next_j, bx, next_bx = horizontal
    weight = (next_by if part & 2 else by) * (next_bx if part & 1 else bx) * scale
    return next_i if part & 2 else i, next_j if part & 1 else j, weight


@part_of_loop_in_place
def _errors(levels, aim, plane, at, block, enough):
    """Enter a block's samples; returns the squared errors of the pixels that they reach, or a sum of at least `enough`."""
    row, column = at
    low, high, tolerance, samples = aim.low, aim.high, aim.tolerance, plane.samples
    set_samples(block, levels, plane.table)
    for i in range(8):
        for j in range(8):
            samples[8 * row + i, 8 * column + j] = block[i, j]
    top, bottom = _reach(row, aim.down, aim.is_fancy)
    left, end = _reach(column, aim.right, aim.is_fancy)
    total = 0
    for y in range(top, min(low.shape[0], bottom)):
        i, other_i, by, other_by = _taps(y, aim.down, aim.rows, aim.is_fancy)
        for x in range(left, min(low.shape[1], end)):
            j, other_j, bx, other_bx = _taps(x, aim.right, aim.columns, aim.is_fancy)
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
