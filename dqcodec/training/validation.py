"""Validation of a run: the rates of its model on fixed crops, in real numbers and as an integer program.

Crops and noise are the same for all runs on the same data, whatever their seeds are: so their rates can be compared.
"""

from pathlib import Path

import numpy as np

from dqcodec.base.errors import DqcodecError
from dqcodec.exact.program import load_program
from dqcodec.flows.model import DequantizedModel
from dqcodec.training.data import Crops
from dqcodec.training.evaluate import coded_bpd, evaluate

CALIBRATION_CROPS = 64
_BATCH = 32
_CODED_CROPS = 8
_SEED = 0


class Validation:
    """Fixed validation crops, `count` of them."""

    def __init__(self, crops: Crops, count: int):
        rng = np.random.default_rng(_SEED)
        self._batches = [crops.draw(min(_BATCH, count - done), False, rng) for done in range(0, count, _BATCH)]

    @property
    def calibration(self) -> np.ndarray:
        """Symbols (B, C, H, W) uint8 that calibrate the export."""
        return np.concatenate(self._batches)[:CALIBRATION_CROPS]

    def bpd(self, model: DequantizedModel) -> float:
        """A model's vi bound, bits per dimension, always with the same noise."""
        return evaluate(model, self._batches, 1, _SEED).vi_bpd

    def coded(self, model: DequantizedModel, path: Path) -> dict:
        """The metrics of a few crops: their rate by the model's file at `path`, and their vi bound, bits per dimension."""
        crops = self._batches[-1][-_CODED_CROPS:]
        try:
            rate = coded_bpd(load_program(path), crops)
        except DqcodecError as error:  # an early model may leave the proven ranges
            return {"coding_error": str(error)}
        bound = evaluate(model, [crops], 1, _SEED).vi_bpd
        return {"coded_bpd": round(rate, 4), "same_crops_vi_bpd": round(bound, 4)}
