"""The `dqcodec` command. Each command imports what it needs inside, so that --help is instant.

Per-file lines and totals go to stderr, images and --json to stdout. Exit codes: 0 ok, 1 some files failed, 2 wrong
usage, 3 nothing done.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

from . import __version__, files
from .bench.cli import bench
from .errors import DqcodecError
from .report import CompressReport, DecompressReport, FileResult, RunReport
from .training import cli as training_cli

Work = Callable[[bytes], tuple[bytes, CompressReport | DecompressReport]]

_paths = click.argument("paths", metavar="PATH...", nargs=-1, required=True)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line on stdout.")
_max_pixels = click.option(
    "--max-pixels", type=click.IntRange(min=1), metavar="N", help="Refuse larger images (default 134217728)."
)


def _conversion_options(command: Callable) -> Callable:
    """Options that compress and decompress share."""
    options = [
        click.option("-o", "--output", metavar="FILE|DIR|-", help="Where to write; - is stdout."),
        click.option("-f", "--force", is_flag=True, help="Overwrite existing files."),
        click.option("-r", "--recursive", is_flag=True, help="Take directories, mirroring their trees."),
        click.option("--rm", is_flag=True, help="Remove each source once its output is checked and written."),
        _json,
        click.option("-j", "--jobs", "processes", type=click.IntRange(min=1), default=1, metavar="N", help="Files at a time."),
        click.option("-q", "--quiet", is_flag=True, help="Print errors only."),
        click.option("-v", "--verbose", is_flag=True, help="Print where the bytes go."),
        _max_pixels,
    ]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


def _model_option(multiple_help: str) -> Callable:
    return click.option("-m", "--model", "models", metavar="NAME|FILE", multiple=True, help=multiple_help)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dqcodec")
def main() -> None:
    """Lossless image compression with trained models.

    \b
    dqcodec compress photo.png          -> photo.png.dqc
    dqcodec decompress photo.png.dqc    -> photo.png
    """


@main.command()
@_paths
@_model_option("Use this model only (repeatable; default: the best of all).")
@click.option("--strip", is_flag=True, help="Leave out texts, times, Exif and other chunks that do not change the picture.")
@click.option("--exact", is_flag=True, help="Keep the PNG file itself, byte for byte, not only its picture and metadata.")
@click.option("--no-verify", is_flag=True, help="Do not decode the result to check it.")
@_conversion_options
def compress(paths, models, strip, exact, no_verify, output, recursive, max_pixels, **options):
    """Compress PNG files: a.png -> a.png.dqc.

    \b
    dqcodec compress -r photos -o packed/ -j 4
    dqcodec compress - -o - < a.png > a.dqc
    """
    if options["rm"] and no_verify:
        raise click.UsageError("--rm needs verification; leave out --no-verify.")
    if strip and exact:
        raise click.UsageError("--strip changes the file that --exact keeps.")
    jobs = _plan(paths, output, files.compressed_name, recursive, ".png", options["as_json"])
    from . import zoo

    names = tuple(models or zoo.names())
    _usage(lambda: [zoo.load(name) for name in names])
    kept = {"strip": strip, "exact": exact, "verify": not no_verify} | _limit(max_pixels)
    _convert(jobs, functools.partial(_compress, models=names, options=kept), **options)


@main.command()
@_paths
@_model_option("Also look for the file's model here (repeatable).")
@click.option("--repack", is_flag=True, help="Pack PNGs anew that --exact could give byte for byte.")
@_conversion_options
def decompress(paths, models, repack, output, recursive, max_pixels, **options):
    """Decompress .dqc files: a.png.dqc -> a.png.

    \b
    dqcodec decompress a.png.dqc -o b.png
    """
    jobs = _plan(paths, output, files.decompressed_name, recursive, ".dqc", options["as_json"])
    from . import zoo

    _usage(lambda: [zoo.locate(name) for name in models])
    _convert(jobs, functools.partial(_decompress, models=models, options={"repack": repack} | _limit(max_pixels)), **options)


@main.command()
@_paths
@_json
@_max_pixels
def info(paths, as_json, max_pixels):
    """Show what .dqc files hold, without decoding them."""
    import dataclasses

    from . import codec

    run = RunReport()
    for path in paths:
        source = None if path == files.STDIO else Path(path)
        result = FileResult(path, "")
        try:
            told = codec.info(files.read(source), **_limit(max_pixels))
            fields = dataclasses.asdict(told) | {"model_id": told.model_id}
            shown = fields | {"layers": "; ".join(map(str, told.layers)) or None}
            click.echo(json.dumps({"source": path} | fields) if as_json else f"{path}: {_fields(shown)}")
        except (DqcodecError, OSError) as error:
            result = FileResult(path, "", error=_one_line(error))
            _report_failure(result, as_json)
        run.results.append(result)
    sys.exit(run.return_code)


@main.command()
@_json
def models(as_json):
    """List the models at hand with their cards."""
    from . import zoo

    for name, path in zoo.paths().items():
        fields = {"id": zoo.file_id(path.resolve()).hex(), "bytes": path.stat().st_size}
        try:
            fields |= zoo.load(name).card
        except DqcodecError as error:
            fields["error"] = str(error)
        click.echo(json.dumps({"name": name} | fields) if as_json else f"{name}: {_fields(fields)}")
    if not zoo.names():
        click.echo(f"no models in {zoo.directory()}", err=True)


main.add_command(bench)
main.add_command(training_cli.train)
main.add_command(training_cli.evaluate)
main.add_command(training_cli.export)


def _plan(paths, output, rename, recursive, suffix, as_json) -> list[files.Job]:
    try:
        jobs = files.plan(paths, output, rename, recursive=recursive, suffix=suffix)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json and any(job.target is None for job in jobs):
        raise click.UsageError("--json and the image cannot both go to stdout.")
    return jobs


def _usage(load: Callable[[], Any]) -> Any:
    """Its result; an error in what the user named is one of usage."""
    try:
        return load()
    except DqcodecError as error:
        raise click.UsageError(str(error)) from error


def _limit(max_pixels: int | None) -> dict[str, int]:
    return {} if max_pixels is None else {"max_pixels": max_pixels}


def _compress(data: bytes, models: tuple[str, ...], options: dict[str, Any]) -> tuple[bytes, CompressReport]:
    from . import codec, zoo

    return codec.compress(data, [zoo.load(name) for name in models], **options)


def _decompress(data: bytes, models: tuple[str, ...], options: dict[str, Any]) -> tuple[bytes, DecompressReport]:
    from . import codec, zoo

    return codec.decompress(data, functools.partial(zoo.find, named=models), **options)


def _convert(jobs: list[files.Job], work: Work, *, processes, force, rm, as_json, quiet, verbose) -> NoReturn:
    """Do all jobs, telling of each, and exit with the code of the whole run."""
    run = RunReport()
    results = _results(jobs, functools.partial(_convert_one, work=work, force=force, rm=rm), min(processes, len(jobs)))
    for result in _progress(results, len(jobs), enabled=not (quiet or as_json)):
        run.results.append(result)
        if result.error:
            _report_failure(result, as_json)
        elif as_json:
            click.echo(json.dumps(result.as_dict()))
        elif not quiet:
            click.echo(result.line(), err=True)
            if verbose:
                click.echo(f"  {result.report.details()}", err=True)
    if len(jobs) != 1 and not (quiet or as_json):
        click.echo(run.totals(), err=True)
    sys.exit(run.return_code)


def _results(
    jobs: list[files.Job], convert: Callable[[files.Job], FileResult], processes: int
) -> Iterator[FileResult]:
    """What becomes of the jobs, in their order; by several processes, a file each at a time, if asked for."""
    if processes < 2:
        yield from map(convert, jobs)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # a process that has used threads must not fork
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(convert, jobs)


def _convert_one(job: files.Job, work: Work, *, force: bool, rm: bool) -> FileResult:
    try:
        files.check_target(job.target, force=force)
        data, report = work(files.read(job.source))
        files.write(job.target, data, force=force, like=job.source)
        if rm and job.source and job.target:
            job.source.unlink()
    except (DqcodecError, OSError, MemoryError) as error:
        return FileResult(*job.names, error=_one_line(error))
    return FileResult(*job.names, report=report)


def _progress(results: Iterator[FileResult], total: int, *, enabled: bool) -> Iterable[FileResult]:
    """The results; on a terminal, with a progress bar on stderr when they are many."""
    if not (enabled and total > 1 and sys.stderr.isatty()):
        return results
    from rich.console import Console
    from rich.progress import track

    return track(results, total=total, description="", console=Console(stderr=True), transient=True)


def _report_failure(result: FileResult, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.as_dict()))
    click.echo(f"dqcodec: {result.line()}", err=True)


def _one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join((text or type(error).__name__).split())


def _fields(fields: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in fields.items() if value is not None)
