"""An archive -> files.

`Decoding.decode_group` decodes a group. It depends on its arguments alone, so that any process can do it; the main
process reads the archive.
"""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dqcodec import png
from dqcodec.base.errors import FAILURES, CorruptError, UnsupportedImageError, one_line
from dqcodec.codec import formats, zoo
from dqcodec.codec.archive import Archive
from dqcodec.codec.group import decode, decode_regions, restore
from dqcodec.codec.report import DecodedReport, RegionReport
from dqcodec.command import files
from dqcodec.command.files import Stamp
from dqcodec.command.names import below, image_name
from dqcodec.command.results import FileResult, RunReport, UnpackReport
from dqcodec.format.archive import ArchiveGroup, Verbatim
from dqcodec.format.directory import Damage
from dqcodec.png import MAX_PIXELS

if TYPE_CHECKING:
    from dqcodec.codec.group import Decoded
    from dqcodec.codec.region import Region
    from dqcodec.format.container import Group

Task = Callable[[], list[FileResult]]


class Wanted(NamedTuple):
    """A file that is to be decoded, or the error that it gets instead. number: of its group's member."""

    number: int
    name: str
    error: str | None = None


@dataclass(frozen=True)
class Decoding:
    """How the files of an archive are decoded, and where they go.

    source: the archive's path, as shown. folder: to write to; None only checks the files. models: names or files,
    beside those at hand. format, repack: see codec.formats.from_png and codec.group.restore. crop: the region that is
    decoded of each image. working_folder: where relative paths start.
    """

    source: str
    folder: Path | None = None
    models: Sequence[str] = ()
    format: str = "png"
    force: bool = False
    repack: bool = False
    crop: Region | None = None
    max_pixels: int = MAX_PIXELS
    working_folder: Path = Path()

    def target(self, name: str, kind: str) -> Path | None:
        """Where a file of a kind, `image` or `verbatim`, goes; raises OSError if that is no place for it."""
        if self.folder is None:
            return None
        below(self.working_folder / self.folder, self.renamed(name, kind))
        return below(self.folder, self.renamed(name, kind))

    def renamed(self, name: str, kind: str) -> str:
        """The path of a file below the folder. PNGs and verbatim files keep their names."""
        return name if self.format == "png" or kind == "verbatim" else image_name(name, f".{self.format}")

    def refusal(self, name: str, kind: str) -> str | None:
        """Why a file cannot be written, if that is known before it is decoded."""
        try:
            target = self.target(name, kind)
            if target:
                files.check_target(target, force=self.force)
        except FAILURES as error:
            return one_line(error)
        return None

    def decode_group(self, group: ArchiveGroup, wanted: Sequence[Wanted]) -> list[FileResult]:
        """Decode a group and write the wanted files; a result for each."""
        parts = _Parts(group.parts, partial(zoo.find, named=self.models), self.max_pixels)
        return [self._decode(group, each, parts) for each in wanted]

    def _decode(self, group: ArchiveGroup, wanted: Wanted, parts: _Parts) -> FileResult:
        if wanted.error:
            return FileResult(self.source, error=wanted.error, member=wanted.name)
        part_number, image = group.place(wanted.number)
        part = group.parts[part_number]
        target = None
        try:
            target = self.target(wanted.name, _kind(part))
            path = target and self.working_folder / target
            if path and files.is_same(path, self.working_folder / self.source):
                raise OSError("it would replace its own archive")
            if isinstance(part, Verbatim):
                if self.crop:
                    raise UnsupportedImageError("the file was kept verbatim, not as an image")
                report, data = DecodedReport("verbatim", len(part.data)), part.data
            else:
                data = self._file(parts, part_number, image)
                data = formats.from_png(data, self.format, self.max_pixels) if path else data
                report = self._report(part, image, len(data))
            if path:
                member = group.members[wanted.number]
                files.write_once(path, data, force=self.force, stamp=Stamp(member.mode, member.mtime_ns))
        except FAILURES as error:
            return FileResult(self.source, target and str(target), error=one_line(error), member=wanted.name)
        return FileResult(self.source, target and str(target), report, member=wanted.name)

    def _file(self, parts: _Parts, part_number: int, image: int) -> bytes:
        """The PNG file of an image, or of a region of it."""
        part = parts.parts[part_number]
        if not self.crop:
            return restore(part.entries[image], parts.images(part_number)[image], repack=self.repack)
        if len(part.entries) == 1:
            region = decode_regions(part, {0: self.crop}, parts.find_program, self.max_pixels)[0]
        else:  # small images, which share stacks
            region = self.crop.cut(formats.lone_image(parts.images(part_number)[image], self.max_pixels))
        return png.write(region)

    def _report(self, part: Group, image: int, size: int) -> DecodedReport | RegionReport:
        method = part.entries[image].method
        if not self.crop:
            return DecodedReport(method, size)
        return RegionReport(method, str(self.crop), size, is_checked=len(part.entries) > 1)


@dataclass
class _Parts:
    """The parts of a group. Each is decoded when it is first asked for; what is damaged is not tried again."""

    parts: Sequence[Group | Verbatim]
    find_program: Callable
    max_pixels: int
    _decoded: dict[int, list[Decoded] | BaseException] = dataclasses.field(default_factory=dict)

    def images(self, number: int) -> list[Decoded]:
        """The images of a part; raises what codec.group.decode raises."""
        if number not in self._decoded:
            try:
                self._decoded[number] = decode(self.parts[number], self.find_program, self.max_pixels)
            except FAILURES as error:
                self._decoded[number] = error
        if isinstance(self._decoded[number], BaseException):
            raise self._decoded[number]
        return self._decoded[number]


@dataclass(frozen=True)
class Unpacking:
    """The files of an archive that are to be decoded.

    source: None is standard input, whose bytes are `data`. names: of the files. clashing: names of files that would go
    to the place of another; they are not decoded. unmatched: patterns that no name matches. damage: to the archive as a
    whole.
    """

    source: Path | None
    decoding: Decoding
    names: set[str]
    clashing: list[str]
    unmatched: list[str]
    stamp: Stamp | None
    data: bytes | None
    damage: tuple[Damage, ...]
    salvage: bool

    @classmethod
    def plan(
        cls,
        source: Path | None,
        decoding: Decoding,
        only: Sequence[str] = (),
        data: bytes | None = None,
        *,
        salvage: bool,
        is_checked: bool,
    ) -> Unpacking:
        """only: patterns of names; none takes all. is_checked: harmless damage to the archive counts as well.

        Raises OSError, FormatError, CorruptError.
        """
        with open(source, "rb") if data is None else io.BytesIO(data) as file:
            try:
                packed = Archive(file, salvage=salvage or is_checked, max_pixels=decoding.max_pixels)
            except CorruptError as error:
                raise CorruptError(f"{error} (--salvage gets what is whole)") from error
            stamp = Stamp.of(os.fstat(file.fileno())) if data is None else None
            names = {*packed}
            found = {pattern: {name for name in names if fnmatchcase(name, pattern)} for pattern in only}
            chosen = set().union(*found.values()) if only else names
            clashing = _clashing(packed, sorted(chosen), decoding)
        damage = tuple(dataclasses.replace(each, is_loss=each.is_loss or is_checked) for each in packed.damage)
        unmatched = [pattern for pattern, matching in found.items() if not matching]
        chosen = chosen - {*clashing}
        return cls(source, decoding, chosen, clashing, unmatched, stamp, data, damage, salvage or is_checked)

    def failures(self) -> Iterator[FileResult]:
        """What is lost with the archive's damage, what has no place of its own, and patterns that match nothing."""
        source = self.decoding.source
        for damage in self.damage:
            for name in damage.names:
                yield FileResult(source, error=f"lost: {damage.what}", member=name)
            if damage.is_loss and not damage.names:
                yield FileResult(source, error=f"damaged: {damage.what}")
        for name in self.clashing:
            error = f"another image would go to the same .{self.decoding.format} file"
            yield FileResult(source, error=error, member=name)
        for pattern in self.unmatched:
            yield FileResult(source, error=f"no image's name matches {pattern}")

    def oddities(self) -> list[str]:
        """Damage to the archive that costs nothing."""
        return [damage.what for damage in self.damage if not damage.is_loss]

    def tasks(self) -> Iterator[Task]:
        """One for each group that has wanted files."""
        decoding = self.decoding
        file = self.source if self.data is None else io.BytesIO(self.data)
        with Archive(file, max_pixels=decoding.max_pixels, salvage=self.salvage) as packed:
            for number in range(len(packed.group_sizes)):
                wanted = [Wanted(*each) for each in enumerate(packed.names(number)) if each[1] in self.names]
                if not wanted:
                    continue
                try:
                    group = packed.group(number)
                except FAILURES as error:
                    failures = [FileResult(decoding.source, error=one_line(error), member=each.name) for each in wanted]
                    yield partial(list, failures)
                    continue
                kinds = [_kind(group.parts[group.place(each.number)[0]]) for each in wanted]
                wanted = [each._replace(error=decoding.refusal(each.name, kind)) for each, kind in zip(wanted, kinds)]
                yield partial(decoding.decode_group, group, wanted)

    def report(self, run: RunReport) -> UnpackReport:
        """run: the results of this archive."""
        failed = sum(result.member is not None for result in run.failed)
        folder = self.decoding.folder
        return UnpackReport(self.decoding.source, folder and str(folder), len(run.done), failed)


def _kind(part: Group | Verbatim) -> str:
    return "verbatim" if isinstance(part, Verbatim) else "image"


def _clashing(packed: Archive, names: Sequence[str], decoding: Decoding) -> list[str]:
    """The names whose files would go to one place with another's."""
    if decoding.format == "png":
        return []
    targets: dict[str, list[str]] = {}
    for name in names:
        try:
            kind = packed.kind(name)
        except FAILURES:  # a damaged file gets its own error later
            kind = "image"
        targets.setdefault(decoding.renamed(name, kind), []).append(name)
    return [name for sharing in targets.values() if len(sharing) > 1 for name in sharing]
