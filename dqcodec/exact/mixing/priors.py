"""What mixers know before their first pixel: nothing, or what training on drawings taught them."""

import hashlib
import io
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dqcodec.base.errors import ModelError
from dqcodec.exact.mixing.counters import UNUSED
from dqcodec.frozen import pixel_mixing as untrained
from dqcodec.frozen import trained_mixing as trained
from dqcodec.frozen.mixing import LIMIT, SQUASH, STATES


class Prior(NamedTuple):
    """First values of what a PixelMixer and a BitMixer learn.

    Attributes:
        hit_weights, hit_trust: of the PixelMixer, its weights and trust.
        weights, finals, maps, trust: of the BitMixer.
        errors: of its laws, see sample_laws.py.
        done: samples that count as coded already; the more, the slower weights change.
    """

    hit_weights: np.ndarray
    hit_trust: np.ndarray
    weights: np.ndarray
    finals: np.ndarray
    maps: np.ndarray
    trust: np.ndarray
    errors: np.ndarray
    done: int


TABLE = Path(trained.__file__).with_suffix(".npz")

UNTRAINED = Prior(
    np.full((untrained.HIT_ROWS, untrained.HIT_INPUTS), untrained.FIRST_HIT_WEIGHT, np.int32),
    np.full(untrained.CANVAS_TRUST + 64, UNUSED, np.uint32),
    np.full((untrained.ROWS, untrained.INPUTS), untrained.FIRST_WEIGHT, np.int32),
    np.full((32, untrained.SETS), untrained.FIRST_FINAL_WEIGHT, np.int32),
    np.tile(STATES << 16, untrained.CONTEXTS).astype(np.uint32),
    np.full(256, UNUSED, np.uint32),
    np.empty((0, 0), np.uint32),
    0,
)

# A row of trained weights is the first value of many rows of a mixer: of all rows that share what these lines name.
WEIGHT_ROWS = np.concatenate([
    np.arange(32).repeat(3),  # channel and bit
    32 + np.arange(23).repeat(8),  # familiar contexts
    55 + np.arange(9).repeat(32),  # what matches expect
    64 + np.tile(np.arange(4), 64),  # channel
    68 + 6 * np.arange(4).repeat(108) + np.tile(np.arange(6), 72),  # channel and surprise
])  # fmt: skip
HIT_ROWS = np.concatenate([
    np.zeros(64, np.int64),  # the neighbours that are as predicted
    1 + np.tile(np.arange(4), 64),  # the best candidate
    np.full(256, 5),  # earlier hits
])  # fmt: skip
WEIGHT_STEP, LOGIT_STEP = 512, 22  # of weights and logits in the table
UNSEEN = -128  # a counter that training has not used
_KINDS = {1: 1, 2: 4, 3: 3, 4: 4}  # channels of a layer -> of the layers from which it was learned


@cache
def trained_prior(channels: int) -> Prior:
    """What was learned from drawings with this number of channels; see benchmarks/priors.py.

    Raises ModelError: the file with the trained values is damaged or missing.
    """
    try:
        data = TABLE.read_bytes()
    except OSError as error:
        raise ModelError(f"the installation is incomplete: {TABLE}: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != trained.TABLE_SHA256:
        raise ModelError(f"the installation is damaged: {TABLE}")
    with np.load(io.BytesIO(data)) as table:
        parts = {name: table[f"{name}{_KINDS[channels]}"] for name in Prior._fields if name != "done"}
    return Prior(
        WEIGHT_STEP * parts["hit_weights"][HIT_ROWS].astype(np.int32),
        _counters(parts["hit_trust"], UNTRAINED.hit_trust),
        WEIGHT_STEP * parts["weights"][WEIGHT_ROWS].astype(np.int32),
        WEIGHT_STEP * parts["finals"].astype(np.int32),
        _counters(parts["maps"], UNTRAINED.maps),
        _counters(parts["trust"], UNTRAINED.trust),
        _errors(parts["errors"]),
        trained.DONE,
    )


def _counters(logits: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Counters with these logits (n,) int8, in steps of LOGIT_STEP; those of `first` where training has seen nothing."""
    probabilities = SQUASH[LOGIT_STEP * logits.astype(np.int64).clip(-127) + LIMIT].astype(np.uint32) << 16
    return np.where(logits == UNSEEN, first, probabilities | trained.USES).astype(np.uint32)


def _errors(codes: np.ndarray) -> np.ndarray:
    """Mean absolute errors with one use, from codes (rows, laws) uint8: 8 + c mod 8, times 2 to the power c // 8."""
    codes = codes.astype(np.uint32)
    return (8 + (codes & 7) << (codes >> 3)) << 10 | 1
