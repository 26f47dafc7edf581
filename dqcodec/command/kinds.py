"""The kind of a file, by its first kilobytes. Files of other kinds are not read further."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from dqcodec.base.errors import CorruptError, FormatError, UnsupportedImageError
from dqcodec.codec.image_kinds import IMAGE_KINDS, NOT_AN_IMAGE
from dqcodec.png import SIGNATURE

START_BYTES = 1 << 12  # enough for all kinds


@dataclass(frozen=True)
class Kind:
    """A kind of files that a command takes from a folder."""

    name: str
    starts: tuple[bytes, ...]
    suffixes: tuple[str, ...]

    def has(self, start: bytes) -> bool:
        """Whether a file with this start is of this kind."""
        return start.startswith(self.starts)

    def takes(self, name: str, start: bytes) -> bool:
        """Whether a folder's file is taken: it starts right, or its suffix is right and it starts as no other image does.

        So a damaged file is an error, and not left out.
        """
        named = name.lower().endswith(self.suffixes) and not any(kind.has(start) for kind in IMAGE_KINDS)
        return named or self.has(start)


PNG = Kind("PNG", (SIGNATURE,), IMAGE_KINDS[0].suffixes)
ARCHIVE = Kind("archive", (b"\x89DQA",), ())
DQC = Kind(".dqc", (b"\x89DQ",), (".dqc",))  # files, short files and archives


def check_image(start: bytes) -> None:
    """Raise UnsupportedImageError unless a file with this start may be an image of a known format."""
    if not start:
        raise UnsupportedImageError("the file is empty")
    if DQC.has(start):
        raise UnsupportedImageError("it is a .dqc file already; `decompress` reads it")
    if not any(kind.has(start) for kind in IMAGE_KINDS):
        raise UnsupportedImageError(NOT_AN_IMAGE)


def check_dqc(start: bytes) -> None:
    """Raise FormatError unless a file with this start may be a .dqc file or an archive."""
    with hinting_at_salvage(start):
        if not DQC.has(start):
            if not start:
                raise FormatError("the file is empty")
            if kind := next((kind for kind in IMAGE_KINDS if kind.has(start)), None):
                raise FormatError(f"it is a {kind.name} file, not a .dqc file; `compress` makes one")
            raise FormatError("not a .dqc file")


@contextlib.contextmanager
def hinting_at_salvage(data: bytes) -> Iterator[None]:
    """A context for reading a file. If it may be an archive whose start is damaged, an error names --salvage."""
    try:
        yield
    except (FormatError, CorruptError) as error:
        from dqcodec.format.frame import GROUP_MARK

        if GROUP_MARK not in data[:START_BYTES]:
            raise
        hint = "perhaps an archive whose start is damaged: see decompress --salvage"
        raise type(error)(f"{error} ({hint})") from error
