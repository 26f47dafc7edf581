"""The command `bench`. As in dqcodec.command.cli, what it needs is imported when it runs."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.base.errors import DqcodecError
from dqcodec.bench.catalogue import standard_names
from dqcodec.bench.codecs import Codec
from dqcodec.command import files

if TYPE_CHECKING:
    from dqcodec.bench.images import Image
    from dqcodec.bench.report import BenchReport
    from dqcodec.bench.worker import Options

_EXTRA = "pip install 'dqcodec[bench]'"
_input = click.Path(exists=True, path_type=Path)
_target = click.Path(dir_okay=False, path_type=Path)
_names = click.Choice(standard_names())


def _count(name: str, text: str) -> Callable:
    return click.option(name, type=click.IntRange(min=1), default=1, metavar="N", help=text)


class _Failure(click.ClickException):
    exit_code = 3  # nothing done


@click.command()
@click.argument("paths", metavar="IMAGES...", nargs=-1, required=True, type=_input)
@click.option("-o", "--output", type=_target, metavar="FILE.json", help="Write everything, row by row, as JSON.")
@click.option("--markdown", type=_target, metavar="FILE.md", help="Write the table of totals.")
@click.option("--figure", type=_target, metavar="FILE.png", help="Draw size against speed (png, svg or pdf).")
@click.option("--codec", "names", type=_names, multiple=True, help="Measure only this codec (repeatable).")
@click.option("-m", "--model", "models", metavar="NAME|FILE", multiple=True, help="Measure this model alone too (repeatable).")
@_count("--threads", "Give each codec N threads if it can use them (default 1).")
@_count("--repeat", "Code N times; the best time counts (default 1).")
@_count("--jobs", "Code N images at a time; they share the speed (default 1).")
@click.option("-f", "--force", is_flag=True, help="Overwrite existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, not the table.")
@click.option("-q", "--quiet", is_flag=True, help="Print the result only.")
def bench(paths, output, markdown, figure, names, models, threads, repeat, jobs, force, as_json, quiet):
    """Measure dqcodec and other lossless codecs.

    Every result is decoded and compared with the image. Each codec has a process of its own.

    \b
    dqcodec bench photos/ -o bench.json --figure bench.png
    dqcodec bench a.png --codec dqcodec --codec jxl-e7 -m photo --threads 4
    """
    _check_targets([target for target in (output, markdown, figure) if target], figure, force)
    from dqcodec.bench import catalogue, images, table
    from dqcodec.bench.worker import Options

    found = images.find(paths)
    if not found:
        raise click.UsageError("there are no .png files in these folders.")
    try:
        chosen = catalogue.select(names, models)
    except DqcodecError as error:
        raise click.UsageError(str(error)) from error
    report = _run(chosen, found, Options(threads, jobs, repeat), quiet)
    text, data = table.markdown(report), json.dumps(report.as_dict(), indent=1) + "\n"
    click.echo(data if as_json else text, nl=False)
    with _one_line_errors():
        if output:
            files.write(output, data.encode(), force=force)
        if markdown:
            files.write(markdown, text.encode(), force=force)
        if figure:
            from dqcodec.bench.figure import draw

            files.write(figure, draw(report, _kind(figure)), force=force)
    sys.exit(report.return_code)


def _run(chosen: Sequence[Codec], found: Sequence[Image], options: Options, quiet: bool) -> BenchReport:
    """The report of all installed codecs on all images."""
    from dqcodec.bench import progress, worker
    from dqcodec.bench.machine import machine
    from dqcodec.bench.report import BenchReport

    installed = [codec for codec in chosen if codec.is_installed()]
    skipped = [f"{codec.title} is skipped: it needs {_EXTRA}." for codec in chosen if codec not in installed]
    report = BenchReport(installed, options, machine(), skipped)
    with progress.shown(len(installed) * len(found), quiet) as (see, say):
        for note in skipped:
            say(note)
        for rows in worker.run(installed, found, options, see) if installed else ():
            report.rows += rows
            say(progress.line(rows))
    for failure in report.failures():
        click.echo(f"dqcodec: {failure}", err=True)
    return report


def _check_targets(targets: Sequence[Path], figure: Path | None, force: bool) -> None:
    """Refuse before the work what could not be written after it."""
    if len({target.resolve() for target in targets}) < len(targets):
        raise click.UsageError("-o, --markdown and --figure need a file each.")
    if figure and _kind(figure) not in ("png", "svg", "pdf"):
        raise click.UsageError(f"--figure writes .png, .svg and .pdf, not {figure.suffix or figure.name!r}.")
    if figure and importlib.util.find_spec("matplotlib") is None:
        raise _Failure(f"matplotlib is not installed; it comes with: {_EXTRA}")
    with _one_line_errors():
        for target in targets:
            files.check_target(target, force=force)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _Failure(" ".join(str(error).split())) from error


def _kind(figure: Path) -> str:
    return figure.suffix[1:].lower()
