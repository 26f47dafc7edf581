"""One codec on one image."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dqcodec.base.errors import CorruptError, one_line
from dqcodec.bench import images, memory
from dqcodec.bench.codecs import Codec, ModelBits
from dqcodec.bench.images import Image, Original

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Seconds:
    """Of the clock, and of processors (all threads): what a busy machine adds is the difference."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Measured:
    """What came out, once it is verified: the decoded pixels were those of the PNG.

    peak_memory_bytes: of the codec's whole process, with Python, libraries and models, while it coded this image.
    encode is None where nothing was encoded.
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
        return self.width * self.height

    @property
    def dims(self) -> int:
        """Subpixels as the PNG stores them."""
        return self.pixels * self.samples


@dataclass(frozen=True)
class Row:
    """A codec's fate on an image: one of `measured`, `error` (one line) and `unsupported` (why it does not take it)."""

    codec: str
    image: str
    measured: Measured | None = None
    error: str | None = None
    unsupported: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Flat, with bpd (bits per subpixel), ratio (bytes / PNG bytes) and speeds (megapixels a second)."""
        fields: dict[str, Any] = {"codec": self.codec, "image": self.image, "verified": self.measured is not None}
        fields |= {"error": self.error, "unsupported": self.unsupported}
        if self.measured is None:
            return fields
        result = self.measured
        fields |= dataclasses.asdict(result) | {
            "bpd": 8 * result.bytes / result.dims,
            "ratio": result.bytes / result.png_bytes,
            "encode_mp_s": result.encode and result.pixels / 1e6 / result.encode.wall,
            "decode_mp_s": result.pixels / 1e6 / result.decode.wall,
            "limit_bpd": result.model and result.model.limit / result.dims,
        }
        return fields


def measure(codec: Codec, image: Image, repeat: int = 1) -> Row:
    """The codec on the image; speeds are the best of `repeat` times. Nothing that goes wrong is raised."""
    fate = Row(codec.name, image.name)
    try:
        source = images.read(image.path)
    except images.NotCompared as reason:
        return dataclasses.replace(fate, unsupported=one_line(reason))
    except Exception as error:  # damage, in Pillow's many ways to say so
        return dataclasses.replace(fate, error=f"cannot be read: {one_line(error)}")
    if not codec.takes(source):
        return dataclasses.replace(fate, unsupported=f"takes no {source.kind}")
    try:
        memory.reset_peak()
        tries = [_measure(codec, source) for _ in range(repeat)]
    except Exception as error:  # codecs raise what they like
        return dataclasses.replace(fate, error=one_line(error))
    return dataclasses.replace(fate, measured=_best(tries))


def warm_up(codec: Codec) -> None:
    """Code a small image, so that the first that is timed does not pay for what is loaded when it is first used."""
    import numpy as np

    from dqcodec import png

    side = 64
    ramp = np.add.outer(np.arange(side), np.arange(side))
    pixels = np.repeat(ramp[..., None], 3, axis=2).astype(np.uint8)
    with contextlib.suppress(Exception):  # what does not work is told of real images
        codec.decode(codec.encode(Original(png.write(png.plain(pixels)), pixels, side, side, 3, "")).data)


def file_bytes(codec: Codec, sources: Sequence[Original]) -> int:
    """What a file for each image takes in all.

    Raises CorruptError where the decoded pixels are not those of the source, and whatever the codec raises.
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
    """Raises CorruptError where the decoded pixels are not those of the source, and whatever the codec raises."""
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
    """The fastest encoding and the fastest decoding by the clock, and the highest peak."""
    return dataclasses.replace(
        tries[-1],
        encode=min((each.encode for each in tries if each.encode), key=lambda seconds: seconds.wall, default=None),
        decode=min((each.decode for each in tries), key=lambda seconds: seconds.wall),
        peak_memory_bytes=max(each.peak_memory_bytes for each in tries),
    )
