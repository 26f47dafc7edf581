"""Images to be coded, and the PNG files they come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dqcodec import png
from dqcodec.base.errors import CorruptError
from dqcodec.png import MAX_PIXELS, Png

if TYPE_CHECKING:
    import numpy as np

    from dqcodec.format.split import Split


@dataclass(frozen=True)
class Source:
    """An image to be coded. stored: the PNG file to keep where nothing is smaller. recipe: by which it is packed, if its bytes
    are kept too; None where they are, but there is no recipe. dropped: the types of chunks that are in the file, but not in
    `image`; is_stripped: nor in `stored`. damage: of a broken PNG, what is wrong; it has no rasters."""

    image: Png
    stored: bytes
    recipe: bytes | None = b""
    dropped: tuple[str, ...] = ()
    is_stripped: bool = False
    damage: str | None = None

    @property
    def is_expressible(self) -> bool:
        """Whether the image can be coded as anything but its file."""
        return self.image.skeleton is not None and self.recipe is not None

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """(height, width) of each raster."""
        image = self.image
        return image.skeleton.sizes if image.skeleton else [(image.header.height, image.header.width)]

    def lost(self, *, is_stored: bool) -> tuple[str, ...]:
        """The types of chunks that a .dqc file does not keep."""
        return () if is_stored and not self.is_stripped else self.dropped

    def layers(self, split: Split) -> list[np.ndarray]:
        """Those of all rasters, (H, W, C) each."""
        return [pixels for raster in self.image.rasters for pixels in split.apply(raster, self.image.skeleton)]


def read(
    data: bytes, *, strip: bool = False, exact: bool = False, keep_broken: bool = False, max_pixels: int = MAX_PIXELS
) -> Source:
    """The image in the PNG file `data`.

    Chunks that tell of the file's bytes are left out, see Skeleton.repacked; with `strip`, all chunks that do not change the
    samples or what they mean. With `exact`, such that it gives back `data` byte for byte. With `keep_broken`, a damaged PNG is
    kept as it is if its header is whole. Raises UnsupportedImageError, CorruptError (a damaged PNG).
    """
    try:
        image = png.read(data, max_pixels)
    except CorruptError as error:
        if not keep_broken:
            raise
        return Source(Png(png.read_header(data, max_pixels), None, ()), data, damage=str(error))
    if exact:
        from dqcodec.png import exact as packing

        return Source(image, data, packing.find(data, image))
    if image.skeleton is None:
        return Source(image, data)
    kept = image.stripped() if strip else image.repacked()
    dropped = image.skeleton.lost(kept.skeleton)
    return Source(kept, png.write(kept) if strip else data, dropped=dropped, is_stripped=strip)
