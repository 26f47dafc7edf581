"""Ways to code layers: alone by WebP, or together by a method without a model or by a model.

Layers are (H, W, C) uint8; those for experts may be uint16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.base.errors import LatentOverflow, StackUnderflow
from dqcodec.codec import suitability, trial
from dqcodec.codec.effort import Effort
from dqcodec.format.layer import Layer, Method
from dqcodec.methods import classical, table
from dqcodec.methods.payload import ModelReport, Payload

if TYPE_CHECKING:
    from dqcodec.exact.program import Program


@dataclass(frozen=True)
class CodedLayer:
    """A layer, coded in one way.

    payload: of this layer and those coded with it, `together` layers in all. bytes: this layer's part of the payload.
    program, report: the model that made the payload and its report, or None.
    """

    layer: Layer
    payload: bytes
    bytes: float
    program: Program | None = None
    report: ModelReport | None = None
    together: int = 1

    @property
    def cost(self) -> float:
        """Bytes of the layer, and its part of the model id in the heads."""
        return self.bytes + len(self.layer.model_id) / self.together


def by_webp(pixels: np.ndarray, search: classical.Search) -> CodedLayer:
    """A layer by WebP. The search QUICK gives an estimate of the size."""
    data = classical.encode([pixels], search).data
    return CodedLayer(Layer(Method.CLASSICAL), data, len(data))


def by_method(layers: Sequence[np.ndarray], method: Method) -> list[list[CodedLayer]]:
    """Layers of the same number of channels, coded together by a method without a model: one way for each layer."""
    payload = table.encode(method, layers)
    return [[CodedLayer(Layer(method), payload.data, size, together=len(layers))] for size in payload.sizes]


def by_model(layers: Sequence[np.ndarray], programs: Sequence[Program], effort: Effort) -> list[list[CodedLayer]]:
    """Layers of the same number of channels, coded together by the program that suits them best: ways for each layer.

    Samples have the number of bits that the programs code. A layer that the program cannot code gets no way. No layer
    gets one if a sample of them shows that mixing is smaller.
    """
    program = trial.best_program(layers, programs, effort)
    rows = [] if program is None else _rows(layers, program, effort)
    if not rows:
        return [[] for _ in layers]
    try:
        payloads = {row.number: table.encode(row.number, layers, program) for row in rows}
    except (LatentOverflow, StackUnderflow):  # out of range, or too small for the first loan
        takes = [program.code_length([pixels]) < float("inf") for pixels in layers]
        if all(takes) or not any(takes):
            return [[] for _ in layers]
        kept = [pixels for pixels, is_taken in zip(layers, takes) if is_taken]
        coded = iter(by_model(kept, [program], effort))
        return [next(coded) if is_taken else [] for is_taken in takes]
    ways = _ways(payloads, program, _shares(payloads[rows[0].number]))
    usual = trial.best_program(layers, programs) if effort == Effort.BEST else program
    if usual is program or usual is None or rows[0].is_slow:
        return ways
    # all layers of a large program learn: on some images they get worse by it, which no sample shows
    return [[*first, *second] for first, second in zip(ways, by_model(layers, [usual], Effort.USUAL))]


def _ways(payloads: Mapping[Method, Payload], program: Program, shares: Sequence[float]) -> list[list[CodedLayer]]:
    """The ways of layers that a program has coded together by several methods. shares: the
    layers' parts of the payloads.
    """
    return [
        [
            CodedLayer(Layer(number, program.id), data.data, share * len(data.data), program, data.report, len(shares))
            for number, data in payloads.items()
        ]
        for share in shares
    ]


def _rows(layers: Sequence[np.ndarray], program: Program, effort: Effort) -> list[table.Row]:
    """The methods of a program that may code layers smallest; none if mixing without it is smaller.

    Unless the effort is best, a slow method codes large layers only if it gains much.
    """
    is_small = 8 * suitability.MAX_RIVAL_SAMPLES >= program.bits * sum(pixels.size for pixels in layers)
    if not (effort == Effort.BEST or is_small):
        if program.bits < 8 and trial.bits_ratio(Method.TRAINED_MIXING, layers, program) < 1:
            return []
        return _rows_of_large(layers, program, effort)
    rows = [row for row in table.rows_of(program) if not row.is_slow or trial.may_win(row.number, layers, program)]
    if len(layers) == 1 < len(rows) and trial.surely_wins(rows[-1].number, layers, program):
        return rows[-1:]
    return rows


def _rows_of_large(layers: Sequence[np.ndarray], program: Program, effort: Effort) -> list[table.Row]:
    """The methods that may code large layers: a slow one alone if it surely gains much, else those that are not slow."""
    rows = table.rows_of(program)
    is_tried = effort != Effort.FAST and sum(pixels[..., 0].size for pixels in layers) <= suitability.MAX_SLOW_PIXELS
    gaining = [row for row in rows if is_tried and row.is_slow and trial.gains_much(row.number, layers, program)]
    return gaining or [row for row in rows if not row.is_slow]


def _shares(payload: Payload) -> list[float]:
    """The part of each layer in a payload, by the model's bounds. A payload without a report has one layer."""
    if payload.report is None:
        return [1.0]
    return [bits / payload.report.vi_bits for bits in payload.report.layer_bits]
