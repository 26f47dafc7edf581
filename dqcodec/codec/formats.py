"""Images of other kinds (image_kinds.py), arrays and Pillow images <-> PNG.

Only exact conversions are made; anything else is refused. A file that is not a PNG gives its pixels, palette, colour
profile and Exif. JPEG and lossy WebP give the pixels that Pillow decodes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
import warnings
import zlib
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from dqcodec import png
from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.codec.image_kinds import BY_PILLOW, NOT_AN_IMAGE
from dqcodec.format import colors
from dqcodec.png import MAX_PIXELS, SIGNATURE, Chunk, Header, Png, Skeleton, color_types
from dqcodec.png.chunks import walk
from dqcodec.png.color_types import PALETTE
from dqcodec.png.skeleton import check_size

_NPY_MAGIC = b"\x93NUMPY"
_PNM_NUMBER = rb"(?:\s|#[^\r\n]*[\r\n])+(\d{1,10})"
_PNM = re.compile(rb"P(?:[14]" + 2 * _PNM_NUMBER + rb"|[2356]" + 3 * _PNM_NUMBER + rb")\s")  # size; size and maximum
_PNM_NEXT = re.compile(rb"\s*P[1-6]\s")
_BITS_PER_SAMPLE, _SAMPLES_PER_PIXEL, _COLOR_MAP, _EXTRA_SAMPLES = 258, 277, 320, 338  # tags of TIFF
_PHOTOMETRIC, _SUB_IMAGES, _SAMPLE_FORMAT = 262, 330, 339
_STRAIGHT_ALPHA = 2  # a kind of extra sample; 1 is premultiplied alpha
_WHITE_IS_ZERO, _UNSIGNED = 0, 1  # what 0 means; a kind of numbers
_HOLDS = {  # format -> (samples per pixel, bits) that it can hold
    "ppm": {(1, 8), (1, 16), (3, 8), (3, 16)},
    "bmp": {(1, 8), (3, 8)},
    "tiff": {(1, 8), (1, 16), (2, 8), (3, 8), (4, 8)},
    "webp": {(1, 8), (2, 8), (3, 8), (4, 8)},
}
_MALFORMED_KEY = "the image's transparent colour is malformed"
_SAVE_OPTIONS = {"webp": {"lossless": True, "exact": True}}


def to_png(data: bytes, max_pixels: int = MAX_PIXELS, *, is_whole: bool = False) -> bytes:
    """Convert the file `data` to a PNG file. A PNG file stays as it is.

    is_whole: take PNG files only, because other files hold more than is converted.
    Raises UnsupportedImageError (another format, more than `max_pixels`, or not exact as PNG), CorruptError (damaged).
    """
    if data.startswith(SIGNATURE):
        return data
    if is_whole:
        raise UnsupportedImageError(
            "not a PNG file; of other files only the pixels can be kept, so --rm and --exact refuse them"
        )
    if data.startswith(_NPY_MAGIC):
        return png.write(from_array(_read_npy(data), max_pixels))
    if data.startswith(b"P") and (samples := _read_pnm(data)) is not None:
        return png.write(from_array(samples, max_pixels))
    return png.write(_read_by_pillow(data, max_pixels))


def from_png(data: bytes, format: str, max_pixels: int = MAX_PIXELS) -> bytes:
    """Convert the PNG file `data` to a file of another format: png, ppm, bmp, tiff, webp or npy.

    Raises UnsupportedImageError: the format cannot hold these pixels exactly.
    """
    if format == "png":
        return data
    if is_animation(data):
        raise UnsupportedImageError(f"{format} cannot hold an animation")
    pixels = to_array(data, max_pixels)
    if format == "npy":
        stream = io.BytesIO()
        np.save(stream, pixels)
        return stream.getvalue()
    channels, bits = pixels.shape[2] if pixels.ndim == 3 else 1, 8 * pixels.itemsize
    if (channels, bits) not in _HOLDS[format]:
        name = color_types.NAMES[color_types.OF_SAMPLES[channels]]
        raise UnsupportedImageError(f"{format} cannot hold {bits}-bit {name} exactly")
    if format == "ppm":
        start = f"P{5 if channels == 1 else 6}\n{pixels.shape[1]} {pixels.shape[0]}\n{(1 << bits) - 1}\n"
        return start.encode() + pixels.astype(pixels.dtype.newbyteorder(">")).tobytes()
    stream = io.BytesIO()
    try:
        Image.fromarray(pixels).save(stream, format, **_SAVE_OPTIONS.get(format, {}))
    except (ValueError, OSError) as error:  # larger than the format allows
        raise UnsupportedImageError(f"{format} cannot hold this image ({error})") from error
    return stream.getvalue()


def unmasked(values: Any) -> np.ndarray:
    """The array of what numpy takes for one. Raises UnsupportedImageError: it has a mask, which an image cannot hold."""
    if np.ma.is_masked(values):
        raise UnsupportedImageError("an image cannot hold the mask of an array; fill its values first")
    return np.asarray(values)


def from_array(pixels: np.ndarray, max_pixels: int = MAX_PIXELS) -> Png:
    """The PNG of an array (H, W) or (H, W, 1 to 4), uint8 or uint16.

    Raises UnsupportedImageError: another shape or dtype, no pixels, or more than `max_pixels`.
    """
    shape = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
    is_integer = pixels.dtype.newbyteorder("=") in (np.uint8, np.uint16)
    if not is_integer or len(shape) != 3 or shape[2] not in color_types.OF_SAMPLES:
        what = f"{pixels.dtype} {pixels.shape}"
        raise UnsupportedImageError(f"an array {what} is not an image: (H, W) or (H, W, 1 to 4), uint8 or uint16")
    if 0 in shape:
        raise UnsupportedImageError("the image has no pixels")
    check_size(shape[1], shape[0], max_pixels)
    return png.plain(np.ascontiguousarray(pixels.reshape(shape), pixels.dtype.newbyteorder("=")))


def from_pillow(image: Image.Image) -> Png:
    """The PNG of a Pillow image, with its palette, transparent colour, colour profile and Exif.

    Raises UnsupportedImageError: a PNG cannot hold the mode exactly, the image has several frames, or what it says of
    colours, transparency or Exif is malformed; and the errors of Pillow's `load`.
    """
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        advice = "compress its file, or image.copy() of one frame"
        raise UnsupportedImageError(f"the Pillow image has {frames} frames: {advice}")
    image.load()  # it may change the mode, and find Exif behind the pixels
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
        limit = (1 << header.bit_depth) - 1
        if len(levels) != header.samples or not all(_is_level(level, max(limit, 255)) for level in levels):
            raise UnsupportedImageError(_MALFORMED_KEY)
        before = (*before, Chunk(b"tRNS", np.minimum(levels, limit).astype(">u2").tobytes()))
    return Png(header, Skeleton(header, (before, ())), result.rasters)


def _from_palette(image: Image.Image, before: tuple[Chunk, ...]) -> Png:
    indices = np.array(image)[..., None]
    table = np.array(image.getpalette("RGBA"), np.uint8).reshape(-1, 4)[:256]
    if indices.max() >= len(table):
        raise UnsupportedImageError("a palette index has no colour")
    transparent = image.info.get("transparency")
    if isinstance(transparent, bytes):
        table[: len(transparent), 3] = np.frombuffer(transparent, np.uint8)[: len(table)]
    elif _is_level(transparent, 255):
        table[transparent : transparent + 1, 3] = 0  # none, if it is not in the palette
    elif transparent is not None:
        raise UnsupportedImageError(_MALFORMED_KEY)
    chunks = [*before, Chunk(b"PLTE", table[:, :3].tobytes())]
    if (table[:, 3] < 255).any():
        chunks.append(Chunk(b"tRNS", table[:, 3].tobytes()))
    header = Header(image.width, image.height, PALETTE, 8)
    return Png(header, Skeleton(header, (tuple(chunks), ())), (indices,))


def _is_level(value: Any, most: int) -> bool:
    """Whether a value is an integer from 0 to `most`."""
    return isinstance(value, Integral) and 0 <= value <= most


def _pillow_chunks(image: Image.Image) -> tuple[Chunk, ...]:
    """Colour profile and Exif (the latter holds the orientation)."""
    chunks = []
    profile, exif = (image.info.get(key) or b"" for key in ("icc_profile", "exif"))
    if not isinstance(profile, bytes) or not isinstance(exif, bytes):
        raise UnsupportedImageError("the image's colour profile or Exif is not bytes")
    if profile:
        chunks.append(Chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(profile, 9)))
    if exif:
        chunks.append(Chunk(b"eXIf", exif.removeprefix(b"Exif\0\0")))
    return tuple(chunks)


def _read_by_pillow(data: bytes, max_pixels: int) -> Png:
    try:
        with warnings.catch_warnings(action="error"):  # Pillow warns of data that are cut or damaged
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            image = Image.open(io.BytesIO(data), formats=BY_PILLOW)
            check_size(*image.size, max_pixels)
            _check_exact(image, data)
            return from_pillow(image)
    except UnsupportedImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnsupportedImageError(NOT_AN_IMAGE) from error
    except Exception as error:  # Pillow's decoders raise any type for a damaged file
        raise CorruptError(f"Pillow cannot decode the file ({error})") from error


def _check_exact(image: Image.Image, data: bytes) -> None:
    """Raise UnsupportedImageError if Pillow would read only a part of the file `data`, or other samples."""
    from PIL.TiffImagePlugin import TiffImageFile

    with contextlib.suppress(EOFError):  # there is no second image; to count thousands of them takes minutes
        image.seek(1)
        raise UnsupportedImageError(f"the {image.format} file holds several images")
    if isinstance(image, TiffImageFile):
        _check_tiff(image)
    elif image.format == "BMP":
        _check_bmp(image, data)


def _check_tiff(image: Any) -> None:
    tags, bands = image.tag_v2, len(image.getbands())
    if _SUB_IMAGES in tags:  # raw files of cameras, whose first image is a thumbnail, and pyramids
        raise UnsupportedImageError("the TIFF file holds several images")
    bits = max(tags.get(_BITS_PER_SAMPLE, (1,)))
    if bits > 8 and not (bits == 16 and image.mode.startswith("I;16")):
        raise UnsupportedImageError(f"a TIFF file with {bits} bits a sample is not supported, except gray with 16 bits")
    if {*tags.get(_SAMPLE_FORMAT, ())} - {_UNSIGNED}:
        raise UnsupportedImageError("the TIFF file has samples that are not unsigned integers")
    if bits == 16 and tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO:  # Pillow inverts samples of up to 8 bits only
        raise UnsupportedImageError("a TIFF file with 16 bits a sample in which 0 is white is not supported")
    if tags.get(_SAMPLES_PER_PIXEL, bands) != bands or {*tags.get(_EXTRA_SAMPLES, ())} - {_STRAIGHT_ALPHA}:
        raise UnsupportedImageError("the TIFF file has samples beside colours and straight alpha")
    colors = np.array(tags[_COLOR_MAP] if image.mode == "P" else (), np.uint16)  # 8 bits, times 256 or 257
    if (colors % 257).any() and (colors % 256).any():
        raise UnsupportedImageError("the TIFF file has a palette of 16-bit colours")


def _check_bmp(image: Image.Image, data: bytes) -> None:
    _, _, offset, (mode, *_) = image.tile[0]
    if "X" in mode:  # a byte of each pixel that Pillow does not read, but may write
        unread = np.frombuffer(data, np.uint8, 4 * image.width * image.height, offset)[mode.index("X") :: 4]
        if unread.any() and unread.min() < 255:
            raise UnsupportedImageError("the BMP file has a fourth sample that is not said to be alpha")


def _read_npy(data: bytes) -> np.ndarray:
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = getattr(np.lib.format, "read_array_header_%d_%d" % version)
        shape, is_fortran, dtype = read_header(stream)
        if dtype.hasobject:
            raise UnsupportedImageError("the .npy file holds Python objects")
        flat = np.frombuffer(data, dtype, offset=stream.tell())
        return flat.reshape(shape, order="F" if is_fortran else "C")
    except UnsupportedImageError:
        raise
    except Exception as error:  # numpy evaluates the header as Python: almost any error
        raise CorruptError("the .npy file is damaged") from error


def _read_pnm(data: bytes) -> np.ndarray | None:
    """The samples (H, W) or (H, W, 3) of a 16-bit PGM or PPM, which Pillow would round. None: Pillow reads the file
    exactly."""
    match = _PNM.match(data)
    if match is None:
        raise UnsupportedImageError(NOT_AN_IMAGE)
    kind, start = int(data[1:2]), match.end()
    width, height, limit = (*(int(group) for group in match.groups() if group), 1)[:3]
    channels = 3 if kind in (3, 6) else 1
    row = -(-width // 8) if kind == 4 else width * channels * (2 if limit > 255 else 1)
    if kind > 3 and _PNM_NEXT.match(data, start + height * row):  # only a binary file may hold several images
        raise UnsupportedImageError("the PBM, PGM or PPM file holds several images")
    if kind in (1, 4) or limit == 255:
        return None
    if kind < 4 or limit != 65535:
        raise UnsupportedImageError("a PGM or PPM file must have a maximum of 255, or of 65535 in binary form")
    if len(data) - start < height * row:
        raise CorruptError("truncated PGM or PPM file")
    shape = (height, width, 3) if kind == 6 else (height, width)
    return np.frombuffer(data, ">u2", height * width * channels, start).reshape(shape)


def to_array(data: bytes, max_pixels: int) -> np.ndarray:
    """The pixels of a PNG file's default image, see `pixels`; raises CorruptError, UnsupportedImageError."""
    return pixels(_read_default(data, max_pixels))


def pixels(image: Png) -> np.ndarray:
    """The colours of a default image, see library.decompress; raises CorruptError."""
    values = colors.colors(image)
    return values[..., 0] if values.shape[2] == 1 else values


def lone_image(decoded: Png | bytes, max_pixels: int) -> Png:
    """The image of a decoded PNG, or of a PNG file. If a skeleton cannot express it, its only chunks are PLTE and tRNS.

    Raises UnsupportedImageError (an animation, or more than `max_pixels`), CorruptError.
    """
    if len(decoded.rasters) > 1 if isinstance(decoded, Png) else is_animation(decoded):
        raise UnsupportedImageError(
            "an animation is not one array: decompress_png, open and Archive[name] give its frames"
        )
    return decoded if isinstance(decoded, Png) else _read_default(decoded, max_pixels)


def _read_default(data: bytes, max_pixels: int) -> Png:
    image = png.read(data, max_pixels)
    if image.skeleton is None:
        image = dataclasses.replace(image, skeleton=Skeleton(image.header, (tuple(_color_chunks(data)), ())))
    return image


def _color_chunks(data: bytes) -> Iterator[Chunk]:
    """The PLTE and tRNS chunks of a valid PNG file that has no skeleton."""
    for kind, start, stop in walk(data):
        if kind == b"IDAT":
            return
        if kind in (b"PLTE", b"tRNS"):
            yield Chunk(kind, data[start + 8 : stop - 4])


def is_animation(data: bytes) -> bool:
    """Whether a valid PNG file has frames beside its default image. The animation itself may be malformed."""
    return any(kind == b"fdAT" for kind, *_ in walk(data))
