"""Measure one codec on one image."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dqcodec import png
from dqcodec.base.errors import CorruptError, one_line
from dqcodec.bench import images, memory
from dqcodec.bench.codecs import Codec, ModelBits
from dqcodec.bench.images import Image, Original


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time, and processor time of all threads. On a busy machine the first is larger."""

    wall: float
    cpu: float


class Rates:
    """Rates of one image or of several together, from their bytes, png_bytes, pixels, dims (samples) and seconds."""

    @property
    def bpd(self) -> float | None:
        """Bits per sample of the PNGs."""
        return 8 * self.bytes / self.dims if self.dims else None

    @property
    def ratio(self) -> float | None:
        """Bytes / PNG bytes."""
        return self.bytes / self.png_bytes if self.dims else None

    @property
    def encode_mp_s(self) -> float | None:
        """Encoding speed, megapixels per second; None if nothing was encoded."""
        return self.pixels / 1e6 / self.encode_seconds if self.dims and self.encode_seconds else None

    @property
    def decode_mp_s(self) -> float | None:
        """Decoding speed, megapixels per second."""
        return self.pixels / 1e6 / self.decode_seconds if self.dims else None

    def as_dict(self) -> dict[str, Any]:
        """All fields and rates, for JSON."""
        derived = ("bpd", "ratio", "encode_mp_s", "decode_mp_s")
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in derived}


@dataclass(frozen=True)
class Measured(Rates):
    """A verified result: the decoded pixels equal those of the PNG.

    peak_memory_bytes: of the codec's whole process, with Python, libraries and models, while it coded this image.
    encode: None if nothing was encoded.
    """

    width: int
    height: int
    samples: int
    kind: str
    png_bytes: int
    bytes: int
    encode: Seconds | None
    decode: Seconds
    peak_memory_bytes: int
    method: str | None
    model: ModelBits | None

    @property
    def pixels(self) -> int:
        """Width times height."""
        return self.width * self.height

    @property
    def dims(self) -> int:
        """Number of samples in the PNG."""
        return self.pixels * self.samples

    @property
    def encode_seconds(self) -> float | None:
        """Wall-clock time."""
        return self.encode and self.encode.wall

    @property
    def decode_seconds(self) -> float:
        """Wall-clock time."""
        return self.decode.wall


@dataclass(frozen=True)
class Row:
    """The result of a codec on an image. Exactly one of three is set.

    measured: the result. error: one line. unsupported: why the codec does not take the image.
    """

    codec: str
    image: str
    measured: Measured | None = None
    error: str | None = None
    unsupported: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """All fields and rates in one level."""
        fields: dict[str, Any] = {"codec": self.codec, "image": self.image, "verified": self.measured is not None}
        fields |= {"error": self.error, "unsupported": self.unsupported}
        if self.measured is None:
            return fields
        model = self.measured.model
        return fields | self.measured.as_dict() | {"limit_bpd": model and model.limit / self.measured.dims}


def measure(codec: Codec, image: Image, repeat: int = 1) -> Row:
    """Measure the codec on the image. Times are the best of `repeat` runs. Errors go to the row; none is raised."""
    row = Row(codec.name, image.name)
    try:
        source = images.read(image.path)
    except images.NotCompared as reason:
        return dataclasses.replace(row, unsupported=one_line(reason))
    except Exception as error:  # Pillow raises many types for damaged files
        return dataclasses.replace(row, error=f"cannot be read: {one_line(error)}")
    if not codec.takes(source):
        return dataclasses.replace(row, unsupported=f"takes no {source.kind}")
    try:
        memory.reset_peak()
        tries = [_measure(codec, source) for _ in range(repeat)]
    except Exception as error:  # codecs raise many types
        return dataclasses.replace(row, error=one_line(error))
    return dataclasses.replace(row, measured=_best(tries))


def warm_up(codec: Codec) -> None:
    """Code a small image, so that the first measured image does not pay for lazy loading."""
    side = 64
    ramp = np.add.outer(np.arange(side), np.arange(side))
    pixels = np.repeat(ramp[..., None], 3, axis=2).astype(np.uint8)
    with contextlib.suppress(Exception):  # real images will show the error
        codec.decode(codec.encode(Original(png.write(png.plain(pixels)), pixels, side, side, 3, "")).data)


def file_bytes(codec: Codec, sources: Sequence[Original]) -> int:
    """Total bytes of one file for each image.

    Raises CorruptError: the decoded pixels differ from those of the source. The codec may raise other errors.
    """
    codec.prepare(1)
    total = 0
    for source in sources:
        data = codec.encode(source).data
        _compare(codec.decode(data), source)
        total += len(data)
    return total


def _compare(pixels: np.ndarray, source: Original) -> None:
    if not images.same(pixels, source.pixels):
        raise CorruptError("NOT LOSSLESS: the decoded pixels differ")


def _measure(codec: Codec, source: Original) -> Measured:
    """Code and decode once.

    Raises CorruptError: the decoded pixels differ from those of the source. The codec may raise other errors.
    """
    coded, encode = _timed(lambda: codec.encode(source))
    pixels, decode = _timed(lambda: codec.decode(coded.data))
    peak = memory.peak_bytes()
    _compare(pixels, source)
    return Measured(
        width=source.width,
        height=source.height,
        samples=source.samples,
        kind=source.kind,
        png_bytes=len(source.data),
        bytes=len(coded.data),
        encode=encode if codec.encodes else None,
        decode=decode,
        peak_memory_bytes=peak,
        method=coded.method,
        model=coded.model,
    )


def _timed(work: Callable[[], Any]) -> tuple[Any, Seconds]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def _best(tries: list[Measured]) -> Measured:
    """The fastest encoding and the fastest decoding by wall-clock time, and the highest peak."""
    return dataclasses.replace(
        tries[-1],
        encode=min((each.encode for each in tries if each.encode), key=lambda seconds: seconds.wall, default=None),
        decode=min((each.decode for each in tries), key=lambda seconds: seconds.wall),
        peak_memory_bytes=max(each.peak_memory_bytes for each in tries),
    )
