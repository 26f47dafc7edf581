"""Trials for choose.py: layers of all images, coded together by a model, by mixing, by experts or as JPEG.

Layers are (H, W, C) uint8; those for experts may be uint16.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.codec import mixed_splits, suitability, trial
from dqcodec.codec.differences import differing
from dqcodec.codec.effort import Effort
from dqcodec.codec.image_layers import (
    Candidate,
    Place,
    is_drawing,
    is_icon,
    layers_for_models,
    layers_of,
    splits_for_models,
)
from dqcodec.codec.sampling import is_small
from dqcodec.codec.suitability import is_drawn, mixing_samples, repeated_part, takes_experts, takes_mixing
from dqcodec.codec.ways import CodedLayer, by_method, by_model, by_webp
from dqcodec.exact.jpeg import recovery
from dqcodec.format.layer import Method
from dqcodec.format.split import Split, Step
from dqcodec.methods import classical

if TYPE_CHECKING:
    from dqcodec.codec.source import Source
    from dqcodec.exact.program import Program

_DRAWN_BITS = 4  # a drawing takes fewer for each pixel that differs from a neighbour; photographs take more
# a model that takes this many times mixing's bits on a sample does not win, even if the image is no usual drawing
_SURELY_SMALLER = 1.5
_HELPED = 1.3  # the same where mixing may help the model, and the drawing is usual
# Mixing gains more on whole layers than on a sample: at most this part of its bits where pixels repeat
_REPEAT_GAIN = 0.5
_LEAST_DRAWN = 1 << 10  # pixels; a sample of fewer says little
_JPEG_PART = 0.5  # the coefficients of a JPEG file take less than this part of WebP's bytes; other methods take more


def code_together(
    sources: Mapping[int, Source], programs: Sequence[Program], effort: Effort
) -> dict[Place, list[CodedLayer]]:
    """Code similar layers of all images together: by a model, by mixing, by experts, as JPEG, or by several of these.

    sources: the images by their numbers. Returns the ways that were tried for each layer. A layer that would take too
    long, or that no method suits, has no entry.
    """
    icons = {number for number, source in sources.items() if is_icon(source, programs, effort)}
    from_jpeg = _jpeg(_without(sources, icons))
    settled = {
        number for (number, split, _), (way,) in from_jpeg.items() if _is_whole(sources[number].layers(split), way)
    }
    sources = _without(sources, settled)
    others = _without(sources, icons)
    are_drawings = all(map(is_drawing, others.values()))
    mixed = _mixed(sources, icons, {}, set(), effort) if are_drawings else _drawn(others, effort)
    settled_layers = _far_smaller(others, programs, effort, mixed)
    modelled = _modelled(others, programs, effort, settled_layers)
    if not are_drawings:
        photographs = _photographs(sources, modelled, effort)
        mixed = _mixed(sources, icons, modelled, photographs, effort, mixed)
    tried = modelled, mixed, _expert(others, modelled, effort, settled_layers), from_jpeg
    places = dict.fromkeys(place for ways in tried for place in ways)
    return {place: [way for ways in tried for way in ways.get(place, [])] for place in places}


def _jpeg(sources: Mapping[int, Source]) -> dict[Place, list[CodedLayer]]:
    """The layers that a JPEG decoder may have made, by the coefficients of the JPEG files. No decoder makes alpha."""
    places = {
        each.place: each.pixels
        for number, source in sources.items()
        for each in layers_for_models(source, number)
        if each.depth == 8 and not each.is_alpha and recovery.may_be_decoded(each.pixels)
    }
    return _by_method(places, Method.JPEG)


def _is_whole(layers: Sequence[np.ndarray], coded: CodedLayer) -> bool:
    """Whether the coefficients of a JPEG file give a whole image in so few bytes that nothing else is tried."""
    return len(layers) == 1 and coded.bytes < _JPEG_PART * by_webp(layers[0], classical.QUICK).bytes


def _modelled(
    sources: Mapping[int, Source],
    programs: Sequence[Program],
    effort: Effort,
    settled: Collection[Place],
) -> dict[Place, list[CodedLayer]]:
    """The layers that a model codes, except those that are settled.

    Layers with the same bits per sample and the same number of channels are coded together; those of a
    lone image only if they are of one split.
    """
    if not programs:
        return {}
    together: defaultdict[tuple[int, Split | None], dict[Place, np.ndarray]] = defaultdict(dict)
    for each in _for_models(sources):
        if each.place not in settled:
            together[each.bits, each.split if len(sources) == 1 else None][each.place] = each.pixels
    coded = {}
    for (bits, _), places in together.items():
        fitting = [program for program in programs if program.bits == bits]
        coded |= _by_channels(places, lambda layers: by_model(layers, fitting, effort))
    return coded


def _far_smaller(
    sources: Mapping[int, Source],
    programs: Sequence[Program],
    effort: Effort,
    mixed: Mapping[Place, Sequence[CodedLayer]],
) -> set[Place]:
    """The layers of drawings, colours or alpha, that mixing has coded in so few bits that nothing else is tried."""
    found: set[Place] = set()
    if not mixed or effort == Effort.BEST:
        return found
    for each in _for_models(sources):
        fitting = [program for program in programs if program.bits == each.bits]
        if fitting and each.place in mixed:
            added = 8 * _added_bytes(each.place, mixed, found)
            is_usual = each.pixels.shape[2] == 3 and added <= _DRAWN_BITS * differing(each.pixels).sum()
            is_helped = each.pixels.size <= suitability.MAX_RIVAL_SAMPLES  # by mixing
            limit = (_SURELY_SMALLER if not is_usual else _HELPED if is_helped else 1) * added
            if limit < trial.drawing_bits(each.pixels, fitting, effort):
                found.add(each.place)
    return found


def _drawn(sources: Mapping[int, Source], effort: Effort) -> dict[Place, list[CodedLayer]]:
    """The drawn layers of a lone image that models may code, by mixing, which may be so small that no model is tried.

    Layers with the same number of channels are coded together, so all of them must be drawn.
    """
    coded: dict[Place, list[CodedLayer]] = {}
    if len(sources) > 1 or effort == Effort.BEST:
        return coded
    for number, source in sources.items():
        for split in splits_for_models(source, every=True):
            layers = [each for each in layers_of(source, [split], number) if each.depth == 8]
            undrawn = {each.pixels.shape[2] for each in layers if not _is_quickly_mixed(each.pixels)}
            drawn = {each.place: each.pixels for each in layers if each.pixels.shape[2] not in undrawn}
            coded |= _by_method(drawn, Method.TRAINED_MIXING)
    return coded


def _is_quickly_mixed(pixels: np.ndarray) -> bool:
    """Whether a layer is drawn, not tiny, and mixed in an acceptable time."""
    return pixels[..., 0].size >= _LEAST_DRAWN and is_drawn(pixels) and takes_mixing(pixels, is_modelled=True)


def _added_bytes(place: Place, mixed: Mapping[Place, Sequence[CodedLayer]], settled: Collection[Place]) -> float:
    """The bytes that a layer adds by mixing. Alpha of settled colours may lie apart or
    beside them; the smaller number counts.
    """
    number, split, layer = place
    colours, beside = (number, split, layer - 1), (number, dataclasses.replace(split, alpha=False), layer // 2)
    (own,) = mixed[place]
    if not split.alpha or colours not in settled or beside not in mixed:
        return own.bytes
    return min(own.bytes, mixed[beside][0].bytes - mixed[colours][0].bytes)


def _mixed(
    sources: Mapping[int, Source],
    icons: set[int],
    modelled: Mapping[Place, Sequence[CodedLayer]],
    photographs: set[int],
    effort: Effort,
    drawn: Mapping[Place, list[CodedLayer]] = MappingProxyType({}),
) -> dict[Place, list[CodedLayer]]:
    """The layers that mixing codes, and those of 16 bits, which experts code.

    Layers with the same split and number of channels are coded together. Those of a lone image are only coded if their
    split may win.

    Args:
        icons: numbers of the images whose alpha stays beside the colours.
        modelled: the layers that models code.
        photographs: numbers of the images of which only alpha is mixed.
        drawn: layers that mixing has coded already.
    """
    with_models = {number for number, _, _ in modelled}
    layers: dict[Split, dict[Place, np.ndarray]] = {}
    for number, source in sources.items():
        splits = [split for split in source.splits if not (split.alpha and number in icons)]
        splits = [split for split in splits if not mixed_splits.has_large_table(source, split)]
        every = layers_of(source, splits, number)
        for each in _to_mix(every, effort, has_model=number in with_models, is_photograph=number in photographs):
            if each.place not in drawn:
                layers.setdefault(each.split, {})[each.place] = each.pixels
    coded = dict(drawn)
    for split in sorted(layers, key=mixed_splits.order):
        if len(sources) > 1 or mixed_splits.may_win(*sources.values(), split, coded, modelled):
            method = Method.EXPERTS if split.step == Step.WHOLE else Method.TRAINED_MIXING
            coded |= _by_method(layers[split], method)
    return coded


def _to_mix(
    layers: Iterable[Candidate], effort: Effort, *, has_model: bool, is_photograph: bool
) -> Iterator[Candidate]:
    """Of the layers of an image, those that mixing codes in an acceptable time, and those of
    16 bits, which experts code.

    has_model: whether models code the image. is_photograph: whether only its alpha is mixed.
    """
    spent: Counter[int] = Counter()  # samples of all views that are mixed, by the number of the layer
    for each in layers:
        layer = each.place[2]
        if each.split.step == Step.WHOLE:
            yield each
        elif each.is_alpha or not is_photograph:
            is_modelled = has_model and not each.is_alpha and each.depth >= 8  # mixing is fast below 8 bits
            samples = spent[layer] + mixing_samples(each.pixels)
            is_quick = samples <= suitability.MAX_MIXING_SAMPLES and takes_mixing(each.pixels, is_modelled=is_modelled)
            if effort == Effort.BEST or is_quick:
                spent[layer] = samples
                yield each


def _photographs(
    sources: Mapping[int, Source], modelled: Mapping[Place, Sequence[CodedLayer]], effort: Effort
) -> set[int]:
    """The numbers of images whose first layer (colour or gray) a model codes much smaller than mixing, by a sample.

    Images of fewer than 8 bits are not tested, because mixing them is fast; drawings are not, because a sample of a
    drawing says little.
    """
    images: dict[Program, dict[int, np.ndarray]] = {}
    for (number, split, layer), (coded, *_) in modelled.items():
        if layer == 0 and sources[number].view(split).header.bit_depth >= 8:
            pixels = sources[number].layers(split)[0]
            if (effort == Effort.BEST or takes_mixing(pixels, is_modelled=True)) and not is_drawn(pixels):
                images.setdefault(coded.program, {})[number] = pixels
    return {
        number
        for program, alike in images.items()
        if _loses_by_mixing(list(alike.values()), program)
        for number in alike
    }


def _loses_by_mixing(layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether mixing surely takes more bits than a program, by a sample of layers that are not small."""
    limit = 1 + _REPEAT_GAIN * repeated_part(layers)
    return not is_small(layers) and trial.bits_ratio(Method.TRAINED_MIXING, layers, program) > limit


def _expert(
    sources: Mapping[int, Source],
    modelled: Mapping[Place, Sequence[CodedLayer]],
    effort: Effort,
    settled: Collection[Place],
) -> dict[Place, list[CodedLayer]]:
    """The layers of 8 bits that experts code: small gray ones; with the effort BEST, all that may suit a model.

    Layers are left out if they are settled, or if a sample of them shows that their model is much smaller.
    """
    of_programs: defaultdict[tuple[Program | None, Split | None], dict[Place, np.ndarray]] = defaultdict(dict)
    is_lone = len(sources) == 1
    for number, source in sources.items():
        for each in layers_of(source, splits_for_models(source, every=is_lone), number):
            if each.depth == 8 and each.place not in settled and takes_experts(each.pixels, effort):
                program = modelled[each.place][0].program if each.place in modelled else None
                of_programs[program, each.split if is_lone else None][each.place] = each.pixels
    together: defaultdict[Split | None, dict[Place, np.ndarray]] = defaultdict(dict)
    for (program, split), alike in of_programs.items():
        if program is None or trial.may_win(Method.EXPERTS, list(alike.values()), program):
            together[split] |= alike
    coded = {}
    for places in together.values():
        coded |= _by_method(places, Method.EXPERTS)
    return coded


def _for_models(sources: Mapping[int, Source]) -> Iterator[Candidate]:
    """The layers of all images that models may code; of a lone image also those of its own
    samples, see splits_for_models.
    """
    for number, source in sources.items():
        yield from layers_for_models(source, number, every=len(sources) == 1)


def _by_method(places: Mapping[Place, np.ndarray], method: Method) -> dict[Place, list[CodedLayer]]:
    """Code layers by a method without a model, those of each number of channels together."""
    return _by_channels(places, lambda layers: by_method(layers, method))


def _by_channels(
    places: Mapping[Place, np.ndarray], code: Callable[[Sequence[np.ndarray]], Sequence[list[CodedLayer]]]
) -> dict[Place, list[CodedLayer]]:
    """Call `code` with all layers of each number of channels. Layers without a way are left out of the result."""
    coded = {}
    for channels in {pixels.shape[2] for pixels in places.values()}:
        alike = {place: pixels for place, pixels in places.items() if pixels.shape[2] == channels}
        coded |= {place: each for place, each in zip(alike, code(list(alike.values()))) if each}
    return coded


def _without(sources: Mapping[int, Source], numbers: set[int]) -> dict[int, Source]:
    return {number: source for number, source in sources.items() if number not in numbers}
