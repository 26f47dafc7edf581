"""The images to measure on. A reference decoder, which is not dqcodec's own, gives their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import PngImagePlugin
from PIL.Image import Image as PillowImage

from dqcodec import png
from dqcodec.bench import metadata
from dqcodec.bench.metadata import Metadata
from dqcodec.png import color_types


class NotCompared(Exception):
    """No decoder at hand gives the exact pixels of this valid PNG."""


@dataclass(frozen=True)
class Image:
    """A file and its name in reports, a path relative to the folder that the user gave."""

    path: Path
    name: str


@dataclass(frozen=True, eq=False)
class Original:
    """A PNG file and its decoded pixels.

    pixels: (H, W, 1 to 4) uint8 or uint16; palettes and colour keys are resolved. The frames of an animation lie one
    below the other, RGBA, as they are shown; transparent pixels are 0.
    height: of `pixels`, so of all frames together. frames: their number.
    samples: samples per pixel in the file, 1 for a palette index. Bits per dimension count these.
    kind: bit depth and colour type, as text. metadata: what other formats can hold of it.
    """

    data: bytes
    pixels: np.ndarray
    width: int
    height: int
    samples: int
    kind: str
    frames: int = 1
    metadata: Metadata = Metadata()


def find(paths: Sequence[Path]) -> list[Image]:
    """The given files, and the .png files below the given folders, without duplicates."""
    images: dict[Path, Image] = {}
    for path in paths:
        found = sorted(each for each in path.rglob("*") if each.suffix.lower() == ".png" and each.is_file())
        for each in found if path.is_dir() else [path]:
            name = Path(path.name, each.relative_to(path)) if path.is_dir() else each.name
            images.setdefault(each.resolve(), Image(each, str(name)))
    return list(images.values())


def read(path: Path) -> Original:
    """Read and decode a PNG file, with its metadata.

    Raises OSError, DqcodecError: the file is not readable, or no valid PNG; NotCompared: see decode.
    """
    data = path.read_bytes()
    return replace(of(data), metadata=metadata.of(data))


def of(data: bytes) -> Original:
    """Decode a PNG file, given by its bytes, without metadata. Raises DqcodecError, NotCompared: see read."""
    header = png.read(data, decode=False).header
    kind = f"{header.bit_depth}-bit {color_types.NAMES[header.color_type]}"
    pixels = decode(data)
    frames = len(pixels) // header.height
    kind = f"animated {kind}" if frames > 1 else kind
    return Original(data, pixels, header.width, len(pixels), header.samples, kind, frames)


def decode(data: bytes) -> np.ndarray:
    """The pixels of a PNG file, as in Original.

    Raises NotCompared: the image is animated with 16 bits, or needs imagecodecs, which is not installed;
    Exception: Pillow finds the file damaged.
    """
    bit_depth, color_type = data[24:26]  # IHDR is always first
    with PngImagePlugin.PngImageFile(BytesIO(data)) as image:  # not Image.open, whose size limit is process-wide
        if image.is_animated:
            if bit_depth == 16:
                raise NotCompared("animated images of 16 bits are not compared")
            return as_shown(image)
        is_palette, has_alpha = color_type == 3, "transparency" in image.info
        if bit_depth == 16 and color_type != 0 or has_alpha and not is_palette:
            # Pillow reduces 16-bit colours to 8 bits, and mistakes colour keys of grays below 8 bits
            return _decode_by_libpng(data)
        if is_palette:
            image = image.convert("RGBA" if has_alpha else "RGB")
        elif bit_depth == 1:
            image = image.convert("L")
        return np.atleast_3d(np.array(image))


def as_shown(image: PillowImage) -> np.ndarray:
    """The frames of an animation, one below the other, (frames H, W, 4) uint8. Transparent pixels are 0."""
    shown = []
    for frame in range(image.n_frames):
        image.seek(frame)
        shown.append(np.array(image.convert("RGBA")))
    pixels = np.concatenate(shown)
    pixels[pixels[..., 3] == 0] = 0
    return pixels


def same(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two images have the same colours. Gray may be RGB or (H, W), and 8 bits may be 16."""
    ours, theirs = np.atleast_3d(ours), np.atleast_3d(theirs)
    if ours.shape[:2] != theirs.shape[:2]:
        return False
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        ours, theirs = _widest(ours), _widest(theirs)
    return np.array_equal(ours, theirs)


def with_color(pixels: np.ndarray) -> np.ndarray:
    """Gray -> RGB with R = G = B; (H, W, 3 or 4), contiguous."""
    channels = {1: [0, 0, 0], 2: [0, 0, 0, 1], 3: [0, 1, 2], 4: [0, 1, 2, 3]}[pixels.shape[2]]
    return np.ascontiguousarray(pixels if len(channels) == pixels.shape[2] else pixels[..., channels])


def _widest(pixels: np.ndarray) -> np.ndarray:
    """The image as RGBA, (H, W, 4) uint16."""
    scale = 257 if pixels.dtype == np.uint8 else 1  # 255 -> 65535
    colors = with_color(pixels).astype(np.uint16) * np.uint16(scale)
    opaque = np.full((*colors.shape[:2], 4 - colors.shape[2]), 65535, np.uint16)
    return np.concatenate([colors, opaque], axis=2)


def _decode_by_libpng(data: bytes) -> np.ndarray:
    try:
        import imagecodecs
    except ImportError as error:
        raise NotCompared("16-bit colours and colour keys need: pip install 'dqcodec[bench]'") from error
    return np.atleast_3d(imagecodecs.png_decode(data))
