"""Files -> the groups of an archive: which files make a group, and the group of some files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dqcodec.base.errors import VerifyError
from dqcodec.base.reader import MAX_PARTS, MAX_UNPACKED_BYTES
from dqcodec.codec import group as groups
from dqcodec.codec.choose import Choice
from dqcodec.codec.effort import Effort
from dqcodec.codec.group import CodedGroup
from dqcodec.codec.source import Source
from dqcodec.exact.program import Program
from dqcodec.format.archive_group import (
    MAX_MEMBERS,
    ArchiveGroup,
    Member,
    PackedGroup,
    Verbatim,
    pack_group,
    unpack_group,
)
from dqcodec.png import MAX_PIXELS, Png

Content = Source | Verbatim
GROUP_SECONDS = 1.0  # about the time to decode a group on one core; a single image may take longer
PIXEL_SECONDS = 2e-6  # a model codes all samples of a pixel together
SAMPLE_SECONDS = 5.5e-6  # mixing codes the 8 bits of a sample one by one
BYTE_SECONDS = 2e-8  # of a file that is kept verbatim


class Sized(Protocol):
    """A file for an archive.

    data: its bytes. pixels: of all frames. parts: its rasters and chunks. seconds: about the time to decode it. error: why
    it cannot be packed.
    """

    @property
    def data(self) -> bytes: ...
    @property
    def pixels(self) -> int: ...
    @property
    def parts(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def error(self) -> str | None: ...


AnySized = TypeVar("AnySized", bound=Sized)


def decoding_seconds(image: Png) -> float:
    """About the time to decode an image, by the slower method."""
    bits = image.header.samples * image.header.bit_depth
    return image.area * max(PIXEL_SECONDS, SAMPLE_SECONDS * bits / 8)


def batches(
    files: Iterable[AnySized], most: int = MAX_MEMBERS, max_pixels: int = MAX_PIXELS
) -> Iterator[list[AnySized]]:
    """Files in their order, cut into lists that make one group each.

    A list has at most `most` files that can be packed, `max_pixels` pixels, the rasters and chunks of a group, and half of
    the bytes that a group may unpack to, and decodes in about GROUP_SECONDS. A single file may have more. Equal files count
    once, except for `most`; files with errors do not count.
    """
    batch: list[AnySized] = []
    contents: set[bytes] = set()
    count, pixels, parts, size, seconds = 0, 0, 0, 0, 0.0
    for file in files:
        if file.error is None:
            is_full = (
                pixels + file.pixels > max_pixels
                or parts + file.parts > MAX_PARTS
                or size + len(file.data) > MAX_UNPACKED_BYTES // 2
                or seconds + file.seconds > GROUP_SECONDS
            )
            if count == most or (count and is_full and file.data not in contents):
                yield batch
                batch, contents, count, pixels, parts, size, seconds = [], set(), 0, 0, 0, 0, 0.0
            if file.data not in contents:
                pixels, parts = pixels + file.pixels, parts + file.parts
                size, seconds = size + len(file.data), seconds + file.seconds
            contents.add(file.data)
            count += 1
        batch.append(file)
    if batch:
        yield batch


@dataclass(frozen=True)
class CodedArchiveGroup:
    """A group as it goes into the archive, and the choice for each of its images."""

    packed: PackedGroup
    choices: Mapping[Source, Choice]


def encode(
    members: Sequence[Member],
    contents: Sequence[Content],
    programs: Sequence[Program],
    effort: Effort = Effort.USUAL,
    *,
    verify: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> CodedArchiveGroup:
    """Code a group. contents: what each member holds; equal files hold the same object, which is coded once.

    verify: decode the group in full and compare it. Raises VerifyError: it differs.
    """
    distinct = list(dict.fromkeys(contents))
    sources = [content for content in distinct if isinstance(content, Source)]
    verbatim = [content for content in distinct if isinstance(content, Verbatim)]
    sets = groups.encode_sets(sources, programs, effort) if sources else []
    order = [*(sources[number] for numbers, _ in sets for number in numbers), *verbatim]
    place = {content: number for number, content in enumerate(order)}
    parts = (*(coded.group for _, coded in sets), *verbatim)
    group = ArchiveGroup(tuple(members), tuple(place[content] for content in contents), parts)
    packed = pack_group(group)
    if verify:
        _check(packed, group, sets, sources, max_pixels)
    choices = {sources[number]: choice for numbers, coded in sets for number, choice in zip(numbers, coded.choices)}
    return CodedArchiveGroup(packed, choices)


def _check(
    packed: PackedGroup,
    group: ArchiveGroup,
    sets: Sequence[tuple[list[int], CodedGroup]],
    sources: Sequence[Source],
    max_pixels: int,
) -> None:
    """Decode a packed group in full and compare it with its sources; raises VerifyError on any difference."""
    with groups.verifying():
        back = unpack_group(packed.header, packed.body, max_pixels)
    for part, (numbers, coded) in zip(back.parts, sets):
        groups.check(part, [sources[each] for each in numbers], coded.programs, max_pixels)
    same_parts = len(back.parts) == len(group.parts) and back.parts[len(sets) :] == group.parts[len(sets) :]
    if not (same_parts and (back.members, back.contents) == (group.members, group.contents)):
        raise VerifyError("the group reads back as another; nothing is written")
