"""Pixels by a trained model, of whatever kind: which model suits an image, and which module codes with it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from ..errors import CorruptError
from ..exact.program import Program
from . import autoregressive, flow
from .report import ModelReport

_SAMPLE_PIXELS = 1 << 14  # how much of an image a model is tried on
_SAMPLE_SIDE = 64
_MODULES: dict[str, ModuleType] = {"flow": flow, "autoregressive": autoregressive}


def choose(pixels: np.ndarray, programs: Sequence[Program]) -> Program | None:
    """The program that codes a sample of the image in the fewest bits; None where none can code it."""
    fitting = [program for program in programs if _MODULES[program.kind].fits(pixels.shape, program)]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    sample = _sample(pixels)
    return min(fitting, key=lambda program: _MODULES[program.kind].sample_bpd(sample, program))


def encode(pixels: np.ndarray, program: Program) -> tuple[bytes, ModelReport]:
    """The payload for (H, W, C) uint8 pixels; see the encode of the program's module."""
    return _MODULES[program.kind].encode(pixels, program)


def decode(payload: bytes, shape: tuple[int, int, int], program: Program) -> np.ndarray:
    """The (H, W, C) uint8 pixels of a payload.

    Raises:
        CorruptError: the payload is damaged, or was not made by this program.
    """
    module = _MODULES[program.kind]
    if not module.fits(shape, program):
        raise CorruptError("the image does not fit the model")
    return module.decode(payload, shape, program)


def _sample(pixels: np.ndarray) -> np.ndarray:
    """Square parts of the image, spread over it, side by side; of one that is narrower, parts of its full width."""
    height, width = (min(_SAMPLE_SIDE, length) for length in pixels.shape[:2])
    corners = [
        (top, left)
        for top in range(0, pixels.shape[0] - height + 1, height)
        for left in range(0, pixels.shape[1] - width + 1, width)
    ]
    count = max(1, _SAMPLE_PIXELS // (height * width))
    chosen = corners[:: max(1, len(corners) // count)][:count]
    parts = [pixels[top : top + height, left : left + width] for top, left in chosen]
    return np.concatenate(parts, axis=int(width == _SAMPLE_SIDE))
