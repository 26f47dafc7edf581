"""Trials for choose.py: the layers of animations, whose frames see what is on the canvas before them.

A split of an animation has one way: the method animation, or a model for its colours if a sample shows that they are
noise or a photograph. Trying all ways for all frames would take much longer.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.codec import trial
from dqcodec.codec.effort import Effort
from dqcodec.codec.image_layers import layers_for_models
from dqcodec.codec.sampling import sample
from dqcodec.codec.source import Source
from dqcodec.codec.suitability import takes_mixing
from dqcodec.codec.ways import CodedLayer, by_model
from dqcodec.exact.program import Program
from dqcodec.format.canvas import Spot
from dqcodec.format.layer import Layer, Method
from dqcodec.format.split import Split
from dqcodec.methods import table

if TYPE_CHECKING:
    from dqcodec.codec.image_layers import Place

_TRIAL_PIXELS = 1 << 16  # of smaller animations, all splits are coded
_TRIAL_PART = 1 / 8  # of the pixels of a larger one, to choose its split
_MODEL_BITS = 1  # a sample: no model is tried if the frames take fewer


def has_canvas(source: Source) -> bool:
    """Whether an image has frames that the method animation codes."""
    return len(source.image.rasters) > 1 and bool(_splits(source))


def code_animations(
    sources: Mapping[int, Source], programs: Sequence[Program], effort: Effort
) -> dict[Place, list[CodedLayer]]:
    """Code the animations of a group, by their numbers: one way for each layer of each split that is tried."""
    together: dict[tuple[Split, int], list[tuple[Place, np.ndarray, Spot]]] = {}
    for number, source in sources.items():
        for split in _best_splits(source, effort):
            parts = _places(number, source, split)
            together.setdefault((split, parts[0][1].shape[2]), []).extend(parts)
    coded = {place: [way] for parts in together.values() for place, way in _by_canvas(parts).items()}
    for number, source in sources.items():
        smallest = min(
            sum(way.bytes for (image, each, _), (way,) in coded.items() if (image, each) == (number, split))
            for split in {split for image, split, _ in coded if image == number}
        )
        coded |= _modelled(number, source, 8 * smallest, programs, effort)
    return coded


def _splits(source: Source) -> list[Split]:
    """The splits with one layer of bytes for each frame that mixing codes in an acceptable time."""
    found = []
    for split in source.splits:
        layers = source.layers(split)
        if len(layers) == len(source.image.rasters) and layers[0].dtype == np.uint8:
            if all(takes_mixing(layer, is_modelled=False) for layer in layers):
                found.append(split)
    return found


def _best_splits(source: Source, effort: Effort) -> list[Split]:
    """The splits to code: of a large animation, the one that takes the fewest bytes for its first frames."""
    found, sizes = _splits(source), [height * width for height, width in source.image.skeleton.sizes]
    enough = max(_TRIAL_PIXELS, _TRIAL_PART * sum(sizes))
    count = max(2, 1 + sum(before < enough for before in itertools.accumulate(sizes)))
    if len(found) == 1 or count >= len(sizes) or effort == Effort.BEST:
        return found

    def estimate(split: Split) -> float:
        parts = _places(0, source, split)[:count]
        trial_bytes = sum(way.bytes for way in _by_canvas(parts).values())
        return trial_bytes * sum(sizes) / sum(sizes[:count]) + len(source.views[split.values].code)

    return [min(found, key=estimate)]


def _places(number: int, source: Source, split: Split) -> list[tuple[Place, np.ndarray, Spot]]:
    """The layers of an image, with their places and their spots."""
    layers, spots = source.layers(split), source.spots(split, number)
    return [((number, split, layer), pixels, spot) for layer, (pixels, spot) in enumerate(zip(layers, spots))]


def _by_canvas(parts: Sequence[tuple[Place, np.ndarray, Spot]]) -> dict[Place, CodedLayer]:
    """Layers of one number of channels, together by the method animation."""
    payload = table.encode(Method.ANIMATION, [pixels for _, pixels, _ in parts], spots=[spot for _, _, spot in parts])
    return {
        place: CodedLayer(Layer(Method.ANIMATION), payload.data, size, together=len(parts))
        for (place, _, _), size in zip(parts, payload.sizes)
    }


def _modelled(
    number: int, source: Source, bits: float, programs: Sequence[Program], effort: Effort
) -> dict[Place, list[CodedLayer]]:
    """The layers of an image by a model, and its alphas by the method animation; nothing if this is not smaller.

    It is tried only if a sample shows that it may be smaller. bits: of the image by the method animation alone.
    """
    found = list(layers_for_models(source, number))
    if not found or (bits < _MODEL_BITS * source.dims and effort != Effort.BEST):
        return {}
    split, layers = found[0].split, [each.pixels for each in found]
    fitting = [program for program in programs if program.bits == found[0].bits]
    program = trial.best_program(layers, fitting, effort)
    if program is None:
        return {}
    parts = list(sample(layers))
    expected = program.code_length(parts) * sum(pixels.size for pixels in layers) / sum(part.size for part in parts)
    if expected > bits:
        return {}
    ways = dict(zip([each.place for each in found], by_model(layers, [program], effort)))
    rest = [part for part in _places(number, source, split) if part[0] not in ways]
    if not all(ways.values()) or len({pixels.shape[2] for _, pixels, _ in rest}) > 1:
        return {}
    coded = {place: [min(each, key=lambda way: way.cost)] for place, each in ways.items()}
    coded |= {place: [way] for place, way in (_by_canvas(rest) if rest else {}).items()}
    return coded if 8 * sum(way.cost for (way,) in coded.values()) < bits else {}
