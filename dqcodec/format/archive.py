"""The archive as bytes: many files in groups that can be read independently. docs/format.md
is its specification; the two must agree.

    archive      magic, version, models, groups, index blocks, models again, end     Writer
    frame        mark, archive id, number, lengths, header, CRC, body, CRC           frame.py: pack_frame, read_frame
    group        a frame. header: members and heads; body: payloads                  pack_group, unpack_group
    index block  a frame without a body: places and names of groups                  pack_block, unpack_block
    model        a frame: what changes another model                                 pack_model, unpack_model

A group has parts: sets of images that are coded together, and verbatim files. Their images and files are its contents,
numbered through all parts; equal members share one.

A group holds its archive id, its number and its names, and a CRC covers these and its images. So a reader can find the
groups without the index: it searches for marks, and accepts a frame if the CRC is right. Damage in one place costs at
most one group, and a name never leads to the image of another. The index saves time; it also gives the names of a
damaged group. After a whole group the search goes on at its end, because a verbatim file in it may be an archive. Many
groups may need one model; so each model is there twice, far apart.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, NamedTuple

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import folded, unfolded, write_varint
from dqcodec.format.container import CHECKSUM_BYTES, CRC_BYTES, Group, crc_field, joined, read_tail
from dqcodec.format.frame import GROUP_MARK, ID_BYTES, INDEX_MARK, MARK, MODEL_MARK, pack_frame
from dqcodec.format.head import count_pixels, pack_heads, read_heads
from dqcodec.format.layer import MODEL_ID_BYTES
from dqcodec.format.names import MAX_NAME_BYTES, clashes, is_name
from dqcodec.format.section import pack_section, read_section
from dqcodec.png import MAX_PIXELS

MAGIC = b"\x89DQA"
VERSION = 2
START = MAGIC + bytes([VERSION])
END_MARK = MARK + b"E"
_END_FIELDS = struct.Struct(f"<{ID_BYTES}sII")
END_BYTES = len(END_MARK) + _END_FIELDS.size + CRC_BYTES
MAX_MEMBERS = 1 << 12
MODEL_COPIES = 2  # of a model in an archive
_SECOND = 10**9
_BLOCK_BYTES = 1 << 15  # an index block ends once its list of groups is longer


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
class OwnModel:
    """A model that an archive brings: the changes of another, its base, as exact.autoregressive.changes has them."""

    base: bytes
    changes: bytes

    @cached_property
    def id(self) -> bytes:
        """The id by which layers refer to the model, 8 bytes."""
        return hashlib.sha256(self.base + self.changes).digest()[:MODEL_ID_BYTES]


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


def is_archive(start: bytes) -> bool:
    """Whether a file with this start is an archive."""
    return start.startswith(MAGIC)


class End(NamedTuple):
    """The end of an archive. groups: their number. index_bytes: of the index blocks and the models after them."""

    archive_id: bytes
    groups: int
    index_bytes: int

    def pack(self) -> bytes:
        """The end as bytes, END_BYTES of them."""
        end = END_MARK + _END_FIELDS.pack(*self)
        return end + crc_field(zlib.crc32(end))


def unpack_end(data: bytes) -> End | None:
    """The end of an archive; None if the bytes are something else, or its CRC is wrong."""
    if len(data) != END_BYTES:
        return None
    end = End(*_END_FIELDS.unpack_from(data, len(END_MARK)))
    return end if end.pack() == data else None


def pack_group(group: ArchiveGroup) -> PackedGroup:
    """The header and the body of a group."""
    return PackedGroup(group.members, pack_header(group), joined([_pack_part(part) for part in group.parts]))


def pack_header(group: ArchiveGroup) -> bytes:
    """The packed header of a group: chunks packed for each image or all together, whichever is smaller."""
    start = [write_varint(len(group.members)), *_differences(group.contents, step=1)]
    start += [_pack_names(member.name for member in group.members), _pack_stamps(group.members)]
    start.append(write_varint(len(group.parts)))

    def packed(are_lone: bool) -> bytes:
        heads = [
            write_varint(0)
            if isinstance(part, Verbatim)
            else write_varint(len(part.entries)) + pack_heads(part.entries, are_lone=are_lone)
            for part in group.parts
        ]
        return _pack(b"".join(start + heads))

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


def pack_model(model: OwnModel) -> tuple[bytes, bytes]:
    """The packed header and the body of a model."""
    return _pack(model.id + model.base), _pack(model.changes)


def unpack_model_id(header: bytes) -> tuple[bytes, bytes]:
    """(model id, id of the base) in the packed header of a model; raises CorruptError."""
    ids = _unpack(header).rest()
    if len(ids) != 2 * MODEL_ID_BYTES:
        raise CorruptError("malformed model in an archive")
    return ids[:MODEL_ID_BYTES], ids[MODEL_ID_BYTES:]


def unpack_model(header: bytes, body: bytes) -> OwnModel:
    """The inverse of pack_model; raises CorruptError."""
    model_id, base = unpack_model_id(header)
    model = OwnModel(base, _unpack(body).rest())
    if model.id != model_id:
        raise CorruptError("a model in the archive does not match its id")
    return model


def unpack_members(header: bytes) -> tuple[Member, ...]:
    """The members of a group, from its packed header; raises CorruptError."""
    return _read_members(header)[1]


@dataclass(frozen=True)
class Block:
    """An index block.

    groups: number of groups in the archive. offset: of the block's first group, bytes. places: (length in bytes, names)
    of each of the block's groups.
    """

    groups: int
    offset: int
    places: tuple[tuple[int, tuple[str, ...]], ...]


def pack_block(groups: int, offset: int, places: Sequence[bytes]) -> bytes:
    """The packed header of an index block. groups, offset: see Block. places: of each group, as bytes."""
    return _pack(write_varint(groups) + offset.to_bytes(8, "little") + write_varint(len(places)) + b"".join(places))


def unpack_block(header: bytes) -> Block:
    """The inverse of pack_block; raises CorruptError."""
    reader = _unpack(header)
    groups, offset, places = reader.varint(), int.from_bytes(reader.take(8), "little"), []
    left, start = reader.varint(), reader.position
    while left and reader.position - start <= _BLOCK_BYTES:
        size, names = reader.varint(), []
        while len(names) < MAX_MEMBERS and reader.data[reader.position : reader.position + 1] != b"\0":
            names.append(_read_name(reader))
        if reader.take(1) != b"\0" or not names:
            raise CorruptError("malformed index of the archive")
        places.append((size, tuple(names)))
        left -= 1
    if left or reader.rest() or not places:
        raise CorruptError("malformed index of the archive")
    return Block(groups, offset, tuple(places))


def model_bytes(model: OwnModel) -> int:
    """The bytes that an archive takes for a model, all copies."""
    return MODEL_COPIES * len(pack_frame(MODEL_MARK, bytes(ID_BYTES), 0, *pack_model(model)))


class Writer:
    """Writes an archive to a stream: `add` each group, then `finish`. Errors are those of the stream."""

    def __init__(self, stream: BinaryIO, models: Sequence[OwnModel] = (), *, state: bytes = b""):
        """Write the magic and the version.

        models: those that groups need and that are not shipped. state: what tells the archive from others that begin
        with the same group, such as all its names and times.
        """
        self._stream, self._state, self._id = stream, state, bytes(ID_BYTES)
        self._models = [(number, *pack_model(model)) for number, model in enumerate(models)]
        self._offset = len(START)  # of group 0
        self._places: list[tuple[int, bytes]] = []  # (length of the frame, the group's place in an index block)
        stream.write(START)

    def add(self, group: PackedGroup) -> None:
        """Write a group."""
        if not self._places:
            self._id = hashlib.sha256(group.header + group.body + self._state).digest()[:ID_BYTES]
            self._stream.write(self._model_frames())
            self._offset += len(self._model_frames())
        frame = pack_frame(GROUP_MARK, self._id, len(self._places), group.header, group.body)
        self._stream.write(frame)
        self._places.append((len(frame), _pack_place(len(frame), (member.name for member in group.members))))

    def finish(self) -> None:
        """Write the index, the models again, and the end."""
        index = b"".join(self._blocks()) + (self._model_frames() if self._places else b"")
        self._stream.write(index + End(self._id, len(self._places), len(index)).pack())

    def _model_frames(self) -> bytes:
        return b"".join(pack_frame(MODEL_MARK, self._id, *each) for each in self._models)

    def _blocks(self) -> Iterator[bytes]:
        """The frames of the index blocks."""
        first, size, start, offset, groups = 0, 0, self._offset, self._offset, len(self._places)
        for stop, (length, place) in enumerate(self._places, 1):
            size, offset = size + len(place), offset + length
            if size > _BLOCK_BYTES or stop == groups:
                places = [place for _, place in self._places[first:stop]]
                yield pack_frame(INDEX_MARK, self._id, first, pack_block(groups, start, places))
                first, size, start = stop, 0, offset


def _count(part: Group | Verbatim) -> int:
    return 1 if isinstance(part, Verbatim) else len(part.entries)


def _pack(raw: bytes) -> bytes:
    packing, section = pack_section(raw)
    return bytes([packing]) + section


def _unpack(header: bytes) -> Reader:
    """A reader of a packed header's content; raises CorruptError."""
    reader = Reader(header)
    raw = read_section(reader, reader.byte())
    if reader.rest():
        raise CorruptError("malformed header in an archive")
    return Reader(raw, allowance=reader.allowance)


def _pack_part(part: Group | Verbatim) -> bytes:
    return _checksum(part.data) + _pack(part.data) if isinstance(part, Verbatim) else part.tail()


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
    reader = _unpack(header)
    count = reader.varint()
    if not 0 < count <= MAX_MEMBERS:
        raise CorruptError("malformed header of a group")
    contents = _sums([unfolded(reader.varint()) for _ in range(count)], step=1)
    names = [_read_name(reader) for _ in range(count)]
    seconds, nanoseconds = [], []
    for _ in range(count):
        seconds.append(unfolded(reader.varint()))
        nanoseconds.append(reader.varint())
    modes = [reader.varint() for _ in range(count)]
    if any(each >= _SECOND for each in nanoseconds) or any(mode > 0o777 for mode in modes) or clashes(names):
        raise CorruptError("malformed header of a group")
    times = [second * _SECOND + rest for second, rest in zip(_sums(seconds), nanoseconds)]
    return reader, tuple(map(Member, names, times, modes)), tuple(contents)


def _pack_place(length: int, names: Iterable[str]) -> bytes:
    """The place of a group in an index block."""
    return write_varint(length) + _pack_names(names) + b"\0"


def _pack_names(names: Iterable[str]) -> bytes:
    return b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)


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


def _read_name(reader: Reader) -> str:
    end = reader.data.find(b"\0", reader.position, reader.position + MAX_NAME_BYTES + 1)
    name = reader.take(max(end, reader.position) - reader.position).decode("utf-8", "surrogateescape")
    reader.take(1)
    if not is_name(name):
        raise CorruptError("the archive has a file with an invalid name")
    return name
