"""Reports of what was done with an image: CompressReport, DecompressReport, RegionReport, PackedReport, DecodedReport.

Each has `line` (one line for people), `details` (a second line) and `as_dict` (for --json). Sizes are bytes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


class Report:
    """What was done with an image: a dataclass."""

    def as_dict(self) -> dict[str, Any]:
        """The fields."""
        return dataclasses.asdict(self)

    def details(self) -> str:
        """A second line; it may be empty."""
        return ""


@dataclass(frozen=True)
class LayerReport:
    """How a layer is coded.

    raster: number of its raster, from 0 on. name: what it holds. bytes: of the payload; layers that are coded together
    share one, and only the first of them has the number. model: name or id of the model, or None.
    """

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
class CompressReport(Report):
    """What the bytes of one compressed image are spent on.

    method: the layers' methods, joined by `+`. samples: per pixel. dims: samples of all frames. png_bytes: the source
    file, PNG or not. dqc_bytes: the sum of payload_bytes, chunk_bytes, recipe_bytes (as packed) and container_bytes.
    candidates: method -> bytes of the whole file by it. model: names of the models, joined by `+`, or None. learned:
    the fields of ModelReport for the whole image, or None without a model. dropped: types of the chunks that are not
    kept. broken: what is wrong with a damaged PNG that is stored. is_png: whether the source is a PNG file; of another
    file only the pixels are kept.
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
    is_png: bool = True

    @property
    def bpd(self) -> float:
        """Bits per dimension (sample) of the .dqc file."""
        return 8 * self.dqc_bytes / self.dims

    def as_dict(self) -> dict[str, Any]:
        """The fields and bpd."""
        return super().as_dict() | {"bpd": self.bpd}

    def line(self) -> str:
        """`736501 -> 512003 B 69.5% 3.47 bpd (limit 3.46) verified, left out iDOT`"""
        note = f"(limit {self.learned['vi_bpd']:.2f})" if self.learned else _way(self.method, self.broken)
        tail = " verified" if self.verified else ""
        return f"{rate(self.png_bytes, self.dqc_bytes, self.dims)} {note}{tail}{_lost(self.is_png, self.dropped)}"

    def details(self) -> str:
        """A second line: candidates, layers, parts of the file in bytes, and the model's report."""
        parts = [f"{name} {size} B" for name, size in self.candidates.items()]
        parts += map(str, self.layers)
        parts += [f"recipe {self.recipe_bytes} B"] if self.recipe_bytes else []
        parts += [f"container {self.container_bytes} B", f"chunks {self.chunk_bytes} B"]
        parts += [f"model {self.model}"] if self.model else []
        parts += [f"{key} {_show(value)}" for key, value in (self.learned or {}).items()]
        return ", ".join(parts)


@dataclass(frozen=True)
class DecompressReport(Report):
    """One decompressed image. dropped: types of the .dqc file's chunks that the PNG file lacks. is_png: whether the
    output is a PNG file; another file has only the pixels."""

    method: str
    dqc_bytes: int
    png_bytes: int
    dropped: tuple[str, ...]
    seconds: float
    is_png: bool = True

    def line(self) -> str:
        """`512003 -> 736501 B (mixing)`"""
        return f"{self.dqc_bytes} -> {self.png_bytes} B ({self.method}){_lost(self.is_png, self.dropped)}"

    def details(self) -> str:
        """A second line: seconds."""
        return f"{self.seconds:.2f} s"


@dataclass(frozen=True)
class RegionReport(Report):
    """A region of an image that was decoded. region: WIDTHxHEIGHT+LEFT+TOP. png_bytes: of the region's PNG file.

    is_checked: whether the samples were compared with a checksum; the checksum covers the whole image. dqc_bytes: None,
    because the .dqc file holds more than the region. is_png: see DecompressReport.
    """

    method: str
    region: str
    png_bytes: int
    is_checked: bool = False
    dqc_bytes: int | None = None
    is_png: bool = True

    def line(self) -> str:
        """`640x480+0+0 -> 736501 B (autoregressive), pixels not compared with the checksum`"""
        note = "" if self.is_checked else ", pixels not compared with the checksum"
        return f"{self.region} -> {self.png_bytes} B ({self.method}){_lost(self.is_png)}{note}"


@dataclass(frozen=True)
class PackedReport(Report):
    """One file that was put into an archive: its name there, and dqc_bytes, about its part of the archive's bytes.

    dims, png_bytes, dropped, broken, is_png: see CompressReport. width, height, dims: 0 if it is kept as it is.
    """

    name: str
    method: str
    width: int
    height: int
    dims: int
    png_bytes: int
    dqc_bytes: int
    dropped: tuple[str, ...]
    broken: str | None = None
    is_png: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The fields, and bpd if it has samples."""
        return super().as_dict() | ({"bpd": 8 * self.dqc_bytes / self.dims} if self.dims else {})

    def line(self) -> str:
        """`736501 -> 512003 B 69.5% 3.47 bpd (mixing)`"""
        way = _way(self.method, self.broken)
        return f"{rate(self.png_bytes, self.dqc_bytes, self.dims)} {way}{_lost(self.is_png or not self.dims, self.dropped)}"


@dataclass(frozen=True)
class DecodedReport(Report):
    """One image that was decoded and checked. dqc_bytes: None for an image in an archive. is_png: see
    DecompressReport."""

    method: str
    png_bytes: int
    dqc_bytes: int | None = None
    is_png: bool = True

    def line(self) -> str:
        """`ok (mixing)`"""
        return f"ok ({self.method}){_lost(self.is_png)}"


def rate(png_bytes: int, dqc_bytes: int, dims: int) -> str:
    """`736501 -> 512003 B 69.5% 3.47 bpd`. No percentage for an empty file, no bpd without samples."""
    share = f" {100 * dqc_bytes / png_bytes:.1f}%" if png_bytes else ""
    bpd = f" {8 * dqc_bytes / dims:.2f} bpd" if dims else ""
    return f"{png_bytes} -> {dqc_bytes} B{share}{bpd}"


def _way(method: str, broken: str | None) -> str:
    """`(mixing)`, `(stored, a broken PNG: truncated PNG: no IEND chunk)`"""
    return f"({method}, a broken PNG: {broken})" if broken else f"({method})"


def _lost(is_png: bool, dropped: tuple[str, ...] = ()) -> str:
    left_out = f", left out {', '.join(dropped)}" if dropped else ""
    return ("" if is_png else ", pixels only") + left_out


def _show(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
