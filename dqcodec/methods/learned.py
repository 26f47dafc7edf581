"""Layers by a trained model, of whatever kind: which model suits them, and which module codes with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.exact.program import Program
from dqcodec.methods import autoregressive, flow, model_mixing
from dqcodec.methods.report import ModelReport

_SAMPLE_PIXELS = 1 << 14  # how much of the layers a model is tried on
_SAMPLE_SIDE = 64
_MODULES: dict[str, ModuleType] = {"flow": flow, "autoregressive": autoregressive}


def choose(layers: Sequence[np.ndarray], programs: Sequence[Program]) -> Program | None:
    """The program that codes a sample of the layers (H, W, C), uint8, in the fewest bits; None where none can code them."""
    fitting = [
        program for program in programs if all(_MODULES[program.kind].fits(layer.shape, program) for layer in layers)
    ]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    parts = list(sample(layers))
    return min(fitting, key=lambda program: sample_bits(parts, program))


def sample_bits(parts: Sequence[np.ndarray], program: Program) -> float:
    """What a program takes for parts of layers, as `sample` gives them; infinite where it cannot code them."""
    return _MODULES[program.kind].sample_bits(parts, program)


def encode(layers: Sequence[np.ndarray], program: Program, particles: int = 1) -> tuple[bytes, ModelReport]:
    """One payload for layers (H, W, C), uint8, of samples of the program's bits. See the encode of the program's module.

    particles: of a flow; an autoregressive density leaves no gap that more of them could close.
    """
    if program.kind == "flow":
        return flow.encode(layers, program, particles)
    return autoregressive.encode(layers, program)


def decode(
    payload: bytes, shapes: Sequence[tuple[int, int, int]], program: Program, *, is_mixed: bool = False
) -> list[np.ndarray]:
    """The layers (H, W, C), uint8, of a payload; is_mixed: by mixing with the program.

    Raises:
        CorruptError: the payload is damaged, or was not made by this program.
    """
    module = _MODULES[program.kind]
    if not all(module.fits(shape, program) for shape in shapes):
        raise CorruptError("the image does not fit the model")
    return (model_mixing if is_mixed else module).decode(payload, shapes, program)


def sample(layers: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Square parts, spread over each of some layers, or parts of the full width of one that is narrower."""
    pixels = min(_SAMPLE_SIDE**2, sum(layer[..., 0].size for layer in layers) // len(layers))
    some = layers[:: -(-len(layers) // max(1, _SAMPLE_PIXELS // pixels))]
    for layer in some:
        height, width = (min(_SAMPLE_SIDE, length) for length in layer.shape[:2])
        corners = [
            (top, left)
            for top in range(0, layer.shape[0] - height + 1, height)
            for left in range(0, layer.shape[1] - width + 1, width)
        ]
        count = max(1, _SAMPLE_PIXELS // len(some) // (height * width))
        for top, left in corners[:: max(1, len(corners) // count)][:count]:
            yield layer[top : top + height, left : left + width]
