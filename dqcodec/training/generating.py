"""Samples of a run's model in real numbers. Those of an exact program are exact.generating's."""

from pathlib import Path

import numpy as np
import torch

from dqcodec.training.trainer import load_model


def generate(run: Path | str, count: int, side: int, seed: int = 0) -> tuple[np.ndarray, int]:
    """(images x ~ P(x) of a run's averaged model, uint8 (count, side, side, C) below 2^bits; bits).

    Raises DqcodecError: the folder holds no run; ValueError: the model has no images of this side.
    """
    model, config = load_model(run)
    torch.manual_seed(seed)
    drawn = model.sample(count, side, side)
    return drawn.permute(0, 2, 3, 1).numpy().astype(np.uint8), config.data.bits
