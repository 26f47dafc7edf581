"""What the layers of an image are: those that a model may code, alpha, and whether all of them are drawn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.codec import suitability
from dqcodec.codec.effort import Effort
from dqcodec.codec.suitability import is_drawn, mixing_samples, new_part, takes_model
from dqcodec.format.split import Split
from dqcodec.format.values import MODES_BYTES, Values
from dqcodec.png.color_types import PALETTE

if TYPE_CHECKING:
    from dqcodec.codec.source import Source
    from dqcodec.exact.program import Program

# a layer of a group: number of its image, split that makes it, number of the layer
Place = tuple[int, Split, int]

_MAX_ICON_PIXELS = 1 << 14
_TINY_PIXELS = 1 << 8  # icons of these are tried as icons even if they look like photographs
_MAX_SOFT_PIXELS, _FEW_NEW = 1 << 16, 0.35  # of larger icons with alpha; the part of their pixels that is new at most


def layers_for_models(source: Source, *, every: bool = False) -> Iterator[tuple[int, Split, int, np.ndarray]]:
    """The layers of an image that a model may code: (bits of its samples, split, number of the layer, the layer).

    every: see splits_for_models.
    """
    for split in splits_for_models(source, every=every):
        view = source.view(split)
        suits = itertools.cycle(split.modelled(view.skeleton))
        for layer, (pixels, is_suitable) in enumerate(zip(source.layers(split), suits)):
            if is_suitable and takes_model(pixels):
                yield min(8, view.header.bit_depth), split, layer, pixels


def splits_for_models(source: Source, *, every: bool) -> list[Split]:
    """The likeliest split of an image with layers that a model may code.

    every: if this split needs a table of values, also the split of the image's own samples, because a table may cost more
    than it saves.
    """
    found = source.splits_for_models
    has_table = bool(found) and len(source.views[found[0].values].code) > MODES_BYTES
    return found[:1] + [split for split in found[1:] if every and has_table and split.values == Values.SAMPLES]


def is_alpha(source: Source, split: Split, layer: int) -> bool:
    """Whether a layer is the alpha that a split has set apart."""
    names = split.names(source.view(split).skeleton)
    return names[layer % len(names)].startswith("alpha")


def is_icon(source: Source, programs: Sequence[Program], effort: Effort) -> bool:
    """Whether an image is a small drawing in colours: only trained mixing is tried, as models take longer and gain nothing."""
    header, pixels = source.image.header, source.image.area
    limit = _MAX_SOFT_PIXELS if header.samples == 4 else _MAX_ICON_PIXELS
    if effort.best or not source.is_expressible or header.bit_depth == 16 or pixels > limit:
        return False
    layers = list(layers_for_models(source))
    if any(program.bits == bits < 8 for program in programs for bits, *_ in layers):  # these models are for icons
        return False
    if pixels <= _TINY_PIXELS or header.color_type == PALETTE or not layers:
        return pixels <= _MAX_ICON_PIXELS
    bits, *_, colors = layers[0]
    if pixels > _MAX_ICON_PIXELS:
        return bits == 8 and colors.shape[2] == 3 and new_part(colors) < _FEW_NEW
    return bits < 8 or (colors.shape[2] == 3 and is_drawn(colors))


def is_drawing(source: Source) -> bool:
    """Whether the colours of an image are drawn, large, and mixed in an acceptable time."""
    colours = [pixels for _, _, _, pixels in layers_for_models(source) if pixels.shape[2] == 3]
    return bool(colours) and all(
        pixels.size > suitability.MAX_RIVAL_SAMPLES
        and mixing_samples(pixels) <= suitability.MAX_MIXING_SAMPLES
        and is_drawn(pixels)
        for pixels in colours
    )
