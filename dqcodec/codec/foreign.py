"""Files of other kinds (image_kinds.py) -> PNG files.

Only exact conversions are made; anything else is refused. A file that is not a PNG gives its pixels, palette, colour
profile and Exif (that of a TIFF is lost). JPEG and lossy WebP give the pixels that Pillow decodes.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from dqcodec import png
from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.codec.conversion import from_array, from_pillow
from dqcodec.codec.image_kinds import BY_PILLOW, NOT_AN_IMAGE
from dqcodec.png import MAX_PIXELS, SIGNATURE, Png
from dqcodec.png.skeleton import check_size

_NPY_MAGIC = b"\x93NUMPY"
_PNM_SPACE = rb"(?:\s|#[^\r\n]*[\r\n])"
_PNM_NUMBER = _PNM_SPACE + rb"+(\d{1,10})"
_PNM = re.compile(rb"P(?:[14]" + 2 * _PNM_NUMBER + rb"|[2356]" + 3 * _PNM_NUMBER + rb")\s")  # size; size and maximum
_PNM_NEXT = re.compile(_PNM_SPACE + rb"*P[1-6][\s#]")
_BITS_PER_SAMPLE, _SAMPLES_PER_PIXEL, _COLOR_MAP, _EXTRA_SAMPLES = 258, 277, 320, 338  # tags of TIFF
_PHOTOMETRIC, _SUB_IMAGES, _SAMPLE_FORMAT = 262, 330, 339
_STRAIGHT_ALPHA = 2  # a kind of extra sample; 1 is premultiplied alpha
_WHITE_IS_ZERO, _UNSIGNED = 0, 1  # what 0 means; a kind of numbers


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
    table = np.array(tags[_COLOR_MAP] if image.mode == "P" else (), np.uint16)  # 8 bits, times 256 or 257
    if (table % 257).any() and (table % 256).any():
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
        read_header = getattr(np.lib.format, "read_array_header_{}_{}".format(*version))
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
