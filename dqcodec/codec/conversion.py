"""Arrays and Pillow images <-> PNG. Only exact conversions are made; anything else is refused."""

from __future__ import annotations

import dataclasses
import sys
import zlib
from numbers import Integral
from typing import Any

import numpy as np
from PIL import Image

from dqcodec import png
from dqcodec.base.errors import UnsupportedImageError
from dqcodec.format import colors
from dqcodec.png import MAX_PIXELS, Chunk, Header, Png, Skeleton, color_types
from dqcodec.png.chunks import walk
from dqcodec.png.color_types import PALETTE
from dqcodec.png.skeleton import check_size, surrounds

_MALFORMED_KEY = "the image's transparent colour is malformed"


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
    """The PNG of a Pillow image, with its palette, transparent colour, colour profile and Exif in its info.

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


def to_array(data: bytes, max_pixels: int) -> np.ndarray:
    """The pixels of a PNG file's default image, see `array_of`; raises CorruptError, UnsupportedImageError."""
    return array_of(_read_default(data, max_pixels))


def array_of(image: Png) -> np.ndarray:
    """The colours of a default image, see library.decompress; raises CorruptError."""
    values = colors.colors(image)
    return values[..., 0] if values.shape[2] == 1 else values


def lone_image(decoded: Png | bytes, max_pixels: int) -> Png:
    """The image of a decoded PNG, or of a PNG file. A PNG that no skeleton expresses keeps
    its chunks, not their places.

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
        parts = _chunks_around(data)
        image = dataclasses.replace(image, skeleton=Skeleton(image.header, parts).still().repacked())
    return image


def _chunks_around(data: bytes) -> tuple[tuple[Chunk, ...], tuple[Chunk, ...]]:
    """The chunks before and behind the first image data of a valid PNG file that has no skeleton."""
    parts: tuple[list[Chunk], list[Chunk]] = [], []
    is_behind = False
    for kind, start, stop in walk(data):
        is_behind |= kind == b"IDAT"
        if surrounds(kind):
            parts[is_behind].append(Chunk(kind, data[start + 8 : stop - 4]))
    return tuple(parts[0]), tuple(parts[1])


def is_animation(data: bytes) -> bool:
    """Whether a valid PNG file has frames beside its default image. The animation itself may be malformed."""
    return any(kind == b"fdAT" for kind, *_ in walk(data))
