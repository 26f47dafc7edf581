"""The images to code, read from PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dqcodec import png
from dqcodec.base.errors import CorruptError
from dqcodec.format.split import Split
from dqcodec.format.values import views
from dqcodec.png import MAX_PIXELS, Png


@dataclass(frozen=True)
class Source:
    """An image to code.

    stored: the PNG file to keep if no method makes it smaller. recipe: how to pack the samples to get the original
    file; b"" if its bytes need not be kept; None if they must be kept but no recipe gives them. dropped: the types of
    the file's chunks that `image` lacks. is_stripped: `stored` lacks them too. damage: what is wrong with a damaged
    PNG, which has no rasters.
    """

    image: Png
    stored: bytes
    recipe: bytes | None = b""
    dropped: tuple[str, ...] = ()
    is_stripped: bool = False
    damage: str | None = None

    @property
    def is_expressible(self) -> bool:
        """Whether the image can be coded; otherwise its file is stored."""
        return self.image.skeleton is not None and self.recipe is not None

    @property
    def sizes(self) -> Sequence[tuple[int, int]]:
        """(height, width) of each raster."""
        image = self.image
        return image.skeleton.sizes if image.skeleton else [(image.header.height, image.header.width)]

    @property
    def dims(self) -> int:
        """The number of samples of all rasters."""
        return self.image.header.samples * sum(height * width for height, width in self.sizes)

    def lost(self, *, is_stored: bool) -> tuple[str, ...]:
        """The types of chunks that the .dqc file lacks; is_stored: it stores the file."""
        return () if is_stored and not self.is_stripped else self.dropped

    def layers(self, split: Split) -> list[np.ndarray]:
        """The layers of all rasters, uint8 (H, W, C) each."""
        image = self.view(split)
        return [pixels for raster in image.rasters for pixels in split.apply(raster, image.skeleton)]

    def view(self, split: Split) -> Png:
        """The view of the image that is split."""
        return views(self.image)[split.values].image


def read(
    data: bytes, *, strip: bool = False, exact: bool = False, keep_broken: bool = False, max_pixels: int = MAX_PIXELS
) -> Source:
    """Read the PNG file `data`.

    Chunks that describe the old packing are dropped, see Skeleton.repacked. strip: also drop chunks that change neither
    the samples nor their meaning. exact: keep everything, so that the same bytes come back. keep_broken: store a
    damaged PNG as it is if its header is valid.

    Raises UnsupportedImageError (not a PNG, or more than `max_pixels`), CorruptError (a damaged PNG).
    """
    try:
        image = png.read(data, max_pixels)
    except CorruptError as error:
        if not keep_broken:
            raise
        return Source(Png(png.read_header(data, max_pixels), None, ()), data, damage=str(error))
    if exact:
        from dqcodec.png import exact as recipes

        return Source(image, data, recipes.find(data, image))
    if image.skeleton is None:
        return Source(image, data)
    kept = image.stripped() if strip else image.repacked()
    dropped = image.skeleton.lost(kept.skeleton)
    return Source(kept, png.write(kept) if strip else data, dropped=dropped, is_stripped=strip)
