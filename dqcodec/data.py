"""Training images: a folder of images, or a prepared array, as batches of random crops."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from dqcodec.errors import DqcodecError

VALIDATION_CROPS = 256


class DataError(DqcodecError):
    """Training data that cannot be used."""


@dataclass
class Images:
    """uint8 images (H, W, C), each at least one crop large, split for training and validation."""

    train: list[np.ndarray]
    valid: list[np.ndarray]


def load(path: Path, channels: int, crop: int) -> Images:
    """Images of a folder (recursively), or of a .npy (N, H, W, C) or .npz (the same, or train and valid) file.

    Images smaller than a crop are left out. Without a split of its own, every 40th image is for validation.

    Raises:
        DataError: nothing usable at path.
    """
    if path.is_dir():
        images = [image for file in sorted(path.rglob("*")) if (image := _read(file, channels)) is not None]
    elif path.suffix == ".npy":
        images = list(np.load(path))
    elif path.suffix == ".npz":
        with np.load(path) as arrays:
            if {"train", "valid"} <= set(arrays.files):
                return Images(list(arrays["train"]), list(arrays["valid"]))
            images = list(arrays[arrays.files[0]])
    else:
        raise DataError(f"{path}: neither a folder nor a .npy or .npz file")
    images = [image for image in images if min(image.shape[:2]) >= crop]
    if len(images) < 2:
        raise DataError(f"{path}: fewer than two images of at least {crop} x {crop} pixels")
    if images[0].dtype != np.uint8 or images[0].ndim != 3 or images[0].shape[2] != channels:
        raise DataError(f"{path}: expected uint8 images with {channels} channels, got {images[0].dtype} {images[0].shape}")
    valid = images[::40]
    train = [image for index, image in enumerate(images) if index % 40]
    return Images(train, valid)


def _read(file: Path, channels: int) -> np.ndarray | None:
    try:
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("RGB" if channels == 3 else "L"))
    except (UnidentifiedImageError, OSError):
        return None
    return pixels.reshape(*pixels.shape[:2], channels)


def batch(images: list[np.ndarray], size: int, crop: int, flips: bool, rng: np.random.Generator) -> np.ndarray:
    """(B, C, H, W) uint8 random crops; an image is drawn with a chance in proportion to its pixels."""
    areas = np.array([image.shape[0] * image.shape[1] for image in images], float)
    crops = []
    for index in rng.choice(len(images), size, p=areas / areas.sum()):
        image = images[index]
        top = rng.integers(image.shape[0] - crop + 1)
        left = rng.integers(image.shape[1] - crop + 1)
        patch = image[top : top + crop, left : left + crop]
        crops.append(patch[:, ::-1] if flips and rng.integers(2) else patch)
    return np.ascontiguousarray(np.stack(crops).transpose(0, 3, 1, 2))
