"""Jobs -> results: one file or group at a time, by this process or by others."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from dqcodec.base.errors import FAILURES, DqcodecError, WorkerError, one_line
from dqcodec.codec.report import CompressReport, DecodedReport, DecompressReport
from dqcodec.command import files
from dqcodec.command.options import Running
from dqcodec.command.plan import Job
from dqcodec.command.progress import Teller
from dqcodec.command.results import FileResult

if TYPE_CHECKING:
    from dqcodec.command.archiving import Map, Task



@dataclass(frozen=True)
class Work:
    """What is done with each file. convert: its bytes -> those of its output, and a report. check: see files.read.
    limit: of its size, bytes. is_written: the output is, else it is only counted."""

    convert: Callable[[bytes], tuple[bytes, CompressReport | DecompressReport]]
    check: Callable[[bytes], None]
    limit: int
    force: bool = False
    rm: bool = False
    is_written: bool = True

    def __call__(self, job: Job) -> list[FileResult]:
        source, target = job.names if self.is_written else (job.names[0], None)
        try:
            if self.is_written:
                files.check_target(job.target, force=self.force)
            data, stamp = (job.data, None) if job.data is not None else files.read(job.source, self.limit, self.check)
            converted, report = self.convert(data)
            if self.is_written:
                files.write(job.target, converted, force=self.force, stamp=stamp)
                if self.rm:
                    files.remove(job.source, stamp)
            else:
                report = DecodedReport(report.method, report.png_bytes, report.dqc_bytes)
        except FAILURES as error:
            return [FileResult(source, target, error=one_line(error))]
        return [FileResult(source, target, report)]

    def task(self, job: Job) -> Task:
        """The job, for any process; streams are this process's own, and their job is done here and now."""
        return functools.partial(list, self(job)) if job.is_local else functools.partial(self, job)


def run(tasks: Iterable[Task], total: int, teller: Teller) -> None:
    """Do all tasks, which give `total` results together, and tell the results."""
    missing = total
    try:
        with mapping(teller.options, total) as mapped, teller.progress(total):
            for result in itertools.chain.from_iterable(mapped(_call, tasks)):
                teller.tell(result)
                missing -= 1
    except WorkerError as error:
        raise click.ClickException(f"{error}; {missing} of {total} results did not come") from error


def _call(task: Task) -> list[FileResult]:
    return task()


@contextlib.contextmanager
def mapping(options: Running, items: int) -> Iterator[Map]:
    """map, lazy, for at most so many items; by a cluster or several processes, if the options say so."""
    count = min(options.processes, items)
    if not options.cluster and count < 2:
        yield map
        return
    from dqcodec.command import workers

    with workers.cluster(options.cluster) if options.cluster else workers.processes(count) as mapped:
        yield mapped


def usage(load: Callable[[], Any]) -> Any:
    """Its result; an error in what the user named is one of usage."""
    try:
        return load()
    except (DqcodecError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def check_removable(options: Any, jobs: Iterable[Job]) -> None:
    """Raise UsageError where --rm would remove what goes to no file."""
    if options.rm and any(files.is_stream(job.source) or files.is_stream(job.target) for job in jobs):
        raise click.UsageError("--rm is for files that become files, not for pipes, devices and standard streams.")
