"""Finds the groups of an archive: by its index, or by scanning the file if the index is damaged.

read_index(file) -> Directory | None      quick; None if anything is inconsistent
scan(file) -> [Directory, ...]            reads the whole file; one Directory for each archive in it
read_frame(file, offset) -> Frame | None  the group, index block or model at this place, if its header is whole
"""

from __future__ import annotations

import io
import itertools
import os
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import read_varint
from dqcodec.format.archive import (
    END_BYTES,
    END_MARK,
    GROUP_MARK,
    ID_BYTES,
    INDEX_MARK,
    MARK,
    MODEL_MARK,
    START,
    ArchiveGroup,
    Block,
    OwnModel,
    unpack_block,
    unpack_group,
    unpack_members,
    unpack_model,
    unpack_model_id,
)
from dqcodec.format.container import CRC_BYTES

_PIECE = 1 << 20  # bytes read at a time
_MAX_SIZES = 3 * 5  # bytes of a frame's varints
_WORK = 4  # a scan reads at most 4 times the file and 64 MiB, because the frames of a hostile file may overlap


class Positional:
    """A file that several threads can read at once, each at its own place. size: in bytes."""

    def __init__(self, file: BinaryIO):
        """file: seekable."""
        self._file, self._lock = file, threading.Lock()
        raw = getattr(file, "raw", file)
        self._has_pread = (
            isinstance(file, io.BufferedReader | io.FileIO) and isinstance(raw, io.FileIO) and hasattr(os, "pread")
        )
        with self._lock:
            self.size = file.seek(0, os.SEEK_END)

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on, or fewer at the end of the file; raises OSError."""
        count = max(0, min(count, self.size - offset))
        if not self._has_pread:
            with self._lock:
                self._file.seek(offset)
                return self._file.read(count)
        parts = []
        while count and (part := os.pread(self._file.fileno(), count, offset)):
            parts.append(part)
            offset, count = offset + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True)
class Frame:
    """A group, an index block or a model whose header is whole.

    offset, body_offset: places in the file, bytes. body_bytes: length of the body. crc: CRC-32 up to the header's end.
    """

    mark: bytes
    archive_id: bytes
    number: int
    header: bytes
    offset: int
    body_offset: int
    body_bytes: int
    crc: int

    @property
    def end(self) -> int:
        """The offset after the frame."""
        return self.body_offset + self.body_bytes + (CRC_BYTES if self.body_bytes else 0)


@dataclass(frozen=True)
class GroupPlace:
    """A group's place: its number, its offset and length in bytes, and the names of its members."""

    number: int
    offset: int
    length: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Damage:
    """Damage of an archive.

    what: in a few words. names: the lost members whose names are known. is_loss: whether members are lost, or may be.
    """

    what: str
    names: tuple[str, ...] = ()
    is_loss: bool = True


@dataclass(frozen=True)
class ModelPlace:
    """The place of a copy of a model: its offset and length in bytes; model_id, base: of the model."""

    model_id: bytes
    base: bytes
    offset: int
    length: int


@dataclass(frozen=True)
class Directory:
    """The whole groups of an archive, in order, and its damage.

    lost: the damaged groups whose names are known. models: copies of models; their bodies may be damaged.
    """

    archive_id: bytes
    places: list[GroupPlace]
    damage: list[Damage] = field(default_factory=list)
    lost: list[GroupPlace] = field(default_factory=list)
    models: list[ModelPlace] = field(default_factory=list)


def read_index(file: Positional) -> Directory | None:
    """The groups, from the index of an archive that fills the file; None if anything contradicts the index."""
    end = file.read(file.size - END_BYTES, END_BYTES) if file.size >= len(START) + END_BYTES else b""
    if not _is_end(end) or file.read(0, len(START)) != START:
        return None
    archive_id, count, length = end[4 : 4 + ID_BYTES], *(int.from_bytes(end[at : at + 4], "little") for at in (8, 12))
    start = position = file.size - END_BYTES - length
    if start < len(START):
        return None
    places, offset = [], None
    while (frame := read_frame(file, position)) and frame.mark == INDEX_MARK:
        block = _read(unpack_block, frame)
        offset = block.offset if block and offset is None else offset
        found = block and (frame.archive_id, frame.number, block.groups, block.offset)
        if found != (archive_id, len(places), count, offset):
            return None
        for size, names in block.places:
            places.append(GroupPlace(len(places), offset, size, names))
            offset += size
        position = frame.end
    again, stop = _read_models(file, position)
    models, first = _read_models(file, len(START)) if again else ([], len(START))
    if stop != file.size - END_BYTES or len(places) != count or _ids(again) != _ids(models):
        return None
    if (places[0].offset, offset) != (first, start) if places else start != first:
        return None
    return Directory(archive_id, places, models=models + again)


def _read_models(file: Positional, position: int) -> tuple[list[ModelPlace], int]:
    """The models from a place on, and the offset after them."""
    models = []
    while (frame := read_frame(file, position)) and (model := _model_place(frame)):
        models.append(model)
        position = frame.end
    return models, position


def _model_place(frame: Frame) -> ModelPlace | None:
    """The place of a model; None if the frame is none."""
    ids = _read(unpack_model_id, frame) if frame.mark == MODEL_MARK else None
    return ids and ModelPlace(*ids, frame.offset, frame.end - frame.offset)


def _ids(models: Sequence[ModelPlace]) -> list[bytes]:
    return [model.model_id for model in models]


def read_frame(file: Positional | _Scan, offset: int) -> Frame | None:
    """The frame at `offset`; None if there is no frame, or its header is damaged."""
    start = file.read(offset, len(MARK) + 1 + ID_BYTES + _MAX_SIZES)
    mark, archive_id = start[:4], start[4 : 4 + ID_BYTES]
    if mark not in (GROUP_MARK, INDEX_MARK, MODEL_MARK):
        return None
    sizes, position = [], 4 + ID_BYTES
    try:
        for _ in range(3):
            value, position = read_varint(start, position)
            sizes.append(value)
    except CorruptError:
        return None
    number, header_bytes, body_bytes = sizes
    if offset + position + header_bytes + CRC_BYTES > file.size or (mark != INDEX_MARK) != (body_bytes > 0):
        return None
    stop = offset + position + header_bytes
    crc = _crc(file, offset, stop)  # checked in pieces, before the header takes memory
    if file.read(stop, CRC_BYTES) != crc.to_bytes(CRC_BYTES, "little"):
        return None
    header = file.read(offset + position, header_bytes)
    if zlib.crc32(header, zlib.crc32(start[:position])) != crc:
        return None
    return Frame(mark, archive_id, number, header, offset, stop + CRC_BYTES, body_bytes, crc)


def load_group(file: Positional, archive_id: bytes, place: GroupPlace, max_pixels: int) -> ArchiveGroup:
    """Read the group at a place.

    Raises CorruptError (damaged, or another group or other names than expected), UnsupportedImageError (all images
    together have more than `max_pixels`), OSError.
    """
    frame = read_frame(file, place.offset)
    if frame is None or frame.mark != GROUP_MARK or frame.end - frame.offset != place.length:
        raise CorruptError("damaged group of files")
    if (frame.archive_id, frame.number) != (archive_id, place.number):
        raise CorruptError("another group is at the place that the index gives")
    body = _load_body(file, frame)
    if body is None:
        raise CorruptError("damaged group of files (its CRC differs)")
    group = unpack_group(frame.header, body, max_pixels)
    if tuple(member.name for member in group.members) != place.names:
        raise CorruptError("a group holds other files than the index names")
    return group


def load_model(file: Positional, place: ModelPlace) -> OwnModel | None:
    """The model at a place, or None if this copy is damaged. Raises OSError."""
    frame = read_frame(file, place.offset)
    if frame is None or _model_place(frame) != place:
        return None
    body = _load_body(file, frame)
    try:
        return body and unpack_model(frame.header, body)
    except CorruptError:
        return None


def _load_body(file: Positional, frame: Frame) -> bytes | None:
    """The body of a frame, or None if it is damaged."""
    data = file.read(frame.body_offset, frame.body_bytes + CRC_BYTES)
    body, crc = data[: frame.body_bytes], data[frame.body_bytes :]
    return body if zlib.crc32(body, frame.crc).to_bytes(CRC_BYTES, "little") == crc else None


def scan(file: Positional) -> list[Directory]:
    """All archives with a group, an index block or an end in the file, in order of appearance. Raises OSError."""
    return _Scan(file).run()


@dataclass
class _Found:
    """What a scan has found of one archive.

    Two archives with the same first group have the same id. If both are in the file, groups of one number differ; each
    `occurrence` of the id is then one archive.
    """

    archive_id: bytes
    occurrence: int
    places: dict[int, tuple[GroupPlace, bytes]] = field(default_factory=dict)  # number -> (place, CRC after the body)
    damaged: dict[int, tuple[str, ...]] = field(default_factory=dict)  # number -> names in the header
    indexed: dict[int, tuple[str, ...]] = field(default_factory=dict)  # number -> names in the index
    blocks: int | None = None  # number of groups by the index
    end: int | None = None  # number of groups by the end
    models: list[ModelPlace] = field(default_factory=list)
    damaged_models: list[ModelPlace] = field(default_factory=list)

    def directory(self, unread: int) -> Directory:
        """The result of the scan. unread: bytes of the file outside all frames."""
        places = [place for _, (place, _) in sorted(self.places.items())]
        named = self.indexed | self.damaged
        lost = [GroupPlace(number, 0, 0, named[number]) for number in sorted(named.keys() - self.places.keys())]
        damage = [Damage(f"group {place.number} is damaged or missing", place.names) for place in lost]
        damage += self._nameless(sorted(self.places.keys() | named.keys())) if self.occurrence == 0 else []
        damage += self._odd(0 if damage else unread)
        return Directory(self.archive_id, places, damage, lost, self.models + self.damaged_models)

    def _nameless(self, known: list[int]) -> list[Damage]:
        """The groups that are lost together with their names. known: numbers of the other groups."""
        damage = []
        total = max((each for each in (self.blocks, self.end) if each is not None), default=None)
        for last, number in itertools.pairwise([-1, *known, *([] if total is None else [max(total, *known, 0)])]):
            if number - last > 1:
                which = f"group {last + 1} is" if number - last == 2 else f"groups {last + 1} to {number - 1} are"
                damage.append(Damage(f"{which} lost, and the names are not known"))
        if total is None:
            after = f"all after group {known[-1]}" if known else "all files"
            damage.append(Damage(f"its end is missing: {after} may be lost"))
        return damage

    def _odd(self, unread: int) -> list[Damage]:
        """Damage that loses nothing."""
        damage = []
        if self.end is None or self.indexed.keys() != {*range(self.end)} or self.blocks not in (None, self.end):
            damage.append("its index is damaged")
        elif any(
            self.indexed[number] != place.names for number, (place, _) in self.places.items() if number in self.indexed
        ):
            damage.append("its index gives other names than a group")
        whole = {*_ids(self.models)}
        for model_id in dict.fromkeys(_ids(self.damaged_models)):
            damage.append("a copy of its model is damaged" if model_id in whole else "its model is damaged")
        if unread:
            damage.append(f"{unread} bytes are not part of a whole group")
        return [Damage(what, is_loss=False) for what in damage]


class _Scan:
    """Searches a file for marks, and skips each whole frame."""

    def __init__(self, file: Positional):
        self.file, self.work = file, _WORK * file.size + (1 << 26)
        self.size = file.size
        self.found: dict[tuple[bytes, int], _Found] = {}
        self._piece, self._piece_offset = b"", 0
        # (archive id, end) of a damaged group's body; other archives inside are files of the group
        self._inside = b"", 0

    def read(self, offset: int, count: int) -> bytes:
        self.work -= count
        return self.file.read(offset, count)

    def run(self) -> list[Directory]:
        position = covered = unread = 0
        while self.work > 0 and (start := self._next_mark(position)) is not None:
            past = self._take(start)
            position = past or start + 1
            if past:
                unread += self._unread(covered, start)
                covered = past
        unread += self._unread(covered, self.size)
        return [each.directory(0 if number else unread) for number, each in enumerate(self.found.values())]

    def _next_mark(self, position: int) -> int | None:
        """The offset of the next mark from `position` on, or None."""
        while position + len(MARK) <= self.size:
            if not 0 <= position - self._piece_offset <= len(self._piece) - len(MARK):
                self._piece, self._piece_offset = self.read(position, _PIECE), position
            at = self._piece.find(MARK, position - self._piece_offset)
            if at >= 0:
                return self._piece_offset + at
            position = self._piece_offset + max(1, len(self._piece) - len(MARK) + 1)
        return None

    def _take(self, start: int) -> int | None:
        """Record the frame or the end at a mark. Returns the offset after it, or None if there is neither."""
        frame, (archive_id, stop) = read_frame(self, start), self._inside
        if frame:
            if start < stop and frame.archive_id != archive_id:
                return None
            take = {INDEX_MARK: self._take_block, GROUP_MARK: self._take_group, MODEL_MARK: self._take_model}
            return take[frame.mark](frame)
        end = self.read(start, END_BYTES)
        if not _is_end(end) or start < stop and end[4 : 4 + ID_BYTES] != archive_id:
            return None
        self._archive(end[4 : 4 + ID_BYTES]).end = int.from_bytes(end[8:12], "little")
        return start + END_BYTES

    def _take_block(self, frame: Frame) -> int | None:
        block = _read(unpack_block, frame)
        if block is None:
            return None
        archive = self._archive(frame.archive_id)
        archive.blocks = max(archive.blocks or 0, block.groups)
        for number, (_, names) in enumerate(block.places, frame.number):
            self._offer(frame, "indexed", number, names)
        return frame.end

    def _take_model(self, frame: Frame) -> int | None:
        place = _model_place(frame)
        if place is None:
            return None
        archive, is_whole = self._archive(frame.archive_id), _body_crc(self, frame) is not None
        (archive.models if is_whole else archive.damaged_models).append(place)
        return frame.end if is_whole else frame.body_offset

    def _take_group(self, frame: Frame) -> int | None:
        members = _read(unpack_members, frame)
        if members is None:
            return None
        names, crc = tuple(member.name for member in members), _body_crc(self, frame)
        if crc is not None:
            group = GroupPlace(frame.number, frame.offset, frame.end - frame.offset, names), crc
            self._offer(frame, "places", frame.number, group, key=lambda each: each[1])
            return frame.end
        self._offer(frame, "damaged", frame.number, names)
        follows = self.read(frame.end, 4 + ID_BYTES)
        if follows[:4] in (GROUP_MARK, INDEX_MARK) and follows[4:] == frame.archive_id:
            self._inside = frame.archive_id, frame.end
        return frame.body_offset

    def _archive(self, archive_id: bytes, occurrence: int = 0) -> _Found:
        return self.found.setdefault((archive_id, occurrence), _Found(archive_id, occurrence))

    def _offer(self, frame: Frame, field: str, number: int, value: tuple, key: Callable = lambda value: value) -> None:
        """Give a value to the first occurrence of the frame's archive that has none of this number, or an equal one."""
        for occurrence in itertools.count():
            self.work -= 64
            values = getattr(self._archive(frame.archive_id, occurrence), field)
            if key(values.setdefault(number, value)) == key(value):
                return

    def _unread(self, start: int, stop: int) -> int:
        """The number of bytes between two frames; 0 if they are the magic and the version of an archive."""
        return 0 if stop - start == len(START) and self.read(start, len(START)) == START else stop - start


def _body_crc(file: Positional | _Scan, frame: Frame) -> bytes | None:
    """The CRC after a body, or None if it is wrong."""
    stop = frame.body_offset + frame.body_bytes
    if stop + CRC_BYTES > file.size:
        return None
    crc = _crc(file, frame.body_offset, stop, frame.crc).to_bytes(CRC_BYTES, "little")
    return crc if file.read(stop, CRC_BYTES) == crc else None


def _crc(file: Positional | _Scan, start: int, stop: int, crc: int = 0) -> int:
    """The CRC-32 of file[start:stop], read in pieces; crc: CRC-32 of the bytes before."""
    for position in range(start, stop, _PIECE):
        crc = zlib.crc32(file.read(position, min(_PIECE, stop - position)), crc)
    return crc


def _is_end(data: bytes) -> bool:
    crc = zlib.crc32(data[:-CRC_BYTES]).to_bytes(CRC_BYTES, "little")
    return len(data) == END_BYTES and data.startswith(END_MARK) and data.endswith(crc)


def _read(read: Callable, frame: Frame) -> Block | tuple | None:
    """Parse a frame's header; None if it is malformed although its CRC is right."""
    try:
        return read(frame.header)
    except CorruptError:
        return None
