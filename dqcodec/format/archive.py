"""Archives: many images in one .dqc file, each of which can be read without most of the others.

Images are coded in groups; those of a group share what methods learn, and damage does not leave its group. The format, version
1; varint, section, heads, checksum and payloads are those of container.py:

    4      magic       89 44 51 41 ("\x89DQA")
    1      version     1
    *      groups      one after the other
    *      index       see below
    4      length      of the index, bytes, little-endian
    4      CRC-32      of magic, version, index and length, little-endian

A group:

    1-5    images      varint, 1 to 4096
    1      packing     of the section that follows: 1 raw, 2 deflate, 3 LZMA
    *      heads       section: the heads of all images; the pixels of all of them together are limited
    8      checksum    of the samples of all images that are not stored; absent if all are
    *      payloads
    4      CRC-32      of the group before it, little-endian

The index: 1 byte, the packing, and a section:

    1-5    groups      varint; then for each its bytes and its images, varints
    *      names       for each image, a relative path in UTF-8 (other bytes as Python's surrogateescape has them), parts set
                       apart by /, none of them empty, . or .., 4096 bytes at most; and a byte 0. No name twice, none a folder of another
    *      times       for each image: the seconds of its modification since 1970 less those of the image before it, a varint,
                       the sign moved to the lowest bit; nanoseconds beyond, a varint
    *      modes       for each image: its permissions, a varint below 512
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from dqcodec.base.errors import CorruptError, FormatError
from dqcodec.base.varint import write_varint
from dqcodec.codec import codec
from dqcodec.format.container import (
    CRC_BYTES,
    Group,
    Reader,
    checked_reader,
    pack_section,
    read_heads,
    read_section,
    read_tail,
)
from dqcodec.png import MAX_PIXELS

if TYPE_CHECKING:
    from dqcodec.exact.program import FindProgram

MAGIC = b"\x89DQA"
VERSION = 1
_START = MAGIC + bytes([VERSION])
_END_BYTES = 4 + CRC_BYTES
_SECOND = 10**9
MAX_GROUP_IMAGES = 1 << 12
_MAX_NAME_BYTES = 1 << 12


@dataclass(frozen=True)
class Member:
    """An image's name, a relative path; when it was modified, nanoseconds since 1970; and its permissions."""

    name: str
    mtime_ns: int = 0
    mode: int = 0o644


def is_archive(start: bytes) -> bool:
    """Whether a file that starts so is an archive."""
    return start.startswith(MAGIC)


def pack_group(group: Group) -> bytes:
    """The bytes of a group in an archive."""
    packing, heads = pack_heads(group)
    body = b"".join((write_varint(len(group.entries)), bytes([packing]), heads, group.tail()))
    return body + zlib.crc32(body).to_bytes(CRC_BYTES, "little")


def pack_heads(group: Group) -> tuple[int, bytes]:
    """(packing, section) of a group's heads. Palettes and texts that are alike are often smaller when packed together."""
    sections = [pack_section(group.heads(are_lone=are_lone)) for are_lone in (True, False)]
    return min(sections, key=lambda each: len(each[1]))


def parse_group(data: bytes, max_pixels: int = MAX_PIXELS) -> Group:
    """Undo pack_group; raises CorruptError, and UnsupportedImageError for more than `max_pixels` in all images together."""
    reader = checked_reader(data, b"", None, "group of images")
    count = reader.varint()
    if not 0 < count <= MAX_GROUP_IMAGES:
        raise CorruptError("malformed group of images")
    heads = read_section(reader, *reader.take(1))
    inner = Reader(heads, 0, len(heads))
    entries = read_heads(inner, count, max_pixels)
    if inner.rest():
        raise CorruptError("malformed group of images")
    return read_tail(entries, reader)


class Writer:
    """Writes an archive, group by group, to a stream; `finish` writes its index."""

    def __init__(self, stream: BinaryIO):
        self._stream, self._members, self._groups = stream, [], []
        stream.write(_START)

    def add(self, members: Sequence[Member], group: bytes) -> None:
        """A group, as pack_group makes it, of so many images."""
        self._stream.write(group)
        self._groups.append((len(group), len(members)))
        self._members += members

    def finish(self) -> None:
        packing, section = pack_section(_pack_index(self._members, self._groups))
        index = bytes([packing]) + section
        end = index + len(index).to_bytes(4, "little")
        self._stream.write(end + zlib.crc32(_START + end).to_bytes(CRC_BYTES, "little"))


class Archive(Mapping[str, bytes]):
    """The images of an archive, name -> PNG file, in the order of the archive; read and decoded when asked for.

    The group decoded last is kept, so that going through the images in order decodes each group once. members: name ->
    Member. Lookup raises KeyError, and what codec.decompress raises.
    """

    def __init__(self, file: str | os.PathLike | BinaryIO, find_program: FindProgram | None = None, max_pixels: int = MAX_PIXELS):
        """find_program: by a model's id; None finds the models at hand. Raises OSError, FormatError, CorruptError."""
        self._file = open(file, "rb") if isinstance(file, (str, os.PathLike)) else file
        try:
            members, self._groups = _read_index(self._file)
        except BaseException:
            self.close()
            raise
        self._find_program, self._max_pixels = find_program, max_pixels
        self.members = {member.name: member for member in members}
        counts = [count for *_, count in self._groups]
        places = [(group, number) for group, count in enumerate(counts) for number in range(count)]
        self._places = dict(zip(self.members, places))
        self._last: tuple[int, Group, list] | None = None

    def __getitem__(self, name: str) -> bytes:
        group, number = self._places[name]
        if self._last is None or self._last[0] != group:
            parsed = self.group(group)
            self._last = group, parsed, codec.decode(parsed, self._find_program or _find_at_hand(), self._max_pixels)
        _, parsed, images = self._last
        return codec.restore(parsed.entries[number], images[number])

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def group_sizes(self) -> list[tuple[int, int]]:
        """(bytes, images) of each group."""
        return [(length, count) for _, length, count in self._groups]

    def group(self, number: int) -> Group:
        """A group, parsed; raises OSError, CorruptError, UnsupportedImageError."""
        offset, length, count = self._groups[number]
        self._file.seek(offset)
        group = parse_group(self._file.read(length), self._max_pixels)
        if len(group.entries) != count:
            raise CorruptError("a group does not hold the images that the index names")
        return group


def _find_at_hand() -> Callable:
    from dqcodec.codec import zoo

    return zoo.find


def _pack_index(members: Sequence[Member], groups: Sequence[tuple[int, int]]) -> bytes:
    out = [write_varint(len(groups))] + [write_varint(number) for sizes in groups for number in sizes]
    out += [member.name.encode("utf-8", "surrogateescape") + b"\0" for member in members]
    last = 0
    for member in members:
        second, rest = divmod(member.mtime_ns, _SECOND)
        difference = second - last
        out += [write_varint(2 * difference if difference >= 0 else -2 * difference - 1), write_varint(rest)]
        last = second
    return b"".join(out + [write_varint(member.mode) for member in members])


def _read_index(file: BinaryIO) -> tuple[list[Member], list[tuple[int, int, int]]]:
    """(members, (offset, bytes, images) of each group); raises FormatError, CorruptError."""
    start = file.read(len(_START))
    size = file.seek(0, os.SEEK_END)
    if start[: len(MAGIC)] != MAGIC:
        raise FormatError("not an archive")
    file.seek(max(0, size - _END_BYTES))
    length = int.from_bytes(file.read(4), "little")
    offset = size - _END_BYTES - length
    if offset < len(_START):
        raise CorruptError("truncated archive")
    file.seek(offset)
    reader = checked_reader(start + file.read(), MAGIC, VERSION, "archive")
    index = read_section(reader, *reader.take(1))
    inner = Reader(index, 0, len(index))
    groups, position = [], len(_START)
    for _ in range(inner.varint()):
        bytes_, images = inner.varint(), inner.varint()
        if not (bytes_ and 0 < images <= MAX_GROUP_IMAGES) or position + bytes_ > offset:
            raise CorruptError("malformed index of the archive")
        groups.append((position, bytes_, images))
        position += bytes_
    count = sum(images for *_, images in groups)
    if position != offset or len(reader.rest()) != 4 or count > len(index):
        raise CorruptError("malformed index of the archive")
    names = [_read_name(inner) for _ in range(count)]
    known = {*names}
    if len(known) < count or any(str(folder) in known for name in names for folder in PurePosixPath(name).parents):
        raise CorruptError("the archive has two images of one name")
    times, second = [], 0
    for _ in range(count):
        code = inner.varint()
        second += -(code + 1 >> 1) if code & 1 else code >> 1
        nanoseconds = inner.varint()
        if nanoseconds >= _SECOND:
            raise CorruptError("malformed index of the archive")
        times.append(second * _SECOND + nanoseconds)
    modes = [inner.varint() for _ in range(count)]
    if inner.rest() or any(mode > 0o777 for mode in modes):
        raise CorruptError("malformed index of the archive")
    return list(map(Member, names, times, modes)), groups


def _read_name(reader: Reader) -> str:
    end = reader.data.find(b"\0", reader.position)
    name = reader.take(max(end, reader.position) - reader.position).decode("utf-8", "surrogateescape")
    reader.take(1)
    if len(name) > _MAX_NAME_BYTES or any(part in ("", ".", "..") for part in name.split("/")):
        raise CorruptError("the archive has an image of an impossible name")
    return name
