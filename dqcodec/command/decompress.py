"""`dqcodec decompress` and `dqcodec verify`: .dqc files and archives -> images, written or only checked."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dqcodec.base.errors import FAILURES, one_line
from dqcodec.codec.report import DecompressReport
from dqcodec.command import files
from dqcodec.command import options as opts
from dqcodec.command.compress import check_json
from dqcodec.command.kinds import ARCHIVE, DQC, check_dqc
from dqcodec.command.names import DQC_SUFFIX, decompressed_name
from dqcodec.command.options import Decompressing, Verifying
from dqcodec.command.plan import Job, plan
from dqcodec.command.progress import Teller
from dqcodec.command.results import FileResult, shown
from dqcodec.command.run import Work, check_removable, run, usage
from dqcodec.command.streams import tell
from dqcodec.command.walk import find


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
    dqcodec decompress - -o - < a.dqc > a.png
    """
    if options.rm and (options.only or options.format != "png" or options.salvage):
        raise click.UsageError("--rm would lose what --only, --format or --salvage leaves out.")
    teller = Teller(options)
    found = usage(lambda: find(paths, options.recursive, DQC))
    source = found.inputs[0][0] if len(found.inputs) == 1 else None
    if options.output not in (None, "") and _is_archive(source, options.salvage):
        jobs = [Job(source, Path(options.output))]  # a folder, which need not be there
        if files.is_stream(jobs[0].target) or options.output == "-":
            raise click.UsageError("an archive goes to a folder.")
    else:
        jobs = usage(lambda: plan(found, options.output, functools.partial(_renamed, options=options)))
    check_json(options, jobs)
    check_removable(options, jobs)
    may_be_archives = (files.is_stream(job.source) or _is_archive(job.source, options.salvage) for job in jobs)
    if options.only and not all(may_be_archives):
        raise click.UsageError("--only is for archives.")
    decoding = {"models": options.models, "repack": options.repack, "format": options.format}
    teller.leave_out(found.not_taken)
    _decode(jobs, teller, decoding, only=options.only, salvage=options.salvage, is_written=True)
    sys.exit(teller.run.return_code)


@click.command()
@opts.files
@opts.takes(Verifying)
def verify(paths: tuple[str, ...], options: Verifying) -> None:
    """Check .dqc files and archives.

    All images are decoded and compared with their checksums; nothing is written.

    \b
    dqcodec verify -r packed set.dqc
    """
    teller = Teller(options)
    found = usage(lambda: find(paths, options.recursive, DQC))
    teller.leave_out(found.not_taken)
    _decode([Job(source, None) for source, _ in found.inputs], teller, {"models": options.models}, is_written=False)
    sys.exit(teller.run.return_code)


def _is_archive(source: Path | None, salvage: bool, data: bytes | None = None) -> bool:
    """data: of a stream. What is to be salvaged is one, since its first bytes may be damaged."""
    return salvage or (files.starts_as(source, ARCHIVE) if data is None else ARCHIVE.has(data))


def _renamed(source: Path, options: Decompressing) -> str:
    """The name of an archive's folder, or of an image."""
    if _is_archive(source, options.salvage):
        return source.name.removesuffix(DQC_SUFFIX)
    return decompressed_name(source, f".{options.format}")


def _decode(
    jobs: Sequence[Job],
    teller: Teller,
    decoding: dict[str, Any],
    *,
    only: Sequence[str] = (),
    salvage: bool = False,
    is_written: bool,
) -> None:
    """Decode files and archives and tell each image; with `is_written`, to the jobs' targets. decoding: options of
    _convert."""
    from dqcodec.codec import zoo
    from dqcodec.command import archiving

    teller.announce_compiling()
    usage(lambda: [zoo.locate(name) for name in decoding["models"]])
    options, decoding = teller.options, decoding | {"max_pixels": teller.options.max_pixels}
    force, rm = is_written and options.force, is_written and options.rm
    work = Work(
        functools.partial(_convert, **decoding), check_dqc, files.max_bytes(options.max_pixels), force, rm, is_written
    )
    tasks, unpackings, total = [], [], 0
    for job in jobs:
        try:
            if files.is_stream(job.source):  # read now, since it tells only once what it is
                check = {} if salvage else {"check": check_dqc}
                job = dataclasses.replace(job, data=files.read(job.source, work.limit, **check)[0])
            if not _is_archive(job.source, salvage, job.data):
                tasks.append([work.task(job)])
                total += 1
                continue
            if is_written and job.target is None:
                raise OSError("an archive goes to a folder: give one with -o")
            checks = {"salvage": salvage, "is_checked": not is_written}
            unpacking = archiving.Unpacking.plan(job.source, job.target, only, job.data, **checks, **decoding)
        except FAILURES as error:
            teller.tell(FileResult(job.names[0], error=one_line(error)))
            continue
        for lost in unpacking.lost():
            teller.tell(lost)
        for what in unpacking.oddities():
            tell(f"dqcodec: {shown(f'{unpacking.source_name}: {what}')}")
        for pattern in unpacking.unmatched:
            teller.tell(FileResult(job.names[0], error=f"no image's name matches {pattern}"))
        unpackings.append(unpacking)
        tasks.append(unpacking.tasks(force=force))
        total += len(unpacking.names)
    run(itertools.chain.from_iterable(tasks), total, teller)
    is_total = len(jobs) != 1
    for unpacking in unpackings:
        result = teller.run.of(unpacking.source_name)
        teller.sum_up(unpacking.report(result), is_last=not is_total)
        if rm and not result.failed:
            _remove(unpacking, teller)
    if is_total or (teller.run.left_out and not unpackings):
        teller.total()


def _remove(unpacking: Any, teller: Teller) -> None:
    """Remove an archive whose images are all written."""
    try:
        files.remove(unpacking.source, unpacking.stamp)
    except OSError as error:
        teller.tell(FileResult(unpacking.source_name, error=one_line(error)))


def _convert(
    data: bytes, models: tuple[str, ...], max_pixels: int, format: str = "png", **options: Any
) -> tuple[bytes, DecompressReport]:
    from dqcodec.codec import codec, formats, zoo

    find_program = functools.partial(zoo.find, named=models)
    restored, report = codec.decompress(data, find_program, max_pixels=max_pixels, **options)
    restored = formats.from_png(restored, format, max_pixels)
    return restored, dataclasses.replace(report, png_bytes=len(restored))
