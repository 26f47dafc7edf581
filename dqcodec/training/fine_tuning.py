"""Fine-tuning: train a program further on the images that it will code, and store its changes in few bytes.

No image is held back for validation, because the model serves these images alone. Changes are rounded to steps whose
size makes the total of two costs least. Rounding a weight to steps of size s costs about I s^2 / 24 nats over all
images, where I is the Fisher information. Storing the weight costs -ln s nats plus a constant, in each copy. The total
is least where I s^2 = 12 copies. Squared gradients of whole crops estimate I. They are twice too large, because errors
of neighbouring pixels are correlated; the steps allow for this.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.base.errors import DqcodecError, ModelError
from dqcodec.exact.autoregressive import changes
from dqcodec.exact.autoregressive.changes import Rows
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.networks import Linear
from dqcodec.exact.program import Program
from dqcodec.export.restore import Twin, restore
from dqcodec.flows.model import AutoregressiveModel, bits_per_dim
from dqcodec.training.budget import Budget
from dqcodec.training.config import Config, Training
from dqcodec.training.hardware import bfloat16
from dqcodec.training.optimisers import optimisers, update
from dqcodec.training.progress import SILENT, Progress

_CROP = 64  # side, pixels
_STEP_PIXELS = 1 << 12
_SETTINGS = Training(learning_rate=2e-3, muon_learning_rate=8e-3, muon_weight_decay=0.1, warmup_steps=20, clip_norm=1.0)
_FISHER_CROPS = 128
_ROUNDING = 0.4  # a change below 0.6 steps is rounded to zero, because zeros take few bits
_LINES = 60  # seconds between lines about the progress
_EXACT = 1 << 24


def settings(program: Program) -> Config:
    """The configuration to train a program further. What is not set explicitly is free, see config.load.

    Raises ModelError: the program is of another kind.
    """
    _check(program)
    about, net = program.description, program.net
    rates = ("learning_rate", "muon_learning_rate", "muon_weight_decay", "warmup_steps")
    return Config.model_validate(
        {
            "name": program.name,
            "data": {"channels": about.channels, "bits": about.bits, "crop": _CROP},
            "dequantizer": {"kind": "posterior"},
            "density": {
                "kind": "autoregressive",
                "width": net.first.outputs,
                "blocks": about.blocks,
                "head": net.out[0].inputs,
                "features": about.features,
                "mixtures": about.mixtures,
                "least_squares": about.least_squares,
                "learning": len(about.learning),
            },
            "training": _SETTINGS.model_dump(include=set(rates)) | {"batch": 4, "decay_fraction": 1.0, "ema": 0.99},
        }
    )


def weights(program: Program) -> dict[str, Tensor]:
    """The state dict of the model in real numbers of a program.

    Raises ModelError: the program is of another kind.
    """
    _check(program)
    return restore(program)[0].state_dict()


def _check(program: Program) -> None:
    if not isinstance(program, AutoregressiveProgram):
        raise ModelError(f"{program.name} is not autoregressive: only such a model can be trained further")


class Pieces:
    """Crops of images (H, W, C) uint8 of any size. Sides are _CROP pixels, or the whole side of a smaller image."""

    def __init__(self, images: Sequence[np.ndarray]):
        self.pixels = sum(image.shape[0] * image.shape[1] for image in images)
        alike: dict[tuple[int, int], list[np.ndarray]] = {}
        for image in images:
            alike.setdefault((min(image.shape[0], _CROP), min(image.shape[1], _CROP)), []).append(image)
        self._alike = [*alike.items()]
        areas = [[image.shape[0] * image.shape[1] for image in images] for _, images in self._alike]
        self._chances = [np.array(each) / sum(each) for each in areas]
        self._shares = np.array([sum(each) for each in areas]) / self.pixels

    def draw(self, rng: np.random.Generator, pixels: int) -> Tensor:
        """Crops of one shape, float32 (B, C, H, W): at least one, with about `pixels` pixels in all."""
        kind = rng.choice(len(self._alike), p=self._shares)
        (height, width), images = self._alike[kind]
        count = max(1, pixels // (height * width))
        crops = []
        for number in rng.choice(len(images), count, p=self._chances[kind]):
            top, left = (rng.integers(whole - part + 1) for whole, part in zip(images[number].shape, (height, width)))
            crops.append(images[number][top : top + height, left : left + width])
        return torch.from_numpy(np.stack(crops).transpose(0, 3, 1, 2).astype(np.float32))


def fine_tune(
    program: AutoregressiveProgram,
    images: Sequence[np.ndarray],
    budget: Budget,
    copies: int = 1,
    progress: Progress = SILENT,
) -> bytes:
    """Train a program further on images, uint8 (H, W, C) below 2^bits.

    Args:
        copies: how often the changes will be stored.

    Returns:
        The changes, for exact.autoregressive.changes.

    Raises DqcodecError: training diverged.
    """
    model, twins = restore(program)
    pieces, rng = Pieces(images), np.random.default_rng(_SETTINGS.seed)
    model.density.net.bfloat16 = bfloat16("auto", "cpu")
    _train(model, pieces, rng, budget, progress)
    model.density.net.bfloat16 = False
    return changes.pack(program, _rounded(program, twins, _fisher(model, twins, pieces, rng), copies))


def _train(
    model: AutoregressiveModel, pieces: Pieces, rng: np.random.Generator, budget: Budget, progress: Progress
) -> None:
    """Train the model in place. Learning rates fall to zero linearly over the budget."""
    steppers, parameters = optimisers(model, _SETTINGS), [*model.parameters()]
    start = shown = time.monotonic()
    step = seen = 0
    while (fraction := budget.fraction(time.monotonic() - start, seen)) < 1:
        x = pieces.draw(rng, _STEP_PIXELS)
        bpd = bits_per_dim(model.bound(x), x[0].numel()).mean()
        model.zero_grad(set_to_none=True)
        bpd.backward()
        if not torch.isfinite(nn.utils.clip_grad_norm_(parameters, _SETTINGS.clip_norm)):
            raise DqcodecError("training diverged")
        update(steppers, min(1.0, (step + 1) / _SETTINGS.warmup_steps) * (1 - fraction))
        step, seen = step + 1, seen + len(x)
        progress.step(fraction, step, bpd := bpd.item())
        if time.monotonic() - shown > _LINES:
            shown = time.monotonic()
            progress.milestone(fraction, {"step": step, "bpd": round(bpd, 3)})


def _fisher(
    model: AutoregressiveModel, twins: Sequence[Twin], pieces: Pieces, rng: np.random.Generator
) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """The Fisher information of each layer over all images, nats: the mean of each row's
    weights (O,), and the biases' (O,).
    """
    sums = {parameter: torch.zeros_like(parameter) for twin in twins for parameter in twin.real.parameters()}
    seen = 0
    for _ in range(_FISHER_CROPS):
        x = pieces.draw(rng, 1)
        model.zero_grad(set_to_none=True)
        (-model.bound(x).sum()).backward()
        for parameter, total in sums.items():
            total += parameter.grad**2
        seen += x.shape[2] * x.shape[3]
    scale = pieces.pixels / seen
    found = {}
    for twin in twins:
        bias = twin.real.bias
        weights = scale * sums[twin.real.weight].double().mean(1).numpy()
        found[twin.name] = weights, None if bias is None else scale * sums[bias].double().numpy()
    return found


@torch.no_grad()
def _rounded(
    program: AutoregressiveProgram,
    twins: Sequence[Twin],
    fisher: dict[str, tuple[np.ndarray, np.ndarray | None]],
    copies: int,
) -> dict[str, Rows]:
    """The changes from the program to the twins' weights. A row loses bits if its sums would not be exact otherwise."""
    drops = {twin.name: np.zeros(twin.exact.outputs, np.int64) for twin in twins}
    while True:
        rows = {twin.name: _layer(twin, *fisher[twin.name], drops[twin.name], copies) for twin in twins}
        bounds = {twin.name: _bounds(twin.exact, rows[twin.name]) for twin in twins}
        heads, head = bounds["net.heads"], program.net.out[0].inputs
        for plane in range(1, program.channels):
            heads[plane * head : (plane + 1) * head] += bounds.pop(f"net.known.{plane}")
        too_large = {name: bound >= _EXACT for name, bound in bounds.items()}
        if not any(each.any() for each in too_large.values()):
            return rows
        for name, each in too_large.items():
            drops[name] = drops[name] + each
        for plane in range(1, program.channels):
            drops[f"net.known.{plane}"] = drops["net.heads"][plane * head : (plane + 1) * head]


def _layer(
    twin: Twin, weight_fisher: np.ndarray, bias_fisher: np.ndarray | None, drop: np.ndarray, copies: int
) -> Rows:
    """The changes of a layer. drop: the bits that each row loses, (O,)."""
    layer, scale = twin.exact, np.exp2(-drop)
    weights = twin.weight(twin.real.weight.double().numpy()) * scale[:, None]
    weight_step = _steps(weight_fisher, twin.weight_grid - drop, copies)
    of_weights = _changes(weights, changes.lowered(layer.weight[..., 0, 0], drop), weight_step)
    if bias_fisher is None:
        return Rows(drop, weight_step, of_weights)
    biases = twin.bias(twin.real.bias.double().numpy()) * scale
    bias_step = _steps(bias_fisher, twin.weight_grid + twin.grid_in - drop, copies)
    return Rows(
        drop,
        weight_step,
        of_weights,
        bias_step,
        _changes(biases, changes.lowered(changes.without_half(layer), drop), bias_step),
    )


def _steps(fisher: np.ndarray, grid: np.ndarray, copies: int) -> np.ndarray:
    """The exponents of steps, in units of 2^-grid."""
    best = grid + 0.5 * np.log2(24 * copies / np.maximum(fisher, 1e-12))
    return np.clip(np.round(best), 0, changes.MAX_STEP).astype(np.int64)


def _changes(wanted: np.ndarray, had: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The numbers of steps from integers to real numbers, rounded towards zero if in doubt."""
    steps = (wanted - had) * np.exp2(-step).reshape(-1, *[1] * (had.ndim - 1))
    return (np.sign(steps) * np.floor(np.abs(steps) + _ROUNDING)).astype(np.int64)


def _bounds(layer: Linear, rows: Rows) -> np.ndarray:
    """A bound on the sums of each changed row."""
    weight, bias, _ = changes.changed(layer, rows)
    return np.abs(weight).sum(1) * layer.max_input + np.abs(bias)
