"""The results of a command: of a file (FileResult), of an archive (ArchiveReport, UnpackReport), of a run (RunReport).

Each renders itself as one line for people and as a flat dict for --json.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from dqcodec.codec.report import CompressReport, PackedReport, Report, rate
from dqcodec.command.walk import DONE


@dataclass(frozen=True)
class FileResult:
    """The result of one input: a report, or an error of one line.

    name: of the image, if the source is an archive. note: what the user should know of the names.
    """

    source: str
    target: str | None = None
    report: Report | None = None
    error: str | None = None
    name: str | None = None
    note: str | None = None

    @property
    def is_detail(self) -> bool:
        """Whether it is about one of an archive's files, and says nothing that is wrong with it."""
        if isinstance(self.report, PackedReport):
            return self.report.broken is None
        return self.name is not None

    def line(self) -> str:
        """`a.png 736501 -> 512003 B 69.5% 3.47 bpd (mixing) verified`, `b.png: not a PNG file`"""
        subject = shown(self.source if self.name is None else f"{self.source}: {self.name}")
        note = f", {shown(self.note)}" if self.note else ""
        if not self.error:
            return f"{subject} {self.report.line()}{note}"
        error = shown(self.error)
        return error if error.startswith(f"{subject} ") else f"{subject}: {error}"

    def as_dict(self) -> dict[str, Any]:
        """Its places and its report or error, flat."""
        places = {"source": self.source, "name": self.name, "target": self.target}
        outcome = {"error": self.error} if self.error else self.report.as_dict()
        outcome |= {"note": self.note} if self.note else {}
        return {key: place for key, place in places.items() if place is not None} | outcome


@dataclass
class RunReport:
    """A command's results so far, their exit code, and the number of files left out for each reason.

    empty_archives: the number of undamaged archives without files. They have no results, and are done all the same.
    has_other_images: whether images of other formats than PNG are among the files left out.
    """

    results: list[FileResult] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    empty_archives: int = 0
    has_other_images: bool = False

    def by_source(self) -> dict[str, RunReport]:
        """The results of each source."""
        runs: defaultdict[str, RunReport] = defaultdict(RunReport)
        for result in self.results:
            runs[result.source].results.append(result)
        return runs

    @property
    def done(self) -> list[FileResult]:
        """The results without error."""
        return [result for result in self.results if not result.error]

    @property
    def failed(self) -> list[FileResult]:
        """The results with an error."""
        return [result for result in self.results if result.error]

    @property
    def return_code(self) -> int:
        """0 all done, 1 some failed, 3 nothing done, now or before."""
        if not (self.done or self.left_out[DONE] or self.empty_archives):
            return 3
        return 1 if self.failed else 0

    def totals(self) -> str:
        """`3 files, 900 -> 600 B 66.7%, 1 failed, 2 left out (empty folder: 1, not a PNG file: 1)`

        Of decompress and verify: `2 files ok, 600 -> 900 B`, and with archives `4 images in 3 files ok`.
        """
        parts = [self._size()]
        if count := len({(result.source, result.name or number) for number, result in enumerate(self.failed)}):
            parts.append(f"{count} failed")
        return ", ".join([*parts, *self.left_out_parts()])

    def _size(self) -> str:
        """The numbers of files and bytes that are done."""
        reports = [result.report for result in self.done]
        if any(result.name is not None for result in self.results):
            sources = {result.source for result in self.done}
            return f"{counted(len(reports), 'image')} in {counted(len(sources), 'file')} ok"
        files = counted(len(reports), "file")
        png_bytes = sum(report.png_bytes for report in reports)
        sizes = [report.dqc_bytes for report in reports]
        if not reports or None in sizes:
            return files
        if isinstance(reports[0], CompressReport):
            return f"{files}, {rate(png_bytes, sum(sizes), 0)}"
        return f"{files} ok, {sum(sizes)} -> {png_bytes} B"

    def left_out_parts(self) -> list[str]:
        """The part of the totals about files that are left out; empty without such files."""
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.left_out.items()))
        hint = "; name BMP, TIFF, JPEG ... files to compress their pixels" if self.has_other_images else ""
        return [f"{self.left_out.total()} left out ({reasons}{hint})"] if reasons else []


@dataclass(frozen=True)
class LearnedReport:
    """A model that was trained further on the images of an archive.

    base: the name of the original model. seconds, processor_seconds: of learning. bytes: of the model in the archive.
    saved_bytes: of groups; 0 if the archive would not be smaller with the model, and so does not have it.
    """

    base: str
    seconds: float
    processor_seconds: float
    bytes: int
    saved_bytes: int

    def line(self, dqc_bytes: int) -> str:
        """`learned: photo, 600 s, saves 61234 - 24000 B 4.9%`, or `learned: photo, 600 s, does not pay`"""
        start = f"learned: {self.base}, {self.seconds:.0f} s"
        if not self.saved_bytes:
            return f"{start}, does not pay"
        gain = self.saved_bytes - self.bytes
        return f"{start}, saves {self.saved_bytes} - {self.bytes} B {100 * gain / (dqc_bytes + gain):.1f}%"


@dataclass(frozen=True)
class ArchiveReport:
    """An archive that was made.

    images: the number of its members; verbatim: of members that are kept as they are; broken: of these, damaged PNGs.
    pixels_only: of images whose sources are no PNG files.
    dropped: type of chunk -> number of images from which such chunks are left out. failed: inputs that are not in it,
    or were not removed. png_bytes: of the sources; dims: number of all samples.
    """

    archive: str
    images: int
    verbatim: int
    broken: int
    pixels_only: int
    dropped: dict[str, int]
    groups: int
    failed: int
    png_bytes: int
    dqc_bytes: int
    dims: int
    verified: bool
    seconds: float
    learned: LearnedReport | None = None

    def as_dict(self) -> dict[str, Any]:
        """Its fields, and bits per sample if all members are images."""
        fields = dataclasses.asdict(self)
        if self.learned is None:
            del fields["learned"]
        return fields | ({} if self.verbatim else {"bpd": 8 * self.dqc_bytes / self.dims})

    def line(self) -> str:
        """`set.dqc: 2000 images in 12 groups, 736501 -> 512003 B 69.5% 3.47 bpd verified, 3 failed`"""
        size = rate(self.png_bytes, self.dqc_bytes, 0 if self.verbatim else self.dims)
        members = counted(self.images, "file" if self.verbatim else "image")
        parts = (
            f"{shown(self.archive)}: {members} in {counted(self.groups, 'group')}",
            self.verbatim and f"{self.verbatim} verbatim",
            self.broken and f"{self.broken} broken",
            f"{size} verified" if self.verified else size,
            self.pixels_only and f"pixels only of {counted(self.pixels_only, 'image')}",
            *(f"left out {kind} of {counted(count, 'image')}" for kind, count in self.dropped.items()),
            self.failed and f"{self.failed} failed",
            self.learned and self.learned.line(self.dqc_bytes),
        )
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class UnpackReport:
    """An archive that was decoded into a folder, or only checked.

    images: the number of those without error. failed: of images with an error, and of other errors but damage. damage:
    to the archive as a whole. verbatim: of files that are no images; pixels_only: of images that were written in
    another format than PNG; None: of none.
    """

    source: str
    target: str | None
    images: int
    failed: int
    verbatim: int | None = None
    pixels_only: int | None = None
    damage: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Its fields that have a value."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    def line(self) -> str:
        """`set.dqc -> set: 2000 images ok, 3 failed, the archive is damaged`"""
        target = f" -> {shown(self.target)}" if self.target else ""
        parts = (
            f"{shown(self.source)}{target}: {counted(self.images, 'file' if self.verbatim else 'image')} ok",
            self.verbatim and f"{self.verbatim} verbatim",
            self.pixels_only and f"pixels only of {counted(self.pixels_only, 'image')}",
            self.failed and f"{self.failed} failed",
            self.damage and "the archive is damaged",
        )
        return ", ".join(filter(None, parts))


def shown(text: str) -> str:
    """A text that is safe to print on one line; unprintable characters are escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text
    )


def counted(number: int, what: str) -> str:
    """`1 image`, `2 images`"""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
