"""What `import dqcodec` offers: images in memory or in files <-> .dqc, and images of other formats <-> PNG.

Nothing is converted that is not exact. Of files that are no PNG, pixels, palette, colour profile and Exif are taken;
the pixels of JPEG and lossy WebP are as they decode here.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import re
import sys
import warnings
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dqcodec import png
from dqcodec.base.errors import CorruptError, FormatError, UnsupportedImageError
from dqcodec.codec import codec, zoo
from dqcodec.format import archive, colors
from dqcodec.png import MAX_PIXELS, SIGNATURE, Chunk, Header, Png, Skeleton
from dqcodec.png.chunks import PALETTE, walk
from dqcodec.png.color_types import NAMES, OF_SAMPLES

if TYPE_CHECKING:
    from PIL import Image

    from dqcodec.codec.zoo import Model

    Images = str | os.PathLike | bytes | Image.Image | np.ndarray

_READ = ("BMP", "GIF", "JPEG", "PPM", "TIFF", "WEBP")
_NPY_MAGIC = b"\x93NUMPY"
_PNM_NUMBER = rb"(?:\s|#[^\n]*\n)+(\d{1,9})"
_PNM, _PNM_LIMIT = re.compile(rb"P([1-6])" + 2 * _PNM_NUMBER), re.compile(_PNM_NUMBER + rb"\s")
_PNM_NEXT = re.compile(rb"\s*P[1-6]\s")
_BITS_PER_SAMPLE = 258  # TIFF's tag
_EXPRESSIBLE = {  # (samples per pixel, bits)
    "ppm": {(1, 8), (1, 16), (3, 8), (3, 16)},
    "bmp": {(1, 8), (3, 8)},
    "tiff": {(1, 8), (1, 16), (2, 8), (3, 8), (4, 8)},
    "webp": {(1, 8), (2, 8), (3, 8), (4, 8)},
}
_SAVE_OPTIONS = {"webp": {"lossless": True, "exact": True}}


def compress(
    source: Images,
    models: Model | Iterable[Model] | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
    **options: Any,
) -> bytes:
    """The .dqc file of an image.

    source: a file's path or its bytes (a PNG, or what `to_png` takes), a Pillow image, or an array (H, W) or
    (H, W, 1 to 4) of uint8 or uint16. A file keeps all its frames; a Pillow image of several is refused. models: names,
    files or loaded programs, or one; None is all at hand. options: those of codec.compress. Raises what that raises,
    OSError, UnknownModelError, ModelError.
    """
    models = zoo.names() if models is None else zoo.listed(models)
    programs = [zoo.load(each) if isinstance(each, str | os.PathLike) else each for each in models]
    return codec.compress(_png_bytes(source, max_pixels), programs, max_pixels=max_pixels, **options)[0]


def decompress(
    data: bytes | str | os.PathLike, models: Model | Iterable[Model] = (), *, max_pixels: int = MAX_PIXELS
) -> np.ndarray:
    """The pixels of a .dqc file, given its bytes or path: (H, W) gray, or (H, W, C) gray and alpha, RGB or RGBA; uint8,
    or uint16 for 16 bits; palettes and colour keys are resolved, samples of fewer than 8 bits scaled.

    models: names, files or loaded programs, or one, besides those at hand. Raises what codec.decompress raises, OSError, and
    UnsupportedImageError for an animation: decompress_png and open_image give all its frames.
    """
    data = decompress_png(data, models, repack=True, max_pixels=max_pixels)
    if _is_animation(data):
        raise UnsupportedImageError("an animation is no single array: decompress_png and open give all its frames")
    return _array(data, max_pixels)


def decompress_png(
    data: bytes | str | os.PathLike, models: Model | Iterable[Model] = (), *, repack: bool = False, max_pixels: int = MAX_PIXELS
) -> bytes:
    """The PNG file that a .dqc file holds, with all frames of an animation; repack: see codec.decompress, models: `decompress`."""
    data = _bytes(data)
    if archive.is_archive(data):
        raise FormatError("this is an archive: see dqcodec.Archive")
    return codec.decompress(data, functools.partial(zoo.find, named=zoo.listed(models)), repack=repack, max_pixels=max_pixels)[0]


def open_image(file: str | os.PathLike) -> Image.Image:
    """The Pillow image of a .dqc file, decoded when its pixels are asked for; raises what Pillow raises.

    It has the frames of an animation, to seek and to iterate over, as those of Pillow's own PNG images.
    """
    from PIL import Image

    return Image.open(file, formats=["DQC"])


def to_png(data: bytes, max_pixels: int = MAX_PIXELS, *, is_kept: bool = True) -> bytes:
    """The PNG file of a file: itself, or of a BMP, PBM, PGM, PPM, TIFF, WebP, JPEG, GIF or .npy, packed anew.

    Raises UnsupportedImageError (none of these, too large, more than a PNG can express, or no PNG and not to be kept:
    there is more in it than pixels), CorruptError.
    """
    if data.startswith(SIGNATURE):
        return data
    if not is_kept:
        raise UnsupportedImageError("not a PNG file; only PNG files may be removed once they are compressed")
    if data.startswith(_NPY_MAGIC):
        return png.write(from_array(_read_npy(data), max_pixels))
    if (match := _PNM.match(data)) and (samples := _read_pnm(data, match)) is not None:
        return png.write(from_array(samples, max_pixels))
    return png.write(_read_by_pillow(data, max_pixels))


def from_png(data: bytes, format: str, max_pixels: int = MAX_PIXELS) -> bytes:
    """The file in one of the formats of command/names.py with the pixels of a PNG; UnsupportedImageError where it cannot hold them."""
    if format == "png":
        return data
    if _is_animation(data):
        raise UnsupportedImageError(f"an animation has more pixels than {format} can hold")
    pixels = _array(data, max_pixels)
    if format == "npy":
        stream = io.BytesIO()
        np.save(stream, pixels)
        return stream.getvalue()
    channels, bits = pixels.shape[2] if pixels.ndim == 3 else 1, 8 * pixels.itemsize
    if (channels, bits) not in _EXPRESSIBLE[format]:
        raise UnsupportedImageError(f"{format} cannot hold {bits}-bit {NAMES[OF_SAMPLES[channels]]} exactly")
    if format == "ppm":
        start = f"P{5 if channels == 1 else 6}\n{pixels.shape[1]} {pixels.shape[0]}\n{(1 << bits) - 1}\n"
        return start.encode() + pixels.astype(pixels.dtype.newbyteorder(">")).tobytes()
    from PIL import Image

    stream = io.BytesIO()
    try:
        Image.fromarray(pixels).save(stream, format, **_SAVE_OPTIONS.get(format, {}))
    except (ValueError, OSError) as error:  # larger than the format allows
        raise UnsupportedImageError(f"{format} cannot hold this image ({error})") from error
    return stream.getvalue()


def from_array(pixels: np.ndarray, max_pixels: int = MAX_PIXELS) -> Png:
    """The PNG of an array (H, W) or (H, W, 1 to 4), uint8 or uint16; raises UnsupportedImageError for any other."""
    shape = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
    if pixels.dtype.newbyteorder("=") not in (np.uint8, np.uint16) or len(shape) != 3 or shape[2] not in OF_SAMPLES:
        what = f"{pixels.dtype} {pixels.shape}"
        raise UnsupportedImageError(f"{what} is no image: (H, W) or (H, W, 1 to 4), uint8 or uint16")
    if 0 in shape:
        raise UnsupportedImageError("the image has no pixels")
    height, width, channels = shape
    header = Header(width, height, OF_SAMPLES[channels], 8 * pixels.itemsize)
    _check_size(width, height, max_pixels)
    native = np.ascontiguousarray(pixels.reshape(shape), pixels.dtype.newbyteorder("="))
    return Png(header, Skeleton(header), (native,))


def from_pillow(image: Image.Image) -> Png:
    """The PNG of a Pillow image; raises UnsupportedImageError for modes that a PNG cannot express exactly, and for several
    frames."""
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        advice = "compress its file, which keeps all of them, or image.copy() of one"
        raise UnsupportedImageError(f"the Pillow image has {frames} frames: {advice}")
    before = _pillow_chunks(image)
    if image.mode == "P":
        return _from_palette(image, before)
    if image.mode not in ("1", "L", "LA", "RGB", "RGBA") and not image.mode.startswith("I;16"):
        raise UnsupportedImageError(f"a PNG cannot hold pixels of mode {image.mode} exactly")
    pixels = np.asarray(image)
    result = from_array(pixels.view(np.uint8) & 1 if image.mode == "1" else pixels, sys.maxsize)
    header = result.header._replace(bit_depth=1) if image.mode == "1" else result.header
    key = image.info.get("transparency")
    if key is not None and header.color_type in (0, 2):
        levels = key if isinstance(key, tuple) else (key,)
        if len(levels) != header.samples or not all(isinstance(level, int) for level in levels):
            raise UnsupportedImageError("the image's transparent colour is malformed")
        limit = (1 << header.bit_depth) - 1
        before = (*before, Chunk(b"tRNS", b"".join(min(level, limit).to_bytes(2, "big") for level in levels)))
    return Png(header, Skeleton(header, (before, ())), result.rasters)


def _from_palette(image: Image.Image, before: tuple[Chunk, ...]) -> Png:
    indices = np.array(image)[..., None]
    table = np.array(image.getpalette("RGBA"), np.uint8).reshape(-1, 4)[:256]
    if indices.max() >= len(table):
        raise UnsupportedImageError("the image has pixels that its palette has no colour for")
    transparent = image.info.get("transparency")
    if isinstance(transparent, bytes):
        table[: len(transparent), 3] = np.frombuffer(transparent, np.uint8)[: len(table)]
    elif transparent is not None and transparent < len(table):
        table[transparent, 3] = 0
    chunks = [*before, Chunk(b"PLTE", table[:, :3].tobytes())]
    if (table[:, 3] < 255).any():
        chunks.append(Chunk(b"tRNS", table[:, 3].tobytes()))
    header = Header(image.width, image.height, PALETTE, 8)
    return Png(header, Skeleton(header, (tuple(chunks), ())), (indices,))


def _pillow_chunks(image: Image.Image) -> tuple[Chunk, ...]:
    """Colour profile and Exif, which says how a camera was held."""
    chunks = []
    if profile := image.info.get("icc_profile"):
        chunks.append(Chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(profile, 9)))
    if exif := image.info.get("exif"):
        chunks.append(Chunk(b"eXIf", exif.removeprefix(b"Exif\0\0")))
    return tuple(chunks)


def _read_by_pillow(data: bytes, max_pixels: int) -> Png:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings(action="ignore"):
            image = Image.open(io.BytesIO(data), formats=_READ)
            _check_size(*image.size, max_pixels)
            _check_exact(image)
            image.load()
        return from_pillow(image)
    except UnsupportedImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnsupportedImageError("not a PNG, BMP, PPM, TIFF, WebP, JPEG, GIF or .npy file") from error
    except Exception as error:  # decoders of damaged files raise what they like; a DecompressionBombError is one
        raise CorruptError(f"Pillow cannot decode the file ({error})") from error


def _check_exact(image: Image.Image) -> None:
    """Raise UnsupportedImageError for a file of which Pillow would give less than it holds."""
    from PIL.TiffImagePlugin import TiffImageFile

    if getattr(image, "n_frames", 1) > 1:
        raise UnsupportedImageError(f"the {image.format} file holds several images")
    bits = max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,))) if isinstance(image, TiffImageFile) else 8
    if bits > 8 and not (bits == 16 and image.mode.startswith("I;16")):
        raise UnsupportedImageError(f"of TIFF files with {bits} bits a sample, only gray ones with 16 are taken")


def _read_npy(data: bytes) -> np.ndarray:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[
            version
        ]
        shape, is_fortran, dtype = read_header(stream)
        if dtype.hasobject:
            raise UnsupportedImageError("the .npy file holds Python objects")
        flat = np.frombuffer(data, dtype, offset=stream.tell())
        return flat.reshape(shape, order="F" if is_fortran else "C")
    except (ValueError, KeyError, OverflowError) as error:
        raise CorruptError("the .npy file is damaged") from error


def _read_pnm(data: bytes, match: re.Match) -> np.ndarray | None:
    """(H, W) or (H, W, 3) of a PGM or PPM of 16 bits, which Pillow would round; None for one that it would not."""
    kind, width, height = (int(group) for group in match.groups())
    limit = _PNM_LIMIT.match(data, match.end()) if kind not in (1, 4) else None
    if kind == 4 or kind > 4 and limit:  # those that are no text may hold several images
        start = limit.end() if limit else match.end() + 1
        row = width * (3 if kind == 6 else 1) * (1 + (int(limit[1]) > 255)) if limit else -(-width // 8)
        if _PNM_NEXT.match(data, start + height * row):
            raise UnsupportedImageError("the PBM, PGM or PPM file holds several images")
    if limit is None or int(limit[1]) == 255:
        return None
    if kind < 4 or int(limit[1]) != 65535:
        raise UnsupportedImageError("a PGM or PPM file must be of 255 levels, or, not as text, of 65535")
    shape = (height, width, 3) if kind == 6 else (height, width)
    count = height * width * (3 if kind == 6 else 1)
    if len(data) - limit.end() < 2 * count:
        raise CorruptError("truncated PGM or PPM file")
    return np.frombuffer(data, ">u2", count, limit.end()).reshape(shape)


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width * height > max_pixels:
        raise UnsupportedImageError(f"{width} x {height} is more than the limit of {max_pixels} pixels")


def _png_bytes(source: Images, max_pixels: int) -> bytes:
    if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        return to_png(_bytes(source), max_pixels)
    from PIL import Image

    if isinstance(source, Image.Image):
        _check_size(*source.size, max_pixels)
        return png.write(from_pillow(source))
    return png.write(from_array(np.asarray(source), max_pixels))


def _array(data: bytes, max_pixels: int) -> np.ndarray:
    """The pixels of a PNG file; see `decompress`."""
    image = png.read(data, max_pixels)
    if image.skeleton is None:
        image = dataclasses.replace(image, skeleton=Skeleton(image.header, (tuple(_color_chunks(data)), ())))
    pixels = colors.colors(image)
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels


def _color_chunks(data: bytes) -> Iterator[Chunk]:
    """Palette and transparency of a valid PNG file that a skeleton cannot express."""
    for kind, start, stop in walk(data):
        if kind == b"IDAT":
            return
        if kind in (b"PLTE", b"tRNS"):
            yield Chunk(kind, data[start + 8 : stop - 4])


def _is_animation(data: bytes) -> bool:
    """Whether a valid PNG file has frames beside its default image, be the animation valid or not."""
    return any(kind == b"fdAT" for kind, *_ in walk(data))


def _bytes(data: bytes | str | os.PathLike) -> bytes:
    return Path(data).read_bytes() if isinstance(data, str | os.PathLike) else bytes(data)
