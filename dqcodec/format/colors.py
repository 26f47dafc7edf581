"""A PNG's samples -> colours: palette indices, transparent colours and few-bit samples are resolved."""

from __future__ import annotations

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.format import palette
from dqcodec.png import Png
from dqcodec.png.color_types import PALETTE


def colors(image: Png, raster: int = 0) -> np.ndarray:
    """The colours of a raster, (H, W, C), uint8, or uint16 for 16 bits. C: 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA.

    Raises CorruptError: a palette index has no colour, or the palette is malformed.
    """
    samples, depth = image.rasters[raster], image.header.bit_depth
    if image.header.color_type == PALETTE:
        entries = palette.table(image.skeleton)
        if samples.max() >= len(entries):
            raise CorruptError("a palette index has no colour")
        return entries[samples[..., 0]]
    if depth < 8:
        samples = samples * np.uint8(255 // ((1 << depth) - 1))
    key = image.skeleton.find(b"tRNS")
    if key is None or len(key) != 2 * samples.shape[2] or image.header.color_type not in (0, 2):
        return samples
    is_opaque = (image.rasters[raster] != np.frombuffer(key, ">u2") & (1 << depth) - 1).any(axis=2, keepdims=True)
    return np.concatenate([samples, is_opaque * samples.dtype.type(np.iinfo(samples.dtype).max)], axis=2)


def is_transparent(image: Png, raster: int) -> np.ndarray:
    """Which pixels of a raster are wholly transparent, (H, W) bool; none if their colours are not known."""
    try:
        found = colors(image, raster)
    except CorruptError:
        found = image.rasters[raster][..., :1]
    return found[..., -1] == 0 if found.shape[2] in (2, 4) else np.zeros(found.shape[:2], bool)
