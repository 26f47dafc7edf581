"""The method mixing: layers by context mixing, see exact/mixing/context_mixing.py.

It suits icons, drawings, screenshots, palette indices and masks. Coding and decoding take about 5 microseconds a
sample. Layers with the same number of channels are coded one after the other, and the mixer keeps what it learns.

The payload: 1 byte for each layer, the number of bits of its largest sample; then the bytes of the coder. In each pixel
alpha is coded first, then green, red and blue.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.exact.mixing.context_mixing import Mixer, canvas_shape, code_image, fill
from dqcodec.frozen.mixing import MARGIN, ORDERS
from dqcodec.methods.payload import Payload

_UNMEASURED = np.empty((0, 0, 0))


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, C) uint8, all with the same C, 1 to 4. It has the bytes of each layer."""
    bits = [max(1, int(pixels.max()).bit_length()) for pixels in layers]
    mixer, ends = Mixer.new([pixels.shape for pixels in layers], bits), [0]
    for pixels, bits_here in zip(layers, bits):
        own = np.zeros(canvas_shape(*pixels.shape), np.uint8)
        fill(own, pixels)
        code_image(mixer, own, bits_here, _UNMEASURED)
        ends.append(mixer.coder.position)
    code = mixer.coder.finish()
    ends[-1] = len(code)
    return Payload(bytes(bits) + code, tuple(1 + end - begin for begin, end in itertools.pairwise(ends)))


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload; raises CorruptError: the bits of a layer are not 1 to 8."""
    bits = data[: len(shapes)]
    if len(bits) < len(shapes) or not all(1 <= each <= 8 for each in bits):
        raise CorruptError("malformed payload")
    mixer, layers = Mixer.new(shapes, bits, data[len(shapes) :]), []
    for shape, bits_here in zip(shapes, bits):
        own = np.zeros(canvas_shape(*shape), np.uint8)
        code_image(mixer, own, bits_here, _UNMEASURED)
        layers.append(np.empty(shape, np.uint8))
        layers[-1][..., ORDERS[shape[2]]] = own[MARGIN:, MARGIN:-MARGIN]
    return layers


def code_lengths(layers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The bits of each sample of layers that are coded together, float32 (H, W, C) each."""
    bits = [max(1, int(pixels.max()).bit_length()) for pixels in layers]
    mixer, lengths = Mixer.new([pixels.shape for pixels in layers], bits), []
    for pixels, bits_here in zip(layers, bits):
        own, found = np.zeros(canvas_shape(*pixels.shape), np.uint8), np.empty(pixels.shape)
        fill(own, pixels)
        code_image(mixer, own, bits_here, found)
        lengths.append(np.empty(pixels.shape, np.float32))
        lengths[-1][..., ORDERS[pixels.shape[2]]] = found
    return lengths
