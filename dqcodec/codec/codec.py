"""One PNG file <-> one .dqc file, in memory: compress, decompress, info."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dqcodec.codec.effort import Effort
from dqcodec.codec.group import CodedGroup, check, decode, decode_regions, encode, restore, stored_header, verifying
from dqcodec.codec.region import Region
from dqcodec.codec.report import CompressReport, DecompressReport, LayerReport
from dqcodec.codec.source import Source, read
from dqcodec.exact.program import FindProgram, Program
from dqcodec.format.container import Entry, Group, owners
from dqcodec.png import MAX_PIXELS, Png, Skeleton


@dataclass(frozen=True)
class Info:
    """What the header of a .dqc file says.

    method: those of the layers, joined by `+`, or `stored`. width, height: of the canvas, in pixels. samples: per
    pixel, as the PNG stores them; bit_depth: bits of a sample. rasters: 1, or more for an animated PNG. layers: how
    each layer is coded; empty for a stored file. dqc_bytes, payload_bytes: of the file, and of its payloads.
    chunk_bytes: of the PNG's other chunks, as packed in the file. exact: decompress gives the original PNG byte for
    byte.
    """

    method: str
    width: int
    height: int
    samples: int
    bit_depth: int
    rasters: int
    layers: tuple[LayerReport, ...]
    dqc_bytes: int
    payload_bytes: int
    chunk_bytes: int
    exact: bool

    @property
    def model_id(self) -> str | None:
        """The model id (hexadecimal) of the first layer that a model codes, or None."""
        return next((layer.model for layer in self.layers if layer.model), None)


def compress(
    data: bytes,
    programs: Sequence[Program] = (),
    effort: Effort = Effort.USUAL,
    *,
    strip: bool = False,
    exact: bool = False,
    keep_broken: bool = False,
    verify: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> tuple[bytes, CompressReport]:
    """Code the PNG file `data` as the smallest .dqc file that the methods and `programs` give.

    strip, exact, keep_broken: see source.read. verify: decode the result and compare.

    Raises UnsupportedImageError (not a PNG, or more than `max_pixels`), CorruptError (a damaged PNG), VerifyError.
    """
    start = time.perf_counter()
    source = read(data, strip=strip, exact=exact, keep_broken=keep_broken, max_pixels=max_pixels)
    coded = encode([source], programs, effort)
    dqc, programs = coded.group.shortened().pack(), coded.programs
    report = _report(source, coded, len(data), len(dqc))
    del coded  # its payloads are as large as the file
    if verify:
        with verifying():
            packed = Group.unpack(dqc, max_pixels)
        check(packed, [source], programs, max_pixels)
    return dqc, dataclasses.replace(report, verified=verify, seconds=time.perf_counter() - start)


def decompress(
    data: bytes, find_program: FindProgram, *, repack: bool = False, max_pixels: int = MAX_PIXELS
) -> tuple[bytes, DecompressReport]:
    """Decode the .dqc file `data` to its PNG file. The samples are compared with their checksum.

    repack: pack the image anew even if the file keeps a recipe for the original bytes. A recipe needs zlib's own
    deflate; without it, only repack works.

    Raises FormatError (not a .dqc file, or of another version), CorruptError (damaged, or another deflate),
    UnsupportedImageError (more than `max_pixels`), UnknownModelError.
    """
    start = time.perf_counter()
    group = Group.unpack(data, max_pixels)
    (image,), (entry,) = decode(group, find_program, max_pixels), group.entries
    del group  # its payloads are as large as the file
    restored = restore(entry, image, repack=repack)
    dropped = entry.skeleton.lost(entry.skeleton.repacked()) if entry.skeleton and (repack or not entry.recipe) else ()
    return restored, DecompressReport(entry.method, len(data), len(restored), dropped, time.perf_counter() - start)


def decompress_region(
    data: bytes, region: Region, find_program: FindProgram, *, max_pixels: int = MAX_PIXELS
) -> tuple[Png, str]:
    """Decode a region of the .dqc file `data`: (the region with all chunks of the image, the method).

    The CRC of the file is checked, but not the checksum of the samples, which covers the whole image. Short files are
    decoded whole and checked.

    Raises RegionError (not within the image), UnsupportedImageError (an animation, or more than `max_pixels`), and the
    errors of decompress.
    """
    group = Group.unpack(data, max_pixels)
    if group.is_short:
        decode(group, find_program, max_pixels)
    return decode_regions(group, {0: region}, find_program, max_pixels)[0], group.entries[0].method


def info(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Info:
    """The facts in the head of a .dqc file. No image is decoded, so damage of a short file may stay unseen.

    Raises FormatError, CorruptError, UnsupportedImageError.
    """
    group = Group.unpack(data, max_pixels)
    (entry,) = group.entries
    skeleton = entry.skeleton
    header = skeleton.header if skeleton else stored_header(group.payloads[0], max_pixels)
    return Info(
        method=entry.method,
        width=header.width,
        height=header.height,
        samples=header.samples,
        bit_depth=header.bit_depth,
        rasters=max(1, len(entry.rasters)),
        layers=_describe(group, [layer.model_id.hex() or None for layer in entry.layers]),
        dqc_bytes=len(data),
        payload_bytes=sum(map(len, group.payloads)),
        # the head as it is read is not packed again, which would deflate and pack its chunks
        chunk_bytes=len(data) - group.bytes_around_heads - len(_without_chunks(entry).head()) if skeleton else 0,
        exact=skeleton is None or bool(entry.recipe),
    )


def _report(source: Source, coded: CodedGroup, png_bytes: int, dqc_bytes: int) -> CompressReport:
    """The report of one image, before it is verified."""
    (entry,), (choice,) = coded.group.entries, coded.choices
    header = source.image.header
    payload_bytes = sum(map(len, coded.group.payloads))
    recipe_bytes = chunk_bytes = 0
    if entry.skeleton:
        head_bytes = len(entry.head())
        chunk_bytes = head_bytes - len(_without_chunks(entry).head())
        recipe_bytes = head_bytes - len(dataclasses.replace(entry, recipe=b"").head())
    return CompressReport(
        method=entry.method,
        width=header.width,
        height=header.height,
        samples=header.samples,
        dims=source.dims,
        png_bytes=png_bytes,
        dqc_bytes=dqc_bytes,
        payload_bytes=payload_bytes,
        chunk_bytes=chunk_bytes,
        recipe_bytes=recipe_bytes,
        container_bytes=dqc_bytes - payload_bytes - chunk_bytes - recipe_bytes,
        candidates=choice.candidates,
        layers=_describe(coded.group, [each.program and each.program.name for each in choice.coded]),
        model="+".join(dict.fromkeys(program.name for program in coded.programs)) or None,
        learned=_learned(coded, source.dims),
        dropped=source.lost(is_stored=entry.skeleton is None),
        broken=source.damage,
        verified=False,
        seconds=0.0,
    )


def _without_chunks(entry: Entry) -> Entry:
    """The head of the same image without chunks."""
    return dataclasses.replace(entry, skeleton=Skeleton(entry.skeleton.header))


def _describe(group: Group, models: Sequence[str | None]) -> tuple[LayerReport, ...]:
    """The layers of the one image in a group. models: the name of each layer's model, or None."""
    (entry,) = group.entries
    if entry.skeleton is None:
        return ()
    names = entry.split.names(entry.view)
    sizes = {owned[0]: len(payload) for payload, owned in zip(group.payloads, owners(group.entries))}
    return tuple(
        LayerReport(index // len(names), names[index % len(names)], layer.method.label, sizes.get((0, index)), model)
        for index, (layer, model) in enumerate(zip(entry.layers, models))
    )


def _learned(coded: CodedGroup, dims: int) -> dict[str, Any] | None:
    """The reports of all models, added up. Other methods have no bound: their payloads count in full."""
    reports = [report for report in coded.reports if report]
    if not reports:
        return None
    sizes = [8 * len(payload) for payload in coded.group.payloads]
    vi_bits = sum(report.vi_bits if report else size for report, size in zip(coded.reports, sizes))
    return {
        "vi_bpd": vi_bits / dims,
        "coded_bpd": sum(sizes) / dims,
        "seed_bits": sum(report.seed_bits for report in reports),
        "initial_bits": sum(report.initial_bits for report in reports),
        "grid_bits": sum(report.grid_bits for report in reports),
    }
