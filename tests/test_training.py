"""Training: it learns, stops and resumes exactly, and what it exports codes at the rate of its bound."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import programs
import pytest
import torch
from click.testing import CliRunner
from flows import smooth_images

from dqcodec import png
from dqcodec.base.errors import DqcodecError
from dqcodec.command.cli import main
from dqcodec.exact.program import load_program
from dqcodec.training import config as configs
from dqcodec.training import data
from dqcodec.training.budget import Budget
from dqcodec.training.distributed import ProcessGroup
from dqcodec.training.evaluate import evaluate
from dqcodec.training.progress import LineProgress
from dqcodec.training.runs import RunError, RunFolder
from dqcodec.training.trainer import Trainer, load_model

TINY = (
    "data.crop=8",
    "density.levels=[{subflows=2, width=8, blocks=1}]",
    "dequantizer.width=8",
    "dequantizer.blocks=1",
    "dequantizer.context_channels=4",
    "dequantizer.channels_per_group=2",
    "training.batch=8",
    "training.warmup_steps=5",
    "training.validation_crops=40",
)


@pytest.fixture(scope="module")
def images_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "images.npy"
    np.save(path, smooth_images(80, 12, 3))
    return path


def _trainer(images_file, folder, images: int, *overrides: str) -> Trainer:
    config = configs.load(None, TINY + overrides)
    return Trainer(config, data.load(images_file, 3, 8), folder, Budget(images=images), "cpu", "off")


def _metrics(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


INTERLACED = (
    "density.kind=interlaced",
    "density.head=6",
    "density.mixtures=2",
    "dequantizer.features=standard",
    "dequantizer.noise=logistic",
)


@pytest.mark.parametrize("density", [(), INTERLACED], ids=["affine", "interlaced"])
@pytest.mark.parametrize("kind", ["uniform", "gaussian", "bipartite", "ard"])
def test_training_lowers_the_bound_and_the_export_codes_at_it(images_file, tmp_path, kind, density):
    trainer = _trainer(images_file, tmp_path, 480, f"dequantizer.kind={kind}", *density)
    trainer.start()
    before = trainer.validate()
    assert trainer.run()
    last = _metrics(tmp_path)[-1]
    assert last["valid_bpd"] < before - 0.1
    assert abs(last["coded_bpd"] - last["same_crops_vi_bpd"]) < 0.05
    (exported,) = tmp_path.glob("*.safetensors")
    assert load_program(exported).card["valid_vi_bpd"] == last["valid_bpd"]


def test_an_autoregressive_density_trains_and_its_export_codes_at_its_rate_or_learns_to_do_better(
    images_file, tmp_path
):
    density = (
        "density.kind=autoregressive",
        "dequantizer.kind=posterior",
        "density.width=12",
        "density.head=8",
        "data.crop=7",
    )
    trainer = _trainer(images_file, tmp_path, 480, *density)
    trainer.start()
    before = trainer.validate()
    assert trainer.run()
    last = _metrics(tmp_path)[-1]
    assert last["valid_bpd"] < before - 0.1 and last["coded_bpd"] < last["same_crops_vi_bpd"] + 0.05
    (exported,) = tmp_path.glob("*.safetensors")
    assert load_program(exported).card["valid_vi_bpd"] == last["valid_bpd"]
    result = evaluate(load_model(tmp_path)[0], data.load(images_file, 3, 7).valid.tiles(2), 10)
    assert result.kl_bpd == pytest.approx(0, abs=1e-6)


def test_two_processes_train_together_what_one_trains_alone(images_file, tmp_path):
    """A density without noise: their gradients' mean is that of the whole batch."""
    settings = (
        *TINY,
        "density.kind=autoregressive",
        "dequantizer.kind=posterior",
        "density.width=12",
        "density.head=8",
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "dqcodec"]
    command = [
        "train",
        str(images_file),
        "-o",
        str(tmp_path / "two"),
        "--images",
        "16",
        "--device",
        "cpu",
        "--amp",
        "off",
    ]
    arguments = [part for setting in settings for part in ("--set", setting)]
    together = subprocess.run(
        launch + command + arguments,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert together.returncode == 0, together.stderr
    assert together.stderr.count("step 2,") == 1  # one of them tells
    trainer = _trainer(images_file, tmp_path / "one", 16, *settings)
    trainer.start()
    assert trainer.run()
    one, two = (RunFolder(tmp_path / name).checkpoint()["model"] for name in ("one", "two"))
    assert all(torch.allclose(one[name], two[name], atol=1e-6) for name in one)


def test_a_batch_that_cannot_be_shared_out_is_refused(images_file, tmp_path, monkeypatch):
    monkeypatch.setattr(ProcessGroup, "join", lambda device: ProcessGroup(0, 3))
    with pytest.raises(DqcodecError, match="3 processes"):
        _trainer(images_file, tmp_path, 16)


@pytest.mark.parametrize("density", ["diagonal", "covariance"])
@pytest.mark.parametrize("alpha", ["1.0", "0.0", "0.5", "-inf"])
def test_gaussian_densities_train_under_every_objective(images_file, tmp_path, density, alpha):
    overrides = (f"density.kind={density}", f"objective.alpha={alpha}", "objective.samples=2")
    trainer = _trainer(images_file, tmp_path, 160, *overrides)
    trainer.start()
    before = trainer.validate()
    assert trainer.run() and trainer.validate() < before
    assert not list(tmp_path.glob("*.safetensors"))  # these have no exact twin


@pytest.mark.parametrize("optimiser", ["muon", "adam"])
def test_a_run_that_is_stopped_and_resumed_gives_the_same_weights(images_file, tmp_path, optimiser):
    overrides = ("dequantizer.kind=ard", f"training.optimiser={optimiser}")
    whole = _trainer(images_file, tmp_path / "whole", 96, *overrides)
    whole.start()
    whole.run()

    first = _trainer(images_file, tmp_path / "parts", 96, *overrides)
    first.start()
    _interrupt_at(first, 5)
    assert not first.run()
    second = _trainer(images_file, tmp_path / "parts", 96, *overrides)
    second.resume()
    assert second.step == 5 and second.run()
    for ours, theirs in [(second.model, whole.model), (second.ema, whole.ema)]:
        for name, value in theirs.state_dict().items():
            assert torch.equal(ours.state_dict()[name], value), name


def _interrupt_at(trainer: Trainer, step: int) -> None:
    """Press Ctrl-C in the middle of a step."""
    draw = trainer._draw

    def pressing(size):
        if trainer.step == step - 1:
            os.kill(os.getpid(), signal.SIGINT)
        return draw(size)

    trainer._draw = pressing


def test_ctrl_c_saves_whole_steps_and_leaves_the_handler(images_file, tmp_path):
    trainer = _trainer(images_file, tmp_path, 10_000)
    trainer.start()
    handler = signal.getsignal(signal.SIGINT)
    _interrupt_at(trainer, 3)
    assert not trainer.run()
    assert signal.getsignal(signal.SIGINT) is handler
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == 3


def test_a_run_is_never_overwritten(images_file, tmp_path):
    trainer = _trainer(images_file, tmp_path, 8)
    trainer.start()
    trainer.run()
    with pytest.raises(RunError):
        _trainer(images_file, tmp_path, 8).start()


def test_a_folder_without_a_run_is_said_to_hold_none(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        load_model(tmp_path)


def test_a_run_starts_from_anothers_averaged_weights(images_file, tmp_path):
    first = _trainer(images_file, tmp_path / "first", 40)
    first.start()
    first.run()
    second = _trainer(images_file, tmp_path / "second", 40)
    second.start_from(tmp_path / "first")
    assert second.step == 0 and second.validate() == first.validate()


def test_runs_of_different_seeds_are_validated_on_the_same_crops(images_file, tmp_path):
    runs = [_trainer(images_file, tmp_path / str(seed), 8, f"training.seed={seed}") for seed in (0, 1)]
    assert np.array_equal(runs[0].validation.calibration, runs[1].validation.calibration)
    runs[1].ema.load_state_dict(runs[0].ema.state_dict())
    assert runs[0].validate() == runs[1].validate()


def test_bfloat16_networks_train(images_file, tmp_path):
    config = configs.load(None, TINY)
    trainer = Trainer(config, data.load(images_file, 3, 8), tmp_path, Budget(images=80), "cpu", "on")
    trainer.start()
    before = trainer.validate()
    assert trainer.run() and trainer.validate() < before


def test_iw_is_tighter_than_vi_and_does_not_depend_on_the_batch(images_file, tmp_path):
    trainer = _trainer(images_file, tmp_path, 80)
    trainer.start()
    trainer.run()
    model, config = load_model(tmp_path)
    crops = data.load(images_file, 3, 8).valid
    result = evaluate(model, crops.tiles(2), 300)
    assert result.kl_bpd > 0 and result.crops == len(list(crops.tiles(1)))
    single = evaluate(model, crops.tiles(1), 300)
    assert single.vi_bpd == pytest.approx(result.vi_bpd, abs=0.01)


def test_where_masses_are_known_kl_is_measured_against_them():
    x = smooth_images(6, 8, 3).transpose(0, 3, 1, 2)
    result = evaluate(programs.model("interlaced"), [x[:4], x[4:]], 50)
    assert result.mass_bpd < result.iw_bpd < result.vi_bpd and result.crops == 6
    assert result.kl_bpd == pytest.approx(result.vi_bpd - result.mass_bpd, abs=1e-5)
    assert result.as_dict()["mass_bpd"] == result.mass_bpd and f"{result.mass_bpd:.4f}" in result.line()
    unknown = evaluate(programs.model("uniform"), [x[:1]], 2)
    assert unknown.mass_bpd is None and unknown.vi_error_bpd == 0


def test_the_commands_train_resume_evaluate_and_export(images_file, tmp_path):
    run, models = tmp_path / "run", tmp_path / "models"
    settings = [word for override in TINY for word in ("--set", override)]
    runner = CliRunner()

    def dqcodec(*arguments: str, code: int = 0):
        result = runner.invoke(main, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return result

    started = dqcodec("train", images_file, "-o", run, "--images", 64, "--seed", 3, *settings)
    assert "valid_bpd" in started.stderr
    assert configs.load(run / "config.toml").training.seed == 3
    dqcodec("train", images_file, "-o", run, "--images", 96, "--resume", "-q")
    assert [line["images"] for line in _metrics(run)] == [64, 96]
    dqcodec("train", images_file, "-o", run, "--images", 96, *settings, code=3)  # not over a run
    dqcodec("train", images_file, "-o", run, "--images", 96, "--resume", "--seed", 1, code=2)
    dqcodec("train", images_file, "-o", run, code=2)
    bounds = json.loads(dqcodec("evaluate", run, images_file, "--samples", 4, "--json").stdout)
    assert bounds["kl_bpd"] == pytest.approx(bounds["vi_bpd"] - bounds["iw_bpd"], abs=1e-6) and bounds["samples"] == 4
    assert bounds["vi_error_bpd"] > 0 and "mass_bpd" not in bounds
    assert "KL(q|p)" in dqcodec("evaluate", run, images_file, "--split", "all", "--limit", 4, "--device", "cpu").stdout
    dqcodec("evaluate", run, images_file, "--split", "test", code=3)
    sheets = tmp_path / "a.png", tmp_path / "b.png"
    for sheet in sheets:
        dqcodec("sample", run, "-o", sheet, "--count", 4, "--side", 8, "--seed", 5)
    assert sheets[0].read_bytes() == sheets[1].read_bytes() and png.read(sheets[0].read_bytes()).pixels.shape == (
        16,
        16,
        3,
    )
    dqcodec("sample", run, "-o", tmp_path / "c.png", "--side", 9, code=2)
    dqcodec("sample", models.parent, "-o", tmp_path / "c.png", code=3)
    dqcodec("export", run, "-o", models, "--name", "toy", "--tile", 3, code=3)
    path = dqcodec("export", run, "-o", models, "--name", "toy", "--set-card", "licence=CC0").stdout.strip()
    program = load_program(Path(path))
    assert program.card["licence"] == "CC0" and program.card["steps"] == 12 and program.tile == 64
    assert dqcodec("export", run, "-o", models, "--name", "toy", "--set-card", "licence=CC0").stdout.strip() == path
    dqcodec("export", models / "toy", "-o", models, code=3)  # a released run has no crops
    again = load_program(
        Path(dqcodec("export", models / "toy", images_file, "-o", models, "--name", "toy").stdout.strip())
    )
    assert again.card["steps"] == 12 and (models / "toy" / "weights.safetensors").exists()


def test_missing_torch_is_an_error_of_one_line(images_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dqcodec.training.trainer", None)
    error = ModuleNotFoundError("No module named 'torch'", name="torch")
    monkeypatch.setattr("dqcodec.training.runs.RunFolder.config", lambda self: (_ for _ in ()).throw(error))
    result = CliRunner().invoke(main, ["train", str(images_file), "-o", str(tmp_path), "--images", "1", "--resume"])
    assert result.exit_code == 3 and "pip install 'dqcodec[train]'" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_lines_show_the_remaining_time(capsys):
    progress = LineProgress()
    progress.step(0.0, 0, 5.0)
    progress.milestone(0.5, {"step": 1, "valid_bpd": 4.0})
    assert " min left  step 1, valid_bpd 4.0" in capsys.readouterr().err
