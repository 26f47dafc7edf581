"""PNG files of every kind <-> their samples, exactly as stored, and all other chunks.

    read(data) -> Png        write(Png) -> data, with a new packing        read_header(data) -> Header

Pillow converts samples, so `chunks.py` and `samples.py` parse a PNG's bytes themselves. Row filters, compression, the
division of streams into chunks and interlacing are the packing of a file. They do not change the image; only `exact.py`
keeps them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dqcodec.base.errors import CorruptError
from dqcodec.png import chunks, color_types
from dqcodec.png.chunks import MAX_PIXELS, SIGNATURE, read_header
from dqcodec.png.skeleton import Chunk, Header, Skeleton

if TYPE_CHECKING:
    import numpy as np

__all__ = ["MAX_PIXELS", "SIGNATURE", "Chunk", "Header", "Png", "Skeleton", "plain", "read", "read_header", "write"]


@dataclass(frozen=True, eq=False)
class Png:
    """One PNG.

    rasters: the image, and the other frames of an animation; (H, W, C) uint8, or uint16 for 16 bits, as stored. Palette
    indices stay indices. Samples of 1, 2 and 4 bits stay below 2, 4 and 16. Empty if the image is not decoded.
    skeleton: everything else. None if the file is valid but a skeleton cannot express it; rasters then has only the
    default image.
    """

    header: Header
    skeleton: Skeleton | None
    rasters: tuple[np.ndarray, ...]

    @property
    def pixels(self) -> np.ndarray:
        """The samples of the default image, (H, W, C)."""
        return self.rasters[0]

    @property
    def area(self) -> int:
        """The pixels of all rasters."""
        return self.skeleton.area if self.skeleton else self.header.width * self.header.height

    def stripped(self) -> Png:
        """The image without the chunks that Skeleton.stripped removes."""
        return dataclasses.replace(self, skeleton=self.skeleton.stripped())

    def repacked(self) -> Png:
        """The image without the chunks that Skeleton.repacked removes."""
        return dataclasses.replace(self, skeleton=self.skeleton and self.skeleton.repacked())

    def cropped(self, rows: slice, columns: slice) -> Png:
        """A part of an image of one raster, with all chunks but those of an animation of one frame."""
        header = self.header._replace(width=columns.stop - columns.start, height=rows.stop - rows.start)
        return Png(header, dataclasses.replace(self.skeleton.still(), header=header), (self.pixels[rows, columns],))

    def same(self, other: Png) -> bool:
        """Whether both hold the same samples, with the same type, and the same chunks."""
        return (self.header, self.skeleton, len(self.rasters)) == (
            other.header,
            other.skeleton,
            len(other.rasters),
        ) and all(map(_equal, self.rasters, other.rasters))


def read(data: bytes, max_pixels: int = MAX_PIXELS, *, decode: bool = True) -> Png:
    """Parse a PNG file and decode its rasters. Without `decode`, only parse it.

    Files that libpng rejects are rejected here too.

    Raises UnsupportedImageError: not a PNG, or more than `max_pixels`, or than chunks.MAX_CHUNKS, or than
    chunks.MAX_TRAILING_BYTES after its end; checked before much memory is taken; CorruptError: the file is damaged.
    """
    structure = chunks.parse(data, max_pixels)
    header, skeleton, streams = structure.header, structure.skeleton, structure.streams
    if not decode:
        return Png(header, skeleton, ())
    from dqcodec.png import samples

    raster, is_tidy = samples.decode(streams[0], (header.height, header.width), header, structure.interlace)
    if not (skeleton and is_tidy):
        return Png(header, None, (raster,))
    rasters = [raster]
    for stream, size in zip(streams[1:], skeleton.sizes[1:]):
        try:
            raster, is_tidy = samples.decode(stream, size, header, structure.interlace)
        except CorruptError:  # the file is still valid: its default image is whole
            is_tidy = False
        if not is_tidy:
            return Png(header, None, (rasters[0],))
        rasters.append(raster)
    return Png(header, skeleton, tuple(rasters))


def write(image: Png) -> bytes:
    """The PNG file of an image that has a skeleton, with a new packing and not interlaced.

    Chunks that describe the old packing are left out, see Skeleton.repacked.
    """
    from dqcodec.png import samples

    streams = [chunks.cut(samples.encode(raster, image.header)) for raster in image.rasters]
    return chunks.assemble(image.skeleton.repacked(), streams)


def plain(pixels: np.ndarray) -> Png:
    """The PNG of samples (H, W, 1 to 4), uint8 or uint16, without other chunks."""
    height, width, channels = pixels.shape
    header = Header(width, height, color_types.OF_SAMPLES[channels], 8 * pixels.dtype.itemsize)
    return Png(header, Skeleton(header, ((), ())), (pixels,))


def _equal(samples: np.ndarray, others: np.ndarray) -> bool:
    import numpy as np

    from dqcodec.png.samples import bands

    is_alike = (samples.shape, samples.dtype) == (others.shape, others.dtype)
    return is_alike and all(map(np.array_equal, bands(samples), bands(others)))
