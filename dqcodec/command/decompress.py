"""`dqcodec decompress` and `dqcodec verify`: .dqc files and archives -> images, written or only checked."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.base.errors import FAILURES, one_line
from dqcodec.codec.report import RegionReport, Report
from dqcodec.command import options as opts
from dqcodec.command import reading, streams
from dqcodec.command.failures import usage_errors
from dqcodec.command.kinds import ARCHIVE, DQC, check_dqc, hinting_at_salvage
from dqcodec.command.names import STDIO, check_folder_name, check_image_name, decompressed_name, stripped_name
from dqcodec.command.options import Decompressing, Running
from dqcodec.command.plan import Job, check_outputs, plan
from dqcodec.command.progress import Printer
from dqcodec.command.removal import Removal
from dqcodec.command.results import FileResult, shown
from dqcodec.command.run import Task, Work, run
from dqcodec.command.streams import print_line
from dqcodec.command.update import pending
from dqcodec.command.walk import find

if TYPE_CHECKING:
    from dqcodec.command.unpacking import Unpacking


@click.command()
@opts.paths
@opts.takes(Decompressing)
def decompress(paths: tuple[str, ...], options: Decompressing) -> None:
    """Decompress .dqc files and archives.

    \b
    dqcodec decompress a.png.dqc             -> a.png
    dqcodec decompress a.png.dqc -o b.png
    dqcodec decompress set.dqc               -> set/...
    dqcodec decompress set.dqc --only 'cats/*'
    dqcodec decompress map.png.dqc --crop 640x480+0+0
    dqcodec decompress - -o - < a.dqc > a.png
    """
    is_partial = options.only or options.crop or options.format != "png" or options.repack or options.salvage
    if options.rm and is_partial:
        raise click.UsageError("--rm would lose what --only, --crop, --format, --repack or --salvage leaves out")
    with usage_errors():
        found = find(paths, options.recursive, DQC)
        is_alone = len(found.inputs) == 1 and not found.has_folder
        if is_alone and options.output not in (None, "") and _is_archive(found.inputs[0][0], options.salvage):
            source = found.inputs[0][0]
            jobs = [Job(source, Path(options.output))]  # a folder; it may not exist yet
            if streams.is_stream(jobs[0].target) or options.output == STDIO:
                raise ValueError(f"{source} is an archive: give a folder with -o, or leave out -o")
            check_folder_name(options.output)
        else:
            check_name = functools.partial(check_image_name, format=options.format, is_choice=True)
            jobs = plan(found, options.output, functools.partial(_renamed, options=options), check_name)
            jobs = [_noted(job, options) for job in jobs]
        check_outputs(options, jobs)
    are_images = (reading.starts_as(job.source, DQC) and not _is_archive(job.source, options.salvage) for job in jobs)
    if options.only and any(are_images):
        raise click.UsageError("--only is for archives")
    if options.update and any(_is_archive(job.source, options.salvage) for job in jobs):
        raise click.UsageError("--update is for files, not for archives")
    printer = Printer(options.placed())
    printer.leave_out(found.not_taken)
    if options.update:
        jobs, done = pending(jobs, force=options.force)
        printer.leave_out(done)
    _decode(jobs, printer)


@click.command()
@opts.paths
@opts.takes(Running)
def verify(paths: tuple[str, ...], options: Running) -> None:
    """Check .dqc files and archives.

    All images are decoded and compared with their checksums. Nothing is written.

    \b
    dqcodec verify -r packed set.dqc
    """
    with usage_errors():
        found = find(paths, options.recursive, DQC)
    printer = Printer(Decompressing(**vars(options.placed())))
    printer.leave_out(found.not_taken)
    sources = dict.fromkeys(source for source, _ in found.inputs)  # a file may be named twice
    _decode([Job(source, is_written=False) for source in sources], printer)


def _is_archive(source: Path | None, salvage: bool, data: bytes | None = None) -> bool:
    """data: of a stream. With --salvage every file counts as an archive, since its first bytes may be damaged."""
    return salvage or (reading.starts_as(source, ARCHIVE) if data is None else ARCHIVE.has(data))


def _renamed(source: Path, options: Decompressing) -> str:
    """The name of an archive's folder, or of an image."""
    if _is_archive(source, options.salvage):
        return stripped_name(source.name)
    return decompressed_name(source.name, options.ending)


def _noted(job: Job, options: Decompressing) -> Job:
    """The job, with a note if its output has another name than the .dqc file says."""
    if job.has_stream:
        return job
    name = _renamed(job.source, options)
    is_said = job.target.name != name or name == stripped_name(job.source.name)
    return job if is_said else dataclasses.replace(job, note=f"written as {name}")


def _decode(jobs: Sequence[Job], printer: Printer) -> None:
    """Decode files and archives, print a line for each image, and exit."""
    from dqcodec.codec import zoo

    options, removal = printer.options, Removal(printer)
    printer.announce_compiling()
    with usage_errors():
        models = [zoo.locate(name) for name in options.models]
    kept = frozenset(map(os.path.realpath, [*(job.source for job in jobs if job.source), *models]))
    work = Work(functools.partial(_convert, options=options), check_dqc, options)
    tasks: list[Iterable[Task]] = []
    unpackings: list[Unpacking] = []
    total = 0
    for job in removal.noted(jobs):
        try:
            job, unpacking = _prepared(job, printer, kept)
        except FAILURES as error:
            printer.print_result(FileResult(job.names[0], error=one_line(error)))
            continue
        if unpacking:
            unpackings.append(unpacking)
        tasks.append(unpacking.tasks() if unpacking else [work.task(job)])
        total += len(unpacking.places) if unpacking else 1
    run(itertools.chain.from_iterable(tasks), total, printer, removal)
    is_total = len(jobs) != 1
    _sum_up(unpackings, printer, removal, is_last=not is_total)
    if is_total or (printer.run.left_out and not unpackings):
        printer.total()
    sys.exit(printer.run.return_code)


def _sum_up(unpackings: Sequence[Unpacking], printer: Printer, removal: Removal, *, is_last: bool) -> None:
    """Remove the archives without failure if the options say so, and print a line for each archive."""
    runs = printer.run.by_source()
    for unpacking in unpackings:
        source = unpacking.decoding.source
        printer.run.empty_archives += not runs[source].results
        if not runs[source].failed:
            removal.after(FileResult(source), is_damaged=bool(unpacking.damage))
    runs = printer.run.by_source()
    for unpacking in unpackings:
        printer.sum_up(unpacking.report(runs[unpacking.decoding.source]), is_last=is_last)


def _prepared(job: Job, printer: Printer, kept: frozenset[str]) -> tuple[Job, Unpacking | None]:
    """The job, with the data of a stream; and if it is about an archive, what is to be done with that.

    Damage to the archive is printed. kept: see Unpacking. Raises OSError, FormatError, CorruptError.
    """
    options = printer.options
    if streams.is_stream(job.source):  # only its bytes say what it is
        data, _ = reading.read(job.source, options.max_pixels, None if options.salvage else check_dqc)
        job = dataclasses.replace(job, data=data)
    if job.error is not None or not _is_archive(job.source, options.salvage, job.data):
        return job, None
    from dqcodec.command.unpacking import Unpacking

    if job.is_written and job.target is None:
        raise OSError("it is an archive: give a folder with -o")
    unpacking = Unpacking.plan(job, options, kept)
    for failure in unpacking.failures():
        printer.print_result(failure)
    for what in unpacking.oddities():
        print_line(f"dqcodec: {shown(f'{job.names[0]}: {what}')}")
    return job, unpacking


def _convert(data: bytes, options: Decompressing) -> tuple[bytes, Report]:
    """A .dqc file -> a file in the wanted format, and a report."""
    from dqcodec import png
    from dqcodec.codec import codec, export, zoo
    from dqcodec.format.container import is_short

    find_program, max_pixels = functools.partial(zoo.find, named=options.models), options.max_pixels
    with hinting_at_salvage(data):
        if options.crop:
            part, method = codec.decompress_region(data, options.crop, find_program, max_pixels=max_pixels)
            restored, report = png.write(part), RegionReport(method, str(options.crop), 0, is_checked=is_short(data))
        else:
            restored, report = codec.decompress(data, find_program, repack=options.repack, max_pixels=max_pixels)
    restored = export.from_png(restored, options.format, max_pixels)
    return restored, dataclasses.replace(report, png_bytes=len(restored), is_png=options.format == "png")
