"""Samples <-> layers. A layer is an array (H, W, 1 to 4) uint8, which a method can code. A part of the .dqc format.

A split has two parts. Its step turns samples into one or two arrays of bytes:

    PLAIN      at most 8 bits: the samples
    SCALED     16 bits, where the two bytes of every sample are equal: one of the bytes
    BYTES      16 bits: the high bytes, then the low bytes
    RESIDUAL   16 bits: the high bytes of residuals, then their low bytes. A residual is the sample minus its
               prediction, modulo 2^16, with the sign in the lowest bit (0, -1, 1, -2, ...). The prediction is
               left + up - corner, clamped to the range of left and up; samples outside the image are 0. In colour
               images, green is first subtracted from red and blue
    COLORS     palette indices: the colours of the palette, (H, W, 3), or (H, W, 4) with a tRNS chunk. It is used only
               if the colours determine the indices
    WHOLE      16 bits: the samples, as a layer of uint16, which only the method experts codes
    PAIRS      16 bits, one channel: (H, W, 2), the low bytes and the high bytes

The samples are those of the PNG, or of a view of it, see values.py. With `alpha`, each array of 2 or 4 channels becomes
two layers: the colours, then the alphas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.format import palette
from dqcodec.format.values import Values
from dqcodec.png import Png, Skeleton, color_types
from dqcodec.png.color_types import PALETTE
from dqcodec.png.skeleton import check_palette


class Step(IntEnum):
    """How samples become bytes: see the module. The numbers are part of the format."""

    PLAIN = 0
    SCALED = 1
    BYTES = 2
    RESIDUAL = 3
    COLORS = 4
    PAIRS = 5
    WHOLE = 6


@dataclass(frozen=True)
class Split:
    """How all rasters of a PNG become layers: see the module. values: the view that is split."""

    step: Step
    alpha: bool = False
    values: Values = Values.SAMPLES

    def apply(self, samples: np.ndarray, skeleton: Skeleton) -> list[np.ndarray]:
        """Split the samples (H, W, C), uint8 or uint16, of a raster into layers (H, W, C) uint8, or uint16 if
        whole."""
        match self.step:
            case Step.PLAIN | Step.WHOLE:
                arrays = [samples]
            case Step.SCALED:
                arrays = [samples.astype(np.uint8)]
            case Step.BYTES:
                arrays = _bytes(samples)
            case Step.RESIDUAL:
                from dqcodec.format import residuals

                arrays = _bytes(residuals.encode(samples))
            case Step.COLORS:
                arrays = [palette.table(skeleton)[samples[..., 0]]]
            case Step.PAIRS:
                arrays = [np.concatenate(_bytes(samples)[::-1], axis=2)]
        if self.alpha:
            arrays = [part for array in arrays for part in (array[..., :-1], array[..., -1:])]
        return [np.ascontiguousarray(array) for array in arrays]

    @property
    def is_pointwise(self) -> bool:
        """Whether a pixel depends on the same pixel of the layers alone, so that a part of the layers gives a part of
        the image."""
        return self.step in (Step.PLAIN, Step.SCALED, Step.BYTES, Step.PAIRS)

    def names(self, skeleton: Skeleton) -> list[str]:
        """What each layer of a raster holds, in words: `alpha of RGBA`."""
        match self.step:
            case Step.BYTES:
                names = ["high bytes", "low bytes"]
            case Step.RESIDUAL:
                names = ["high residuals", "low residuals"]
            case Step.COLORS:
                names = ["palette colours"]
            case _ if self.values == Values.INDICES:
                names = ["colour indices"]
            case _:
                color_type = skeleton.header.color_type
                names = ["palette indices" if color_type == PALETTE else color_types.NAMES[color_type]]
        return [each for name in names for each in ((name, f"alpha of {name}") if self.alpha else (name,))]

    def modelled(self, skeleton: Skeleton) -> list[bool]:
        """For each layer of a raster, whether a model may suit it: low bytes are noise to a model."""
        layers = len(self.names(skeleton))
        return [self.step != Step.BYTES or number < layers // 2 for number in range(layers)]

    def shapes(self, size: tuple[int, int], skeleton: Skeleton) -> list[tuple[int, int, int]]:
        """The shapes (H, W, C) of the layers of a raster of `size`, (height, width).

        Raises CorruptError: the split does not fit samples of this type.
        """
        header = skeleton.header
        depth = palette.channels(skeleton) if self.step == Step.COLORS else header.samples
        is_deep = self.step in (Step.SCALED, Step.BYTES, Step.RESIDUAL, Step.PAIRS, Step.WHOLE)
        if is_deep != (header.bit_depth == 16) or (self.step == Step.COLORS and header.color_type != PALETTE):
            raise CorruptError("the split does not fit the samples of the file")
        if self.step == Step.PAIRS:
            if self.alpha or depth != 1:
                raise CorruptError("the split does not fit the samples of the file")
            return [(*size, 2)]
        if self.alpha and depth not in (2, 4):
            raise CorruptError("the split sets alpha apart, but the samples have no alpha")
        depths = [depth - 1, 1] if self.alpha else [depth]
        return [(*size, each) for each in depths * (1 + (self.step in (Step.BYTES, Step.RESIDUAL)))]

    def undo(self, layers: Sequence[Sequence[np.ndarray]], skeleton: Skeleton) -> Png:
        """Join the layers of every raster to a PNG: the inverse of apply. Raises CorruptError: samples out of range."""
        layers = [[self._fitting(array) for array in arrays] for arrays in layers]
        if self.alpha:
            layers = [[np.concatenate(pair, axis=2) for pair in zip(each[::2], each[1::2])] for each in layers]
        if self.step == Step.COLORS:
            colors = [arrays[0] for arrays in layers]
            skeleton = palette.expand(skeleton, colors)
            entries = palette.table(skeleton)
            rasters = [palette.indices(each, entries) for each in colors]
        else:
            check_palette(skeleton.header, skeleton.parts[0])
            rasters = [self._join(arrays) for arrays in layers]
        limit = 1 << skeleton.header.bit_depth
        if limit < 256 and any(raster.max() >= limit for raster in rasters):
            raise CorruptError("a decoded sample is out of range")
        return Png(skeleton.header, skeleton, tuple(rasters))

    def _fitting(self, array: np.ndarray) -> np.ndarray:
        """A decoded layer as the type of the split's layers. Raises CorruptError: a sample is out of range."""
        dtype = np.uint16 if self.step == Step.WHOLE else np.uint8
        if array.dtype != dtype and array.max() > np.iinfo(dtype).max:
            raise CorruptError("a decoded sample is out of range")
        return array.astype(dtype, copy=False)

    def _join(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Undo the step, except COLORS."""
        match self.step:
            case Step.SCALED:
                return arrays[0] * np.uint16(257)
            case Step.BYTES:
                return _from_bytes(arrays)
            case Step.PAIRS:
                return _from_bytes([arrays[0][..., 1:], arrays[0][..., :1]])
            case Step.RESIDUAL:
                from dqcodec.format import residuals

                return residuals.decode(_from_bytes(arrays))
        return arrays[0]


def skeleton(image: Png, split: Split) -> Skeleton:
    """The image's skeleton as a .dqc file holds it: with the step COLORS, its palette is coded by the image's
    colours."""
    if split.step != Step.COLORS:
        return image.skeleton
    to_colors = Split(Step.COLORS)
    return palette.compact(image.skeleton, [to_colors.apply(raster, image.skeleton)[0] for raster in image.rasters])


def _bytes(samples: np.ndarray) -> list[np.ndarray]:
    """uint16 -> [high bytes, low bytes]."""
    return [(samples >> 8).astype(np.uint8), (samples & 255).astype(np.uint8)]


def _from_bytes(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The inverse of _bytes."""
    high, low = arrays
    return high.astype(np.uint16) << 8 | low
