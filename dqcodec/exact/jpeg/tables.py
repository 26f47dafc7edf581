"""The steps by which coefficients were divided, found from the coefficients of the pixels."""

import numpy as np

from dqcodec.frozen.jpeg import MAX_STEP

_NOISE = 0.29  # the deviation that rounding samples gives a coefficient
_LEAST = 2.2  # smaller coefficients may be nothing but noise
_OUTLIERS = 0.01
_MOST_BLOCKS = 512
_BUSY = 3  # coefficients of a block whose noise is like noise; rounding a flat block moves it as a whole
# nats by which a step must be likelier than 1, and than a table of the standard that is scaled
_EVIDENCE, _DOUBT = 8, 3


def standard(base: np.ndarray, quality: int) -> np.ndarray:
    """A table of the standard, LUMA or CHROMA, scaled for a quality, 1 to 100, as libjpeg does."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return np.clip((base * scale + 50) // 100, 1, MAX_STEP)


def candidates(coefficients: np.ndarray, base: np.ndarray, quality: int = 0) -> list[tuple[np.ndarray, int]]:
    """Tables (64,) that coefficients (n, 64) may have, and their qualities; 0 for one that is not of the standard.

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
    return [*found, (own, 0)]


def gain(coefficients: np.ndarray) -> float:
    """By how many nats a coefficient of (n, 64) the likeliest steps are likelier than steps of 1."""
    likelihood = _likelihoods(coefficients)
    count = (np.abs(coefficients) > _LEAST).sum()
    return float((likelihood[:, 1:].max(1) - likelihood[:, 1]).sum()) / max(1, int(count))


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
