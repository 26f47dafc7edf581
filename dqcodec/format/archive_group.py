"""A group of an archive as bytes: some files that are read together, images coded together and verbatim files.

A group has parts: sets of images that are coded together, and verbatim files. Their images and files are its contents,
numbered through all parts; equal members share one. The header has members and heads, the body the payloads.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import folded, unfolded, write_varint
from dqcodec.format.container import CHECKSUM_BYTES, Group, joined, read_tail
from dqcodec.format.head import count_pixels, pack_heads, read_heads
from dqcodec.format.names import clashes, pack_names, read_name
from dqcodec.format.section import pack_tagged, read_section, read_tagged
from dqcodec.png import MAX_PIXELS

MAX_MEMBERS = 1 << 12
_SECOND = 10**9


@dataclass(frozen=True)
class Member:
    """A file of an archive.

    name: a relative path. mtime_ns: modification time, nanoseconds since 1970. mode: permissions, below 512.
    """

    name: str
    mtime_ns: int = 0
    mode: int = 0o644


@dataclass(frozen=True)
class Verbatim:
    """A file that is kept as it is, not as an image."""

    data: bytes


@dataclass(frozen=True)
class ArchiveGroup:
    """A group of an archive.

    members: its files. parts: sets of images, and verbatim files. contents: for each member the number of its image or
    verbatim file, counted through all parts.
    """

    members: tuple[Member, ...]
    contents: tuple[int, ...]
    parts: tuple[Group | Verbatim, ...]

    @property
    def model_ids(self) -> list[bytes]:
        """The ids of the models that its images need, each once."""
        entries = (entry for part in self.parts if isinstance(part, Group) for entry in part.entries)
        return list(dict.fromkeys(layer.model_id for entry in entries for layer in entry.layers if layer.model_id))

    def place(self, member: int) -> tuple[int, int]:
        """(number of the part, number of the image in it) of a member; raises IndexError."""
        return self._places[self.contents[member]]

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """(number of the part, number of the image in it) of each content."""
        return [(number, image) for number, part in enumerate(self.parts) for image in range(_count(part))]


@dataclass(frozen=True)
class PackedGroup:
    """The header (packed) and the body of a group as bytes. The archive adds marks, numbers and CRCs."""

    members: tuple[Member, ...]
    header: bytes
    body: bytes

    @property
    def size(self) -> int:
        """Bytes, without what the archive adds."""
        return len(self.header) + len(self.body)


def pack_group(group: ArchiveGroup) -> PackedGroup:
    """The header and the body of a group."""
    return PackedGroup(group.members, pack_header(group), joined([_pack_part(part) for part in group.parts]))


def pack_header(group: ArchiveGroup) -> bytes:
    """The packed header of a group: chunks packed for each image or all together, whichever is smaller."""
    start = [write_varint(len(group.members)), *_differences(group.contents, step=1)]
    start += [pack_names(member.name for member in group.members), _pack_stamps(group.members)]
    start.append(write_varint(len(group.parts)))

    def packed(are_lone: bool) -> bytes:
        heads = [
            write_varint(0)
            if isinstance(part, Verbatim)
            else write_varint(len(part.entries)) + pack_heads(part.entries, are_lone=are_lone)
            for part in group.parts
        ]
        return pack_tagged(b"".join(start + heads))

    return min(packed(True), packed(False), key=len)


def unpack_group(header: bytes, body: bytes, max_pixels: int = MAX_PIXELS) -> ArchiveGroup:
    """The inverse of pack_group.

    Raises CorruptError, UnsupportedImageError (all images together have more than `max_pixels`).
    """
    reader, members, contents = _read_members(header)
    sets, count, left = [], 0, reader.varint()
    while left and count < len(members):
        images = reader.varint()
        if images > len(members):
            break
        sets.append(read_heads(reader, images, max_pixels))
        max_pixels -= count_pixels(sets[-1])
        count, left = count + (images or 1), left - 1
    if left or reader.rest() or {*contents} != {*range(count)}:
        raise CorruptError("malformed header of a group")
    reader, parts = Reader(body, allowance=reader.allowance), []
    for number, entries in enumerate(sets):
        part = reader.rest() if number == len(sets) - 1 else reader.take(reader.varint())
        inner = Reader(part, allowance=reader.allowance)
        parts.append(read_tail(entries, inner) if entries else _read_file(inner))
    return ArchiveGroup(members, contents, tuple(parts))


def unpack_members(header: bytes) -> tuple[Member, ...]:
    """The members of a group, from its packed header; raises CorruptError."""
    return _read_members(header)[1]


def _count(part: Group | Verbatim) -> int:
    return 1 if isinstance(part, Verbatim) else len(part.entries)


def _pack_part(part: Group | Verbatim) -> bytes:
    return _checksum(part.data) + pack_tagged(part.data) if isinstance(part, Verbatim) else part.tail()


def _read_file(reader: Reader) -> Verbatim:
    checksum = reader.take(CHECKSUM_BYTES)
    data = read_section(reader, reader.byte())
    if reader.rest() or _checksum(data) != checksum:
        raise CorruptError("a file in the archive does not match its checksum")
    return Verbatim(data)


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:CHECKSUM_BYTES]


def _read_members(header: bytes) -> tuple[Reader, tuple[Member, ...], tuple[int, ...]]:
    """(reader of the rest, members, contents) of a packed group header; raises CorruptError."""
    reader = read_tagged(header)
    count = reader.varint()
    if not 0 < count <= MAX_MEMBERS:
        raise CorruptError("malformed header of a group")
    contents = _sums([unfolded(reader.varint()) for _ in range(count)], step=1)
    names = [read_name(reader) for _ in range(count)]
    seconds, nanoseconds = [], []
    for _ in range(count):
        seconds.append(unfolded(reader.varint()))
        nanoseconds.append(reader.varint())
    modes = [reader.varint() for _ in range(count)]
    if any(each >= _SECOND for each in nanoseconds) or any(mode > 0o777 for mode in modes) or clashes(names):
        raise CorruptError("malformed header of a group")
    times = [second * _SECOND + rest for second, rest in zip(_sums(seconds), nanoseconds)]
    return reader, tuple(map(Member, names, times, modes)), tuple(contents)


def _pack_stamps(members: Sequence[Member]) -> bytes:
    """The fields times and modes."""
    seconds, nanoseconds = zip(*(divmod(member.mtime_ns, _SECOND) for member in members))
    times = [part for second, rest in zip(_differences(seconds), nanoseconds) for part in (second, write_varint(rest))]
    return b"".join([*times, *(write_varint(member.mode) for member in members)])


def _differences(values: Sequence[int], step: int = 0) -> list[bytes]:
    """Each value minus the value before minus step, as a signed varint. The value before the first is -step."""
    steps = [value - last - step for value, last in zip(values, [-step, *values])]
    return [write_varint(folded(each)) for each in steps]


def _sums(steps: Sequence[int], step: int = 0) -> list[int]:
    """The inverse of _differences, given the signed numbers."""
    return [*itertools.accumulate(steps, lambda last, each: last + each + step, initial=-step)][1:]
