"""PNG files, of every kind: samples exactly as stored, and all that is around them.

    read(data) -> Png        write(Png) -> data, packed anew        read_header(data) -> Header

Nothing here trusts a decoder that converts: a PNG's bytes are taken apart by `chunks.py` and `samples.py`. Filters,
compression, the cutting of streams into chunks and interlacing are a file's packing, not its image: they are not kept,
except by `exact.py`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dqcodec.png import chunks
from dqcodec.png.chunks import SIGNATURE, Chunk, Header, Skeleton

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MAX_PIXELS", "SIGNATURE", "Chunk", "Header", "Png", "Skeleton", "plain", "read", "read_header", "write"]

MAX_PIXELS = 1 << 27  # default limit on width * height, summed over frames


@dataclass(frozen=True, eq=False)
class Png:
    """One PNG. rasters: (H, W, C) each, uint8, or uint16 for 16 bits, as stored: palette indices stay indices, and samples of
    1, 2 and 4 bits stay below 2, 4 and 16.

    `skeleton` is None where the file is valid, but holds what a skeleton and rasters cannot express; it then has only the
    default image. Without decoding there are no rasters.
    """

    header: Header
    skeleton: Skeleton | None
    rasters: tuple[np.ndarray, ...]

    @property
    def pixels(self) -> np.ndarray:
        """The samples of the default image."""
        return self.rasters[0]

    def stripped(self) -> Png:
        """Without what a skeleton can do without."""
        return dataclasses.replace(self, skeleton=self.skeleton.stripped())

    def repacked(self) -> Png:
        """Without what tells of a file's packing: see Skeleton.repacked."""
        return dataclasses.replace(self, skeleton=self.skeleton and self.skeleton.repacked())

    def same(self, other: Png) -> bool:
        """Whether both hold the same samples, of the same type, and the same chunks."""
        return (
            (self.header, self.skeleton, len(self.rasters)) == (other.header, other.skeleton, len(other.rasters))
            and all(map(_equal, self.rasters, other.rasters))
        )


def read(data: bytes, max_pixels: int = MAX_PIXELS, *, decode: bool = True) -> Png:
    """Parse a PNG file and decode its rasters; without `decode` only check its structure.

    Raises UnsupportedImageError (no PNG, or more than `max_pixels`, before any allocation) and CorruptError: what libpng
    would refuse is refused.
    """
    structure = chunks.parse(data, max_pixels)
    header, skeleton, streams = structure.header, structure.skeleton, structure.streams
    if not decode:
        return Png(header, skeleton, ())
    from dqcodec.base.errors import CorruptError
    from dqcodec.png import samples

    raster, is_tidy = samples.decode(streams[0], (header.height, header.width), header, structure.interlace)
    if not (skeleton and is_tidy):
        return Png(header, None, (raster,))
    rasters = [raster]
    for stream, size in zip(streams[1:], skeleton.sizes[1:]):
        try:
            raster, is_tidy = samples.decode(stream, size, header, structure.interlace)
        except CorruptError:  # to a reader that knows no animations, the file is valid
            is_tidy = False
        if not is_tidy:
            return Png(header, None, (rasters[0],))
        rasters.append(raster)
    return Png(header, skeleton, tuple(rasters))


def read_header(data: bytes, max_pixels: int = MAX_PIXELS) -> Header:
    """The header of a PNG file, whatever comes after it.

    Raises UnsupportedImageError (no PNG, or a canvas of more than `max_pixels`) and CorruptError (no valid header).
    """
    return chunks.parse_header(data, max_pixels)


def write(image: Png) -> bytes:
    """The PNG file of an image that has a skeleton, packed anew and not interlaced, without what tells of the old packing:
    see Skeleton.repacked."""
    from dqcodec.png import samples

    streams = [chunks.cut(samples.encode(raster, image.header)) for raster in image.rasters]
    return chunks.assemble(image.skeleton.repacked(), streams)


def plain(pixels: np.ndarray, before: tuple[Chunk, ...] = (), after: tuple[Chunk, ...] = ()) -> Png:
    """The PNG of (H, W, 1 to 4) uint8 samples and the chunks around them."""
    height, width, channels = pixels.shape
    header = Header(width, height, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 8)
    return Png(header, Skeleton(header, (before, after)), (pixels,))


def _equal(samples: np.ndarray, others: np.ndarray) -> bool:
    import numpy as np

    from dqcodec.png.samples import bands

    is_alike = (samples.shape, samples.dtype) == (others.shape, others.dtype)
    return is_alike and all(map(np.array_equal, bands(samples), bands(others)))
