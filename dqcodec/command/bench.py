"""The command `bench`. It imports what it needs when it runs, so that --help is fast."""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.command import atomic
from dqcodec.command import options as opts
from dqcodec.command.failures import not_installed, one_line_failures, usage_errors
from dqcodec.command.options import Benching
from dqcodec.command.plan import check_apart

if TYPE_CHECKING:
    from dqcodec.bench.codecs import Codec
    from dqcodec.bench.images import Image
    from dqcodec.bench.measure import Row
    from dqcodec.bench.report import BenchReport


@click.command()
@click.argument("paths", metavar="IMAGES...", nargs=-1, required=True, type=opts.existing)
@opts.takes(Benching)
def bench(paths: tuple[Path, ...], options: Benching) -> None:
    """Measure dqcodec and other lossless codecs.

    IMAGES are PNG files and folders of them. Every result is decoded and compared with the image. Each codec runs in
    its own process.

    \b
    dqcodec bench photos/ -o bench.json --figure bench.png
    dqcodec bench a.png --codec dqcodec --codec jxl-e7 -m photo --threads 4
    """
    _check_targets(options)
    from dqcodec.bench import catalogue, images, table

    found = images.find(paths)
    if not found:
        raise click.UsageError("these folders hold no .png files")
    with usage_errors():
        check_apart(options.targets, [image.path for image in found], options.models)
        chosen = catalogue.select(options.codecs, options.models)
    report = _run(chosen, found, options)
    text, data = table.markdown(report), json.dumps(report.as_dict(), indent=1) + "\n"
    click.echo(data if options.as_json else text, nl=False)
    with one_line_failures("bench"):
        if options.output:
            atomic.write(options.output, data.encode(), force=options.force)
        if options.markdown:
            atomic.write(options.markdown, text.encode(), force=options.force)
        if options.figure:
            from dqcodec.bench.figure import draw

            atomic.write(options.figure, draw(report), force=options.force)
    sys.exit(report.return_code)


def _run(chosen: Sequence[Codec], found: Sequence[Image], options: Benching) -> BenchReport:
    """Measure all installed codecs on all images. Prints a line for each image, and on a terminal a progress bar."""
    from rich.console import Console
    from rich.progress import Progress

    from dqcodec.bench import worker
    from dqcodec.bench.machine import machine
    from dqcodec.bench.report import BenchReport, line
    from dqcodec.bench.worker import Options

    how = Options(options.threads, options.repeat)
    installed = [codec for codec in chosen if codec.is_installed()]
    missing = [codec for codec in chosen if codec not in installed]
    skipped = [f"{codec.title} is skipped: it needs pip install 'dqcodec[bench]'." for codec in missing]
    report = BenchReport(installed, how, machine(), skipped)
    console = Console(stderr=True, quiet=options.quiet)
    print_line = functools.partial(console.print, markup=False, highlight=False, soft_wrap=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(installed) * len(found))

        def on_row(row: Row) -> None:
            bar.update(task, advance=1, description=f"{row.codec} {row.image}")

        for note in skipped:
            print_line(note)
        for rows in worker.run(installed, found, how, on_row) if installed else ():
            report.rows += rows
            if not all(row.error for row in rows):
                print_line(line(rows))
    for failure in report.failures():
        click.echo(f"dqcodec: {failure}", err=True)
    return report


def _check_targets(options: Benching) -> None:
    """Fail before the measurement if an output cannot be written after it."""
    targets, figure = options.targets, options.figure
    if len({target.resolve() for target in targets}) < len(targets):
        raise click.UsageError("-o, --markdown and --figure need different files")
    if figure and figure.suffix.lower() != ".png":
        raise click.UsageError(f"--figure writes .png, not {figure.suffix or figure.name!r}")
    if figure and importlib.util.find_spec("matplotlib") is None:
        raise not_installed("matplotlib", "bench")
    with one_line_failures("bench"):
        for target in targets:
            atomic.check_target(target, force=options.force)
