"""The commands that need torch: train, evaluate, export. Each imports torch when it runs, so that --help is fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dqcodec.command import options as opts
from dqcodec.command.failures import one_line_failures
from dqcodec.command.options import COUNT, Training

if TYPE_CHECKING:
    from dqcodec.exact.program import Program

_folder = click.Path(exists=True, file_okay=False, path_type=Path)
_PARTS = ("valid", "train", "test", "all")


@click.command()
@click.argument("data", type=opts.existing)
@opts.takes(Training)
def train(data: Path, options: Training) -> None:
    """Train a model on DATA.

    DATA is a folder of images, a .npy or a .npz file.

    \b
    dqcodec train photos -o run --minutes 60 --config models/photo/config.toml
    dqcodec train photos -o run --minutes 10 --init photo
    torchrun --nproc-per-node 8 -m dqcodec train ...   # 8 GPUs share each batch
    Ctrl-C saves the run. The same command with --resume continues it.
    """
    if (options.minutes is None) == (options.images is None):
        raise click.UsageError("give either --minutes or --images")
    if options.resume and (options.config or options.settings or options.init):
        raise click.UsageError("--resume uses the run's own settings: leave out --config, --set, --seed and --init")
    with one_line_failures("train"):
        from dqcodec.training import config as configs
        from dqcodec.training import data as data_sets
        from dqcodec.training import fine_tuning, progress, runs
        from dqcodec.training.budget import Budget
        from dqcodec.training.trainer import Trainer

        program = _program(options.init) if options.init else None
        fixed = fine_tuning.settings(program) if program else None
        run = runs.RunFolder(options.output)
        config = run.config() if options.resume else configs.load(options.config, options.settings, fixed)
        crops = data_sets.load(data, config.data.channels, config.data.crop, config.data.bits)
        budget = Budget(options.minutes, options.images)
        trainer = Trainer(config, crops, options.output, budget, options.device, options.amp)
        if options.resume:
            trainer.resume()
        elif program:
            trainer.start_with(fine_tuning.weights(program))
        elif options.init:
            trainer.start_from(Path(options.init))
        else:
            trainer.start()
        quiet = options.quiet or not trainer.processes.is_leader
        with progress.on_stderr(quiet) as display:
            finished = trainer.run(display)
        if not (finished or quiet):
            click.echo(f"stopped at step {trainer.step} and saved; --resume continues", err=True)


def _program(init: str) -> Program | None:
    """The program of a model file or name; None if `init` is a run or a checkpoint."""
    from dqcodec.codec import zoo

    is_run = Path(init).exists() and Path(init).suffix != zoo.SUFFIX
    return None if is_run else zoo.load(init)


@click.command()
@click.argument("run", type=_folder)
@click.argument("data", type=opts.existing)
@click.option("--samples", type=COUNT, default=16, show_default=True, help="Samples of the iw bound.")
@click.option(
    "--split",
    type=click.Choice(_PARTS),
    default="valid",
    show_default=True,
    help="Part of DATA; test is an array of a .npz.",
)
@click.option("--limit", type=COUNT, metavar="N", help="Use at most N crops, spread evenly.")
@click.option("--device", type=click.Choice(opts.DEVICES), default="auto", show_default=True, help="Where to compute.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def evaluate(run: Path, data: Path, samples: int, split: str, limit: int | None, device: str, as_json: bool) -> None:
    """Print the bounds of a model on DATA.

    The model is RUN's averaged one. The bounds are vi and iw, in bits per dimension; their difference estimates
    KL(q|p). Where the density knows P(x), -log2 P(x) is there, too, and KL(q|p) is its distance from vi. Standard
    errors are over crops.
    """
    with one_line_failures("train"):
        from dqcodec.training import data as data_sets
        from dqcodec.training import hardware
        from dqcodec.training.evaluate import evaluate as bounds
        from dqcodec.training.trainer import load_model

        model, config = load_model(run)
        crops = data_sets.part(data, split, config.data.channels, config.data.crop, config.data.bits)
        result = bounds(model.to(hardware.chosen(device)), crops.tiles(32, limit), samples)
        click.echo(json.dumps(result.as_dict()) if as_json else result.line())


@click.command()
@click.argument("run", type=_folder)
@click.argument("data", type=opts.existing, required=False)
@click.option(
    "-o", "--output", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Folder to write to."
)
@click.option("--name", help="Name of the model (default: from the configuration).")
@click.option("--tile", type=COUNT, help="Side of the tiles; for a flow a multiple of 2^levels.")
@click.option("--set-card", "facts", metavar="KEY=VALUE", multiple=True, help="Add to the card, e.g. licence=CC0.")
def export(
    run: Path, data: Path | None, output: Path, name: str | None, tile: int | None, facts: tuple[str, ...]
) -> None:
    """Export a model as an integer program.

    RUN's averaged model becomes DIR/<name>-<sha8>.safetensors; the command prints that path. Validation crops give the
    ranges of the networks and the rate on the card: those of DATA, or else the run's own.
    """
    if bad := next((fact for fact in facts if "=" not in fact), None):
        raise click.UsageError(f"--set-card takes KEY=VALUE, not {bad!r}")
    with one_line_failures("train"):
        from dqcodec.training.release import export_run

        card = dict(fact.split("=", 1) for fact in facts)
        click.echo(export_run(run, output, data=data, name=name, tile=tile, facts=card))
