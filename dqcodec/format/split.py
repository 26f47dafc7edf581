"""Samples <-> layers, the uint8 arrays (H, W, 1 to 4) that methods code. A part of the .dqc format.

A split has a step and may set alpha apart. The step makes bytes of samples:

    PLAIN      samples of at most 8 bits are bytes
    SCALED     16 bits, both bytes of every sample the same: 8-bit samples, times 257. The bytes
    BYTES      16 bits: the high bytes, then the low bytes
    RESIDUAL   16 bits: samples less what their neighbours predict, modulo 2^16, the sign moved to the lowest bit
               (0, -1, 1, -2, ...): the high bytes, then the low bytes. Foretold is left + up - corner, clamped to the range of
               left and up; samples outside the image are 0. In colour, green is taken from red and blue before
    COLORS     palette indices as the colours they stand for, (H, W, 3), or 4 with a tRNS; only where they can be found again

Where alpha is set apart, each array with 2 or 4 channels becomes two: the colours, and then the alphas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.format import palette
from dqcodec.png import Png, Skeleton, color_types
from dqcodec.png.chunks import PALETTE, check_palette


class Step(IntEnum):
    """See the module."""

    PLAIN = 0
    SCALED = 1
    BYTES = 2
    RESIDUAL = 3
    COLORS = 4


@dataclass(frozen=True)
class Split:
    """How all rasters of a PNG become layers."""

    step: Step
    alpha: bool = False

    def apply(self, samples: np.ndarray, skeleton: Skeleton) -> list[np.ndarray]:
        """The layers of a raster's samples (H, W, C)."""
        match self.step:
            case Step.PLAIN:
                arrays = [samples]
            case Step.SCALED:
                arrays = [samples.astype(np.uint8)]
            case Step.BYTES:
                arrays = _bytes(samples)
            case Step.RESIDUAL:
                from dqcodec.format import gradient

                arrays = _bytes(gradient.residual(samples))
            case Step.COLORS:
                arrays = [palette.table(skeleton)[samples[..., 0]]]
        if self.alpha:
            arrays = [part for array in arrays for part in (array[..., :-1], array[..., -1:])]
        return [np.ascontiguousarray(array) for array in arrays]

    def names(self, skeleton: Skeleton) -> list[str]:
        """What each layer of a raster holds, for people."""
        match self.step:
            case Step.BYTES:
                names = ["high bytes", "low bytes"]
            case Step.RESIDUAL:
                names = ["high residuals", "low residuals"]
            case Step.COLORS:
                names = ["palette colours"]
            case _:
                color_type = skeleton.header.color_type
                names = ["palette indices" if color_type == PALETTE else color_types.NAMES[color_type]]
        return [each for name in names for each in ((name, f"alpha of {name}") if self.alpha else (name,))]

    def modelled(self, skeleton: Skeleton) -> list[bool]:
        """Which layers of a raster a model may do well on: not on low bytes."""
        return [not name.endswith("low bytes") for name in self.names(skeleton)]

    def shapes(self, size: tuple[int, int], skeleton: Skeleton) -> list[tuple[int, int, int]]:
        """The shapes of the layers of a raster of `size` (height, width); raises CorruptError where such samples cannot be
        split so."""
        header = skeleton.header
        depth = palette.channels(skeleton) if self.step == Step.COLORS else header.samples
        is_deep = self.step in (Step.SCALED, Step.BYTES, Step.RESIDUAL)
        if is_deep != (header.bit_depth == 16) or (self.step == Step.COLORS and header.color_type != PALETTE):
            raise CorruptError("the file's samples cannot be split as it says")
        if self.alpha and depth not in (2, 4):
            raise CorruptError("the file's samples have no alpha to set apart")
        depths = [depth - 1, 1] if self.alpha else [depth]
        return [(*size, each) for each in depths * (1 + (self.step in (Step.BYTES, Step.RESIDUAL)))]

    def undo(self, layers: Sequence[Sequence[np.ndarray]], skeleton: Skeleton) -> Png:
        """The PNG, given the layers of every raster; raises CorruptError where its samples are not possible ones."""
        if self.alpha:
            layers = [[np.concatenate(pair, axis=2) for pair in zip(each[::2], each[1::2])] for each in layers]
        if self.step == Step.COLORS:
            colors = [arrays[0] for arrays in layers]
            skeleton = palette.restore(skeleton, colors)
            entries = palette.table(skeleton)
            rasters = [palette.indices(each, entries) for each in colors]
        else:
            check_palette(skeleton.header, skeleton.parts[0])
            rasters = [self._join(arrays) for arrays in layers]
        limit = 1 << skeleton.header.bit_depth
        if limit < 256 and any(raster.max() >= limit for raster in rasters):
            raise CorruptError("a decoded sample is out of range")
        return Png(skeleton.header, skeleton, tuple(rasters))

    def _join(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        match self.step:
            case Step.SCALED:
                return arrays[0] * np.uint16(257)
            case Step.BYTES:
                return _from_bytes(arrays)
            case Step.RESIDUAL:
                from dqcodec.format import gradient

                return gradient.restore(_from_bytes(arrays))
        return arrays[0]


def skeleton(image: Png, split: Split) -> Skeleton:
    """The image's skeleton as a .dqc file holds it."""
    if split.step != Step.COLORS:
        return image.skeleton
    return palette.compact(image.skeleton, [split.apply(raster, image.skeleton)[0] for raster in image.rasters])


def candidates(image: Png) -> list[Split]:
    """The splits that may give the smallest file."""
    header, rasters = image.header, image.rasters
    if header.bit_depth == 16:
        is_scaled = all(np.array_equal(raster >> 8, raster & 255) for raster in rasters)
        steps = [Step.SCALED] if is_scaled else [Step.BYTES, Step.RESIDUAL]
    elif header.color_type == PALETTE and _has_colors(image):
        steps = [Step.PLAIN, Step.COLORS]
    else:
        steps = [Step.PLAIN]
    alphas = [False, True] if header.samples in (2, 4) else [False]
    return [Split(step, alpha) for step in steps for alpha in alphas]


def for_models(image: Png) -> Split | None:
    """The split some of whose layers a model may code; None where there is none."""
    header = image.header
    if header.color_type == PALETTE:
        return None
    return next((split for split in candidates(image) if split.alpha == (header.samples in (2, 4))))


def _has_colors(image: Png) -> bool:
    """Whether indices can be found again from colours, and the table from its coding."""
    if sum(chunk.kind == b"tRNS" for part in image.skeleton.parts for chunk in part) > 1:
        return False
    try:
        entries = palette.table(image.skeleton)
        return all(
            raster.max() < len(entries) and np.array_equal(palette.indices(entries[raster[..., 0]], entries), raster)
            for raster in image.rasters
        )
    except CorruptError:
        return False


def _bytes(samples: np.ndarray) -> list[np.ndarray]:
    return [(samples >> 8).astype(np.uint8), (samples & 255).astype(np.uint8)]


def _from_bytes(arrays: Sequence[np.ndarray]) -> np.ndarray:
    high, low = arrays
    return high.astype(np.uint16) << 8 | low
