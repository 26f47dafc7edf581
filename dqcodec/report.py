"""What happened, as data: per image (CompressReport, DecompressReport, PackedReport, DecodedReport), per file
(FileResult), per archive that is made (ArchiveReport) or decoded (UnpackReport), per run (RunReport).

Each per-file object renders itself as one line for people and as a flat dict for --json.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LayerReport:
    """A layer of an image: which raster it is of, from 0 on, what it holds, how it is coded, in how many bytes, and the model
    that codes it, if one does. bytes: of all that are coded together with it; None for those but the first."""

    raster: int
    name: str
    method: str
    bytes: int | None
    model: str | None

    def __str__(self) -> str:
        """`frame 2 alpha of RGBA by classical 310 B`"""
        frame = f"frame {self.raster} " if self.raster else ""
        size = "together" if self.bytes is None else f"{self.bytes} B"
        return f"{frame}{self.name} by {self.model or self.method} {size}"


@dataclass(frozen=True)
class CompressReport:
    """Where the bytes of one compressed image went.

    `method` is that of its layers, joined where they differ. `dims` are its samples, of all frames. `dqc_bytes` is the
    sum of payloads, chunks and recipe (as packed) and container; bpd is its bits per sample. `candidates` are the whole
    file's bytes by each method tried; `png_bytes` are the source's, be it a PNG or not. `learned` holds the fields of
    methods.report.ModelReport, for the whole image, or is None where no model was chosen.
    """

    method: str
    width: int
    height: int
    samples: int
    dims: int
    png_bytes: int
    dqc_bytes: int
    payload_bytes: int
    chunk_bytes: int
    recipe_bytes: int
    container_bytes: int
    candidates: dict[str, int]
    layers: tuple[LayerReport, ...]
    model: str | None
    learned: dict[str, Any] | None
    verified: bool
    seconds: float

    @property
    def bpd(self) -> float:
        return 8 * self.dqc_bytes / self.dims

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"bpd": self.bpd}

    def line(self) -> str:
        """`736501 -> 512003 B 69.5% 3.47 bpd (limit 3.46) verified`"""
        note = f"(limit {self.learned['vi_bpd']:.2f})" if self.learned else f"({self.method})"
        tail = " verified" if self.verified else ""
        return f"{_rate(self.png_bytes, self.dqc_bytes, self.dims)} {note}{tail}"

    def details(self) -> str:
        """A second line: the candidates, the layers, and where the bytes and the gap to the limit go."""
        parts = [f"{name} {size} B" for name, size in self.candidates.items()]
        parts += map(str, self.layers)
        parts += [f"recipe {self.recipe_bytes} B"] if self.recipe_bytes else []
        parts += [f"container {self.container_bytes} B", f"chunks {self.chunk_bytes} B"]
        parts += [f"model {self.model}"] if self.model else []
        parts += [f"{key} {_show(value)}" for key, value in (self.learned or {}).items()]
        return ", ".join(parts)


@dataclass(frozen=True)
class DecompressReport:
    """One decompressed image."""

    method: str
    dqc_bytes: int
    png_bytes: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def line(self) -> str:
        return f"{self.dqc_bytes} -> {self.png_bytes} B ({self.method})"

    def details(self) -> str:
        return f"{self.seconds:.2f} s"


@dataclass(frozen=True)
class PackedReport:
    """One image of an archive that is made: its name there, and about how many of the archive's bytes are due to it."""

    name: str
    method: str
    width: int
    height: int
    dims: int
    png_bytes: int
    dqc_bytes: int

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def line(self) -> str:
        """`736501 -> 512003 B 69.5% 3.47 bpd (mixing)`"""
        return f"{_rate(self.png_bytes, self.dqc_bytes, self.dims)} ({self.method})"


@dataclass(frozen=True)
class DecodedReport:
    """One image that is decoded and checked; dqc_bytes is None where it is one of an archive."""

    method: str
    png_bytes: int
    dqc_bytes: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def line(self) -> str:
        return f"ok ({self.method})"


@dataclass(frozen=True)
class FileResult:
    """One input's fate: `report` where it went well, `error` (one line) where it did not. member: the name of the image
    where the source is an archive."""

    source: str
    target: str | None = None
    report: CompressReport | DecompressReport | PackedReport | DecodedReport | None = None
    error: str | None = None
    member: str | None = None

    @property
    def is_of_archive(self) -> bool:
        return self.member is not None or isinstance(self.report, PackedReport)

    def line(self) -> str:
        subject = shown(self.source if self.member is None else f"{self.source}: {self.member}")
        return f"{subject}: {shown(self.error)}" if self.error else f"{subject} {self.report.line()}"

    def details(self) -> str | None:
        """A second line, of some reports."""
        return self.report.details() if isinstance(self.report, CompressReport | DecompressReport) else None

    def as_dict(self) -> dict[str, Any]:
        places = {"source": self.source, "member": self.member, "target": self.target}
        outcome = {"error": self.error} if self.error else self.report.as_dict()
        return {key: place for key, place in places.items() if place is not None} | outcome


@dataclass
class RunReport:
    """A command's results so far, and the exit code that they amount to."""

    results: list[FileResult] = field(default_factory=list)

    @property
    def done(self) -> list[FileResult]:
        return [result for result in self.results if not result.error]

    @property
    def failed(self) -> list[FileResult]:
        return [result for result in self.results if result.error]

    @property
    def return_code(self) -> int:
        """0 all done, 1 some failed, 3 nothing done."""
        return 3 if not self.done else 1 if self.failed else 0

    def of(self, source: str) -> RunReport:
        """The results of one source."""
        return RunReport([result for result in self.results if result.source == source])

    def totals(self) -> str:
        """`3 files, png 900 B, dqc 600 B 66.7%, 1 failed`"""
        reports = [result.report for result in self.done]
        parts = [_count(len(reports), "file")]
        if reports:
            png_bytes = sum(report.png_bytes for report in reports)
            parts.append(f"png {png_bytes} B")
            if None not in (sizes := [report.dqc_bytes for report in reports]):
                parts.append(f"dqc {sum(sizes)} B {100 * sum(sizes) / png_bytes:.1f}%")
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        return ", ".join(parts)


@dataclass(frozen=True)
class ArchiveReport:
    """An archive that is made, and how many inputs are not in it. png_bytes: of the sources; dims: all samples."""

    archive: str
    images: int
    groups: int
    failed: int
    png_bytes: int
    dqc_bytes: int
    dims: int
    verified: bool
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"bpd": 8 * self.dqc_bytes / self.dims}

    def line(self) -> str:
        """`set.dqc: 2000 images in 12 groups, 736501 -> 512003 B 69.5% 3.47 bpd verified, 3 failed`"""
        rate = _rate(self.png_bytes, self.dqc_bytes, self.dims)
        tail = " verified" if self.verified else ""
        failed = f", {self.failed} failed" if self.failed else ""
        images, groups = _count(self.images, "image"), _count(self.groups, "group")
        return f"{shown(self.archive)}: {images} in {groups}, {rate}{tail}{failed}"


@dataclass(frozen=True)
class UnpackReport:
    """An archive that is decoded, into a folder or only to check it: how many images went well, how many did not."""

    source: str
    target: str | None
    images: int
    failed: int

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}

    def line(self) -> str:
        """`set.dqc -> set: 2000 images ok, 3 failed`"""
        target = f" -> {shown(self.target)}" if self.target else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{shown(self.source)}{target}: {_count(self.images, 'image')} ok{failed}"


def one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join((text or type(error).__name__).split())


def shown(text: str) -> str:
    """A text, perhaps a stranger's file name, as it can be printed on a line: the unprintable is escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _rate(png_bytes: int, dqc_bytes: int, dims: int) -> str:
    return f"{png_bytes} -> {dqc_bytes} B {100 * dqc_bytes / png_bytes:.1f}% {8 * dqc_bytes / dims:.2f} bpd"


def _show(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
