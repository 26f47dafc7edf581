"""The bits that context mixing spends on each sample, alone and with a model.

The sum of the bits is the length of the code, to within the few bits that end it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, implements, part_of_loop
from dqcodec.exact.autoregressive.front import code_symbols
from dqcodec.exact.autoregressive.program import AutoregressiveProgram, by_tiles
from dqcodec.exact.autoregressive.walk import Walk
from dqcodec.exact.mixing.context_mixing import _HIGH, _LOW, _POSITION, Mixer, canvas_shape, code_sample, fill
from dqcodec.exact.mixing.model_mixing import Canvases, placed
from dqcodec.frozen.mixing import MARGIN, ORDERS


def lengths(mixer: Mixer, pixels: np.ndarray, bits: int) -> np.ndarray:
    """Code a layer (H, W, C) uint8 as context_mixing.code_image does -> the bits of each sample, float64 (H, W, C)."""
    own, found = np.zeros(canvas_shape(*pixels.shape), np.uint8), np.empty(pixels.shape)
    fill(own, pixels)
    _code(mixer, own, bits, found)
    result = np.empty(pixels.shape)
    result[..., ORDERS[pixels.shape[2]]] = found
    return result


def model_lengths(program: AutoregressiveProgram, tiles: Sequence[np.ndarray], mixer: Mixer) -> list[np.ndarray]:
    """Code tiles (H, W, C) uint8 as model_mixing.mix does -> the bits of each sample, float64 (H, W, C) each."""
    shapes = [tile.shape[:2] for tile in tiles]
    canvases, walk = Canvases(shapes, program.channels), Walk(program, shapes)
    canvases.enter(tiles)
    walk.enter(tiles)
    coder = _Measuring(mixer, canvases.samples, canvases.bounds, np.zeros(walk.canvas.planes.shape))
    for front in walk.learning_fronts():
        places = walk.fronts.places(front)
        slots = np.empty((len(places), program.channels, 2), np.int32)
        walk.code_by(coder, places, slots)
    return by_tiles(coder.lengths, shapes)


@part_of_loop
def _written(coder):
    """The bits of the code so far."""
    return 8.0 * coder[_POSITION] - math.log2(coder[_HIGH] - coder[_LOW] + 1.0)


@compiled
def _code(mixer, pixels, bits, found):
    """Code the samples of a canvas; found: the bits of each."""
    laws, n, sigmoid = np.empty((3, 0, 1), np.int32), np.int64(0), np.empty(0, np.int32)
    for y in range(MARGIN, pixels.shape[0]):
        for x in range(MARGIN, pixels.shape[1] - MARGIN):
            for c in range(pixels.shape[2]):
                before = _written(mixer.coder)
                code_sample(mixer, pixels, y, x, c, bits, False, laws, n, sigmoid)
                found[y - MARGIN, x - MARGIN, c] = _written(mixer.coder) - before


class _Measuring(NamedTuple):
    """A mixer codes the symbols, as in model_mixing. lengths: bits (pixels, planes) of each."""

    mixer: Mixer
    samples: np.ndarray
    bounds: np.ndarray
    lengths: np.ndarray


@implements(code_symbols, _Measuring)
def _measure(coder, model, canvas, places, laws, p, symbols):
    channels = canvas.planes.shape[1]
    for n in range(len(places)):
        pixels, y, x = placed(coder.samples, coder.bounds, places[n], channels)
        before = _written(coder.mixer.coder)
        code_sample(coder.mixer, pixels, y, x, p, model.bits, False, laws, n, model.tables.sigmoid)
        coder.lengths[places[n, 0], p] = _written(coder.mixer.coder) - before
        symbols[n] = pixels[y, x, p]
