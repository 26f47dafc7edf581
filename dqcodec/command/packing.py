"""Many files -> one archive.

The main process reads the sources and writes the archive, in the order of the names. `Packing.pack_batch` codes a
group. Its result depends only on its arguments, so that any process can call it and the archive is always the same.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from dqcodec.base.errors import FAILURES, CorruptError, UnsupportedImageError, one_line
from dqcodec.codec import archive_group, own_models, zoo
from dqcodec.codec.archive import check
from dqcodec.codec.choose import Choice
from dqcodec.codec.report import PackedReport
from dqcodec.codec.source import Source, read
from dqcodec.command import atomic, removal
from dqcodec.command.items import Item, equal_together, read_item
from dqcodec.command.learning import Learned
from dqcodec.command.names import member_name
from dqcodec.command.options import Compressing
from dqcodec.command.results import ArchiveReport, FileResult
from dqcodec.command.workers import Map
from dqcodec.exact.program import Program
from dqcodec.format import archive
from dqcodec.format.archive_group import MAX_MEMBERS, PackedGroup, Verbatim

Kept = Sequence[tuple[Item, Source | Verbatim]]  # items and what they hold; equal items hold the same object
_MOST_HELD = 1 << 28  # bytes of groups that wait until their model has paid for itself


@dataclass(frozen=True)
class Packed:
    """A group that is coded, its items without their data, and the results of all items of the batch.

    saved: the bytes that the archive's own model saves in the group.
    """

    results: list[FileResult]
    items: list[Item]
    group: PackedGroup | None = None
    saved: int = 0


@dataclass(frozen=True)
class Packing:
    """How an archive is made.

    options: without models, none is used. learned: a model that the archive brings, if it is smaller with it.
    """

    target: Path
    options: Compressing
    learned: Learned | None = None

    def pack(
        self, inputs: Sequence[tuple[Path, str]], mapped: Map, on_result: Callable[[FileResult], None]
    ) -> ArchiveReport | None:
        """Pack sources (path, name) into the archive; None if there is no archive, since no source can be packed.

        Equal files come together, so that they share a group and are coded once. `on_result` gets each source's result.
        The sources are removed only when the archive is in place. Raises OSError and VerifyError; then there is no
        archive.
        """
        start = time.perf_counter()
        atomic.check_target(self.target, force=self.options.force)
        packed = iter(mapped(self.pack_batch, self._batches(inputs)))
        if self.learned:
            held = _until(packed, self.learned.report.bytes) if self.learned.is_hopeful else []
            if not held:
                report = replace(self, learned=None).pack(inputs, mapped, on_result)
                return report and replace(report, learned=self.learned.report)
            packed = itertools.chain(held, packed)
        return self._write(packed, _state(inputs), on_result, start)

    def _write(
        self, all_packed: Iterable[Packed], state: bytes, on_result: Callable[[FileResult], None], start: float
    ) -> ArchiveReport | None:
        """Write groups as they come. state: of all sources."""
        models = [self.learned.model] if self.learned else []
        results: list[FileResult] = []
        items: list[Item] = []
        count = saved = 0
        with contextlib.ExitStack() as stack:
            file = writer = None
            for packed in all_packed:
                saved += packed.saved
                if packed.group:
                    if writer is None:
                        file = stack.enter_context(atomic.writing(self.target, force=self.options.force))
                        writer = archive.Writer(file, models, state=state)
                    writer.add(packed.group)
                    items += packed.items
                    count += 1
                for result in packed.results:
                    results.append(result)
                    on_result(result)
            if writer is None:
                return None
            writer.finish()
            if not self.options.no_verify:
                check(file, [item.name for item in items], self.options.max_pixels)
            size = file.seek(0, os.SEEK_END)
        left = self._remove(items, on_result) if self.options.rm else 0
        return ArchiveReport(
            archive=str(self.target),
            images=len(items),
            verbatim=sum(item.is_verbatim for item in items),
            broken=sum(item.damage is not None for item in items),
            pixels_only=sum(not (item.is_png or item.is_verbatim) for item in items),
            dropped=dict(Counter(kind for result in results if result.report for kind in result.report.dropped)),
            groups=count,
            failed=left + sum(result.error is not None for result in results),
            png_bytes=sum(item.source_bytes for item in items),
            dqc_bytes=size,
            dims=sum(result.report.dims for result in results if result.report),
            verified=not self.options.no_verify,
            seconds=time.perf_counter() - start,
            learned=self.learned and replace(self.learned.report, saved_bytes=saved),
        )

    def pack_batch(self, batch: list[Item]) -> Packed:
        """One group of the items that can be packed."""
        fates: dict[str, FileResult] = {}
        contents: dict[tuple[bytes, bool], Source | Verbatim] = {}  # by the bytes, and whether they are kept verbatim
        kept: list[tuple[Item, Source | Verbatim]] = []
        for item in batch:
            try:
                item, content = self._content(item, contents)
                kept.append((item, contents.setdefault((item.data, item.is_verbatim), content)))
            except FAILURES as error:
                fates[item.name] = self._failed(item, error)
        group, saved = None, 0
        try:
            if kept:
                group, reports, saved = self._smaller(kept)
                for (item, _), report in zip(kept, reports):
                    is_renamed = PurePath(item.name).name != member_name(Path(item.path.name))
                    note = f"there {item.name}" if is_renamed else None
                    fates[item.name] = FileResult(str(item.path), str(self.target), report, note=note)
        except FAILURES as error:
            fates |= {item.name: self._failed(item, error) for item, _ in kept}
        items = [replace(item, data=b"") for item, _ in kept] if group else []
        return Packed([fates[item.name] for item in batch], items, group, saved)

    def _batches(self, inputs: Sequence[tuple[Path, str]]) -> Iterable[list[Item]]:
        items = (read_item(path, name, self.options) for path, name in equal_together(inputs))
        return archive_group.batches(
            items, min(self.options.group or MAX_MEMBERS, MAX_MEMBERS), self.options.max_pixels
        )

    def _failed(self, item: Item, error: BaseException) -> FileResult:
        return FileResult(str(item.path), str(self.target), error=one_line(error))

    def _content(
        self, item: Item, known: Mapping[tuple[bytes, bool], Source | Verbatim]
    ) -> tuple[Item, Source | Verbatim]:
        """An item and what it holds.

        A damaged PNG that is to be kept becomes verbatim. Raises what source.read raises.
        """
        if item.error is not None:
            raise UnsupportedImageError(item.error)
        content = known.get((item.data, item.is_verbatim))
        if content is None and not item.is_verbatim:
            try:
                content = read(item.data, max_pixels=self.options.max_pixels, **self.options.reading)
            except CorruptError as error:
                if not self.options.keep_broken:
                    raise
                item = replace(item, is_verbatim=True, damage=one_line(error))
        return item, content or Verbatim(item.data)

    def _smaller(self, kept: Kept) -> tuple[PackedGroup, list[PackedReport], int]:
        """The group of some items, a report of each, and the bytes that the archive's own model saves."""
        verify, programs = not self.options.no_verify, [zoo.load(name) for name in self.options.models]
        if self.learned is None:
            return *self._encode(kept, programs, verify), 0
        find = functools.partial(zoo.find, named=self.options.models)
        own = own_models.program_of(self.learned.model, find)
        with_own = self._encode(kept, [*programs, own], verify)
        without = self._encode(kept, programs, verify=False)
        saved = without[0].size - with_own[0].size
        return (*with_own, saved) if saved > 0 else (*self._encode(kept, programs, verify), 0)

    def _encode(self, kept: Kept, programs: Sequence[Program], verify: bool) -> tuple[PackedGroup, list[PackedReport]]:
        """The group of some items, and a report of each; raises VerifyError."""
        effort, max_pixels = self.options.effort, self.options.max_pixels
        members, contents = [item.member for item, _ in kept], [content for _, content in kept]
        coded = archive_group.encode(members, contents, programs, effort, verify=verify, max_pixels=max_pixels)
        return coded.packed, _reports(kept, coded.choices)

    def _remove(self, items: Sequence[Item], on_result: Callable[[FileResult], None]) -> int:
        """Remove the sources of an archive that is in place; returns the number of sources that could not be removed."""
        left = 0
        for item in items:
            try:
                removal.remove(item.path, item.stamp)
            except OSError as error:
                left += 1
                on_result(FileResult(str(item.path), str(self.target), error=f"packed, but {one_line(error)}"))
        return left


def _state(inputs: Sequence[tuple[Path, str]]) -> bytes:
    """Names, times and sizes of all sources (path, name)."""
    state = []
    for path, name in inputs:
        with contextlib.suppress(OSError):
            stat = path.stat()
            state.append((name, stat.st_mtime_ns, stat.st_size))
    return repr(state).encode()


def _until(packed: Iterator[Packed], cost: int) -> list[Packed]:
    """The first groups that together save more than the cost of a model; none if they save less, or are too large."""
    held, saved, size = [], 0, 0
    for each in packed:
        held.append(each)
        saved, size = saved + each.saved, size + (each.group.size if each.group else 0)
        if saved > cost:
            return held
        if size > _MOST_HELD:
            break
    return []


def _reports(kept: Kept, choices: Mapping[Source, Choice]) -> list[PackedReport]:
    """A report of each item; the first of equal ones has all their bytes."""
    reports, seen = [], set()
    for item, content in kept:
        report = _report(item, content, choices.get(content))
        reports.append(replace(report, method="repeated", dqc_bytes=0) if content in seen else report)
        seen.add(content)
    return reports


def _report(item: Item, content: Source | Verbatim, choice: Choice | None) -> PackedReport:
    if choice is None:
        size, facts = len(content.data), {"broken": item.damage, "is_png": item.is_png}
        return PackedReport(item.name, "verbatim", 0, 0, 0, item.source_bytes, size, dropped=(), **facts)
    return PackedReport(
        name=item.name,
        method=choice.entry.method,
        width=content.image.header.width,
        height=content.image.header.height,
        dims=content.dims,
        png_bytes=item.source_bytes,
        dqc_bytes=round(choice.size),
        dropped=content.lost(is_stored=choice.entry.skeleton is None),
        is_png=item.is_png,
    )
