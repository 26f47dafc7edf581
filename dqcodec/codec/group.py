"""Images <-> a group: the images of one file, or of one part of an archive.

Layers of several images are coded together if that makes the group smaller.

    encode(sources, programs) -> CodedGroup      choose how to code each image, then code all of them
    encode_sets(sources, programs)               the same, divided into the sets that take the fewest bytes
    decode(group, find_program) -> images        check(group, sources, ...)  decode and compare
    decode_regions(group, regions, find_program) -> parts of images
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dqcodec import png
from dqcodec.base.errors import (
    CorruptError,
    DqcodecError,
    LatentOverflow,
    StackUnderflow,
    UnsupportedImageError,
    VerifyError,
)
from dqcodec.codec import conversion
from dqcodec.codec.choose import Choice, choose
from dqcodec.codec.effort import Effort
from dqcodec.codec.region import Region
from dqcodec.codec.source import Source
from dqcodec.exact.boxes import Window, hull, inside, whole
from dqcodec.exact.program import FindProgram, Program
from dqcodec.format.container import Group, frame_bytes, owners, sample_checksum
from dqcodec.format.head import Entry
from dqcodec.methods import table
from dqcodec.methods.payload import ModelReport, Payload
from dqcodec.png import Header, Png

Decoded = Png | bytes  # bytes: the PNG file of a stored image

_SET_BYTES = 4  # bytes that an archive adds for a set: its counts and lengths
_FEW, _SAMPLE_STEP = 4, 8  # of more than _FEW images, every eighth is coded alone, to see whether coding together pays
_SUITED = 0.98  # an image may be smaller alone if another method takes less than this part of its size


@dataclass(frozen=True)
class CodedGroup:
    """A group, the choice for each of its images, and the model's report of each payload (None without a model)."""

    group: Group
    choices: tuple[Choice, ...]
    reports: tuple[ModelReport | None, ...]

    @property
    def programs(self) -> list[Program]:
        """The programs that code layers of the group, each once."""
        used = [each.program for choice in self.choices for each in choice.coded if each.program]
        return list({program.id: program for program in used}.values())


def encode(sources: Sequence[Source], programs: Sequence[Program], effort: Effort = Effort.USUAL) -> CodedGroup:
    """Code images as one group: each image by the smallest of all methods and `programs`.

    An image with the same samples as an earlier one refers to that one.
    """
    try:
        return _code(sources, _choose(sources, programs, effort))
    except (LatentOverflow, StackUnderflow):  # layers left the flow; the rest cannot pay its first loan
        return encode(sources, [program for program in programs if program.codes_all], effort)


def encode_sets(
    sources: Sequence[Source], programs: Sequence[Program], effort: Effort = Effort.USUAL
) -> list[tuple[list[int], CodedGroup]]:
    """Divide images into sets and code each set as one group. Returns (numbers of its images, group) of each set.

    Three ways are compared, and the smallest is returned: one set; a set for each image; one set without the images
    that are smaller alone. Coding every image alone takes longer than coding all together. So first only a sample of
    the images is coded alone, with the images that may be smaller alone. If the sample is smaller alone, all are coded
    alone.
    """
    units = _same_samples(sources)
    together = encode(sources, programs, effort)
    one_set = [([*range(len(sources))], together)]
    if len(units) == 1:
        return one_set
    shares = [sum(together.choices[number].size for number in unit) for unit in units]
    alone = _code_alone(sources, units, shares, together, programs, effort)
    ways = [one_set]
    if len(alone) == len(units):
        ways.append([(unit, alone[number]) for number, unit in enumerate(units)])
    leavers = {number: coded for number, coded in alone.items() if _set_bytes(coded) < shares[number]}
    if 0 < len(leavers) < len(units):
        stay = sorted(itertools.chain.from_iterable(unit for number, unit in enumerate(units) if number not in leavers))
        with contextlib.suppress(LatentOverflow, StackUnderflow):  # too small for a flow without the others
            rest = _code([sources[number] for number in stay], [together.choices[number] for number in stay])
            ways.append([(stay, rest), *((units[number], leavers[number]) for number in sorted(leavers))])
    return min(ways, key=lambda sets: sum(_set_bytes(coded) for _, coded in sets))


def _code_alone(
    sources: Sequence[Source],
    units: Sequence[list[int]],
    shares: Sequence[float],
    together: CodedGroup,
    programs: Sequence[Program],
    effort: Effort,
) -> dict[int, CodedGroup]:
    """Code some units alone: a sample of them, and those that may be smaller alone; all if the sample is smaller alone.

    units: the images of each. shares: the bytes of each in the group `together`. Returns number of a unit -> its group.
    """
    sample = range(0, len(units), _SAMPLE_STEP if len(units) > _FEW else 1)

    def code(numbers: Iterable[int]) -> dict[int, CodedGroup]:
        return {number: encode([sources[each] for each in units[number]], programs, effort) for number in numbers}

    alone = code(sample)
    pays = sum(shares[number] for number in sample) <= sum(map(_set_bytes, alone.values()))
    return alone | code(
        number
        for number, unit in enumerate(units)
        if number not in alone and (not pays or _may_leave(together.choices[unit[0]]))
    )


def _may_leave(choice: Choice) -> bool:
    """Whether an image may be smaller alone: it is coded alone anyway, or the group's usual
    method does not suit it best.
    """
    if all(coded.together == 1 for coded in choice.coded):
        return True
    return min(choice.candidates.values()) - frame_bytes(choice.entry) < _SUITED * choice.size


def decode(group: Group, find_program: FindProgram, max_pixels: int = png.MAX_PIXELS) -> list[Decoded]:
    """The images of a group, in order: a Png, or the bytes of the PNG file for a stored image.

    Raises CorruptError (a payload is damaged, or samples do not match the checksum), UnknownModelError,
    UnsupportedImageError (a stored image has more than `max_pixels`).
    """
    entries = group.entries
    layers_of = [entry.layers for entry in entries]
    shapes_of = [entry.shapes if entry.skeleton else [] for entry in entries]
    spots_of = [entry.spots(image) if entry.skeleton else [] for image, entry in enumerate(entries)]
    images: list[Decoded] = [b""] * len(entries)
    decoded: dict[tuple[int, int], np.ndarray] = {}
    for payload, owned in zip(group.payloads, owners(entries)):
        image, layer = owned[0]
        if entries[image].skeleton is None:
            stored_header(payload, max_pixels)
            images[image] = payload
            continue
        shapes = [shapes_of[image][layer] for image, layer in owned]
        spots = [spots_of[image][layer] for image, layer in owned]
        decoded |= zip(owned, table.decode(payload, layers_of[image][layer], shapes, find_program, spots))
    for image, entry in enumerate(entries):
        if entry.repeats:
            images[image] = Png(entry.skeleton.header, entry.skeleton.deflated(), images[image - entry.repeats].rasters)
        elif entry.skeleton is not None:
            numbers = itertools.count()
            layers = [[decoded.pop((image, next(numbers))) for _ in raster] for raster in entry.rasters]
            images[image] = entry.undo(layers)
    rasters = [raster for image in images if isinstance(image, Png) for raster in image.rasters]
    if rasters and sample_checksum(rasters)[: len(group.checksum)] != group.checksum:
        damage = "damaged .dqc file: " if group.is_short else ""  # of others the CRC is right
        raise CorruptError(f"{damage}the decoded pixels do not match their checksum")
    return images


def decode_regions(
    group: Group, regions: Mapping[int, Region], find_program: FindProgram, max_pixels: int = png.MAX_PIXELS
) -> dict[int, Png]:
    """Parts of images: number of the image -> its region, decoded with all chunks of the image.

    Where the methods allow it, only what the regions need is decoded. The checksum of the samples covers all images of
    the group, so it is not compared.

    Raises RegionError (not within the image), UnsupportedImageError (an animation, or a stored image has more than
    `max_pixels`), CorruptError, UnknownModelError.
    """
    entries = group.entries
    windows = _windows(entries, regions)
    layers, stored = _decode_windows(group, windows, find_program)
    return {
        number: region.cut(conversion.lone_image(stored[number], max_pixels))
        if entries[number].skeleton is None
        else _part(entries, number, region, windows, layers)
        for number, region in regions.items()
    }


def _windows(entries: Sequence[Entry], regions: Mapping[int, Region]) -> dict[tuple[int, int], Window]:
    """The window of each layer, (image, number), that regions of images need. Raises
    RegionError, UnsupportedImageError.
    """
    windows: dict[tuple[int, int], Window] = {}
    for number, region in regions.items():
        skeleton, owner = entries[number].skeleton, number - entries[number].repeats
        if skeleton is None:
            continue
        if len(skeleton.sizes) > 1:
            raise UnsupportedImageError("an animation has no regions: decode its PNG file")
        region.check(skeleton.header)
        for layer, shape in enumerate(entries[owner].shapes):
            window = region.window if entries[owner].split.is_pointwise else whole(shape)
            windows[owner, layer] = hull(windows.get((owner, layer), window), window)
    return windows


def _decode_windows(
    group: Group, windows: Mapping[tuple[int, int], Window], find_program: FindProgram
) -> tuple[dict[tuple[int, int], np.ndarray], dict[int, bytes]]:
    """(windows of layers, decoded; the PNG files of stored images by their numbers)."""
    entries = group.entries
    layers: dict[tuple[int, int], np.ndarray] = {}
    stored: dict[int, bytes] = {}
    for payload, owned in zip(group.payloads, owners(entries)):
        image, layer = owned[0]
        if entries[image].skeleton is None:
            stored[image] = payload
        elif any(place in windows for place in owned):
            shapes = [entries[image].shapes[layer] for image, layer in owned]
            wanted = [windows.get(place) for place in owned]
            decoded = table.decode_windows(payload, entries[image].layers[layer], shapes, wanted, find_program)
            layers |= zip(owned, decoded)
    return layers, stored


def _part(
    entries: Sequence[Entry],
    number: int,
    region: Region,
    windows: Mapping[tuple[int, int], Window],
    layers: Mapping[tuple[int, int], np.ndarray],
) -> Png:
    """A region of an image with all chunks, from the decoded windows of the layers that hold its samples."""
    entry, owner = entries[number], number - entries[number].repeats
    mine = [layers[owner, layer] for layer in range(len(entries[owner].layers))]
    header = entry.skeleton.header._replace(width=mine[0].shape[1], height=mine[0].shape[0])
    skeletons = [dataclasses.replace(each.skeleton, header=header) for each in (entries[owner], entry)]
    undone = dataclasses.replace(entries[owner], skeleton=skeletons[0]).undo([mine])
    if entry.repeats:  # the samples of another image, with its own chunks
        undone = Png(header, skeletons[1].deflated(), undone.rasters)
    return undone.cropped(*inside(region.window, windows[owner, 0]))


def restore(entry: Entry, image: Decoded, *, repack: bool = False) -> bytes:
    """The PNG file of a decoded image.

    An image with a recipe gives the original file byte for byte; with `repack` it is packed anew. Raises CorruptError:
    the recipe does not give the original file.
    """
    if isinstance(image, bytes):
        return image
    if repack or not entry.recipe:
        return png.write(image)
    from dqcodec.png import exact

    return exact.restore(image, entry.recipe)


@contextlib.contextmanager
def verifying() -> Iterator[None]:
    """Inside this context, a file that was just made is decoded: a DqcodecError becomes a VerifyError."""
    try:
        yield
    except DqcodecError as error:
        raise VerifyError(f"the compressed file does not decode ({error}); nothing is written") from error


def check(group: Group, sources: Sequence[Source], programs: Sequence[Program], max_pixels: int) -> None:
    """Decode a group and compare it with its sources; raises VerifyError if anything differs."""
    with verifying():
        images = decode(group, {program.id: program for program in programs}.__getitem__, max_pixels)
        same = len(images) == len(sources) and all(
            image == source.stored
            if isinstance(image, bytes)
            else image.same(source.image) and (not entry.recipe or restore(entry, image) == source.stored)
            for entry, image, source in zip(group.entries, images, sources)
        )
    if not same:
        raise VerifyError("the compressed file decodes to another image; nothing is written")


def stored_header(data: bytes, max_pixels: int) -> Header:
    """The header of a stored PNG file, which may be damaged after its header.

    Raises CorruptError (not a PNG file, or no valid header), UnsupportedImageError (more than `max_pixels`).
    """
    if not data.startswith(png.SIGNATURE):
        raise CorruptError("the stored file is not a PNG")
    return png.read_header(data, max_pixels)


def _set_bytes(coded: CodedGroup) -> int:
    """About how many bytes a set takes in an archive."""
    return len(coded.group.heads()) + len(coded.group.tail()) + _SET_BYTES


def _same_samples(sources: Sequence[Source]) -> list[list[int]]:
    """The numbers of all images. Images with the same samples form one list; lists are in the order of their first
    images."""
    if len(sources) == 1:
        return [[0]]
    found: dict[object, list[int]] = {}
    for number, source in enumerate(sources):
        found.setdefault(source.samples_key if source.is_expressible else number, []).append(number)
    return list(found.values())


def _choose(sources: Sequence[Source], programs: Sequence[Program], effort: Effort) -> list[Choice]:
    """The choice for each image. An image with the same samples as an earlier one repeats it, unless that one is
    stored."""
    units, choices = _same_samples(sources), {}
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


def _code(sources: Sequence[Source], choices: Sequence[Choice]) -> CodedGroup:
    """Code images by their choices; an image comes with the one that it repeats. Raises LatentOverflow,
    StackUnderflow."""
    first = {number: unit[0] for unit in _same_samples(sources) for number in unit}
    entries = [
        dataclasses.replace(each.entry, repeats=number - first[number]) if each.entry.repeats else each.entry
        for number, each in enumerate(choices)
    ]
    payloads = [_payload(owned, sources, choices) for owned in owners(entries)]
    rasters = [raster for source, each in zip(sources, entries) if each.skeleton for raster in source.image.rasters]
    checksum = sample_checksum(rasters) if rasters else b""
    group = Group(tuple(entries), tuple(each.data for each in payloads), checksum)
    return CodedGroup(group, tuple(choices), tuple(each.report for each in payloads))


def _payload(owned: Sequence[tuple[int, int]], sources: Sequence[Source], choices: Sequence[Choice]) -> Payload:
    """The payload of the layers `owned`, as (image, layer). It is coded anew unless the trial coded exactly these
    layers."""
    image, layer = owned[0]
    if choices[image].entry.skeleton is None:
        return Payload(choices[image].stored)
    chosen = choices[image].coded[layer]
    payloads = {id(choices[image].coded[layer].payload) for image, layer in owned}
    if len(payloads) == 1 and chosen.together == len(owned):
        return Payload(chosen.payload, report=chosen.report)
    layers_of = {image: sources[image].layers(choices[image].entry.split) for image in {image for image, _ in owned}}
    layers = [layers_of[image][layer] for image, layer in owned]
    spots_of = {image: sources[image].spots(choices[image].entry.split, image) for image in layers_of}
    spots = [spots_of[image][layer] for image, layer in owned]
    return table.encode(chosen.layer.method, layers, chosen.program, spots)
