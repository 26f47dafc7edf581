"""The method mixing: layers by context mixing, see exact/mixing/context_mixing.py.

Files of earlier versions have it; encoders choose trained_mixing.py instead. Coding and decoding take about 5
microseconds a sample. Layers with the same number of channels are coded one after the other, and the mixer keeps what
it learns.

The payload: 1 byte for each layer, the number of bits of its largest sample; then the bytes of the coder. In each pixel
alpha is coded first, then green, red and blue.
"""

from collections.abc import Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.exact.mixing.context_mixing import Mixer, code_bits_of_layer
from dqcodec.exact.mixing.pixels import Pixels, bits_of
from dqcodec.frozen.mixing import ORDERS
from dqcodec.methods.payload import MALFORMED, Payload

_UNWANTED = np.empty((0, 0, 0))  # bits of samples


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, C) uint8, all with the same C, 1 to 4. It has the bytes of each layer."""
    return _code(layers)[0]


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload; raises CorruptError: the bits of a layer are not 1 to 8."""
    bits = data[: len(shapes)]
    if len(bits) < len(shapes) or not all(1 <= each <= 8 for each in bits):
        raise CorruptError(MALFORMED)
    mixer, pixels = Mixer.new(shapes, bits, data[len(shapes) :]), Pixels(shapes)
    for number, each in enumerate(bits):
        code_bits_of_layer(mixer, pixels.layer(number, each), _UNWANTED)
    return pixels.layers()


def code_lengths(layers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The bits of each sample of layers that are coded together, float32 (H, W, C) each."""
    return _code(layers)[1]


def _code(layers: Sequence[np.ndarray]) -> tuple[Payload, list[np.ndarray]]:
    """The payload of layers, and the bits of each sample."""
    pixels, bits = Pixels.of(layers), list(map(bits_of, layers))
    mixer, ends, lengths = Mixer.new(pixels.shapes, bits), [], []
    for number, (shape, each) in enumerate(zip(pixels.shapes, bits)):
        found = np.empty(shape)
        code_bits_of_layer(mixer, pixels.layer(number, each), found)
        ends.append(mixer.coder.position)
        lengths.append(np.empty(shape, np.float32))
        lengths[-1][..., ORDERS[shape[2]]] = found
    return Payload.of([bytes([each]) for each in bits], mixer.coder.finish(), ends), lengths
