"""The splits of an image that an encoder tries, in all its views. format/split.py says what a split is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.codec.views import View, repeats_colors
from dqcodec.format import palette
from dqcodec.format.split import Split, Step
from dqcodec.format.values import Values
from dqcodec.frozen.experts import MAX_WIDTH
from dqcodec.png import Png
from dqcodec.png.color_types import PALETTE

SMALL_PIXELS = 1 << 14  # of smaller images, layers of bytes may be smaller, and cost little time


def possible_splits(views: Mapping[Values, View]) -> list[Split]:
    """The splits that an encoder tries: those that may give the smallest file."""
    return [
        Split(step, alpha, kind)
        for kind, view in views.items()
        for step in _steps(view.image, kind)
        for alpha in ([False, True] if view.image.header.samples in (2, 4) else [False])
    ]


def for_models(views: Mapping[Values, View]) -> list[Split]:
    """The splits with layers that a model may code, the likeliest first."""
    found = []
    for kind, view in views.items():
        header = view.image.header
        is_whole = _steps(view.image, kind)[0] == Step.WHOLE
        if header.color_type != PALETTE and not is_whole and (kind != Values.INDICES or header.bit_depth < 8):
            found.append(Split(_steps(view.image, kind)[0], header.samples in (2, 4), kind))
    return found


def _steps(image: Png, kind: Values) -> list[Step]:
    """The steps that an encoder tries for a view of this kind, the one for models first."""
    header, rasters = image.header, image.rasters
    if header.bit_depth == 16:
        if kind == Values.INDICES:
            return [Step.PAIRS]
        if all(np.array_equal(raster >> 8, raster & 255) for raster in rasters):
            return [Step.SCALED]
        of_bytes = [Step.BYTES, Step.RESIDUAL]
        if header.width > MAX_WIDTH:
            return of_bytes
        is_small = header.width * header.height <= SMALL_PIXELS
        return [Step.WHOLE] + of_bytes * (is_small or (kind == Values.SAMPLES and repeats_colors(image)))
    if header.color_type == PALETTE and _has_colors(image):
        return [Step.PLAIN, Step.COLORS]
    return [Step.PLAIN]


def _has_colors(image: Png) -> bool:
    """Whether the colours determine the indices, and the coded table determines the chunks."""
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
