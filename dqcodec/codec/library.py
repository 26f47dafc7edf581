"""What `import dqcodec` offers: images in memory or in files <-> .dqc files and archives."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from dqcodec import png
from dqcodec.base.errors import FormatError
from dqcodec.codec import archive_group, codec, zoo
from dqcodec.codec.archive import check
from dqcodec.codec.codec import Info
from dqcodec.codec.conversion import array_of, from_array, from_pillow, lone_image, unmasked
from dqcodec.codec.effort import Effort
from dqcodec.codec.foreign import to_png
from dqcodec.codec.group import decode
from dqcodec.codec.region import Region
from dqcodec.codec.source import Source, read
from dqcodec.codec.zoo import ModelLike
from dqcodec.exact.program import FindProgram, Program
from dqcodec.format.archive import Writer, is_archive
from dqcodec.format.archive_group import Member
from dqcodec.format.container import Group
from dqcodec.format.names import Names, is_name
from dqcodec.png import MAX_PIXELS
from dqcodec.png.skeleton import check_size

ImageLike = str | os.PathLike | bytes | bytearray | memoryview | Image.Image | np.ndarray


def compress(
    source: ImageLike,
    models: ModelLike | Iterable[ModelLike] | None = None,
    *,
    strip: bool = False,
    exact: bool = False,
    keep_broken: bool = False,
    fast: bool = False,
    best: bool = False,
    verify: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> bytes:
    """Code an image as a .dqc file.

    source: the path or the bytes of a file (PNG, or another format that foreign.to_png reads), a Pillow image of one
    frame, or an array (H, W) or (H, W, 1 to 4), uint8 or uint16. models: one or several model names, model files or
    loaded programs; None: all models at hand. strip, exact, keep_broken: see source.read. fast, best: see
    effort.Effort. verify: decode the result and compare.

    Raises UnsupportedImageError, CorruptError, VerifyError, UnknownModelError, ModelError, OSError.
    """
    data = _png_bytes(source, max_pixels, is_whole=exact)
    programs, effort = _programs(models), Effort.of(fast=fast, best=best)
    file, _ = codec.compress(
        data,
        programs,
        effort,
        verify=verify,
        max_pixels=max_pixels,
        strip=strip,
        exact=exact,
        keep_broken=keep_broken,
    )
    return file


def compress_archive(
    images: Mapping[str, ImageLike] | Iterable[tuple[str, ImageLike]],
    models: ModelLike | Iterable[ModelLike] | None = None,
    *,
    strip: bool = False,
    exact: bool = False,
    fast: bool = False,
    best: bool = False,
    verify: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> bytes:
    """Code images in an archive, the small ones together. Equal images are coded once.

    images: by name, or (name, image); each is coded before the next group is read. A name is a relative path with
    slashes. Images, models and options: see `compress`. Times in the archive are 1970-01-01, permissions 0o644.

    Raises ValueError (a name cannot be a file's, or of two images, or of an image and a
    folder), and the errors of `compress`.
    """
    programs, effort = _programs(models), Effort.of(fast=fast, best=best)
    names, stream = [], io.BytesIO()
    writer = Writer(stream)

    def read_files() -> Iterator[_File]:
        for name, image in _named(images.items() if isinstance(images, Mapping) else images):
            data = _png_bytes(image, max_pixels, is_whole=exact)
            yield _File(name, data, read(data, strip=strip, exact=exact, max_pixels=max_pixels))

    for batch in archive_group.batches(read_files(), max_pixels=max_pixels):
        contents = {file.data: file.source for file in batch}
        writer.add(
            archive_group.encode(
                [Member(file.name) for file in batch],
                [contents[file.data] for file in batch],
                programs,
                effort,
                verify=verify,
                max_pixels=max_pixels,
            ).packed
        )
        names += [file.name for file in batch]
    writer.finish()
    if verify:
        check(stream, names, max_pixels)
    return stream.getvalue()


def decompress(
    data: bytes | str | os.PathLike,
    models: ModelLike | Iterable[ModelLike] = (),
    *,
    region: tuple[int, int, int, int] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """Decode a .dqc file, given as bytes or path, to its pixels.

    Returns (H, W) for gray, (H, W, C) for gray and alpha, RGB and RGBA; uint8, or uint16 for 16 bits. Palette indices
    become colours, a transparent colour becomes alpha, and samples of fewer than 8 bits are scaled to 8 bits. models:
    models to use beside those at hand, as in `compress`. region: decode only this part, (left, top, right, bottom) as
    in Pillow's crop. The file's CRC is checked, but not the checksum of the samples, which covers the whole image.

    Raises UnsupportedImageError (an animation, or more than `max_pixels`), RegionError (the region does not lie within
    the image), FormatError, CorruptError, UnknownModelError, ModelError, OSError.
    """
    data, find_program = _dqc_bytes(data), _finder(models)
    if region is not None:
        return array_of(codec.decompress_region(data, Region.of(region), find_program, max_pixels=max_pixels)[0])
    (image,) = decode(Group.unpack(data, max_pixels), find_program, max_pixels)
    return array_of(lone_image(image, max_pixels))


def decompress_png(
    data: bytes | str | os.PathLike,
    models: ModelLike | Iterable[ModelLike] = (),
    *,
    repack: bool = False,
    max_pixels: int = MAX_PIXELS,
) -> bytes:
    """Decode a .dqc file, given as bytes or path, to its PNG file, with all frames of an animation.

    models: see `decompress`. repack: see codec.decompress. Raises FormatError (also for an archive), CorruptError,
    UnsupportedImageError, UnknownModelError, ModelError, OSError.
    """
    return codec.decompress(_dqc_bytes(data), _finder(models), repack=repack, max_pixels=max_pixels)[0]


def info(data: bytes | str | os.PathLike, *, max_pixels: int = MAX_PIXELS) -> Info:
    """The facts in the head of a .dqc file, given as bytes or path. No image is decoded, so
    damage of a short file may stay unseen.

    Raises FormatError (also for an archive), CorruptError, UnsupportedImageError, OSError.
    """
    return codec.info(_dqc_bytes(data), max_pixels=max_pixels)


def open_image(file: str | os.PathLike) -> Image.Image:
    """The Pillow image of a .dqc file; it is decoded when its pixels are first used.

    An animation has the same frames as in Pillow's PNG images. Raises OSError and Pillow's UnidentifiedImageError.
    """
    return Image.open(file, formats=["DQC"])


@dataclass(frozen=True)
class _File:
    """An image of an archive: its name there, and its PNG file."""

    name: str
    data: bytes
    source: Source
    error: None = None

    @property
    def pixels(self) -> int:
        """Of all frames."""
        return self.source.image.area

    @property
    def parts(self) -> int:
        """Its rasters and chunks."""
        return self.source.image.skeleton.count if self.source.image.skeleton else 0

    @property
    def seconds(self) -> float:
        """About the time to decode it."""
        return archive_group.decoding_seconds(self.source.image)


def _named(images: Iterable[tuple[str, ImageLike]]) -> Iterator[tuple[str, ImageLike]]:
    """The images by name; raises ValueError (an archive cannot have such names), TypeError (a name is no text)."""
    names = Names()
    for name, image in images:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name: names in an archive are texts")
        if not is_name(name):
            raise ValueError(f"{name!r} cannot be the name of a file in an archive")
        other = names.add(name)
        if other == name:
            raise ValueError(f"{name!r} is the name of two images")
        if other:
            raise ValueError(f"{min(name, other)!r} is the name of an image and of a folder")
        yield name, image


def _programs(models: ModelLike | Iterable[ModelLike] | None) -> list[Program]:
    """The programs to code with, see `compress`."""
    listed = zoo.names() if models is None else zoo.listed(models)
    return [zoo.load(each) if isinstance(each, str | os.PathLike) else each for each in listed]


def _png_bytes(source: ImageLike, max_pixels: int, *, is_whole: bool) -> bytes:
    """The PNG file of a source, see `compress`; is_whole: see foreign.to_png."""
    if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        return to_png(_bytes(source), max_pixels, is_whole=is_whole)
    if isinstance(source, Image.Image):
        check_size(*source.size, max_pixels)
        return png.write(from_pillow(source))
    return png.write(from_array(unmasked(source), max_pixels))


def _bytes(data: bytes | bytearray | memoryview | str | os.PathLike) -> bytes:
    """The bytes of a file, given as such or by its path."""
    if isinstance(data, str | os.PathLike):
        return Path(data).read_bytes()
    return bytes(memoryview(data))  # bytes(5) would be five zeros


def _dqc_bytes(data: bytes | str | os.PathLike) -> bytes:
    """The bytes of a .dqc file; raises FormatError: they are an archive's."""
    data = _bytes(data)
    if is_archive(data):
        raise FormatError("the file is an archive: open it with dqcodec.Archive")
    return data


def _finder(models: ModelLike | Iterable[ModelLike]) -> FindProgram:
    return functools.partial(zoo.find, named=zoo.listed(models))
