"""What the layers of an image are: those that a model may code, alpha, and whether all of them are drawn."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

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


class Candidate(NamedTuple):
    """A layer that may be coded.

    pixels: (H, W, C) uint8, or uint16 if it is whole. depth: the bits of a sample before the split. is_alpha: whether
    it is the alpha that the split has set apart. suits_models: whether a model may suit what it holds.
    """

    place: Place
    pixels: np.ndarray
    depth: int
    is_alpha: bool
    suits_models: bool

    @property
    def split(self) -> Split:
        """The split that makes the layer."""
        return self.place[1]

    @property
    def bits(self) -> int:
        """The bits of a sample of the layer."""
        return min(8, self.depth)


def layers_of(source: Source, splits: Iterable[Split], number: int = 0) -> Iterator[Candidate]:
    """The layers of an image in some splits. number: of the image in its group."""
    for split in splits:
        view = source.view(split)
        kinds = itertools.cycle(zip(split.names(view.skeleton), split.modelled(view.skeleton)))
        for layer, (pixels, (name, suits_models)) in enumerate(zip(source.layers(split), kinds)):
            is_alpha = name.startswith("alpha")
            yield Candidate((number, split, layer), pixels, view.header.bit_depth, is_alpha, suits_models)


def layers_for_models(source: Source, number: int = 0, *, every: bool = False) -> Iterator[Candidate]:
    """The layers of an image that a model may code. number: of the image in its group. every: see splits_for_models."""
    for each in layers_of(source, splits_for_models(source, every=every), number):
        if each.suits_models and takes_model(each.pixels):
            yield each


def splits_for_models(source: Source, *, every: bool) -> list[Split]:
    """The likeliest split of an image with layers that a model may code.

    every: if this split needs a table of values, also the split of the image's own samples,
    because a table may cost more than it saves.
    """
    found = source.splits_for_models
    has_table = bool(found) and len(source.views[found[0].values].code) > MODES_BYTES
    return found[:1] + [split for split in found[1:] if every and has_table and split.values == Values.SAMPLES]


def is_icon(source: Source, programs: Sequence[Program], effort: Effort) -> bool:
    """Whether an image is a small drawing in colours: only trained mixing is tried, as
    models take longer and gain nothing.
    """
    header, pixels = source.image.header, source.image.area
    limit = _MAX_SOFT_PIXELS if header.samples == 4 else _MAX_ICON_PIXELS
    if effort == Effort.BEST or not source.is_expressible or header.bit_depth == 16 or pixels > limit:
        return False
    layers = list(layers_for_models(source))
    if any(program.bits == each.bits < 8 for program in programs for each in layers):  # these models are for icons
        return False
    if pixels <= _TINY_PIXELS or header.color_type == PALETTE or not layers:
        return pixels <= _MAX_ICON_PIXELS
    first = layers[0]
    has_colors = first.pixels.shape[2] == 3
    if pixels > _MAX_ICON_PIXELS:
        return first.bits == 8 and has_colors and new_part(first.pixels) < _FEW_NEW
    return first.bits < 8 or (has_colors and is_drawn(first.pixels))


def is_drawing(source: Source) -> bool:
    """Whether the colours of an image are drawn, large, and mixed in an acceptable time."""
    colours = [each.pixels for each in layers_for_models(source) if each.pixels.shape[2] == 3]
    return bool(colours) and all(
        pixels.size > suitability.MAX_RIVAL_SAMPLES
        and mixing_samples(pixels) <= suitability.MAX_MIXING_SAMPLES
        and is_drawn(pixels)
        for pixels in colours
    )
