"""Where the groups of an archive are: by its index, or, where that is damaged, by scanning the file for them.

    read_index(file) -> Directory | None      quick, None where anything is odd
    scan(file) -> [Directory, ...]            reads the whole file; one for each archive in it
    read_frame(file, offset) -> Frame | None  a group or an index block, if its header is whole there
"""

from __future__ import annotations

import io
import itertools
import os
import threading
import zlib
from collections.abc import Callable
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
    START,
    ArchiveGroup,
    Block,
    read_block,
    read_group,
    read_members,
)
from dqcodec.format.container import CRC_BYTES

_PIECE = 1 << 20  # bytes read at a time
_MAX_SIZES = 3 * 5  # bytes of a frame's varints
_WORK = 4  # a scan checks so many bytes for each byte of the file, or 64 MiB: hostile headers may overlap


class Positional:
    """A file of which any number of threads read any places at once. size: bytes."""

    def __init__(self, file: BinaryIO):
        self._file, self._lock = file, threading.Lock()
        raw = getattr(file, "raw", file)
        self._has_pread = isinstance(file, io.BufferedReader | io.FileIO) and isinstance(raw, io.FileIO) and hasattr(os, "pread")
        with self._lock:
            self.size = file.seek(0, os.SEEK_END)

    def read(self, offset: int, count: int) -> bytes:
        """So many bytes from a place on, fewer at the end of the file; raises OSError."""
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
    """A group or an index block whose header is whole. body: where it starts, and its bytes; crc: of the header."""

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
        return self.body_offset + self.body_bytes + (CRC_BYTES if self.body_bytes else 0)


@dataclass(frozen=True)
class Place:
    """Where a group is: its number, its first byte, its bytes, and the names that it must have."""

    number: int
    offset: int
    length: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Damage:
    """What is wrong with an archive, in a few words. names: of the members that are lost by it, as far as they are known;
    is_loss: whether something is, or may be, lost."""

    what: str
    names: tuple[str, ...] = ()
    is_loss: bool = True


@dataclass(frozen=True)
class Directory:
    """An archive's groups, in order, and what is wrong with it. lost: the groups of which only the names are whole."""

    archive_id: bytes
    places: list[Place]
    damage: list[Damage] = field(default_factory=list)
    lost: list[Place] = field(default_factory=list)


def read_index(file: Positional) -> Directory | None:
    """The groups as the index of an archive that fills the file gives them; None where anything contradicts that."""
    end = file.read(file.size - END_BYTES, END_BYTES) if file.size >= len(START) + END_BYTES else b""
    if not _is_end(end) or file.read(0, len(START)) != START:
        return None
    archive_id, count, length = end[4 : 4 + ID_BYTES], *(int.from_bytes(end[at : at + 4], "little") for at in (8, 12))
    start = position = file.size - END_BYTES - length
    offset, places = len(START), []
    while position < file.size - END_BYTES:
        frame = read_frame(file, position)
        block = _read(read_block, frame) if frame and frame.mark == INDEX_MARK else None
        if block is None or (frame.archive_id, frame.number, block.groups, block.offset) != (archive_id, len(places), count, offset):
            return None
        for size, names in block.places:
            places.append(Place(len(places), offset, size, names))
            offset += size
        position = frame.end
    if position != file.size - END_BYTES or len(places) != count or offset != start:
        return None
    return Directory(archive_id, places)


def read_frame(file: Positional | _Scan, offset: int) -> Frame | None:
    """The frame that starts at a place of the file; None where there is none, or its header is damaged."""
    start = file.read(offset, len(MARK) + 1 + ID_BYTES + _MAX_SIZES)
    mark, archive_id = start[:4], start[4 : 4 + ID_BYTES]
    if mark not in (GROUP_MARK, INDEX_MARK):
        return None
    sizes, position = [], 4 + ID_BYTES
    try:
        for _ in range(3):
            value, position = read_varint(start, position)
            sizes.append(value)
    except CorruptError:
        return None
    number, header_bytes, body_bytes = sizes
    if offset + position + header_bytes + CRC_BYTES > file.size or (mark == GROUP_MARK) != (body_bytes > 0):
        return None
    stop = offset + position + header_bytes
    crc = _crc(file, offset, stop)  # before what may be no header takes memory
    if file.read(stop, CRC_BYTES) != crc.to_bytes(CRC_BYTES, "little"):
        return None
    header = file.read(offset + position, header_bytes)
    if zlib.crc32(header, zlib.crc32(start[:position])) != crc:
        return None
    return Frame(mark, archive_id, number, header, offset, stop + CRC_BYTES, body_bytes, crc)


def load_group(file: Positional, archive_id: bytes, place: Place, max_pixels: int) -> ArchiveGroup:
    """The group at a place; raises CorruptError unless it is whole and the one that belongs there, UnsupportedImageError."""
    frame = read_frame(file, place.offset)
    if frame is None or frame.mark != GROUP_MARK or frame.end - frame.offset != place.length:
        raise CorruptError("damaged group of files")
    if (frame.archive_id, frame.number) != (archive_id, place.number):
        raise CorruptError("another group lies where the index has this one")
    data = file.read(frame.body_offset, frame.body_bytes + CRC_BYTES)
    body, crc = data[: frame.body_bytes], data[frame.body_bytes :]
    if zlib.crc32(body, frame.crc).to_bytes(CRC_BYTES, "little") != crc:
        raise CorruptError("damaged group of files (its CRC differs)")
    group = read_group(frame.header, body, max_pixels)
    if tuple(member.name for member in group.members) != place.names:
        raise CorruptError("a group does not hold the files that the index names")
    return group


def scan(file: Positional) -> list[Directory]:
    """All archives that have a group, an index block or an end somewhere in the file, in the order in which they are met."""
    return _Scan(file).run()


@dataclass
class _Found:
    """What a scan has met of an archive. An id has several where groups of one number differ: then archives that begin alike are
    joined, each `occurrence` is one."""

    archive_id: bytes
    occurrence: int
    places: dict[int, tuple[Place, bytes]] = field(default_factory=dict)  # and the group's last CRC
    damaged: dict[int, tuple[str, ...]] = field(default_factory=dict)  # names by the header
    indexed: dict[int, tuple[str, ...]] = field(default_factory=dict)  # names by the index
    blocks: int | None = None  # the groups that there are, as the index says
    end: int | None = None  # ... as the end says

    def directory(self, unread: int) -> Directory:
        places = [place for _, (place, _) in sorted(self.places.items())]
        named = self.indexed | self.damaged
        lost = [Place(number, 0, 0, named[number]) for number in sorted(named.keys() - self.places.keys())]
        damage = [Damage(f"group {place.number} is damaged or missing", place.names) for place in lost]
        damage += self._nameless(sorted(self.places.keys() | named.keys())) if self.occurrence == 0 else []
        return Directory(self.archive_id, places, damage + self._odd(0 if damage else unread), lost)

    def _nameless(self, known: list[int]) -> list[Damage]:
        """What is lost, and its names too. known: the numbers of the other groups."""
        damage = []
        total = max((each for each in (self.blocks, self.end) if each is not None), default=None)
        for last, number in itertools.pairwise([-1, *known, *([] if total is None else [max(total, *known, 0)])]):
            if number - last > 1:
                which = f"group {last + 1} is" if number - last == 2 else f"groups {last + 1} to {number - 1} are"
                damage.append(Damage(f"{which} lost, and what names it had is not known"))
        if total is None:
            after = f"what came after group {known[-1]}" if known else "all that it held"
            damage.append(Damage(f"its end is missing: {after} may be lost"))
        return damage

    def _odd(self, unread: int) -> list[Damage]:
        damage = []
        if self.end is None or self.indexed.keys() != {*range(self.end)} or self.blocks not in (None, self.end):
            damage.append("its index is damaged")
        elif any(self.indexed[number] != place.names for number, (place, _) in self.places.items() if number in self.indexed):
            damage.append("its index gives a group other names than its own")
        if unread:
            damage.append(f"{unread} bytes belong to nothing that is whole")
        return [Damage(what, is_loss=False) for what in damage]


class _Scan:
    """Goes through a file from mark to mark, past each frame that is whole."""

    def __init__(self, file: Positional):
        self.file, self.work = file, _WORK * file.size + (1 << 26)
        self.size = file.size
        self.found: dict[tuple[bytes, int], _Found] = {}
        self._piece, self._piece_offset = b"", 0
        self._inside = b"", 0  # up to there is the damaged body of a group of this archive: other archives in it are its files

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
        """Where the next mark is, from a place on."""
        while position + len(MARK) <= self.size:
            if not 0 <= position - self._piece_offset <= len(self._piece) - len(MARK):
                self._piece, self._piece_offset = self.read(position, _PIECE), position
            at = self._piece.find(MARK, position - self._piece_offset)
            if at >= 0:
                return self._piece_offset + at
            position = self._piece_offset + max(1, len(self._piece) - len(MARK) + 1)
        return None

    def _take(self, start: int) -> int | None:
        """Note what is at a mark; where to go on, or None where nothing is."""
        frame, (archive_id, stop) = read_frame(self, start), self._inside
        if frame:
            if start < stop and frame.archive_id != archive_id:
                return None
            return self._take_block(frame) if frame.mark == INDEX_MARK else self._take_group(frame)
        end = self.read(start, END_BYTES)
        if not _is_end(end) or start < stop and end[4 : 4 + ID_BYTES] != archive_id:
            return None
        self._archive(end[4 : 4 + ID_BYTES]).end = int.from_bytes(end[8:12], "little")
        return start + END_BYTES

    def _take_block(self, frame: Frame) -> int | None:
        block = _read(read_block, frame)
        if block is None:
            return None
        archive = self._archive(frame.archive_id)
        archive.blocks = max(archive.blocks or 0, block.groups)
        for number, (_, names) in enumerate(block.places, frame.number):
            self._offer(frame.archive_id, lambda each, *place: each.indexed.setdefault(*place) == place[1], number, names)
        return frame.end

    def _take_group(self, frame: Frame) -> int | None:
        members = _read(read_members, frame)
        if members is None:
            return None
        names, crc = tuple(member.name for member in members), _body_crc(self, frame)
        if crc is not None:
            group = Place(frame.number, frame.offset, frame.end - frame.offset, names), crc
            self._offer(frame.archive_id, lambda each, *new: each.places.setdefault(*new)[1] == crc, frame.number, group)
            return frame.end
        self._offer(frame.archive_id, lambda each, *new: each.damaged.setdefault(*new) == names, frame.number, names)
        follows = self.read(frame.end, 4 + ID_BYTES)
        if follows[:4] in (GROUP_MARK, INDEX_MARK) and follows[4:] == frame.archive_id:
            self._inside = frame.archive_id, frame.end
        return frame.body_offset

    def _archive(self, archive_id: bytes, occurrence: int = 0) -> _Found:
        return self.found.setdefault((archive_id, occurrence), _Found(archive_id, occurrence))

    def _offer(self, archive_id: bytes, accepts: Callable[..., bool], *new) -> None:
        """Offer something to the archives of an id, one after the other, until one accepts it."""
        for occurrence in itertools.count():
            self.work -= 64
            if accepts(self._archive(archive_id, occurrence), *new):
                return

    def _unread(self, start: int, stop: int) -> int:
        """The bytes between frames, the start of an archive left out."""
        return 0 if stop - start == len(START) and self.read(start, len(START)) == START else stop - start


def _body_crc(file: Positional | _Scan, frame: Frame) -> bytes | None:
    """The CRC behind a body, if it is right."""
    stop = frame.body_offset + frame.body_bytes
    if stop + CRC_BYTES > file.size:
        return None
    crc = _crc(file, frame.body_offset, stop, frame.crc).to_bytes(CRC_BYTES, "little")
    return crc if file.read(stop, CRC_BYTES) == crc else None


def _crc(file: Positional | _Scan, start: int, stop: int, crc: int = 0) -> int:
    """The CRC-32 of a part of a file, read piece by piece; crc: that of what comes before."""
    for position in range(start, stop, _PIECE):
        crc = zlib.crc32(file.read(position, min(_PIECE, stop - position)), crc)
    return crc


def _is_end(data: bytes) -> bool:
    crc = zlib.crc32(data[:-CRC_BYTES]).to_bytes(CRC_BYTES, "little")
    return len(data) == END_BYTES and data.startswith(END_MARK) and data.endswith(crc)


def _read(read: Callable, frame: Frame) -> Block | tuple | None:
    """What a frame's header says; None where it is malformed, though its CRC is right."""
    try:
        return read(frame.header)
    except CorruptError:
        return None
