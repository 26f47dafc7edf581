"""Context mixing with a model: the predictions of an autoregressive density are mixed with those of contexts, bit by bit.

The model walks through tiles front by front, as when it codes alone. Plane by plane context_mixing codes the samples of a
front.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import implements, part_of_loop
from dqcodec.exact.autoregressive.front import code_symbols
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.autoregressive.walk import Walk, by_tiles
from dqcodec.exact.mixing.context_mixing import Law, Mixer, code_sample, fill, padded_shape
from dqcodec.frozen.mixing import MARGIN


class PaddedTiles:
    """Padded tiles, one after the other; see context_mixing.

    Attributes:
        samples: of all, flat, uint8.
        bounds: tile t is the samples bounds[t] to bounds[t + 1] - 1, int64 (T + 1,).
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], channels: int):
        self._shapes = [padded_shape(*shape, channels) for shape in shapes]
        self.bounds = np.append(0, np.cumsum([math.prod(shape) for shape in self._shapes]))
        self.samples = np.zeros(self.bounds[-1], np.uint8)

    def enter(self, tiles: Sequence[np.ndarray]) -> None:
        """Put tiles (H, W, C) into their places."""
        for tile, own, shape in zip(tiles, np.split(self.samples, self.bounds[1:-1]), self._shapes):
            fill(own.reshape(shape), tile)


def mix(program: AutoregressiveProgram, tiles: Sequence[np.ndarray], mixer: Mixer) -> list[np.ndarray]:
    """Code tiles, uint8 (H, W, C), by context mixing with a model: the mixer goes on writing its code.

    Returns the bits of each sample, float64 (H, W, C) each.
    """
    shapes = [tile.shape[:2] for tile in tiles]
    padded, walk = PaddedTiles(shapes, program.channels), Walk(program, shapes)
    padded.enter(tiles)
    walk.enter(tiles)
    return by_tiles(_code(walk, mixer, padded), shapes)


def unmix(program: AutoregressiveProgram, shapes: Sequence[tuple[int, int]], mixer: Mixer) -> list[np.ndarray]:
    """Undo mix: the uint8 tiles. Any code gives some tiles."""
    walk = Walk(program, shapes)
    _code(walk, mixer, PaddedTiles(shapes, program.channels))
    return walk.tiles()


def _code(walk: Walk, mixer: Mixer, padded: PaddedTiles) -> np.ndarray:
    """Returns the bits of each symbol, float64 (pixels, planes)."""
    coder = _Mixing(mixer, padded.samples, padded.bounds, np.empty(walk.pixels.planes.shape))
    for front in walk.learning_fronts():
        places = walk.fronts.places(front)
        slots = np.empty((*places.shape[:1], coder.lengths.shape[1], 2), np.int32)  # mixing has no use for them
        walk.code_by(coder, places, slots)
    return coder.lengths


@part_of_loop
def placed(samples, bounds, place, channels):
    """The padded tile (rows, columns, channels) of a pixel, and the pixel's row and column there.

    samples, bounds: of PaddedTiles. place: int64 (5,), see Fronts.places.
    """
    tile, width = place[4], place[3] + 2 * MARGIN
    pixels = samples[bounds[tile] : bounds[tile + 1]].reshape(-1, width, channels)
    return pixels, place[1] + MARGIN, place[2] + MARGIN


class _Mixing(NamedTuple):
    """A mixer codes the symbols.

    Attributes:
        mixer: a Mixer.
        samples, bounds: of PaddedTiles. If the mixer reads, symbols are entered; else they are there.
        lengths: set to the bits of each symbol, float64 (pixels, planes).
    """

    mixer: Mixer
    samples: np.ndarray
    bounds: np.ndarray
    lengths: np.ndarray


@implements(code_symbols, _Mixing)
def _mix(coder, model, pixels, places, laws, p, symbols):
    channels = pixels.planes.shape[1]
    for n in range(len(places)):
        pixels, y, x = placed(coder.samples, coder.bounds, places[n], channels)
        length = code_sample(coder.mixer, pixels, y, x, p, model.bits, Law(laws, n, model.tables.sigmoid))
        coder.lengths[places[n, 0], p] = length
        symbols[n] = pixels[y, x, p]
