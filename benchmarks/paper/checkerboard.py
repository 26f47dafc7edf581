"""The paper's binary checkerboard, tables 1 and 2: all pairs of p and q with vi, and the flow density with iw and Rényi.

    python benchmarks/paper/checkerboard.py -o runs/checkerboard

It trains the models that the folder lacks (three seeds a cell), measures them, and writes checkerboard.json there.

P_data, equation 15, is uniform over (1, 0) and (0, 1), so its entropy is exactly 1 bit. A batch holds both states equally often, so
that only the dequantizer makes the bound noisy.
"""

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from checkerboard_models import DENSITIES, DEQUANTIZERS, build
from results import Results, json_option
from torch import Tensor, nn

from dqcodec.flows.model import DequantizedModel

STATES = torch.tensor([[1.0, 0.0], [0.0, 1.0]])[..., None, None]
ENTROPY_BITS = 1.0
RESULTS = "checkerboard.json"  # in the folder of the models
SEEDS = 3

_STEPS = {"diagonal": 2000, "covariance": 4000, "flow": 1200}
# Gaussians need large steps: with a flow q, the ridge of the covariance becomes narrower throughout training
_DENSITY_RATES = {"diagonal": 1e-2, "covariance": 4e-2, "flow": 5e-3}
_DEQUANTIZER_RATE = 2e-3
_BATCH = 128
_WARMUP_STEPS = 200
_DECAY_FRACTION = 0.7
_CLIP_NORM = 1.0
_VI_DRAWS = 50_000
_IW_SAMPLES = 256
_IW_DRAWS = 2_000
_CHUNK = 1 << 17  # importance weights in one batch


@dataclass(frozen=True)
class Objective:
    """The Rényi bound of order alpha, with `samples` samples of each point."""

    alpha: float
    samples: int

    @property
    def batch(self) -> int:
        """Points in a batch; fewer if each has many samples."""
        return _BATCH if self.samples <= 2 else _BATCH // 2


OBJECTIVES = {
    "vi": Objective(1.0, 1),
    "iw16": Objective(0.0, 16),
    "renyi2": Objective(-math.inf, 2),
    "renyi4": Objective(-math.inf, 4),
    "renyi16": Objective(-math.inf, 16),
}


@dataclass(frozen=True)
class Cell:
    """One trained model of the tables."""

    density: str
    dequantizer: str
    objective: str
    seed: int

    @property
    def name(self) -> str:
        """Its name in the results."""
        return f"{self.density}-{self.dequantizer}-{self.objective}-{self.seed}"


def cells() -> list[Cell]:
    """The cells of both tables, and of the text on Rényi with more samples."""
    pairs = [(p, q, "vi") for p in DENSITIES for q in DEQUANTIZERS]
    objectives = [("flow", q, objective) for objective in ("iw16", "renyi2") for q in DEQUANTIZERS]
    remark = [("flow", "uniform", objective) for objective in ("renyi4", "renyi16")]
    return [Cell(*kind, seed) for kinds in (pairs + objectives, remark) for seed in range(SEEDS) for kind in kinds]


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the trained models")
    json_option(parser, "OUTPUT/checkerboard.json")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    results = Results(arguments.json or arguments.output / RESULTS)
    for cell in cells():
        weights = arguments.output / f"{cell.name}.pt"
        if cell.name in results and weights.exists():
            continue
        started = time.process_time()
        model = train(cell)
        minutes = (time.process_time() - started) / 60
        torch.save(model.state_dict(), weights)
        results.add(cell.name, measure(model, cell.seed) | settings(cell) | {"minutes": round(minutes, 2)})
        print(cell.name, results.cells[cell.name], flush=True)


def settings(cell: Cell) -> dict:
    """The settings of a cell's training and measurement, for the results."""
    return {
        "steps": _STEPS[cell.density],
        "batch": OBJECTIVES[cell.objective].batch,
        "optimiser": "adam",
        "density_rate": _DENSITY_RATES[cell.density],
        "dequantizer_rate": _DEQUANTIZER_RATE,
        "vi_draws": _VI_DRAWS,
        "iw_samples": _IW_SAMPLES,
        "iw_draws": _IW_DRAWS,
    }


def train(cell: Cell) -> DequantizedModel:
    """Train the model of a cell."""
    torch.manual_seed(cell.seed)
    objective, steps = OBJECTIVES[cell.objective], _STEPS[cell.density]
    model = build(cell.density, cell.dequantizer)
    model.initialise(STATES.repeat(1000, 1, 1, 1))
    full_rates = {model.density: _DENSITY_RATES[cell.density], model.dequantizer: _DEQUANTIZER_RATE}
    groups = [{"params": list(part.parameters()), "full_rate": rate} for part, rate in full_rates.items()]
    optimiser = torch.optim.Adam(groups, fused=True)
    x = STATES.repeat(objective.batch // 2, 1, 1, 1)
    for step in range(steps):
        rate = min(1.0, (step + 1) / _WARMUP_STEPS, max(0.01, (1 - step / steps) / _DECAY_FRACTION))
        for group in optimiser.param_groups:
            group["lr"] = rate * group["full_rate"]
        optimiser.zero_grad()
        (-model.bound(x, objective.samples, objective.alpha).mean()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), _CLIP_NORM)
        optimiser.step()
    return model


@torch.no_grad()
def measure(model: DequantizedModel, seed: int) -> dict:
    """The vi bound and the iw bound with 256 samples, bits, each with the standard error of its estimate."""
    torch.manual_seed(1000 + seed)
    vi_bits, vi_error = _mean(model, _VI_DRAWS, 1)
    iw_bits, iw_error = _mean(model, _IW_DRAWS, _IW_SAMPLES)
    return {"vi_bits": vi_bits, "vi_error": vi_error, "iw_bits": iw_bits, "iw_error": iw_error}


def _mean(model: DequantizedModel, draws: int, samples: int) -> tuple[float, float]:
    """(mean, standard error) of the iw bound, bits. Half of the draws are of each state."""
    size = min(draws, _CHUNK // samples)
    bounds = [_bits(model.bound(STATES.repeat(size // 2, 1, 1, 1), samples, 0.0)) for _ in range(-(-draws // size))]
    bits = torch.cat(bounds).double()
    return round(bits.mean().item(), 5), round((bits.std() / len(bits) ** 0.5).item(), 5)


def _bits(log_prob: Tensor) -> Tensor:
    return -log_prob / math.log(2)


if __name__ == "__main__":
    main()
