"""Context mixing with a model: an autoregressive density predicts every bit, and that is mixed with what contexts tell.

The model walks through tiles front by front, as when it codes alone; plane by plane the samples of a front are coded by
context_mixing.
"""

import math
from collections.abc import Sequence

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.context.context import context, enter, log_spreads
from dqcodec.context.predictions import set_plane
from dqcodec.exact.autoregressive.context_net import head_sums, successor_features
from dqcodec.exact.autoregressive.heads import learn, predict_plane, record
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.autoregressive.walk import Walk
from dqcodec.exact.mixing.context_mixing import Mixer, canvas_shape, code_sample, fill
from dqcodec.frozen.autoregressive import PREDICTED
from dqcodec.frozen.mixing import MARGIN


class Canvases:
    """The canvases of tiles, see context_mixing, each as large as its tile needs it, one after the other.

    samples: all of them, flat, uint8. bounds: tile t's canvas are the samples bounds[t] to bounds[t + 1], (T + 1,).
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], channels: int):
        self._shapes = [canvas_shape(*shape, channels) for shape in shapes]
        self.bounds = np.append(0, np.cumsum([math.prod(shape) for shape in self._shapes]))
        self.samples = np.zeros(self.bounds[-1], np.uint8)

    def enter(self, tiles: Sequence[np.ndarray]) -> None:
        """Put tiles (H, W, C) into their canvases."""
        for tile, canvas, shape in zip(tiles, np.split(self.samples, self.bounds[1:-1]), self._shapes):
            fill(canvas.reshape(shape), tile)


def mix(program: AutoregressiveProgram, tiles: Sequence[np.ndarray], mixer: Mixer) -> None:
    """Code tiles, uint8 (H, W, C), by context mixing with a model: the mixer goes on writing its code."""
    shapes = [tile.shape[:2] for tile in tiles]
    canvases, walk = Canvases(shapes, program.channels), Walk(program, shapes)
    canvases.enter(tiles)
    walk.enter(tiles)
    _code(walk, mixer, canvases, is_sought=False)


def unmix(program: AutoregressiveProgram, shapes: Sequence[tuple[int, int]], mixer: Mixer) -> list[np.ndarray]:
    """Undo mix: the uint8 tiles. Any code gives some tiles."""
    walk = Walk(program, shapes)
    _code(walk, mixer, Canvases(shapes, program.channels), is_sought=True)
    return walk.tiles()


def _code(walk: Walk, mixer: Mixer, canvases: Canvases, *, is_sought: bool) -> None:
    for front in walk.learning_fronts():
        walk.matrix_gradients += code_front(
            walk.net.weights, walk.out.matrices, walk.tables, log_spreads(), walk.bits, walk.canvas, walk.predictor,
            walk.fronts.places(front), mixer, canvases.samples, canvases.bounds, is_sought,
        )


@compiled
def code_front(net, matrices, tables, log_spreads, bits, canvas, predictor, places, mixer, samples, bounds, is_sought):
    """Code the pixels of a front.

    Args:
        net: ContextNet.weights. matrices: last layers, see LearningLinears. canvas: a Canvas. predictor: see least_squares. places: see Fronts.
        mixer: see context_mixing. samples, bounds: of Canvases.
        is_sought: whether samples are read and entered into planes and canvases; else they are there.

    Returns:
        what that teaches the last layers.
    """
    count, channels = len(places), canvas.planes.shape[1]
    seen = context(canvas, places, bits, log_spreads, predictor)
    sums, matrix_gradients = head_sums(net, seen.inputs), np.zeros(matrices.shape)
    values = np.empty((count, channels), np.int16)
    standards, known = np.empty((count, channels), np.float32), np.empty((count, 2 * channels + PREDICTED), np.float32)
    laws, coded, offsets = np.empty((3, matrices.shape[2] // 3, count)), np.empty(count, np.int32), np.zeros(count, np.int64)
    symbols = 1 << bits
    for p in range(channels):
        head, out = predict_plane(net, sums, known, p, matrices, tables, log_spreads, seen, offsets, symbols, laws)
        for n in range(count):
            tile = places[n, 4]
            pixels = samples[bounds[tile] : bounds[tile + 1]].reshape(-1, places[n, 3] + 2 * MARGIN, channels)
            y, x = places[n, 1] + MARGIN, places[n, 2] + MARGIN
            code_sample(mixer, pixels, y, x, p, bits, is_sought, laws, n, tables.sigmoid)
            coded[n] = pixels[y, x, p]
        learn(head, out, laws, tables.sigmoid, symbols, coded, seen.moments[p], p, matrix_gradients)
        record(coded, offsets, seen.moments[p], p, values, standards, known)
        if len(predictor.starts):
            set_plane(predictor, places, seen, p, values, known, log_spreads, symbols)
    enter(canvas, places, values, successor_features(net, seen.inputs, standards), seen.predictions)
    return matrix_gradients
