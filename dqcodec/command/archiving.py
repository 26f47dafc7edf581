"""Many files into one archive, and an archive's images to files.

`pack_batch` and `decode_group` depend on their arguments alone, so that any process can do them for a group; the main
process reads the sources and writes the archive, in the order of the names, so that it is always the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from dqcodec import png
from dqcodec.base.errors import DqcodecError, UnsupportedImageError, VerifyError, one_line
from dqcodec.codec import codec, library, zoo
from dqcodec.codec.report import DecodedReport, PackedReport
from dqcodec.codec.source import Source, read
from dqcodec.command import files
from dqcodec.command.files import Stamp
from dqcodec.command.results import ArchiveReport, FileResult, RunReport, UnpackReport
from dqcodec.format import archive
from dqcodec.format.archive import MAX_GROUP_IMAGES, Archive, Member
from dqcodec.format.container import Group, owners
from dqcodec.png import MAX_PIXELS, Header

GROUP_PIXELS = 1 << 21  # a group has no more, or one image: more gain little, and lose more by damage
FAILURES = (DqcodecError, OSError, MemoryError)
_SECOND = 10**9
_TIMES = (-(1 << 32) * _SECOND, (1 << 33) * _SECOND)  # which an archive can hold next to each other: 1833 to 2242
_COLORS = {0: "gray", 2: "RGB", 3: "palette", 4: "gray with alpha", 6: "RGBA"}

Map = Callable[[Callable, Iterable], Iterable]  # map, or one by several processes
Task = Callable[[], list[FileResult]]


@dataclass(frozen=True)
class Item:
    """A source that is read: its name in the archive, its PNG file, its own size and stamp; or why it is not packed."""

    path: Path
    name: str
    data: bytes = b""
    source_bytes: int = 0
    stamp: Stamp | None = None
    error: str | None = None


@dataclass(frozen=True)
class Packed:
    """A group, the items that are in it, their data left out, and what became of all that were to be."""

    results: list[FileResult]
    items: list[Item]
    group: bytes = b""

    @property
    def members(self) -> list[Member]:
        low, high = _TIMES
        stamps = [(item.name, item.stamp) for item in self.items]
        return [Member(name, max(low, min(stamp.mtime_ns, high)), stamp.mode) for name, stamp in stamps]


def pack(
    inputs: Sequence[tuple[Path, str]],
    target: Path,
    work: Callable[[list[Item]], Packed],
    mapped: Map,
    tell: Callable[[FileResult], None],
    *,
    group_images: int | None,
    force: bool,
    rm: bool,
    verify: bool,
    max_pixels: int = MAX_PIXELS,
) -> ArchiveReport | None:
    """Pack sources, each with its name, into the archive `target`; None, and no archive, where none can be packed.

    work: pack_batch with its options. `tell` is told what becomes of each source. With `rm`, those that are packed are
    removed when the archive is in place. Raises OSError and VerifyError, and then there is no archive.
    """
    start = time.perf_counter()
    files.check_target(target, force=force)
    items: list[Item] = []
    members: list[Member] = []
    failed, groups, dims = 0, 0, 0
    with contextlib.ExitStack() as stack:
        file = writer = None
        for packed in mapped(work, _batches(inputs, group_images, rm, max_pixels)):
            if packed.items:
                if writer is None:
                    file = stack.enter_context(files.writing(target, force=force))
                    writer = archive.Writer(file)
                writer.add(packed.members, packed.group)
                items += packed.items
                members += packed.members
                groups += 1
            for result in packed.results:
                failed += bool(result.error)
                dims += 0 if result.error else result.report.dims
                tell(result)
        if writer is None:
            return None
        writer.finish()
        if verify:
            _check(file, members, max_pixels)
        size = file.seek(0, os.SEEK_END)
    for item in items if rm else ():
        try:
            files.remove(item.path, item.stamp)
        except OSError as error:
            failed += 1
            tell(FileResult(str(item.path), str(target), error=f"packed, but {one_line(error)}"))
    source_bytes = sum(item.source_bytes for item in items)
    return ArchiveReport(
        str(target), len(items), groups, failed, source_bytes, size, dims, verify, time.perf_counter() - start
    )


def pack_batch(
    batch: list[Item],
    *,
    target: Path,
    models: Sequence[str],
    best: bool,
    particles: int = 1,
    verify: bool,
    max_pixels: int = MAX_PIXELS,
    **options: Any,
) -> Packed:
    """A group of those of the items that can be packed. best, particles: see codec.compress; options: those of source.read."""
    fates: dict[str, FileResult] = {}
    kept: list[tuple[Item, Source]] = []
    for item in batch:
        try:
            if item.error is None:
                kept.append((item, read(item.data, max_pixels=max_pixels, **options)))
                continue
            error = item.error
        except FAILURES as reason:
            error = one_line(reason)
        fates[item.name] = FileResult(str(item.path), str(target), error=error)
    items, group = [dataclasses.replace(item, data=b"") for item, _ in kept], b""
    if kept:
        sources = [source for _, source in kept]
        try:
            coded = codec.encode(sources, [zoo.load(name) for name in models], best=best, particles=particles)
            group = archive.pack_group(coded.group)
            if verify:
                codec.check(lambda: archive.parse_group(group, max_pixels), sources, coded.programs, max_pixels)
        except FAILURES as error:
            fates |= {item.name: FileResult(str(item.path), str(target), error=one_line(error)) for item in items}
            items = []
        else:
            for (item, source), choice in zip(kept, coded.choices):
                header, entry = source.image.header, choice.entry
                sizes = source.sizes
                report = PackedReport(
                    name=item.name,
                    method=entry.method,
                    width=header.width,
                    height=header.height,
                    dims=header.samples * sum(height * width for height, width in sizes),
                    png_bytes=item.source_bytes,
                    dqc_bytes=round(choice.size),
                    dropped=source.lost(is_stored=entry.skeleton is None),
                )
                fates[item.name] = FileResult(str(item.path), str(target), report)
    return Packed([fates[item.name] for item in batch], items, group)


def _batches(
    inputs: Sequence[tuple[Path, str]], group_images: int | None, rm: bool, max_pixels: int
) -> Iterator[list[Item]]:
    """The sources, read, as many as make a group."""
    batch, images, pixels = [], 0, 0
    limit, most = min(GROUP_PIXELS, max_pixels), min(group_images or MAX_GROUP_IMAGES, MAX_GROUP_IMAGES)
    for path, name in inputs:
        item, size = _read(path, name, rm, max_pixels)
        if images and size and (pixels + size > limit or images == most):
            yield batch
            batch, images, pixels = [], 0, 0
        batch.append(item)
        images, pixels = images + (size > 0), pixels + size
    if batch:
        yield batch


def _read(path: Path, name: str, rm: bool, max_pixels: int) -> tuple[Item, int]:
    """A source, and how many pixels it has; 0 of one that cannot be packed."""
    try:
        data, stamp = files.read(path)
        png_data = library.to_png(data, max_pixels, is_kept=not rm)
        image = png.read(png_data, max_pixels, decode=False)
    except FAILURES as error:
        return Item(path, name, error=one_line(error)), 0
    sizes = image.skeleton.sizes if image.skeleton else [(image.header.height, image.header.width)]
    return Item(path, name, png_data, len(data), stamp), sum(height * width for height, width in sizes)


def _check(file: BinaryIO, members: list[Member], max_pixels: int) -> None:
    """Raise VerifyError unless an archive, as it is on disk, has these images, in groups that are whole."""
    file.seek(0)
    try:
        packed = Archive(file, max_pixels=max_pixels)
        for number in range(len(packed.group_sizes)):
            packed.group(number)
    except DqcodecError as error:
        raise VerifyError(f"the archive cannot be read back ({error}); nothing is written") from error
    if list(packed.members.values()) != members:
        raise VerifyError("the archive has other images than were packed; nothing is written")


@dataclass(frozen=True)
class Unpacking:
    """The images of an archive that are to be decoded. folder: where to; None if only to check them. unmatched:
    patterns that match no name. options: those of decode_group."""

    source: Path
    folder: Path | None
    names: set[str]
    unmatched: list[str]
    stamp: Stamp
    options: dict[str, Any]

    @classmethod
    def plan(cls, source: Path, folder: Path | None, only: Sequence[str], **options: Any) -> Unpacking:
        """only: patterns of names; none for all. Raises OSError, FormatError, CorruptError, and UnsupportedImageError
        where two images would go to one file."""
        with open(source, "rb") as file:
            stamp, names = Stamp.of(os.fstat(file.fileno())), {*Archive(file)}
        found = {pattern: {name for name in names if fnmatchcase(name, pattern)} for pattern in only}
        chosen = set().union(*found.values()) if only else names
        if len({_renamed(name, options.get("format", "png")) for name in chosen}) < len(chosen):
            raise UnsupportedImageError("two of its images would go to the same file")
        unmatched = [pattern for pattern, matching in found.items() if not matching]
        return cls(source, folder, chosen, unmatched, stamp, options)

    def tasks(self, *, force: bool) -> Iterator[Task]:
        """One for each group that has images to be decoded."""
        work = partial(decode_group, source=self.source, folder=self.folder, force=force, **self.options)
        with Archive(self.source, max_pixels=self.options.get("max_pixels", MAX_PIXELS)) as packed:
            members = iter(packed.members.values())
            for number, (_, count) in enumerate(packed.group_sizes):
                wanted = [each for each in enumerate(itertools.islice(members, count)) if each[1].name in self.names]
                if not wanted:
                    continue
                try:
                    task = partial(work, packed.group(number), wanted)
                except FAILURES as error:
                    failure = FileResult(str(self.source), error=one_line(error))
                    task = partial(list, [dataclasses.replace(failure, member=member.name) for _, member in wanted])
                yield task

    def report(self, run: RunReport) -> UnpackReport:
        """Of the results of this archive."""
        failed = sum(result.member is not None for result in run.failed)
        return UnpackReport(str(self.source), self.folder and str(self.folder), len(run.done), failed)


def decode_group(
    group: Group,
    wanted: list[tuple[int, Member]],
    *,
    source: Path,
    models: Sequence[str],
    folder: Path | None = None,
    format: str = "png",
    force: bool = False,
    repack: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> list[FileResult]:
    """Decode a group, and write the images that are wanted, by their numbers, below `folder`, if there is one."""
    fates: dict[int, FileResult] = {}
    targets: dict[int, Path | None] = {}

    def fail(number: int, member: Member, error: BaseException) -> None:
        target = targets.get(number)
        fates[number] = FileResult(str(source), target and str(target), error=one_line(error), member=member.name)

    for number, member in wanted:
        try:
            targets[number] = folder and _target(folder, member, format)
            if folder:
                files.check_target(targets[number], force=force)
        except FAILURES as error:
            fail(number, member, error)
    ready = [(number, member) for number, member in wanted if number not in fates]
    try:
        images = codec.decode(group, partial(zoo.find, named=models), max_pixels) if ready else []
    except FAILURES as error:
        for number, member in ready:
            fail(number, member, error)
        ready = []
    for number, member in ready:
        try:
            data = codec.restore(group.entries[number], images[number], repack=repack)
            if folder:
                data = library.from_png(data, format, max_pixels)
                target = _target(folder, member, format)  # again: another image may have changed what lies there
                files.write(target, data, force=force, stamp=Stamp(member.mode, member.mtime_ns))
        except FAILURES as error:
            fail(number, member, error)
        else:
            target = targets[number]
            report = DecodedReport(group.entries[number].method, len(data))
            fates[number] = FileResult(str(source), target and str(target), report, member=member.name)
    return [fates[number] for number, _ in wanted]


def _target(folder: Path, member: Member, format: str) -> Path:
    return files.below(folder, _renamed(member.name, format))


def _renamed(name: str, format: str) -> str:
    """The path of an image that is written in a format; PNGs are called as they were."""
    return name if format == "png" else files.image_name(name, f".{format}")


@dataclass(frozen=True)
class Listed:
    """What an image's head tells of it, or why that cannot be read. member: its name, if it is one of an archive."""

    name: str
    member: str | None
    stamp: Stamp
    header: Header | None = None
    method: str | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        width, height, color_type, bit_depth = self.header
        image = {"width": width, "height": height, "color": _COLORS[color_type], "bit_depth": bit_depth}
        return {"name": self.name} | image | {"method": self.method} | dataclasses.asdict(self.stamp)

    def line(self) -> str:
        """`  768 x 512    RGB 8 bit               2026-11-28 08:15:00  a/b.png`"""
        width, height, color_type, bit_depth = self.header
        try:
            when = f"{datetime.fromtimestamp(self.stamp.mtime_ns // _SECOND):%Y-%m-%d %H:%M:%S}"
        except (ValueError, OverflowError, OSError):  # a damaged archive may have any
            when = "?"
        return f"{width:>6} x {height:<6} {f'{_COLORS[color_type]} {bit_depth} bit':<23} {when:<19}  {self.name}"


def listed(source: Path, max_pixels: int = MAX_PIXELS) -> Iterator[Listed]:
    """The images of an archive, or the one of a .dqc file, in their order."""
    try:
        if not archive.is_archive(files.start(source)):
            data, stamp = files.read(source)
            (told,) = _heads(Group.parse(data, max_pixels), max_pixels)
            yield Listed(str(source), None, stamp, *told)
            return
        packed = Archive(source, max_pixels=max_pixels)
    except FAILURES as error:
        yield Listed(str(source), None, Stamp(0, 0), error=one_line(error))
        return
    with packed:
        members = iter(packed.members.values())
        for number, (_, count) in enumerate(packed.group_sizes):
            told: Iterable[tuple] = itertools.repeat((None, None))
            error = None
            try:
                told = _heads(packed.group(number), max_pixels)
            except FAILURES as reason:
                error = one_line(reason)
            for member, each in zip(itertools.islice(members, count), told):
                yield Listed(member.name, member.name, Stamp(member.mode, member.mtime_ns), *each, error)


def _heads(group: Group, max_pixels: int) -> list[tuple[Header, str]]:
    """(header, method) of each image of a group; raises CorruptError, UnsupportedImageError."""
    first = {owned[0][0]: payload for payload, owned in zip(group.payloads, owners(group.entries))}
    return [
        ((entry.skeleton or png.read(first[number], max_pixels, decode=False)).header, entry.method)
        for number, entry in enumerate(group.entries)
    ]


def info(packed: Archive) -> dict[str, Any]:
    """What an archive says of itself as a whole; raises what Archive.group raises."""
    methods: dict[str, int] = {}
    models: dict[str, int] = {}
    for number in range(len(packed.group_sizes)):
        for entry in packed.group(number).entries:
            methods[entry.method] = methods.get(entry.method, 0) + 1
            for model in {layer.model_id.hex() for layer in entry.layers if layer.model_id}:
                models[model] = models.get(model, 0) + 1
    return {
        "images": len(packed),
        "groups": len(packed.group_sizes),
        "group_bytes": sum(size for size, _ in packed.group_sizes),
        "methods": dict(sorted(methods.items(), key=lambda each: -each[1])),
        "models": dict(sorted(models.items(), key=lambda each: -each[1])),
    }
