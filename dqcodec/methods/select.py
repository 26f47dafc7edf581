"""Layers by models or by other methods, and payloads back to layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.base.errors import CorruptError, DqcodecError, LatentOverflow, StackUnderflow
from dqcodec.format.container import Layer, Method
from dqcodec.methods import classical

if TYPE_CHECKING:
    from dqcodec.exact.program import Program
    from dqcodec.methods.report import ModelReport

    FindProgram = Callable[[bytes], Program]  # model id -> program

_MIN_MODEL_PIXELS = 64
_MAX_MIXING_SAMPLES = 1 << 20  # of 8 bits, about six seconds ...
_MAX_RIVAL_SAMPLES = 1 << 18  # ... and one or two, where a model codes the layer alone
_HOPELESS = 1.25  # a sample teaches mixing less than the whole does


@dataclass(frozen=True)
class Coded:
    """A layer, coded. payload: holds so many layers `together`; bytes: this one's part of it. report: of the payload, by the
    model that made it, if one did; particles: see methods/flow.py."""

    layer: Layer
    payload: bytes
    bytes: float
    program: Program | None = None
    report: ModelReport | None = None
    together: int = 1
    particles: int = 1

    @property
    def cost(self) -> float:
        """bytes, and the layer's part of the model id in the heads."""
        return self.bytes + len(self.layer.model_id) / self.together


def takes_model(pixels: np.ndarray) -> bool:
    """Whether a model may do well on a layer (H, W, C)."""
    return pixels.shape[2] in (1, 3) and pixels[..., 0].size >= _MIN_MODEL_PIXELS and bool((pixels != pixels[0, 0]).any())


def takes_mixing(pixels: np.ndarray, *, is_modelled: bool) -> bool:
    """Whether a layer (H, W, C) is mixed in good time; is_modelled: a model codes it too, and faster."""
    return pixels.size <= (_MAX_RIVAL_SAMPLES if is_modelled else _MAX_MIXING_SAMPLES)


def by_model(
    layers: Sequence[np.ndarray], programs: Sequence[Program], *, best: bool, particles: int = 1
) -> list[list[Coded]]:
    """Layers of as many channels, their samples of the programs' bits, each by the program that suits all of them best, in
    the ways that there are; none where it cannot. `best`: by mixing too, however long it takes."""
    from dqcodec.methods import learned

    program = learned.choose(layers, programs)
    if program is None:
        return [[] for _ in layers]
    is_small = 8 * _MAX_RIVAL_SAMPLES >= program.bits * sum(pixels.size for pixels in layers)
    if program.bits < 8 and not (best or is_small) and _is_strange(layers, program):
        return [[] for _ in layers]
    layer = Layer(Method[program.kind.upper()], program.id)
    try:
        payload, report = learned.encode(layers, program, particles)
    except (LatentOverflow, StackUnderflow):  # a layer leaves the model's range, or all together cannot pay
        takes = [learned.sample_bits([pixels], program) < np.inf for pixels in layers]
        if all(takes) or not any(takes):
            return [[] for _ in layers]
        kept = [pixels for pixels, is_taken in zip(layers, takes) if is_taken]
        coded = iter(by_model(kept, [program], best=best, particles=particles))
        return [next(coded) if is_taken else [] for is_taken in takes]
    payloads = {layer.method: payload}
    if layer.method == Method.AUTOREGRESSIVE and (best or is_small):
        from dqcodec.methods import model_mixing

        payloads[Method.MODEL_MIXING] = model_mixing.encode(layers, program)
    reports = {layer.method: report}
    return [
        [
            Coded(
                Layer(method, program.id), payload, bits / report.vi_bits * len(payload), program, reports.get(method),
                len(layers), particles,
            )
            for method, payload in payloads.items()
        ]
        for bits in report.layer_bits
    ]


def _is_strange(layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether mixing, though it knows nothing, takes less for a sample of the layers than the model does."""
    from dqcodec.methods import learned, mixing

    parts = list(learned.sample(layers))
    return 8 * len(mixing.encode(parts)[0]) < learned.sample_bits(parts, program)


def by_mixing(layers: Sequence[np.ndarray]) -> list[list[Coded]]:
    """Layers of as many channels, each in the one way that mixing has."""
    from dqcodec.methods import mixing

    payload, sizes = mixing.encode(layers)
    return [[Coded(Layer(Method.MIXING), payload, size, together=len(layers))] for size in sizes]


def mixes_badly(layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether a sample of layers, all of as many channels, shows that mixing has no hope to beat a model on them."""
    from dqcodec.methods import learned, mixing

    parts = list(learned.sample(layers))
    return 8 * len(mixing.encode(parts)[0]) > _HOPELESS * learned.sample_bits(parts, program)


def classically(pixels: np.ndarray, *, quick: bool) -> Coded:
    """The layer (H, W, C) by WebP; `quick` for an estimate of its size."""
    payload = classical.encode(pixels, quick=quick)
    return Coded(Layer(Method.CLASSICAL), payload, len(payload))


def together(layers: Sequence[np.ndarray], coded: Coded) -> tuple[bytes, ModelReport | None]:
    """The payload of layers, all by the method (and model) of the one that is `coded`, one of TOGETHER.

    Raises LatentOverflow, StackUnderflow: a flow cannot code them.
    """
    if coded.layer.method == Method.MIXING:
        from dqcodec.methods import mixing

        return mixing.encode(layers)[0], None
    if coded.layer.method == Method.MODEL_MIXING:
        from dqcodec.methods import model_mixing

        return model_mixing.encode(layers, coded.program), None
    from dqcodec.methods import learned

    return learned.encode(layers, coded.program, coded.particles)


def decode(
    payload: bytes, layer: Layer, shapes: Sequence[tuple[int, int, int]], find_program: FindProgram
) -> list[np.ndarray]:
    """The layers (H, W, C), uint8, of a payload, all coded as `layer`; raises CorruptError if they are not of these shapes."""
    if layer.method == Method.CLASSICAL:
        return [classical.decode(payload, shape) for shape in shapes]
    if layer.method == Method.MIXING:
        from dqcodec.methods import mixing

        return mixing.decode(payload, shapes)
    from dqcodec.methods import learned

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
