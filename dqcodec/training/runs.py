"""A run folder: config.toml, metrics.jsonl, checkpoint.pt, calibration.npy, and the best exported model so far.

A released run keeps config.toml and metrics.jsonl, and adds weights.safetensors, the weights of the averaged model.
This is enough to evaluate it and to start other runs from it.
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
    """A run folder does not allow the operation: it is in use, incomplete or damaged."""


class RunFolder:
    """The files of one run. The metrics grow line by line; every other file is written whole or not at all."""

    def __init__(self, path: Path | str):
        self.path = path = Path(path)
        self._config, self._metrics = path / "config.toml", path / "metrics.jsonl"
        self._checkpoint, self._calibration = path / "checkpoint.pt", path / "calibration.npy"
        self._weights = path / "weights.safetensors"

    def create(self, config: Config, calibration: np.ndarray) -> None:
        """Begin a run.

        Args:
            calibration: symbols (B, C, H, W) uint8 that calibrate the export.

        Raises RunError: the folder already holds a run.
        """
        if self._checkpoint.exists():
            raise RunError(f"{self.path} already holds a run; continue it with --resume or give another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self._config.write_text(configs.dump(config))
        self._metrics.unlink(missing_ok=True)
        np.save(self._calibration, calibration)

    def config(self) -> Config:
        """The run's configuration.

        Raises RunError: the folder holds no run; ConfigError: the configuration is damaged.
        """
        if not self._config.exists():
            raise RunError(f"{self.path} holds no run: it has no {self._config.name}")
        return configs.load(self._config)

    def calibration(self) -> np.ndarray | None:
        """Symbols (B, C, H, W) uint8, or None if the run has none."""
        return np.load(self._calibration) if self._calibration.exists() else None

    def checkpoint(self) -> dict:
        """The last saved state. For its keys see trainer.Trainer.

        Raises RunError: it is missing or damaged.
        """
        return _read(self._checkpoint)

    def save_checkpoint(self, state: dict) -> None:
        """Replace the checkpoint. An interruption leaves the old one."""
        partial = self._checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self._checkpoint)

    def averaged_weights(self) -> dict[str, Tensor]:
        """The state dict of the averaged model, from the last checkpoint or from the released weights.

        Raises RunError: both are missing, or the file is damaged.
        """
        if self._checkpoint.exists() or not self._weights.exists():
            return _averaged(self.checkpoint())
        try:
            return safetensors.torch.load_file(self._weights)
        except (OSError, SafetensorError) as error:
            raise RunError(f"{self._weights}: {error}") from None

    def spent(self) -> tuple[float, int]:
        """(minutes of training, steps), from the checkpoint, or from the last milestone of a released run.

        Raises RunError: both are missing, or the checkpoint is damaged.
        """
        if not self._checkpoint.exists() and (metrics := self.metrics()):
            return metrics[-1]["minutes"], metrics[-1]["step"]
        state = self.checkpoint()
        return state["seconds"] / 60, state["step"]

    def release(self, model: nn.Module, folder: Path) -> None:
        """Write this run to `folder` in its released form. model: the averaged model."""
        folder.mkdir(parents=True, exist_ok=True)
        for file in (self._config, self._metrics) if not folder.samefile(self.path) else ():
            shutil.copyfile(file, folder / file.name)
        state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
        safetensors.torch.save_file(state, folder / self._weights.name)

    def log(self, metrics: dict) -> None:
        """Append the metrics of a milestone."""
        with self._metrics.open("a") as log:
            log.write(json.dumps(metrics) + "\n")

    def metrics(self) -> list[dict]:
        """The metrics of all milestones, oldest first."""
        lines = self._metrics.read_text().splitlines() if self._metrics.exists() else []
        return [json.loads(line) for line in lines]

    def keep_only(self, model_file: Path) -> None:
        """Remove all exported models except this one."""
        for path in self.path.glob(f"*{model_file.suffix}"):
            if path != model_file:
                path.unlink()


def averaged_weights(run: Path | str) -> dict[str, Tensor]:
    """The state dict of the averaged model of a run folder, or of a checkpoint file.

    Raises RunError: it is missing or damaged.
    """
    path = Path(run)
    return RunFolder(path).averaged_weights() if path.is_dir() else _averaged(_read(path))


def _read(path: Path) -> dict:
    """A checkpoint file, on the CPU. Raises RunError: it is missing or damaged."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise RunError(f"{path} is not there") from None
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise RunError(f"{path}: {error}") from None


def _averaged(checkpoint: dict) -> dict[str, Tensor]:
    """The state dict of the averaged model of a checkpoint."""
    return {name.removeprefix("module."): tensor for name, tensor in checkpoint["ema"].items() if name != "n_averaged"}
