"""Trials for choose.py: layers of all images, coded together by a model, by mixing, by experts or as JPEG.

Layers are (H, W, C) uint8; those for experts may be uint16.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.codec import mixed_splits, suitability, trial
from dqcodec.codec.differences import differing
from dqcodec.codec.effort import Effort
from dqcodec.codec.image_layers import Place, is_alpha, is_drawing, is_icon, layers_for_models, splits_for_models
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
        (number, split, layer): pixels
        for number, source in sources.items()
        for bits, split, layer, pixels in layers_for_models(source)
        if bits == 8
        and source.view(split).header.bit_depth == 8
        and not is_alpha(source, split, layer)
        and recovery.may_be_decoded(pixels)
    }
    return _by_channels(places, functools.partial(by_method, method=Method.JPEG))


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

    Layers with the same bits per sample and the same number of channels are coded together; those of a lone image only if
    they are of one split.
    """
    if not programs:
        return {}
    together: dict[tuple[int, Split | None], dict[Place, np.ndarray]] = {}
    is_lone = len(sources) == 1
    for number, source in sources.items():
        for bits, split, layer, pixels in layers_for_models(source, every=is_lone):
            if (number, split, layer) not in settled:
                together.setdefault((bits, split if is_lone else None), {})[number, split, layer] = pixels
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
    if not mixed or effort.best:
        return found
    for number, source in sources.items():
        for bits, split, layer, pixels in layers_for_models(source, every=len(sources) == 1):
            place = number, split, layer
            if place in mixed:
                added = 8 * _added_bytes(place, mixed, found)
                is_usual = pixels.shape[2] == 3 and added <= _DRAWN_BITS * differing(pixels).sum()
                fitting = [program for program in programs if program.bits == bits]
                is_helped = pixels.size <= suitability.MAX_RIVAL_SAMPLES  # by mixing
                limit = (_SURELY_SMALLER if not is_usual else _HELPED if is_helped else 1) * added
                if fitting and limit < trial.drawing_bits(pixels, fitting, effort):
                    found.add(place)
    return found


def _drawn(sources: Mapping[int, Source], effort: Effort) -> dict[Place, list[CodedLayer]]:
    """The drawn layers of a lone image that models may code, by mixing, which may be so small that no model is tried.

    Layers with the same number of channels are coded together, so all of them must be drawn.
    """
    coded: dict[Place, list[CodedLayer]] = {}
    if len(sources) > 1 or effort.best:
        return coded
    for number, source in sources.items():
        for split in splits_for_models(source, every=True):
            if source.view(split).header.bit_depth == 8:
                layers = source.layers(split)
                undrawn = {pixels.shape[2] for pixels in layers if not _is_quickly_mixed(pixels)}
                places = {(number, split, layer): pixels for layer, pixels in enumerate(layers)}
                drawn = {place: pixels for place, pixels in places.items() if pixels.shape[2] not in undrawn}
                coded |= _by_channels(drawn, functools.partial(by_method, method=Method.TRAINED_MIXING))
    return coded


def _is_quickly_mixed(pixels: np.ndarray) -> bool:
    """Whether a layer is drawn, not tiny, and mixed in an acceptable time."""
    return pixels[..., 0].size >= _LEAST_DRAWN and is_drawn(pixels) and takes_mixing(pixels, is_modelled=True)


def _added_bytes(place: Place, mixed: Mapping[Place, Sequence[CodedLayer]], settled: Collection[Place]) -> float:
    """The bytes that a layer adds by mixing. Alpha of settled colours may lie apart or beside them; the smaller number counts."""
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
    splits: dict[Split, dict[Place, np.ndarray]] = {}
    with_models = {number for number, _, _ in modelled}
    for number, source in sources.items():
        spent: Counter[int] = Counter()
        for split in source.splits:
            if (split.alpha and number in icons) or mixed_splits.has_large_table(source, split):
                continue
            is_deep = source.view(split).header.bit_depth >= 8  # mixing is fast below 8 bits
            for layer, pixels in enumerate(source.layers(split)):
                of_alpha = is_alpha(source, split, layer)
                is_modelled = number in with_models and not of_alpha and is_deep
                samples = spent[layer] + mixing_samples(pixels)  # of all views that are mixed
                is_quick = samples <= suitability.MAX_MIXING_SAMPLES and takes_mixing(pixels, is_modelled=is_modelled)
                is_mixed = (effort.best or is_quick) and (number not in photographs or of_alpha)
                if split.step == Step.WHOLE:
                    splits.setdefault(split, {})[number, split, layer] = pixels
                elif is_mixed:
                    spent[layer] = samples
                    if (number, split, layer) not in drawn:
                        splits.setdefault(split, {})[number, split, layer] = pixels
    coded = dict(drawn)
    for split in sorted(splits, key=mixed_splits.order):
        if len(sources) > 1 or mixed_splits.may_win(*sources.values(), split, coded, modelled):
            method = Method.EXPERTS if split.step == Step.WHOLE else Method.TRAINED_MIXING
            coded |= _by_channels(splits[split], functools.partial(by_method, method=method))
    return coded


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
            if (effort.best or takes_mixing(pixels, is_modelled=True)) and not is_drawn(pixels):
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
    return not trial.is_small(layers) and trial.beside_model(Method.TRAINED_MIXING, layers, program) > limit


def _expert(
    sources: Mapping[int, Source],
    modelled: Mapping[Place, Sequence[CodedLayer]],
    effort: Effort,
    settled: Collection[Place],
) -> dict[Place, list[CodedLayer]]:
    """The layers of 8 bits that experts code: small gray ones; with effort.best, all that may suit a model.

    Layers are left out if they are settled, or if a sample of them shows that their model is much smaller.
    """
    of_programs: dict[tuple[Program | None, Split | None], dict[Place, np.ndarray]] = {}
    is_lone = len(sources) == 1
    for number, source in sources.items():
        for split in splits_for_models(source, every=is_lone):
            if source.view(split).header.bit_depth != 8:
                continue
            for layer, pixels in enumerate(source.layers(split)):
                place = number, split, layer
                if place not in settled and takes_experts(pixels, effort):
                    program = modelled[place][0].program if place in modelled else None
                    of_programs.setdefault((program, split if is_lone else None), {})[place] = pixels
    together: dict[Split | None, dict[Place, np.ndarray]] = {}
    for (program, split), alike in of_programs.items():
        if program is None or trial.may_win(Method.EXPERTS, list(alike.values()), program):
            together[split] = together.get(split, {}) | alike
    code = functools.partial(by_method, method=Method.EXPERTS)
    return {place: ways for places in together.values() for place, ways in _by_channels(places, code).items()}


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
