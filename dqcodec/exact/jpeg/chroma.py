"""Chroma at all pixels -> the chroma samples that a decoder interpolated."""

import itertools

import numpy as np

from dqcodec.base.compiled import compiled, compiled_in_place
from dqcodec.exact.jpeg.decoding import Sampling, component_size, inverse

_STEPS, _SWEEPS = 40, 8
_FARTHEST, _OTHERS = 0.8, 0.005  # rounding errs by less than this, but for few pixels


def downsampled(chroma: np.ndarray, is_sure: np.ndarray, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """The samples (rows, columns) float64 whose interpolation is nearest to `chroma`, and which of them are of known pixels.

    Args:
        chroma: at all pixels, int64 (H, W).
        is_sure: which of them are known, bool (H, W).
    """
    if sampling.rows == sampling.columns == 1:
        return chroma, is_sure
    height, width = chroma.shape
    known = _pooled(is_sure, sampling)
    guess = _pooled(np.where(is_sure, chroma, 0).astype(np.float64), sampling)
    unknown = _pooled(chroma.astype(np.float64), sampling) / _pooled(np.ones(chroma.shape), sampling)
    samples = np.where(known > 0, guess / np.maximum(known, 1), unknown)
    if sampling.fancy:
        _iterate(samples, chroma, is_sure, sampling.rows, sampling.columns)
    return samples, known == _pooled(np.ones(chroma.shape), sampling)


def is_sampled(chroma: np.ndarray, is_sure: np.ndarray, sampling: Sampling) -> bool:
    """Whether samples can make nearly all known pixels."""
    samples, _ = downsampled(chroma, is_sure, sampling)
    inner = is_sure.copy()
    for axis, shift in itertools.product(range(2), (-4, -3, -2, -1, 1, 2, 3, 4)):
        inner &= np.roll(inner, shift, axis)
    error = np.abs(_interpolated(samples, *chroma.shape, sampling) - chroma)[inner]
    return (error > _FARTHEST).mean() < _OTHERS if len(error) else False


def _pooled(plane: np.ndarray, sampling: Sampling) -> np.ndarray:
    """Sums over the pixels of each sample."""
    rows, columns = component_size(*plane.shape, sampling)
    padded = np.zeros((rows * sampling.rows, columns * sampling.columns))
    padded[: plane.shape[0], : plane.shape[1]] = plane
    down = sum(padded[part :: sampling.rows] for part in range(sampling.rows))
    return sum(down[:, part :: sampling.columns] for part in range(sampling.columns))


def _interpolated(samples: np.ndarray, height: int, width: int, sampling: Sampling) -> np.ndarray:
    """As decoding.upsampled, in real numbers."""
    for axis, factor in enumerate(sampling[:2]):
        if factor == 2 and sampling.fancy:
            x = np.moveaxis(samples, axis, -1)
            before = np.concatenate([x[..., :1], x[..., :-1]], -1)
            after = np.concatenate([x[..., 1:], x[..., -1:]], -1)
            pairs = np.stack([3 * x + before, 3 * x + after], -1) / 4
            samples = np.moveaxis(pairs.reshape(*x.shape[:-1], -1), -1, axis)
        else:
            samples = samples.repeat(factor, axis)
    return samples[:height, :width]


@compiled
def _iterate(samples, chroma, is_sure, rows, columns):
    """Real samples that nearly make the known pixels: Jacobi's iteration."""
    height, width = chroma.shape
    last_i, last_j = samples.shape[0] - 1, samples.shape[1] - 1
    change = np.empty(samples.shape)
    for _ in range(_STEPS):
        change[:] = 0
        for y in range(height):
            i = y // rows
            above = min(last_i, max(0, i + (2 * (y % 2) - 1 if rows == 2 else 0)))
            for x in range(width):
                if is_sure[y, x]:
                    j = x // columns
                    beside = min(last_j, max(0, j + (2 * (x % 2) - 1 if columns == 2 else 0)))
                    near, far = 3 * samples[i, j] + samples[above, j], 3 * samples[i, beside] + samples[above, beside]
                    change[i, j] += chroma[y, x] - (3 * near + far) / 16
        for i in range(last_i + 1):
            for j in range(last_j + 1):
                samples[i, j] += 1.3 / (rows * columns) * change[i, j]


@compiled
def settle(levels, table, samples, chroma, is_sure, factors, wanted):
    """Change levels by one, again and again, while the interpolated samples come nearer to the known pixels.

    Args:
        levels: of a component, int16 (rows, columns, 64), which change.
        table: its steps, int64 (64,).
        samples: the samples of the levels, int64 (8 rows, 8 columns), which change.
        chroma, is_sure: see downsampled.
        factors: rows and columns of pixels for a sample, and the component's rows and columns of samples.
        wanted: the blocks whose levels may change, bool (rows, columns).
    """
    block = np.empty((8, 8), np.int64)
    for row in range(levels.shape[0]):
        for column in range(levels.shape[1]):
            if wanted[row, column]:
                one = levels[row, column]
                part = samples[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
                best = _errors(one, table, block, part, samples, chroma, is_sure, factors, row, column)
                for _ in range(_SWEEPS):
                    before = best
                    for place in range(64):
                        for move in (-1, 1):
                            one[place] += move
                            errors = _errors(one, table, block, part, samples, chroma, is_sure, factors, row, column)
                            if errors < best:
                                best = errors
                            else:
                                one[place] -= move
                    if best == before or best == 0:
                        break
                _errors(one, table, block, part, samples, chroma, is_sure, factors, row, column)


@compiled_in_place
def _errors(levels, table, block, part, samples, chroma, is_sure, factors, row, column):
    """Enter a block's samples; the squared errors of the known pixels that they reach."""
    for place in range(64):
        block[place >> 3, place & 7] = np.int64(levels[place]) * table[place]
    inverse(block)
    for i in range(8):
        for j in range(8):
            part[i, j] = block[i, j]
    down, right = factors[0], factors[1]
    total = 0
    for y in range(max(0, 8 * down * row + 1 - down), min(chroma.shape[0], 8 * down * (row + 1) + down - 1)):
        i = y // down
        other_i = min(factors[2] - 1, max(0, i + (2 * (y % 2) - 1) * (down - 1)))
        for x in range(
            max(0, 8 * right * column + 1 - right), min(chroma.shape[1], 8 * right * (column + 1) + right - 1)
        ):
            if is_sure[y, x]:
                j = x // right
                other_j = min(factors[3] - 1, max(0, j + (2 * (x % 2) - 1) * (right - 1)))
                near = 3 * samples[i, j] + samples[other_i, j]
                if right == 2:
                    far = 3 * samples[i, other_j] + samples[other_i, other_j]
                    if down == 2:
                        value = (3 * near + far + 8 - x % 2) >> 4
                    else:
                        value = (3 * samples[i, j] + samples[i, other_j] + 1 + x % 2) >> 2
                elif down == 2:
                    value = (near + 1 + y % 2) >> 2
                else:
                    value = samples[i, j]
                error = value - chroma[y, x]
                total += error * error
    return total
