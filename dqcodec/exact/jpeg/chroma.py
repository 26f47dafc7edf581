"""Chroma at all pixels -> the chroma samples that a decoder interpolated."""

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.exact.jpeg.blocks import pooled
from dqcodec.exact.jpeg.decoding import SAMPLINGS, Sampling

_STEPS = 40
_LINES = 512  # rows or columns are enough to see a sampling
_LARGEST_BEND, _OTHERS = 4, 0.005  # the largest third difference that rounding gives; the part that may exceed it


def downsampled(chroma: np.ndarray, is_sure: np.ndarray, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """The samples (rows, columns) float64 whose interpolation is nearest to `chroma`, and
    which of them have only known pixels.

    Args:
        chroma: at all pixels, int64 (H, W).
        is_sure: which of them are known, bool (H, W).
    """
    if sampling.rows == sampling.columns == 1:
        return chroma.astype(np.float64), is_sure
    cell = sampling.rows, sampling.columns
    pixels, known = pooled(np.ones(chroma.shape), *cell), pooled(is_sure, *cell)
    guess = pooled(np.where(is_sure, chroma, 0), *cell)
    samples = np.where(known > 0, guess / np.maximum(known, 1), pooled(chroma, *cell) / pixels)
    if sampling.fancy:
        _iterate(samples, chroma, is_sure, sampling.rows, sampling.columns)
    return samples, known == pixels


def samplings(planes: Sequence[np.ndarray], is_sure: np.ndarray) -> Iterator[Sampling]:
    """The samplings that chroma planes (H, W) may have, the likeliest first; the last one keeps all pixels.

    is_sure: where the planes are known, bool (H, W).
    """
    found = [_evidence(planes, is_sure, axis) for axis in range(2)]
    for is_evident in (True, False):
        for sampling in SAMPLINGS[1:]:
            evidence = [found[axis][sampling.fancy] for axis in range(2) if sampling[axis] == 2]
            if None not in evidence and is_evident == any(evidence):
                yield sampling
    yield SAMPLINGS[0]


def _evidence(planes: Sequence[np.ndarray], is_sure: np.ndarray, axis: int) -> dict[bool, bool | None]:
    """How planes may be upsampled along an axis: repeated samples (False) and interpolated ones (True).

    Each maps to whether the planes show it clearly, or to None if they cannot be upsampled so. The two pixels of a
    repeated sample are equal. Interpolated pixels lie on a line from one sample to the next: four pixels in a row,
    which begin with the second pixel of a sample, have a third difference that is only rounding.
    """
    every = -(-is_sure.shape[1 - axis] // _LINES)
    steps, bends = [], []
    for plane in planes:
        x, known = (np.moveaxis(each, axis, -1)[::every] for each in (plane, is_sure))
        steps.append(np.where(known[:, 1:] & known[:, :-1], np.diff(x), 0))
        known = known[:, 3:] & known[:, 2:-1] & known[:, 1:-2] & known[:, :-3]
        bends.append(np.where(known, np.diff(x, 3), 0))
    step, bend = np.abs(np.concatenate(steps)), np.abs(np.concatenate(bends))
    found: dict[bool, bool | None] = {}
    for is_fancy, own, other in ((False, step[:, ::2], step[:, 1::2]), (True, bend[:, 1::2], bend[:, ::2])):
        wrong, possible = ((each > (_LARGEST_BEND if is_fancy else 0)).sum() for each in (own, other))
        is_possible = wrong <= _OTHERS * max(1, (own > 0).sum())
        is_evident = possible > 10 * wrong + 20 or (other**2).sum() > 1.5 * (own**2).sum()
        found[is_fancy] = bool(is_evident) if is_possible else None
    return found


@compiled
def _iterate(samples, chroma, is_sure, rows, columns):
    """Change real samples until they nearly give the known pixels, by Jacobi's iteration."""
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
