"""Images <-> .dqc files, all in memory: tries every split into layers and every method, and keeps the smallest."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import layers, png
from .container import CHECKSUM_BYTES, FRAME_BYTES, Entry, Group, Method, owners, sample_checksum
from .errors import CorruptError, DqcodecError, LatentOverflow, StackUnderflow, VerifyError
from .layers import Split
from .methods import select
from .png import MAX_PIXELS, Png, Skeleton
from .report import CompressReport, DecompressReport, LayerReport
from .varint import read_varint

if TYPE_CHECKING:
    import numpy as np

    from .exact.program import Program
    from .methods.report import ModelReport
    from .methods.select import Coded, FindProgram

    Decoded = Png | bytes  # bytes: the PNG file of a stored image
    Place = tuple[int, Split, int]  # of a layer: its image's number, the split that makes it, its number

# A thorough code is at most this much smaller than a quick one, on photographs; where that could not beat what there is,
# seconds of work are saved.
_THOROUGH_GAIN = 0.95
# An image must be so much smaller by another method or split than by that of most images to leave their company.
_LONER_GAIN = 0.85


@dataclass(frozen=True)
class Info:
    """What a .dqc file says about itself. width, height: of the canvas, pixels; samples: per pixel, as the PNG stores them;
    rasters: 1, or more for an animated PNG. `layers` say how each part of the image is coded; a stored file has none.
    `chunk_bytes` are those of the PNG's ancillary chunks, their framing left out. exact: gives the PNG file byte for byte.
    particles: of the flow that codes a layer, if one does.
    """

    method: str
    width: int
    height: int
    samples: int
    bit_depth: int
    rasters: int
    layers: tuple[LayerReport, ...]
    dqc_bytes: int
    payload_bytes: int
    chunk_bytes: int
    exact: bool
    particles: int | None

    @property
    def model_id(self) -> str | None:
        """That of the first layer that a model codes."""
        return next((layer.model for layer in self.layers if layer.model), None)


@dataclass(frozen=True)
class Source:
    """An image to be coded. stored: the PNG file to keep where nothing is smaller. recipe: by which it is packed, if its bytes
    are kept too; None where they are, but there is no recipe."""

    image: Png
    stored: bytes
    recipe: bytes | None = b""


def read(data: bytes, *, strip: bool = False, exact: bool = False, max_pixels: int = MAX_PIXELS) -> Source:
    """The image in the PNG file `data`.

    With `strip`, without the chunks that do not change the samples or what they mean; with `exact`, such that it gives back
    `data` byte for byte. Raises UnsupportedImageError, CorruptError (a damaged PNG).
    """
    image = png.read(data, max_pixels)
    if exact:
        from .png import exact as packing

        return Source(image, data, packing.find(data, image))
    if strip and image.skeleton:
        image = image.stripped()
        return Source(image, png.write(image))
    return Source(image, data)


def compress(
    data: bytes,
    programs: Sequence[Program] = (),
    *,
    strip: bool = False,
    exact: bool = False,
    best: bool = False,
    particles: int = 1,
    verify: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> tuple[bytes, CompressReport]:
    """The smallest .dqc file for the PNG file `data`, by any method and the best-suited of `programs`.

    strip, exact: see `read`. With `best`, methods that are slow both ways are tried on large images too. particles: of a flow with
    a uniform dequantizer, more take less and longer, both ways. With `verify` the result is decoded again and compared. Raises
    UnsupportedImageError, CorruptError (a damaged PNG), ParticlesError and VerifyError.
    """
    start = time.perf_counter()
    source = read(data, strip=strip, exact=exact, max_pixels=max_pixels)
    coded = encode([source], programs, best=best, particles=particles)
    dqc, programs = coded.group.pack(), coded.programs
    report = _report(source, coded, len(data), len(dqc))
    del coded  # its payloads are as large as the file
    if verify:
        check(lambda: Group.parse(dqc, max_pixels), [source], programs, max_pixels)
    return dqc, dataclasses.replace(report, verified=verify, seconds=time.perf_counter() - start)


def decompress(
    data: bytes, find_program: FindProgram, *, repack: bool = False, max_pixels: int = MAX_PIXELS
) -> tuple[bytes, DecompressReport]:
    """The PNG file that the .dqc file `data` holds, its samples checked against their checksum.

    With `repack`, a file that was made to give its PNG byte for byte gives the same image packed anew. Raises FormatError,
    CorruptError, UnsupportedImageError (too large), UnknownModelError.
    """
    start = time.perf_counter()
    group = Group.parse(data, max_pixels)
    (image,), (entry,) = decode(group, find_program, max_pixels), group.entries
    del group  # its payloads are as large as the file
    restored = restore(entry, image, repack=repack)
    return restored, DecompressReport(entry.method, len(data), len(restored), time.perf_counter() - start)


def info(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Info:
    """The header of a .dqc file, without decoding its image; raises as `decompress` does."""
    group = Group.parse(data, max_pixels)
    (entry,) = group.entries
    skeleton = entry.skeleton
    header = skeleton.header if skeleton else _stored_image(group.payloads[0], max_pixels).header
    return Info(
        method=entry.method,
        width=header.width,
        height=header.height,
        samples=header.samples,
        bit_depth=header.bit_depth,
        rasters=max(1, len(entry.rasters)),
        layers=_describe(group, 0, [layer.model_id.hex() or None for layer in entry.layers]),
        dqc_bytes=len(data),
        payload_bytes=sum(map(len, group.payloads)),
        chunk_bytes=sum(len(chunk.body) for part in skeleton.parts for chunk in part) if skeleton else 0,
        exact=skeleton is None or bool(entry.recipe),
        particles=next((read_varint(payload, 0)[0] for payload in _flow_payloads(group)), None),
    )


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


@dataclass(frozen=True)
class CodedGroup:
    """A group, how each of its images is coded, and the models' reports of its payloads, or Nones."""

    group: Group
    choices: tuple[Choice, ...]
    reports: tuple[ModelReport | None, ...]

    @property
    def programs(self) -> list[Program]:
        """Those of all layers."""
        used = [each.program for choice in self.choices for each in choice.coded if each.program]
        return list({program.id: program for program in used}.values())


def encode(
    sources: Sequence[Source], programs: Sequence[Program], *, best: bool = False, particles: int = 1
) -> CodedGroup:
    """The smallest group of the images, by any method and the best-suited of `programs`; best, particles: see `compress`."""
    by_model = _by_model(sources, programs, best, particles)
    modelled = {number for number, _, _ in by_model}
    by_mixing = _by_mixing(sources, modelled, _photographs(sources, by_model, best), best)
    tried = {place: by_model.get(place, []) + by_mixing.get(place, []) for place in by_model | by_mixing}
    tried, is_lone = _usual(sources, tried), len(sources) == 1
    try:
        found = [_choices(number, source, tried, thorough=is_lone) for number, source in enumerate(sources)]
        choices = _choose(sources, found)
        payloads, reports = zip(*(_payload(owned, sources, choices) for owned in owners([each.entry for each in choices])))
    except (LatentOverflow, StackUnderflow):  # those layers that stayed with a flow cannot pay without those that left it
        return encode(sources, [program for program in programs if program.kind != "flow"], best=best)
    rasters = [raster for source, each in zip(sources, choices) if each.entry.skeleton for raster in source.image.rasters]
    checksum = sample_checksum(rasters) if rasters else b""
    return CodedGroup(Group(tuple(each.entry for each in choices), payloads, checksum), tuple(choices), reports)


def decode(group: Group, find_program: FindProgram, max_pixels: int = MAX_PIXELS) -> list[Decoded]:
    """The images of a group; raises CorruptError unless their samples match their checksum."""
    decoded: list[dict[int, np.ndarray]] = [{} for _ in group.entries]
    images: list[Decoded] = [b""] * len(group.entries)
    layers_of = [entry.layers for entry in group.entries]
    shapes_of = [entry.shapes if entry.skeleton else [] for entry in group.entries]
    for payload, owned in zip(group.payloads, owners(group.entries)):
        image, layer = owned[0]
        if group.entries[image].skeleton is None:
            _stored_image(payload, max_pixels)
            images[image] = payload
            continue
        shapes = [shapes_of[image][layer] for image, layer in owned]
        arrays = select.decode(payload, layers_of[image][layer], shapes, find_program)
        for (image, layer), pixels in zip(owned, arrays):
            decoded[image][layer] = pixels
    for number, entry in enumerate(group.entries):
        if entry.skeleton is not None:
            ordered = iter([decoded[number][layer] for layer in range(len(decoded[number]))])
            images[number] = entry.split.undo(
                [list(itertools.islice(ordered, len(raster))) for raster in entry.rasters], entry.skeleton
            )
    rasters = [raster for image in images if isinstance(image, Png) for raster in image.rasters]
    if rasters and sample_checksum(rasters) != group.checksum:
        raise CorruptError("the decoded pixels do not match their checksum")
    return images


def restore(entry: Entry, image: Decoded, *, repack: bool = False) -> bytes:
    """The PNG file of a decoded image; repack: see `decompress`."""
    if isinstance(image, bytes):
        return image
    if repack or not entry.recipe:
        return png.write(image)
    from .png import exact as packing

    return packing.restore(image, entry.recipe)


def check(parse: Callable[[], Group], sources: Sequence[Source], programs: Sequence[Program], max_pixels: int) -> None:
    """Decode a group in full and compare it with what it was made of; raises VerifyError on any difference."""
    try:
        group = parse()
        images = decode(group, {program.id: program for program in programs}.__getitem__, max_pixels)
        same = len(images) == len(sources) and all(
            image == source.stored
            if isinstance(image, bytes)
            else image.same(source.image) and (not entry.recipe or restore(entry, image) == source.stored)
            for entry, image, source in zip(group.entries, images, sources)
        )
    except DqcodecError as error:
        raise VerifyError(f"the compressed file does not decode ({error}); nothing is written") from error
    if not same:
        raise VerifyError("the compressed file decodes to another image; nothing is written")


def _report(source: Source, coded: CodedGroup, png_bytes: int, dqc_bytes: int) -> CompressReport:
    """Of one image, before it is verified."""
    (entry,), (choice,) = coded.group.entries, coded.choices
    header = source.image.header
    payload_bytes = sum(map(len, coded.group.payloads))
    recipe_bytes, chunk_bytes = (
        len(entry.head()) - len(dataclasses.replace(entry, **bare).head()) if entry.skeleton else 0
        for bare in ({"recipe": b""}, {"skeleton": Skeleton(header)})
    )
    dims = header.samples * sum(height * width for height, width in _sizes(source.image))
    return CompressReport(
        method=entry.method,
        width=header.width,
        height=header.height,
        samples=header.samples,
        dims=dims,
        png_bytes=png_bytes,
        dqc_bytes=dqc_bytes,
        payload_bytes=payload_bytes,
        chunk_bytes=chunk_bytes,
        recipe_bytes=recipe_bytes,
        container_bytes=dqc_bytes - payload_bytes - chunk_bytes - recipe_bytes,
        candidates=choice.candidates,
        layers=_describe(coded.group, 0, [each.program and each.program.name for each in choice.coded]),
        model="+".join(dict.fromkeys(program.name for program in coded.programs)) or None,
        learned=_learned(coded, dims),
        verified=False,
        seconds=0.0,
    )


def _by_model(
    sources: Sequence[Source], programs: Sequence[Program], best: bool, particles: int
) -> dict[Place, list[Coded]]:
    """The layers for models that one takes, together those whose samples have as many bits."""
    if not programs:
        return {}
    of_bits: dict[int, dict[Place, np.ndarray]] = {}
    for number, source in enumerate(sources):
        split = layers.for_models(source.image) if _is_expressible(source) else None
        if split:
            hopes = itertools.cycle(split.modelled(source.image.skeleton))
            of_bits.setdefault(min(8, source.image.header.bit_depth), {}).update(
                ((number, split, layer), pixels)
                for layer, (pixels, is_hopeful) in enumerate(zip(_layers(source.image, split), hopes))
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
            pixels = _layers(sources[number].image, split)[0]
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
        for split in layers.candidates(source.image) if _is_expressible(source) else ():
            names = itertools.cycle(split.names(source.image.skeleton))
            for layer, (pixels, name) in enumerate(zip(_layers(source.image, split), names)):
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
    if not _is_expressible(source):
        return [stored]
    image = source.image

    def choice(split: Split, *, quick: bool) -> Choice:
        arrays = _layers(image, split)
        coded = [
            _smallest(tried.get((number, split, layer), ()), pixels, quick=quick) for layer, pixels in enumerate(arrays)
        ]
        coded = coded if quick else _without_leavers(coded, arrays)
        rasters = tuple(tuple(part) for part in _cut([each.layer for each in coded], len(coded) // len(image.rasters)))
        return Choice(Entry(layers.skeleton(image, split), split, rasters, source.recipe), tuple(coded))

    choices = [choice(split, quick=True) for split in layers.candidates(image)]
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


def _choose(sources: Sequence[Source], choices: Sequence[Sequence[Choice]]) -> list[Choice]:
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


def _payload(
    owned: Sequence[tuple[int, int]], sources: Sequence[Source], choices: Sequence[Choice]
) -> tuple[bytes, ModelReport | None]:
    """The payload of some layers (image, layer) as they are chosen to be coded."""
    image, layer = owned[0]
    if choices[image].entry.skeleton is None:
        return choices[image].stored, None
    tried = {id(choices[image].coded[layer].payload): choices[image].coded[layer] for image, layer in owned}
    if len(tried) == 1:
        (coded,) = tried.values()
        if coded.together == len(owned):
            return coded.payload, coded.report
    layers_of = {image: _layers(sources[image].image, choices[image].entry.split) for image in {image for image, _ in owned}}
    return select.together([layers_of[image][layer] for image, layer in owned], choices[image].coded[layer])


def _layers(image: Png, split: Split) -> list[np.ndarray]:
    """Of all rasters."""
    return [pixels for raster in image.rasters for pixels in split.apply(raster, image.skeleton)]


def _is_expressible(source: Source) -> bool:
    """Whether an image can be coded as anything but its file."""
    return source.image.skeleton is not None and source.recipe is not None


def _cut(items: Sequence, count: int) -> Iterator[Sequence]:
    return (items[start : start + count] for start in range(0, len(items), count))


def _stored_image(data: bytes, max_pixels: int) -> Png:
    """The structure of a stored PNG; raises CorruptError if it is none."""
    if not data.startswith(png.SIGNATURE):
        raise CorruptError("the stored file is not a PNG")
    return png.read(data, max_pixels, decode=False)


def _sizes(image: Png) -> Sequence[tuple[int, int]]:
    """(height, width) of each raster."""
    return image.skeleton.sizes if image.skeleton else [(image.header.height, image.header.width)]


def _flow_payloads(group: Group) -> Iterator[bytes]:
    for payload, ((image, layer), *_) in zip(group.payloads, owners(group.entries)):
        entry = group.entries[image]
        if entry.skeleton and entry.layers[layer].method == Method.FLOW:
            yield payload


def _describe(group: Group, image: int, models: Sequence[str | None]) -> tuple[LayerReport, ...]:
    """The layers of an image; models: how to call the model of each."""
    entry = group.entries[image]
    if entry.skeleton is None:
        return ()
    names = entry.split.names(entry.skeleton)
    sizes = {owned[0]: len(payload) for payload, owned in zip(group.payloads, owners(group.entries))}
    return tuple(
        LayerReport(
            index // len(names), names[index % len(names)], layer.method.name.lower().replace("_", "-"), sizes.get((image, index)), model
        )
        for index, (layer, model) in enumerate(zip(entry.layers, models))
    )


def _learned(coded: CodedGroup, dims: int) -> dict[str, Any] | None:
    """The reports of all models as one; what other methods code counts as it is."""
    reports = [report for report in coded.reports if report]
    if not reports:
        return None
    sizes = [8 * len(payload) for payload in coded.group.payloads]
    vi_bits = sum(report.vi_bits if report else size for report, size in zip(coded.reports, sizes))
    return {
        "vi_bpd": vi_bits / dims,
        "coded_bpd": sum(sizes) / dims,
        "seed_bits": sum(report.seed_bits for report in reports),
        "initial_bits": sum(report.initial_bits for report in reports),
        "grid_bits": sum(report.grid_bits for report in reports),
        "particles": max(report.particles for report in reports),
    }
