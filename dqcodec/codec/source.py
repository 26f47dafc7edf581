"""The images to code, read from PNG files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dqcodec import png
from dqcodec.base.errors import CorruptError, UnsupportedImageError
from dqcodec.codec.splits import for_models, possible_splits
from dqcodec.codec.views import View, find_views
from dqcodec.exact.mixing.pixels import numbers
from dqcodec.format.canvas import Spot, spots
from dqcodec.format.colors import is_transparent
from dqcodec.format.split import Split
from dqcodec.format.values import Values
from dqcodec.png import MAX_PIXELS, Png, chunks


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
    def dims(self) -> int:
        """The number of samples of all rasters."""
        return self.image.header.samples * self.image.area

    def lost(self, *, is_stored: bool) -> tuple[str, ...]:
        """The types of chunks that the .dqc file lacks; is_stored: it stores the file."""
        return () if is_stored and not self.is_stripped else self.dropped

    @cached_property
    def samples_key(self) -> tuple:
        """The same for two images, which can be coded, only if they have the same samples, header and sizes of frames."""
        rasters = (hashlib.sha256(raster.tobytes()).digest() for raster in self.image.rasters)
        return self.image.header, self.image.skeleton.sizes, *rasters

    @cached_property
    def views(self) -> Mapping[Values, View]:
        """The views of the image that an encoder tries, the one that suits models best first."""
        return find_views(self.image)

    @cached_property
    def splits(self) -> list[Split]:
        """The splits that an encoder tries: those that may give the smallest file; none if the image cannot be coded."""
        return possible_splits(self.views) if self.is_expressible else []

    @cached_property
    def splits_for_models(self) -> list[Split]:
        """The splits with layers that a model may code, the likeliest first; none if the image cannot be coded."""
        return for_models(self.views) if self.is_expressible else []

    def layers(self, split: Split) -> list[np.ndarray]:
        """The layers of all rasters, (H, W, C) each: uint8, or uint16 if whole."""
        image = self.view(split)
        return [pixels for raster in image.rasters for pixels in split.apply(raster, image.skeleton)]

    def spots(self, split: Split, number: int) -> list[Spot]:
        """The spot of each layer, with the transparent pixel of its canvas; number: of the image in its group."""
        image = self.view(split)
        found = spots(image.skeleton, len(split.names(image.skeleton)), number)
        if len(image.rasters) == 1:
            return found
        layers = [split.apply(raster, image.skeleton) for raster in image.rasters]
        masks = [is_transparent(self.image, raster) for raster in range(len(self.image.rasters))]
        clears = [_clear([each[place] for each in layers], masks) for place in range(len(layers[0]))]
        return [spot._replace(clear=clears[spot.canvas[1]]) for spot in found]

    def view(self, split: Split) -> Png:
        """The view of the image that is split."""
        return self.views[split.values].image


def _clear(layers: Sequence[np.ndarray], masks: Sequence[np.ndarray]) -> int | None:
    """The pixel that is most frequent where masks (H, W) of transparent pixels are True, see exact/mixing/pixels.py; or
    None."""
    found = np.concatenate([numbers(layer)[mask] for layer, mask in zip(layers, masks)])
    if not len(found):
        return None
    values, counts = np.unique(found, return_counts=True)
    return int(values[counts.argmax()])


def read(
    data: bytes, *, strip: bool = False, exact: bool = False, keep_broken: bool = False, max_pixels: int = MAX_PIXELS
) -> Source:
    """Read the PNG file `data`.

    Chunks that describe the old packing are dropped, see Skeleton.repacked. strip: also drop chunks that change neither
    the samples nor their meaning. exact: keep everything, so that the same bytes come back. keep_broken: store a
    damaged PNG as it is if its header is valid.

    Raises UnsupportedImageError (not a PNG, more than `max_pixels`, or nothing can be stripped), CorruptError (a
    damaged PNG), ValueError (strip and exact).
    """
    if strip and exact:
        raise ValueError("strip drops chunks, exact keeps them")
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
        if strip:
            raise UnsupportedImageError(
                "nothing can be stripped: the PNG holds more than an image and chunks, so it is kept as it is"
            )
        return Source(image, data)
    kept = image.stripped() if strip else image.repacked()
    dropped = image.skeleton.lost(kept.skeleton)
    stored = chunks.without(data, image.skeleton.kinds - kept.skeleton.kinds) if strip else data
    return Source(kept, stored, dropped=dropped, is_stripped=strip)
