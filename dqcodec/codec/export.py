"""PNG files -> files of other kinds, which hold the same pixels."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from dqcodec.base.errors import UnsupportedImageError
from dqcodec.codec.conversion import is_animation, to_array
from dqcodec.png import MAX_PIXELS, color_types

_HOLDS = {  # format -> (samples per pixel, bits) that it can hold
    "ppm": {(1, 8), (1, 16), (3, 8), (3, 16)},
    "bmp": {(1, 8), (3, 8)},
    "tiff": {(1, 8), (1, 16), (2, 8), (3, 8), (4, 8)},
    "webp": {(1, 8), (2, 8), (3, 8), (4, 8)},
}
_SAVE_OPTIONS = {"webp": {"lossless": True, "exact": True}}


def from_png(data: bytes, format: str, max_pixels: int = MAX_PIXELS) -> bytes:
    """Convert the PNG file `data` to a file of another format: png, ppm, bmp, tiff, webp or npy.

    Raises UnsupportedImageError: the format cannot hold these pixels exactly.
    """
    if format == "png":
        return data
    if is_animation(data):
        raise UnsupportedImageError(f"{format} cannot hold an animation")
    pixels = to_array(data, max_pixels)
    if format == "npy":
        stream = io.BytesIO()
        np.save(stream, pixels)
        return stream.getvalue()
    channels, bits = pixels.shape[2] if pixels.ndim == 3 else 1, 8 * pixels.itemsize
    if (channels, bits) not in _HOLDS[format]:
        name = color_types.NAMES[color_types.OF_SAMPLES[channels]]
        raise UnsupportedImageError(f"{format} cannot hold {bits}-bit {name} exactly")
    if format == "ppm":
        start = f"P{5 if channels == 1 else 6}\n{pixels.shape[1]} {pixels.shape[0]}\n{(1 << bits) - 1}\n"
        return start.encode() + pixels.astype(pixels.dtype.newbyteorder(">")).tobytes()
    stream = io.BytesIO()
    try:
        Image.fromarray(pixels).save(stream, format, **_SAVE_OPTIONS.get(format, {}))
    except (ValueError, OSError) as error:  # larger than the format allows
        raise UnsupportedImageError(f"{format} cannot hold this image ({error})") from error
    return stream.getvalue()
