"""A chunk of an array <-> bytes: a .dqc file of one image, or an archive of several, which are coded together.

The last axes of a chunk are rows and columns, or rows, columns and channels (2 to 4 of them). All axes before count
images: (Z, Y, X) is Z images, (1, 1, Y, X) is one. The bytes are files that all of dqcodec reads; the images of an
archive are named by their numbers, 0 first.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np

from dqcodec.base.errors import CorruptError, UnsupportedImageError, VerifyError
from dqcodec.codec import library
from dqcodec.codec.archive import Archive
from dqcodec.format import archive

DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16))
MOST_CHANNELS = 4


def encode(chunk: np.ndarray, *, channels: bool | None = None, best: bool = False) -> bytes:
    """The bytes of a chunk, uint8 or uint16, at least two axes. They are decoded and compared.

    channels: whether the last axis holds channels; None: if it is of 2 to 4 samples and not one of the only two axes.
    best: see effort.Effort. Raises UnsupportedImageError (another type or shape, or too large), VerifyError.
    """
    if chunk.dtype.newbyteorder("=") not in DTYPES:
        raise UnsupportedImageError(f"chunks of type {chunk.dtype} are not supported: uint8 and uint16 are")
    if channels is None:
        channels = chunk.ndim > 2 and 2 <= chunk.shape[-1] <= MOST_CHANNELS
    axes = 3 if channels else 2
    if chunk.ndim < axes or 0 in chunk.shape:
        raise UnsupportedImageError(f"a chunk of shape {chunk.shape} holds no image")
    images = chunk.reshape(-1, *chunk.shape[-axes:])
    if len(images) == 1:
        return library.compress(images[0], best=best)
    named = ((str(number), image) for number, image in enumerate(images))
    data = library.compress_archive(named, best=best, verify=False)
    if not np.array_equal(decode(data, chunk.shape), chunk):
        raise VerifyError("the chunk decodes to another")
    return data


def decode(data: bytes, shape: Sequence[int] | None = None) -> np.ndarray:
    """The chunk of bytes, uint8 or uint16 in the machine's byte order.

    shape: of the chunk; without it the result is (H, W), (H, W, C), (N, H, W) or (N, H, W, C). Raises CorruptError
    (damaged, or of another shape), FormatError, UnknownModelError.
    """
    if archive.is_archive(data):
        with Archive(io.BytesIO(data)) as images:
            if images.damage:
                raise CorruptError(images.damage[0].what)
            names = list(map(str, range(len(images))))
            if set(names) != set(images):
                raise CorruptError("an archive that is no chunk: its images are not numbered")
            pixels = list(map(images.read, names))
        if len({(each.shape, each.dtype) for each in pixels}) != 1:
            raise CorruptError("the images of a chunk differ in shape or type")
        chunk = np.stack(pixels)
    else:
        chunk = library.decompress(data)
    if shape is None:
        return chunk
    if not _fits(chunk.shape, shape):
        raise CorruptError(f"a chunk of shape {chunk.shape}, not {tuple(shape)}")
    return chunk.reshape(shape)


def _fits(images: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether images of one shape make a chunk of another, which may count them by several
    axes. Axes of one element may be missing.
    """
    images, shape = ([size for size in each if size > 1] for each in (images, shape))
    within = images[1:]
    return math.prod(images) == math.prod(shape) and shape[len(shape) - len(within) :] == within
