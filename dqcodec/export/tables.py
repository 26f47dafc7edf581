"""Functions of one number as integer tables, because an exact program computes no exponential."""

from collections.abc import Callable

import numpy as np
import torch

from dqcodec.exact.model_file import Tensors
from dqcodec.flows import couplings
from dqcodec.frozen import autoregressive as frozen
from dqcodec.frozen.flow import LOG_SCALE_BITS, LOG_SCALE_BOUND, PRECISION, R


def mixture() -> Tensors:
    """The tables of exact.mixture.MixtureTables."""
    cells = (np.arange(frozen.SIGMOID_CELLS) + 0.5 - frozen.SIGMOID_CELLS // 2) / frozen.SIGMOID_GRID
    logits = np.arange(frozen.LOGIT_RANGE + 1) / frozen.LOGIT_GRID
    scales = np.arange(frozen.LOG2_SCALE_LOW, frozen.LOG2_SCALE_HIGH + 1) / frozen.LOG2_SCALE_GRID
    tables = {
        "sigmoid": 2**16 / (1 + np.exp(-cells)),
        "weight": 2**16 * np.exp(-logits),
        "inverse_scale": 2**frozen.INVERSE_SCALE_BITS * np.exp2(-scales),
    }
    return {f"mixture.{name}": np.round(table).astype(np.int32) for name, table in tables.items()}


def scales() -> Tensors:
    """The table of exact.flow.transforms.Affine: raw log-scale -> S."""
    raw = np.arange(-LOG_SCALE_BOUND, LOG_SCALE_BOUND + 1) / 2**LOG_SCALE_BITS
    log_scale = couplings.LOG_SCALE_BOUND * np.tanh(raw / couplings.LOG_SCALE_BOUND)
    return {"scales": np.round(R * np.exp(log_scale)).astype(np.int32)}


def logistic(name: str, grid_bits: int) -> Tensors:
    """The standard logistic law."""
    return _law(name, lambda z: 1 / (1 + np.exp(-z)), (-12.0, 12.0), 5, grid_bits)


def dequantizer(fraction_bits: int, grid_bits: int, *, is_logistic: bool) -> Tensors:
    """The tables of a learned dequantizer: the cells of the sigmoid, the laws of its noise and of its tails.

    fraction_bits: of u. grid_bits: of the noise. is_logistic: whether the noise is logistic or normal.
    """
    u = np.arange(1, 2**fraction_bits) / 2**fraction_bits
    edges = np.round(np.log(u / (1 - u)) * 2**grid_bits).astype(np.int32)
    if is_logistic:
        noise = logistic("logistic_noise", grid_bits)
    else:
        noise = _law("normal", lambda z: torch.special.ndtr(torch.from_numpy(z)).numpy(), (-5.0, 5.0), 6, grid_bits)
    # no distance is negative, so the end cell below zero stays unused
    tail = _law("tail", lambda d: 1 - np.exp(-d), (0.0, 14.0), 4, grid_bits)
    return {"sigmoid.edges": edges} | noise | tail


def _law(
    name: str, cdf: Callable[[np.ndarray], np.ndarray], ends: tuple[float, float], cell_bits: int, grid_bits: int
) -> Tensors:
    """A TableLaw of the distribution function cdf: cells of 2^-cell_bits between the ends;
    the end cells hold the tails.
    """
    low, high = ends
    edges = np.arange(low, high, 2.0**-cell_bits)
    bounds = np.concatenate([[0.0], cdf(edges), [1.0]])
    first = int(low * 2**cell_bits) - 1
    return {
        f"{name}.frequencies": _frequencies(np.diff(bounds)),
        f"{name}.grid": np.array([first, grid_bits - cell_bits], np.int32),
    }


def _frequencies(mass: np.ndarray) -> np.ndarray:
    """Positive integers that sum to 2^P, near the given masses."""
    total = 1 << PRECISION
    f = np.maximum(1, np.round(mass / mass.sum() * total)).astype(np.int64)
    f[f.argmax()] += total - f.sum()
    return f.astype(np.int32)
