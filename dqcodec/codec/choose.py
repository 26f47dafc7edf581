"""How the images of a group are coded: the smallest of all splits into layers and all methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dqcodec.codec.candidates import CodedLayer, by_webp, tried
from dqcodec.format.container import CHECKSUM_BYTES, FRAME_BYTES, Entry
from dqcodec.format.split import Split, candidates, skeleton
from dqcodec.methods import table
from dqcodec.methods.payload import Effort

if TYPE_CHECKING:
    import numpy as np

    from dqcodec.codec.candidates import Place
    from dqcodec.codec.source import Source
    from dqcodec.exact.program import Program

# WebP's thorough search takes seconds and gains at most this much over the quick one, on photographs.
_THOROUGH_GAIN = 0.95
# An image leaves the method and split of most images only for a size this much smaller.
_LONER_GAIN = 0.85


@dataclass(frozen=True)
class Choice:
    """How an image is coded. coded: its layers, or stored: its file. candidates: the size of the .dqc file by each method."""

    entry: Entry
    coded: tuple[CodedLayer, ...] = ()
    stored: bytes = b""
    candidates: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @cached_property
    def size(self) -> float:
        """Bytes, if the other images of the group are coded as they were tried."""
        if self.entry.skeleton is None:
            return 1 + len(self.stored)
        return len(self.entry.head()) + CHECKSUM_BYTES + sum(each.bytes for each in self.coded)


def choose(sources: Sequence[Source], programs: Sequence[Program], effort: Effort) -> list[Choice]:
    """How each image of a group is coded smallest, by any method and the best-suited of `programs`.

    Raises LatentOverflow, StackUnderflow: a flow cannot code the layers that stay with it once others have left it.
    """
    found, is_lone = _usual(sources, tried(sources, programs, effort)), len(sources) == 1
    choices = [_choices(number, source, found, effort, thorough=is_lone) for number, source in enumerate(sources)]
    return _for_each(sources, choices)


def _choices(
    number: int, source: Source, found: Mapping[Place, Sequence[CodedLayer]], effort: Effort, *, thorough: bool
) -> list[Choice]:
    """The ways to code image `number` that may be the smallest; the last stores it. found: how layers can be coded together
    with others. thorough: takes the time to code each layer alone too."""
    stored = Choice(Entry(), stored=source.stored)
    if not source.is_expressible:
        return [stored]
    image = source.image

    def choice(split: Split, *, quick: bool) -> Choice:
        arrays = source.layers(split)
        coded = [
            _smallest(found.get((number, split, layer), ()), pixels, quick=quick) for layer, pixels in enumerate(arrays)
        ]
        coded = coded if quick else _without_leavers(coded, arrays, effort)
        rasters = tuple(tuple(part) for part in _cut([each.layer for each in coded], len(coded) // len(image.rasters)))
        return Choice(Entry(skeleton(image, split), split, rasters, source.recipe), tuple(coded))

    choices = [choice(split, quick=True) for split in candidates(image)]
    if thorough:
        best = min(each.size for each in choices)
        choices += [choice(each.entry.split, quick=False) for each in choices if _THOROUGH_GAIN * each.size < best]
    return [*choices, stored]


def _smallest(found: Sequence[CodedLayer], pixels: np.ndarray, *, quick: bool) -> CodedLayer:
    """The smallest way to code a layer: one that is found, or WebP.

    WebP is skipped if time is short and a way is found; its thorough search is skipped if its quick one leaves no hope.
    """
    if found and quick:
        return min(found, key=lambda coded: coded.cost)
    estimate = by_webp(pixels, quick=True)
    best = min([*found, estimate], key=lambda coded: coded.cost)
    if not quick and _THOROUGH_GAIN * estimate.bytes < best.cost:
        return min(best, by_webp(pixels, quick=False), key=lambda coded: coded.cost)
    return best


def _without_leavers(coded: Sequence[CodedLayer], arrays: Sequence[np.ndarray], effort: Effort) -> list[CodedLayer]:
    """The layers of an image; layers that were coded together are coded anew if some of them chose another way."""
    coded = list(coded)
    for payload in {each.payload for each in coded if each.together > 1}:
        stayed = [layer for layer, each in enumerate(coded) if each.payload == payload]
        if len(stayed) < coded[stayed[0]].together:
            first = coded[stayed[0]]
            new = table.encode(first.layer.method, [arrays[layer] for layer in stayed], first.program, effort)
            scale = len(new.data) / sum(coded[layer].bytes for layer in stayed)
            for layer in stayed:
                coded[layer] = dataclasses.replace(
                    coded[layer], payload=new.data, bytes=coded[layer].bytes * scale, report=new.report, together=len(stayed)
                )
    return coded


def _usual(sources: Sequence[Source], tried: Mapping[Place, Sequence[CodedLayer]]) -> dict[Place, list[CodedLayer]]:
    """The way that suits like layers of most images, and a way that suits one layer much better.

    Each way was tried with all layers together: the more of them go the same way, the truer is its size.
    """
    kinds, totals = {}, {}
    for place, found in tried.items():
        number, split, layer = place
        image = sources[number].image
        kinds[place] = image.header[2:], split, layer % len(split.names(image.skeleton))
        for coded in found if len(found) > 1 else ():
            total = totals.setdefault(kinds[place], {})
            total[coded.layer] = total.get(coded.layer, 0) + coded.cost
    kept = {}
    for place, found in tried.items():
        total = totals.get(kinds[place], {})
        usual = min(found, key=lambda coded: total.get(coded.layer, 0))
        kept[place] = [coded for coded in found if coded is usual or coded.cost < _LONER_GAIN * usual.cost]
    return kept


def _for_each(sources: Sequence[Source], choices: Sequence[Sequence[Choice]]) -> list[Choice]:
    """One of the choices for each image. As with methods, most images of a kind are split alike."""
    kinds = [source.image.header[2:] for source in sources]
    best = [_best_of_splits(found[:-1]) for found in choices]
    totals: dict[tuple, dict[Split, float]] = {}
    for kind, of_splits in zip(kinds, best):
        for split, choice in of_splits.items():
            total = totals.setdefault(kind, {})
            total[split] = total.get(split, 0) + choice.size
    chosen = []
    for kind, of_splits, found in zip(kinds, best, choices):
        way = stored = found[-1]
        if of_splits:
            usual = min(of_splits.values(), key=lambda choice: totals[kind][choice.entry.split])
            own = min(of_splits.values(), key=lambda choice: choice.size)
            way = own if own.size < _LONER_GAIN * usual.size else usual
        smallest = min(way, stored, key=lambda choice: choice.size)
        chosen.append(dataclasses.replace(smallest, candidates=_candidates(found)))
    return chosen


def _candidates(choices: Sequence[Choice]) -> dict[str, int]:
    """The size of the .dqc file by the smallest choice of each method, bytes."""
    sizes = sorted(((choice.entry.method, round(choice.size) + FRAME_BYTES) for choice in choices), key=lambda item: -item[1])
    return dict(sizes)


def _best_of_splits(choices: Sequence[Choice]) -> dict[Split, Choice]:
    best: dict[Split, Choice] = {}
    for choice in choices:
        other = best.setdefault(choice.entry.split, choice)
        best[choice.entry.split] = min(other, choice, key=lambda choice: choice.size)
    return best


def _cut(items: Sequence, count: int) -> Iterator[Sequence]:
    return (items[start : start + count] for start in range(0, len(items), count))
