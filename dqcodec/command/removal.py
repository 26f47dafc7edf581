"""Removes a source file, but only the file that was read, unchanged."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dqcodec.command.stamp import Stamp

_renewed: dict[tuple[int, ...], tuple[int, ...]] = {}  # of files with several names: removing one changes the ctime


def remove(source: Path, stamp: Stamp) -> None:
    """Remove a file that was read; raises OSError if it has changed since, or another file has its place."""
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        raise OSError("it is a symbolic link and is not removed")
    expected = stamp.identity
    while expected in _renewed:
        expected = _renewed[expected]
    if Stamp.of(status).identity != expected:
        raise OSError("it has changed meanwhile and is not removed")
    try:
        if status.st_nlink == 1:
            os.unlink(source)
        else:
            _remove_name(source, expected)
    except OSError as error:
        raise OSError(f"it cannot be removed: {error.strerror or error}") from error


def _remove_name(source: Path, identity: tuple[int, ...]) -> None:
    """Remove one of a file's names, and keep the identity that this gives the other names."""
    with open(source, "rb") as file:
        os.unlink(source)
        renewed = Stamp.of(os.fstat(file.fileno())).identity
    if renewed[:-1] == identity[:-1] and renewed != identity:  # another change is none of ours
        _renewed[identity] = renewed
