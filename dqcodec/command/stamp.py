"""Which file is at a path, and its properties that are kept: permissions, modification time and owner."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Stamp:
    """The properties of a file that are kept: its permissions, and its modification time, nanoseconds since 1970.

    owner: user and group, kept where the system allows it; None if they are not known. identity: device, inode, size
    and times. They differ for another file, and for this one after a change. Equality ignores owner and identity.
    """

    mode: int
    mtime_ns: int
    owner: tuple[int, int] | None = field(default=None, compare=False)
    identity: tuple[int, ...] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file with this status."""
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        return cls(status.st_mode & 0o777, status.st_mtime_ns, (status.st_uid, status.st_gid), identity)

    @classmethod
    def at(cls, path: Path) -> Stamp:
        """The stamp of the file at a path; raises OSError."""
        return cls.of(os.stat(path))


def inode(path: Path) -> tuple[int, ...]:
    """Device and inode of the file at a path; () if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino


def is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to the same existing file."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
