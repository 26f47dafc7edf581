"""The method animation: layers by pixel mixing, which also sees the canvas: what earlier frames drew.

Layers with the same number of channels are coded one after the other, and the mixers keep what they learn. The payload:

    *     clear   for each canvas (format/canvas.py), in the order of their first layers: a varint, 0 without a transparent
                  pixel, else 1 + the pixel, see exact/mixing/pixels.py
    1     bits    the number of bits of the largest sample
    *     code    of the layers, as in pixel_mixing.py, with the usual periods
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.exact.mixing.binary_coder import BinaryCoder
from dqcodec.exact.mixing.pixel_mixing import code_layer, new_mixers, reader, writer
from dqcodec.exact.mixing.pixels import Pixels, bits_of, part_of, place_of_first, stride_of
from dqcodec.format.canvas import Canvas, Spot
from dqcodec.frozen.pixel_mixing import DEFAULT_PERIODS, MARGIN
from dqcodec.methods.payload import MALFORMED, Payload

_MAX_CLEAR = 1 << 32


def encode(layers: Sequence[np.ndarray], spots: Sequence[Spot]) -> Payload:
    """The payload of layers (H, W, C) uint8, all with the same C, 1 to 4. It has the bytes of each layer."""
    firsts = {spot.canvas: spot for spot in reversed(spots)}
    canvases = {canvas: Canvas(spot.size, spot.clear) for canvas, spot in firsts.items()}
    clears = {spot.canvas: spot.clear for spot in spots}
    bits = max(map(bits_of, layers))
    head = b"".join(write_varint(0 if clear is None else clear + 1) for clear in clears.values()) + bytes([bits])
    pixels = Pixels.of(layers, _before([layer.shape for layer in layers]))
    coder = writer(pixels.shapes, [bits] * len(layers))
    ends = [*_code(coder, pixels, bits, spots, canvases)]
    return Payload.of([head, *[b""] * (len(layers) - 1)], coder.finish(), ends)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]], spots: Sequence[Spot]) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload.

    Raises CorruptError: its head is malformed, or it is too short for its layers.
    """
    head, canvases = Reader(data, error=MALFORMED), {}
    for spot in spots:
        if spot.canvas not in canvases:
            clear = head.varint()
            if clear > _MAX_CLEAR:
                raise CorruptError(MALFORMED)
            canvases[spot.canvas] = spot.size, clear - 1 if clear else None
    bits = head.byte()
    if not 1 <= bits <= 8:
        raise CorruptError(MALFORMED)
    coder, pixels = reader(head.rest(), shapes), Pixels(shapes, _before(shapes))
    drawn = {canvas: Canvas(*each) for canvas, each in canvases.items()}
    for _ in _code(coder, pixels, bits, spots, drawn):
        pass
    return pixels.layers()


def _code(
    coder: BinaryCoder, pixels: Pixels, bits: int, spots: Sequence[Spot], canvases: Mapping[tuple[int, int], Canvas]
) -> Iterator[int]:
    """Code the layers; yields the position of the coder after each."""
    mixers = new_mixers(pixels.shapes, has_canvas=True)
    for number, (spot, (height, width, _)) in enumerate(zip(spots, pixels.shapes)):
        first, below, canvas = pixels.firsts[number], place_of_first(width), canvases[spot.canvas]
        places, distance = [up * stride_of(width) + left for up, left in DEFAULT_PERIODS], 0
        if not canvas.is_blank:
            places[0] = distance = first - below
            pixels.flat[: _room(height, width)] = 0
            part_of(pixels.flat, below, height, width)[:] = canvas.region(spot, height, width)
        code_layer(*mixers, coder, pixels.layer(number, bits, places, distance))
        canvas.draw(spot, pixels.part(number))
        yield coder.position


def _before(shapes: Sequence[tuple[int, int, int]]) -> int:
    """Places before the layers: room for the part of the canvas that a layer is drawn on."""
    return max(_room(height, width) for height, width, _ in shapes)


def _room(height: int, width: int) -> int:
    """The places of a part of the canvas with margins at all sides."""
    return (height + 2 * MARGIN) * stride_of(width)
