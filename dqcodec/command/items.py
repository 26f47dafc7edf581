"""The sources of an archive: each is read as an item."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from dqcodec import png
from dqcodec.base.errors import FAILURES, UnsupportedImageError, one_line
from dqcodec.codec import foreign
from dqcodec.codec.archive_group import BYTE_SECONDS, decoding_seconds
from dqcodec.command import reading
from dqcodec.command.kinds import check_image
from dqcodec.command.options import Compressing
from dqcodec.command.stamp import Stamp
from dqcodec.format.archive_group import Member

_SECOND = 10**9
_TIMES = (-(1 << 32) * _SECOND, (1 << 33) * _SECOND)  # 1833 to 2242: an archive can hold these times side by side


@dataclass(frozen=True)
class Item:
    """A source that was read, or the error that reading it gave.

    name: its name in the archive. data: its PNG file; with `is_verbatim` the file itself, of any kind. damage: what is
    wrong with a broken PNG that is kept verbatim. is_png: whether the source is a PNG file. pixels: of all frames.
    parts: its rasters and chunks. seconds: about the time to decode it.
    """

    path: Path
    name: str
    data: bytes = b""
    source_bytes: int = 0
    stamp: Stamp | None = None
    error: str | None = None
    is_verbatim: bool = False
    damage: str | None = None
    is_png: bool = True
    pixels: int = 0
    parts: int = 0
    seconds: float = 0.0

    @property
    def member(self) -> Member:
        """Name, time and permissions as the archive stores them."""
        low, high = _TIMES
        return Member(self.name, max(low, min(self.stamp.mtime_ns, high)), self.stamp.mode)


def equal_together(inputs: Sequence[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """The inputs (path, name), with each repeated file right behind the first equal one.

    Only files of the same size are read.
    """
    sizes: dict[int, list[int]] = {}
    for number, (path, _) in enumerate(inputs):
        with contextlib.suppress(OSError):
            sizes.setdefault(path.stat().st_size, []).append(number)
    first = [*range(len(inputs))]
    for numbers in sizes.values():
        digests: dict[bytes, int] = {}
        for number in numbers if len(numbers) > 1 else ():
            with contextlib.suppress(OSError), open(inputs[number][0], "rb") as file:
                first[number] = digests.setdefault(hashlib.file_digest(file, "sha256").digest(), number)
    return [inputs[number] for number in sorted(range(len(inputs)), key=lambda number: (first[number], number))]


def read_item(path: Path, name: str, options: Compressing) -> Item:
    """Read a source; an error becomes the item's."""
    try:
        data, stamp = reading.read(path, options.max_pixels, None if options.keep_others else check_image)
    except FAILURES as error:
        return Item(path, name, error=one_line(error))
    is_png = data.startswith(png.SIGNATURE)
    # an image's name in an archive ends in .png
    is_image = is_png or path.suffix.lower() != PurePath(name).suffix.lower()
    verbatim = Item(
        path, name, data, len(data), stamp, is_verbatim=True, is_png=is_png, seconds=BYTE_SECONDS * len(data)
    )
    if options.keep_others and not is_image:
        return verbatim
    try:
        png_data = foreign.to_png(data, options.max_pixels, is_whole=options.is_whole)
        image = png.read(png_data, options.max_pixels, decode=False)
    except FAILURES as error:
        is_kept = options.keep_broken if is_png else options.keep_others
        if isinstance(error, UnsupportedImageError) or not is_kept:  # unsupported: too large, for example
            return Item(path, name, error=one_line(error))
        return replace(verbatim, damage=one_line(error) if is_png else None)
    return Item(
        path,
        name,
        png_data,
        len(data),
        stamp,
        is_png=is_png,
        pixels=image.area,
        parts=image.skeleton.count if image.skeleton else 0,
        seconds=decoding_seconds(image),
    )
