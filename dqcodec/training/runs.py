"""A run folder: config.toml, metrics.jsonl, checkpoint.pt, calibration.npy, and the best model so far, exported.

A released run keeps of these config.toml and metrics.jsonl, and weights.safetensors, the averaged model's weights:
enough to evaluate it and to start other runs from it.
"""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from dqcodec.base.errors import DqcodecError
from dqcodec.training import config as configs
from dqcodec.training.config import Config


class RunError(DqcodecError):
    """A run folder that cannot be used as asked."""


class RunFolder:
    """The files of one run. Each is written whole or not at all, but for the metrics, which grow line by line."""

    def __init__(self, path: Path):
        self.path = path
        self._config, self._metrics = path / "config.toml", path / "metrics.jsonl"
        self._checkpoint, self._calibration = path / "checkpoint.pt", path / "calibration.npy"
        self._weights = path / "weights.safetensors"

    def create(self, config: Config, calibration: np.ndarray) -> None:
        """Begin a run. calibration: symbols (B, C, H, W) that export is to be calibrated on.

        Raises:
            RunError: a run is there already.
        """
        if self._checkpoint.exists():
            raise RunError(f"{self.path} holds a run; continue it (--resume) or name another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self._config.write_text(configs.dump(config))
        self._metrics.unlink(missing_ok=True)
        np.save(self._calibration, calibration)

    def config(self) -> Config:
        return configs.load(self._config)

    def calibration(self) -> np.ndarray | None:
        """Symbols (B, C, H, W), or None where the run has none."""
        return np.load(self._calibration) if self._calibration.exists() else None

    def checkpoint(self) -> dict:
        """The last state saved.

        Raises:
            RunError: there is none, or it is damaged.
        """
        return read_checkpoint(self._checkpoint)

    def save_checkpoint(self, state: dict) -> None:
        partial = self._checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self._checkpoint)

    def averaged_weights(self) -> dict[str, Tensor]:
        """The state dict of the averaged model, from the last checkpoint or as released.

        Raises:
            RunError: there is none, or it is damaged.
        """
        if self._checkpoint.exists() or not self._weights.exists():
            return averaged_weights(self.checkpoint())
        try:
            return safetensors.torch.load_file(self._weights)
        except (OSError, SafetensorError) as error:
            raise RunError(f"{self._weights}: {error}") from None

    def release(self, model: nn.Module, folder: Path) -> None:
        """Write the released form of this run, with that averaged model, to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for file in (self._config, self._metrics):
            shutil.copyfile(file, folder / file.name)
        state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
        safetensors.torch.save_file(state, folder / self._weights.name)

    def log(self, metrics: dict) -> None:
        with self._metrics.open("a") as log:
            log.write(json.dumps(metrics) + "\n")

    def metrics(self) -> list[dict]:
        """All milestones, the oldest first."""
        lines = self._metrics.read_text().splitlines() if self._metrics.exists() else []
        return [json.loads(line) for line in lines]

    def keep_only(self, model_file: Path) -> None:
        """Remove the exported models but this one."""
        for path in self.path.glob(f"*{model_file.suffix}"):
            if path != model_file:
                path.unlink()


def read_checkpoint(path: Path) -> dict:
    """A checkpoint file, or that of a run folder, on the CPU; see trainer.Trainer for its keys.

    Raises:
        RunError: there is none, or it is damaged.
    """
    path = path / "checkpoint.pt" if path.is_dir() else path
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise RunError(f"{path}: {error}") from None


def averaged_weights(checkpoint: dict) -> dict[str, Tensor]:
    """The state dict of a checkpoint's averaged model."""
    return {name.removeprefix("module."): tensor for name, tensor in checkpoint["ema"].items() if name != "n_averaged"}
