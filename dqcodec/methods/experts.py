"""The method experts: layers of 8 or 16 bits by predictors that adapt, see exact/mixing/experts.py.

It suits samples of more than 8 bits: photographs, medical images, heights. Coding and decoding take 4 to 5 microseconds a
sample. Layers with the same number of channels are coded one after the other, and the experts keep what they learn.

The payload: for each channel of each layer, in the order of coding, 3 varints: the least sample; the step, at least 1, which
divides all differences from the least sample; the largest difference in steps. Then the bytes of the coder; channels with a
single value need none. Alpha is coded first, then green, red and blue.
"""

import math
from collections.abc import Sequence

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.exact.mixing.binary_coder import BinaryCoder
from dqcodec.exact.mixing.experts import Experts, Padded, code_channel
from dqcodec.frozen.experts import MAX_SAMPLES_A_BYTE, MAX_WIDTH
from dqcodec.frozen.mixing import ORDERS
from dqcodec.methods.payload import Payload


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, C) uint8 or uint16, all with the same C, 1 to 4, at most MAX_WIDTH wide.

    It has the bytes of each layer.
    """
    coder, experts = BinaryCoder.writer(0), Experts.new()
    heads, ends = [], []
    for pixels in layers:
        ranges = [_range(pixels[..., channel]) for channel in ORDERS[pixels.shape[2]]]
        heads.append(b"".join(write_varint(number) for each in ranges for number in each))
        if any(largest for *_, largest in ranges):
            padded = Padded.new(pixels.shape)
            for channel, (least, step, largest) in enumerate(ranges):
                samples = pixels[..., ORDERS[pixels.shape[2]][channel]]
                padded.inside[..., channel] = (samples.astype(np.int32) - least) // step
                if largest:
                    coder = code_channel(experts, padded, channel, largest, coder)
        ends.append(coder.position)
    return Payload.of(heads, coder.finish(), ends)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint16 of a payload; raises CorruptError: malformed, too short, or too wide."""
    position, ranges = 0, []
    for *_, channels in shapes:
        ranges.append([])
        for _ in range(channels):
            numbers = []
            for _ in range(3):
                number, position = read_varint(data, position)
                numbers.append(number)
            least, step, largest = numbers
            if not step or least + step * largest > 65535:
                raise CorruptError("malformed payload")
            ranges[-1].append((least, step, largest))
    coded = [any(largest for *_, largest in each) for each in ranges]
    samples = sum(math.prod(shape) for shape, is_coded in zip(shapes, coded) if is_coded)
    if samples > MAX_SAMPLES_A_BYTE * (len(data) - position + 5):
        raise CorruptError("the payload is too short for its image")
    if any(is_coded and width > MAX_WIDTH for (_, width, _), is_coded in zip(shapes, coded)):
        raise CorruptError("the image is too wide for its method")
    coder, experts, layers = BinaryCoder.reader(data[position:]), Experts.new(), []
    for shape, of_channels, is_coded in zip(shapes, ranges, coded):
        layers.append(np.empty(shape, np.uint16))
        padded = Padded.new(shape) if is_coded else None
        for channel, (least, step, largest) in enumerate(of_channels):
            if largest:
                code_channel(experts, padded, channel, largest, coder)
            layers[-1][..., ORDERS[shape[2]][channel]] = (
                padded.inside[..., channel] * step + least if largest else least
            )
    return layers


def _range(samples: np.ndarray) -> tuple[int, int, int]:
    """The least of some samples, the step, and the largest difference in steps."""
    values = np.unique(samples).astype(np.int64) - int(samples.min())
    step = max(1, int(np.gcd.reduce(values)))
    return int(samples.min()), step, int(values[-1]) // step
