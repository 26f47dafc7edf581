"""`dqcodec list`, `info` and `models`: facts about files, archives and models."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dqcodec.base.errors import FAILURES, DqcodecError, one_line
from dqcodec.command import options as opts
from dqcodec.command.kinds import hinting_at_salvage
from dqcodec.command.options import Showing
from dqcodec.command.progress import print_failure
from dqcodec.command.results import FileResult, RunReport, shown
from dqcodec.command.streams import print_line
from dqcodec.command.walk import source_path

_COLUMNS = ("name", "id", "bytes", "valid_vi_bpd", "description")


@click.command("list")
@opts.files
@opts.takes(Showing)
def list_images(paths: tuple[str, ...], options: Showing) -> None:
    """List the images of archives and .dqc files.

    Each line shows an image's width and height, colours, time and name. No image is decoded; verify finds all damage.
    """
    from dqcodec.command.listing import listed

    run = RunReport()
    for path in paths:
        before = len(run.results)
        for result in listed(path, options.max_pixels):
            if len(run.results) == before and result.name is not None and len(paths) > 1 and not options.as_json:
                click.echo(f"{shown(path)}:")
            run.results.append(result)
            if result.error:
                print_failure(result, options.as_json)
            elif options.as_json:
                click.echo(json.dumps({"source": path} | result.report.as_dict()))
            else:
                click.echo(shown(result.report.line()))
        run.empty_archives += len(run.results) == before
    sys.exit(run.return_code)


@click.command()
@opts.paths
@opts.takes(Showing)
def info(paths: tuple[str, ...], options: Showing) -> None:
    """Show what .dqc files and archives hold.

    No image is decoded; verify finds all damage.
    """
    run = RunReport()
    for path in paths:
        try:
            fields, rows = _info(source_path(path), options.max_pixels)
        except FAILURES as error:
            run.results.append(FileResult(path, error=one_line(error)))
            print_failure(run.results[-1], options.as_json)
            continue
        click.echo(json.dumps({"source": path} | fields) if options.as_json else _show(path, rows))
        run.results.append(FileResult(path))
        run.results += [FileResult(path, error=what) for what in fields.get("damage", ())]
    sys.exit(run.return_code)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line on stdout.")
def models(as_json: bool) -> None:
    """List the models at hand.

    valid_vi_bpd is the size in bits per sample, on images that were not used to train the model. --json prints each
    model's whole card.
    """
    from dqcodec.codec import zoo

    cards = []
    for name, path in zoo.paths().items():
        fields = {"name": name, "id": zoo.file_id(path.resolve()).hex(), "bytes": path.stat().st_size}
        try:
            fields |= zoo.load(name).card
        except DqcodecError as error:
            fields["error"] = str(error)
        cards.append(fields)
        if as_json:
            click.echo(json.dumps(fields))
    if not cards:
        print_line(f"no models in {zoo.directory()}")
    elif not as_json:
        rows = [[card.get(column, card.get("error", "")) for column in _COLUMNS] for card in cards]
        click.echo(table([_COLUMNS, *rows]))


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Rows, each with the same number of cells, as lines with aligned columns."""
    cells = [[shown(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def _show(path: str, rows: list[tuple[str, Any]]) -> str:
    """A file's name, and below it a line for each field that has a value."""
    filled = [(f"  {key.replace('_', ' ')}", value) for key, value in rows if value not in (None, (), "")]
    return f"{shown(path)}\n{table(filled)}"


def _info(source: Path | None, max_pixels: int) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Facts about a file: fields for machines, rows for people."""
    from dqcodec.codec import codec
    from dqcodec.command import listing

    packed, data, _ = listing.opened(source, max_pixels)
    if packed is not None:  # an archive without files is falsy
        with packed:
            fields = listing.info(packed)
        counts = {
            key: ", ".join(f"{count} {name}" for name, count in fields[key].items()) for key in ("methods", "models")
        }
        own = {"own_models": ", ".join(f"{each} (changes {base})" for each, base in fields["own_models"].items())}
        damage = {"damage": "; ".join(fields.get("damage", ()))}
        return fields, [
            (key, value) for key, value in (fields | counts | own | damage).items() if key != "own_model_bytes" or value
        ]
    with hinting_at_salvage(data):
        image = codec.info(data, max_pixels=max_pixels)
    fields = dataclasses.asdict(image) | {"model_id": image.model_id}
    rows = [(key, value) for key, value in fields.items() if key != "layers"]
    return fields, rows + [("" if number else "layers", layer) for number, layer in enumerate(image.layers)]
