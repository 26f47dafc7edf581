"""Facts in archives and .dqc files about their images; nothing is decoded."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dqcodec import png
from dqcodec.base.errors import FAILURES, CorruptError, one_line
from dqcodec.codec.archive import Archive
from dqcodec.codec.report import Report
from dqcodec.command import reading
from dqcodec.command.kinds import ARCHIVE, check_dqc, hinting_at_salvage
from dqcodec.command.names import decompressed_name
from dqcodec.command.results import FileResult
from dqcodec.command.stamp import Stamp
from dqcodec.command.walk import shown_source
from dqcodec.format.archive_group import ArchiveGroup, Verbatim
from dqcodec.format.container import Group, owners
from dqcodec.format.own_model import MODEL_COPIES
from dqcodec.png import MAX_PIXELS, Header
from dqcodec.png.color_types import NAMES

_SECOND = 10**9


@dataclass(frozen=True)
class Listed(Report):
    """The facts in the head of a file.

    header: of an image; bytes: of a file kept verbatim. dqc_bytes, restored_name: of a .dqc
    file, its bytes and the name that comes back.
    """

    name: str
    stamp: Stamp | None
    header: Header | None
    method: str
    bytes: int | None
    dqc_bytes: int | None = None
    restored_name: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Its fields, flat, for --json."""
        if self.header:
            width, height, color_type, bit_depth = self.header
            what = {"width": width, "height": height, "color": NAMES[color_type], "bit_depth": bit_depth}
        else:
            what = {"bytes": self.bytes}
        stamp = {"mode": self.stamp.mode, "mtime_ns": self.stamp.mtime_ns} if self.stamp else {}
        more = {"dqc_bytes": self.dqc_bytes, "restored_name": self.restored_name}
        more = {key: value for key, value in more.items() if value is not None}
        return {"name": self.name} | what | {"method": self.method} | stamp | more

    def line(self) -> str:
        """`   768 x 512    RGB 8 bit               2026-11-28 08:15:00  a/b.png`"""
        if self.header:
            width, height, color_type, bit_depth = self.header
            what = f"{width:>6} x {height:<6} {f'{NAMES[color_type]} {bit_depth} bit':<23}"
        else:
            what = f"{self.bytes:>15} B verbatim".ljust(39)
        size = "" if self.dqc_bytes is None else f"  {self.dqc_bytes} B"
        back = f" -> {self.restored_name}" if self.restored_name else ""
        return f"{what} {self._time():<19}  {self.name}{size}{back}"

    def _time(self) -> str:
        """A stream has no time, and a damaged archive may have an impossible one."""
        try:
            return f"{datetime.fromtimestamp(self.stamp.mtime_ns // _SECOND):%Y-%m-%d %H:%M:%S}"
        except (AttributeError, ValueError, OverflowError, OSError):
            return "?"


def opened(source: Path | None, max_pixels: int = MAX_PIXELS) -> tuple[Archive | None, bytes, Stamp | None]:
    """(archive, b"", None), or (None, the bytes of a .dqc file, its stamp). source: None is standard input.

    An archive opens even if some of its names are lost. Raises OSError, FormatError, CorruptError.
    """
    is_path = reading.starts_as(source, ARCHIVE)
    data, stamp = (reading.start(source), None) if is_path else reading.read(source, max_pixels, check_dqc)
    if not ARCHIVE.has(data):
        return None, data, stamp
    with hinting_at_salvage(data):
        try:
            return Archive(source if is_path else io.BytesIO(data), max_pixels=max_pixels), b"", None
        except CorruptError:
            return Archive(source if is_path else io.BytesIO(data), max_pixels=max_pixels, salvage=True), b"", None


def listed(source: Path | None, max_pixels: int = MAX_PIXELS) -> Iterator[FileResult]:
    """The files of an archive in their order, or the image of a .dqc file, as Listed; then the damage of the archive."""
    path = shown_source(source)
    try:
        packed, data, stamp = opened(source, max_pixels)
        if packed is None:
            with hinting_at_salvage(data):
                (head,) = _heads(Group.unpack(data, max_pixels), max_pixels)
            name = source and decompressed_name(source.name)
            yield FileResult(path, report=Listed(path, stamp, *head, len(data), name))
            return
    except FAILURES as error:
        yield FileResult(path, error=one_line(error))
        return
    with packed:
        for number in range(len(packed.group_sizes)):
            yield from _listed_group(path, packed, number, max_pixels)
        for damage in packed.damage:
            yield from (FileResult(path, error=damage.what, name=name) for name in damage.names or (None,))


def info(packed: Archive) -> dict[str, Any]:
    """Facts about a whole archive, and what is wrong with it; a damaged group counts in `images` only."""
    methods: Counter[str] = Counter()
    models: Counter[str] = Counter()
    damage = [each.what for each in packed.damage]
    for number in range(len(packed.group_sizes)):
        try:
            _count(packed.group(number), methods, models)
        except FAILURES as error:
            damage.append(f"group {number}: {one_line(error)}")
    return {
        "images": len(packed),
        "groups": len(packed.group_sizes),
        "group_bytes": sum(size for size, _ in packed.group_sizes),
        "methods": dict(methods.most_common()),
        "models": dict(models.most_common()),
        "own_models": {each.model_id.hex(): each.base.hex() for each in packed.model_places},
        "own_model_bytes": MODEL_COPIES * sum(each.length for each in packed.model_places),
    } | ({"damage": damage} if damage else {})


def _listed_group(path: str, packed: Archive, number: int, max_pixels: int) -> Iterator[FileResult]:
    """The files of a group; if it is damaged, an error for each name."""
    names = packed.names(number)
    try:
        group = packed.group(number)
        heads = [_heads(part, max_pixels) for part in group.parts]
    except FAILURES as error:
        yield from (FileResult(path, error=one_line(error), name=name) for name in names if name is not None)
        return
    for each, (name, member) in enumerate(zip(names, group.members)):
        part, image = group.place(each)
        if name is not None:
            stamp = Stamp(member.mode, member.mtime_ns)
            yield FileResult(path, report=Listed(name, stamp, *heads[part][image]), name=name)


def _heads(part: Group | Verbatim, max_pixels: int) -> list[tuple[Header | None, str, int | None]]:
    """(header, method, bytes if it is kept verbatim) of each content; raises CorruptError, UnsupportedImageError."""
    if isinstance(part, Verbatim):
        return [(None, "verbatim", len(part.data))]
    first = {owned[0][0]: payload for payload, owned in zip(part.payloads, owners(part.entries))}
    return [
        (entry.skeleton.header if entry.skeleton else png.read_header(first[number], max_pixels), entry.method, None)
        for number, entry in enumerate(part.entries)
    ]


def _count(group: ArchiveGroup, methods: Counter[str], models: Counter[str]) -> None:
    """Count the members of a group by their method, and by each model that they need."""
    seen = set()
    for member, content in enumerate(group.contents):
        part_number, image = group.place(member)
        part = group.parts[part_number]
        entry = None if isinstance(part, Verbatim) else part.entries[image]
        methods["repeated" if content in seen else entry.method if entry else "verbatim"] += 1
        seen.add(content)
        if entry:
            models.update({layer.model_id.hex() for layer in entry.layers if layer.model_id})
