"""The codecs that dqcodec is measured against, each a pair of functions on (H, W, 3) uint8 pixels."""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import imagecodecs
import numpy as np
from PIL import Image


@dataclass(frozen=True)
class Peer:
    name: str
    encode: Callable[[np.ndarray], bytes]
    decode: Callable[[bytes], np.ndarray]


def _pillow(name: str, **options) -> Peer:
    def encode(pixels):
        buffer = BytesIO()
        Image.fromarray(pixels).save(buffer, **options)
        return buffer.getvalue()

    return Peer(name, encode, lambda data: np.asarray(Image.open(BytesIO(data)).convert("RGB")))


def _jpeg_xl(effort: int) -> Peer:
    return Peer(
        f"JPEG XL -d 0 -e {effort}",
        lambda pixels: imagecodecs.jpegxl_encode(pixels, lossless=True, effort=effort, numthreads=1),
        imagecodecs.jpegxl_decode,
    )


PEERS = (
    _pillow("PNG, Pillow optimize", format="PNG", optimize=True),
    _pillow("WebP -z 9", format="WEBP", lossless=True, quality=100, method=6),
    _jpeg_xl(7),
    _jpeg_xl(9),
)
