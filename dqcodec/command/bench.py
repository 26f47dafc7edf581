"""The command `bench`. It imports what it needs when it runs, so that --help is fast."""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.command import atomic
from dqcodec.command.failures import not_installed, one_line_failures, usage_errors
from dqcodec.command.plan import check_apart

if TYPE_CHECKING:
    from dqcodec.bench.codecs import Codec
    from dqcodec.bench.images import Image
    from dqcodec.bench.measure import Row
    from dqcodec.bench.report import BenchReport
    from dqcodec.bench.worker import Options

_input = click.Path(exists=True, path_type=Path)
_target = click.Path(dir_okay=False, path_type=Path)


class _Name(click.Choice):
    """The name of a codec. The codecs are imported when their names are needed."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:
        """All names, in the order of reports."""
        from dqcodec.bench.catalogue import standard_names

        return tuple(standard_names())


def _count(name: str, text: str) -> Callable:
    return click.option(name, type=click.IntRange(min=1), default=1, metavar="N", help=text)


@click.command()
@click.argument("paths", metavar="IMAGES...", nargs=-1, required=True, type=_input)
@click.option("-o", "--output", type=_target, metavar="FILE.json", help="Write all rows and totals as JSON.")
@click.option("--markdown", type=_target, metavar="FILE.md", help="Write the table of totals.")
@click.option("--figure", type=_target, metavar="FILE.png", help="Draw size against speed.")
@click.option("--codec", "names", type=_Name(), multiple=True, help="Measure only this codec (repeatable).")
@click.option(
    "-m", "--model", "models", metavar="NAME|FILE", multiple=True, help="Add dqcodec with only this model (repeatable)."
)
@_count("--threads", "Threads of each codec that can use several (default 1).")
@_count("--repeat", "Code each image N times and take the best time (default 1).")
@click.option("-f", "--force", is_flag=True, help="Overwrite existing files.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, not the table.")
@click.option("-q", "--quiet", is_flag=True, help="Print the result only.")
def bench(paths, output, markdown, figure, names, models, threads, repeat, force, as_json, quiet):
    """Measure dqcodec and other lossless codecs.

    IMAGES are PNG files and folders of them. Every result is decoded and compared with the image. Each codec runs in
    its own process.

    \b
    dqcodec bench photos/ -o bench.json --figure bench.png
    dqcodec bench a.png --codec dqcodec --codec jxl-e7 -m photo --threads 4
    """
    targets = [target for target in (output, markdown, figure) if target]
    _check_targets(targets, figure, force)
    from dqcodec.bench import catalogue, images, table
    from dqcodec.bench.worker import Options

    found = images.find(paths)
    if not found:
        raise click.UsageError("these folders hold no .png files")
    with usage_errors():
        check_apart(targets, [image.path for image in found], models)
        chosen = catalogue.select(names, models)
    report = _run(chosen, found, Options(threads, repeat), quiet)
    text, data = table.markdown(report), json.dumps(report.as_dict(), indent=1) + "\n"
    click.echo(data if as_json else text, nl=False)
    with one_line_failures("bench"):
        if output:
            atomic.write(output, data.encode(), force=force)
        if markdown:
            atomic.write(markdown, text.encode(), force=force)
        if figure:
            from dqcodec.bench.figure import draw

            atomic.write(figure, draw(report), force=force)
    sys.exit(report.return_code)


def _run(chosen: Sequence[Codec], found: Sequence[Image], options: Options, quiet: bool) -> BenchReport:
    """Measure all installed codecs on all images. Prints a line for each image, and on a terminal a progress bar."""
    from rich.console import Console
    from rich.progress import Progress

    from dqcodec.bench import worker
    from dqcodec.bench.machine import machine
    from dqcodec.bench.report import BenchReport, line

    installed = [codec for codec in chosen if codec.is_installed()]
    missing = [codec for codec in chosen if codec not in installed]
    skipped = [f"{codec.title} is skipped: it needs pip install 'dqcodec[bench]'." for codec in missing]
    report = BenchReport(installed, options, machine(), skipped)
    console = Console(stderr=True, quiet=quiet)
    print_line = functools.partial(console.print, markup=False, highlight=False, soft_wrap=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(installed) * len(found))

        def on_row(row: Row) -> None:
            bar.update(task, advance=1, description=f"{row.codec} {row.image}")

        for note in skipped:
            print_line(note)
        for rows in worker.run(installed, found, options, on_row) if installed else ():
            report.rows += rows
            print_line(line(rows))
    for failure in report.failures():
        click.echo(f"dqcodec: {failure}", err=True)
    return report


def _check_targets(targets: Sequence[Path], figure: Path | None, force: bool) -> None:
    """Fail before the measurement if an output cannot be written after it."""
    if len({target.resolve() for target in targets}) < len(targets):
        raise click.UsageError("-o, --markdown and --figure need different files")
    if figure and figure.suffix.lower() != ".png":
        raise click.UsageError(f"--figure writes .png, not {figure.suffix or figure.name!r}")
    if figure and importlib.util.find_spec("matplotlib") is None:
        raise not_installed("matplotlib", "bench")
    with one_line_failures("bench"):
        for target in targets:
            atomic.check_target(target, force=force)
