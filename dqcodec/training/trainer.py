"""Training: images -> a run folder (dqcodec.training.runs)."""

import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from dqcodec.base.errors import DqcodecError
from dqcodec.export.program import export, has_exact_twin
from dqcodec.flows.model import DequantizedModel, bits_per_dim
from dqcodec.flows.networks import Network
from dqcodec.training import data, hardware
from dqcodec.training.budget import Budget
from dqcodec.training.build import build
from dqcodec.training.card import card
from dqcodec.training.config import Config
from dqcodec.training.distributed import ProcessGroup
from dqcodec.training.interrupts import interrupts
from dqcodec.training.optimisers import averaging, optimisers, update
from dqcodec.training.progress import SILENT, Progress
from dqcodec.training.runs import RunFolder, averaged_weights
from dqcodec.training.validation import Validation

_MILESTONE_SECONDS = 180
_PROGRESS_STEPS = 20
_MAX_SKIPPED_STEPS = 100  # in a row; with more, the run has diverged


class Trainer:
    """One run. Call start, start_from, start_with or resume, then run.

    Step i draws its crops and its noise from (seed, i) only, and the learning rate follows from the spent budget. With
    a budget of images, a run that is stopped and resumed gives the same weights, bit for bit, as an uninterrupted one,
    on the same machine with the same number of threads. If torchrun started several processes, they share every batch,
    and the leader writes the folder.

    A checkpoint holds model, ema (the averaged model), optimisers, step, seconds, best_bpd.

    Args:
        device: "cpu", "cuda" or "auto". amp: whether networks train in bfloat16; "auto" looks at the hardware.

    Raises DqcodecError: the processes cannot share a batch equally.
    """

    def __init__(
        self,
        config: Config,
        images: data.Dataset,
        folder: Path | str,
        budget: Budget,
        device: str = "auto",
        amp: hardware.Switch = "auto",
    ):
        self.config, self.images, self.budget = config, images, budget
        self.folder = RunFolder(folder)
        self.device = hardware.chosen(device)
        self.processes = ProcessGroup.join(self.device)
        if config.training.batch % self.processes.size:
            raise DqcodecError(f"{self.processes.size} processes cannot share a batch of {config.training.batch}")
        torch.manual_seed(config.training.seed)
        self.model = build(config).to(self.device, memory_format=torch.channels_last)
        self.ema = AveragedModel(self.model, multi_avg_fn=averaging(config.training.ema), use_buffers=True)
        self.optimisers = optimisers(self.model, config.training)
        self.step, self.seconds, self.best_bpd = 0, 0.0, float("inf")
        self._skipped = 0
        self.validation = Validation(images.valid, config.training.validation_crops)
        for module in self.model.modules():
            if isinstance(module, Network):
                module.bfloat16 = hardware.bfloat16(amp, self.device)

    def start(self) -> None:
        """Begin a new run. The first batch initialises the model.

        Raises RunError: the folder already holds a run.
        """
        self._create_folder()
        x, seed = self._draw(self.model.density.first_batch)
        torch.manual_seed(seed)
        self.model.initialise(x)
        self.ema.module.load_state_dict(self.model.state_dict())

    def start_from(self, checkpoint: Path | str) -> None:
        """Begin a new run from the averaged weights of a checkpoint or run folder.

        Raises DqcodecError: the weights belong to another model; RunError: they are missing or
        damaged, or this folder already holds a run.
        """
        try:
            self.start_with(averaged_weights(checkpoint))
        except RuntimeError as error:
            raise DqcodecError(f"{checkpoint} belongs to another model: {error}") from None

    def start_with(self, weights: dict[str, Tensor]) -> None:
        """Begin a new run from these weights.

        Raises RuntimeError: the weights belong to another model; RunError: this folder already holds a run.
        """
        self.model.load_state_dict(weights)
        self.ema.module.load_state_dict(weights)
        self._create_folder()

    def _create_folder(self) -> None:
        if self.processes.is_leader:
            self.folder.create(self.config, self.validation.calibration)

    def resume(self) -> None:
        """Continue exactly where the folder's checkpoint was saved.

        Raises RunError: the checkpoint is missing or damaged.
        """
        state = self.folder.checkpoint()
        self.model.load_state_dict(state["model"])
        self.ema.load_state_dict(state["ema"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.step, self.seconds, self.best_bpd = state["step"], state["seconds"], state["best_bpd"]

    def run(self, progress: Progress = SILENT, until: float = 1.0) -> bool:
        """Train until the fraction `until` of the budget is spent, or until Ctrl-C. Both end with a checkpoint.

        Returns:
            True if the fraction is spent, False after Ctrl-C.

        Raises DqcodecError: training diverged.
        """
        losses, started, saved = [], time.monotonic() - self.seconds, time.monotonic()
        with interrupts() as interrupted:
            while (fraction := self.fraction()) < until:
                losses.append(self._train_step(fraction))
                self.seconds, stopped = self.processes.broadcast((time.monotonic() - started, interrupted.is_set()))
                if self.step % _PROGRESS_STEPS == 0:
                    progress.step(fraction, self.step, float(np.mean(losses[-_PROGRESS_STEPS:])))
                if stopped:
                    self._save()
                    return False
                if time.monotonic() - saved > _MILESTONE_SECONDS:
                    self._milestone(fraction, losses, progress)
                    losses, saved = [], time.monotonic()
            self._milestone(fraction, losses, progress)
        return True

    def fraction(self) -> float:
        """The spent part of the budget, 0 to 1."""
        return self.budget.fraction(self.seconds, self.step * self.config.training.batch)

    def _train_step(self, fraction: float) -> float:
        """One step -> the batch's bound, bits per dimension. A step whose gradient is not finite changes nothing."""
        settings, objective = self.config.training, self.config.objective
        x, seed = self._draw(settings.batch)
        torch.manual_seed(seed + self.processes.rank)
        bounds = self.model.bound(self.processes.shard(x), objective.samples, objective.alpha)
        bpd = bits_per_dim(bounds, x[0].numel()).mean()
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        bpd.backward()
        bpd = bpd.detach()
        self.processes.average([bpd, *(p.grad for p in self.model.parameters() if p.grad is not None)])
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm)
        if torch.isfinite(norm):
            update(self.optimisers, self._rate(fraction))
            self.ema.update_parameters(self.model)
            self._skipped = 0
        else:
            self._skipped += 1
            if self._skipped > _MAX_SKIPPED_STEPS:
                raise DqcodecError(f"{self.folder.path}: training diverged at step {self.step}")
        self.step += 1
        return bpd.item()

    def _rate(self, fraction: float) -> float:
        settings = self.config.training
        warmup = min(1.0, (self.step + 1) / settings.warmup_steps)
        decay = min(1.0, (1 - fraction) / settings.decay_fraction) if settings.decay_fraction else 1.0
        return warmup * max(decay, 0.01)

    def _draw(self, size: int) -> tuple[Tensor, int]:
        """(the crops of this step, the seed of its noise)."""
        rng = np.random.default_rng((self.config.training.seed, self.step))
        crops = self.images.train.draw(size, self.config.data.flips, rng)
        x = torch.from_numpy(crops).to(self.device, torch.float32, memory_format=torch.channels_last)
        return x, int(rng.integers(1 << 63))

    def validate(self) -> float:
        """The averaged model's vi bound on the fixed validation crops, bits per dimension."""
        return self.validation.bpd(self.ema.module)

    def _milestone(self, fraction: float, losses: list[float], progress: Progress) -> None:
        """Validate, export the best model so far, log, save and report. Only the leader does this; the others wait."""
        if not self.processes.is_leader:
            return
        valid_bpd = self.validate()
        metrics = {
            "step": self.step,
            "minutes": round(self.seconds / 60, 2),
            "images": self.step * self.config.training.batch,
            "train_bpd": round(float(np.mean(losses)), 4) if losses else None,
            "valid_bpd": round(valid_bpd, 4),
        }
        if has_exact_twin(self.model):
            metrics |= self._export(valid_bpd)
        self.best_bpd = min(self.best_bpd, valid_bpd)
        self.folder.log(metrics)
        self._save()
        progress.milestone(fraction, metrics)

    def _export(self, valid_bpd: float) -> dict:
        """Export the averaged model and code a few crops with it. Keep the file if its bound is the best so far."""
        model = self.ema.module
        facts = card(model, self.config, self.seconds / 60, self.step, valid_bpd)
        calibration = torch.from_numpy(self.validation.calibration).float()
        path = export(model, self.config.name, self.config.default_tile, calibration, facts, self.folder.path)
        coded = self.validation.coded(model, path)
        if valid_bpd <= self.best_bpd:
            self.folder.keep_only(path)
        else:
            path.unlink()
        return coded

    def _save(self) -> None:
        if not self.processes.is_leader:
            return
        self.folder.save_checkpoint(
            {
                "model": self.model.state_dict(),
                "ema": self.ema.state_dict(),
                "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
                "step": self.step,
                "seconds": self.seconds,
                "best_bpd": self.best_bpd,
            }
        )


def load_model(run: Path | str) -> tuple[DequantizedModel, Config]:
    """The averaged model of a run folder, for evaluation and export.

    Raises DqcodecError: the folder holds no run.
    """
    folder = RunFolder(run)
    config = folder.config()
    model = build(config)
    model.load_state_dict(folder.averaged_weights())
    return model.eval(), config
