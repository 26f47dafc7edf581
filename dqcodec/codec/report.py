"""What happened to an image, as data: CompressReport, DecompressReport, PackedReport, DecodedReport.

Each renders itself as one line for people and as a flat dict for --json.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
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
    methods.payload.ModelReport, for the whole image, or is None where no model was chosen. `dropped`: the types of the PNG's
    chunks that are not kept. `broken` says what is wrong with a broken PNG that is kept as it is.
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
    dropped: tuple[str, ...]
    verified: bool
    seconds: float
    broken: str | None = None

    @property
    def bpd(self) -> float:
        return 8 * self.dqc_bytes / self.dims

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"bpd": self.bpd}

    def line(self) -> str:
        """`736501 -> 512003 B 69.5% 3.47 bpd (limit 3.46) verified`"""
        note = f"(limit {self.learned['vi_bpd']:.2f})" if self.learned else _way(self.method, self.broken)
        tail = " verified" if self.verified else ""
        return f"{rate(self.png_bytes, self.dqc_bytes, self.dims)} {note}{tail}"

    def details(self) -> str:
        """A second line: the candidates, the layers, and where the bytes and the gap to the limit go."""
        parts = [f"{name} {size} B" for name, size in self.candidates.items()]
        parts += map(str, self.layers)
        parts += [f"recipe {self.recipe_bytes} B"] if self.recipe_bytes else []
        parts += [f"container {self.container_bytes} B", f"chunks {self.chunk_bytes} B"]
        parts += [f"model {self.model}"] if self.model else []
        parts += [f"{key} {_show(value)}" for key, value in (self.learned or {}).items()]
        parts += _left_out(self.dropped)
        return ", ".join(parts)


@dataclass(frozen=True)
class DecompressReport:
    """One decompressed image. dropped: the types of chunks that the .dqc file holds, but not the PNG file."""

    method: str
    dqc_bytes: int
    png_bytes: int
    dropped: tuple[str, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def line(self) -> str:
        return f"{self.dqc_bytes} -> {self.png_bytes} B ({self.method})"

    def details(self) -> str:
        return ", ".join([f"{self.seconds:.2f} s", *_left_out(self.dropped)])


@dataclass(frozen=True)
class PackedReport:
    """One image of an archive that is made: its name there, and about how many of the archive's bytes are due to it.
    dropped: see CompressReport."""

    name: str
    method: str
    width: int
    height: int
    dims: int
    png_bytes: int
    dqc_bytes: int
    dropped: tuple[str, ...]
    broken: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def line(self) -> str:
        """`736501 -> 512003 B 69.5% 3.47 bpd (mixing)`"""
        return f"{rate(self.png_bytes, self.dqc_bytes, self.dims)} {_way(self.method, self.broken)}"

    def details(self) -> str:
        return ", ".join(_left_out(self.dropped))


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


def rate(png_bytes: int, dqc_bytes: int, dims: int) -> str:
    """Files may be empty, and may have no samples."""
    share = f" {100 * dqc_bytes / png_bytes:.1f}%" if png_bytes else ""
    bpd = f" {8 * dqc_bytes / dims:.2f} bpd" if dims else ""
    return f"{png_bytes} -> {dqc_bytes} B{share}{bpd}"


def _way(method: str, broken: str | None) -> str:
    """`(mixing)`, `(stored, a broken PNG: truncated PNG: no IEND chunk)`"""
    return f"({method}, a broken PNG: {broken})" if broken else f"({method})"


def _left_out(kinds: tuple[str, ...]) -> list[str]:
    return [f"left out {' '.join(kinds)}"] if kinds else []


def _show(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
