"""One image, PNG file <-> .dqc file, all in memory: tries every split into layers and every method, and keeps the smallest."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import layers, png
from .container import Container, sample_checksum
from .errors import CorruptError, DqcodecError, VerifyError
from .layers import Split
from .methods import select
from .png import MAX_PIXELS, Png, Skeleton
from .report import CompressReport, DecompressReport, LayerReport

if TYPE_CHECKING:
    import numpy as np

    from .exact.program import Program
    from .methods.report import ModelReport
    from .methods.select import FindProgram

# A thorough code is at most this much smaller than a quick one, on photographs; where that could not beat what there is,
# seconds of work are saved.
_THOROUGH_GAIN = 0.95


@dataclass(frozen=True)
class Info:
    """What a .dqc file says about itself. width, height: of the canvas, pixels; samples: per pixel, as the PNG stores them;
    rasters: 1, or more for an animated PNG. `layers` say how each part of the image is coded; a stored file has none.
    `chunk_bytes` are those of the PNG's ancillary chunks, their framing left out. exact: gives the PNG file byte for byte.
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
        """That of the first layer that a model codes."""
        return next((layer.model for layer in self.layers if layer.model), None)


def compress(
    data: bytes,
    programs: Sequence[Program] = (),
    *,
    strip: bool = False,
    exact: bool = False,
    verify: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> tuple[bytes, CompressReport]:
    """The smallest .dqc file for the PNG file `data`, by any method and the best-suited of `programs`.

    With `strip`, chunks that do not change the samples or what they mean are left out; with `exact`, the file gives back
    `data` byte for byte, not only its image. With `verify` the result is decoded again and compared. Raises
    UnsupportedImageError, CorruptError (a damaged PNG) and VerifyError.
    """
    start = time.perf_counter()
    image, recipe, coded = png.read(data, max_pixels), b"", []
    stored = data
    if exact:
        from .png import exact as packing

        recipe = packing.find(data, image)
    elif strip and image.skeleton:
        image = image.stripped()
        stored = png.write(image)
    if image.skeleton and recipe is not None:
        coded = _encode(image, programs, recipe)
    files = [(each, each.container.pack()) for each in [_Coded(Container(stored)), *coded]]
    chosen, dqc = min(files, key=lambda file: len(file[1]))
    if verify:
        _verify(dqc, stored, image, chosen, max_pixels)

    container = chosen.container
    recipe_bytes, chunk_bytes = (
        len(dqc) - len(dataclasses.replace(container, **empty).pack()) if container.skeleton else 0
        for empty in ({"recipe": b""}, {"skeleton": Skeleton(image.header)})
    )
    candidates: dict[str, int] = {}
    for each, file in files:
        candidates[each.container.method] = min(len(file), candidates.get(each.container.method, len(file)))
    dims = image.header.samples * sum(height * width for height, width in _sizes(image))
    report = CompressReport(
        method=container.method,
        width=image.header.width,
        height=image.header.height,
        samples=image.header.samples,
        dims=dims,
        png_bytes=len(data),
        dqc_bytes=len(dqc),
        payload_bytes=container.payload_bytes,
        chunk_bytes=chunk_bytes,
        recipe_bytes=recipe_bytes,
        container_bytes=len(dqc) - container.payload_bytes - chunk_bytes - recipe_bytes,
        candidates=candidates,
        layers=_describe(container, [program and program.name for program in chosen.programs]),
        model="+".join(dict.fromkeys(program.name for program in chosen.programs if program)) or None,
        learned=_learned(chosen, dims),
        verified=verify,
        seconds=time.perf_counter() - start,
    )
    return dqc, report


def decompress(
    data: bytes, find_program: FindProgram, *, repack: bool = False, max_pixels: int = MAX_PIXELS
) -> tuple[bytes, DecompressReport]:
    """The PNG file that the .dqc file `data` holds, its samples checked against their checksum.

    With `repack`, a file that was made to give its PNG byte for byte gives the same image packed anew. Raises FormatError,
    CorruptError, UnsupportedImageError (too large), UnknownModelError.
    """
    start = time.perf_counter()
    container = Container.parse(data, max_pixels)
    if container.stored is not None:
        _stored_image(container, max_pixels)
        restored = container.stored
    else:
        restored = _restore(container, decode_image(container, find_program), repack)
    return restored, DecompressReport(container.method, len(data), len(restored), time.perf_counter() - start)


def info(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Info:
    """The header of a .dqc file, without decoding its image; raises as `decompress` does."""
    container = Container.parse(data, max_pixels)
    skeleton = container.skeleton
    header = skeleton.header if skeleton else _stored_image(container, max_pixels).header
    return Info(
        method=container.method,
        width=header.width,
        height=header.height,
        samples=header.samples,
        bit_depth=header.bit_depth,
        rasters=max(1, len(container.rasters)),
        layers=_describe(container, [layer.model_id.hex() or None for layer in container.layers]),
        dqc_bytes=len(data),
        payload_bytes=container.payload_bytes,
        chunk_bytes=sum(len(chunk.body) for part in skeleton.parts for chunk in part) if skeleton else 0,
        exact=skeleton is None or bool(container.recipe),
    )


def decode_image(container: Container, find_program: FindProgram) -> Png:
    """The image of a container that is not stored; raises CorruptError unless its samples match their checksum."""
    skeleton, split = container.skeleton, container.split
    decoded = [
        [select.decode(layer, shape, find_program) for layer, shape in zip(coded, split.shapes(size, skeleton))]
        for coded, size in zip(container.rasters, skeleton.sizes)
    ]
    image = split.undo(decoded, skeleton)
    if sample_checksum(image.rasters) != container.checksum:
        raise CorruptError("the decoded pixels do not match their checksum")
    return image


@dataclass(frozen=True)
class _Coded:
    """A container; for each of its layers the program that coded it and its report, or Nones."""

    container: Container
    programs: tuple[Program | None, ...] = ()
    reports: tuple[ModelReport | None, ...] = ()


def _encode(image: Png, programs: Sequence[Program], recipe: bytes) -> list[_Coded]:
    """The containers that may be the smallest."""
    checksum = sample_checksum(image.rasters)

    def coded(split: Split, of_layers: Sequence[tuple]) -> _Coded:
        """Of (layer, program, report) for each layer, raster after raster."""
        each, used, reports = zip(*of_layers)
        count = len(each) // len(image.rasters)
        of_rasters = tuple(each[start : start + count] for start in range(0, len(each), count))
        held = layers.skeleton(image, split)
        return _Coded(Container(None, held, split, of_rasters, checksum, recipe), used, reports)

    splits, out = layers.candidates(image), []
    for_models = layers.for_models(image) if programs else None
    if for_models:
        pairs = [
            _with_and_without(pixels, programs if is_modelled else ())
            for raster in image.rasters
            for pixels, is_modelled in zip(for_models.apply(raster, image.skeleton), for_models.modelled(image.skeleton))
        ]
        splits.remove(for_models)
        if any(by_model for by_model, _ in pairs):
            out.append(coded(for_models, [min(filter(None, pair), key=_payload_bytes) for pair in pairs]))
        out.append(coded(for_models, [other for _, other in pairs]))

    def without(split: Split, *, quick: bool) -> _Coded:
        arrays = [pixels for raster in image.rasters for pixels in split.apply(raster, image.skeleton)]
        return coded(split, [(select.without_model(pixels, quick=quick), None, None) for pixels in arrays])

    best = min((len(each.container.pack()) for each in out), default=None)
    if len(splits) > 1 or best is not None:
        sizes = {split: len(without(split, quick=True).container.pack()) for split in splits}
        best = min([*sizes.values(), *([best] if best is not None else [])])
        splits = [split for split, size in sizes.items() if _THOROUGH_GAIN * size < best]
    return out + [without(split, quick=False) for split in splits]


def _with_and_without(pixels: np.ndarray, programs: Sequence[Program]) -> tuple[tuple | None, tuple]:
    """(layer, program, report) by a model, if one takes it, and by the other methods; thoroughly, unless that has no hope."""
    by_model = select.by_model(pixels, programs)
    other = select.without_model(pixels, quick=by_model is not None)
    if by_model and _THOROUGH_GAIN * len(other.payload) < _payload_bytes(by_model):
        other = min(other, select.without_model(pixels, quick=False), key=lambda layer: len(layer.payload))
    return by_model, (other, None, None)


def _payload_bytes(coded: tuple) -> int:
    return len(coded[0].payload)


def _restore(container: Container, image: Png, repack: bool) -> bytes:
    """The PNG file of a decoded image."""
    if repack or not container.recipe:
        return png.write(image)
    from .png import exact as packing

    return packing.restore(image, container.recipe)


def _stored_image(container: Container, max_pixels: int) -> Png:
    """The structure of a stored container's PNG; raises CorruptError if it is none."""
    if not container.stored.startswith(png.SIGNATURE):
        raise CorruptError("the stored file is not a PNG")
    return png.read(container.stored, max_pixels, decode=False)


def _sizes(image: Png) -> Sequence[tuple[int, int]]:
    """(height, width) of each raster."""
    return image.skeleton.sizes if image.skeleton else [(image.header.height, image.header.width)]


def _describe(container: Container, models: Sequence[str | None]) -> tuple[LayerReport, ...]:
    if container.skeleton is None:
        return ()
    names = container.split.names(container.skeleton)
    return tuple(
        LayerReport(index // len(names), names[index % len(names)], layer.method.name.lower(), len(layer.payload), model)
        for index, (layer, model) in enumerate(zip(container.layers, models))
    )


def _learned(coded: _Coded, dims: int) -> dict[str, Any] | None:
    """The reports of all models as one; what other methods code counts as it is."""
    reports = [dataclasses.asdict(report) for report in coded.reports if report]
    if not reports or len(coded.reports) == 1:
        return reports[0] if reports else None
    total = {key: sum(report[key] for report in reports) for key in reports[0] if key.endswith("_bits")}
    beyond = sum(
        8 * len(layer.payload) * (1 - report.vi_bpd / report.coded_bpd)
        for layer, report in zip(coded.container.layers, coded.reports)
        if report
    )
    coded_bits = 8 * coded.container.payload_bytes
    return {"vi_bpd": (coded_bits - beyond) / dims, "coded_bpd": coded_bits / dims} | total


def _verify(dqc: bytes, stored: bytes, image: Png, coded: _Coded, max_pixels: int) -> None:
    """Decode `dqc` in full and compare it with its source; raises VerifyError on any difference."""
    programs = {program.id: program for program in coded.programs if program}
    try:
        container = Container.parse(dqc, max_pixels)
        if container.stored is not None:
            same = container.stored == stored
        else:
            decoded = decode_image(container, programs.__getitem__)
            same = decoded.same(image) and (not container.recipe or _restore(container, decoded, False) == stored)
    except DqcodecError as error:
        raise VerifyError(f"the compressed file does not decode ({error}); nothing is written") from error
    if not same:
        raise VerifyError("the compressed file decodes to another image; nothing is written")
