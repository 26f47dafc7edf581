"""One image, PNG file <-> .dqc file, all in memory: tries every method and keeps the smallest."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import png
from .container import LEARNED, Container, Method, pixel_checksum
from .errors import CorruptError, DqcodecError, LatentOverflow, StackUnderflow, VerifyError
from .methods import classical
from .png import MAX_PIXELS, Png
from .report import CompressReport, DecompressReport

if TYPE_CHECKING:
    from .exact.program import Program

    FindProgram = Callable[[bytes], Program]  # model id -> program

# A thorough classical code is at most this much smaller than a quick one, on photographs; where that could not beat the
# flow, seconds of work are saved.
_THOROUGH_GAIN = 0.95


@dataclass(frozen=True)
class Info:
    """What a .dqc file says about itself. For stored files width, height and samples are those of the PNG inside;
    `chunk_bytes` are the ancillary chunks as the PNG has them."""

    method: str
    width: int
    height: int
    samples: int
    model_id: str | None
    dqc_bytes: int
    payload_bytes: int
    chunk_bytes: int


def compress(
    data: bytes, programs: Sequence[Program] = (), *, verify: bool = True, max_pixels: int = MAX_PIXELS
) -> tuple[bytes, CompressReport]:
    """The smallest .dqc file for the PNG file `data`, by any method and the best-suited of `programs`.

    With `verify` the result is decoded again and compared. Raises UnsupportedImageError, CorruptError (a damaged PNG)
    and VerifyError.
    """
    start = time.perf_counter()
    image = png.read(data, max_pixels)
    containers = [Container(Method.STORED, data)]
    program = model_report = None
    if image.pixels is not None:
        coded, program, model_report = _encode_learned(image, programs)
        containers += [_encode_classical(image, coded), *([coded] if coded else [])]
    packed = [container.pack() for container in containers]
    best = min(range(len(packed)), key=lambda index: len(packed[index]))
    container, dqc = containers[best], packed[best]
    if verify:
        _verify(dqc, data, image, program, max_pixels)

    is_learned = container.method in LEARNED
    chunk_bytes = len(dqc) - len(dataclasses.replace(container, chunks=png.Chunks()).pack())
    report = CompressReport(
        method=container.method.name.lower(),
        width=image.width,
        height=image.height,
        samples=image.samples,
        png_bytes=len(data),
        dqc_bytes=len(dqc),
        payload_bytes=len(container.payload),
        chunk_bytes=chunk_bytes,
        container_bytes=len(dqc) - len(container.payload) - chunk_bytes,
        candidates={each.method.name.lower(): len(bytes_) for each, bytes_ in zip(containers, packed)},
        model=program.name if is_learned else None,
        learned=dataclasses.asdict(model_report) if is_learned else None,
        verified=verify,
        seconds=time.perf_counter() - start,
    )
    return dqc, report


def decompress(
    data: bytes, find_program: FindProgram, *, max_pixels: int = MAX_PIXELS
) -> tuple[bytes, DecompressReport]:
    """The PNG file that the .dqc file `data` holds, its pixels checked against their checksum.

    Raises FormatError, CorruptError, UnsupportedImageError (too large), UnknownModelError.
    """
    start = time.perf_counter()
    container = Container.parse(data, max_pixels)
    if container.method == Method.STORED:
        _stored_image(container, max_pixels)
        restored = container.payload
    else:
        restored = png.write(decode_pixels(container, find_program), container.chunks)
    report = DecompressReport(container.method.name.lower(), len(data), len(restored), time.perf_counter() - start)
    return restored, report


def info(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Info:
    """The header of a .dqc file, without decoding its image; raises as `decompress` does."""
    container = Container.parse(data, max_pixels)
    if container.method == Method.STORED:
        image = _stored_image(container, max_pixels)
        height, width, samples = image.height, image.width, image.samples
    else:
        height, width, samples = container.shape
    return Info(
        method=container.method.name.lower(),
        width=width,
        height=height,
        samples=samples,
        model_id=container.model_id.hex() or None,
        dqc_bytes=len(data),
        payload_bytes=len(container.payload),
        chunk_bytes=len(container.chunks),
    )


def _encode_learned(image: Png, programs: Sequence[Program]) -> tuple[Container | None, Program | None, Any]:
    """(container, program, its report), or Nones where no program fits or the image leaves its range."""
    if not programs:
        return None, None, None
    from .methods import learned

    try:
        program = learned.choose(image.pixels, programs)
        if program is None:
            return None, None, None
        payload, report = learned.encode(image.pixels, program)
    except (LatentOverflow, StackUnderflow):
        return None, None, None
    return _container(Method[program.kind.upper()], payload, image, program.id), program, report


def _encode_classical(image: Png, rival: Container | None) -> Container:
    """The classical container; the thorough one, unless that has no hope against the `rival`."""
    payload = classical.encode(image.pixels, quick=rival is not None)
    if rival is not None and _THOROUGH_GAIN * len(payload) < len(rival.payload):
        payload = min(payload, classical.encode(image.pixels), key=len)
    return _container(Method.CLASSICAL, payload, image)


def _container(method: Method, payload: bytes, image: Png, model_id: bytes = b"") -> Container:
    return Container(method, payload, image.pixels.shape, pixel_checksum(image.pixels), model_id, image.chunks)


def decode_pixels(container: Container, find_program: FindProgram) -> np.ndarray:
    """The pixels of a container that is not stored; raises CorruptError unless they match its checksum."""
    if container.method in LEARNED:
        from .methods import learned

        program = find_program(container.model_id)
        if Method[program.kind.upper()] != container.method:
            raise CorruptError("the model is of another kind than the file says")
        try:
            pixels = learned.decode(container.payload, container.shape, program)
        except DqcodecError:
            raise
        except (ValueError, IndexError, ArithmeticError) as error:  # a payload that no encoder wrote
            raise CorruptError(f"the payload does not decode ({error})") from error
    else:
        pixels = classical.decode(container.payload, container.shape)
    if pixels.shape != container.shape or pixel_checksum(pixels) != container.checksum:
        raise CorruptError("the decoded pixels do not match their checksum")
    return pixels


def _stored_image(container: Container, max_pixels: int) -> Png:
    """The structure of a stored container's PNG; raises CorruptError if it is none."""
    if not container.payload.startswith(png.SIGNATURE):
        raise CorruptError("the stored file is not a PNG")
    return png.read(container.payload, max_pixels, decode=False)


def _verify(dqc: bytes, data: bytes, image: Png, program: Program | None, max_pixels: int) -> None:
    """Decode `dqc` in full and compare it with its source; raises VerifyError on any difference."""
    try:
        container = Container.parse(dqc, max_pixels)
        if container.method == Method.STORED:
            same = container.payload == data
        else:
            pixels = decode_pixels(container, lambda model_id: program)
            same = np.array_equal(pixels, image.pixels) and container.chunks == image.chunks
    except DqcodecError as error:
        raise VerifyError(f"the compressed file does not decode ({error}); nothing is written") from error
    if not same:
        raise VerifyError("the compressed file decodes to another image; nothing is written")
