"""Which methods suit a layer: from its pixels alone, in much less time than coding takes.

Layers are (H, W, C) uint8.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from dqcodec.codec.differences import differing, distinct
from dqcodec.codec.effort import Effort
from dqcodec.format import palette
from dqcodec.frozen.experts import MAX_WIDTH

# Limits of a layer, in samples coded bit by bit: 2^21 take six seconds (no model codes it),
# 2^18 one second (a model does)
MAX_MIXING_SAMPLES, MAX_RIVAL_SAMPLES = 1 << 21, 1 << 18
MAX_SLOW_PIXELS = 1 << 20  # that a model and mixing code together in ten seconds or some more
_WHOLE_PIXELS = 4  # that mixing codes whole in the time of a sample
_MIN_MODEL_PIXELS = 64


def takes_model(pixels: np.ndarray) -> bool:
    """Whether a model may suit a layer: 1 or 3 channels, not tiny, not of one colour."""
    return (
        pixels.shape[2] in (1, 3) and pixels[..., 0].size >= _MIN_MODEL_PIXELS and bool((pixels != pixels[0, 0]).any())
    )


def takes_mixing(pixels: np.ndarray, *, is_modelled: bool) -> bool:
    """Whether mixing a layer takes an acceptable time.

    is_modelled: a model codes the layer, too. Unless the layer is drawn, mixing gains little
    then, so its limit is lower.
    """
    samples = mixing_samples(pixels)
    return samples <= MAX_RIVAL_SAMPLES or (samples <= MAX_MIXING_SAMPLES and (not is_modelled or is_drawn(pixels)))


def takes_experts(pixels: np.ndarray, effort: Effort) -> bool:
    """Whether experts may suit a layer of 8 bits and take an acceptable time."""
    is_quick = pixels.shape[2] == 1 and pixels.size <= MAX_RIVAL_SAMPLES and effort != Effort.FAST
    return takes_model(pixels) and pixels.shape[1] <= MAX_WIDTH and (effort == Effort.BEST or is_quick)


def mixing_samples(pixels: np.ndarray) -> int:
    """The time that mixing a layer takes, as a number of samples that are coded bit by bit."""
    return int(differing(pixels).sum()) * pixels.shape[2] + pixels[..., 0].size // _WHOLE_PIXELS


def is_drawn(pixels: np.ndarray) -> bool:
    """Whether most pixels of a layer equal their neighbours or are not new, as in text, tiles and textures.

    In photographs, noise makes most pixels new.
    """
    return 2 * differing(pixels)[:, :-1].sum() <= pixels[..., 0].size or new_part(pixels) <= 0.5


def new_part(pixels: np.ndarray) -> float:
    """The part of the pixels of a layer that are new.

    A new pixel differs from its left or upper neighbour, and no earlier pixel has the same pixels around it.
    """
    return distinct(_surroundings(pixels)) / pixels[..., 0].size


def repeated_part(layers: Sequence[np.ndarray]) -> float:
    """Of the pixels that differ from neighbours, the part that is not new. layers: all with the same channels."""
    around = np.concatenate(list(map(_surroundings, layers)))
    return 1 - distinct(around) / max(1, len(around))


def _surroundings(pixels: np.ndarray) -> np.ndarray:
    """A hash, uint64, of each pixel that differs from its left or upper neighbour, with five pixels around it."""
    differs = differing(pixels)[:, :-1]
    whole = palette.numbers(pixels)
    around = np.zeros(int(differs.sum()), np.uint64)
    for y, x in itertools.product(range(2), range(3)):  # the pixel, its left and right neighbours, and the three above
        height, width = differs.shape
        around = (around + whole[y : y + height, x : x + width][differs]) * np.uint64(0xE7037ED1A0B428DB)
        around ^= around >> np.uint64(29)
    return around
