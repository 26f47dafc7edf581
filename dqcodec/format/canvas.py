"""The canvas of an animation: the places of rasters on it, and what earlier frames left
there. A part of the .dqc format.

The frames before a frame leave pixels on the canvas, by the rules of APNG: a frame that is blended over the canvas
leaves what is there where its own pixels are transparent; a frame that is disposed of by the picture before it leaves
nothing. Where APNG clears the region of a frame after it was shown, its pixels stay here, because the next frame mostly
resembles them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dqcodec.png import Skeleton
from dqcodec.png.skeleton import PREVIOUS


class Spot(NamedTuple):
    """The place of a layer.

    canvas: its number among the canvases of layers that are coded together. Each image, and each place among the layers
    of a raster, has its own. size: (height, width) of the canvas. top, left: of the layer. stays: whether it leaves
    pixels. is_over: whether it is blended over the canvas. clear: the pixel that is transparent, known to an encoder,
    or None.
    """

    canvas: tuple[int, int]
    size: tuple[int, int]
    top: int
    left: int
    stays: bool
    is_over: bool
    clear: int | None = None


class Canvas:
    """The pixels, uint32, that earlier layers left on one canvas. clear: the pixel that is transparent, or None."""

    def __init__(self, size: tuple[int, int], clear: int | None) -> None:
        self._clear = clear
        self._pixels = np.full(size, clear or 0, np.uint32)
        self.is_blank = True

    def region(self, spot: Spot, height: int, width: int) -> np.ndarray:
        """The part that a layer of this height and width covers, a view."""
        return self._pixels[spot.top : spot.top + height, spot.left : spot.left + width]

    def draw(self, spot: Spot, pixels: np.ndarray) -> None:
        """Draw the pixels (H, W) of a layer."""
        if spot.stays:
            region, self.is_blank = self.region(spot, *pixels.shape), False
            region[:] = (
                np.where(pixels == self._clear, region, pixels) if spot.is_over and self._clear is not None else pixels
            )


def spots(skeleton: Skeleton, layers: int, image: int = 0) -> list[Spot]:
    """The spot of each layer of an image with this number in its group; layers: of each raster."""
    size = skeleton.header.height, skeleton.header.width
    return [
        Spot((image, layer), size, frame.top, frame.left, frame.disposal != PREVIOUS, frame.is_over)
        for frame in skeleton.frames
        for layer in range(layers)
    ]
