"""Context mixing with a model: the predictions of an autoregressive density are mixed with
those of contexts, bit by bit.

The model walks through tiles front by front, as when it codes alone. Plane by plane
context_mixing codes the samples of a front.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import implements
from dqcodec.exact.autoregressive.front import code_symbols
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.autoregressive.walk import Walk, by_tiles
from dqcodec.exact.mixing.context_mixing import Law, Mixer, Sample, code_bits, value_of
from dqcodec.exact.mixing.pixels import Pixels, stride_of


def mix(program: AutoregressiveProgram, tiles: Sequence[np.ndarray], mixer: Mixer) -> list[np.ndarray]:
    """Code tiles, uint8 (H, W, C), by context mixing with a model: the mixer goes on writing its code.

    Returns the bits of each sample, float64 (H, W, C) each.
    """
    walk = Walk(program, [tile.shape[:2] for tile in tiles])
    walk.enter(tiles)
    return by_tiles(_code(walk, mixer, Pixels.of(tiles)), walk.fronts.shapes)


def unmix(program: AutoregressiveProgram, shapes: Sequence[tuple[int, int]], mixer: Mixer) -> list[np.ndarray]:
    """Undo mix: the uint8 tiles. Any code gives some tiles."""
    pixels = Pixels([(*shape, program.channels) for shape in shapes])
    _code(Walk(program, shapes), mixer, pixels)
    return pixels.layers()


def _code(walk: Walk, mixer: Mixer, pixels: Pixels) -> np.ndarray:
    """Returns the bits of each symbol, float64 (pixels, planes)."""
    coder = _Mixing(mixer, pixels.flat, np.array(pixels.firsts), np.empty(walk.pixels.planes.shape))
    for front in walk.learning_fronts():
        places = walk.fronts.places(front)
        slots = np.empty((*places.shape[:1], coder.lengths.shape[1], 2), np.int32)  # mixing has no use for them
        walk.code_by(coder, places, slots)
    return coder.lengths


class _Mixing(NamedTuple):
    """A mixer codes the symbols.

    Attributes:
        mixer: a Mixer.
        pixels, firsts: of a Pixels, whose layers are the tiles. If the mixer reads, symbols
            are entered; else they are there.
        lengths: set to the bits of each symbol, float64 (pixels, planes).
    """

    mixer: Mixer
    pixels: np.ndarray
    firsts: np.ndarray
    lengths: np.ndarray


@implements(code_symbols, _Mixing)
def _mix(coder, model, pixels, places, laws, p, symbols):
    channels = pixels.planes.shape[1]
    for n in range(len(places)):
        position, y, x, width, tile = places[n]
        stride = stride_of(width)
        sample = Sample(coder.pixels, stride, channels, model.bits, coder.firsts[tile] + y * stride + x, p)
        coder.lengths[position, p] = code_bits(coder.mixer, sample, Law(laws, n, model.tables.sigmoid))
        symbols[n] = value_of(sample)
