"""`--rm`: removes a source file, but only the file that was read, unchanged."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dqcodec.base.errors import one_line
from dqcodec.command.plan import Job
from dqcodec.command.progress import Printer
from dqcodec.command.results import FileResult
from dqcodec.command.stamp import Stamp

_renewed: dict[tuple[int, ...], tuple[int, ...]] = {}  # of files with several names: removing one changes the ctime


@dataclass
class Removal:
    """With --rm, removes each source whose output is written. A source stays if it changed after it was noted."""

    printer: Printer
    _noted: dict[str, tuple[Path, Stamp]] = dataclasses.field(default_factory=dict)

    def noted(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """The jobs. Each source is noted before it is read. Reading gives the error if it is missing."""
        for job in jobs:
            if self.printer.options.rm:
                with contextlib.suppress(OSError):
                    self._noted[str(job.source)] = job.source, Stamp.at(job.source)
            yield job

    def after(self, result: FileResult, is_damaged: bool = False) -> None:
        """Remove the source of a whole file's result without error. A failure is another result.

        is_damaged: the source is a damaged archive, which may hold more than was decoded; it stays.
        """
        if result.error or result.name is not None or result.source not in self._noted:
            return
        try:
            if is_damaged:
                raise OSError("the archive is damaged and is not removed")
            remove(*self._noted.pop(result.source))
        except OSError as error:
            self.printer.print_result(FileResult(result.source, result.target, error=f"written, but {one_line(error)}"))


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
