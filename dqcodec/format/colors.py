"""A PNG's samples -> colours: palette indices, transparent colours and few-bit samples are resolved."""

from __future__ import annotations

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.format import palette
from dqcodec.png import Png
from dqcodec.png.color_types import PALETTE


def colors(image: Png) -> np.ndarray:
    """The colours of the default image, (H, W, C), uint8, or uint16 for 16 bits. C: 1 gray, 2 gray and alpha, 3 RGB, 4
    RGBA.

    Raises:
        CorruptError: a palette index has no colour, or the palette is malformed.
    """
    samples, depth = image.pixels, image.header.bit_depth
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
    is_opaque = (image.pixels != np.frombuffer(key, ">u2") & (1 << depth) - 1).any(axis=2, keepdims=True)
    return np.concatenate([samples, is_opaque * samples.dtype.type(np.iinfo(samples.dtype).max)], axis=2)
