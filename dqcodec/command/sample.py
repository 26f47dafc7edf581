"""`dqcodec sample`: images drawn from a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.command import atomic
from dqcodec.command.failures import ending_with_failure, one_line_failures, usage_errors
from dqcodec.command.names import STDIO, check_image_name
from dqcodec.command.options import COUNT
from dqcodec.command.plan import check_apart

if TYPE_CHECKING:
    import numpy as np


@click.command()
@click.argument("model", metavar="NAME|FILE|RUN")
@click.option("-o", "--output", metavar="FILE|-", required=True, help="Write this PNG file; - is stdout.")
@click.option("--count", type=COUNT, default=16, show_default=True, help="Draw this number of samples.")
@click.option("--side", type=COUNT, default=64, show_default=True, help="Height and width of each, in pixels.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed the random bits.")
@click.option("-f", "--force", is_flag=True, help="Overwrite an existing file.")
def sample(model: str, output: str, count: int, side: int, seed: int, force: bool) -> None:
    """Draw images from a model into one PNG.

    The model decodes random bits. A run of `dqcodec train` has no program yet: its model in real numbers draws them.

    \b
    dqcodec sample photo -o samples.png
    dqcodec sample run -o samples.png
    """
    from dqcodec import png
    from dqcodec.codec import zoo
    from dqcodec.exact import generating

    if not output:
        raise click.UsageError("the output has no name")
    target = None if output == STDIO else Path(output)
    is_run = Path(model).is_dir() and model not in zoo.names()
    with usage_errors():
        check_image_name(output)
        program = None if is_run else zoo.load(model)
        check_apart([target], models=[] if is_run else [model])
    with ending_with_failure(output):
        atomic.check_target(target, force=force)
        if program is None:
            images, bits = _of_run(model, count, side, seed)
        else:
            images, bits = generating.generate(program, count, side, seed), program.bits
        sheet = generating.sheet(images, bits)
        atomic.write(target, png.write(png.plain(sheet)), force=force)


def _of_run(run: str, count: int, side: int, seed: int) -> tuple[np.ndarray, int]:
    """(images, bits) of a run's model."""
    with usage_errors(), one_line_failures("train"):
        from dqcodec.training.generating import generate

        return generate(run, count, side, seed)
