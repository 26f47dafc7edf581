"""The commands that need torch: train, evaluate, export. As in dqcodec.command.cli, all else is imported when one runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dqcodec.base.errors import DqcodecError

_folder = click.Path(exists=True, file_okay=False, path_type=Path)
_data = click.Path(exists=True, path_type=Path)


class _Failure(click.ClickException):
    exit_code = 3  # nothing done


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise _Failure(f"{error.name} is not installed; it comes with: pip install 'dqcodec[train]'") from error
    except (DqcodecError, OSError) as error:
        raise _Failure(" ".join(str(error).split())) from error


@click.command()
@click.argument("data", type=_data)
@click.option("-o", "--output", metavar="RUN", required=True, type=click.Path(path_type=Path), help="The run's folder.")
@click.option("--config", "config_file", type=_data, metavar="FILE", help="Settings in TOML; see dqcodec/training/config.py.")
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Change a setting, as data.crop=64.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Train that long, over all sittings.")
@click.option("--images", type=click.IntRange(min=1), help="Train on that many crops, over all sittings.")
@click.option("--resume", is_flag=True, help="Continue RUN exactly.")
@click.option("--init", type=_data, metavar="RUN|CHECKPOINT", help="Start with the averaged weights of another run.")
@click.option("--seed", type=click.IntRange(min=0), help="Short for --set training.seed=N.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where to train.")
@click.option("--amp", type=click.Choice(["auto", "on", "off"]), default="auto", show_default=True, help="Train in bfloat16.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def train(data, output, config_file, overrides, minutes, images, resume, init, seed, device, amp, quiet):
    """Train a model on DATA.

    DATA is a folder of images, a .npy or a .npz file.

    \b
    dqcodec train photos -o run --minutes 60 --config models/photo/config.toml
    torchrun --nproc-per-node 8 -m dqcodec train ...   # on 8 GPUs, which share each batch
    Ctrl-C saves; the same command with --resume goes on.
    """
    if (minutes is None) == (images is None):
        raise click.UsageError("Give either --minutes or --images.")
    if resume and (config_file or overrides or init or seed is not None):
        raise click.UsageError("--resume keeps the run's own settings; leave out --config, --set, --seed and --init.")
    with _one_line_errors():
        from dqcodec.training import config as configs
        from dqcodec.training import data as data_sets
        from dqcodec.training import progress, runs
        from dqcodec.training.trainer import Budget, Trainer

        seeds = () if seed is None else (f"training.seed={seed}",)
        config = runs.RunFolder(output).config() if resume else configs.load(config_file, overrides + seeds)
        crops = data_sets.load(data, config.data.channels, config.data.crop, config.data.bits)
        trainer = Trainer(config, crops, output, Budget(minutes, images), device, amp)
        if resume:
            trainer.resume()
        elif init:
            trainer.start_from(init)
        else:
            trainer.start()
        quiet = quiet or not trainer.team.leads
        with progress.on_stderr(quiet) as display:
            finished = trainer.run(display)
        if not (finished or quiet):
            click.echo(f"stopped at step {trainer.step} and saved; --resume goes on", err=True)


@click.command()
@click.argument("run", type=_folder)
@click.argument("data", type=_data)
@click.option("--samples", type=click.IntRange(min=1), default=16, show_default=True, help="Take this number of samples for the iw bound.")
@click.option("--split", type=click.Choice(["valid", "train", "all"]), default="valid", show_default=True, help="Use this part of DATA.")
@click.option("--limit", type=click.IntRange(min=1), help="Use at most this number of crops, spread evenly.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def evaluate(run, data, samples, split, limit, as_json):
    """Print the bounds of a model on DATA.

    The model is RUN's average. The bounds are vi and iw; KL(q|p) is their difference.
    """
    with _one_line_errors():
        from dqcodec.training.data import load
        from dqcodec.training.evaluate import evaluate as bounds
        from dqcodec.training.trainer import load_model

        model, config = load_model(run)
        images = load(data, config.data.channels, config.data.crop, config.data.bits)
        crops = {"valid": images.valid, "train": images.train, "all": images.all}[split]
        result = bounds(model, crops.tiles(32, limit), samples)
        click.echo(json.dumps(result.as_dict()) if as_json else result.line())


@click.command()
@click.argument("run", type=_folder)
@click.argument("data", type=_data, required=False)
@click.option("-o", "--output", metavar="DIR", required=True, type=click.Path(path_type=Path), help="Write here.")
@click.option("--name", help="Give the model this name (default: the configuration's).")
@click.option("--tile", type=click.IntRange(min=1), help="Set the side of the tiles, for a flow a multiple of 2^levels; default 64, or 128 rows of 1024.")
@click.option("--set-card", "facts", metavar="KEY=VALUE", multiple=True, help="Add to the card: data, licence, ...")
def export(run, data, output, name, tile, facts):
    """Export a model as integers.

    RUN's averaged model becomes DIR/<name>-<sha8>.safetensors; that path is printed.

    With DATA the networks' ranges and the card's rate come from its validation crops, else from the run's own.
    """
    if bad := next((fact for fact in facts if "=" not in fact), None):
        raise click.UsageError(f"--set-card takes KEY=VALUE, not {bad!r}.")
    with _one_line_errors():
        from dqcodec.training.release import export_run

        card = dict(fact.split("=", 1) for fact in facts)
        click.echo(export_run(run, output, data=data, name=name, tile=tile, facts=card))
