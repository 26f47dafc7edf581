"""Code binary MNIST with flows and a uniform dequantizer, at the vi bound and at the importance-weighted bound.

    python benchmarks/paper/coded.py binarized_mnist_larochelle.npz -o runs --test-images 1000

The runs are those of images.py (cells flow-uniform, flow-uniform-iw4): the flow trained with vi, and with iw of 4 samples. Each model is exported as an integer
program. It codes the test images on one stack with K coupled particles (particles.py); they are decoded and compared.

The results also hold the float model's bounds on the same images: vi, iw with K independent samples, and iw with K
coupled samples. The two iw bounds are vi minus their gain on every fifth image. OUTPUT/coded.json gets one cell at a
time; existing cells are kept.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from coding import exported, symbols
from images import read_mnist
from particles import rates
from results import Results, json_option
from torch import Tensor

from dqcodec.ans.particles import coupled_offsets
from dqcodec.flows import objectives
from dqcodec.flows.model import DequantizedModel, bits_per_dim
from dqcodec.training.runs import RunFolder
from dqcodec.training.trainer import load_model

_BATCH = 50
_IW_STRIDE = 5

# objective, see images.OBJECTIVES -> the run that images.py made
RUNS = {"vi": "flow-uniform", "iw4": "flow-uniform-iw4"}
CELLS = [("vi", 1), ("vi", 4), ("iw4", 4)]  # trained with, particles


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="folder that holds the run folders of images.py"
    )
    parser.add_argument("--cell", action="append", help="only this cell, e.g. iw4-4 (repeatable)")
    parser.add_argument("--test-images", type=int, help="number of test images (default: all)")
    json_option(parser, "OUTPUT/coded.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = {objective: arguments.output / "mnist" / name for objective, name in RUNS.items()}
    missing = [run.name for run in runs.values() if not (run / "checkpoint.pt").exists()]
    if missing:
        cells = " ".join(f"--cell {name}" for name in missing)
        parser.error(
            f"runs are missing: run python benchmarks/paper/images.py mnist {arguments.data} -o {arguments.output} --images 150000 {cells} first"
        )
    x = symbols(read_mnist(arguments.data, load_model(runs["vi"])[1]).test, arguments.test_images)
    results = Results(arguments.json or arguments.output / "coded.json")
    for objective, particles in CELLS:
        cell = f"{objective}-{particles}"
        if cell not in results and (not arguments.cell or cell in arguments.cell):
            results.add(cell, measure(runs[objective], x, particles))
            print(cell, results.cells[cell], flush=True)


def measure(run: Path, x: np.ndarray, particles: int) -> dict:
    """Code test images x, (N, H, W, 1) symbols, with the run's model -> the cell."""
    model, config = load_model(run)
    state = RunFolder(run).checkpoint()
    some, vi_bpd = x[::_IW_STRIDE], bound(model, x, 1, independent)
    rest = vi_bpd - bound(model, some, 1, independent)
    return {
        "vi_bpd": round(vi_bpd, 5),
        "iw_bpd": round(rest + bound(model, some, particles, independent), 5),
        "coupled_bpd": round(rest + bound(model, some, particles, coupled), 5),
        **rates(exported(run, x.shape[1]), x, particles),
        "test_images": len(x),
        "iw_images": len(some),
        "minutes": round(state["seconds"] / 60, 1),
        "images": state["step"] * config.training.batch,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def independent(shape: tuple[int, ...], particles: int) -> Tensor:
    """Independent noise of K particles, (K, *shape)."""
    return torch.rand(particles, *shape)


def coupled(shape: tuple[int, ...], particles: int) -> Tensor:
    """Noise of K particles coupled as in the codec, (K, *shape); shape is (B, C, H, W)."""
    batch, channels, height, width = shape
    fraction_bits = 20
    offsets = coupled_offsets(particles, (height, width, channels), fraction_bits) / (1 << fraction_bits)
    return (torch.rand(shape) + torch.from_numpy(offsets).float().permute(0, 3, 1, 2)[:, None]) % 1


@torch.no_grad()
def bound(model: DequantizedModel, x: np.ndarray, particles: int, noise: Callable[[tuple, int], Tensor]) -> float:
    """The iw bound of the float model with this noise, bits per dimension, averaged over images."""
    torch.manual_seed(0)
    total = 0.0
    for batch in torch.from_numpy(x.transpose(0, 3, 1, 2).copy()).float().split(_BATCH):
        weights = [model.log_weight(batch, each).double() for each in noise(batch.shape, particles)]
        total += bits_per_dim(objectives.iw(torch.stack(weights)), batch[0].numel()).sum().item()
    return total / len(x)


if __name__ == "__main__":
    main()
