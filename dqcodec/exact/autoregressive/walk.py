"""A walk through tiles, front by front: what encoder and decoder do alike, with or without mixing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.base.threads import in_threads
from dqcodec.context.context import Canvas, context, enter, log_spreads
from dqcodec.context.fronts import Fronts
from dqcodec.context.least_squares import predictor
from dqcodec.context.predictions import Predictions
from dqcodec.exact.autoregressive.context_net import head_sums, successor_features
from dqcodec.exact.autoregressive.heads import code
from dqcodec.exact.autoregressive.learning import LearningLinears
from dqcodec.frozen.autoregressive import LOG2_SCALE_GRID, LOGIT_GRID, MEAN_GRID

if TYPE_CHECKING:
    from dqcodec.exact.autoregressive.program import AutoregressiveProgram

_LEAST_PART = 96  # pixels of a front that are worth a thread
_NONE = np.zeros((0, 0), np.int64)


class Walk:
    """A walk through tiles, front by front in the order of decoding: what encoder and decoder do alike."""

    def __init__(self, program: AutoregressiveProgram, shapes: Sequence[tuple[int, int]]):
        d, self.net, self.tables = program.description, program.net, program.tables
        self.bits = d.bits
        self._shapes, self.fronts = shapes, Fronts(shapes, d.bits)
        self.canvas = Canvas.blank(self.fronts.pixels, d.channels, d.features)
        self._predictions = Predictions(self.fronts, d.channels) if d.least_squares else None
        self.predictor = predictor(np.zeros((0, 2), np.int64), 0, d.channels)
        biases = np.ldexp(np.repeat([LOGIT_GRID, MEAN_GRID, LOG2_SCALE_GRID], d.mixtures).astype(np.float64), -d.rate_bits)
        self.out = LearningLinears(self.net.out, np.stack([np.ldexp(biases, -d.head_grid), biases]))
        self.matrix_gradients = np.zeros(self.out.matrices.shape)

    def learning_fronts(self) -> Iterator[int]:
        """The fronts, in order; the last layers learn after each."""
        for front in range(len(self.fronts)):
            if self._predictions:
                self.predictor = self._predictions.begin(front)
            yield front
            if self._predictions:
                self._predictions.end()
            self.out.step(self.matrix_gradients)
            self.matrix_gradients[:] = 0

    def enter(self, tiles: Sequence[np.ndarray]) -> None:
        """Put known tiles, uint8 (H, W, C), on the canvas."""
        self.canvas.planes[:] = np.concatenate([_planes(tile) for tile in tiles])

    def tiles(self) -> list[np.ndarray]:
        """The canvas's, uint8 (H, W, C)."""
        ends = np.cumsum([height * width for height, width in self._shapes])[:-1]
        return [_pixels(planes, shape) for planes, shape in zip(np.split(self.canvas.planes, ends), self._shapes)]

    def code(self, places: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Code pixels of a front: their slots (N, P, 2), int32.

        wanted: slots (N, P) whose symbols are sought and entered into the canvas; without, the canvas has them.
        """
        slots = np.empty((len(places), self.canvas.planes.shape[1], 2), np.int32)

        def code_part(part: slice) -> np.ndarray:
            sought = _NONE if wanted is None else wanted[part]
            constants = self.net.weights, self.out.matrices, self.tables, log_spreads(), self.bits
            return _code(*constants, self.canvas, self.predictor, places[part], sought, slots[part])

        for matrix_gradients in in_threads(code_part, len(places), _LEAST_PART):
            self.matrix_gradients += matrix_gradients
        return slots


@compiled
def _code(net, matrices, tables, log_spreads, bits, canvas, predictor, places, wanted, slots):
    """Code pixels at places. Sets slots; returns what that teaches the last layers."""
    count, channels = len(places), canvas.planes.shape[1]
    seen = context(canvas, places, bits, log_spreads, predictor)
    values = np.empty((count, channels), np.int16)
    for n in range(count):
        for p in range(channels):
            values[n, p] = canvas.planes[places[n, 0], p]
    matrix_gradients = np.zeros(matrices.shape)
    sums = head_sums(net, seen.inputs)
    standards = code(
        net, sums, matrices, tables, log_spreads, seen, places, predictor, bits, wanted, values, slots, matrix_gradients
    )
    enter(canvas, places, values, successor_features(net, seen.inputs, standards), seen.predictions)
    return matrix_gradients


def _planes(pixels: np.ndarray) -> np.ndarray:
    """(H, W, C) -> int16 (H W, P): G, R - G, B - G, or gray."""
    planes = pixels.reshape(-1, pixels.shape[2]).astype(np.int16)
    if planes.shape[1] == 3:
        planes = planes[:, [1, 0, 2]]
        planes[:, 1:] -= planes[:, :1]
    return planes


def _pixels(planes: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Undo _planes: uint8 (H, W, C)."""
    if planes.shape[1] == 3:
        planes = planes[:, [1, 0, 2]]
        planes[:, ::2] += planes[:, 1:2]
    return planes.astype(np.uint8).reshape(*shape, -1)
