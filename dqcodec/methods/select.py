"""Layers by whichever method is smallest, and back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..container import Layer, Method
from ..errors import CorruptError, DqcodecError, LatentOverflow, StackUnderflow
from . import classical

if TYPE_CHECKING:
    from ..exact.program import Program
    from .report import ModelReport

    FindProgram = Callable[[bytes], Program]  # model id -> program

_MIN_MODEL_PIXELS = 64
_MAX_MIXING_SAMPLES = 1 << 20  # about six seconds


def by_model(pixels: np.ndarray, programs: Sequence[Program]) -> tuple[Layer, Program, ModelReport] | None:
    """The layer (H, W, C) by the best-suited program; None where none fits, it leaves its range, or it cannot pay."""
    if not programs or pixels[..., 0].size < _MIN_MODEL_PIXELS or (pixels == pixels[0, 0]).all():
        return None
    from . import learned

    try:
        program = learned.choose(pixels, programs)
        if program is None:
            return None
        payload, report = learned.encode(pixels, program)
    except (LatentOverflow, StackUnderflow):
        return None
    return Layer(Method[program.kind.upper()], payload, program.id), program, report


def without_model(pixels: np.ndarray, *, quick: bool) -> Layer:
    """The layer (H, W, C) by the smallest of the other methods; `quick` for an estimate of its size."""
    layers = []
    if pixels.size <= _MAX_MIXING_SAMPLES:
        layers.append(Layer(Method.MIXING, _mixed(pixels.tobytes(), pixels.shape)))
    if not (quick and layers):  # mixing is seldom much larger
        layers.append(Layer(Method.CLASSICAL, classical.encode(pixels, quick=quick)))
    return min(layers, key=lambda layer: len(layer.payload))


@functools.lru_cache(maxsize=16)
def _mixed(samples: bytes, shape: tuple[int, int, int]) -> bytes:
    """The payload by mixing: once, where an estimate and then the layer itself are asked for."""
    from . import mixing

    return mixing.encode(np.frombuffer(samples, np.uint8).reshape(shape))


def decode(layer: Layer, shape: tuple[int, int, int], find_program: FindProgram) -> np.ndarray:
    """The (H, W, C) uint8 pixels of a layer; raises CorruptError if it does not decode to `shape`."""
    if layer.method == Method.CLASSICAL:
        return classical.decode(layer.payload, shape)
    if layer.method == Method.MIXING:
        from . import mixing

        return mixing.decode(layer.payload, shape)
    from . import learned

    program = find_program(layer.model_id)
    if Method[program.kind.upper()] != layer.method:
        raise CorruptError("the model is of another kind than the file says")
    try:
        pixels = learned.decode(layer.payload, shape, program)
    except DqcodecError:
        raise
    except (ValueError, IndexError, ArithmeticError) as error:  # a payload that no encoder wrote
        raise CorruptError(f"the payload does not decode ({error})") from error
    if pixels.shape != shape:
        raise CorruptError("the payload decodes to another shape")
    return pixels
