"""A walk through tiles, front by front: the same for encoders and decoders, with and without mixing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dqcodec.base.compiled import implements
from dqcodec.base.threads import in_threads
from dqcodec.context.context import Canvas, log_spreads
from dqcodec.context.fronts import Fronts
from dqcodec.context.least_squares import predictor
from dqcodec.context.predictions import Predictions
from dqcodec.exact.autoregressive.front import Model, code_front, code_symbols
from dqcodec.exact.autoregressive.learning import LearningLinears
from dqcodec.exact.autoregressive.mixture import find
from dqcodec.frozen.autoregressive import LOG2_SCALE_GRID, LOGIT_GRID, MEAN_GRID

if TYPE_CHECKING:
    from dqcodec.exact.autoregressive.program import AutoregressiveProgram

_LEAST_PART = 96  # pixels of a front that are worth a thread


class Walk:
    """A walk through tiles (height, width), front by front in the order of decoding.

    Attributes:
        fronts: their order. canvas: their pixels. predictor: of the front at hand; without tiles if the program has none.
        model: the program's constants and last layers.
        gradients: the sums of the gradients by the last layers in this front, see Coded.
    """

    def __init__(self, program: AutoregressiveProgram, shapes: Sequence[tuple[int, int]]):
        d = program.description
        self._shapes, self.fronts = shapes, Fronts(shapes, d.bits)
        self.canvas = Canvas.blank(self.fronts.pixels, d.channels, d.features)
        self._predictions = Predictions(self.fronts, d.channels) if d.least_squares else None
        self.predictor = predictor(np.empty((0, 2), np.int64), 0, d.channels)
        biases = np.ldexp(
            np.repeat([LOGIT_GRID, MEAN_GRID, LOG2_SCALE_GRID], d.mixtures).astype(np.float64), -d.rate_bits
        )
        self._out = LearningLinears(program.net.out, np.stack([np.ldexp(biases, -d.head_grid), biases]))
        self.gradients = np.zeros(self._out.matrices.shape)
        self.model = Model(program.net.weights, self._out.matrices, program.tables, log_spreads(), d.bits)

    def learning_fronts(self) -> Iterator[int]:
        """The fronts, in order; the last layers learn after each."""
        for front in range(len(self.fronts)):
            if self._predictions:
                self.predictor = self._predictions.begin(front)
            yield front
            self._out.step(self.gradients)
            self.gradients[:] = 0

    def enter(self, tiles: Sequence[np.ndarray]) -> None:
        """Put known tiles, uint8 (H, W, C), on the canvas."""
        self.canvas.planes[:] = np.concatenate([_planes(tile) for tile in tiles])

    def tiles(self) -> list[np.ndarray]:
        """The tiles on the canvas, uint8 (H, W, C)."""
        ends = np.cumsum([height * width for height, width in self._shapes])[:-1]
        return [_pixels(planes, shape) for planes, shape in zip(np.split(self.canvas.planes, ends), self._shapes)]

    def code(self, places: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Code pixels of a front: the first slot and the number of slots of their symbols, int32 (N, P, 2).

        places: int64 (N, 5), see Fronts.places. wanted: slots, int64 (N, P), whose symbols are found and entered into the canvas.
        Without it the canvas has the symbols.
        """
        slots = np.empty((len(places), self.canvas.planes.shape[1], 2), np.int32)
        sought = np.empty((0, slots.shape[1]), np.int64) if wanted is None else wanted

        def code_part(part: slice) -> np.ndarray:
            return code_front(self.model, self.canvas, self.predictor, places[part], _Slots(sought[part]), slots[part])

        for gradients in in_threads(code_part, len(places), _LEAST_PART):
            self.gradients += gradients
        return slots


class _Slots(NamedTuple):
    """A coder of symbols that hold slots, int64 (N, P). Without slots (0, P), the canvas has the symbols."""

    slots: np.ndarray


@implements(code_symbols, _Slots)
def _find(coder, model, canvas, places, laws, p, symbols):
    if len(coder.slots):
        find(laws, model.tables.sigmoid, 1 << model.bits, coder.slots[:, p], symbols)
    else:
        for n in range(len(places)):
            pixel = canvas.planes[places[n, 0]]
            symbols[n] = pixel[p] + (pixel[0] if p else 0)


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
