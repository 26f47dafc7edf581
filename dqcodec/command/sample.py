"""`dqcodec sample`: images drawn from a model."""

from __future__ import annotations

from pathlib import Path

import click

from dqcodec.command import atomic
from dqcodec.command.failures import ending_with_failure, usage_errors
from dqcodec.command.names import STDIO
from dqcodec.command.plan import check_apart

_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("model", metavar="NAME|FILE")
@click.option("-o", "--output", metavar="FILE|-", required=True, help="Write this PNG file; - is stdout.")
@click.option("--count", type=_COUNT, default=16, show_default=True, help="Draw this number of samples.")
@click.option("--side", type=_COUNT, default=64, show_default=True, help="Height and width of each, in pixels.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed the random bits.")
@click.option("-f", "--force", is_flag=True, help="Overwrite an existing file.")
def sample(model: str, output: str, count: int, side: int, seed: int, force: bool) -> None:
    """Draw images from a model into one PNG.

    The model decodes random bits.

    \b
    dqcodec sample photo -o samples.png
    """
    from dqcodec import png
    from dqcodec.codec import zoo
    from dqcodec.exact import generating

    if not output:
        raise click.UsageError("the output has no name")
    target = None if output == STDIO else Path(output)
    with usage_errors():
        program = zoo.load(model)
        check_apart([target], models=[model])
    with ending_with_failure(output):
        atomic.check_target(target, force=force)
        sheet = generating.sheet(generating.generate(program, count, side, seed), program.bits)
        atomic.write(target, png.write(png.plain(sheet)), force=force)
