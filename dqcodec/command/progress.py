"""The output of a command while it works: a line for each result, a progress bar on a terminal, totals."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from dqcodec.base import ending
from dqcodec.command.names import IMAGE_SUFFIXES
from dqcodec.command.options import Running
from dqcodec.command.results import ArchiveReport, FileResult, RunReport, UnpackReport, shown
from dqcodec.command.streams import print_line
from dqcodec.command.walk import NO_PNG, LeftOut


@dataclass
class Printer:
    """Prints results as they come, and keeps them."""

    options: Running
    run: RunReport = field(default_factory=RunReport)
    advance: Callable[[], Any] = lambda: None  # a progress bar

    def print_result(self, result: FileResult) -> None:
        """Print a result: errors always, others as the options say."""
        self.run.results.append(result)
        self.advance()
        if result.error:
            print_failure(result, self.options.as_json)
        elif self.options.as_json:
            click.echo(json.dumps(result.as_dict()))
        elif self.options.verbose or not (self.options.quiet or result.is_detail):
            print_line(result.line())
            if self.options.verbose and (details := result.report.details()):
                print_line(f"  {details}")

    def leave_out(self, left_out: Sequence[LeftOut]) -> None:
        """Count files of folders that are not taken, and print them with --json or -v."""
        for path, reason in left_out:
            self.run.left_out[reason] += 1
            self.run.has_other_images |= reason == NO_PNG and path.suffix.lower() in IMAGE_SUFFIXES
            if self.options.as_json:
                click.echo(json.dumps({"source": str(path), "left_out": reason}))
            elif self.options.verbose:
                print_line(f"{shown(str(path))}: left out ({reason})")

    def sum_up(self, report: ArchiveReport | UnpackReport, is_last: bool = True) -> None:
        """Print an archive's line; the last one counts the files that are left out."""
        if self.options.as_json:
            click.echo(json.dumps(report.as_dict()))
        elif not self.options.quiet:
            print_line(", ".join([report.line(), *(self.run.left_out_parts() if is_last else ())]))

    def total(self) -> None:
        """Print the totals of the run; with `quiet`, only if nothing was done and no error says why."""
        is_unexplained = self.run.return_code == 3 and not self.run.failed
        if not self.options.as_json and (is_unexplained or not self.options.quiet):
            print_line(self.run.totals())

    def announce_compiling(self) -> None:
        """On a terminal, print a line when loops are compiled for the first time."""
        if not self.options.quiet and sys.stderr.isatty():
            from dqcodec.base.compiled import when_compiling

            when_compiling(lambda: print_line("compiling loops, once on this machine ..."))

    @contextlib.contextmanager
    def progress(self, total: int) -> Iterator[None]:
        """On a terminal, show a progress bar on stderr if several results are to come."""
        if self.options.quiet or self.options.as_json or total < 2 or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            self.advance = functools.partial(progress.advance, progress.add_task("", total=total))
            with ending.at_end(progress.stop):  # it hides the cursor
                yield


def print_failure(result: FileResult, as_json: bool) -> None:
    """Print an error on stderr, and with `as_json` on stdout too."""
    if as_json:
        click.echo(json.dumps(result.as_dict()))
    print_line(f"dqcodec: {result.line()}")
