"""`dqcodec compress`: each file into a .dqc file, or all into an archive."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.base.errors import DqcodecError
from dqcodec.codec.report import CompressReport
from dqcodec.command import atomic
from dqcodec.command import options as opts
from dqcodec.command.failures import ending_with_failure, one_line_failures, usage_errors
from dqcodec.command.kinds import PNG, check_image
from dqcodec.command.names import check_dqc_name, compressed_name, decompressed_name
from dqcodec.command.options import Compressing
from dqcodec.command.plan import Job, check_outputs, is_for_archive, plan, plan_archive
from dqcodec.command.progress import Printer
from dqcodec.command.removal import Removal
from dqcodec.command.run import Work, run
from dqcodec.command.streams import print_line
from dqcodec.command.update import pending
from dqcodec.command.walk import find

if TYPE_CHECKING:
    from dqcodec.command.learning import Learned


@click.command()
@opts.paths
@opts.takes(Compressing)
def compress(paths: tuple[str, ...], options: Compressing) -> None:
    """Compress images.

    A PNG comes back with the same samples and chunks, with --exact byte for byte. A BMP, PPM, TIFF, WebP, JPEG, GIF or
    .npy file comes back as a PNG of its pixels.

    \b
    dqcodec compress a.png                   -> a.png.dqc
    dqcodec compress -r photos -o packed/ -j 4
    dqcodec compress photos -o set.dqc       (one archive)
    dqcodec compress - -o - < a.png > a.dqc
    """
    is_archive = is_for_archive(paths, options.output)
    _check(options, is_archive)
    from dqcodec.codec import trial, zoo

    options = options.placed()
    given = options.models
    options = dataclasses.replace(options, models=options.models or tuple(zoo.names()))
    with usage_errors():
        found = find(paths, options.recursive or is_archive, PNG)
        if is_archive:
            inputs = plan_archive(found, Path(options.output), options.keep_others)
            check_outputs(options, [Job(source, Path(options.output)) for source, _ in inputs[:1]])  # all are files
        else:
            inputs = [_noted(job) for job in plan(found, options.output, compressed_name, check_dqc_name)]
            check_outputs(options, inputs)
        for name in options.models:
            needed = trial.multiplications(zoo.load(name))
            if options.fast and name in given and needed > options.effort.multiplications:
                raise ValueError(f"--fast takes small models only, and {name} is none: leave out --fast or -m {name}")
    printer = Printer(options)
    printer.announce_compiling()
    printer.leave_out(found.left_out if options.keep_others else found.not_taken)
    if options.update:
        inputs, done = pending(inputs, force=options.force)
        printer.leave_out(done)
    (_to_archive if is_archive else _to_files)(inputs, printer, options)
    sys.exit(printer.run.return_code)


def _check(options: Compressing, is_archive: bool) -> None:
    """Raise UsageError if options exclude each other, or are for archives or for files only."""
    if options.rm and options.no_verify:
        raise click.UsageError("--rm needs verification; leave out --no-verify")
    if options.fast and options.best:
        raise click.UsageError("--fast and --best exclude each other")
    if options.strip and options.exact:
        raise click.UsageError("--strip changes the file that --exact keeps")
    for name, value in (("--group", options.group), ("--others keep", options.keep_others), ("--learn", options.learn)):
        if value and not is_archive:
            raise click.UsageError(f"{name} is for archives: give a folder or several files, and -o FILE.dqc")
    if is_archive and options.update:
        raise click.UsageError("--update is for files, not for an archive")


def _noted(job: Job) -> Job:
    """The job, with a note if decompress gives the image another name."""
    if job.has_stream:
        return job
    name, source = decompressed_name(job.target.name), job.source.name
    if name == source:
        return job
    own = compressed_name(job.source)
    hint = f" (name it {own} to get {source})" if decompressed_name(own) == source else ""
    return dataclasses.replace(job, note=f"comes back as {name}{hint}")


def _to_files(jobs: Sequence[Job], printer: Printer, options: Compressing) -> None:
    """Compress each input into a file of its own."""
    work = Work(functools.partial(compress_bytes, options=options), check_image, options)
    removal = Removal(printer)
    run(map(work.task, removal.noted(jobs)), len(jobs), printer, removal)
    if len(jobs) != 1 or printer.run.left_out:
        printer.total()


def _to_archive(inputs: Sequence[tuple[Path, str]], printer: Printer, options: Compressing) -> None:
    """Pack all inputs, (path, name), into one archive."""
    from dqcodec.command import workers
    from dqcodec.command.packing import Packing

    target = Path(options.output)
    with ending_with_failure(str(target), options.as_json):
        atomic.check_target(target, force=options.force)
        learned = _learn(inputs, options) if options.learn else None
        with workers.mapping(options, len(inputs)) as mapped, printer.progress(len(inputs)):
            report = Packing(target, options, learned).pack(inputs, mapped, printer.print_result)
    if report:
        printer.sum_up(report)
    else:
        printer.total()


def _learn(inputs: Sequence[tuple[Path, str]], options: Compressing) -> Learned | None:
    """Train a model for the archive of these inputs, and print the progress; None, and a line, if that fails."""
    with one_line_failures("train"):
        from dqcodec.command.learning import learn
        from dqcodec.training import progress
        from dqcodec.training.budget import Budget

        display = progress.on_stderr(options.quiet or options.as_json)
        try:
            return learn(inputs, options, Budget(minutes=options.learn / 60), display)
        except DqcodecError as error:
            print_line(f"dqcodec: nothing is learned: {error}")
            return None


def compress_bytes(data: bytes, options: Compressing) -> tuple[bytes, CompressReport]:
    """The .dqc file of an image file, and a report; raises what foreign.to_png and codec.compress raise."""
    from dqcodec.codec import codec, foreign, zoo

    png_file = foreign.to_png(data, options.max_pixels, is_whole=options.is_whole)
    programs = [zoo.load(name) for name in options.models]
    how = options.reading | {"verify": not options.no_verify, "max_pixels": options.max_pixels}
    dqc, report = codec.compress(png_file, programs, options.effort, keep_broken=options.keep_broken, **how)
    return dqc, dataclasses.replace(report, png_bytes=len(data), is_png=PNG.has(data))
