"""Folders -> the files that a command takes, the other files, and the entries that are left out, with reasons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dqcodec.command import reading
from dqcodec.command.kinds import PNG, Kind
from dqcodec.command.names import STDIO
from dqcodec.command.temporary import is_temporary

_STDIN = {STDIO, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
LINK, SPECIAL, EMPTY, TEMPORARY = "symbolic link", "special file", "empty folder", "temporary file"
DONE = "done before"


class LeftOut(NamedTuple):
    """A file, or another entry of a folder, that a command does not take."""

    path: Path
    reason: str


@dataclass
class Found:
    """The files that a command's paths lead to.

    inputs: files to work on, None for standard input, each with its path below an output folder. others: regular files
    of folders that are of another kind, with such paths. has_folder: whether a path leads to a folder.
    """

    kind: Kind
    inputs: list[tuple[Path | None, Path]] = field(default_factory=list)
    others: list[tuple[Path, Path]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    has_folder: bool = False

    @property
    def not_taken(self) -> list[LeftOut]:
        """The files that are left out unless other files are kept."""
        return [*self.left_out, *(LeftOut(path, _of_another_kind(self.kind)) for path, _ in self.others)]


def _of_another_kind(kind: Kind) -> str:
    return f"not a {kind.name} file"


NO_PNG = _of_another_kind(PNG)


def find(sources: Sequence[str], recursive: bool, kind: Kind) -> Found:
    """The files of a command's paths. A file is always taken; of a folder, the files below it that are of a kind.

    Raises ValueError for a folder, unless `recursive`, and for an empty name, which would be the current folder's.
    """
    found = Found(kind)
    if "" in sources:
        raise ValueError("an input has no name")
    for source in sources:
        path = source_path(source)
        if path is None:
            found.inputs.append((None, Path("stdin.png" if kind is PNG else "stdin")))
        elif os.path.isdir(path):
            if not recursive:
                raise ValueError(f"{source} is a folder: {_remedy(source, kind)}")
            _walk(path, kind, found)
            found.has_folder = True
        else:
            found.inputs.append((path, Path(path.name)))
    return found


def _remedy(folder: str, kind: Kind) -> str:
    """What to do with a folder without -r."""
    if kind is not PNG:
        return "-r takes the files in it"
    archive = folder.rstrip(os.sep) if os.path.basename(folder.rstrip(os.sep)) not in ("", ".", "..") else "all"
    return f"-r compresses each file in it, -o {archive}.dqc makes one archive"


def source_path(name: str) -> Path | None:
    """The file that a command's argument names; None for standard input."""
    return None if name in _STDIN else Path(name)


def shown_source(source: Path | None) -> str:
    """A source as shown to people."""
    return str(source or "<stdin>")


def _walk(top: Path, kind: Kind, found: Found) -> None:
    """Sort what lies below a folder. An unreadable folder is an input: reading it fails and gives the reason."""
    inputs, others, left_out, folders = [], [], [], [top]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError:
            inputs.append(folder)
            continue
        if not listed:
            left_out.append(LeftOut(folder, EMPTY))
        for entry in listed:
            path = Path(entry.path)
            if entry.is_symlink():
                left_out.append(LeftOut(path, LINK))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif not entry.is_file(follow_symlinks=False):
                left_out.append(LeftOut(path, SPECIAL))
            elif is_temporary(entry.name):
                left_out.append(LeftOut(path, TEMPORARY))
            else:
                (inputs if _is_of(path, kind) else others).append(path)
    found.inputs += [(path, path.relative_to(top) if path != top else Path(top.name)) for path in sorted(inputs)]
    found.others += [(path, path.relative_to(top)) for path in sorted(others)]
    found.left_out += sorted(left_out, key=lambda each: each.path)


def _is_of(path: Path, kind: Kind) -> bool:
    try:
        return kind.takes(path.name, reading.start(path))
    except OSError:
        return True
