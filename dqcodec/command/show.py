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
from dqcodec.command.failures import usage_errors
from dqcodec.command.kinds import DQC, hinting_at_salvage
from dqcodec.command.options import Showing
from dqcodec.command.progress import print_failure
from dqcodec.command.results import FileResult, RunReport, counted, shown
from dqcodec.command.streams import print_line
from dqcodec.command.walk import find, shown_source

_USES = {  # name, or its first part -> what a model is for
    "photo": "RGB photographs",
    "gray": "gray photographs",
    "cifar10": "32 x 32 images",
    "mnist": "binary digits",
}
_EFFORTS = {"fast": ", --fast", "large": ", --best"}


@click.command("list")
@opts.paths
@opts.takes(Showing)
def list_images(paths: tuple[str, ...], options: Showing) -> None:
    """List the images of archives and .dqc files.

    Each line shows width and height, colours, time and name. For a .dqc file it also shows the bytes, and the name that
    comes back. No image is decoded; verify finds all damage.

    \b
    dqcodec list set.dqc
    dqcodec list -r packed
    """
    from dqcodec.command.listing import listed

    sources, run = _sources(paths, options)
    for source in sources:
        before, name = len(run.results), shown_source(source)
        for result in listed(source, options.max_pixels):
            if len(run.results) == before and result.name is not None and len(sources) > 1 and not options.as_json:
                click.echo(f"{shown(name)}:")
            run.results.append(result)
            if result.error:
                print_failure(result, options.as_json)
            elif options.as_json:
                click.echo(json.dumps({"source": name} | result.report.as_dict()))
            else:
                click.echo(shown(result.report.line()))
        run.empty_archives += len(run.results) == before
    sys.exit(run.return_code)


@click.command()
@opts.paths
@opts.takes(Showing)
def info(paths: tuple[str, ...], options: Showing) -> None:
    """Show what .dqc files and archives hold.

    samples: numbers of a pixel, 3 in RGB. layers: parts of the pixels that are coded one by one. payload: their code.
    chunk bytes: of the PNG's other chunks, as packed. exact: whether the PNG file comes back byte for byte.

    No image is decoded; verify finds all damage.

    \b
    dqcodec info photo.png.dqc set.dqc
    """
    sources, run = _sources(paths, options)
    for source in sources:
        name = shown_source(source)
        try:
            fields, rows = _info(source, options.max_pixels)
        except FAILURES as error:
            run.results.append(FileResult(name, error=one_line(error)))
            print_failure(run.results[-1], options.as_json)
            continue
        click.echo(json.dumps({"source": name} | fields) if options.as_json else _show(name, rows))
        run.results.append(FileResult(name))
        run.results += [FileResult(name, error=what) for what in fields.get("damage", ())]
    sys.exit(run.return_code)


def _sources(paths: Sequence[str], options: Showing) -> tuple[list[Path | None], RunReport]:
    """The files that the paths lead to, and the report of the run; a line says so if folders hold none."""
    with usage_errors():
        found = find(paths, options.recursive, DQC)
    run = RunReport()
    if not found.inputs:
        run.left_out.update(left_out.reason for left_out in found.not_taken)
        print_line(run.totals())
    return [source for source, _ in found.inputs], run


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line on stdout.")
def models(as_json: bool) -> None:
    """List the models at hand.

    bpd: bits per sample, on images that the model was not trained on. --json prints ids and whole cards.
    """
    from dqcodec.codec import zoo
    from dqcodec.exact.identity import file_id

    cards = []
    for name, path in zoo.paths().items():
        fields = {"name": name, "id": file_id(path.resolve()).hex(), "bytes": path.stat().st_size}
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
        rows = [[card["name"], _use(card), card["bytes"], _rounded(card.get("valid_vi_bpd"))] for card in cards]
        click.echo(table([("name", "for", "bytes", "bpd"), *rows]))


def _rounded(bpd: float | None) -> str:
    return "" if bpd is None else f"{bpd:.3f}"


def _use(card: dict[str, Any]) -> str:
    """What a model is for, or what is wrong with its file."""
    kind, *rest = card["name"].split("-")
    use = card.get("error") or card.get("for") or _USES.get(kind) or card.get("description", "")
    return use + "".join(_EFFORTS.get(each, "") for each in rest if kind in _USES)


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
    from dqcodec.codec import codec, zoo
    from dqcodec.command import listing

    packed, data, _ = listing.opened(source, max_pixels)
    if packed is not None:  # an archive without files is falsy
        with packed:
            fields = listing.info(packed)
        own = fields["own_models"]
        texts = {
            "methods": ", ".join(f"{count} {name}" for name, count in fields["methods"].items()),
            "models": ", ".join(
                f"{count} {each if each in own else _model(each)}" for each, count in fields["models"].items()
            ),
            "own_models": ", ".join(f"{each} (changes {_model(base)})" for each, base in own.items()),
            "own_model_bytes": fields["own_model_bytes"] or None,
            "damage": "; ".join(fields.get("damage", ())),
        }
        return fields, [*(fields | texts).items()]
    with hinting_at_salvage(data):
        image = codec.info(data, max_pixels=max_pixels)
    fields = dataclasses.asdict(image) | {"model_id": image.model_id}
    further = f"{image.rasters} (the default image and {counted(image.rasters - 1, 'further frame')})"
    texts = {
        "rasters": further if image.rasters > 1 else None,
        "exact": "yes: the PNG file byte for byte" if image.exact else "no",
        "model_id": image.model_id and _model(image.model_id),
    }
    labels = {"rasters": "pictures", "model_id": "model"}
    rows = [(labels.get(key, key), texts.get(key, value)) for key, value in fields.items() if key != "layers"]
    layers = [
        dataclasses.replace(layer, model=layer.model and (zoo.name_of(bytes.fromhex(layer.model)) or layer.model))
        for layer in image.layers
    ]
    return fields, rows + [("" if number else "layers", layer) for number, layer in enumerate(layers)]


def _model(model_id: str) -> str:
    """`photo (8378f37c)`, or the whole id of a model that is not at hand."""
    from dqcodec.codec import zoo

    name = zoo.name_of(bytes.fromhex(model_id))
    return f"{name} ({model_id[:8]})" if name else f"{model_id} (not at hand: -m FILE)"
