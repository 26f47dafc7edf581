"""From the coefficients of a JPEG file to the pixels of libjpeg, bit for bit: inverse transform, upsampling, colours.

The transform is that of Loeffler, Ligtenberg and Moschytz (1989) with 13-bit constants, libjpeg's accurate integer
method. Blocks are (rows, columns, 8, 8): a block's coefficient (v, u) has the vertical frequency v and the horizontal
frequency u.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop_in_place
from dqcodec.frozen.jpeg import (
    BLUE,
    CONSTANT_BITS,
    FIX_0_298,
    FIX_0_390,
    FIX_0_541,
    FIX_0_765,
    FIX_0_899,
    FIX_1_175,
    FIX_1_501,
    FIX_1_847,
    FIX_1_961,
    FIX_2_053,
    FIX_2_562,
    FIX_3_072,
    GREEN_BY_BLUE,
    GREEN_BY_RED,
    PASS_BITS,
    RED,
)

_CHROMA = np.arange(-128, 128)
RED_OFFSET, BLUE_OFFSET = (RED * _CHROMA + 32768) >> 16, (BLUE * _CHROMA + 32768) >> 16
GREEN_BY_CR, GREEN_BY_CB = -GREEN_BY_RED * _CHROMA, 32768 - GREEN_BY_BLUE * _CHROMA


class Sampling(NamedTuple):
    """How chroma is sampled: one sample for 1 or 2 rows and 1 or 2 columns of pixels. fancy: decoders interpolate."""

    rows: int
    columns: int
    fancy: bool = True

    def interpolates(self, width: int) -> bool:
        """Whether decoders interpolate a component of this width: they do not between columns of two or less."""
        return self.fancy and (self.columns == 1 or width > 2)


# the order is part of the format
SAMPLINGS = (
    Sampling(1, 1), Sampling(2, 2), Sampling(1, 2), Sampling(2, 1), Sampling(2, 2, False), Sampling(1, 2, False),
)  # fmt: skip


class Jpeg(NamedTuple):
    """What a JPEG file holds.

    Attributes:
        sampling: of chroma.
        tables: the steps of luma, and of chroma if there is chroma, int64 (64,) each.
        levels: of each component, coefficients in steps, int16 (rows, columns, 64).
        offset: the rows and columns, 0 to 15, of the JPEG that are missing above and to the left of the image.
    """

    sampling: Sampling
    tables: tuple[np.ndarray, ...]
    levels: tuple[np.ndarray, ...]
    offset: tuple[int, int] = (0, 0)

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return sum(levels.size for levels in self.levels)

    def table(self, number: int) -> np.ndarray:
        """The steps of a component."""
        return self.tables[min(number, 1)]

    def planes(self) -> list[np.ndarray]:
        """The samples of each component."""
        return [samples(levels, self.table(number)) for number, levels in enumerate(self.levels)]

    def pixels(self, height: int, width: int) -> np.ndarray:
        """The decoded pixels, (H, W, 1 or 3) uint8, without the missing rows and columns."""
        down, right = self.offset
        return decoded(self.planes(), height + down, width + right, self.sampling)[down:, right:]


def component_size(height: int, width: int, sampling: Sampling) -> tuple[int, int]:
    """The rows and columns of chroma samples of an image."""
    return -(-height // sampling.rows), -(-width // sampling.columns)


@compiled
def samples(levels, table):
    """The samples (8 rows, 8 columns) int64, 0 to 255, of blocks.

    Args:
        levels: coefficients in steps, int16 (rows, columns, 64).
        table: the steps, int64 (64,), at most 2^8.
    """
    rows, columns = levels.shape[:2]
    plane = np.empty((8 * rows, 8 * columns), np.int64)
    block = np.empty((8, 8), np.int64)
    for row in range(rows):
        for column in range(columns):
            set_samples(block, levels[row, column], table)
            for y in range(8):
                for x in range(8):
                    plane[8 * row + y, 8 * column + x] = block[y, x]
    return plane


@part_of_loop_in_place
def set_samples(block, levels, table):
    """Set a block, int64 (8, 8), to the samples, 0 to 255, of its levels (64,). table: the steps, int64 (64,)."""
    for place in range(64):
        block[place >> 3, place & 7] = np.int64(levels[place]) * table[place]
    for u in range(8):
        _transform(block[:, u], CONSTANT_BITS - PASS_BITS)
    for y in range(8):
        _transform(block[y], CONSTANT_BITS + PASS_BITS + 3)
        for x in range(8):
            block[y, x] = min(255, max(0, block[y, x] + 128))


@part_of_loop_in_place
def _transform(x, bits):
    """Replace 8 numbers by their inverse transform, divided by 2^bits and rounded."""
    z1 = (x[2] + x[6]) * FIX_0_541
    low, high = z1 - x[6] * FIX_1_847, z1 + x[2] * FIX_0_765
    total, difference = (x[0] + x[4]) << CONSTANT_BITS, (x[0] - x[4]) << CONSTANT_BITS
    a0, a1, a2, a3 = total + high, difference + low, difference - low, total - high
    z5 = (x[7] + x[3] + x[5] + x[1]) * FIX_1_175
    z1, z2 = (x[7] + x[1]) * -FIX_0_899, (x[5] + x[3]) * -FIX_2_562
    z3, z4 = (x[7] + x[3]) * -FIX_1_961 + z5, (x[5] + x[1]) * -FIX_0_390 + z5
    b0, b1 = x[1] * FIX_1_501 + z1 + z4, x[3] * FIX_3_072 + z2 + z3
    b2, b3 = x[5] * FIX_2_053 + z2 + z4, x[7] * FIX_0_298 + z1 + z3
    half = 1 << (bits - 1)
    x[0], x[7] = (a0 + b0 + half) >> bits, (a0 - b0 + half) >> bits
    x[1], x[6] = (a1 + b1 + half) >> bits, (a1 - b1 + half) >> bits
    x[2], x[5] = (a2 + b2 + half) >> bits, (a2 - b2 + half) >> bits
    x[3], x[4] = (a3 + b3 + half) >> bits, (a3 - b3 + half) >> bits


def upsampled(chroma: np.ndarray, height: int, width: int, sampling: Sampling) -> np.ndarray:
    """Chroma samples at all pixels, (height, width). chroma: of component_size."""
    if not sampling.interpolates(chroma.shape[1]):
        return chroma.repeat(sampling.rows, 0).repeat(sampling.columns, 1)[:height, :width]
    if sampling.rows == 1:
        return _between(chroma, 1, (1, 2), 2)[:height, :width] if sampling.columns == 2 else chroma
    if sampling.columns == 1:
        return _between(chroma, 0, (1, 2), 2)[:height]
    return _between(_between(chroma, 0, (0, 0), 0), 1, (8, 7), 4)[:height, :width]


def _between(chroma: np.ndarray, axis: int, rounding: tuple[int, int], bits: int) -> np.ndarray:
    """Interpolate to twice the samples along an axis: (3 * the nearer sample + the other neighbour + rounding) >> bits.

    rounding: of the first and of the second new sample of each pair. The samples at the ends are repeated.
    """
    x = np.moveaxis(chroma, axis, -1)
    before = np.concatenate([x[..., :1], x[..., :-1]], -1)
    after = np.concatenate([x[..., 1:], x[..., -1:]], -1)
    pairs = np.stack([(3 * x + before + rounding[0]) >> bits, (3 * x + after + rounding[1]) >> bits], -1)
    return np.moveaxis(pairs.reshape(*x.shape[:-1], -1), -1, axis)


def colours(luma: np.ndarray, blue: np.ndarray, red: np.ndarray) -> np.ndarray:
    """The pixels (H, W, 3) int64, 0 to 255, of Y, Cb and Cr."""
    green = luma + ((GREEN_BY_CB[blue] + GREEN_BY_CR[red]) >> 16)
    return np.clip(np.stack([luma + RED_OFFSET[red], green, luma + BLUE_OFFSET[blue]], -1), 0, 255)


def decoded(planes: Sequence[np.ndarray], height: int, width: int, sampling: Sampling) -> np.ndarray:
    """The pixels (H, W, 1 or 3) uint8 of the samples of one or three components."""
    luma = planes[0][:height, :width]
    if len(planes) == 1:
        return luma[..., None].astype(np.uint8)
    rows, columns = component_size(height, width, sampling)
    blue, red = (upsampled(plane[:rows, :columns], height, width, sampling) for plane in planes[1:])
    return colours(luma, blue, red).astype(np.uint8)
