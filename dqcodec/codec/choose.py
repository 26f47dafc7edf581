"""How the images of a group are coded: tries every split into layers and every method, and keeps the smallest."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dqcodec.format.container import CHECKSUM_BYTES, FRAME_BYTES, Entry
from dqcodec.format.split import Split, candidates, for_models, skeleton
from dqcodec.methods import select

if TYPE_CHECKING:
    import numpy as np

    from dqcodec.codec.source import Source
    from dqcodec.exact.program import Program
    from dqcodec.methods.select import Coded

    Place = tuple[int, Split, int]  # of a layer: its image's number, the split that makes it, its number

# A thorough code is at most this much smaller than a quick one, on photographs; where that could not beat what there is,
# seconds of work are saved.
_THOROUGH_GAIN = 0.95
# An image must be so much smaller by another method or split than by that of most images to leave their company.
_LONER_GAIN = 0.85


@dataclass(frozen=True)
class Choice:
    """How an image is coded. size: what it takes, bytes, if others are coded as was tried; candidates: the same, of the best
    choice by each method."""

    entry: Entry
    coded: tuple[Coded, ...] = ()
    stored: bytes = b""
    candidates: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @cached_property
    def size(self) -> float:
        if self.entry.skeleton is None:
            return 1 + len(self.stored)
        return len(self.entry.head()) + CHECKSUM_BYTES + sum(each.bytes for each in self.coded)


def choose(sources: Sequence[Source], programs: Sequence[Program], *, best: bool, particles: int) -> list[Choice]:
    """How each image of a group is coded smallest, by any method and the best-suited of `programs`.

    best, particles: see codec.compress. Raises LatentOverflow, StackUnderflow: what stays with a flow once others have left
    it, the flow cannot code.
    """
    by_model = _by_model(sources, programs, best, particles)
    modelled = {number for number, _, _ in by_model}
    by_mixing = _by_mixing(sources, modelled, _photographs(sources, by_model, best), best)
    tried = {place: by_model.get(place, []) + by_mixing.get(place, []) for place in by_model | by_mixing}
    tried, is_lone = _usual(sources, tried), len(sources) == 1
    found = [_choices(number, source, tried, thorough=is_lone) for number, source in enumerate(sources)]
    return _for_each(sources, found)


def _by_model(
    sources: Sequence[Source], programs: Sequence[Program], best: bool, particles: int
) -> dict[Place, list[Coded]]:
    """The layers for models that one takes, together those whose samples have as many bits."""
    if not programs:
        return {}
    of_bits: dict[int, dict[Place, np.ndarray]] = {}
    for number, source in enumerate(sources):
        split = for_models(source.image) if source.is_expressible else None
        if split:
            hopes = itertools.cycle(split.modelled(source.image.skeleton))
            of_bits.setdefault(min(8, source.image.header.bit_depth), {}).update(
                ((number, split, layer), pixels)
                for layer, (pixels, is_hopeful) in enumerate(zip(source.layers(split), hopes))
                if is_hopeful and select.takes_model(pixels)
            )
    coded = {}
    for bits, places in of_bits.items():
        fitting = [program for program in programs if program.bits == bits]
        coded |= _of_channels(places, lambda arrays: select.by_model(arrays, fitting, best=best, particles=particles))
    return coded


def _photographs(sources: Sequence[Source], by_model: Mapping[Place, Sequence[Coded]], best: bool) -> set[int]:
    """The images whose colours, or grays, mixing would take, but a model codes so well that it need not be tried.

    Those of fewer than 8 bits, which are mixed fast, are none.
    """
    images: dict[Program, dict[int, np.ndarray]] = {}
    for (number, split, layer), (coded, *_) in by_model.items():
        if layer == 0 and sources[number].image.header.bit_depth >= 8:
            pixels = sources[number].layers(split)[0]
            if best or select.takes_mixing(pixels, is_modelled=True):
                images.setdefault(coded.program, {})[number] = pixels
    return {
        number
        for program, alike in images.items()
        if select.mixes_badly(list(alike.values()), program)
        for number in alike
    }


def _by_mixing(
    sources: Sequence[Source], modelled: set[int], photographs: set[int], best: bool
) -> dict[Place, list[Coded]]:
    """The layers that mixing takes: all of the images that have as many channels, by the same split, together; of
    photographs only alpha. modelled: images that models code; best: however long it takes."""
    splits: dict[Split, dict[Place, np.ndarray]] = {}
    for number, source in enumerate(sources):
        for split in candidates(source.image) if source.is_expressible else ():
            names = itertools.cycle(split.names(source.image.skeleton))
            for layer, (pixels, name) in enumerate(zip(source.layers(split), names)):
                is_alpha = name.startswith("alpha")
                is_modelled = number in modelled and not is_alpha and source.image.header.bit_depth >= 8
                takes = best or select.takes_mixing(pixels, is_modelled=is_modelled)  # few bits are mixed fast
                if takes and (number not in photographs or is_alpha):
                    splits.setdefault(split, {})[number, split, layer] = pixels
    return {
        place: coded for places in splits.values() for place, coded in _of_channels(places, select.by_mixing).items()
    }


def _of_channels(
    places: Mapping[Place, np.ndarray], code: Callable[[Sequence[np.ndarray]], Sequence[list[Coded]]]
) -> dict[Place, list[Coded]]:
    """Code the layers of as many channels together; those that can be."""
    coded = {}
    for channels in {pixels.shape[2] for pixels in places.values()}:
        alike = {place: pixels for place, pixels in places.items() if pixels.shape[2] == channels}
        coded |= {place: each for place, each in zip(alike, code(list(alike.values()))) if each}
    return coded


def _choices(number: int, source: Source, tried: Mapping[Place, Sequence[Coded]], *, thorough: bool) -> list[Choice]:
    """The ways to code an image, which has this number, that may be the smallest; the last is to store it. tried: how
    layers may be coded together with others; `thorough` also takes the time to code each alone."""
    stored = Choice(Entry(), stored=source.stored)
    if not source.is_expressible:
        return [stored]
    image = source.image

    def choice(split: Split, *, quick: bool) -> Choice:
        arrays = source.layers(split)
        coded = [
            _smallest(tried.get((number, split, layer), ()), pixels, quick=quick) for layer, pixels in enumerate(arrays)
        ]
        coded = coded if quick else _without_leavers(coded, arrays)
        rasters = tuple(tuple(part) for part in _cut([each.layer for each in coded], len(coded) // len(image.rasters)))
        return Choice(Entry(skeleton(image, split), split, rasters, source.recipe), tuple(coded))

    choices = [choice(split, quick=True) for split in candidates(image)]
    if thorough:
        best = min(each.size for each in choices)
        choices += [choice(each.entry.split, quick=False) for each in choices if _THOROUGH_GAIN * each.size < best]
    return [*choices, stored]


def _smallest(tried: Sequence[Coded], pixels: np.ndarray, *, quick: bool) -> Coded:
    """The smallest way to code a layer: of those that were tried, and, unless one is there and no time, classically;
    thoroughly, unless that has no hope."""
    if tried and quick:
        return min(tried, key=lambda coded: coded.cost)
    found = [*tried, select.classically(pixels, quick=True)]
    best = min(found, key=lambda coded: coded.cost)
    if not quick and _THOROUGH_GAIN * found[-1].bytes < best.cost:
        return min(best, select.classically(pixels, quick=False), key=lambda coded: coded.cost)
    return best


def _without_leavers(coded: Sequence[Coded], arrays: Sequence[np.ndarray]) -> list[Coded]:
    """The layers of an image as they are once those that were coded together, but chose another way, are gone."""
    coded = list(coded)
    for payload in {each.payload for each in coded if each.together > 1}:
        stayed = [layer for layer, each in enumerate(coded) if each.payload == payload]
        if len(stayed) < coded[stayed[0]].together:
            new, report = select.together([arrays[layer] for layer in stayed], coded[stayed[0]])
            scale = len(new) / sum(coded[layer].bytes for layer in stayed)
            for layer in stayed:
                size = coded[layer].bytes * scale
                coded[layer] = dataclasses.replace(coded[layer], payload=new, bytes=size, report=report, together=len(stayed))
    return coded


def _usual(sources: Sequence[Source], tried: Mapping[Place, Sequence[Coded]]) -> dict[Place, list[Coded]]:
    """Of how layers may be coded together, what suits alike layers of most images, and what suits one much better.

    Everything was tried with all of them: the more go the same way, the truer its size.
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
    """One of the choices for each image, by the same reasoning: most images of a kind are split alike."""
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
