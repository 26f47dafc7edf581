"""A part of an image, and how it is cut out.

The methods autoregressive and classical decode only what a region needs. Other methods decode the whole image, and so
does every split whose samples depend on their neighbours or on all colours of the image.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from dqcodec.base.errors import RegionError

if TYPE_CHECKING:
    from dqcodec.exact.boxes import Window
    from dqcodec.png import Header, Png

_GEOMETRY = re.compile(r"(\d+)x(\d+)\+(\d+)\+(\d+)", re.ASCII)


class Region(NamedTuple):
    """Columns left to right - 1 and rows top to bottom - 1, as in Pillow's `crop`. Integers."""

    left: int
    top: int
    right: int
    bottom: int

    @classmethod
    def of(cls, region: tuple[int, int, int, int]) -> Region:
        """A region from four integers. Raises TypeError, and RegionError if it has no pixels."""
        left, top, right, bottom = map(operator.index, region)
        if not (0 <= left < right and 0 <= top < bottom):
            raise RegionError(f"the region {left}, {top}, {right}, {bottom} has no pixels, or begins outside the image")
        return cls(left, top, right, bottom)

    @classmethod
    def parse(cls, text: str) -> Region:
        """A region from WIDTHxHEIGHT+LEFT+TOP, as in X11 and ImageMagick. Raises RegionError."""
        match = _GEOMETRY.fullmatch(text)
        if match is None:
            raise RegionError(f"{text} is not WIDTHxHEIGHT+LEFT+TOP, such as 640x480+0+0")
        width, height, left, top = map(int, match.groups())
        if not (width and height):
            raise RegionError(f"the region {text} has no pixels")
        return cls.of((left, top, left + width, top + height))

    @property
    def window(self) -> Window:
        """Rows and columns."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def check(self, header: Header) -> None:
        """Raise RegionError if the region does not lie within an image."""
        if self.right > header.width or self.bottom > header.height:
            raise RegionError(
                f"the region {self} does not lie within the image, {header.width} x {header.height} pixels"
            )

    def cut(self, image: Png) -> Png:
        """This part of an image of one raster. Raises RegionError."""
        self.check(image.header)
        return image.cropped(*self.window)

    def __str__(self) -> str:
        """`640x480+0+0`"""
        return f"{self.right - self.left}x{self.bottom - self.top}+{self.left}+{self.top}"
