"""`dqcodec decompress` and `dqcodec verify`: .dqc files and archives -> images, written or only checked."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dqcodec.base.errors import FAILURES, one_line
from dqcodec.codec.report import DecompressReport, RegionReport
from dqcodec.command import files
from dqcodec.command import options as opts
from dqcodec.command.kinds import ARCHIVE, DQC, check_dqc
from dqcodec.command.names import DQC_SUFFIX, decompressed_name
from dqcodec.command.options import Decompressing, Running
from dqcodec.command.plan import Job, check_json, plan
from dqcodec.command.progress import Teller
from dqcodec.command.results import FileResult, shown
from dqcodec.command.run import Removal, Work, check_removable, run, usage
from dqcodec.command.streams import tell
from dqcodec.command.walk import find

if TYPE_CHECKING:
    from dqcodec.codec.region import Region
    from dqcodec.command.unpacking import Decoding, Task, Unpacking


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
    dqcodec decompress map.png.dqc --crop 640x480+0+0 -o part.png
    dqcodec decompress - -o - < a.dqc > a.png
    """
    if options.rm and (options.only or options.crop or options.format != "png" or options.salvage):
        raise click.UsageError("--rm would lose what --only, --crop, --format or --salvage leaves out.")
    teller = Teller(options)
    found = usage(lambda: find(paths, options.recursive, DQC))
    source = found.inputs[0][0] if len(found.inputs) == 1 else None
    if options.output not in (None, "") and _is_archive(source, options.salvage):
        jobs = [Job(source, Path(options.output))]  # a folder; it may not exist yet
        if files.is_stream(jobs[0].target) or options.output == "-":
            raise click.UsageError("an archive goes to a folder.")
    else:
        jobs = usage(lambda: plan(found, options.output, functools.partial(_renamed, options=options)))
    check_json(options, jobs)
    check_removable(options, jobs)
    may_be_archives = (files.is_stream(job.source) or _is_archive(job.source, options.salvage) for job in jobs)
    if options.only and not all(may_be_archives):
        raise click.UsageError("--only is for archives.")
    how = {"repack": options.repack, "format": options.format, "force": options.force, "crop": options.crop}
    teller.leave_out(found.not_taken)
    _decode(jobs, _Plan(teller, how, options.only, options.salvage, rm=options.rm))


@click.command()
@opts.files
@opts.takes(Running)
def verify(paths: tuple[str, ...], options: Running) -> None:
    """Check .dqc files and archives.

    All images are decoded and compared with their checksums. Nothing is written.

    \b
    dqcodec verify -r packed set.dqc
    """
    teller = Teller(options)
    found = usage(lambda: find(paths, options.recursive, DQC))
    teller.leave_out(found.not_taken)
    _decode([Job(source, None) for source, _ in found.inputs], _Plan(teller, is_written=False))


def _is_archive(source: Path | None, salvage: bool, data: bytes | None = None) -> bool:
    """data: of a stream. With --salvage every file counts as an archive, since its first bytes may be damaged."""
    return salvage or (files.starts_as(source, ARCHIVE) if data is None else ARCHIVE.has(data))


def _renamed(source: Path, options: Decompressing) -> str:
    """The name of an archive's folder, or of an image."""
    if _is_archive(source, options.salvage):
        return source.name.removesuffix(DQC_SUFFIX)
    return decompressed_name(source, f".{options.format}")


@dataclass
class _Plan:
    """The work on files and archives: tasks, and how many results they give.

    how: fields of unpacking.Decoding. only: patterns of names in archives. is_written: write the images; otherwise only
    check them.
    """

    teller: Teller
    how: dict[str, Any] = field(default_factory=dict)
    only: Sequence[str] = ()
    salvage: bool = False
    rm: bool = False
    is_written: bool = True
    tasks: list[Iterable[Task]] = field(default_factory=list)
    unpackings: list[Unpacking] = field(default_factory=list)
    total: int = 0

    def __post_init__(self) -> None:
        options = self.teller.options
        self.how |= {"models": options.placed_models, "max_pixels": options.max_pixels}
        self.removal = Removal(self.teller) if self.rm else None
        bare = {key: value for key, value in self.how.items() if key != "force"}
        self.work = Work(
            functools.partial(_convert, **bare), check_dqc, files.max_bytes(options.max_pixels),
            force=self.how.get("force", False), is_written=self.is_written, working_folder=options.working_folder,
        )  # fmt: skip

    def add(self, job: Job) -> None:
        """Plan a job, or tell why it cannot be done."""
        try:
            if files.is_stream(job.source):  # only its bytes say what it is
                check = {} if self.salvage else {"check": check_dqc}
                job = dataclasses.replace(job, data=files.read(job.source, self.work.limit, **check)[0])
            if job.error is None and _is_archive(job.source, self.salvage, job.data):
                self._add_archive(job)
            else:
                self._add_file(job)
        except FAILURES as error:
            self.teller.tell(FileResult(job.names[0], error=one_line(error)))

    def _add_file(self, job: Job) -> None:
        if self.removal:
            self.removal.note(job.source)
        self.tasks.append([self.work.task(job)])
        self.total += 1

    def _add_archive(self, job: Job) -> None:
        from dqcodec.command.unpacking import Unpacking

        if self.is_written and job.target is None:
            raise OSError("an archive goes to a folder: give one with -o")
        checks = {"salvage": self.salvage, "is_checked": not self.is_written}
        unpacking = Unpacking.plan(job.source, self._decoding(job), self.only, job.data, **checks)
        for failure in unpacking.failures():
            self.teller.tell(failure)
        for what in unpacking.oddities():
            tell(f"dqcodec: {shown(f'{job.names[0]}: {what}')}")
        self.unpackings.append(unpacking)
        self.tasks.append(unpacking.tasks())
        self.total += len(unpacking.names)

    def _decoding(self, job: Job) -> Decoding:
        from dqcodec.command.unpacking import Decoding

        return Decoding(job.names[0], job.target, working_folder=self.teller.options.working_folder, **self.how)


def _decode(jobs: Sequence[Job], plan: _Plan) -> None:
    """Decode files and archives, tell each image, and exit."""
    from dqcodec.codec import zoo

    teller = plan.teller
    teller.announce_compiling()
    usage(lambda: [zoo.locate(name) for name in teller.options.models])
    for job in jobs:
        plan.add(job)
    run(itertools.chain.from_iterable(plan.tasks), plan.total, teller, plan.removal)
    is_total = len(jobs) != 1
    for unpacking in plan.unpackings:
        result = teller.run.of(unpacking.decoding.source)
        teller.sum_up(unpacking.report(result), is_last=not is_total)
        if plan.rm and not result.failed:
            _remove(unpacking, teller)
    if is_total or (teller.run.left_out and not plan.unpackings):
        teller.total()
    sys.exit(teller.run.return_code)


def _remove(unpacking: Unpacking, teller: Teller) -> None:
    """Remove an archive whose images are all written."""
    try:
        files.remove(unpacking.source, unpacking.stamp)
    except OSError as error:
        teller.tell(FileResult(unpacking.decoding.source, error=f"written, but {one_line(error)}"))


def _convert(
    data: bytes,
    models: tuple[str, ...],
    max_pixels: int,
    format: str = "png",
    crop: Region | None = None,
    **options: Any,
) -> tuple[bytes, DecompressReport | RegionReport]:
    """A .dqc file -> a file in a format, and a report; options: those of codec.decompress."""
    from dqcodec import png
    from dqcodec.codec import codec, formats, zoo

    find_program = functools.partial(zoo.find, named=models)
    if crop:
        part, method = codec.decompress_region(data, crop, find_program, max_pixels=max_pixels)
        restored, report = png.write(part), RegionReport(method, str(crop), 0)
    else:
        restored, report = codec.decompress(data, find_program, max_pixels=max_pixels, **options)
    restored = formats.from_png(restored, format, max_pixels)
    return restored, dataclasses.replace(report, png_bytes=len(restored))
