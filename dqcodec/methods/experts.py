"""The method experts: layers of 8 or 16 bits by predictors that adapt, see exact/mixing/experts.py.

It suits samples of more than 8 bits: photographs, medical images, heights. Coding and decoding take 2 to 5 microseconds
a sample. Layers with the same number of channels are coded one after the other, and the experts keep what they learn.

The payload: for each channel of each layer, in the order of coding, 3 varints: the least sample; the step, at least 1,
which divides all differences from the least sample; the largest difference in steps. The number of zeros before the
first channel's step gives the layer's Kind. Then the bytes of the coder; channels with a single value need none. Alpha
is coded first, then green, red and blue.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.exact.mixing.binary_coder import BinaryCoder
from dqcodec.exact.mixing.experts import Experts, Kind, Padded, code_channel
from dqcodec.frozen.experts import MAX_SAMPLES_A_BYTE, MAX_WIDTH
from dqcodec.frozen.mixing import ORDERS
from dqcodec.methods.payload import MALFORMED, Payload

_TAKES = 255 / 256  # of the bytes, or less, a kind must take: a wide neighbourhood takes twice the time
_LEAST_LARGEST, _LEAST_PIXELS = 256, 1 << 12  # below, it gains little
_LEAST_EXACT = 1 / 32  # of a sharp channel's samples that lie on the plane through three neighbours
_STANDS_OUT = 1.25  # these, to those that lie one step above it or below
_LARGEST_WHOLE = 1 << 15  # pixels of a layer that is its own sample. Of others, windows are coded
_SIDE, _WINDOWS = 64, 2  # the side of a window; windows in a row, and rows of windows


class Range(NamedTuple):
    """The samples of a channel: least + step v, 0 <= v <= largest."""

    least: int
    step: int
    largest: int


def encode(layers: Sequence[np.ndarray]) -> Payload:
    """The payload of layers (H, W, C) uint8 or uint16, all with the same C, 1 to 4, at most MAX_WIDTH wide.

    It has the bytes of each layer.
    """
    return encode_as(layers, [_kind(pixels) for pixels in layers])


def encode_as(layers: Sequence[np.ndarray], kinds: Sequence[Kind]) -> Payload:
    """encode, with the kind of each layer given."""
    coder, experts = BinaryCoder.writer(0), Experts.new()
    heads, ends = [], []
    for pixels, kind in zip(layers, kinds, strict=True):
        ranges = [_range(pixels[..., channel]) for channel in ORDERS[pixels.shape[2]]]
        heads.append(_head(ranges, kind))
        if any(each.largest for each in ranges):
            padded = Padded.new(pixels.shape)
            for channel, (least, step, largest) in enumerate(ranges):
                samples = pixels[..., ORDERS[pixels.shape[2]][channel]]
                padded.inside[..., channel] = (samples.astype(np.int32) - least) // step
                if largest:
                    coder = code_channel(experts, padded, channel, largest, coder, kind)
        ends.append(coder.position)
    return Payload.of(heads, coder.finish(), ends)


def decode(data: bytes, shapes: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """The layers (H, W, C) uint16 of a payload; raises CorruptError: malformed, too short, or too wide."""
    reader = Reader(data, error=MALFORMED)
    heads = [_read_head(reader, channels) for *_, channels in shapes]
    coded = [any(each.largest for each in ranges) for ranges, _ in heads]
    samples = sum(math.prod(shape) for shape, is_coded in zip(shapes, coded) if is_coded)
    coder = BinaryCoder.reader(reader.rest(), samples, MAX_SAMPLES_A_BYTE)
    if any(is_coded and width > MAX_WIDTH for (_, width, _), is_coded in zip(shapes, coded)):
        raise CorruptError("the image is too wide for its method")
    experts, layers = Experts.new(), []
    for shape, (ranges, kind), is_coded in zip(shapes, heads, coded):
        layers.append(np.empty(shape, np.uint16))
        padded = Padded.new(shape) if is_coded else None
        for channel, (least, step, largest) in enumerate(ranges):
            if largest:
                code_channel(experts, padded, channel, largest, coder, kind)
            layers[-1][..., ORDERS[shape[2]][channel]] = (
                padded.inside[..., channel] * step + least if largest else least
            )
    return layers


def _range(samples: np.ndarray) -> Range:
    values = np.unique(samples).astype(np.int64) - int(samples.min())
    step = max(1, int(np.gcd.reduce(values)))
    return Range(int(samples.min()), step, int(values[-1]) // step)


def _head(ranges: Sequence[Range], kind: Kind) -> bytes:
    """The code of a layer's ranges and its kind."""
    first, *later = ranges
    numbers = [first.least, *[0] * kind, first.step, first.largest, *itertools.chain(*later)]
    return b"".join(map(write_varint, numbers))


def _read_head(reader: Reader, channels: int) -> tuple[list[Range], Kind]:
    """The inverse of _head; raises CorruptError."""
    ranges, zeros = [], 0
    for channel in range(channels):
        least, step = reader.varint(), reader.varint()
        while channel == 0 and step == 0 and zeros < max(Kind):
            zeros += 1
            step = reader.varint()
        largest = reader.varint()
        if not step or least + step * largest > 65535:
            raise CorruptError(MALFORMED)
        ranges.append(Range(least, step, largest))
    return ranges, Kind(zeros)


def _kind(pixels: np.ndarray) -> Kind:
    """The kind that makes a layer of one channel smallest, by a sample. Noise hides what the others add to narrow."""
    height, width, channels = pixels.shape
    if channels > 1 or height * width < _LEAST_PIXELS or _range(pixels).largest < _LEAST_LARGEST:
        return Kind.NARROW
    sample = _windows(pixels) if height * width > _LARGEST_WHOLE else [pixels]
    kinds = [Kind.NARROW, Kind.WIDE, *([Kind.SHARP] if _is_sharp(sample, _range(pixels).step) else [])]
    narrow, *others = sizes = [len(encode_as(sample, [kind] * len(sample)).data) for kind in kinds]
    return kinds[sizes.index(min(others))] if min(others) < _TAKES * narrow else Kind.NARROW


def _is_sharp(layers: Sequence[np.ndarray], step: int) -> bool:
    """Whether many samples lie on the plane through their left, upper and upper right neighbours.

    In noise and on smooth surfaces the same number lies one step beside it, and that says nothing.
    """
    away = np.concatenate([_from_plane(pixels.astype(np.int32)).ravel() // step for pixels in layers])
    exact, beside = np.sum(away == 0), np.sum(abs(away) == 1) / 2
    return exact > max(_LEAST_EXACT * away.size, _STANDS_OUT * beside)


def _from_plane(pixels: np.ndarray) -> np.ndarray:
    """The difference of each sample to the plane through three neighbours; not of the first row and outer columns."""
    return pixels[1:, 1:-1] - pixels[1:, :-2] - (pixels[:-1, 2:] - pixels[:-1, 1:-1])


def _windows(pixels: np.ndarray) -> list[np.ndarray]:
    """Windows around the middles of equal parts of a layer."""
    places = [
        [max(0, (2 * part + 1) * length // (2 * _WINDOWS) - _SIDE // 2) for part in range(_WINDOWS)]
        for length in pixels.shape[:2]
    ]
    return [pixels[top : top + _SIDE, left : left + _SIDE] for top, left in itertools.product(*places)]
