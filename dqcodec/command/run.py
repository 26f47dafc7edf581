"""Jobs -> results: one file or group at a time, by this process or by others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dqcodec.base.errors import FAILURES, DqcodecError, WorkerError, one_line
from dqcodec.codec.report import CompressReport, DecodedReport, DecompressReport
from dqcodec.command import files
from dqcodec.command.files import Stamp
from dqcodec.command.options import Running
from dqcodec.command.plan import Job
from dqcodec.command.progress import Teller
from dqcodec.command.results import FileResult

if TYPE_CHECKING:
    from dqcodec.command.packing import Map
    from dqcodec.command.unpacking import Task


@dataclass(frozen=True)
class Work:
    """What is done with each file.

    convert: the file's bytes -> (bytes of the output, report). check: see files.read. limit: of a file's size, bytes.
    is_written: write the output; otherwise only count it. working_folder: where relative paths start.
    """

    convert: Callable[[bytes], tuple[bytes, CompressReport | DecompressReport]]
    check: Callable[[bytes], None]
    limit: int
    force: bool = False
    is_written: bool = True
    working_folder: Path = Path()

    def __call__(self, job: Job) -> list[FileResult]:
        """Do a job; its one result."""
        source, target = self._names(job)
        try:
            data, stamp = job.data, None
            if data is None:
                data, stamp = files.read(self._placed(job.source), self.limit, self.check)
            output, report = self.convert(data)
            if self.is_written:
                files.write_once(self._placed(job.target), output, force=self.force, stamp=stamp)
            else:
                report = DecodedReport(report.method, report.png_bytes, report.dqc_bytes)
        except FAILURES as error:
            return [FileResult(source, target, error=one_line(error))]
        return [FileResult(source, target, report)]

    def task(self, job: Job) -> Task:
        """The job, for any process. A job of streams, which belong to this process, is done here and now."""
        if error := job.error or self._refusal(job):
            return functools.partial(list, [FileResult(*self._names(job), error=error)])
        return functools.partial(list, self(job)) if job.is_local else functools.partial(self, job)

    def _names(self, job: Job) -> tuple[str, str | None]:
        return job.names if self.is_written else (job.names[0], None)

    def _placed(self, path: Path | None) -> Path | None:
        return path and self.working_folder / path

    def _refusal(self, job: Job) -> str | None:
        """Why the output cannot be written, if that is known before the work."""
        try:
            if self.is_written:
                files.check_target(job.target, force=self.force)
        except OSError as error:
            return one_line(error)
        return None


@dataclass
class Removal:
    """Removes the source of each job whose output is written. A source that changed after it was noted stays."""

    teller: Teller
    _noted: dict[str, tuple[Path, Stamp]] = dataclasses.field(default_factory=dict)

    def note(self, source: Path) -> None:
        """For use before the source is read; one that is not there is left for the reader to tell."""
        with contextlib.suppress(OSError):
            self._noted[str(source)] = source, Stamp.at(source)

    def after(self, result: FileResult) -> None:
        """Remove the source of a result without error; tell if that fails."""
        if result.error or result.source not in self._noted:
            return
        try:
            files.remove(*self._noted.pop(result.source))
        except OSError as error:
            self.teller.tell(FileResult(result.source, result.target, error=f"written, but {one_line(error)}"))


def run(tasks: Iterable[Task], total: int, teller: Teller, removal: Removal | None = None) -> None:
    """Do all tasks, which give `total` results together, and tell the results."""
    missing = total
    try:
        with mapping(teller.options, total) as mapped, teller.progress(total):
            for result in itertools.chain.from_iterable(mapped(_call, tasks)):
                teller.tell(result)
                missing -= 1
                if removal:
                    removal.after(result)
    except WorkerError as error:
        raise click.ClickException(f"{error}; {missing} of {total} results did not come") from error


def _call(task: Task) -> list[FileResult]:
    return task()


@contextlib.contextmanager
def mapping(options: Running, items: int) -> Iterator[Map]:
    """A lazy map for at most `items` items: by a cluster or several processes if the options say so."""
    count = min(options.processes, items)
    if not options.cluster and count < 2:
        yield map
        return
    from dqcodec.command import workers

    with workers.cluster(options.cluster) if options.cluster else workers.processes(count) as mapped:
        yield mapped


def usage(load: Callable[[], Any]) -> Any:
    """The result of `load`; an error in what the user named becomes a UsageError."""
    try:
        return load()
    except (DqcodecError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def check_removable(options: Any, jobs: Iterable[Job]) -> None:
    """Raise UsageError if --rm would remove a source whose output is not a file."""
    if options.rm and any(files.is_stream(job.source) or files.is_stream(job.target) for job in jobs):
        raise click.UsageError("--rm is for files that become files, not for pipes, devices and standard streams.")
