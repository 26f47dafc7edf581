"""The kind of a file, by its first kilobytes. Files of other kinds are not read further."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dqcodec.base.errors import FormatError, UnsupportedImageError
from dqcodec.codec.image_kinds import IMAGE_KINDS, NOT_AN_IMAGE
from dqcodec.png import SIGNATURE

START_BYTES = 1 << 12  # enough for all kinds
_ARCHIVE_START_BYTES = 5  # magic and version; the first group follows

_IMAGES = re.compile(b"|".join(kind.start for kind in IMAGE_KINDS), re.DOTALL)


@dataclass(frozen=True)
class Kind:
    """Files that a command takes from a folder: those that start right, and those with a right suffix.

    A damaged file with a right suffix is then an error, and not left out.
    """

    name: str
    starts: tuple[bytes, ...]
    suffixes: tuple[str, ...]

    def has(self, start: bytes) -> bool:
        """Whether a file with this start is of this kind."""
        return start.startswith(self.starts)


PNG = Kind("PNG", (SIGNATURE,), IMAGE_KINDS[0].suffixes)
ARCHIVE = Kind("archive", (b"\x89DQA",), ())
DQC = Kind(".dqc", (b"\x89DQ",), (".dqc",))  # files, short files and archives


def check_image(start: bytes) -> None:
    """Raise UnsupportedImageError unless a file with this start may be an image of a known format."""
    if not _IMAGES.match(start):
        raise UnsupportedImageError(NOT_AN_IMAGE)


def check_dqc(start: bytes) -> None:
    """Raise FormatError unless a file with this start may be a .dqc file or an archive."""
    if not DQC.has(start):
        is_archive = DQC.has(start[_ARCHIVE_START_BYTES:])  # its first group is in its place
        hint = ", but perhaps an archive whose start is damaged; see decompress --salvage" if is_archive else ""
        raise FormatError(f"not a .dqc file{hint}")
