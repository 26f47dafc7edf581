"""`dqcodec inspect`: where the bits of one image went, as a page or a map."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from dqcodec.base.errors import FormatError, one_line
from dqcodec.command import atomic, reading
from dqcodec.command import options as opts
from dqcodec.command.failures import ending_with_failure, usage_errors
from dqcodec.command.kinds import ARCHIVE, DQC, PNG
from dqcodec.command.names import STDIO, check_image_name, check_page_name
from dqcodec.command.options import Inspecting
from dqcodec.command.plan import check_apart
from dqcodec.command.results import shown
from dqcodec.command.streams import print_line
from dqcodec.command.walk import shown_source, source_path


@click.command()
@click.argument("path", metavar="FILE")
@opts.takes(Inspecting)
def inspect(path: str, options: Inspecting) -> None:
    """Show where the bits of an image go.

    The page has the image, a map of its bits, the layers, the lengths of the codes, and other codecs' sizes. It is one
    file. An image is compressed first.

    \b
    dqcodec inspect a.png -o a.html
    dqcodec inspect a.png.dqc --map bits.png
    """
    if not options.output and not options.map:
        raise click.UsageError("give a page with -o or a map with --map")
    targets = [None if name == STDIO else Path(name) for name in (options.output, options.map) if name]
    if len({target and os.path.realpath(target) for target in targets}) < len(targets):
        raise click.UsageError("-o and --map need different files")
    with usage_errors():
        check_apart(targets, [source_path(path)], options.models)
        if options.output:
            check_page_name(options.output)
        if options.map:
            check_image_name(options.map)
    if os.path.isdir(path):
        raise click.UsageError(f"{shown(path)} is a folder; inspect takes one image")
    with ending_with_failure(shown_source(source_path(path))):
        _inspect(path, targets, options)


def _inspect(path: str, targets: Sequence[Path | None], options: Inspecting) -> None:
    """targets: of the page and the map, as far as they are wanted."""
    from dqcodec import png
    from dqcodec.codec import codec, conversion, library, zoo
    from dqcodec.page import lengths, maps, page

    for target in targets:
        atomic.check_target(target, force=options.force)
    data, _ = reading.read(source_path(path), options.max_pixels)
    given = data
    if ARCHIVE.has(data):
        raise FormatError("it is an archive; `decompress --only NAME` gets one image, inspect that")
    if not DQC.has(data):
        models = options.models or None
        data = library.compress(data, models, best=options.best, max_pixels=options.max_pixels)
    layers = lengths.layer_bits(data, lambda model_id: zoo.find(model_id, options.models), options.max_pixels)
    if options.map:
        whole = lengths.per_sample(layers)
        most = maps.scale([bits for layer in layers for _, bits in layer.planes])
        map_png = png.write(png.plain(maps.colored(whole, most)))
        atomic.write(targets[-1], map_png, force=options.force)
        print_line(f"{shown(options.map)}: from 0 bits a sample, dark, to {most} and more, light")
    if options.output:
        image = library.decompress_png(data, options.models, repack=True, max_pixels=options.max_pixels)
        pixels = conversion.to_array(image, options.max_pixels)
        info = codec.info(data, max_pixels=options.max_pixels)
        peers = _peers(given if PNG.has(given) else image, is_given=PNG.has(given))
        text = page.page(shown(Path(path).name), pixels, info, layers, len(given), peers)
        atomic.write(targets[0], text.encode(), force=options.force)
        if targets[0]:
            print_line(f"{shown(options.output)} written")


def _peers(image: bytes, *, is_given: bool) -> dict[str, int | str]:
    """The sizes of a PNG file by other codecs: title -> bytes, or the reason for none. is_given: it is the user's own
    file."""
    from dqcodec.base.processors import available_cpus
    from dqcodec.bench import images
    from dqcodec.bench.peers import PEERS

    try:
        original = images.of(image)
    except images.NotCompared as error:
        return {"all": str(error)}
    sizes: dict[str, int | str] = {}
    for peer in PEERS:
        if not (peer.encodes or is_given):
            continue
        if not peer.is_installed():
            sizes[peer.title] = f"needs {peer.requires}"
        elif not peer.takes(original):
            sizes[peer.title] = "does not take such pixels"
        else:
            try:
                peer.prepare(available_cpus())
                sizes[peer.title] = len(peer.encode(original).data)
            except Exception as error:  # of any type: the libraries are not ours
                sizes[peer.title] = one_line(error)
    return sizes
