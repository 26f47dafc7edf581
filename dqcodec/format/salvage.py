"""Finds the groups of an archive without its index: it scans a file, damaged or not, and lists the damage."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from dqcodec.format.archive import END_BYTES, START, unpack_end
from dqcodec.format.archive_group import unpack_members
from dqcodec.format.directory import Damage, Directory, GroupPlace, ModelPlace, model_ids, model_place
from dqcodec.format.frame import GROUP_MARK, ID_BYTES, INDEX_MARK, MARK, MODEL_MARK, Frame, body_crc, parsed, read_frame
from dqcodec.format.index_block import unpack_block
from dqcodec.format.positional import Positional

_PIECE = 1 << 20  # bytes searched at a time
_WORK = 4  # a scan reads at most 4 times the file and 64 MiB, because the frames of a hostile file may overlap


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
        named, lost = self.indexed | self.damaged, []
        there = {name for place in places for name in place.names}
        for number, names in sorted(named.items()):
            # another group may have its number: one of an archive that is a file in this one
            missing = tuple(name for name in names if name not in there) if number in self.places else names
            if missing:
                lost.append(GroupPlace(number, 0, 0, missing))
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
        whole = {*model_ids(self.models)}
        damage += [
            "a copy of its model is damaged" if model_id in whole else "its model is damaged"
            for model_id in dict.fromkeys(model_ids(self.damaged_models))
        ]
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
        if frame := read_frame(self, start):
            take = {INDEX_MARK: self._take_block, GROUP_MARK: self._take_group, MODEL_MARK: self._take_model}
            return take[frame.mark](frame)
        end = unpack_end(self.read(start, END_BYTES))
        if end is None:
            return None
        self._archive(end.archive_id).end = end.groups
        return start + END_BYTES

    def _take_block(self, frame: Frame) -> int | None:
        block = parsed(unpack_block, frame)
        if block is None:
            return None
        archive = self._archive(frame.archive_id)
        archive.blocks = max(archive.blocks or 0, block.groups)
        for number, (_, names) in enumerate(block.places, frame.number):
            self._offer(frame, "indexed", number, names)
        return frame.end

    def _take_model(self, frame: Frame) -> int | None:
        place = model_place(frame)
        if place is None:
            return None
        archive, is_whole = self._archive(frame.archive_id), body_crc(self, frame) is not None
        (archive.models if is_whole else archive.damaged_models).append(place)
        return frame.end if is_whole else frame.body_offset

    def _take_group(self, frame: Frame) -> int | None:
        members = parsed(unpack_members, frame)
        if members is None:
            return None
        names, crc = tuple(member.name for member in members), body_crc(self, frame)
        if crc is not None:
            group = GroupPlace(frame.number, frame.offset, frame.end - frame.offset, names), crc
            self._offer(frame, "places", frame.number, group, key=lambda each: each[1])
            return frame.end
        self._offer(frame, "damaged", frame.number, names)
        follows = self.read(frame.end, len(MARK) + 1 + ID_BYTES)
        is_whole = (
            follows[: len(GROUP_MARK)] in (GROUP_MARK, INDEX_MARK) and follows[len(GROUP_MARK) :] == frame.archive_id
        )
        # where the next frame follows, all between is the group's: archives in it are its files, whatever their id
        return frame.end if is_whole else frame.body_offset

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
