"""Jobs -> results: one file or group at a time, by this process or by others."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dqcodec.base.errors import FAILURES, WorkerError, one_line
from dqcodec.codec.report import DecodedReport, Report
from dqcodec.command import atomic, reading
from dqcodec.command.failures import Failure
from dqcodec.command.options import Converting
from dqcodec.command.plan import Job
from dqcodec.command.progress import Printer
from dqcodec.command.removal import Removal
from dqcodec.command.results import FileResult
from dqcodec.command.streams import OneLineError

Task = Callable[[], list[FileResult]]


def known(results: Iterable[FileResult]) -> Task:
    """A task whose results are known already."""
    return functools.partial(list, results)


@dataclass(frozen=True)
class Work:
    """The work on each file.

    convert: the file's bytes -> (bytes of the output, report). check: see reading.read.
    """

    convert: Callable[[bytes], tuple[bytes, Report]]
    check: Callable[[bytes], None]
    options: Converting

    def __call__(self, job: Job) -> list[FileResult]:
        """Do a job; its one result."""
        try:
            data, stamp = job.data, None
            if data is None:
                data, stamp = reading.read(self._placed(job.source), self.options.max_pixels, self.check)
            output, report = self.convert(data)
            if job.is_written:
                atomic.write(self._placed(job.target), output, former=job.former, stamp=stamp, **self.options.writing)
            else:
                report = DecodedReport(report.method, report.png_bytes, report.dqc_bytes)
        except FAILURES as error:
            return [FileResult(*job.names, error=one_line(error))]
        return [FileResult(*job.names, report, note=job.note)]

    def task(self, job: Job) -> Task:
        """The job, for any process. A job of streams, which belong to this process, is done here and now."""
        if error := job.error or self._refusal(job):
            return known([FileResult(*job.names, error=error)])
        return known(self(job)) if job.has_stream else functools.partial(self, job)

    def _placed(self, path: Path | None) -> Path | None:
        return path and self.options.working_folder / path

    def _refusal(self, job: Job) -> str | None:
        """The reason why the output cannot be written, if it is known before the work."""
        try:
            if job.is_written:
                atomic.check_target(job.target, force=self.options.may_replace, former=job.former)
        except OSError as error:
            return one_line(error)
        return None


def run(tasks: Iterable[Task], total: int, printer: Printer, removal: Removal) -> None:
    """Do all tasks, which give `total` results together, and print the results."""
    from dqcodec.command import workers

    missing = total
    failure: type[OneLineError] = Failure
    try:
        with workers.mapping(printer.options, total) as mapped, printer.progress(total):
            failure = OneLineError  # from here on, a lost worker may have written files
            for result in itertools.chain.from_iterable(mapped(operator.call, tasks)):
                printer.print_result(result)
                missing -= 1
                removal.after(result)
    except WorkerError as error:
        raise failure(f"{error}; {missing} of {total} results did not come") from error
