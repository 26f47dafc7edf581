"""Many files into one archive, and an archive's images to files.

`pack_batch` and `decode_group` depend on their arguments alone, so that any process can do them for a group; the main
process reads the sources and writes the archive, in the order of the names, so that it is always the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

from dqcodec import png
from dqcodec.base.errors import FAILURES, CorruptError, DqcodecError, UnsupportedImageError, VerifyError, one_line
from dqcodec.codec import formats, zoo
from dqcodec.codec.archive import Archive
from dqcodec.codec.group import check, encode_sets, restore
from dqcodec.codec.group import decode as decode_images
from dqcodec.codec.report import DecodedReport, PackedReport
from dqcodec.codec.source import Source, read
from dqcodec.command import files
from dqcodec.command.files import Stamp
from dqcodec.command.kinds import ARCHIVE, check_dqc, check_image
from dqcodec.command.names import below, image_name
from dqcodec.command.results import ArchiveReport, FileResult, RunReport, UnpackReport
from dqcodec.format import archive
from dqcodec.format.archive import MAX_MEMBERS, ArchiveGroup, Member, PackedGroup, Verbatim
from dqcodec.format.container import Group, owners
from dqcodec.format.directory import Damage
from dqcodec.png import MAX_PIXELS, Header

if TYPE_CHECKING:
    from dqcodec.codec.choose import Choice
    from dqcodec.codec.group import Decoded

GROUP_SECONDS = 1.0  # that a group, or its one image, takes to decode on one core, about
_PIXEL_SECONDS = 2e-6  # by a model, which codes all samples of a pixel together
_SAMPLE_SECONDS = 5.5e-6  # by mixing, which codes the bits of a sample one by one; of 8 bits
_BYTE_SECONDS = 2e-8  # of a file that is kept verbatim
_SECOND = 10**9
_TIMES = (-(1 << 32) * _SECOND, (1 << 33) * _SECOND)  # which an archive can hold next to each other: 1833 to 2242
_COLORS = {0: "gray", 2: "RGB", 3: "palette", 4: "gray with alpha", 6: "RGBA"}

Map = Callable[[Callable, Iterable], Iterable]  # map, or one by several processes
Task = Callable[[], list[FileResult]]


@dataclass(frozen=True)
class Item:
    """A source that is read: its name in the archive, its PNG file, its own size and stamp; or why it is not packed. is_verbatim:
    data is the file itself, which need not be a PNG; damage: of a broken PNG that is kept so, what is wrong with it."""

    path: Path
    name: str
    data: bytes = b""
    source_bytes: int = 0
    stamp: Stamp | None = None
    error: str | None = None
    is_verbatim: bool = False
    damage: str | None = None

    @property
    def member(self) -> Member:
        low, high = _TIMES
        return Member(self.name, max(low, min(self.stamp.mtime_ns, high)), self.stamp.mode)


@dataclass(frozen=True)
class Keeping:
    """What is kept verbatim. others: files that are no PNGs; broken: PNGs that are damaged."""

    others: bool = False
    broken: bool = False

    def takes(self, data: bytes) -> bool:
        """Whether a file that cannot be packed as an image is kept."""
        return self.broken if data.startswith(png.SIGNATURE) else self.others


@dataclass(frozen=True)
class Packed:
    """A group, the items that are in it, their data left out, and what became of all that were to be."""

    results: list[FileResult]
    items: list[Item]
    group: PackedGroup | None = None


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
    keeping: Keeping = Keeping(),
    max_pixels: int = MAX_PIXELS,
) -> ArchiveReport | None:
    """Pack sources, each with its name, into the archive `target`; None, and no archive, where none can be packed. Files that are
    equal follow each other, so that they share a group and are coded once.

    work: pack_batch with its options. `tell` is told what becomes of each source. With `rm`, those that are packed are
    removed when the archive is in place. Raises OSError and VerifyError, and then there is no archive.
    """
    start = time.perf_counter()
    files.check_target(target, force=force)
    items: list[Item] = []
    failed, groups, dims, verbatim = 0, 0, 0, 0
    with contextlib.ExitStack() as stack:
        file = writer = None
        ordered = _equal_together(inputs)
        for packed in mapped(work, _batches(ordered, group_images, keeping, rm, max_pixels)):
            if packed.group:
                if writer is None:
                    file = stack.enter_context(files.writing(target, force=force))
                    writer = archive.Writer(file)
                writer.add(packed.group)
                items += packed.items
                verbatim += sum(item.is_verbatim for item in packed.items)
                groups += 1
            for result in packed.results:
                failed += bool(result.error)
                dims += 0 if result.error else result.report.dims
                tell(result)
        if writer is None:
            return None
        writer.finish()
        if verify:
            _check(file, [item.name for item in items], max_pixels)
        size = file.seek(0, os.SEEK_END)
    for item in items if rm else ():
        try:
            files.remove(item.path, item.stamp)
        except OSError as error:
            failed += 1
            tell(FileResult(str(item.path), str(target), error=f"packed, but {one_line(error)}"))
    source_bytes = sum(item.source_bytes for item in items)
    return ArchiveReport(
        str(target), len(items), verbatim, groups, failed, source_bytes, size, dims, verify, time.perf_counter() - start
    )


def pack_batch(
    batch: list[Item],
    *,
    target: Path,
    models: Sequence[str],
    best: bool,
    particles: int = 1,
    verify: bool,
    keeping: Keeping = Keeping(),
    max_pixels: int = MAX_PIXELS,
    **options: Any,
) -> Packed:
    """A group of those of the items that can be packed. best, particles: see codec.compress; options: those of source.read."""
    fates: dict[str, FileResult] = {}
    contents: dict[tuple[bytes, bool], Source | Verbatim] = {}  # by data and whether it is verbatim
    kept: list[tuple[Item, tuple[bytes, bool]]] = []
    for item in batch:
        try:
            item, content = _content(item, contents, keeping, max_pixels, options)
        except FAILURES as error:
            fates[item.name] = FileResult(str(item.path), str(target), error=one_line(error))
        else:
            contents.setdefault((item.data, item.is_verbatim), content)
            kept.append((item, (item.data, item.is_verbatim)))
    items, packed = [dataclasses.replace(item, data=b"") for item, _ in kept], None
    if kept:
        try:
            group, told = _encode(kept, contents, models, verify, max_pixels, best=best, particles=particles)
        except FAILURES as error:
            fates |= {item.name: FileResult(str(item.path), str(target), error=one_line(error)) for item in items}
            items = []
        else:
            packed = group
            fates |= {item.name: FileResult(str(item.path), str(target), report) for item, report in zip(items, told)}
    return Packed([fates[item.name] for item in batch], items, packed)


def _content(
    item: Item, known: Mapping, keeping: Keeping, max_pixels: int, options: Mapping[str, Any]
) -> tuple[Item, Source | Verbatim]:
    """What an item holds, and the item, which turns verbatim if it is damaged and to be kept; raises what source.read raises, and
    ValueError."""
    if item.error is not None:
        raise UnsupportedImageError(item.error)
    content = known.get((item.data, item.is_verbatim))
    if content is None and not item.is_verbatim:
        try:
            content = read(item.data, max_pixels=max_pixels, **options)
        except CorruptError as error:
            if not keeping.broken:
                raise
            item = dataclasses.replace(item, is_verbatim=True, damage=one_line(error))
    return item, content or Verbatim(item.data)


def _encode(
    kept: Sequence[tuple[Item, tuple]], contents: Mapping[tuple, Source | Verbatim], models: Sequence[str], verify: bool,
    max_pixels: int, **options: Any,
) -> tuple[PackedGroup, list[PackedReport]]:
    """A group of items, each with its content's key, and what is told of each; raises VerifyError."""
    keys = [key for key, content in contents.items() if isinstance(content, Source)]
    sources = [contents[key] for key in keys]
    programs = [zoo.load(name) for name in models]
    sets = encode_sets(sources, programs, **options) if sources else []
    order = [keys[number] for numbers, _ in sets for number in numbers]
    order += [key for key, content in contents.items() if isinstance(content, Verbatim)]
    parts = [coded.group for _, coded in sets] + [contents[key] for key in order[len(keys) :]]
    number_of = {key: number for number, key in enumerate(order)}
    group = ArchiveGroup(
        tuple(item.member for item, _ in kept), tuple(number_of[key] for _, key in kept), tuple(parts)
    )
    packed = archive.pack_group(group)
    if verify:
        parsed = functools.cache(lambda: archive.read_group(packed.header, packed.body, max_pixels))
        for number, (numbers, coded) in enumerate(sets):
            check(lambda: parsed().parts[number], [sources[each] for each in numbers], coded.programs, max_pixels)
        read_back = parsed()
        if (read_back.members, read_back.contents, read_back.parts[len(sets) :]) != (group.members, group.contents, group.parts[len(sets) :]):
            raise VerifyError("the group reads back as another; nothing is written")
    choices = {keys[number]: choice for numbers, coded in sets for number, choice in zip(numbers, coded.choices)}
    told, seen = [], set()
    for item, key in kept:
        told.append(_report(item, contents[key], choices.get(key), is_again=key in seen))
        seen.add(key)
    return packed, told


def _report(item: Item, content: Source | Verbatim, choice: Choice | None, *, is_again: bool) -> PackedReport:
    """is_again: an equal file comes before it."""
    if isinstance(content, Verbatim):
        size = 0 if is_again else len(content.data)
        method = "repeated" if is_again else "verbatim"
        return PackedReport(item.name, method, 0, 0, 0, item.source_bytes, size, dropped=(), broken=item.damage)
    header, entry = content.image.header, choice.entry
    return PackedReport(
        name=item.name,
        method="repeated" if is_again else entry.method,
        width=header.width,
        height=header.height,
        dims=header.samples * sum(height * width for height, width in content.sizes),
        png_bytes=item.source_bytes,
        dqc_bytes=0 if is_again else round(choice.size),
        dropped=content.lost(is_stored=entry.skeleton is None),
    )


def _equal_together(inputs: Sequence[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """The inputs; those that equal an earlier one come right after it. Only files of a size are read for that."""
    sizes: dict[int, list[int]] = {}
    for number, (path, _) in enumerate(inputs):
        with contextlib.suppress(OSError):
            sizes.setdefault(path.stat().st_size, []).append(number)
    first = [*range(len(inputs))]
    for numbers in sizes.values():
        digests: dict[bytes, int] = {}
        for number in numbers if len(numbers) > 1 else ():
            with contextlib.suppress(OSError), open(inputs[number][0], "rb") as file:
                first[number] = digests.setdefault(hashlib.file_digest(file, "sha256").digest(), number)
    return [inputs[number] for number in sorted(range(len(inputs)), key=lambda number: (first[number], number))]


def _batches(
    inputs: Sequence[tuple[Path, str]], group_images: int | None, keeping: Keeping, rm: bool, max_pixels: int
) -> Iterator[list[Item]]:
    """The sources, read, as many as make a group: no more than it may hold, and than decode in GROUP_SECONDS."""
    batch, seen, images, pixels, seconds = [], set(), 0, 0, 0.0
    most = min(group_images or MAX_MEMBERS, MAX_MEMBERS)
    for path, name in inputs:
        item, size, cost = _read(path, name, keeping, rm, max_pixels)
        is_full = pixels + size > max_pixels or seconds + cost > GROUP_SECONDS
        if item.error is None and images and (images == most or is_full and item.data not in seen):
            yield batch
            batch, seen, images, pixels, seconds = [], set(), 0, 0, 0.0
        batch.append(item)
        if item.error is None:
            images += 1
            if item.data not in seen:
                pixels, seconds = pixels + size, seconds + cost
            seen.add(item.data)
    if batch:
        yield batch


def _read(path: Path, name: str, keeping: Keeping, rm: bool, max_pixels: int) -> tuple[Item, int, float]:
    """A source, how many pixels it has, and about how many seconds they take to decode."""
    try:
        check = {} if keeping.others else {"check": check_image}
        data, stamp = files.read(path, files.max_bytes(max_pixels), **check)
    except FAILURES as error:
        return Item(path, name, error=one_line(error)), 0, 0.0
    is_image = data.startswith(png.SIGNATURE) or path.suffix.lower() != PurePath(name).suffix.lower()  # or made one
    try:
        png_data = formats.to_png(data, max_pixels, is_kept=not rm) if is_image or not keeping.others else b""
        image = png.read(png_data, max_pixels, decode=False)
    except FAILURES as error:
        is_refused = isinstance(error, UnsupportedImageError) and is_image  # too large, say
        if is_refused or not keeping.takes(data):
            return Item(path, name, error=one_line(error)), 0, 0.0
        damage = one_line(error) if data.startswith(png.SIGNATURE) else None
        return Item(path, name, data, len(data), stamp, is_verbatim=True, damage=damage), 0, _BYTE_SECONDS * len(data)
    sizes = image.skeleton.sizes if image.skeleton else [(image.header.height, image.header.width)]
    pixels = sum(height * width for height, width in sizes)
    bits = image.header.samples * image.header.bit_depth
    return Item(path, name, png_data, len(data), stamp), pixels, pixels * max(_PIXEL_SECONDS, _SAMPLE_SECONDS * bits / 8)


def _check(file: BinaryIO, names: list[str], max_pixels: int) -> None:
    """Raise VerifyError unless an archive, as it is on disk, has these files, in groups that are whole."""
    file.flush()
    try:
        packed = Archive(file, max_pixels=max_pixels)
        if packed.damage:
            raise CorruptError(packed.damage[0].what)
        for number in range(len(packed.group_sizes)):
            packed.group(number)
    except DqcodecError as error:
        raise VerifyError(f"the archive cannot be read back ({error}); nothing is written") from error
    if list(packed) != names:
        raise VerifyError("the archive has other files than were packed; nothing is written")


@dataclass(frozen=True)
class Unpacking:
    """The files of an archive that are to be decoded. source: None is standard input. folder: where to; None if only to check
    them. unmatched: patterns that match no name. data: the archive, if it came from a stream. damage: what is wrong with the
    archive as a whole. options: those of decode_group."""

    source: Path | None
    folder: Path | None
    names: set[str]
    unmatched: list[str]
    stamp: Stamp | None
    data: bytes | None
    damage: tuple[Damage, ...]
    salvage: bool
    options: dict[str, Any]

    @property
    def source_name(self) -> str:
        return str(self.source or "<stdin>")

    @classmethod
    def plan(
        cls,
        source: Path | None,
        folder: Path | None,
        only: Sequence[str],
        data: bytes | None = None,
        *,
        salvage: bool,
        is_checked: bool,
        **options: Any,
    ) -> Unpacking:
        """only: patterns of names; none for all. is_checked: whatever is wrong with the archive counts, harmless or not.
        Raises OSError, FormatError, CorruptError, and UnsupportedImageError where two images would go to one file."""
        max_pixels = options.get("max_pixels", MAX_PIXELS)
        with open(source, "rb") if data is None else io.BytesIO(data) as file:
            try:
                packed = Archive(file, salvage=salvage or is_checked, max_pixels=max_pixels)
            except CorruptError as error:
                raise CorruptError(f"{error} (--salvage gets what is whole)") from error
            stamp = Stamp.of(os.fstat(file.fileno())) if data is None else None
            names = {*packed}
            found = {pattern: {name for name in names if fnmatchcase(name, pattern)} for pattern in only}
            chosen = set().union(*found.values()) if only else names
            format = options.get("format", "png")
            if format != "png" and len({_renamed(name, format, _kind(packed, name)) for name in chosen}) < len(chosen):
                raise UnsupportedImageError("two of its images would go to the same file")
        damage = tuple(dataclasses.replace(each, is_loss=each.is_loss or is_checked) for each in packed.damage)
        unmatched = [pattern for pattern, matching in found.items() if not matching]
        return cls(source, folder, chosen, unmatched, stamp, data, damage, salvage or is_checked, options)

    def lost(self) -> Iterator[FileResult]:
        """What opening the archive told to be lost; of names that are known, one for each."""
        for damage in self.damage:
            for name in damage.names:
                yield FileResult(self.source_name, error=f"lost: {damage.what}", member=name)
            if damage.is_loss and not damage.names:
                yield FileResult(self.source_name, error=f"damaged: {damage.what}")

    def oddities(self) -> list[str]:
        """What is wrong with the archive, but costs nothing."""
        return [damage.what for damage in self.damage if not damage.is_loss]

    def tasks(self, *, force: bool) -> Iterator[Task]:
        """One for each group that has files to be decoded."""
        file = self.source if self.data is None else io.BytesIO(self.data)
        work = partial(decode_group, source=self.source_name, folder=self.folder, force=force, **self.options)
        with Archive(file, max_pixels=self.options.get("max_pixels", MAX_PIXELS), salvage=self.salvage) as packed:
            for number in range(len(packed.group_sizes)):
                wanted = [each for each in enumerate(packed.names(number)) if each[1] in self.names]
                if not wanted:
                    continue
                try:
                    task = partial(work, packed.group(number), wanted)
                except FAILURES as error:
                    failure = FileResult(self.source_name, error=one_line(error))
                    task = partial(list, [dataclasses.replace(failure, member=name) for _, name in wanted])
                yield task

    def report(self, run: RunReport) -> UnpackReport:
        """Of the results of this archive."""
        failed = sum(result.member is not None for result in run.failed)
        return UnpackReport(self.source_name, self.folder and str(self.folder), len(run.done), failed)


def decode_group(
    group: ArchiveGroup,
    wanted: list[tuple[int, str]],
    *,
    source: str,
    models: Sequence[str],
    folder: Path | None = None,
    format: str = "png",
    force: bool = False,
    repack: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> list[FileResult]:
    """Decode a group, and write the files that are wanted, by their members' numbers, below `folder`, if there is one, by
    their names."""
    fates: dict[int, FileResult] = {}
    targets: dict[int, Path] = {}
    decoded: dict[int, list[Decoded] | BaseException] = {}

    def decode(number: int) -> list[Decoded]:
        """The images of a part; what is damaged is not tried again."""
        if number not in decoded:
            try:
                decoded[number] = decode_images(group.parts[number], partial(zoo.find, named=models), max_pixels)
            except FAILURES as error:
                decoded[number] = error
        if isinstance(decoded[number], BaseException):
            raise decoded[number]
        return decoded[number]

    for number, name in wanted:
        part_number, image = group.place(number)
        part = group.parts[part_number]
        kind = "verbatim" if isinstance(part, Verbatim) else "image"
        try:
            if folder:
                targets[number] = below(folder, _renamed(name, format, kind))
                files.check_target(targets[number], force=force)
                if files.is_same(targets[number], Path(source)):
                    raise OSError("it would replace its own archive")
            if kind == "verbatim":
                data, method = part.data, kind
            else:
                data = restore(part.entries[image], decode(part_number)[image], repack=repack)
                method = part.entries[image].method
                data = formats.from_png(data, format, max_pixels) if folder else data
            if folder:
                member = group.members[number]
                files.write(targets[number], data, force=force, stamp=Stamp(member.mode, member.mtime_ns))
        except FAILURES as error:
            outcome = {"error": one_line(error)}
        else:
            outcome = {"report": DecodedReport(method, len(data))}
        target = targets.get(number)
        fates[number] = FileResult(source, target and str(target), member=name, **outcome)
    return [fates[number] for number, _ in wanted]


def _kind(packed: Archive, name: str) -> str:
    """That of an archive's file; of one that is damaged, an image's."""
    try:
        return packed.kind(name)
    except FAILURES:
        return "image"


def _renamed(name: str, format: str, kind: str) -> str:
    """The path of a file that is written in a format; PNGs, and what is kept verbatim, are called as they were."""
    return name if format == "png" or kind == "verbatim" else image_name(name, f".{format}")


@dataclass(frozen=True)
class Listed:
    """What the head of an image tells of it, or that a file is kept verbatim, or why that cannot be read. member: its name, if
    it is one of an archive; bytes: of a file kept verbatim."""

    name: str
    member: str | None
    stamp: Stamp | None
    header: Header | None = None
    method: str | None = None
    bytes: int | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        if self.header:
            width, height, color_type, bit_depth = self.header
            what = {"width": width, "height": height, "color": _COLORS[color_type], "bit_depth": bit_depth}
        else:
            what = {"bytes": self.bytes}
        stamp = {"mode": self.stamp.mode, "mtime_ns": self.stamp.mtime_ns} if self.stamp else {}
        return {"name": self.name} | what | {"method": self.method} | stamp

    def line(self) -> str:
        """`  768 x 512    RGB 8 bit               2026-11-28 08:15:00  a/b.png`"""
        try:
            when = f"{datetime.fromtimestamp(self.stamp.mtime_ns // _SECOND):%Y-%m-%d %H:%M:%S}"
        except (AttributeError, ValueError, OverflowError, OSError):  # a stream has none, a damaged archive may have any
            when = "?"
        if self.header:
            width, height, color_type, bit_depth = self.header
            what = f"{width:>6} x {height:<6} {f'{_COLORS[color_type]} {bit_depth} bit':<23}"
        else:
            what = f"{self.bytes:>15} B verbatim".ljust(39)
        return f"{what} {when:<19}  {self.name}"


def opened(source: Path | None, max_pixels: int = MAX_PIXELS) -> tuple[Archive | None, bytes, Stamp | None]:
    """(archive, nothing, None), or (None, the bytes of a .dqc file of one image, its stamp). source: None is standard input.

    An archive opens even if some of its names are lost. Raises OSError, FormatError, CorruptError.
    """
    if files.starts_as(source, ARCHIVE):
        return _open_damaged(source, max_pixels), b"", None
    data, stamp = files.read(source, files.max_bytes(max_pixels), check_dqc)
    if ARCHIVE.has(data):
        return _open_damaged(io.BytesIO(data), max_pixels), b"", None
    return None, data, stamp


def _open_damaged(file: Path | BinaryIO, max_pixels: int) -> Archive:
    try:
        return Archive(file, max_pixels=max_pixels)
    except CorruptError:
        if isinstance(file, io.BytesIO):
            file = io.BytesIO(file.getvalue())  # the archive that failed has closed it
        return Archive(file, max_pixels=max_pixels, salvage=True)


def listed(source: Path | None, max_pixels: int = MAX_PIXELS) -> Iterator[Listed]:
    """The files of an archive, or the image of a .dqc file, in their order; then what is wrong with the archive.

    source: see `opened`.
    """
    source_name = str(source or "<stdin>")
    try:
        packed, data, stamp = opened(source, max_pixels)
        if packed is None:
            (told,) = _heads(Group.parse(data, max_pixels), max_pixels)
            yield Listed(source_name, None, stamp, *told)
            return
    except FAILURES as error:
        yield Listed(source_name, None, None, error=one_line(error))
        return
    with packed:
        for number in range(len(packed.group_sizes)):
            names = packed.names(number)
            try:
                group = packed.group(number)
                told = [_heads(part, max_pixels) for part in group.parts]
            except FAILURES as error:
                yield from (Listed(name, name, None, error=one_line(error)) for name in names if name is not None)
                continue
            for each, (name, member) in enumerate(zip(names, group.members)):
                part, image = group.place(each)
                if name is not None:
                    yield Listed(name, name, Stamp(member.mode, member.mtime_ns), *told[part][image])
        for damage in packed.damage:
            for name in damage.names or (None,):
                yield Listed(name or source_name, name, None, error=damage.what)


def _heads(part: Group | Verbatim, max_pixels: int) -> list[tuple[Header | None, str, int | None]]:
    """(header, method, bytes if it is kept verbatim) of each content; raises CorruptError, UnsupportedImageError."""
    if isinstance(part, Verbatim):
        return [(None, "verbatim", len(part.data))]
    first = {owned[0][0]: payload for payload, owned in zip(part.payloads, owners(part.entries))}
    return [
        (entry.skeleton.header if entry.skeleton else png.read_header(first[number], max_pixels), entry.method, None)
        for number, entry in enumerate(part.entries)
    ]


def info(packed: Archive) -> dict[str, Any]:
    """What an archive says of itself as a whole; raises what Archive.group raises."""
    methods: dict[str, int] = {}
    models: dict[str, int] = {}
    for number in range(len(packed.group_sizes)):
        group, seen = packed.group(number), set()
        for each, content in enumerate(group.contents):
            number_of_part, image = group.place(each)
            part = group.parts[number_of_part]
            is_file = isinstance(part, Verbatim)
            method = "repeated" if content in seen else "verbatim" if is_file else part.entries[image].method
            methods[method] = methods.get(method, 0) + 1
            seen.add(content)
            for model in set() if is_file else {layer.model_id.hex() for layer in part.entries[image].layers if layer.model_id}:
                models[model] = models.get(model, 0) + 1
    return {
        "images": len(packed),
        "groups": len(packed.group_sizes),
        "group_bytes": sum(size for size, _ in packed.group_sizes),
        "methods": dict(sorted(methods.items(), key=lambda each: -each[1])),
        "models": dict(sorted(models.items(), key=lambda each: -each[1])),
    } | ({"damage": [each.what for each in packed.damage]} if packed.damage else {})
