"""The method mixing: layers by context mixing, see exact/mixing/context_mixing.py.

It suits icons, drawings, screenshots, palette indices and masks. Coding and decoding take about 5 microseconds a
sample. Layers with the same number of channels are coded one after the other, and the mixer keeps what it learns.

The payload: 1 byte for each layer, the number of bits of its largest sample; then the bytes of the coder. In each pixel
alpha is coded first, then green, red and blue.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.exact.mixing.context_mixing import Mixer, code_image, fill, padded_shape
from dqcodec.frozen.mixing import MARGIN, ORDERS
from dqcodec.methods.payload import Payload


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, C) uint8, all with the same C, 1 to 4. It has the bytes of each layer."""
    bits = _bits(layers)
    mixer = Mixer.new([pixels.shape for pixels in layers], bits)
    ends = [mixer.coder.position for _ in _write(mixer, layers, bits, measured=False)]
    return Payload.of([bytes([each]) for each in bits], mixer.coder.finish(), ends)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload; raises CorruptError: the bits of a layer are not 1 to 8."""
    bits = data[: len(shapes)]
    if len(bits) < len(shapes) or not all(1 <= each <= 8 for each in bits):
        raise CorruptError("malformed payload")
    mixer, layers = Mixer.new(shapes, bits, data[len(shapes) :]), []
    for shape, bits_here in zip(shapes, bits):
        own = np.zeros(padded_shape(*shape), np.uint8)
        code_image(mixer, own, bits_here, np.empty((0, 0, 0)))
        layers.append(np.empty(shape, np.uint8))
        layers[-1][..., ORDERS[shape[2]]] = own[MARGIN:, MARGIN:-MARGIN]
    return layers


def code_lengths(layers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The bits of each sample of layers that are coded together, float32 (H, W, C) each."""
    bits = _bits(layers)
    mixer, lengths = Mixer.new([pixels.shape for pixels in layers], bits), []
    for found in _write(mixer, layers, bits, measured=True):
        lengths.append(np.empty(found.shape, np.float32))
        lengths[-1][..., ORDERS[found.shape[2]]] = found
    return lengths


def _bits(layers: Sequence[np.ndarray]) -> list[int]:
    """The bits of the largest sample of each layer."""
    return [max(1, int(pixels.max()).bit_length()) for pixels in layers]


def _write(mixer: Mixer, layers: Sequence[np.ndarray], bits: Sequence[int], *, measured: bool) -> Iterator[np.ndarray]:
    """Write layers one by one; yields the bits of each sample, (H, W, C) in the order of coding, or nothing useful unless
    `measured`."""
    for pixels, bits_here in zip(layers, bits):
        own = np.zeros(padded_shape(*pixels.shape), np.uint8)
        lengths = np.empty(pixels.shape if measured else (0, 0, 0))
        fill(own, pixels)
        code_image(mixer, own, bits_here, lengths)
        yield lengths
