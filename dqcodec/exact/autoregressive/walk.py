"""A walk through tiles, front by front: the same for encoders and decoders, with and without mixing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dqcodec.base.compiled import implements
from dqcodec.base.threads import in_threads
from dqcodec.context.context import TilePixels, log_spreads
from dqcodec.context.fronts import Fronts
from dqcodec.context.least_squares import predictor
from dqcodec.context.planes import coding_order, to_pixels, to_planes
from dqcodec.context.predictions import Predictions
from dqcodec.exact.autoregressive.front import Gradients, Parameters, code_front, code_symbols
from dqcodec.exact.autoregressive.learning import LearningLinears
from dqcodec.exact.autoregressive.learning_net import LearningNet
from dqcodec.exact.mixture import find
from dqcodec.frozen.autoregressive import LEAST_BATCH, LOG2_SCALE_GRID, LOGIT_GRID, MEAN_GRID

if TYPE_CHECKING:
    from dqcodec.exact.autoregressive.program import AutoregressiveProgram

_LEAST_PART = 96  # pixels of a front that are worth a thread


class Walk:
    """A walk through tiles (height, width), front by front in the order of decoding.

    Attributes:
        fronts: their order. pixels: what is known of them. predictor: of the front at hand;
            without tiles if the program has none.
        model: the program's constants and layers.
    """

    def __init__(self, program: AutoregressiveProgram, shapes: Sequence[tuple[int, int]]):
        d = program.description
        self.fronts = Fronts(shapes, d.bits)
        self.pixels = TilePixels.blank(self.fronts.pixels, d.channels, d.features)
        self._predictions = Predictions(self.fronts, d.channels) if d.least_squares else None
        self.predictor = predictor(np.empty((0, 2), np.int64), 0, d.channels)
        units = np.repeat([LOGIT_GRID, MEAN_GRID, LOG2_SCALE_GRID], d.mixtures).astype(np.float64)
        biases = np.ldexp(units, -d.rate_bits)
        self._out = LearningLinears.copies(program.net.out, np.stack([np.ldexp(biases, -d.head_grid), biases]))
        self._net = LearningNet(program.net, d.learning)
        self.model = Parameters(
            self._net.weights, self._net.scales, self._out.matrices, units, program.tables, log_spreads(), d.bits
        )
        self._gradients: list[Gradients] = []  # one for each thread
        self._idle: list[Gradients] = []
        self._unlearned = 0  # pixels

    def learning_fronts(self) -> Iterator[int]:
        """The fronts, in order; layers learn after each."""
        for front in range(len(self.fronts)):
            if self._predictions:
                self.predictor = self._predictions.begin(front)
            yield front
            self._learn(int(self.fronts.bounds[front + 1] - self.fronts.bounds[front]))

    def _learn(self, pixels: int) -> None:
        """The last layers learn from a front, with this number of pixels; the network's
        layers learn from LEAST_BATCH pixels at least.
        """
        gradients, *others = self._gradients
        self._unlearned += pixels
        is_due = self._unlearned >= LEAST_BATCH
        for other in others:
            gradients.take(other)
        self._out.step(gradients.out)
        gradients.out[:] = 0
        if is_due:
            self._net.step(gradients.net)
            gradients.net[:] = 0
            self._unlearned = 0

    def enter(self, tiles: Sequence[np.ndarray]) -> None:
        """Let the tiles, uint8 (H, W, C), be known."""
        self.pixels.planes[:] = np.concatenate([to_planes(tile) for tile in tiles])

    def tiles(self) -> list[np.ndarray]:
        """The tiles as far as they are known, uint8 (H, W, C)."""
        return list(map(to_pixels, by_tiles(self.pixels.planes, self.fronts.shapes)))

    def code(self, places: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Code pixels of a front: the first slot and the number of slots of their symbols, int32 (N, P, 2).

        places: int64 (N, 5), see Fronts.places. wanted: slots, int64 (N, P), whose symbols are found and become known.
        Without it the symbols are known.
        """
        slots = np.empty((len(places), self.pixels.planes.shape[1], 2), np.int32)
        sought = np.empty((0, slots.shape[1]), np.int64) if wanted is None else wanted

        in_threads(lambda part: self.code_by(_Slots(sought[part]), places[part], slots[part]), len(places), _LEAST_PART)
        return slots

    def code_by(self, coder: NamedTuple, places: np.ndarray, slots: np.ndarray) -> None:
        """Code pixels of a front by a coder, see code_front. Several threads may do so at once."""
        try:
            gradients = self._idle.pop()
        except IndexError:
            gradients = Gradients(np.zeros(self._out.matrices.shape), np.zeros(self._net.size))
            self._gradients.append(gradients)
        code_front(self.model, self.pixels, self.predictor, places, coder, slots, gradients)
        self._idle.append(gradients)


class _Slots(NamedTuple):
    """A coder of symbols that hold slots, int64 (N, P). Without slots (0, P), the symbols are known."""

    slots: np.ndarray


@implements(code_symbols, _Slots)
def _find(coder, model, pixels, places, laws, p, symbols):
    if len(coder.slots):
        find(laws, model.tables.sigmoid, 1 << model.bits, coder.slots[:, p], symbols)
    else:
        for n in range(len(places)):
            pixel = pixels.planes[places[n, 0]]
            symbols[n] = pixel[p] + (pixel[0] if p else 0)


def by_tiles(values: np.ndarray, shapes: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Values (pixels, planes) of all tiles, in the order of positions -> (H, W, C) of each, channels as in the image."""
    ends = np.cumsum([height * width for height, width in shapes])[:-1]
    return [each.reshape(*shape, -1) for each, shape in zip(np.split(coding_order(values), ends), shapes)]
