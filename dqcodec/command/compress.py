"""`dqcodec compress`: each file into a .dqc file, or all into an archive."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dqcodec.base.errors import FAILURES, one_line
from dqcodec.codec.report import CompressReport
from dqcodec.command import files
from dqcodec.command import options as opts
from dqcodec.command.kinds import PNG, check_image
from dqcodec.command.names import compressed_name
from dqcodec.command.options import Compressing
from dqcodec.command.plan import Job, check_json, is_for_archive, plan, plan_archive
from dqcodec.command.progress import Teller, tell_failure
from dqcodec.command.results import FileResult
from dqcodec.command.run import Removal, Work, check_removable, mapping, run, usage
from dqcodec.command.walk import Found, find

if TYPE_CHECKING:
    from dqcodec.command.unpacking import Task

Begin = Callable[[Teller, tuple[str, ...]], None]  # starts the work, with these models


@click.command()
@opts.paths
@opts.takes(Compressing)
def compress(paths: tuple[str, ...], options: Compressing) -> None:
    """Compress images.

    PNG files come back whole. Of BMP, PPM, TIFF, WebP, JPEG, GIF and .npy files the pixels come back.

    \b
    dqcodec compress a.png                   -> a.png.dqc
    dqcodec compress -r photos -o packed/ -j 4
    dqcodec compress photos -o set.dqc       (one archive)
    dqcodec compress - -o - < a.png > a.dqc
    """
    if options.rm and options.no_verify:
        raise click.UsageError("--rm needs verification; leave out --no-verify.")
    if options.fast and options.best:
        raise click.UsageError("--fast and --best exclude each other.")
    if options.strip and options.exact:
        raise click.UsageError("--strip changes the file that --exact keeps.")
    teller = Teller(options)
    is_archive = is_for_archive(paths, options.output)
    for name, value in (("--group", options.group), ("--others keep", options.keep_others)):
        if value and not is_archive:
            raise click.UsageError(f"{name} is for archives: a directory or many files, with -o FILE.dqc.")
    found = usage(lambda: find(paths, options.recursive or is_archive, PNG))
    begin = _archive(found, options) if is_archive else _files(found, options)
    names = options.placed_models or _model_names()
    usage(lambda: _load(names))
    teller.announce_compiling()
    teller.leave_out(found.left_out if options.keep_others else found.not_taken)
    begin(teller, names)
    sys.exit(teller.run.return_code)


def _files(found: Found, options: Compressing) -> Begin:
    """Plan the work on single files."""
    jobs = usage(lambda: plan(found, options.output, compressed_name))
    check_json(options, jobs)
    check_removable(options, jobs)

    def begin(teller: Teller, models: tuple[str, ...]) -> None:
        kept = {"is_kept": not options.rm, "keep_broken": options.keep_broken}
        how = options.reading | options.coding | options.checks
        work = Work(
            functools.partial(compress_bytes, models=models, **kept, **how), check_image,
            files.max_bytes(options.max_pixels), force=options.force, working_folder=options.working_folder,
        )  # fmt: skip
        removal = Removal(teller) if options.rm else None

        def task(job: Job) -> Task:
            if removal:
                removal.note(job.source)
            return work.task(job)

        run(map(task, jobs), len(jobs), teller, removal)
        if len(jobs) != 1 or found.not_taken:
            teller.total()

    return begin


def _archive(found: Found, options: Compressing) -> Begin:
    """Plan the work on one archive."""
    target = Path(options.output)
    inputs = usage(lambda: plan_archive(found, target, options.keep_others))

    def begin(teller: Teller, models: tuple[str, ...]) -> None:
        from dqcodec.command.batches import Keeping
        from dqcodec.command.packing import Packing

        packing = Packing(
            target, models, options.reading, options.coding, Keeping(options.keep_others, options.keep_broken),
            options.group, force=options.force, rm=options.rm, **options.checks,
        )  # fmt: skip
        try:
            with mapping(options, len(inputs)) as mapped, teller.progress(len(inputs)):
                report = packing.pack(inputs, mapped, teller.tell)
        except FAILURES as error:
            tell_failure(FileResult(str(target), error=one_line(error)), options.as_json)
            sys.exit(3)
        if report:
            teller.sum_up(report)
        else:
            teller.total()

    return begin


def compress_bytes(data: bytes, models: tuple[str, ...], is_kept: bool, **options: Any) -> tuple[bytes, CompressReport]:
    """The .dqc file of an image file, and a report.

    is_kept: the source is not removed. options: those of codec.compress. Raises what formats.to_png and codec.compress
    raise.
    """
    from dqcodec.codec import codec, formats, zoo

    png_file = formats.to_png(data, is_kept=is_kept, max_pixels=options["max_pixels"])
    dqc, report = codec.compress(png_file, [zoo.load(name) for name in models], **options)
    return dqc, dataclasses.replace(report, png_bytes=len(data))


def _model_names() -> tuple[str, ...]:
    from dqcodec.codec import zoo

    return tuple(zoo.names())


def _load(names: tuple[str, ...]) -> None:
    from dqcodec.codec import zoo

    for name in names:
        zoo.load(name)
