"""Find the quantisation table: the steps that divided the coefficients of a JPEG, from the coefficients of its pixels."""

import numpy as np

from dqcodec.exact.jpeg import decoding, fitting
from dqcodec.frozen.jpeg import MAX_STEP

_NOISE = 0.29  # the deviation that rounding samples gives a coefficient
_LEAST = 2.2  # smaller coefficients may be only noise
_OUTLIERS = 0.01
_MOST_BLOCKS = 512
_BUSY = 3  # large coefficients of a block whose rounding errors are independent; those of a flat block are all alike
_LEAST_VARIANCE = 20  # of the samples of a block that is not flat
_LEAST_CLEAN, _LEAST_KNOWN = 16, 24  # blocks; samples of a block
_TRIED, _FEW = 128, 6  # blocks that choose a table, and blocks that try it first
_SUREST = 3  # blocks that show whether a table may fit at all
_LIKELY, _CERTAIN, _ENOUGH = 0.3, 0.7, 0.95  # parts of the blocks that fit a table
_USUAL = 75  # a quality
_EVIDENCE, _DOUBT = 8, 3  # nats: a step must be this much likelier than 1, and than the step of a scaled standard table
_FAR = 400  # nats: a table of one's own must be this much likelier than a standard one; its steps cost 355


def standard(base: np.ndarray, quality: int) -> np.ndarray:
    """A table of the standard, LUMA or CHROMA, scaled for a quality, 1 to 100, as libjpeg does."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.clip((base * scale + 50) // 100, 1, MAX_STEP)


def candidates(coefficients: np.ndarray, base: np.ndarray, quality: int) -> list[tuple[np.ndarray, int]]:
    """Tables (64,) that coefficients (n, 64) may have, and their qualities; 0 for a table that is not of the standard.

    That one comes first only if it is far likelier than the others: they may be finer, and so fit as well.

    base: LUMA or CHROMA. quality: a guess.
    """
    likelihood, place = _likelihoods(coefficients), np.arange(64)
    tables = [standard(base, each) for each in range(1, 101)]
    likeliest = int(np.argmax([likelihood[place, table].sum() for table in tables])) + 1
    steps = np.argmax(likelihood[:, 1:], axis=1) + 1
    evident = likelihood[place, steps] - likelihood[place, 1] > _EVIDENCE
    scaled = np.clip(np.rint(base * np.median((steps / base)[evident] if evident.any() else 1)), 1, MAX_STEP).astype(
        np.int64
    )
    own = np.where(likelihood[place, steps] - likelihood[place, scaled] > _DOUBT, steps, scaled)
    found = [(tables[each - 1], each) for each in dict.fromkeys((quality, likeliest)) if each]
    gain = likelihood[place, own].sum() - likelihood[place, tables[likeliest - 1]].sum()
    return [(own, 0), *found] if gain > _FAR else [*found, (own, 0)]


def informative(samples: np.ndarray, is_sure: np.ndarray) -> np.ndarray:
    """The numbers of the blocks (n, 64) that show a table: they are not flat, and all their samples are sure.

    If there are few of them, most samples must be sure, and the surest blocks come first.
    """
    count = is_sure.sum(1)
    mean = (samples * is_sure).sum(1) / np.maximum(count, 1)
    is_busy = (samples**2 * is_sure).sum(1) > (mean**2 + _LEAST_VARIANCE) * np.maximum(count, 1)
    clean = np.flatnonzero(is_busy & (count == 64))
    if len(clean) >= _LEAST_CLEAN:
        return clean
    known = np.flatnonzero(is_busy & (count >= _LEAST_KNOWN))
    return known[np.argsort(-count[known], kind="stable")][:_TRIED]


def choose(samples: np.ndarray, is_sure: np.ndarray, base: np.ndarray, quality: int) -> tuple[np.ndarray, int, float]:
    """The table of samples in blocks (n, 64), its quality (0 for one's own), and the part of
    the tried blocks that fit it.

    Args:
        samples: int64 if they are exact, or float64.
        is_sure: which of them are known.
        base: LUMA or CHROMA.
        quality: a guess, or 0.
    """
    chosen = informative(samples, is_sure)
    if not len(chosen):
        return standard(base, quality or _USUAL), quality, 0.0
    is_clean, found = bool(is_sure[chosen].all()), _found(samples[chosen], is_sure[chosen], base, quality)
    if is_clean:
        chosen = chosen[:: -(-len(chosen) // _TRIED)]
    some, sure, fits = samples[chosen], is_sure[chosen], []
    few = slice(None, None, -(-len(chosen) // _FEW))
    for table, _ in found:
        is_likely = is_clean or _part(some[few], sure[few], table) >= _LIKELY
        fits.append(_part(some, sure, table) if is_likely else 0.0)
        if not is_clean and fits[-1] >= _CERTAIN:
            break
    best = next(number for number, fit in enumerate(fits) if fit >= _ENOUGH * max(fits))
    return *found[best], fits[best]


def may_fit(samples: np.ndarray, is_sure: np.ndarray, base: np.ndarray, least: float) -> bool:
    """Whether a table with steps of at least `least` on average fits one of the surest
    blocks. Other arguments: see choose.
    """
    chosen = informative(samples, is_sure)
    if not len(chosen):
        return False
    found = _found(samples[chosen], is_sure[chosen], base, 0)
    some = chosen[:_SUREST]
    return any(table.mean() >= least and _part(samples[some], is_sure[some], table) > 0 for table, _ in found)


def _found(samples: np.ndarray, is_sure: np.ndarray, base: np.ndarray, quality: int) -> list[tuple[np.ndarray, int]]:
    """Tables that blocks (n, 64) may have, and their qualities.

    The coefficients choose them if all samples are sure; else they are all tables of the standard.
    """
    if not is_sure.all():
        return [(standard(base, each), each) for each in dict.fromkeys((quality, *range(1, 101))) if each]
    return candidates(fitting.coefficients(samples), base, quality)


def _part(blocks: np.ndarray, is_sure: np.ndarray, table: np.ndarray) -> float:
    """The part of blocks (n, 64) that a table fits."""
    plane, sure = np.rint(blocks).astype(np.int64).reshape(-1, 8), is_sure.reshape(-1, 8)
    levels = fitting.rounded(blocks.reshape(-1, 8).astype(np.float64), table)
    variances = fitting.variances_of(levels[:0, 0], table)
    aim = fitting.Aim(
        np.where(sure | (plane >= 255), plane, -fitting.OPEN), np.where(sure | (plane <= 0), plane, fitting.OPEN), plane,
        1, 1, *plane.shape, 0, int(blocks.dtype != np.int64),
    )  # fmt: skip
    found = fitting.Plane(table, levels, decoding.samples(levels, table))
    trials = np.array([(fitting.spread(table, variances), 1.0)])
    wanted = np.ones(levels.shape[:2], bool)
    return fitting.fit(aim, found, wanted, variances, trials, 1, fitting.Workspace.new(8)).mean()


def _likelihoods(coefficients: np.ndarray) -> np.ndarray:
    """The log-likelihood of each step for each place, float64 (64, MAX_STEP + 1); 0 for step 0."""
    busy = (np.abs(coefficients[:, 1:]) > _LEAST).sum(1)
    chosen = coefficients[np.argsort(-busy, kind="stable")][: max(_MOST_BLOCKS, int((busy >= _BUSY).sum()))]
    chosen = chosen[:: -(-len(chosen) // _MOST_BLOCKS)]
    steps = np.arange(1, MAX_STEP + 1)
    result = np.zeros((64, MAX_STEP + 1))
    for place in range(64):
        values = np.abs(chosen[:, place])
        values = values[values > _LEAST]
        rest = values[:, None] - steps * np.rint(values[:, None] / steps)
        density = steps / (_NOISE * 2.5066) * np.exp(-0.5 * (rest / _NOISE) ** 2)
        result[place, 1:] = np.log((1 - _OUTLIERS) * density + _OUTLIERS).sum(0)
    return result
