"""The `dqcodec` command. Each command imports what it needs inside, so that --help is instant.

Per-file lines and totals go to stderr, images and --json to stdout. Exit codes: 0 ok, 1 some files failed, 2 wrong
usage, 3 nothing done, 128 + number ended by a signal.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dqcodec import __version__
from dqcodec.base import ending
from dqcodec.base.errors import DqcodecError, FormatError, WorkerError, one_line
from dqcodec.codec.report import CompressReport, DecodedReport, DecompressReport
from dqcodec.command import files
from dqcodec.command import training as training_cli
from dqcodec.command.bench import bench
from dqcodec.command.results import ArchiveReport, FileResult, RunReport, UnpackReport, shown

if TYPE_CHECKING:
    from dqcodec.command.archiving import Map, Task

Work = Callable[[bytes], tuple[bytes, CompressReport | DecompressReport]]
Workers = Callable[[int], contextlib.AbstractContextManager["Map"]]  # for so many items

_FAILURES = (DqcodecError, OSError, MemoryError)  # what goes wrong with a file; others may go well

_paths = click.argument("paths", metavar="PATH...", nargs=-1, required=True)
_files = click.argument("paths", metavar="FILE...", nargs=-1, required=True)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
_force = click.option("-f", "--force", is_flag=True, help="Overwrite existing files.")
_max_pixels = click.option(
    "--max-pixels", type=click.IntRange(min=1), metavar="N", help="Refuse larger images (default 134217728)."
)


def _options(*options: Callable) -> Callable:
    """Several options as one decorator."""
    return lambda command: functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


_running_options = _options(
    click.option("-r", "--recursive", is_flag=True, help="Take directories, mirroring their trees."),
    _json,
    click.option(
        "-j",
        "--jobs",
        "processes",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Files or groups at a time.",
    ),
    click.option("--cluster", metavar="ADDRESS", help="Work on the Dask cluster whose scheduler is there."),
    click.option("-q", "--quiet", is_flag=True, help="Print errors only."),
    click.option("-v", "--verbose", is_flag=True, help="Print more: of each file where the bytes go."),
    _max_pixels,
)
_conversion_options = _options(
    click.option("-o", "--output", metavar="FILE|DIR|-", help="Where to write; - is stdout."),
    _force,
    click.option("--rm", is_flag=True, help="Remove each source once its output is checked and written."),
    _running_options,
)


def _model_option(multiple_help: str) -> Callable:
    return click.option("-m", "--model", "models", metavar="NAME|FILE", multiple=True, help=multiple_help)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dqcodec")
def main() -> None:
    """Lossless image compression with trained models.

    \b
    dqcodec compress photo.png          -> photo.png.dqc
    dqcodec compress photos -o set.dqc  -> all of them in one archive
    dqcodec decompress photo.png.dqc    -> photo.png
    """
    click.get_current_context().with_resource(ending.ending_by_signals(_tell_of_end))


def _tell_of_end(number: signal.Signals) -> None:
    click.echo(f"dqcodec: ended by {number.name}; files that were being written are removed", err=True)


@main.command()
@_paths
@_model_option("Use this model only (repeatable; default: the best of all).")
@click.option("--strip", is_flag=True, help="Leave out texts, times, Exif: what does not change the picture.")
@click.option("--exact", is_flag=True, help="Keep the PNG file itself, byte for byte; rests on zlib's own deflate.")
@click.option("--best", is_flag=True, help="Try on large images, too, what takes long both ways.")
@click.option(
    "--particles", type=click.IntRange(1, 64), default=1, metavar="K", help="Of a flow with uniform q: smaller and slower."
)
@click.option("--no-verify", is_flag=True, help="Do not decode the result to check it.")
@click.option("--group", type=click.IntRange(min=1), metavar="N", help="In an archive, code at most N images together.")
@_conversion_options
def compress(
    paths, models, strip, exact, best, particles, no_verify, group, output, recursive, max_pixels, processes, cluster, force, rm,
    **told
):
    """Compress PNG files: a.png -> a.png.dqc; of BMP, PPM, TIFF, WebP, JPEG, GIF and .npy files the pixels.

    \b
    dqcodec compress -r photos -o packed/ -j 4
    dqcodec compress photos -o set.dqc       (one archive)
    dqcodec compress - -o - < a.png > a.dqc
    """
    if rm and no_verify:
        raise click.UsageError("--rm needs verification; leave out --no-verify.")
    if strip and exact:
        raise click.UsageError("--strip changes the file that --exact keeps.")
    teller, workers = _Teller(**told), functools.partial(_workers, processes, cluster)
    kept = {"strip": strip, "exact": exact, "best": best, "particles": particles, "verify": not no_verify}
    kept |= _limit(max_pixels)
    if files.is_for_archive(paths, output):
        inputs = _usage(lambda: files.plan_archive(paths, files.PNG_SUFFIX, teller.skip))
        work = functools.partial(_pack, inputs, Path(output), group_images=group, workers=workers)
    else:
        if group:
            raise click.UsageError("--group is for archives: a directory or many files, with -o FILE.dqc.")
        jobs = _plan(paths, output, files.compressed_name, recursive, files.PNG_SUFFIX, teller)
        work = functools.partial(_compress, jobs, workers=workers)
    from dqcodec.codec import zoo

    teller.when_compiling()
    names = tuple(models or zoo.names())
    _usage(lambda: [zoo.load(name) for name in names])
    work(teller, models=names, force=force, rm=rm, **kept)
    sys.exit(teller.run.return_code)


@main.command()
@_paths
@_model_option("Also look for the file's model here (repeatable).")
@click.option("--repack", is_flag=True, help="Pack PNGs anew that --exact could give byte for byte.")
@click.option("--only", metavar="GLOB", multiple=True, help="Of archives, only images of such names (repeatable).")
@click.option(
    "--format",
    type=click.Choice(files.FORMATS),
    default="png",
    help="Write other files than PNGs, where that is exact.",
)
@_conversion_options
def decompress(
    paths, models, repack, only, format, output, recursive, max_pixels, processes, cluster, force, rm, **told
):
    """Decompress .dqc files: a.png.dqc -> a.png, and archives: set.dqc -> set/...

    \b
    dqcodec decompress a.png.dqc -o b.png
    dqcodec decompress set.dqc -o photos --only 'a/*.png'
    """
    if rm and (only or format != "png"):
        raise click.UsageError("--rm would lose what --only or --format leaves out.")
    teller = _Teller(**told)
    if output and output != files.STDIO and len(paths) == 1 and _is_archive(Path(paths[0])):
        jobs = [files.Job(Path(paths[0]), Path(output))]
    else:
        rename = functools.partial(_decompressed_name, suffix=f".{format}")
        jobs = _plan(paths, output, rename, recursive, files.DQC_SUFFIX, teller)
    archives = [job.source for job in jobs if job.source and _is_archive(job.source)]
    if archives and output == files.STDIO:
        raise click.UsageError("an archive does not go to stdout.")
    if only and len(archives) < len(jobs):
        raise click.UsageError("--only is for archives.")
    options = {"models": models, "repack": repack, "format": format} | _limit(max_pixels)
    workers = functools.partial(_workers, processes, cluster)
    _decode(jobs, teller, workers, only=only, is_written=True, force=force, rm=rm, **options)
    sys.exit(teller.run.return_code)


@main.command()
@_files
@_model_option("Also look for the file's model here (repeatable).")
@_running_options
def verify(paths, models, recursive, max_pixels, processes, cluster, **told):
    """Decode .dqc files and archives and compare checksums; nothing is written.

    \b
    dqcodec verify -r packed set.dqc
    """
    teller = _Teller(**told)
    inputs = _usage(lambda: files.find(paths, recursive, files.DQC_SUFFIX, teller.skip))
    jobs = [files.Job(source, None) for source, _ in inputs]
    _decode(jobs, teller, functools.partial(_workers, processes, cluster), models=models, **_limit(max_pixels))
    sys.exit(teller.run.return_code)


@main.command("list")
@_files
@_json
@_max_pixels
def list_images(paths, as_json, max_pixels):
    """List the images of archives and .dqc files: size, kind, time and name."""
    from dqcodec.command import archiving

    run = RunReport()
    for path in paths:
        if len(paths) > 1 and not as_json and _is_archive(Path(path)):
            click.echo(f"{shown(path)}:")
        for image in archiving.listed(Path(path), **_limit(max_pixels)):
            run.results.append(FileResult(path, error=image.error, member=image.member))
            if image.error:
                _report_failure(run.results[-1], as_json)
            else:
                click.echo(json.dumps({"source": path} | image.as_dict()) if as_json else shown(image.line()))
    sys.exit(run.return_code)


@main.command()
@_paths
@_json
@_max_pixels
def info(paths, as_json, max_pixels):
    """Show what .dqc files and archives hold, without decoding them."""
    run = RunReport()
    for path in paths:
        result = FileResult(path)
        try:
            fields, text = _info(None if path == files.STDIO else Path(path), _limit(max_pixels))
            click.echo(json.dumps({"source": path} | fields) if as_json else f"{path}: {text}")
        except _FAILURES as error:
            result = FileResult(path, error=one_line(error))
            _report_failure(result, as_json)
        run.results.append(result)
    sys.exit(run.return_code)


@main.command()
@_json
def models(as_json):
    """List the models at hand with their cards."""
    from dqcodec.codec import zoo

    for name, path in zoo.paths().items():
        fields = {"id": zoo.file_id(path.resolve()).hex(), "bytes": path.stat().st_size}
        try:
            fields |= zoo.load(name).card
        except DqcodecError as error:
            fields["error"] = str(error)
        click.echo(json.dumps({"name": name} | fields) if as_json else f"{name}: {_fields(fields)}")
    if not zoo.names():
        click.echo(f"no models in {zoo.directory()}", err=True)


@main.command()
@click.argument("model", metavar="NAME|FILE")
@click.option("-o", "--output", metavar="FILE|-", required=True, help="The PNG file to write; - is stdout.")
@click.option("--count", type=click.IntRange(min=1), default=16, show_default=True, help="How many samples.")
@click.option("--side", type=click.IntRange(min=1), default=64, show_default=True, help="Their height and width.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random bits.")
@_force
def sample(model, output, count, side, seed, force):
    """Draw images from a model, by decoding random bits, into one PNG.

    \b
    dqcodec sample photo -o samples.png
    """
    target = None if output == files.STDIO else Path(output)
    from dqcodec import png
    from dqcodec.codec import sampling, zoo

    program = _usage(lambda: zoo.load(model))
    try:
        files.check_target(target, force=force)
        sheet = sampling.grid(sampling.sample(program, count, side, seed), program.bits)
        files.write(target, png.write(png.plain(sheet)), force=force)
    except _FAILURES as error:
        _report_failure(FileResult(output, error=one_line(error)), as_json=False)
        sys.exit(3)


main.add_command(bench)
main.add_command(training_cli.train)
main.add_command(training_cli.evaluate)
main.add_command(training_cli.export)


@dataclass
class _Teller:
    """Tells of results as they come, and keeps them."""

    as_json: bool
    quiet: bool
    verbose: bool
    run: RunReport = field(default_factory=RunReport)
    advance: Callable[[], Any] = lambda: None  # a progress bar

    def tell(self, result: FileResult) -> None:
        self.run.results.append(result)
        self.advance()
        if result.error:
            _report_failure(result, self.as_json)
        elif self.as_json:
            click.echo(json.dumps(result.as_dict()))
        elif self.verbose or not (self.quiet or result.is_of_archive):
            click.echo(result.line(), err=True)
            if self.verbose and (details := result.details()):
                click.echo(f"  {details}", err=True)

    def sum_up(self, report: ArchiveReport | UnpackReport) -> None:
        """An archive's line."""
        if self.as_json:
            click.echo(json.dumps(report.as_dict()))
        elif not self.quiet:
            click.echo(report.line(), err=True)

    def skip(self, path: Path) -> None:
        """A link, or a special file."""
        if self.verbose:
            click.echo(f"{shown(str(path))}: left out, no regular file", err=True)

    def when_compiling(self) -> None:
        """On a terminal, tell of the first compilation of loops when it comes."""
        if not self.quiet and sys.stderr.isatty():
            from dqcodec.base.compiled import when_compiling

            when_compiling(lambda: click.echo("compiling loops, once on this machine ...", err=True))

    @contextlib.contextmanager
    def progress(self, total: int) -> Iterator[None]:
        """On a terminal, show a progress bar on stderr if there are many results to come."""
        if self.quiet or self.as_json or total < 2 or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as progress:
            self.advance = functools.partial(progress.advance, progress.add_task("", total=total))
            with ending.at_end(progress.stop):  # it hides the cursor
                yield

    def total(self) -> None:
        if not (self.quiet or self.as_json):
            click.echo(self.run.totals(), err=True)


def _plan(paths, output, rename, recursive, suffix, teller) -> list[files.Job]:
    jobs = _usage(lambda: files.plan(paths, output, rename, recursive=recursive, suffix=suffix, skip=teller.skip))
    if teller.as_json and any(job.target is None for job in jobs):
        raise click.UsageError("--json and the image cannot both go to stdout.")
    return jobs


def _usage(load: Callable[[], Any]) -> Any:
    """Its result; an error in what the user named is one of usage."""
    try:
        return load()
    except (DqcodecError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def _limit(max_pixels: int | None) -> dict[str, int]:
    return {} if max_pixels is None else {"max_pixels": max_pixels}


def _is_archive(source: Path) -> bool:
    from dqcodec.format import archive

    return archive.is_archive(files.start(source))


def _decompressed_name(source: Path, suffix: str) -> str:
    if _is_archive(source):
        return source.name.removesuffix(files.DQC_SUFFIX)
    return files.decompressed_name(source, suffix)


def _pack(inputs, target, teller, *, workers, group_images, models, force, rm, verify, max_pixels=None, **options):
    """Pack the inputs into one archive, telling of each."""
    from dqcodec.command import archiving

    shared = {"verify": verify} | _limit(max_pixels)
    work = functools.partial(archiving.pack_batch, target=target, models=models, **options, **shared)
    kept = {"group_images": group_images, "force": force, "rm": rm} | shared
    try:
        with workers(len(inputs)) as mapped, teller.progress(len(inputs)):
            report = archiving.pack(inputs, target, work, mapped, teller.tell, **kept)
    except _FAILURES as error:
        _report_failure(FileResult(str(target), error=one_line(error)), teller.as_json)
        sys.exit(3)
    if report:
        teller.sum_up(report)
    else:
        teller.total()


def _compress(jobs, teller, *, workers, models, force, rm, **options) -> None:
    work = functools.partial(_compress_bytes, models=models, rm=rm, **options)
    tasks = [functools.partial(_convert, job, work, force=force, rm=rm) for job in jobs]
    _run(tasks, len(tasks), workers, teller)
    if len(jobs) != 1:
        teller.total()


def _compress_bytes(data: bytes, models: tuple[str, ...], rm: bool, **options: Any) -> tuple[bytes, CompressReport]:
    import dataclasses

    from dqcodec.codec import codec, library, zoo

    png_file = library.to_png(data, is_kept=not rm, **_limit(options.get("max_pixels")))
    dqc, report = codec.compress(png_file, [zoo.load(name) for name in models], **options)
    return dqc, dataclasses.replace(report, png_bytes=len(data))


def _decompress_bytes(
    data: bytes, models: tuple[str, ...], format: str = "png", **options: Any
) -> tuple[bytes, DecompressReport]:
    import dataclasses

    from dqcodec.codec import codec, library, zoo
    from dqcodec.format import archive

    if archive.is_archive(data):
        raise FormatError("an archive cannot be read from standard input")
    restored, report = codec.decompress(data, functools.partial(zoo.find, named=models), **options)
    restored = library.from_png(restored, format, **_limit(options.get("max_pixels")))
    return restored, dataclasses.replace(report, png_bytes=len(restored))


def _decode(jobs, teller, workers, *, models, only=(), is_written=False, force=False, rm=False, **options) -> None:
    """Decode files and archives, telling of each image; with `is_written`, to the jobs' targets."""
    from dqcodec.codec import zoo
    from dqcodec.command import archiving

    teller.when_compiling()
    _usage(lambda: [zoo.locate(name) for name in models])
    options |= {"models": models}
    work = functools.partial(_decompress_bytes, **options)
    tasks, unpackings, total = [], [], 0
    for job in jobs:
        if not (job.source and _is_archive(job.source)):
            decode = functools.partial(_convert, force=force, rm=rm) if is_written else _check
            tasks.append([functools.partial(decode, job, work)])
            total += 1
            continue
        try:
            unpacking = archiving.Unpacking.plan(job.source, job.target, only, **options)
        except _FAILURES as error:
            teller.tell(FileResult(str(job.source), error=one_line(error)))
            continue
        for pattern in unpacking.unmatched:
            teller.tell(FileResult(str(job.source), error=f"no image's name matches {pattern}"))
        unpackings.append(unpacking)
        tasks.append(unpacking.tasks(force=force))
        total += len(unpacking.names)
    _run(itertools.chain.from_iterable(tasks), total, workers, teller)
    for unpacking in unpackings:
        run = teller.run.of(str(unpacking.source))
        teller.sum_up(unpacking.report(run))
        if rm and not run.failed:
            try:
                files.remove(unpacking.source, unpacking.stamp)
            except OSError as error:
                teller.tell(FileResult(str(unpacking.source), error=one_line(error)))
    if len(jobs) != 1:
        teller.total()


def _run(tasks: Iterable[Task], total: int, workers: Workers, teller: _Teller) -> None:
    """Do all tasks, of so many results together, and tell of each."""
    missing = total
    try:
        with workers(total) as mapped, teller.progress(total):
            for results in mapped(_call, tasks):
                for result in results:
                    teller.tell(result)
                    missing -= 1
    except WorkerError as error:
        raise click.ClickException(f"{error}; {missing} of {total} results did not come") from error


def _call(task: Task) -> list[FileResult]:
    return task()


@contextlib.contextmanager
def _workers(processes: int, cluster: str | None, items: int) -> Iterator[Map]:
    """map, lazy, for so many items at most; by a cluster or several processes, if asked for."""
    count = min(processes, items)
    if not cluster and count < 2:
        yield map
        return
    from dqcodec.command import workers

    with workers.cluster(cluster) if cluster else workers.processes(count) as mapped:
        yield mapped


def _convert(job: files.Job, work: Work, *, force: bool, rm: bool) -> list[FileResult]:
    try:
        files.check_target(job.target, force=force)
        data, stamp = files.read(job.source)
        converted, report = work(data)
        files.write(job.target, converted, force=force, stamp=stamp)
        if rm and job.source and job.target:
            files.remove(job.source, stamp)
    except _FAILURES as error:
        return [FileResult(*job.names, error=one_line(error))]
    return [FileResult(*job.names, report=report)]


def _check(job: files.Job, work: Work) -> list[FileResult]:
    source, _ = job.names
    try:
        _, report = work(files.read(job.source)[0])
    except _FAILURES as error:
        return [FileResult(source, error=one_line(error))]
    return [FileResult(source, report=DecodedReport(report.method, report.png_bytes, report.dqc_bytes))]


def _info(source: Path | None, limit: dict[str, int]) -> tuple[dict[str, Any], str]:
    """What a file says of itself, for machines and for people."""
    import dataclasses

    from dqcodec.codec import codec
    from dqcodec.command import archiving
    from dqcodec.format import archive

    if source and _is_archive(source):
        with archive.Archive(source, **limit) as packed:
            fields = archiving.info(packed)
        counts = {
            key: f"({', '.join(f'{count} {name}' for name, count in fields[key].items())})" if fields[key] else None
            for key in ("methods", "models")
        }
        return fields, _fields(fields | counts)
    told = codec.info(files.read(source)[0], **limit)
    fields = dataclasses.asdict(told) | {"model_id": told.model_id}
    return fields, _fields(fields | {"layers": "; ".join(map(str, told.layers)) or None})


def _report_failure(result: FileResult, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_dict()))
    click.echo(f"dqcodec: {result.line()}", err=True)


def _fields(fields: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in fields.items() if value is not None)
