"""The kinds of files that are taken as images."""

import re
from typing import NamedTuple

from dqcodec.png import SIGNATURE


class ImageKind(NamedTuple):
    """A kind of files. start: a regular expression of the first bytes. suffixes: of names, in lower case."""

    name: str
    start: bytes
    suffixes: tuple[str, ...]

    def has(self, start: bytes) -> bool:
        """Whether a file with this start may be of this kind."""
        return re.match(self.start, start, re.DOTALL) is not None


IMAGE_KINDS = (
    ImageKind("PNG", re.escape(SIGNATURE), (".png", ".apng")),
    ImageKind("BMP", rb"BM", (".bmp",)),
    ImageKind("PPM", rb"P[1-6]", (".pbm", ".pgm", ".ppm", ".pnm")),
    ImageKind("TIFF", rb"II[*+]|MM\0[*+]", (".tif", ".tiff")),
    ImageKind("WebP", rb"RIFF....WEBP", (".webp",)),
    ImageKind("JPEG", rb"\xff\xd8\xff", (".jpg", ".jpeg")),
    ImageKind("GIF", rb"GIF8[79]a", (".gif",)),
    ImageKind(".npy", rb"\x93NUMPY", (".npy",)),
)
_NAMES = [kind.name for kind in IMAGE_KINDS]
BY_PILLOW = tuple(name.upper() for name in _NAMES[1:-1])  # the kinds that Pillow reads, by its names
NOT_AN_IMAGE = f"not a {', '.join(_NAMES[:-1])} or {_NAMES[-1]} file"
