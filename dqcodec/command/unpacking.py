"""An archive -> files.

`Decoding.decode_group` decodes a group. Its result depends only on its arguments, so that any process can call it; the
main process reads the archive.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from dqcodec import png
from dqcodec.base.errors import FAILURES, CorruptError, FormatError, UnsupportedImageError, one_line
from dqcodec.codec import conversion, export, own_models, zoo
from dqcodec.codec.archive import Archive
from dqcodec.codec.group import Decoded, decode, decode_regions, restore
from dqcodec.codec.report import DecodedReport, RegionReport, Report
from dqcodec.command import atomic, reading, streams
from dqcodec.command.kinds import ARCHIVE, DQC
from dqcodec.command.names import PNG_ENDING, below, image_name, in_utf8
from dqcodec.command.options import Decompressing
from dqcodec.command.plan import Job
from dqcodec.command.results import FileResult, RunReport, UnpackReport
from dqcodec.command.run import Task, known
from dqcodec.command.stamp import Stamp, inode, is_same
from dqcodec.exact.program import FindProgram
from dqcodec.format.archive_group import ArchiveGroup, Verbatim
from dqcodec.format.container import Group
from dqcodec.format.directory import Damage
from dqcodec.format.own_model import OwnModel


class Wanted(NamedTuple):
    """A file to decode, or the error that it gets instead.

    number: of the member in its group. place: its path below the folder. former: see atomic.check_target.
    """

    number: int
    name: str
    place: str
    former: tuple[int, ...] = ()
    error: str | None = None


@dataclass(frozen=True)
class Decoding:
    """How the files of an archive are decoded, and where they go.

    source: the archive's path, as shown. folder: to write to; None only checks the files.
    """

    source: str
    folder: Path | None
    options: Decompressing

    def target(self, place: str) -> Path | None:
        """Where a file with this place below the folder goes; raises OSError if that is not allowed."""
        if self.folder is None:
            return None
        path = below(self.options.working_folder / self.folder, place)
        if streams.is_stream(path):
            raise OSError(f"{path} is a pipe or a device")
        return below(self.folder, place)

    def refusal(self, wanted: Wanted, kept: frozenset[str]) -> str | None:
        """The reason why a file cannot be written, if it is known before decoding. kept: see Unpacking."""
        try:
            target = self.target(wanted.place)
            if target and os.path.realpath(target) in kept:
                return f"{target} would replace an input or a model"
            if target:
                atomic.check_target(target, force=self.options.force, former=wanted.former)
        except FAILURES as error:
            return one_line(error)
        return None

    def decode_group(
        self, group: ArchiveGroup, wanted: Sequence[Wanted], models: Sequence[OwnModel] = ()
    ) -> list[FileResult]:
        """Decode a group and write the wanted files; a result for each. models: that the archive brings for the group."""
        find_program = own_models.finder(models, functools.partial(zoo.find, named=self.options.models))

        @functools.cache  # a part is decoded when an image of it is wanted; a damaged part is not tried again
        def decoded(number: int) -> list[Decoded] | BaseException:
            try:
                return decode(group.parts[number], find_program, self.options.max_pixels)
            except FAILURES as error:
                return error

        return [self._decode(group, each, decoded, find_program) for each in wanted]

    def _decode(self, group: ArchiveGroup, wanted: Wanted, decoded: Callable, find_program: FindProgram) -> FileResult:
        if wanted.error:
            return FileResult(self.source, error=wanted.error, name=wanted.name)
        number, image = group.place(wanted.number)
        part, target = group.parts[number], None
        here = self.options.working_folder
        try:
            target = self.target(wanted.place)
            if target and is_same(here / target, here / self.source):
                raise OSError("it would replace its own archive")
            if isinstance(part, Verbatim):
                if self.options.crop:
                    raise UnsupportedImageError("the file was kept verbatim, not as an image")
                data, report = part.data, DecodedReport("verbatim", len(part.data))
            else:
                data, report = self._image(part, image, functools.partial(decoded, number), find_program)
            if target:
                member = group.members[wanted.number]
                stamp = Stamp(member.mode, member.mtime_ns)
                atomic.write(here / target, data, former=wanted.former, stamp=stamp, **self.options.writing)
        except FAILURES as error:
            return FileResult(self.source, target and str(target), error=one_line(error), name=wanted.name)
        return FileResult(self.source, target and str(target), report, name=wanted.name)

    def _image(self, part: Group, image: int, decoded: Callable, find_program: FindProgram) -> tuple[bytes, Report]:
        """The file of an image, or of a region of it, and a report."""
        entry, is_lone = part.entries[image], len(part.entries) == 1
        crop, max_pixels = self.options.crop, self.options.max_pixels
        if crop and is_lone:
            data = png.write(decode_regions(part, {0: crop}, find_program, max_pixels)[0])
        else:  # small images share stacks
            images = decoded()
            if isinstance(images, BaseException):
                raise images
            if crop:
                data = png.write(crop.cut(conversion.lone_image(images[image], max_pixels)))
            else:
                data = restore(entry, images[image], repack=self.options.repack)
        if self.folder is not None:
            data = export.from_png(data, self.options.format, max_pixels)
        is_png = self.options.format == "png"
        if crop:
            return data, RegionReport(entry.method, str(crop), len(data), is_checked=not is_lone, is_png=is_png)
        return data, DecodedReport(entry.method, len(data), is_png=is_png)


@dataclass(frozen=True)
class Unpacking:
    """The files of an archive that are to be decoded.

    places: name -> path below the folder. clashing: names of files that would go to the place of another; they are not
    decoded. former: name -> device and inode of the file that is at its place before the command; see
    atomic.check_target. unmatched: patterns that no name matches. damage: to the archive as a whole. kept: the real
    paths of inputs and models, which no file replaces.
    """

    job: Job
    decoding: Decoding
    places: dict[str, str]
    clashing: list[str]
    former: dict[str, tuple[int, ...]]
    unmatched: list[str]
    damage: tuple[Damage, ...]
    kept: frozenset[str]

    @classmethod
    def plan(cls, job: Job, options: Decompressing, kept: frozenset[str] = frozenset()) -> Unpacking:
        """Open the archive and choose its files. Without a target, harmless damage to the archive counts as well.

        Raises OSError, FormatError, CorruptError.
        """
        decoding = Decoding(job.names[0], job.target, options)
        try:
            with _opened(job, options) as packed:
                names = {*packed}
                found = {pattern: _matching(names, pattern) for pattern in options.only}
                chosen = set().union(*found.values()) if found else names
                places = {name: _place(packed, name, options.ending) for name in sorted(chosen)}
        except CorruptError as error:
            raise CorruptError(f"{error} (--salvage gets the undamaged images)") from error
        except FormatError as error:
            if options.salvage and reading.starts_as(job.source, DQC) and not reading.starts_as(job.source, ARCHIVE):
                raise FormatError("--salvage is for archives, and this file holds one image") from error
            if options.salvage or job.target is None:
                raise
            raise FormatError(f"{error} (if this is damage, --salvage gets the undamaged images)") from error
        damage = tuple(dataclasses.replace(each, is_loss=each.is_loss or not job.target) for each in packed.damage)
        unmatched = [pattern for pattern, matching in found.items() if not matching]
        uses = Counter(places.values())
        clashing = [name for name, place in places.items() if uses[place] > 1]
        places = {name: place for name, place in places.items() if uses[place] == 1}
        return cls(job, decoding, places, clashing, _former(places, decoding), unmatched, damage, kept)

    def failures(self) -> Iterator[FileResult]:
        """Files lost by damage, files without a place of their own, and patterns that match no name."""
        source = self.decoding.source
        for damage in self.damage:
            for name in damage.names:
                yield FileResult(source, error=f"lost: {damage.what}", name=name)
            if damage.is_loss and not damage.names:
                yield FileResult(source, error=f"damaged: {damage.what}")
        for name in self.clashing:
            error = f"another image would go to the same .{self.decoding.options.format} file"
            yield FileResult(source, error=error, name=name)
        for pattern in self.unmatched:
            yield FileResult(source, error=f"no image's name matches {pattern}")

    def oddities(self) -> list[str]:
        """Damage to the archive that costs nothing."""
        return [damage.what for damage in self.damage if not damage.is_loss]

    def tasks(self) -> Iterator[Task]:
        """One for each group that has wanted files, or the error of an archive that is not as it was planned."""
        try:
            packed = _opened(self.job, self.decoding.options)
        except FAILURES as error:
            yield known([FileResult(self.decoding.source, error=one_line(error))])
            return
        with packed:
            if not self.places.keys() <= packed.keys():
                yield known([FileResult(self.decoding.source, error="it has changed meanwhile")])
                return
            for number in range(len(packed.group_sizes)):
                wanted = [
                    Wanted(member, name, self.places[name], self.former.get(name, ()))
                    for member, name in enumerate(packed.names(number))
                    if name in self.places
                ]
                if wanted:
                    yield self._task(packed, number, wanted)

    def _task(self, packed: Archive, number: int, wanted: Sequence[Wanted]) -> Task:
        """The task of a group: its wanted files, or an error for each."""
        try:
            group = packed.group(number)
            models = packed.models_of(group)
        except FAILURES as error:
            what = one_line(error)
            return known([FileResult(self.decoding.source, error=what, name=each.name) for each in wanted])
        wanted = [each._replace(error=self.decoding.refusal(each, self.kept)) for each in wanted]
        return functools.partial(self.decoding.decode_group, group, wanted, models)

    def report(self, run: RunReport) -> UnpackReport:
        """run: the results of this archive."""
        folder = self.decoding.folder
        reports = [result.report for result in run.done]
        names = {result.name for result in run.failed if result.name is not None}
        others = sum(result.name is None for result in run.failed)
        damage = [each for each in self.damage if not each.names]
        return UnpackReport(
            source=self.decoding.source,
            target=folder and str(folder),
            images=len(reports),
            failed=len(names) + others - sum(each.is_loss for each in damage),
            verbatim=sum(report.method == "verbatim" for report in reports) or None,
            pixels_only=sum(not report.is_png for report in reports) or None,
            damage=tuple(each.what for each in damage) or None,
        )


def _matching(names: set[str], pattern: str) -> set[str]:
    """The names that a pattern takes: the file of exactly this name, or else the folder's, or else those that match."""
    pattern = in_utf8(pattern)
    if pattern in names:
        return {pattern}
    folder = pattern.rstrip("/") + "/"
    below = {name for name in names if name.startswith(folder)}
    return below or {name for name in names if fnmatchcase(name, pattern)}


def _opened(job: Job, options: Decompressing) -> Archive:
    file = job.source if job.data is None else io.BytesIO(job.data)
    return Archive(file, max_pixels=options.max_pixels, salvage=options.salvage or job.target is None)


def _place(packed: Archive, name: str, ending: str) -> str:
    """The path of a file below the folder. PNGs and verbatim files keep their names. ending: see Decompressing."""
    if ending == PNG_ENDING:
        return name
    with contextlib.suppress(*FAILURES):  # a damaged file gets its own error later
        if packed.kind(name) == "verbatim":
            return name
    return image_name(name, ending)


def _former(places: Mapping[str, str], decoding: Decoding) -> dict[str, tuple[int, ...]]:
    """Device and inode of the files that are at the places of outputs. Only -f needs them."""
    former = {}
    for name, place in places.items() if decoding.options.force else ():
        with contextlib.suppress(OSError):  # a place that is not allowed gives its own error later
            if (target := decoding.target(place)) and (taken := inode(target)):
                former[name] = taken
    return former
