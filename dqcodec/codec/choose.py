"""Find the smallest way to code the images of a group.

1. candidates.py and animation.py code similar layers of all images together, by several methods.
2. `_usual`: similar layers take the same way, because layers that are coded together help each other. A layer
   that is much smaller another way takes that.
3. `_quick`: for each image and split, each layer takes its smallest way. WebP codes each layer alone; it is tried if
   there is no other way. `_thorough` tries it also if the image is alone.
4. `_chosen`: similar images take the same split, for the same reason, or keep the PNG file if that is smaller.

Sizes are those of the trials. group.py then codes the layers that are still together.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.codec.animation import code_animations, has_canvas
from dqcodec.codec.candidates import code_together
from dqcodec.codec.effort import Effort
from dqcodec.codec.ways import CodedLayer, by_webp
from dqcodec.format.container import CHECKSUM_BYTES, frame_bytes
from dqcodec.format.head import Entry
from dqcodec.format.layer import Method
from dqcodec.format.split import Split, skeleton
from dqcodec.methods import classical, table

if TYPE_CHECKING:
    from dqcodec.codec.image_layers import Place
    from dqcodec.codec.source import Source
    from dqcodec.exact.program import Program

_THOROUGH_GAIN = 0.9  # WebP's thorough search takes at least this part of the bytes of the quick one, nearly always
# An image leaves the usual method or split only if its own takes less than this part of the bytes.
_LONER_GAIN = 0.85


@dataclass(frozen=True)
class Choice:
    """A way to code an image.

    coded: its layers, in order; empty for a stored image. stored: the PNG file of a stored image. candidates: method ->
    bytes of the .dqc file by that method, largest first.
    """

    entry: Entry
    coded: tuple[CodedLayer, ...] = ()
    stored: bytes = b""
    candidates: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @cached_property
    def size(self) -> float:
        """Bytes in the group, if the layers that were coded together stay together."""
        if self.entry.skeleton is None:
            return 1 + len(self.stored)
        return len(self.entry.head()) + CHECKSUM_BYTES + sum(each.bytes for each in self.coded)


def choose(sources: Sequence[Source], programs: Sequence[Program], effort: Effort) -> list[Choice]:
    """The choice for each image of a group, by any method and any of `programs`.

    Raises LatentOverflow, StackUnderflow: some layers of a lone image left the flow, and it cannot code the rest.
    """
    animations = {number: source for number, source in enumerate(sources) if has_canvas(source)}
    others = {number: source for number, source in enumerate(sources) if number not in animations}
    tried = code_together(others, programs, effort) | code_animations(animations, programs, effort)
    ways, choices = _usual(sources, tried), []
    for number, source in enumerate(sources):
        together = list(dict.fromkeys(split for image, split, _ in ways if image == number))
        if number in animations:  # it has no other ways
            found = _quick(number, source, together, ways)
        else:
            splits = [split for split in source.splits if not _is_needless(split, together)]
            found = (_thorough if len(sources) == 1 else _quick)(number, source, splits, ways)
        choices.append([*found, Choice(Entry(), stored=source.stored)])
    return _chosen(sources, choices)


def _choice(source: Source, split: Split, coded: Sequence[CodedLayer]) -> Choice:
    """The way to code an image by its layers in a split."""
    layers, count = tuple(each.layer for each in coded), len(coded) // len(source.image.rasters)
    rasters = tuple(layers[start : start + count] for start in range(0, len(layers), count))
    values = source.views[split.values].code
    return Choice(Entry(skeleton(source.image, split), split, rasters, source.recipe, values=values), tuple(coded))


def _quick(
    number: int, source: Source, splits: Sequence[Split], ways: Mapping[Place, Sequence[CodedLayer]]
) -> list[Choice]:
    """A way to code image `number` for each split. ways: how each layer can be coded together with others."""
    return [
        _choice(
            source,
            split,
            [
                _smallest(ways.get((number, split, layer), ()), pixels)
                for layer, pixels in enumerate(source.layers(split))
            ],
        )
        for split in splits
    ]


def _thorough(
    number: int, source: Source, splits: Sequence[Split], ways: Mapping[Place, Sequence[CodedLayer]]
) -> list[Choice]:
    """The ways of `_quick` and more: the best splits also with WebP for each layer, and all layers by one method."""
    quick = _quick(number, source, splits, ways)
    refined: list[Choice] = []
    for each in sorted(quick, key=lambda each: each.size):
        if not refined or each.size < min(other.size for other in refined) / _THOROUGH_GAIN:
            arrays = source.layers(each.entry.split)
            coded = _coded_anew(list(map(_or_webp, each.coded, arrays)), arrays)
            refined.append(_choice(source, each.entry.split, coded))
    if refined:
        best = min(refined, key=lambda each: each.size)
        slowest = list(map(_refined, best.coded, source.layers(best.entry.split)))
        refined.append(_choice(source, best.entry.split, slowest))
    of_one_method = [
        _choice(source, each.entry.split, coded)
        for each in quick
        for coded in _by_one_method(
            [ways.get((number, each.entry.split, layer), ()) for layer in range(len(each.coded))]
        )
    ]
    return [*(each for each in [*quick, *of_one_method] if not _left_behind(each.coded)), *refined]


def _is_needless(split: Split, tried: Collection[Split]) -> bool:
    """Whether a split sets alpha apart for WebP alone, which gains nothing by it."""
    return split.alpha and split not in tried and dataclasses.replace(split, alpha=False) in tried


def _smallest(ways: Sequence[CodedLayer], pixels: np.ndarray) -> CodedLayer:
    """The smallest of the ways to code a layer (H, W, C); WebP, searched quickly, if there is none."""
    return min(ways, key=lambda coded: coded.cost) if ways else by_webp(pixels, classical.QUICK)


def _by_one_method(ways: Sequence[Sequence[CodedLayer]]) -> Iterator[list[CodedLayer]]:
    """The layers of an image, all by the same method, for each method that codes all. ways: to code each layer."""
    by_method = [{coded.layer: coded for coded in each} for each in ways]
    for method in by_method[0]:
        if all(method in each for each in by_method):
            yield [each[method] for each in by_method]


def _or_webp(best: CodedLayer, pixels: np.ndarray) -> CodedLayer:
    """The smaller of the `_smallest` way to code a layer (H, W, C) and WebP, if its samples are bytes.

    WebP is first searched quickly, and thoroughly only if that may win.
    """
    if pixels.dtype != np.uint8:
        return best
    estimate = best if best.layer.method == Method.CLASSICAL else by_webp(pixels, classical.QUICK)
    best = min(best, estimate, key=lambda coded: coded.cost)
    if _THOROUGH_GAIN * estimate.bytes < best.cost:
        return min(best, by_webp(pixels, classical.THOROUGH), key=lambda coded: coded.cost)
    return best


def _refined(coded: CodedLayer, pixels: np.ndarray) -> CodedLayer:
    """A layer of the best choice, with WebP's slowest search if WebP codes it."""
    if coded.layer.method != Method.CLASSICAL:
        return coded
    return min(coded, by_webp(pixels, classical.SLOWEST), key=lambda each: each.cost)


def _left_behind(coded: Sequence[CodedLayer]) -> list[list[int]]:
    """The layers that stay in each common payload that other layers of the image left. Their
    bytes are then no longer right.
    """
    common = dict.fromkeys(each.payload for each in coded if each.together > 1)
    stayed = [[layer for layer, each in enumerate(coded) if each.payload == payload] for payload in common]
    return [layers for layers in stayed if len(layers) < coded[layers[0]].together]


def _coded_anew(coded: Sequence[CodedLayer], arrays: Sequence[np.ndarray]) -> list[CodedLayer]:
    """The layers of an image; those of a common payload that others left are coded anew."""
    coded = list(coded)
    for stayed in _left_behind(coded):
        first = coded[stayed[0]]
        new = table.encode(first.layer.method, [arrays[layer] for layer in stayed], first.program)
        scale = len(new.data) / sum(coded[layer].bytes for layer in stayed)
        for layer in stayed:
            coded[layer] = dataclasses.replace(
                coded[layer],
                payload=new.data,
                bytes=coded[layer].bytes * scale,
                report=new.report,
                together=len(stayed),
            )
    return coded


def _usual(sources: Sequence[Source], tried: Mapping[Place, Sequence[CodedLayer]]) -> dict[Place, list[CodedLayer]]:
    """For each layer the way that takes the fewest bytes for all similar layers, and ways that are much smaller for it.

    Each way was tried with all layers together. Its size is right only if most of these layers take it.
    """
    kinds, totals = {}, defaultdict(float)
    for place, ways in tried.items():
        number, split, layer = place
        view = sources[number].view(split)
        kinds[place] = view.header[2:], split, layer % len(split.names(view.skeleton))
        for coded in ways if len(ways) > 1 else ():
            totals[kinds[place], coded.layer] += coded.cost
    kept = {}
    for place, ways in tried.items():
        usual = min(ways, key=lambda coded: totals[kinds[place], coded.layer])
        kept[place] = [coded for coded in ways if coded is usual or coded.cost < _LONER_GAIN * usual.cost]
    return kept


def _chosen(sources: Sequence[Source], choices: Sequence[Sequence[Choice]]) -> list[Choice]:
    """One of the choices of each image; the last choice stores it.

    Images of one colour type and bit depth, with the same splits to choose from, take the split that takes the fewest
    bytes for all of them, unless another is much smaller for the image.
    """
    best = [_best_of_splits(each[:-1]) for each in choices]
    kinds = [(source.image.header[2:], frozenset(of_splits)) for source, of_splits in zip(sources, best)]
    totals: defaultdict[tuple, float] = defaultdict(float)
    for kind, of_splits in zip(kinds, best):
        for split, choice in of_splits.items():
            totals[kind, split] += choice.size
    chosen = []
    for kind, of_splits, every in zip(kinds, best, choices):
        way = stored = every[-1]
        if of_splits:
            usual = min(of_splits.values(), key=lambda choice: totals[kind, choice.entry.split])
            own = min(of_splits.values(), key=lambda choice: choice.size)
            way = own if own.size < _LONER_GAIN * usual.size else usual
        smallest = min(way, stored, key=lambda choice: choice.size)
        chosen.append(dataclasses.replace(smallest, candidates=_candidates(every)))
    return chosen


def _candidates(choices: Sequence[Choice]) -> dict[str, int]:
    """Method -> bytes of the .dqc file by its smallest choice, largest first."""
    sizes = [(choice.entry.method, round(choice.size) + frame_bytes(choice.entry)) for choice in choices]
    return dict(sorted(sizes, key=lambda item: -item[1]))


def _best_of_splits(choices: Sequence[Choice]) -> dict[Split, Choice]:
    """Split -> its smallest choice."""
    best: dict[Split, Choice] = {}
    for choice in choices:
        other = best.setdefault(choice.entry.split, choice)
        best[choice.entry.split] = min(other, choice, key=lambda choice: choice.size)
    return best
