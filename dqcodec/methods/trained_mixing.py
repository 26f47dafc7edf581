"""The method trained mixing: layers by pixel mixing that has learned from drawings, see exact/mixing/priors.py.

It suits icons, sprites and emoji, also soft ones. The payload is that of pixel_mixing.py.
"""

from collections.abc import Sequence

import numpy as np

from dqcodec.exact.mixing.priors import trained_prior
from dqcodec.methods import pixel_mixing
from dqcodec.methods.payload import Payload


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, C) uint8, all with the same C, 1 to 4. It has the bytes of each layer."""
    return pixel_mixing.encode_after(trained_prior(layers[0].shape[2]), layers)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload; errors: those of pixel_mixing.decode."""
    return pixel_mixing.decode_after(trained_prior(shapes[0][2]), data, shapes)
