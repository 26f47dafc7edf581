"""Trials for choose.py: layers of all images, coded together by a model or by mixing; a layer, coded alone by WebP.

Layers are (H, W, C) uint8; those for experts may be uint16.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.base.errors import LatentOverflow, StackUnderflow
from dqcodec.codec import trial
from dqcodec.codec.effort import Effort
from dqcodec.exact.jpeg import recovery
from dqcodec.format.container import Layer, Method
from dqcodec.format.split import MAX_WIDTH, Split, Step, candidates, for_models
from dqcodec.format.values import MODES_BYTES, Values, views
from dqcodec.methods import classical, table
from dqcodec.methods.payload import ModelReport
from dqcodec.png.color_types import PALETTE

if TYPE_CHECKING:
    from dqcodec.codec.source import Source
    from dqcodec.exact.program import Program

    Place = tuple[int, Split, int]  # names a layer: number of its image, split that makes it, number of the layer

_MIN_MODEL_PIXELS = 64
_MAX_MIXING_SAMPLES = 1 << 21  # of a layer in all views, as many as mixing codes bit by bit: about six seconds ...
_MAX_RIVAL_SAMPLES = 1 << 18  # ... and one if a model codes the layer too
# A sample of layers shows by what part of the model's bits a method that learns may win on the whole layers.
_HOPELESS = {Method.TRAINED_MIXING: 1.25, Method.MODEL_MIXING: 1.0, Method.EXPERTS: 1.05}
_AHEAD = 0.97  # by a smaller part, a method that learns wins on the whole layers
_DRAWN_BITS = 4  # of a pixel of a drawing that differs from its neighbours; photographs take more
_JPEG_PART = 0.5  # of WebP's bytes; other methods take more
_MAX_SOFT_PIXELS, _FEW_NEW = 1 << 16, 0.35  # of larger icons with alpha; the part of their pixels that is new at most
_MAX_ICON_PIXELS = 1 << 14
_TINY_PIXELS = 1 << 8  # of icons that may look like photographs
_WHOLE_PIXELS = 4  # that mixing codes whole in the time of a sample


@dataclass(frozen=True)
class CodedLayer:
    """A layer, coded.

    payload: of this layer and those coded with it, `together` layers in all. bytes: this layer's part of it. program,
    report: the model that made it and its report, or None.
    """

    layer: Layer
    payload: bytes
    bytes: float
    program: Program | None = None
    report: ModelReport | None = None
    together: int = 1

    @property
    def cost(self) -> float:
        """Bytes of the layer, and its part of the model id in the heads."""
        return self.bytes + len(self.layer.model_id) / self.together


def code_together(
    sources: Mapping[int, Source], programs: Sequence[Program], effort: Effort
) -> dict[Place, list[CodedLayer]]:
    """Code similar layers of all images, by their numbers, together: by a model, by mixing, by experts, as JPEG, or by several of
    these.

    Returns the ways that were tried for each layer. A layer that would take too long, or that no method suits, has no
    entry.
    """
    icons = {number for number, source in sources.items() if is_icon(source, programs, effort)}
    from_jpeg = _jpeg(_without(sources, icons))
    settled = {
        number for (number, split, _), (way,) in from_jpeg.items() if _is_whole(sources[number].layers(split), way)
    }
    sources = _without(sources, settled)
    others = _without(sources, icons)
    mixed = _mixed(sources, icons, set(), set(), effort) if all(map(_is_drawing, others.values())) else {}
    modelled = _modelled(others, programs, effort, mixed)
    if not mixed:
        photographs = _photographs(sources, modelled, effort)
        mixed = _mixed(sources, icons, {number for number, _, _ in modelled}, photographs, effort)
    by_method = modelled, mixed, _expert(others, modelled, effort), from_jpeg
    places = dict.fromkeys(place for ways in by_method for place in ways)
    return {place: [way for ways in by_method for way in ways.get(place, [])] for place in places}


def by_webp(pixels: np.ndarray, *, quick: bool) -> CodedLayer:
    """A layer by WebP; quick: a fast search, for an estimate of the size."""
    data = classical.encode([pixels], quick=quick).data
    return CodedLayer(Layer(Method.CLASSICAL), data, len(data))


def by_method(layers: Sequence[np.ndarray], method: Method) -> list[list[CodedLayer]]:
    """Layers of the same number of channels, together by a method without a model: a list of one way for each layer."""
    payload = table.encode(method, layers)
    return [[CodedLayer(Layer(method), payload.data, size, together=len(layers))] for size in payload.sizes]


def by_model(layers: Sequence[np.ndarray], programs: Sequence[Program], effort: Effort) -> list[list[CodedLayer]]:
    """Layers of the same number of channels, together by the program that suits them best: a list of ways for each
    layer.

    Samples have the number of bits that the programs code. The list is empty for a layer that the program cannot code,
    and for all layers if a sample of them shows that mixing is smaller.
    """
    program = trial.best_program(layers, programs, effort)
    if program is None:
        return [[] for _ in layers]
    is_small = 8 * _MAX_RIVAL_SAMPLES >= program.bits * sum(pixels.size for pixels in layers)
    is_mixed = program.bits < 8 and not (effort.best or is_small)
    if is_mixed and trial.beside_model(Method.TRAINED_MIXING, layers, program) < 1:
        return [[] for _ in layers]
    rows = [
        row
        for row in table.rows_of(program)
        if not row.is_slow or ((effort.best or is_small) and _may_win(row.number, layers, program))
    ]
    if len(layers) == 1 < len(rows) and _is_ahead(rows[-1].number, layers, program):
        rows = rows[-1:]
    try:
        payloads = {row.number: table.encode(row.number, layers, program) for row in rows}
    except (LatentOverflow, StackUnderflow):  # out of range, or too small for the first loan
        takes = [program.code_length([pixels]) < float("inf") for pixels in layers]
        if all(takes) or not any(takes):
            return [[] for _ in layers]
        kept = [pixels for pixels, is_taken in zip(layers, takes) if is_taken]
        coded = iter(by_model(kept, [program], effort))
        return [next(coded) if is_taken else [] for is_taken in takes]
    report = payloads[rows[0].number].report
    shares = [bits / report.vi_bits for bits in report.layer_bits] if report else [1.0]
    return [
        [
            CodedLayer(
                Layer(number, program.id),
                payload.data,
                share * len(payload.data),
                program,
                payload.report,
                len(layers),
            )
            for number, payload in payloads.items()
        ]
        for share in shares
    ]


def _modelled(
    sources: Mapping[int, Source],
    programs: Sequence[Program],
    effort: Effort,
    mixed: Mapping[Place, Sequence[CodedLayer]],
) -> dict[Place, list[CodedLayer]]:
    """The layers that a model codes. Layers with the same bits per sample and the same number of channels are coded
    together; those of a lone image only if they are of one split. mixed: drawings that mixing has coded; no model codes
    what mixing codes much better."""
    if not programs:
        return {}
    together: dict[tuple[int, Split | None], dict[Place, np.ndarray]] = {}
    is_lone = len(sources) == 1
    for number, source in sources.items():
        for bits, split, layer, pixels in layers_for_models(source, every=is_lone):
            together.setdefault((bits, split if is_lone else None), {})[number, split, layer] = pixels
    coded = {}
    for (bits, _), places in together.items():
        fitting = [program for program in programs if program.bits == bits]
        if mixed and not effort.best:
            places = {
                place: pixels
                for place, pixels in places.items()
                if not any(_is_far_smaller(way, pixels, fitting, effort) for way in mixed.get(place, ()))
            }
        coded |= _by_channels(places, lambda layers: by_model(layers, fitting, effort))
    return coded


def _without(sources: Mapping[int, Source], numbers: set[int]) -> dict[int, Source]:
    return {number: source for number, source in sources.items() if number not in numbers}


def is_icon(source: Source, programs: Sequence[Program], effort: Effort) -> bool:
    """Whether an image is so small, and drawn in colours, that trained mixing alone is tried: models take longer, and gain
    nothing."""
    header, pixels = source.image.header, source.image.area
    limit = _MAX_SOFT_PIXELS if header.samples == 4 else _MAX_ICON_PIXELS
    if effort.best or not source.is_expressible or header.bit_depth == 16 or pixels > limit:
        return False
    layers = list(layers_for_models(source))
    if any(program.bits == bits < 8 for program in programs for bits, *_ in layers):  # such models are for such images
        return False
    if pixels <= _TINY_PIXELS or header.color_type == PALETTE or not layers:
        return pixels <= _MAX_ICON_PIXELS
    bits, *_, colors = layers[0]
    if pixels > _MAX_ICON_PIXELS:
        return bits == 8 and colors.shape[2] == 3 and _new_part(colors) < _FEW_NEW
    return bits < 8 or (colors.shape[2] == 3 and _is_drawn(colors))


def _is_drawing(source: Source) -> bool:
    """Whether an image has colours that a model may code, and these are drawn, not small, and mixed in an acceptable time."""
    colours = [pixels for _, _, _, pixels in layers_for_models(source) if pixels.shape[2] == 3]
    return bool(colours) and all(
        pixels.size > _MAX_RIVAL_SAMPLES and _mixing_samples(pixels) <= _MAX_MIXING_SAMPLES and _is_drawn(pixels)
        for pixels in colours
    )


def _is_far_smaller(mixed: CodedLayer, pixels: np.ndarray, programs: Sequence[Program], effort: Effort) -> bool:
    """Whether mixing codes the colours of a drawing in so few bits that no model is tried: few for each pixel that differs from its
    neighbours, and fewer than a sample takes by the program that suits it best."""
    if pixels.shape[2] != 3 or 8 * mixed.bytes > _DRAWN_BITS * _differing(pixels).sum():
        return False
    return 8 * mixed.bytes < trial.estimated_bits([pixels], programs, effort)


def _photographs(
    sources: Mapping[int, Source], modelled: Mapping[Place, Sequence[CodedLayer]], effort: Effort
) -> set[int]:
    """The numbers of images whose first layer (colour or gray) a model codes much smaller than mixing, by a sample of
    it.

    Images of fewer than 8 bits are not tested: mixing them is fast.
    """
    images: dict[Program, dict[int, np.ndarray]] = {}
    for (number, split, layer), (coded, *_) in modelled.items():
        if layer == 0 and sources[number].view(split).header.bit_depth >= 8:
            pixels = sources[number].layers(split)[0]
            if (effort.best or takes_mixing(pixels, is_modelled=True)) and not _is_drawn(pixels):
                images.setdefault(coded.program, {})[number] = pixels  # a sample of a drawing would say little
    return {
        number
        for program, alike in images.items()
        if not _may_win(Method.TRAINED_MIXING, list(alike.values()), program)
        for number in alike
    }


def _mixed(
    sources: Mapping[int, Source], icons: set[int], modelled: set[int], photographs: set[int], effort: Effort
) -> dict[Place, list[CodedLayer]]:
    """The layers that mixing codes, and those of 16 bits, which experts code. Layers with the same split and number of channels are
    coded together.

    Args:
        icons: numbers of the images that keep alpha beside the colours.
        modelled: numbers of the images that models code.
        photographs: numbers of the images whose alpha alone is mixed.
    """
    splits: dict[Split, dict[Place, np.ndarray]] = {}
    for number, source in sources.items():
        spent: Counter[int] = Counter()
        for split in candidates(source.image) if source.is_expressible else ():
            if split.alpha and number in icons:
                continue
            is_deep = source.view(split).header.bit_depth >= 8
            for layer, pixels in enumerate(source.layers(split)):
                is_alpha = _is_alpha(source, split, layer)
                is_modelled = number in modelled and not is_alpha and is_deep
                samples = spent[layer] + _mixing_samples(pixels)  # by all views; mixing is fast below 8 bits
                is_quick = samples <= _MAX_MIXING_SAMPLES and takes_mixing(pixels, is_modelled=is_modelled)
                if split.step == Step.WHOLE:
                    splits.setdefault(split, {})[number, split, layer] = pixels
                elif (effort.best or is_quick) and (number not in photographs or is_alpha):
                    spent[layer] = samples
                    splits.setdefault(split, {})[number, split, layer] = pixels
    coded = {}
    for split, places in splits.items():
        method = Method.EXPERTS if split.step == Step.WHOLE else Method.TRAINED_MIXING
        coded |= _by_channels(places, functools.partial(by_method, method=method))
    return coded


def _expert(
    sources: Mapping[int, Source], modelled: Mapping[Place, Sequence[CodedLayer]], effort: Effort
) -> dict[Place, list[CodedLayer]]:
    """The layers of 8 bits that experts code: small gray ones; with effort.best, all that may suit a model. Layers of
    which a sample shows that their model is much smaller are left out."""
    of_programs: dict[tuple[Program | None, Split | None], dict[Place, np.ndarray]] = {}
    is_lone = len(sources) == 1
    for number, source in sources.items():
        for split in _splits_for_models(source, every=is_lone):
            if source.view(split).header.bit_depth != 8:
                continue
            for layer, pixels in enumerate(source.layers(split)):
                if takes_experts(pixels, effort):
                    place = number, split, layer
                    program = modelled[place][0].program if place in modelled else None
                    of_programs.setdefault((program, split if is_lone else None), {})[place] = pixels
    together: dict[Split | None, dict[Place, np.ndarray]] = {}
    for (program, split), alike in of_programs.items():
        if program is None or _may_win(Method.EXPERTS, list(alike.values()), program):
            together[split] = together.get(split, {}) | alike
    code = functools.partial(by_method, method=Method.EXPERTS)
    return {place: ways for places in together.values() for place, ways in _by_channels(places, code).items()}


def _jpeg(sources: Mapping[int, Source]) -> dict[Place, list[CodedLayer]]:
    """The layers that came out of a JPEG decoder, by the coefficients of the JPEG files. Alpha does not."""
    places = {
        (number, split, layer): pixels
        for number, source in sources.items()
        for bits, split, layer, pixels in layers_for_models(source)
        if bits == 8
        and source.view(split).header.bit_depth == 8
        and not _is_alpha(source, split, layer)
        and recovery.may_be_decoded(pixels)
    }
    return _by_channels(places, functools.partial(by_method, method=Method.JPEG))


def _is_alpha(source: Source, split: Split, layer: int) -> bool:
    """Whether a layer is what a split has set apart as alpha."""
    names = split.names(source.view(split).skeleton)
    return names[layer % len(names)].startswith("alpha")


def _is_whole(layers: Sequence[np.ndarray], coded: CodedLayer) -> bool:
    """Whether the coefficients of a JPEG file are all of an image, in so few bytes that nothing else is tried."""
    return len(layers) == 1 and coded.bytes < _JPEG_PART * by_webp(layers[0], quick=True).bytes


def _may_win(method: Method, layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether a method may code layers with fewer bits than a program, by a sample of them; small layers are not sampled."""
    return trial.is_small(layers) or trial.beside_model(method, layers, program) <= _HOPELESS[method]


def _is_ahead(method: Method, layers: Sequence[np.ndarray], program: Program) -> bool:
    """Whether a method surely codes layers with fewer bits than a program alone, by a sample of them. The first bits on a stack
    make a model alone larger on small ones."""
    return trial.is_small(layers) or trial.beside_model(method, layers, program) < _AHEAD


def layers_for_models(source: Source, *, every: bool = False) -> Iterator[tuple[int, Split, int, np.ndarray]]:
    """The layers of an image that a model may code: (bits of its samples, split, number of the layer, the layer).

    every: see _splits_for_models.
    """
    for split in _splits_for_models(source, every=every):
        view = source.view(split)
        suits = itertools.cycle(split.modelled(view.skeleton))
        for layer, (pixels, is_suitable) in enumerate(zip(source.layers(split), suits)):
            if is_suitable and takes_model(pixels):
                yield min(8, view.header.bit_depth), split, layer, pixels


def _splits_for_models(source: Source, *, every: bool) -> list[Split]:
    """The likeliest split of an image with layers that a model may code. every: if it needs a table of values, which may
    cost more than it saves, also that of the image's own samples."""
    first, *others = (for_models(source.image) if source.is_expressible else None) or [None]
    if first is None:
        return []
    has_table = len(views(source.image)[first.values].code) > MODES_BYTES
    return [first, *(split for split in others if every and has_table and split.values == Values.SAMPLES)]


def takes_model(pixels: np.ndarray) -> bool:
    """Whether a model may suit a layer: 1 or 3 channels, not tiny, not of one colour."""
    return (
        pixels.shape[2] in (1, 3) and pixels[..., 0].size >= _MIN_MODEL_PIXELS and bool((pixels != pixels[0, 0]).any())
    )


def takes_mixing(pixels: np.ndarray, *, is_modelled: bool) -> bool:
    """Whether mixing a layer takes an acceptable time; is_modelled: a model codes it too, and suits it unless it is
    drawn, so the limit is lower."""
    samples = _mixing_samples(pixels)
    return samples <= _MAX_RIVAL_SAMPLES or (samples <= _MAX_MIXING_SAMPLES and (not is_modelled or _is_drawn(pixels)))


def takes_experts(pixels: np.ndarray, effort: Effort) -> bool:
    """Whether experts may suit a layer of 8 bits and take an acceptable time."""
    is_quick = pixels.shape[2] == 1 and pixels.size <= _MAX_RIVAL_SAMPLES and not effort.fast
    return takes_model(pixels) and pixels.shape[1] <= MAX_WIDTH and (effort.best or is_quick)


def _mixing_samples(pixels: np.ndarray) -> int:
    """The samples of a layer, as many as mixing codes bit by bit in the same time."""
    return int(_differing(pixels).sum()) * pixels.shape[2] + pixels[..., 0].size // _WHOLE_PIXELS


def _differing(pixels: np.ndarray) -> np.ndarray:
    """Whether a pixel differs from its left or upper neighbour, bool (H - 1, W - 1)."""
    differs = (pixels[1:, 1:] != pixels[1:, :-1]) | (pixels[1:, 1:] != pixels[:-1, 1:])
    return differs.any(axis=2)


def _is_drawn(pixels: np.ndarray) -> bool:
    """Whether most pixels of a layer equal their neighbours or are not new, as in text, tiles and textures. In photographs noise
    makes most pixels new."""
    return 2 * _differing(pixels)[:, :-1].sum() <= pixels[..., 0].size or _new_part(pixels) <= 0.5


def _new_part(pixels: np.ndarray) -> float:
    """The part of the pixels of a layer that are new: they differ from a neighbour, and have other pixels around them than all
    earlier ones."""
    differs = _differing(pixels)[:, :-1]
    whole = sum(pixels[..., channel].astype(np.uint64) << 8 * channel for channel in range(pixels.shape[2]))
    around = np.zeros(int(differs.sum()), np.uint64)
    for y, x in itertools.product(range(2), range(3)):  # the pixel, its left and right neighbours, and the three above
        height, width = differs.shape
        around = (around + whole[y : y + height, x : x + width][differs]) * np.uint64(0xE7037ED1A0B428DB)
        around ^= around >> np.uint64(29)
    return len(np.unique(around)) / pixels[..., 0].size


def _by_channels(
    places: Mapping[Place, np.ndarray], code: Callable[[Sequence[np.ndarray]], Sequence[list[CodedLayer]]]
) -> dict[Place, list[CodedLayer]]:
    """Call `code` for all layers of each number of channels. The result leaves out layers without a way."""
    coded = {}
    for channels in {pixels.shape[2] for pixels in places.values()}:
        alike = {place: pixels for place, pixels in places.items() if pixels.shape[2] == channels}
        coded |= {place: each for place, each in zip(alike, code(list(alike.values()))) if each}
    return coded
