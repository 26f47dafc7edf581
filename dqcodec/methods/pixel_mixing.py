"""The method pixel mixing: layers by context mixing, whole pixels where they are well predicted, see exact/mixing/.

It suits icons, drawings, screenshots, scans, dithers, palette indices and masks. Layers with the same number of channels are
coded one after the other, and the mixers keep what they learn. A well predicted pixel takes about a microsecond;
another takes five microseconds a sample.

The payload: for each layer 1 byte, bits 0-3 the number of bits of its largest sample; bit 4 is set if two periods
follow. A period is two varints: rows up, and columns left with the sign in the lowest bit (0, -1, 1, -2, ...). Then
come the bytes of the coder. In
each pixel alpha is coded first, then green, red and blue.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.exact.mixing.binary_coder import BinaryCoder
from dqcodec.exact.mixing.bit_mixing import BitMixer
from dqcodec.exact.mixing.periods import find_periods
from dqcodec.exact.mixing.pixel_mixing import PixelMixer, code_layer
from dqcodec.frozen.mixing import ORDERS
from dqcodec.frozen.pixel_mixing import DEFAULT_PERIODS, MARGIN
from dqcodec.methods.payload import Effort, Payload

_HAS_PERIODS = 16
_MAX_PIXELS_A_BYTE = 363_408  # the most certain pixels take 8 / log2(65536 / 65535) to a byte
_MAX_PIXEL_BYTES = 4  # and two of each bit of a sample, as the least probability is 2^-16
_Periods = tuple[tuple[int, int], ...]


def encode(layers: Sequence[np.ndarray], program: None = None, effort: Effort = Effort()) -> Payload:
    """The payload of layers (H, W, C) uint8, all with the same C, 1 to 4. It has the bytes of each layer."""
    bits = [max(1, int(layer.max()).bit_length()) for layer in layers]
    periods = [find_periods(layer) for layer in layers]
    heads = [
        bytes([each | (_HAS_PERIODS if found != DEFAULT_PERIODS else 0)]) + _write(found)
        for each, found in zip(bits, periods)
    ]
    shapes = [layer.shape for layer in layers]
    pixels, firsts = _canvas(shapes)
    for layer, first in zip(layers, firsts):
        whole = np.zeros(layer.shape[:2], np.uint32)
        for channel in ORDERS[layer.shape[2]]:
            whole = whole << 8 | layer[..., channel]
        _part(pixels, first, layer.shape)[:] = whole
    size = sum(layer[..., 0].size * (_MAX_PIXEL_BYTES + 2 * each * layer.shape[2]) for layer, each in zip(layers, bits))
    coder = BinaryCoder.writer(size)
    ends = [0, *_code(coder, pixels, firsts, shapes, bits, periods)]
    code = coder.finish()
    ends[-1] = len(code)
    sizes = tuple(len(head) + end - begin for head, (begin, end) in zip(heads, itertools.pairwise(ends)))
    return Payload(b"".join(heads) + code, sizes)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]], program: None = None) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload.

    Raises CorruptError: the bits or the periods of a layer cannot be, or the payload is too short for its layers.
    """
    bits, periods, position = [], [], 0
    for height, width, _ in shapes:
        head = data[position] if position < len(data) else 0
        position += 1
        found = DEFAULT_PERIODS
        if head & _HAS_PERIODS:
            found, position = _read(data, position)
        if not 1 <= head & ~_HAS_PERIODS <= 8 or not all(_fits(period, height, width) for period in found):
            raise CorruptError("malformed payload")
        bits.append(head & ~_HAS_PERIODS)
        periods.append(found)
    if sum(height * width for height, width, _ in shapes) > _MAX_PIXELS_A_BYTE * (len(data) - position + 5):
        raise CorruptError("the payload is too short for its image")
    pixels, firsts = _canvas(shapes)
    for _ in _code(BinaryCoder.reader(data[position:]), pixels, firsts, shapes, bits, periods):
        pass
    layers = []
    for first, shape in zip(firsts, shapes):
        layer, whole = np.empty(shape, np.uint8), _part(pixels, first, shape)
        for place, channel in enumerate(reversed(ORDERS[shape[2]])):
            layer[..., channel] = whole >> 8 * place
        layers.append(layer)
    return layers


def _code(
    coder: BinaryCoder, pixels: np.ndarray, firsts: Sequence[int], shapes: Sequence[tuple[int, int, int]],
    bits: Sequence[int], periods: Sequence[_Periods],
) -> Iterator[int]:  # fmt: skip
    """Code the layers; yields the position of the coder after each."""
    count = sum(height * width for height, width, _ in shapes)
    pixel_mixer, bit_mixer = (
        PixelMixer.new(count, max(width for _, width, _ in shapes)),
        BitMixer.new(count * shapes[0][2]),
    )
    for first, (height, width, channels), each, found in zip(firsts, shapes, bits, periods):
        places = np.array([up * _stride(width) + left for up, left in found])
        code_layer(pixel_mixer, bit_mixer, coder, pixels, first, height, width, channels, each, places)
        yield coder.position


def _stride(width: int) -> int:
    return width + 2 * MARGIN


def _canvas(shapes: Sequence[tuple[int, int, int]]) -> tuple[np.ndarray, list[int]]:
    """All pixels, uint32, and the place of each layer's first pixel, see bit_mixing. Raises CorruptError: too many."""
    sizes = [(height + MARGIN) * _stride(width) for height, width, _ in shapes]
    if sum(sizes) >= 1 << 31:
        raise CorruptError("the layers are too large for pixel mixing")
    starts = itertools.accumulate(sizes[:-1], initial=0)
    firsts = [start + MARGIN * _stride(width) + MARGIN for start, (_, width, _) in zip(starts, shapes)]
    return np.zeros(sum(sizes), np.uint32), firsts


def _part(pixels: np.ndarray, first: int, shape: tuple[int, int, int]) -> np.ndarray:
    """The pixels of a layer, a view (H, W)."""
    start, stride = first - MARGIN, _stride(shape[1])
    return pixels[start : start + shape[0] * stride].reshape(shape[0], stride)[:, MARGIN:-MARGIN]


def _fits(period: tuple[int, int], height: int, width: int) -> bool:
    """Whether the place of a period, (rows up, columns left), precedes a pixel, and is in the image for some pixels."""
    up, left = period
    return period in DEFAULT_PERIODS or (0 <= up < height and abs(left) < width and (up > 0 or left > 0))


def _write(periods: _Periods) -> bytes:
    """Periods as bytes; none for the default."""
    if periods == DEFAULT_PERIODS:
        return b""
    return b"".join(write_varint(up) + write_varint(2 * left if left >= 0 else -2 * left - 1) for up, left in periods)


def _read(data: bytes, position: int) -> tuple[_Periods, int]:
    """The inverse of _write: periods, and the position after them. Raises CorruptError: too short."""
    numbers = []
    for _ in range(4):
        number, position = read_varint(data, position)
        numbers.append(number)
    lefts = [number >> 1 if number % 2 == 0 else -(number + 1 >> 1) for number in numbers[1::2]]
    return tuple(zip(numbers[::2], lefts)), position
