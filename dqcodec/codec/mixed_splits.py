"""Which splits of an image mixing may code smallest. To know it takes much less time than mixing."""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.codec import trial
from dqcodec.codec.sampling import is_small
from dqcodec.codec.splits import SMALL_PIXELS
from dqcodec.codec.ways import CodedLayer, by_webp
from dqcodec.format.split import Split, Step
from dqcodec.methods import classical

if TYPE_CHECKING:
    from dqcodec.codec.image_layers import Place
    from dqcodec.codec.source import Source

_MAX_TABLE_PART = 1 / 3  # of the bytes of an image by WebP: indices whose table takes more do not win
_INDEX_GAIN = 1 / 4  # of the bytes of colours by mixing: indices save less
_DRAWN_PART = 1 / 4  # of the bytes of samples of 16 bits: what takes less is drawn, and experts are no measure of it
_NEAR = 1.15  # times the fewest bytes
_SAMPLE_ERROR = 0.04  # of the bytes that a sample foretells, of alpha beside the colours or of indices


def has_large_table(source: Source, split: Split) -> bool:
    """Whether the table of more than 256 colours takes too many bytes for their indices to win."""
    if split.step != Step.PAIRS or source.image.header.bit_depth == 16:
        return False
    own = sum(by_webp(raster, classical.QUICK).bytes for raster in source.image.rasters)
    return _table_bytes(source, split) > _MAX_TABLE_PART * own


def order(split: Split) -> tuple[bool, bool, bool]:
    """What sorts the splits of an image for may_win: experts first, alpha apart before alpha
    beside the colours, indices last.
    """
    return split.step != Step.WHOLE, split.step == Step.PAIRS, not split.alpha


def may_win(
    source: Source,
    split: Split,
    coded: Mapping[Place, Sequence[CodedLayer]],
    modelled: Mapping[Place, Sequence[CodedLayer]],
) -> bool:
    """Whether a lone image may be smallest in a split.

    coded: its layers of the splits before, see order. modelled: the layers that models code.
    """
    if split.step in (Step.BYTES, Step.RESIDUAL) and not _may_win_as_bytes(source, split, coded):
        return False
    if split.step == Step.WHOLE or split.alpha:
        return True
    if split.step == Step.PAIRS:
        return _may_gain_by_indices(source, split, coded)
    apart, layers = dataclasses.replace(split, alpha=True), source.layers(split)
    ways = [[*each, *modelled.get(place, ())] for place, each in coded.items() if place[1] == apart]
    return len(ways) < 2 * len(layers) or _may_gain_by_alpha(layers, ways)


def _may_win_as_bytes(source: Source, split: Split, coded: Mapping[Place, Sequence[CodedLayer]]) -> bool:
    """Whether mixing may code an image of 16 bits smallest in a split into bytes.

    A sample says it of a large image; of a small one, what the splits before took.
    """
    if source.image.area > SMALL_PIXELS:
        return _is_best_step(source, split)
    sizes: Counter[Split] = Counter()
    for (_, other, _), (way,) in coded.items():
        sizes[other] += way.cost
    return _is_near_best_apart(split, sizes) and _is_near_best_view(source, split, sizes)


def _is_near_best_apart(split: Split, sizes: Mapping[Split, float]) -> bool:
    """Whether a split with alpha apart takes hardly more bytes than others of its kind. With alpha
    beside the colours it then may win, too.
    """
    apart = dataclasses.replace(split, alpha=True)
    of_bytes = [size for other, size in sizes.items() if other.alpha and other.step != Step.WHOLE]
    return split.alpha or apart not in sizes or sizes[apart] <= _NEAR * min(of_bytes)


def _is_near_best_view(source: Source, split: Split, sizes: Mapping[Split, float]) -> bool:
    """Whether experts code the view of a split in hardly more bytes than other views, or
    some view in few. Mixing then may win.
    """
    whole = {other: size for other, size in sizes.items() if other.step == Step.WHOLE}
    if not whole or min(whole.values()) < _DRAWN_PART * 2 * source.dims:
        return True
    whole = {other: size + _table_bytes(source, other) for other, size in whole.items()}
    own = [size for other, size in whole.items() if other.values == split.values]
    return min(own, default=0) <= _NEAR * min(whole.values())


def _is_best_step(source: Source, split: Split) -> bool:
    """Whether a sample of an image takes the fewest bits by mixing if it is split by this step."""
    both = [dataclasses.replace(split, step=step) for step in (Step.BYTES, Step.RESIDUAL)]
    return min(both, key=lambda each: trial.mixing_bits(source.layers(each))) == split


def _may_gain_by_indices(source: Source, split: Split, coded: Mapping[Place, Sequence[CodedLayer]]) -> bool:
    """Whether the table of many colours takes fewer bytes than indices save at most, beside
    the colours that mixing has coded.
    """
    sizes: dict[Split, list[float]] = {}
    for (_, other, _), (way,) in coded.items():
        if other.step == Step.PLAIN:
            sizes.setdefault(other, []).append(way.cost)
    whole = {other: sum(each) for other, each in sizes.items() if len(each) == len(source.layers(other))}
    if not whole:
        return True
    best, table = min(whole, key=whole.__getitem__), _table_bytes(source, split)
    if table >= _INDEX_GAIN * whole[best]:
        return False
    indices, colours = source.layers(split), source.layers(best)
    if is_small(indices):
        return True
    part = trial.mixing_bits(indices) / trial.mixing_bits(colours)
    return table < whole[best] * (1 - part * (1 - _SAMPLE_ERROR))


def _may_gain_by_alpha(layers: Sequence[np.ndarray], apart: Sequence[Sequence[CodedLayer]]) -> bool:
    """Whether mixing may code layers (H, W, 2 or 4) smaller than any way with alpha apart:
    by a sample, unless they are small.

    apart: the ways to code each layer with alpha apart, mixing first.
    """
    mixed, best = sum(ways[0].cost for ways in apart), sum(min(way.cost for way in ways) for ways in apart)
    limit = best / mixed / (1 - _SAMPLE_ERROR)
    return limit >= 1 or is_small(layers) or trial.alpha_ratio(layers) < limit


def _table_bytes(source: Source, split: Split) -> int:
    """About the bytes that the table of a split's view takes."""
    return len(zlib.compress(source.views[split.values].code))
