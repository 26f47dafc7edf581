"""Layers by models or by other methods, and payloads back to layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..container import TOGETHER, Layer, Method
from ..errors import CorruptError, DqcodecError, LatentOverflow, StackUnderflow
from . import classical

if TYPE_CHECKING:
    from ..exact.program import Program
    from .report import ModelReport

    FindProgram = Callable[[bytes], Program]  # model id -> program

_MIN_MODEL_PIXELS = 64
_MAX_MIXING_SAMPLES = 1 << 20  # about six seconds ...
_MAX_RIVAL_SAMPLES = 1 << 18  # ... and one or two, where a model codes the layer alone
_HOPELESS = 1.25  # a sample teaches mixing less than the whole does


@dataclass(frozen=True)
class Coded:
    """A layer, coded. payload: holds so many layers `together`; bytes: this one's part of it. report: of the payload, by the
    model that made it, if one did."""

    layer: Layer
    payload: bytes
    bytes: float
    program: Program | None = None
    report: ModelReport | None = None
    together: int = 1


def takes_model(pixels: np.ndarray) -> bool:
    """Whether a model may do well on a layer (H, W, C)."""
    return pixels.shape[2] in (1, 3) and pixels[..., 0].size >= _MIN_MODEL_PIXELS and bool((pixels != pixels[0, 0]).any())


def takes_mixing(pixels: np.ndarray, *, is_modelled: bool) -> bool:
    """Whether a layer (H, W, C) is mixed in good time; is_modelled: a model codes it too, and faster."""
    return pixels.size <= (_MAX_RIVAL_SAMPLES if is_modelled else _MAX_MIXING_SAMPLES)


def by_model(layers: Sequence[np.ndarray], programs: Sequence[Program], *, best: bool) -> list[list[Coded]]:
    """Layers of as many channels, each by the program that suits all of them best, in the ways that there are; none where it
    cannot. `best`: by mixing too, however long it takes."""
    from . import learned

    program = learned.choose(layers, programs)
    if program is None:
        return [[] for _ in layers]
    layer = Layer(Method[program.kind.upper()], program.id)
    if layer.method not in TOGETHER:
        return [_alone(pixels, layer, program) for pixels in layers]
    payload, report = learned.encode(layers, program)
    payloads = {layer.method: payload}
    if best or sum(pixels.size for pixels in layers) <= _MAX_RIVAL_SAMPLES:
        from . import model_mixing

        payloads[Method.MODEL_MIXING] = model_mixing.encode(layers, program)
    shares = [bits / report.vi_bits for bits in report.layer_bits]
    return [
        [
            Coded(Layer(method, program.id), payload, share * len(payload), program, report if method == layer.method else None, len(layers))
            for method, payload in payloads.items()
        ]
        for share in shares
    ]


def _alone(pixels: np.ndarray, layer: Layer, program: Program) -> list[Coded]:
    from . import learned

    try:
        payload, report = learned.encode([pixels], program)
    except (LatentOverflow, StackUnderflow):  # it leaves the model's range, or cannot pay
        return []
    return [Coded(layer, payload, len(payload), program, report)]


def by_mixing(layers: Sequence[np.ndarray]) -> list[list[Coded]]:
    """Layers of as many channels, each in the one way that mixing has."""
    from . import mixing

    payload, sizes = mixing.encode(layers)
    return [[Coded(Layer(Method.MIXING), payload, size, together=len(layers))] for size in sizes]


def mixes_badly(layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether a sample of layers, all of as many channels, shows that mixing has no hope to beat a model on them."""
    from . import learned, mixing

    parts = list(learned.sample(layers))
    return 8 * len(mixing.encode(parts)[0]) > _HOPELESS * learned.sample_bits(parts, program)


def classically(pixels: np.ndarray, *, quick: bool) -> Coded:
    """The layer (H, W, C) by WebP; `quick` for an estimate of its size."""
    payload = classical.encode(pixels, quick=quick)
    return Coded(Layer(Method.CLASSICAL), payload, len(payload))


def together(layers: Sequence[np.ndarray], coded: Coded) -> tuple[bytes, ModelReport | None]:
    """The payload of layers, all by the method (and model) of the one that is `coded`, one of TOGETHER."""
    if coded.layer.method == Method.MIXING:
        from . import mixing

        return mixing.encode(layers)[0], None
    if coded.layer.method == Method.MODEL_MIXING:
        from . import model_mixing

        return model_mixing.encode(layers, coded.program), None
    from . import learned

    return learned.encode(layers, coded.program)


def decode(
    payload: bytes, layer: Layer, shapes: Sequence[tuple[int, int, int]], find_program: FindProgram
) -> list[np.ndarray]:
    """The layers (H, W, C), uint8, of a payload, all coded as `layer`; raises CorruptError if they are not of these shapes."""
    if layer.method == Method.CLASSICAL:
        return [classical.decode(payload, shape) for shape in shapes]
    if layer.method == Method.MIXING:
        from . import mixing

        return mixing.decode(payload, shapes)
    from . import learned

    program = find_program(layer.model_id)
    is_mixed = layer.method == Method.MODEL_MIXING
    if Method[program.kind.upper()] != (Method.AUTOREGRESSIVE if is_mixed else layer.method):
        raise CorruptError("the model is of another kind than the file says")
    try:
        decoded = learned.decode(payload, shapes, program, is_mixed=is_mixed)
    except DqcodecError:
        raise
    except (ValueError, IndexError, ArithmeticError) as error:  # a payload that no encoder wrote
        raise CorruptError(f"the payload does not decode ({error})") from error
    if [pixels.shape for pixels in decoded] != list(shapes):
        raise CorruptError("the payload decodes to another shape")
    return decoded
