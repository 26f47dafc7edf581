"""Reads a file once, whole, within a limit. A file that changes meanwhile is an error."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from dqcodec.command.kinds import START_BYTES, Kind
from dqcodec.command.stamp import Stamp
from dqcodec.command.streams import is_stream
from dqcodec.png import MAX_PIXELS
from dqcodec.png.chunks import check_trailing

_PIXEL_BYTES, _MORE_BYTES = 8, 1 << 28
_BLOCK_BYTES = 1 << 20


def read(
    source: Path | None, max_pixels: int = MAX_PIXELS, check: Callable[[bytes], None] | None = None
) -> tuple[bytes, Stamp | None]:
    """All bytes of a file and its stamp; standard input (None) has no stamp.

    max_pixels: of an image. A file may have 8 bytes for each of them, as 16-bit RGBA has, and 256 MiB more. check: gets
    the first kilobytes and raises for a wrong kind of file.

    Raises OSError: the file is larger, changes meanwhile, or cannot be read; UnsupportedImageError: a PNG has more than
    chunks.MAX_TRAILING_BYTES after its end; they are not read; Exception: what `check` raises.
    """
    limit = _PIXEL_BYTES * max_pixels + _MORE_BYTES
    if source is None:
        if sys.stdin.isatty():
            raise OSError("standard input is a terminal")
        return _read_stream(sys.stdin.buffer, limit, check), None
    with open(source, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return _read_stream(file, limit, check), Stamp.of(status)
        if check:
            check(file.read(START_BYTES))
        if status.st_size > limit:
            raise OSError(f"it has {status.st_size} bytes, more than the limit of {limit} (see --max-pixels)")
        check_trailing(file, status.st_size)
        file.seek(0)
        data = file.read(status.st_size + 1)
        stamp = Stamp.of(status)
        if len(data) != status.st_size or Stamp.of(os.fstat(file.fileno())).identity != stamp.identity:
            raise OSError("it changed while it was read")
        return data, stamp


def _read_stream(file: BinaryIO, limit: int, check: Callable[[bytes], None] | None) -> bytes:
    data = bytearray(file.read(START_BYTES))
    if check:
        check(bytes(data))
    while block := file.read(_BLOCK_BYTES):
        data += block
        if len(data) > limit:
            raise OSError(f"it has more bytes than the limit of {limit} (see --max-pixels)")
    return bytes(data)


def start(source: Path) -> bytes:
    """The first bytes of a file, enough to know its kind; b"" for a stream. Raises OSError."""
    if is_stream(source):
        return b""
    with open(source, "rb") as file:
        return file.read(START_BYTES)


def starts_as(source: Path | None, kind: Kind) -> bool:
    """Whether a file can be read and is of a kind by its first bytes."""
    try:
        return source is not None and kind.has(start(source))
    except OSError:
        return False
