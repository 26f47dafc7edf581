"""The method pixel mixing: layers by context mixing, whole pixels where they are well predicted, see exact/mixing/.

Files of earlier versions have it; encoders choose trained_mixing.py, which begins with what training taught. Layers
with the same number of channels are coded one after the other, and the mixers keep what they learn. A well predicted
pixel takes about a microsecond; another takes five microseconds a sample.

The payload: for each layer 1 byte, bits 0-3 the number of bits of its largest sample; bit 4 is set if two periods
follow. A period is two varints: rows up, and columns left with the sign in the lowest bit (0, -1, 1, -2, ...). Then
come the bytes of the coder. In each pixel alpha is coded first, then green, red and blue.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import folded, unfolded, write_varint
from dqcodec.exact.mixing.binary_coder import BinaryCoder
from dqcodec.exact.mixing.periods import find_periods
from dqcodec.exact.mixing.pixel_mixing import code_layer, new_mixers, reader, writer
from dqcodec.exact.mixing.pixels import Pixels, bits_of, stride_of
from dqcodec.exact.mixing.priors import UNTRAINED, Prior
from dqcodec.frozen.pixel_mixing import DEFAULT_PERIODS
from dqcodec.methods.payload import MALFORMED, Payload

_HAS_PERIODS = 16
_Periods = tuple[tuple[int, int], ...]


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, C) uint8, all with the same C, 1 to 4. It has the bytes of each layer."""
    return encode_after(UNTRAINED, layers)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload.

    Raises CorruptError: the bits or the periods of a layer are not valid, or the payload is too short for its layers.
    """
    return decode_after(UNTRAINED, data, shapes)


def encode_after(prior: Prior, layers: Sequence[np.ndarray]) -> Payload:
    """encode with what is known before the first pixel."""
    bits = list(map(bits_of, layers))
    periods = [find_periods(layer) for layer in layers]
    heads = list(map(_pack_head, bits, periods))
    pixels = Pixels.of(layers)
    coder = writer(pixels.shapes, bits)
    ends = [*_code(prior, coder, pixels, bits, periods)]
    return Payload.of(heads, coder.finish(), ends)


def decode_after(prior: Prior, data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The inverse of encode_after; errors: those of decode."""
    head = Reader(data, error=MALFORMED)
    bits, periods = zip(*[_read_head(head, height, width) for height, width, _ in shapes])
    coder, pixels = reader(head.rest(), shapes), Pixels(shapes)
    for _ in _code(prior, coder, pixels, bits, periods):
        pass
    return pixels.layers()


def _code(
    prior: Prior, coder: BinaryCoder, pixels: Pixels, bits: Sequence[int], periods: Sequence[_Periods]
) -> Iterator[int]:
    """Code the layers; yields the position of the coder after each."""
    mixers = new_mixers(pixels.shapes, prior)
    for number, (each, found) in enumerate(zip(bits, periods)):
        stride = stride_of(pixels.shapes[number][1])
        places = [up * stride + left for up, left in found]
        code_layer(*mixers, coder, pixels.layer(number, each, places))
        yield coder.position


def _fits(period: tuple[int, int], height: int, width: int) -> bool:
    """Whether a period, (rows up, columns left), leads to an earlier pixel, and to one in the image for some pixels."""
    up, left = period
    return period in DEFAULT_PERIODS or (0 <= up < height and abs(left) < width and (up > 0 or left > 0))


def _pack_head(bits: int, periods: _Periods) -> bytes:
    """The head of a layer: its bits, and its periods unless they are the default."""
    if periods == DEFAULT_PERIODS:
        return bytes([bits])
    numbers = itertools.chain(*[(up, folded(left)) for up, left in periods])
    return bytes([bits | _HAS_PERIODS, *b"".join(map(write_varint, numbers))])


def _read_head(head: Reader, height: int, width: int) -> tuple[int, _Periods]:
    """The inverse of _pack_head, for a layer of this size. Raises CorruptError: malformed,
    too short, or without such pixels.
    """
    kind, periods = head.byte(), DEFAULT_PERIODS
    if kind & _HAS_PERIODS:
        periods = tuple((head.varint(), unfolded(head.varint())) for _ in DEFAULT_PERIODS)
    bits = kind & ~_HAS_PERIODS
    if not 1 <= bits <= 8 or not all(_fits(period, height, width) for period in periods):
        raise CorruptError(MALFORMED)
    return bits, periods
