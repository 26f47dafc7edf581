"""Training images, from a folder of images or from arrays, as random crops or as tiles."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from dqcodec.base.errors import DqcodecError

_VALIDATION_STRIDE = 40
_ARRAYS = {".npy", ".npz"}
_TEST = "test"  # the array of a .npz file that nothing is trained on


class DataError(DqcodecError):
    """Training data are not usable."""


class Crops:
    """Square crops of uint8 images (H, W, C). Samples keep their `bits` high bits.

    Raises DataError: there are no images, or one is smaller than a crop, or of another type or shape.
    """

    def __init__(self, images: Iterable[np.ndarray], crop: int, bits: int):
        self.images, self.crop, self.bits = list(images), crop, bits
        if not self.images:
            raise DataError("there are no images")
        for image in self.images:
            if image.dtype != np.uint8 or image.ndim != 3 or min(image.shape[:2]) < crop:
                expected = f"uint8 images (H, W, C) of at least {crop} x {crop} pixels"
                raise DataError(f"expected {expected}, got {image.dtype} {image.shape}")
        areas = np.cumsum([image.shape[0] * image.shape[1] for image in self.images], dtype=float)
        self._cumulated = areas / areas[-1]

    def draw(self, size: int, flips: bool, rng: np.random.Generator) -> np.ndarray:
        """Random crops, (size, C, crop, crop) uint8. The chance of an image is proportional to its pixels."""
        crops = []
        for index in self._cumulated.searchsorted(rng.random(size), side="right"):
            image = self.images[index]
            top = rng.integers(image.shape[0] - self.crop + 1)
            left = rng.integers(image.shape[1] - self.crop + 1)
            crop = self._cut(image, top, left)
            crops.append(crop[:, ::-1] if flips and rng.integers(2) else crop)
        return self._batch(crops)

    def tiles(self, size: int, limit: int | None = None) -> Iterator[np.ndarray]:
        """All tiles that fit, without overlap, or `limit` of them spread evenly.

        They come in batches of at most `size`, (<= size, C, crop, crop) uint8.
        """
        places = [
            (index, top, left)
            for index, image in enumerate(self.images)
            for top in range(0, image.shape[0] - self.crop + 1, self.crop)
            for left in range(0, image.shape[1] - self.crop + 1, self.crop)
        ]
        count = len(places) if limit is None else min(limit, len(places))
        chosen = [places[i * len(places) // count] for i in range(count)]
        for start in range(0, count, size):
            yield self._batch([self._cut(self.images[i], top, left) for i, top, left in chosen[start : start + size]])

    def _cut(self, image: np.ndarray, top: int, left: int) -> np.ndarray:
        return image[top : top + self.crop, left : left + self.crop]

    def _batch(self, crops: list[np.ndarray]) -> np.ndarray:
        return np.ascontiguousarray(np.stack(crops).transpose(0, 3, 1, 2) >> (8 - self.bits))


@dataclass(frozen=True)
class Dataset:
    """A data set: crops for training, and crops for validation."""

    train: Crops
    valid: Crops


def load(path: Path | str, channels: int, crop: int, bits: int = 8) -> Dataset:
    """The data set of a folder (recursively: image files, .npy, .npz), or of one .npy or .npz file.

    Arrays are uint8 (N, H, W, C), or (N, H, W) for one channel. Images smaller than a crop are left out. The arrays
    `train` and `valid` of a .npz file are the two parts; otherwise every 40th image is for validation. Arrays named
    `test` are left out.

    Raises DataError: the path has too few usable images, or an array of another type or shape.
    """
    path = Path(path)
    if path.suffix == ".npz" and path.is_file():
        arrays = _arrays(path, channels)
        if {"train", "valid"} <= set(arrays):
            return Dataset(*(_crops(f"{path}: {part}", arrays[part], crop, bits, 1) for part in ("train", "valid")))
    everything = _crops(str(path), _images(path, channels), crop, bits, 2).images
    train = [image for index, image in enumerate(everything) if index % _VALIDATION_STRIDE]
    return Dataset(Crops(train, crop, bits), Crops(everything[::_VALIDATION_STRIDE], crop, bits))


def part(path: Path | str, name: str, channels: int, crop: int, bits: int = 8) -> Crops:
    """A part of the data set at a path, see load: "train", "valid", "all" for both, or
    "test", an array of that name in a .npz file.

    All of one image is that image.

    Raises DataError: the path has too few usable images, or an array of another type or shape, or no test images.
    """
    path = Path(path)
    if name == "test":
        arrays = _arrays(path, channels) if path.suffix == ".npz" and path.is_file() else {}
        if _TEST not in arrays:
            raise DataError(f"{path}: there is no array {_TEST!r} of a .npz file")
        return _crops(f"{path}: {_TEST}", arrays[_TEST], crop, bits, 1)
    if name == "all":
        return _crops(str(path), _images(path, channels), crop, bits, 1)
    images = load(path, channels, crop, bits)
    return images.train if name == "train" else images.valid


def _crops(source: str, images: list[np.ndarray], crop: int, bits: int, least: int) -> Crops:
    usable = [image for image in images if min(image.shape[:2]) >= crop]
    if len(usable) < least:
        raise DataError(f"{source}: {len(usable)} images of at least {crop} x {crop} pixels; {least} are needed")
    return Crops(usable, crop, bits)


def _images(path: Path, channels: int) -> list[np.ndarray]:
    """All images (H, W, C) of a folder or a file."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [image for file in files if file.is_file() for image in _read(file, channels)]


def _read(file: Path, channels: int) -> list[np.ndarray]:
    """The images (H, W, C) of a file, or none if it holds no image of 8 bits."""
    if file.suffix in _ARRAYS:
        return [image for name, array in _arrays(file, channels).items() if name != _TEST for image in array]
    try:
        with Image.open(file) as image:
            if image.mode.startswith(("I", "F")):
                return []  # more than 8 bits
            pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return []
    return [pixels.reshape(*pixels.shape[:2], channels)]


def _arrays(file: Path, channels: int) -> dict[str, list[np.ndarray]]:
    try:
        loaded = np.load(file)
        arrays = {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file}: {error}") from None
    for name, array in arrays.items():
        if array.ndim == 3 and channels == 1:
            arrays[name] = array = array[..., None]
        if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] != channels:
            raise DataError(f"{file}: expected uint8 images (N, H, W, {channels}), got {array.dtype} {array.shape}")
    return {name: list(array) for name, array in arrays.items()}
