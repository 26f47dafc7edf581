"""Images <-> .dqc files, all in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dqcodec import png
from dqcodec.base.errors import CorruptError, DqcodecError, LatentOverflow, StackUnderflow, VerifyError
from dqcodec.base.varint import read_varint
from dqcodec.codec.choose import Choice, choose
from dqcodec.codec.report import CompressReport, DecompressReport, LayerReport
from dqcodec.codec.source import Source, read
from dqcodec.format.container import FRAME_BYTES, Entry, Group, Method, owners, sample_checksum
from dqcodec.methods import table
from dqcodec.methods.payload import Effort, Payload
from dqcodec.png import MAX_PIXELS, Header, Png, Skeleton

if TYPE_CHECKING:
    import numpy as np

    from dqcodec.exact.program import FindProgram, Program
    from dqcodec.methods.payload import ModelReport

    Decoded = Png | bytes  # bytes: the PNG file of a stored image

_SET_BYTES = 4  # of counts and lengths
_FEW, _SAMPLE_STEP = 4, 8  # of more than a few images, each eighth is coded alone too, to see whether company pays
_SUITED = 0.98  # an image whose size by another method is below this part of its size may be smaller alone


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


def compress(
    data: bytes,
    programs: Sequence[Program] = (),
    *,
    strip: bool = False,
    exact: bool = False,
    keep_broken: bool = False,
    best: bool = False,
    particles: int = 1,
    verify: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> tuple[bytes, CompressReport]:
    """The smallest .dqc file for the PNG file `data`, by any method and the best-suited of `programs`.

    strip, exact, keep_broken: see `read`. With `best`, methods that are slow both ways are tried on large images too. particles: of a flow with
    a uniform dequantizer, more take less and longer, both ways. With `verify` the result is decoded again and compared. Raises
    UnsupportedImageError, CorruptError (a damaged PNG), ParticlesError and VerifyError.
    """
    start = time.perf_counter()
    source = read(data, strip=strip, exact=exact, keep_broken=keep_broken, max_pixels=max_pixels)
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

    With `repack`, a file that was made to give its PNG byte for byte gives the same image packed anew, on any machine: those
    bytes need zlib's own deflate. Raises FormatError, CorruptError (also for another zlib), UnsupportedImageError (too large), UnknownModelError.
    """
    start = time.perf_counter()
    group = Group.parse(data, max_pixels)
    (image,), (entry,) = decode(group, find_program, max_pixels), group.entries
    del group  # its payloads are as large as the file
    restored = restore(entry, image, repack=repack)
    dropped = entry.skeleton.lost(entry.skeleton.repacked()) if entry.skeleton and (repack or not entry.recipe) else ()
    return restored, DecompressReport(entry.method, len(data), len(restored), dropped, time.perf_counter() - start)


def info(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Info:
    """The header of a .dqc file, without decoding its image; raises as `decompress` does."""
    group = Group.parse(data, max_pixels)
    (entry,) = group.entries
    skeleton = entry.skeleton
    header = skeleton.header if skeleton else _stored_header(group.payloads[0], max_pixels)
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
    """The smallest group of the images, by any method and the best-suited of `programs`; best, particles: see `compress`.

    An image whose samples are those of an earlier one repeats it.
    """
    effort = Effort(best, particles)
    try:
        return _code(sources, _choose(sources, programs, effort), effort)
    except (LatentOverflow, StackUnderflow):  # the layers that stayed with a flow cannot pay without the layers that left it
        return encode(sources, [program for program in programs if program.codes_all], best=best)


def encode_sets(
    sources: Sequence[Source], programs: Sequence[Program], *, best: bool = False, particles: int = 1
) -> list[tuple[list[int], CodedGroup]]:
    """Sets that the images are coded in, each with its images' numbers: all together, each alone, or those alone that
    gain nothing by company.

    Coding every image alone as well would take longer than coding all together. So a sample of the images is coded
    alone, with those that company may harm. If the sample is smaller alone, all images are coded alone too, and the
    smallest way is chosen.
    """
    options = {"best": best, "particles": particles}
    units = _alike(sources)
    together = encode(sources, programs, **options)
    if len(units) == 1:
        return [([*range(len(sources))], together)]
    shares = [sum(together.choices[number].size for number in unit) for unit in units]
    alone: dict[int, CodedGroup] = {}  # by the number of the unit

    def code_alone(numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in alone:
                alone[number] = encode([sources[each] for each in units[number]], programs, **options)

    sample = range(0, len(units), _SAMPLE_STEP if len(units) > _FEW else 1)
    code_alone(sample)
    pays = sum(shares[number] for number in sample) <= sum(_set_bytes(alone[number]) for number in sample)
    code_alone(number for number, unit in enumerate(units) if not pays or _may_lose(together.choices[unit[0]]))
    loners = [number for number, coded in alone.items() if _set_bytes(coded) < shares[number]]
    ways = [[([*range(len(sources))], together)]]
    if len(alone) == len(units):
        ways.append([(units[number], alone[number]) for number in range(len(units))])
    if 0 < len(loners) < len(units):
        stay = sorted(itertools.chain.from_iterable(unit for number, unit in enumerate(units) if number not in loners))
        with contextlib.suppress(LatentOverflow, StackUnderflow):  # they cannot pay without the others
            choices = [together.choices[number] for number in stay]
            rest = _code([sources[number] for number in stay], choices, Effort(best, particles))
            ways.append([(stay, rest), *((units[number], alone[number]) for number in sorted(loners))])
    return min(ways, key=lambda sets: sum(_set_bytes(coded) for _, coded in sets))


def _may_lose(choice: Choice) -> bool:
    """Whether an image may be smaller alone: it shares nothing, or follows the majority to a method that suits it less."""
    if all(coded.together == 1 for coded in choice.coded):
        return True
    return min(choice.candidates.values()) - FRAME_BYTES < _SUITED * choice.size


def _set_bytes(coded: CodedGroup) -> int:
    """About what a set takes in an archive."""
    return len(coded.group.heads()) + len(coded.group.tail()) + _SET_BYTES


def _alike(sources: Sequence[Source]) -> list[list[int]]:
    """The images' numbers, those that have the same samples in one list, in the order of the first of each."""
    if len(sources) == 1:
        return [[0]]
    found: dict[object, list[int]] = {}
    for number, source in enumerate(sources):
        key: object = number
        if source.is_expressible:
            rasters = [hashlib.sha256(raster.tobytes()).digest() for raster in source.image.rasters]
            key = source.image.header, tuple(source.sizes), tuple(rasters)
        found.setdefault(key, []).append(number)
    return list(found.values())


def _choose(sources: Sequence[Source], programs: Sequence[Program], effort: Effort) -> list[Choice]:
    """How each image is coded smallest; one that has an earlier one's samples repeats it, unless that is stored."""
    units, choices = _alike(sources), {}
    firsts = choose([sources[unit[0]] for unit in units], programs, effort)
    for (first, *others), chosen in zip(units, firsts):
        choices[first] = chosen
        for number in others:
            if chosen.entry.skeleton is None:
                (choices[number],) = choose([sources[number]], programs, effort)
            else:
                skeleton, recipe = sources[number].image.skeleton, sources[number].recipe
                choices[number] = Choice(Entry(skeleton, recipe=recipe, repeats=number - first))
    return [choices[number] for number in range(len(sources))]


def _code(sources: Sequence[Source], choices: Sequence[Choice], effort: Effort) -> CodedGroup:
    """A group of images as they are chosen to be coded, with the images that they repeat; raises LatentOverflow, StackUnderflow."""
    first = {number: unit[0] for unit in _alike(sources) for number in unit}
    entries = [
        dataclasses.replace(each.entry, repeats=number - first[number]) if each.entry.repeats else each.entry
        for number, each in enumerate(choices)
    ]
    coded = [_payload(owned, sources, choices, effort) for owned in owners(entries)]
    rasters = [raster for source, each in zip(sources, entries) if each.skeleton for raster in source.image.rasters]
    checksum = sample_checksum(rasters) if rasters else b""
    group = Group(tuple(entries), tuple(each.data for each in coded), checksum)
    return CodedGroup(group, tuple(choices), tuple(each.report for each in coded))


def decode(group: Group, find_program: FindProgram, max_pixels: int = MAX_PIXELS) -> list[Decoded]:
    """The images of a group; raises CorruptError unless their samples match their checksum."""
    decoded: list[dict[int, np.ndarray]] = [{} for _ in group.entries]
    images: list[Decoded] = [b""] * len(group.entries)
    layers_of = [entry.layers for entry in group.entries]
    shapes_of = [entry.shapes if entry.skeleton else [] for entry in group.entries]
    for payload, owned in zip(group.payloads, owners(group.entries)):
        image, layer = owned[0]
        if group.entries[image].skeleton is None:
            _stored_header(payload, max_pixels)
            images[image] = payload
            continue
        shapes = [shapes_of[image][layer] for image, layer in owned]
        arrays = table.decode(payload, layers_of[image][layer], shapes, find_program)
        for (image, layer), pixels in zip(owned, arrays):
            decoded[image][layer] = pixels
    for number, entry in enumerate(group.entries):
        if entry.repeats:
            images[number] = Png(entry.skeleton.header, entry.skeleton, images[number - entry.repeats].rasters)
        elif entry.skeleton is not None:
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
    from dqcodec.png import exact as packing

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
    dims = header.samples * sum(height * width for height, width in source.sizes)
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
        dropped=source.lost(is_stored=entry.skeleton is None),
        broken=source.damage,
        verified=False,
        seconds=0.0,
    )


def _payload(
    owned: Sequence[tuple[int, int]], sources: Sequence[Source], choices: Sequence[Choice], effort: Effort
) -> Payload:
    """The payload of some layers (image, layer) as they are chosen to be coded."""
    image, layer = owned[0]
    if choices[image].entry.skeleton is None:
        return Payload(choices[image].stored)
    tried = {id(choices[image].coded[layer].payload): choices[image].coded[layer] for image, layer in owned}
    if len(tried) == 1:
        (coded,) = tried.values()
        if coded.together == len(owned):
            return Payload(coded.payload, report=coded.report)
    layers_of = {image: sources[image].layers(choices[image].entry.split) for image in {image for image, _ in owned}}
    chosen = choices[image].coded[layer]
    layers = [layers_of[image][layer] for image, layer in owned]
    return table.encode(chosen.layer.method, layers, chosen.program, effort)


def _stored_header(data: bytes, max_pixels: int) -> Header:
    """The header of a stored PNG, which may be broken; raises CorruptError if it has none, and UnsupportedImageError."""
    if not data.startswith(png.SIGNATURE):
        raise CorruptError("the stored file is not a PNG")
    return png.read_header(data, max_pixels)


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
            index // len(names), names[index % len(names)], layer.method.label, sizes.get((image, index)), model
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
