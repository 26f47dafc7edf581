"""Temporary files, each beside the target whose place it takes, and what killed processes left of them.

The name is `.NAME.PID-RANDOM.tmp`. The next process that writes NAME in that folder removes the files that a killed
process left.
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
        yield descriptor, path


@functools.lru_cache(1 << 10)  # a folder of many files is listed once, not for each file
def _leftovers(folder: Path) -> dict[str, list[Path]]:
    """The temporary files in a folder whose processes are dead, by the targets' names that they contain.

    A file with the number of this process is of a dead one, too: in a container every process has the same number.
    """
    found: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _LEFT.fullmatch(entry.name)
            if match and (int(match["process"]) == os.getpid() or not _is_alive(int(match["process"]))):
                found.setdefault(match["name"], []).append(folder / entry.name)
    return found


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
