"""Training: data -> a run folder with config.toml, metrics.jsonl, checkpoint.pt and the exported model."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from dqcodec import config as configs
from dqcodec import data
from dqcodec.config import Config
from dqcodec.errors import DqcodecError
from dqcodec.flows.build import build
from dqcodec.flows.model import DequantizedModel, bits_per_dim
from dqcodec.flows.muon import Muon

CHECKPOINT_SECONDS = 180
MAX_SKIPPED_STEPS = 100  # in a row, before a run is given up as diverged


@dataclass(frozen=True)
class Budget:
    """How long to train: minutes of wall clock over all sittings, or images."""

    minutes: float | None = None
    images: int | None = None

    def fraction(self, seconds: float, images: int) -> float:
        """Part of the budget that is spent, 0 to 1."""
        spent = images / self.images if self.images else seconds / 60 / self.minutes
        return min(1.0, spent)


class Trainer:
    """One run. Step i draws its batch and noise from (seed, i) alone, so a stopped run continues exactly."""

    def __init__(self, config: Config, images: data.Images, folder: Path, budget: Budget, seed: int, device: str):
        self.config, self.images, self.folder, self.budget, self.seed = config, images, folder, budget, seed
        self.device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        torch.manual_seed(seed)
        self.model = build(config).to(self.device, memory_format=torch.channels_last)
        self.ema = AveragedModel(self.model, multi_avg_fn=_averaging(config.training.ema), use_buffers=True)
        self.optimisers = _optimisers(self.model, config)
        self.step, self.seconds, self.best_bpd = 0, 0.0, float("inf")

    def run(self, on_progress: Callable[[float, dict], None] = lambda fraction, metrics: None) -> None:
        """Train until the budget is spent; Ctrl-C saves and returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.toml").write_text(configs.dump(self.config))
        if self.step == 0:
            self.model.initialise(self._batch(self.images.train, 256))
        saved, losses, started = time.monotonic(), [], time.monotonic() - self.seconds
        try:
            while (fraction := self.budget.fraction(self.seconds, self.step * self.config.training.batch)) < 1:
                losses.append(self._train_step(fraction))
                self.seconds = time.monotonic() - started
                if self.step % 20 == 0:
                    on_progress(fraction, {"step": self.step, "train_bpd": float(np.mean(losses[-50:]))})
                if time.monotonic() - saved > CHECKPOINT_SECONDS:
                    saved, losses = self._milestone(losses), []
        except KeyboardInterrupt:
            pass
        self._milestone(losses)

    def _train_step(self, fraction: float) -> float:
        settings = self.config.training
        torch.manual_seed(hash((self.seed, self.step)) & 0x7FFFFFFF)
        x = self._batch(self.images.train, settings.batch)
        objective = self.config.objective
        bpd = bits_per_dim(self.model.bound(x, objective.samples, objective.alpha), x[0].numel()).mean()
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        bpd.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        if torch.isfinite(norm):
            rate = self._rate(fraction)
            for optimiser in self.optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = group["base_lr"] * rate
                optimiser.step()
            self.ema.update_parameters(self.model)
            self.skipped = 0
        else:
            self.skipped = getattr(self, "skipped", 0) + 1
            if self.skipped > MAX_SKIPPED_STEPS:
                raise DqcodecError(f"{self.folder}: training diverged at step {self.step}")
        self.step += 1
        return bpd.item()

    def _rate(self, fraction: float) -> float:
        settings = self.config.training
        warmup = min(1.0, (self.step + 1) / settings.warmup_steps)
        decay = min(1.0, (1 - fraction) / settings.decay_fraction) if settings.decay_fraction else 1.0
        return warmup * max(decay, 0.01)

    def _batch(self, images: list[np.ndarray], size: int) -> torch.Tensor:
        rng = np.random.default_rng((self.seed, self.step))
        crops = data.batch(images, size, self.config.data.crop, self.config.data.flips, rng)
        crops = crops >> (8 - self.config.data.bits)
        return torch.from_numpy(crops).to(self.device, torch.float32, memory_format=torch.channels_last)

    @torch.no_grad()
    def validate(self) -> float:
        """vi bound of the averaged model on a fixed set of validation crops, bpd."""
        torch.manual_seed(self.seed)
        rng = np.random.default_rng(self.seed)
        total = 0.0
        for _ in range(data.VALIDATION_CROPS // 32):
            crops = data.batch(self.images.valid, 32, self.config.data.crop, False, rng) >> (8 - self.config.data.bits)
            x = torch.from_numpy(crops).to(self.device, torch.float32, memory_format=torch.channels_last)
            total += bits_per_dim(self.ema.module.bound(x), x[0].numel()).mean().item()
        return total / (data.VALIDATION_CROPS // 32)

    def _milestone(self, losses: list[float]) -> float:
        """Validate, log and save; the time is returned."""
        valid_bpd = self.validate()
        self.best_bpd = min(self.best_bpd, valid_bpd)
        metrics = {
            "step": self.step, "minutes": round(self.seconds / 60, 2), "images": self.step * self.config.training.batch,
            "train_bpd": round(float(np.mean(losses)), 4) if losses else None, "valid_bpd": round(valid_bpd, 4),
        }
        with open(self.folder / "metrics.jsonl", "a") as log:
            log.write(json.dumps(metrics) + "\n")
        self.save()
        return time.monotonic()

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(), "ema": self.ema.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step, "seconds": self.seconds, "best_bpd": self.best_bpd,
        }
        partial = self.folder / "checkpoint.pt.partial"
        torch.save(state, partial)
        partial.replace(self.folder / "checkpoint.pt")

    def resume(self, checkpoint: Path) -> None:
        """Continue exactly where the checkpoint was saved."""
        state = _load(checkpoint)
        self.model.load_state_dict(state["model"])
        self.ema.load_state_dict(state["ema"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"]):
            optimiser.load_state_dict(saved)
        self.step, self.seconds, self.best_bpd = state["step"], state["seconds"], state["best_bpd"]


def _averaging(decay: float) -> Callable:
    """An exponential average whose decay starts small, so that early validation is not of stale weights."""

    def update(averages, currents, count):
        weight = 1 - min(decay, (1 + int(count)) / (10 + int(count)))
        for average, current in zip(averages, currents):
            if average.is_floating_point():
                average.lerp_(current, weight)
            else:
                average.copy_(current)

    return update


def _load(checkpoint: Path) -> dict:
    try:
        return torch.load(checkpoint, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError) as error:
        raise DqcodecError(f"{checkpoint}: {error}") from None


def load_model(run: Path) -> tuple[DequantizedModel, Config]:
    """The averaged model of a run folder, for evaluation and export."""
    config = configs.load(run / "config.toml")
    model = AveragedModel(build(config), use_buffers=True)
    model.load_state_dict(_load(run / "checkpoint.pt")["ema"])
    return model.module.eval(), config


def _optimisers(model: DequantizedModel, config: Config) -> list[torch.optim.Optimizer]:
    settings = config.training
    matrices = [p for p in model.parameters() if p.ndim == 4 and settings.optimiser == "muon"]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    optimisers = [torch.optim.Adam(others, settings.learning_rate, betas=(0.9, 0.99))]
    if matrices:
        optimisers.append(Muon(matrices, settings.muon_learning_rate))
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["base_lr"] = group["lr"]
    return optimisers
