"""The other codecs."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from io import BytesIO

import numpy as np
import PIL
from PIL import Image, features

from dqcodec.bench import images, metadata
from dqcodec.bench.codecs import Codec, Coded
from dqcodec.bench.images import Original


class PngAsGiven(Codec):
    """The PNG file itself; only its decoding by Pillow is measured."""

    name, title = "png", "PNG as given"
    encodes = False
    animates = True

    def version(self) -> str:
        """The version of Pillow, which decodes it."""
        return f"Pillow {PIL.__version__}"

    def encode(self, source: Original) -> Coded:
        """The file itself."""
        return Coded(source.data)


class Oxipng(Codec):
    """oxipng at its highest level, with metadata. Encoding starts from the PNG file."""

    name, title = "oxipng", "oxipng -o 6"
    requires = "oxipng"
    threaded = True
    animates = True

    def version(self) -> str:
        """The version of the package pyoxipng."""
        return f"pyoxipng {version('pyoxipng')}"

    def prepare(self, threads: int) -> None:
        """Set the threads before the thread pool starts."""
        os.environ["RAYON_NUM_THREADS"] = str(threads)  # its thread pool reads this when it starts
        import oxipng  # noqa: F401

    def encode(self, source: Original) -> Coded:
        """Optimise the PNG file."""
        import oxipng

        return Coded(oxipng.optimize_from_memory(source.data, level=6))


class WebP(Codec):
    """Lossless WebP with the slowest setting, by Pillow, with ICC profile, Exif and XMP. Gray is coded as RGB.

    Equal successive frames become one frame, which is shown longer.
    """

    name, title = "webp", "WebP lossless -z 9"
    bit_depths = (8,)
    animates = True
    _FRAME = 100  # milliseconds

    def version(self) -> str:
        """The version of libwebp."""
        return f"libwebp {features.version('webp')}"

    def encode(self, source: Original) -> Coded:
        """The pixels and metadata as WebP."""
        buffer, known = BytesIO(), source.metadata
        options = {"lossless": True, "quality": 100, "method": 6, "exact": True}
        options |= {"icc_profile": known.icc, "exif": known.exif, "xmp": known.xmp}
        image, *others = map(Image.fromarray, np.split(images.with_color(source.pixels), source.frames))
        if others:
            options |= {"save_all": True, "append_images": others, "duration": self._FRAME}
        image.save(buffer, "WEBP", **options)
        return Coded(buffer.getvalue())

    def decode(self, data: bytes) -> np.ndarray:
        """Decode by Pillow."""
        with Image.open(BytesIO(data)) as image:
            if not image.is_animated:
                return np.array(image)
            frames = np.split(images.as_shown(image), image.n_frames)
            durations = [self._duration(image, number) for number in range(image.n_frames)]
        return np.concatenate([np.tile(frame, (each, 1, 1)) for frame, each in zip(frames, durations)])

    def _duration(self, image: Image.Image, number: int) -> int:
        """How long a frame is shown, in frames of the source."""
        image.seek(number)
        image.load()
        return round(image.info["duration"] / self._FRAME)


class _Imagecodecs(Codec):
    """A codec of the imagecodecs package. `codec` is its name there."""

    requires = "imagecodecs"
    codec: str

    def is_installed(self) -> bool:
        if not super().is_installed():
            return False
        import imagecodecs

        return getattr(imagecodecs, self.codec.upper()).available  # not every build holds every codec

    def version(self) -> str:
        return self._function("version")()

    def encode(self, source: Original) -> Coded:
        pixels = source.pixels
        return Coded(self._function("encode")(pixels[..., 0] if pixels.shape[2] == 1 else pixels))

    def decode(self, data: bytes) -> np.ndarray:
        return self._function("decode")(data)

    def _function(self, name: str) -> Callable:
        import imagecodecs

        return getattr(imagecodecs, f"{self.codec}_{name}")


class JpegXl(_Imagecodecs):
    """Lossless JPEG XL with some effort, 1 to 10; more is slower and smaller. With Exif and XMP, without ICC profile."""

    codec = "jpegxl"
    threaded = True

    def __init__(self, effort: int):
        self.name, self.title = f"jxl-e{effort}", f"JPEG XL -d 0 -e {effort}"
        self.effort = effort

    def prepare(self, threads: int) -> None:
        """Remember the number of threads."""
        self._threads = threads

    def encode(self, source: Original) -> Coded:
        """The pixels and metadata as JPEG XL."""
        boxes = metadata.in_jpegxl(source.metadata)
        options = {
            "lossless": True,
            "effort": self.effort,
            "numthreads": self._threads,
            "usecontainer": True if boxes else None,
        }
        return Coded(self._function("encode")(source.pixels, **options) + boxes)

    def decode(self, data: bytes) -> np.ndarray:
        """Decode by libjxl."""
        return self._function("decode")(data, numthreads=self._threads)


class JpegLs(_Imagecodecs):
    """JPEG-LS. The library has no colour transform and codes each channel separately.

    This makes RGB photographs large.
    """

    codec, name, title = "jpegls", "jpeg-ls", "JPEG-LS, plain RGB"
    channels = (1, 3, 4)


class Qoi(_Imagecodecs):
    """QOI. The format has no gray, so gray is coded as RGB."""

    codec, name, title = "qoi", "qoi", "QOI"
    bit_depths = (8,)

    def encode(self, source: Original) -> Coded:
        """The pixels as QOI."""
        return Coded(self._function("encode")(images.with_color(source.pixels)))


PEERS: tuple[Codec, ...] = (PngAsGiven(), Oxipng(), WebP(), JpegXl(3), JpegXl(7), JpegXl(9), JpegLs(), Qoi())
