"""What makes the paper's tables: its models, their training and measuring, and the full model."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

PAPER = Path(__file__).parents[1] / "benchmarks" / "paper"
sys.path.insert(0, str(PAPER))

import checkerboard  # noqa: E402
import coded  # noqa: E402
import figures  # noqa: E402
import images  # noqa: E402
from checkerboard import ENTROPY_BITS, STATES  # noqa: E402
from checkerboard_models import DENSITIES, DEQUANTIZERS, build  # noqa: E402
from full import FULL, costs  # noqa: E402
from naive import SHOWN, dequantized, fit, points  # noqa: E402
from published import IMAGES  # noqa: E402
from results import Results  # noqa: E402

from dqcodec.export.program import has_exact_twin  # noqa: E402
from dqcodec.training import config as configs  # noqa: E402
from dqcodec.training.build import build as build_images  # noqa: E402


@pytest.mark.parametrize("p", DENSITIES)
@pytest.mark.parametrize("q", DEQUANTIZERS)
def test_the_points_dequantizer_samples_what_it_says(p, q):
    torch.manual_seed(0)
    model = build(p, q).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    x = STATES.double().repeat(8, 1, 1, 1)
    u, log_q = model.dequantizer.sample(x)
    assert ((u >= 0) & (u < 1)).all()
    torch.testing.assert_close(model.dequantizer.log_prob(u, x), log_q)
    assert model.bound(x).shape == (16,)


def test_the_points_flow_is_a_density():
    """It integrates to one over a wide square."""
    torch.manual_seed(0)
    density = build("flow", "uniform").density
    points = torch.linspace(-3, 5, 200)
    v = torch.cartesian_prod(points, points).view(-1, 2, 1, 1)
    with torch.no_grad():
        mass = density.log_prob(v).exp().sum() * (points[1] - points[0]) ** 2
    assert mass == pytest.approx(1, abs=0.01)


def test_naive_likelihood_has_no_meaning_and_with_noise_it_is_a_bound():
    *_, (_, _, naive) = fit(points, SHOWN)
    ((_, _, bound),) = fit(dequantized, SHOWN[-1:])
    assert naive < 0 and bound > ENTROPY_BITS


def test_results_keep_what_is_done(tmp_path):
    results = Results(tmp_path / "table.json")
    results.add("a", {"bits": 1.0})
    again = Results(tmp_path / "table.json")
    assert "a" in again and again.cells["a"]["bits"] == 1.0 and "b" not in again


@pytest.mark.parametrize("table", images.CELLS)
def test_every_cell_of_the_paper_has_a_model(table):
    cells = {cell.name: cell for cell in images.CELLS[table]}
    assert {f"{row}-{q}" for row, columns in IMAGES[table].items() for q in columns} <= set(cells)
    for cell in cells.values():
        build_images(cell.config())


def _cifar10(folder: Path) -> Path:
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3)).astype(np.uint8)
    np.savez(folder / "cifar10.npz", train=pixels[:8], valid=pixels[8:])
    Image.fromarray(pixels[:4].reshape(2, 2, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(64, 64, 3)).save(
        folder / "test_00.png"
    )
    return folder


def _mnist(folder: Path) -> Path:
    folder.mkdir()
    packed = np.random.default_rng(0).integers(0, 256, (48, 98)).astype(np.uint8)  # fewer are too few for a loan
    np.savez(folder / "digits.npz", train=packed[:8], valid=packed[:4], test=packed)
    return folder / "digits.npz"


def test_a_border_of_zeros_surrounds_images_that_are_smaller_than_crops(tmp_path):
    path = _mnist(tmp_path / "data")
    bare, bordered = (
        images.read_mnist(path, next(cell for cell in images.CELLS["mnist"] if cell.row == row).config())
        for row in ("flow", "interlaced")
    )
    assert bare.share == 1 and bordered.share == 28**2 / 32**2
    x, y = (np.concatenate(list(splits.test.tiles(2))) for splits in (bare, bordered))
    assert np.array_equal(x, y[:, :, 2:-2, 2:-2]) and x.sum() == y.sum() > 0


def test_a_row_names_its_cells_but_not_those_of_other_objectives():
    called = [cell.name for cell in images.CELLS["mnist"] if "flow" in cell.names]
    assert called == [f"flow-{q}" for q in images.DEQUANTIZERS]


@pytest.mark.parametrize(
    "table, make, cell",
    [
        ("cifar10", _cifar10, "5bit-uniform"),
        ("mnist", _mnist, "covariance-uniform"),
        ("mnist", _mnist, "interlaced-gaussian"),
    ],
)
def test_a_cell_is_trained_and_measured_then_left_alone_until_more_is_asked(tmp_path, monkeypatch, table, make, cell):
    for name in ("_IW_SAMPLES", "_VALID_IMAGES"):
        monkeypatch.setattr(images, name, 3)
    result = tmp_path / "result.json"

    def run(count: int) -> dict:
        monkeypatch.setattr(
            sys,
            "argv",
            [
                "images.py",
                table,
                str(data),
                "-o",
                str(tmp_path / "runs"),
                "--images",
                str(count),
                "--cell",
                cell,
                "--json",
                str(result),
            ],
        )
        images.main()
        return Results(result).cells[cell]

    data = make(tmp_path / "data")
    first = run(20)
    assert ("coded_bpd" in first) != cell.startswith("covariance")  # a Gaussian has no exact program
    assert first["steps"] > 0 and first["iw_bpd"] <= first["vi_bpd"]
    assert first["test_images"] == first["iw_images"] == (4 if table == "cifar10" else 48)
    assert run(20) == first
    assert run(70)["steps"] > first["steps"]


def _call(monkeypatch, script, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", [f"{script.__name__}.py", *map(str, arguments)])
    script.main()


def test_a_missing_vi_model_is_trained_before_another_objective_continues_it(tmp_path, monkeypatch, capsys):
    for name in ("_IW_SAMPLES", "_VALID_IMAGES"):
        monkeypatch.setattr(images, name, 3)
    data = _cifar10(tmp_path / "data")
    _call(monkeypatch, images, "cifar10", data, "-o", tmp_path, "--images", 40, "--cell", "5bit-uniform-iw4")
    assert "5bit-uniform, which is not there" in capsys.readouterr().out
    assert list(Results(tmp_path / "cifar10.json").cells) == ["5bit-uniform-iw4"]
    assert images.is_started(images.Cell("cifar10", "5bit", "uniform"), tmp_path / "cifar10")


def test_checkerboard_cells_are_measured_unless_model_and_result_are_there(tmp_path, monkeypatch):
    cell = checkerboard.Cell("diagonal", "uniform", "vi", 0)
    monkeypatch.setattr(checkerboard, "cells", lambda: [cell])
    monkeypatch.setattr(checkerboard, "measure", lambda model, seed: {"vi_bits": 1.0})
    trained = []
    monkeypatch.setattr(checkerboard, "train", lambda cell: trained.append(cell) or build("diagonal", "uniform"))
    for _ in range(2):
        _call(monkeypatch, checkerboard, "-o", tmp_path)
    assert trained == [cell] and cell.name in Results(tmp_path / "checkerboard.json")
    (tmp_path / f"{cell.name}.pt").unlink()
    _call(monkeypatch, checkerboard, "-o", tmp_path)
    assert trained == [cell, cell]


@pytest.mark.parametrize(
    ("script", "arguments", "first"),
    [(figures, ["runs"], "checkerboard.py"), (coded, ["digits.npz", "-o", "runs"], "images.py mnist")],
)
def test_scripts_without_their_runs_say_what_to_run_first(tmp_path, monkeypatch, capsys, script, arguments, first):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        _call(monkeypatch, script, *arguments)
    assert f"run python benchmarks/paper/{first}" in capsys.readouterr().err


def test_the_full_model_takes_a_step_at_reduced_width():
    narrow = "[{subflows=18, width=12, blocks=12}, {subflows=18, width=12, blocks=12}]"
    config = configs.load(
        FULL,
        (f"density.levels={narrow}", "dequantizer.width=12", "dequantizer.channels_per_group=12", "training.batch=2"),
    )
    torch.manual_seed(0)
    model = build_images(config)
    assert not has_exact_twin(model)
    x = torch.randint(0, 256, (2, 3, 32, 32)).float()
    model.initialise(x)
    optimiser = torch.optim.Adam(model.parameters(), config.training.learning_rate)
    before = model.bound(x).mean()
    (-before).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    optimiser.step()
    torch.manual_seed(0)
    assert model.bound(x).mean() > before
    assert costs(config, 500, 100)["parameters"]
