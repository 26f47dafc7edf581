"""What the couplings of an interlaced flow see: twin of dqcodec.flows.interlaced, on the integers that networks see.

A level codes three quarters of the pixels of an image with even sides: those at PLACES of each 2 x 2 block, one place
after the other. The remaining quarter, the first pixel of each block, is the image of the next level. The coarsest one
is coded first.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.context.context import log_spreads
from dqcodec.frozen.autoregressive import INPUT_BOUND, SPREAD_FLOOR
from dqcodec.frozen.interlaced import MEAN_NEIGHBOURS, NEIGHBOURS, PLACES, REACH, SPREAD_WEIGHTS

LARGEST_SPREAD = 64 * 510 + SPREAD_FLOOR  # planes differ by at most 510


class Seen(NamedTuple):
    """What a coupling sees of the known pixels, at each of its own, (h, w) = (H, W) / 2.

    Attributes:
        sums, spreads: 8 times the mean and 64 times the spread of the nearest known pixels, int32 (B, h, w, P).
        inputs: of the network, float32 (B, h, w, (n + 2) P) for n neighbours.
    """

    sums: np.ndarray
    spreads: np.ndarray
    inputs: np.ndarray


def reflected(size: int) -> np.ndarray:
    """The rows, or columns, -REACH ... size + REACH - 1 of an image, int64: outside of it those of its reflection.

    The reflection keeps the parity, so that a place in a block stays one.
    """
    places = np.abs(np.arange(-REACH, size + REACH)) % (2 * (size - 1))
    return np.minimum(places, 2 * (size - 1) - places)


def seen(y: np.ndarray, number: int, bits: int) -> Seen:
    """What coupling `number` of a level sees.

    y: planes of symbols of `bits` bits, int32 (B, H, W, P); only known ones matter.
    """
    place, (height, width) = PLACES[number], y.shape[1:3]
    padded = y[:, reflected(height)][:, :, reflected(width)]
    starts = [(REACH + place[0] + dy, REACH + place[1] + dx) for dy, dx in NEIGHBOURS[number]]
    near = np.stack([padded[:, top : top + height - 1 : 2, left : left + width - 1 : 2] for top, left in starts], 3)
    sums = 2 * near[..., :MEAN_NEIGHBOURS, :].sum(3, dtype=np.int32)
    weights = np.array(SPREAD_WEIGHTS, np.int32)[:, None]
    away = np.abs(8 * near[..., : len(SPREAD_WEIGHTS), :] - sums[..., None, :])
    spreads = ((weights * away).sum(3, dtype=np.int32) >> 1) + SPREAD_FLOOR
    logs = log_spreads(LARGEST_SPREAD)[spreads]
    standard = standardised(near, sums[..., None, :], spreads[..., None, :]).reshape(*sums.shape[:3], -1)
    return Seen(sums, spreads, np.concatenate([standard, logs, _level(sums, bits)], -1, dtype=np.float32))


def standardised(values: np.ndarray, sums: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """(value - mean) / spread in steps of 1/GRID, clamped, float32. sums: 8 times the mean;
    spreads: 64 times the spread; int32.

    Each operation is float32.
    """
    gain = np.float32(256) / spreads.astype(np.float32)
    away = (8 * values - sums).astype(np.float32)
    return np.clip(np.floor(away * gain + np.float32(0.5)), -INPUT_BOUND, INPUT_BOUND)


def _level(sums: np.ndarray, bits: int) -> np.ndarray:
    """The local mean on a scale of its own: of the first plane from the middle of its range. sums: 8 times the mean."""
    level = sums.copy()
    level[..., 0] = ((sums[..., 0] - (4 << bits)) << 8 - bits) >> 4
    return np.clip(level, -INPUT_BOUND, INPUT_BOUND)
