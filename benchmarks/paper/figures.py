"""The paper's figures of the binary checkerboard: p(v) and the marginal q(v) of every model in the tables.

    python benchmarks/paper/figures.py runs/checkerboard

It draws the models of the first seed that checkerboard.py trained, with the bounds that it measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from checkerboard import RESULTS, STATES, Cell
from checkerboard_models import DENSITIES, DEQUANTIZERS, build
from results import Results, json_option

from dqcodec.flows.model import DequantizedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = Path(__file__).parent / "figures"

_POINTS = 200  # of the grid in each direction; even, so that each bin holds half of them
_RANGE_BITS = (-4.0, 4.0)


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    json_option(parser, "RUNS/checkerboard.json")
    arguments = parser.parse_args()
    objectives = {"vi": "vi", "iw16": "iw, M = 16", "renyi2": "Rényi, M = 2"}
    pairs = {f"{p} p": [Cell(p, q, "vi", 0) for q in DEQUANTIZERS] for p in DENSITIES}
    trained = {label: [Cell("flow", q, objective, 0) for q in DEQUANTIZERS] for objective, label in objectives.items()}
    needed = [cell for rows in (pairs, trained) for row in rows.values() for cell in row]
    measured = Results(arguments.json or arguments.runs / RESULTS).cells
    if any(cell.name not in measured or not weights_of(arguments.runs, cell).exists() for cell in needed):
        parser.error(
            f"{arguments.runs} lacks models: run python benchmarks/paper/checkerboard.py -o {arguments.runs} first"
        )
    FIGURES.mkdir(exist_ok=True)
    draw(arguments.runs, measured, pairs, "vi_bits", FIGURES / "checkerboard_vi.png")
    draw(arguments.runs, measured, trained, "iw_bits", FIGURES / "checkerboard_objectives.png")


def pyplot() -> ModuleType:
    """matplotlib.pyplot, which draws to files only."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw(runs: Path, measured: dict[str, dict], rows: dict[str, list[Cell]], key: str, path: Path) -> None:
    """Draw a row of pairs (p, q) for each label, with the measured bound above each pair."""
    plt = pyplot()
    figure, axes = plt.subplots(len(rows), 2 * len(DEQUANTIZERS), figsize=(11, 5.8), layout="constrained")
    for axes_row, (label, row) in zip(axes, rows.items()):
        for (left, right), cell in zip(axes_row.reshape(-1, 2), row):
            model = load(runs, cell)
            show(left, density(model), "p(v)")
            image = show(right, marginal(model), "q(v)")
            title = f"{label}, {cell.dequantizer} q: {measured[cell.name][key]:.2f} bits"
            left.set_title(title, fontsize=8, loc="left", pad=4)  # spans both
            left.title.set_in_layout(False)
    bar = figure.colorbar(image, ax=axes, location="right", shrink=0.5, extend="both")
    bar.set_label("log2 density", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def weights_of(runs: Path, cell: Cell) -> Path:
    """The file of a cell's weights, as checkerboard.py names it."""
    return runs / f"{cell.name}.pt"


def load(runs: Path, cell: Cell) -> DequantizedModel:
    """The trained model of a cell."""
    model = build(cell.density, cell.dequantizer)
    model.load_state_dict(torch.load(weights_of(runs, cell), weights_only=True))
    return model


def grid(points: int, side: float) -> torch.Tensor:
    """Centres of a grid over [0, side)^2, (points^2, 2, 1, 1). The first coordinate varies fastest."""
    centres = (torch.arange(points) + 0.5) * side / points
    second, first = torch.meshgrid(centres, centres, indexing="ij")
    return torch.stack([first, second], -1).view(-1, 2, 1, 1)


@torch.no_grad()
def density(model: DequantizedModel) -> np.ndarray:
    """log2 p(v) over [0, 2)^2, (points, points)."""
    return (model.density.log_prob(grid(_POINTS, 2.0)) / np.log(2)).view(_POINTS, _POINTS).numpy()


@torch.no_grad()
def marginal(model: DequantizedModel) -> np.ndarray:
    """log2 q(v) with q(v) = E_x q(v - x | x), over [0, 2)^2, (points, points). Bins do not overlap."""
    half = _POINTS // 2
    u, result = grid(half, 1.0), np.full((_POINTS, _POINTS), -np.inf)
    for state in STATES:
        first, second = (int(coordinate) * half for coordinate in state.flatten())
        log_q = model.dequantizer.log_prob(u, state.expand_as(u)) / np.log(2) - 1
        result[second : second + half, first : first + half] = log_q.view(half, half).numpy()
    return result


def show(axis: Axes, values: np.ndarray, name: str):
    """Draw one density."""
    shown = axis.imshow(
        values.clip(-1e3), origin="lower", extent=(0, 2, 0, 2), vmin=_RANGE_BITS[0], vmax=_RANGE_BITS[1]
    )
    axis.set_xticks([0, 1, 2])
    axis.set_yticks([0, 1, 2])
    axis.tick_params(labelsize=6, length=2)
    axis.grid(color="white", linewidth=0.4, alpha=0.6)
    axis.set_xlabel(name, fontsize=8, labelpad=1)
    return shown


if __name__ == "__main__":
    main()
