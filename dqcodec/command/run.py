"""Jobs -> results: one file or group at a time, by this process or by others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.base.errors import FAILURES, WorkerError, one_line
from dqcodec.codec.report import DecodedReport, Report
from dqcodec.command import atomic, reading, removal
from dqcodec.command.failures import Failure
from dqcodec.command.options import Converting, Running
from dqcodec.command.plan import Job
from dqcodec.command.progress import Printer
from dqcodec.command.results import FileResult
from dqcodec.command.stamp import Stamp

if TYPE_CHECKING:
    from dqcodec.command.packing import Map
    from dqcodec.command.unpacking import Task


@dataclass(frozen=True)
class Work:
    """The work on each file.

    convert: the file's bytes -> (bytes of the output, report). check: see reading.read. is_written: write the output;
    otherwise only count it.
    """

    convert: Callable[[bytes], tuple[bytes, Report]]
    check: Callable[[bytes], None]
    options: Converting
    is_written: bool = True

    def __call__(self, job: Job) -> list[FileResult]:
        """Do a job; its one result."""
        source, target = self._names(job)
        try:
            data, stamp = job.data, None
            if data is None:
                limit = reading.max_bytes(self.options.max_pixels)
                data, stamp = reading.read(self._placed(job.source), limit, self.check)
            output, report = self.convert(data)
            if self.is_written:
                where = self._placed(job.target)
                atomic.write(where, output, former=job.former, stamp=stamp, **self.options.writing)
            else:
                report = DecodedReport(report.method, report.png_bytes, report.dqc_bytes)
        except FAILURES as error:
            return [FileResult(source, target, error=one_line(error))]
        return [FileResult(source, target, report, note=job.note)]

    def task(self, job: Job) -> Task:
        """The job, for any process. A job of streams, which belong to this process, is done here and now."""
        if error := job.error or self._refusal(job):
            return functools.partial(list, [FileResult(*self._names(job), error=error)])
        return functools.partial(list, self(job)) if job.is_local else functools.partial(self, job)

    def _names(self, job: Job) -> tuple[str, str | None]:
        return job.names if self.is_written else (job.names[0], None)

    def _placed(self, path: Path | None) -> Path | None:
        return path and self.options.working_folder / path

    def _refusal(self, job: Job) -> str | None:
        """The reason why the output cannot be written, if it is known before the work."""
        try:
            if self.is_written:
                atomic.check_target(job.target, force=self.options.may_replace, former=job.former)
        except OSError as error:
            return one_line(error)
        return None


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
        if result.error or result.member is not None or result.source not in self._noted:
            return
        try:
            if is_damaged:
                raise OSError("the archive is damaged and is not removed")
            removal.remove(*self._noted.pop(result.source))
        except OSError as error:
            self.printer.print_result(FileResult(result.source, result.target, error=f"written, but {one_line(error)}"))


def run(tasks: Iterable[Task], total: int, printer: Printer, removal: Removal) -> None:
    """Do all tasks, which give `total` results together, and print the results."""
    missing, failure = total, Failure
    try:
        with mapping(printer.options, total) as mapped, printer.progress(total):
            failure = click.ClickException  # from here on, a lost worker may have written files
            for result in itertools.chain.from_iterable(mapped(_call, tasks)):
                printer.print_result(result)
                missing -= 1
                removal.after(result)
    except WorkerError as error:
        raise failure(f"{error}; {missing} of {total} results did not come") from error


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
