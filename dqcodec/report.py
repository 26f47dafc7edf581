"""What happened, as data: per image (CompressReport, DecompressReport), per file (FileResult), per run (RunReport).

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

    `method` is that of its layers, joined where they differ. `dims` are its samples, of all frames. `dqc_bytes` is the sum
    of payloads, chunks and recipe (as packed) and container; bpd is its bits per sample. `candidates` are the whole file's
    bytes by each method tried. `learned` holds the fields of methods.report.ModelReport, for the whole image, or is None
    where no model was chosen.
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
        ratio = f"{100 * self.dqc_bytes / self.png_bytes:.1f}%"
        tail = " verified" if self.verified else ""
        return f"{self.png_bytes} -> {self.dqc_bytes} B {ratio} {self.bpd:.2f} bpd {note}{tail}"

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
class FileResult:
    """One input's fate: `report` where it went well, `error` (one line) where it did not."""

    source: str
    target: str
    report: CompressReport | DecompressReport | None = None
    error: str | None = None

    def line(self) -> str:
        return f"{self.source}: {self.error}" if self.error else f"{self.source} {self.report.line()}"

    def as_dict(self) -> dict[str, Any]:
        outcome = {"error": self.error} if self.error else self.report.as_dict()
        return {"source": self.source, "target": self.target} | outcome


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

    def totals(self) -> str:
        """`3 files, png 900 B, dqc 600 B 66.7%, 1 failed`"""
        reports = [result.report for result in self.done]
        png_bytes, dqc_bytes = (sum(getattr(report, key) for report in reports) for key in ("png_bytes", "dqc_bytes"))
        parts = [f"{len(reports)} files"]
        if reports:
            parts += [f"png {png_bytes} B", f"dqc {dqc_bytes} B {100 * dqc_bytes / png_bytes:.1f}%"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        return ", ".join(parts)


def _show(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
