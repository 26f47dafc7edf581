"""Temporary files, each beside the target whose place it takes, and what killed processes left of them.

The name is `.NAME.PID-RANDOM.tmp`. A process holds a lock on its file. The next process that writes NAME in that folder
removes the files that a killed process left.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from dqcodec.base import ending

_NAME_BYTES = 200  # the target's part of a temporary name, which may have 255 bytes
_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)-[0-9a-f]{8}\.tmp", re.DOTALL)


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that a file has while it is written."""
    return _LEFT.fullmatch(name) is not None


@contextlib.contextmanager
def temporary_beside(target: Path, mode: int) -> Iterator[tuple[int, Path]]:
    """(descriptor, path) of a new file beside a target. At the end, even by a signal, this name is gone.

    Temporary files of this target that dead processes left are removed.
    """
    name = target.name
    while len(os.fsencode(name)) > _NAME_BYTES:
        name = name[:-1]
    for left in _leftovers(target.parent).pop(name, []):
        with contextlib.suppress(OSError):
            os.unlink(left)
    path = target.with_name(f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")

    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    with contextlib.ExitStack() as stack:
        with ending.not_ending():
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), mode)
            stack.enter_context(ending.at_end(remove))
            stack.callback(remove)
            _lock(descriptor)
        yield descriptor, path


@functools.lru_cache(1 << 10)  # a folder of many files is listed once, not for each file
def _leftovers(folder: Path) -> dict[str, list[Path]]:
    """The temporary files in a folder whose processes are dead, by the targets' names that they contain.

    Processes in another container may have the number of this process, or of none here: their files are locked.
    """
    found: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _LEFT.fullmatch(entry.name)
            if match and (int(match["process"]) == os.getpid() or not _is_alive(int(match["process"]))):
                path = folder / entry.name
                if not _is_locked(path):
                    found.setdefault(match["name"], []).append(path)
    return found


def _lock(descriptor: int) -> bool:
    """Lock an open file until all its descriptors are closed; False if another process holds the lock."""
    try:
        import fcntl
    except ImportError:  # Windows, where nobody removes what others left
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock of a file, or the file cannot be opened."""
    try:  # a lock of NFS needs a writable file
        descriptor = os.open(path, os.O_RDWR if os.access(path, os.W_OK) else os.O_RDONLY)
    except OSError:
        return True
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def _is_alive(process: int) -> bool:
    """Whether a process of this machine runs; True if this cannot be known."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
