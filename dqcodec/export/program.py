"""Export: a trained model becomes an exact program (dqcodec.exact), integer weights and integer tables in one file."""

import copy
import hashlib
from pathlib import Path

import torch
from torch import Tensor

from dqcodec.base.errors import ModelError
from dqcodec.export import autoregressive, flow
from dqcodec.flows.bins import Hypercube
from dqcodec.flows.densities import FlowDensity
from dqcodec.flows.interlaced import InterlacedFlow
from dqcodec.flows.model import AutoregressiveModel, DequantizedModel
from dqcodec.flows.networks import AutoregressiveDenseNet, DenseNet


def has_exact_twin(model: DequantizedModel) -> bool:
    """Whether the model can be exported: autoregressive densities can, and flows without dense nets over hypercube bins."""
    return isinstance(model, AutoregressiveModel) or (
        isinstance(model.density, FlowDensity | InterlacedFlow)
        and isinstance(model.dequantizer.bins, Hypercube)
        and not any(isinstance(module, DenseNet | AutoregressiveDenseNet) for module in model.modules())
    )


def export(
    model: DequantizedModel, name: str, tile: int | None, calibration: Tensor, card: dict, folder: Path | str
) -> Path:
    """Write the model's exact program to folder/<name>-<first 8 hex digits of its sha256>.safetensors.

    Args:
        tile: side of a full tile, for a flow a multiple of 2^levels; None, for autoregressive models: see export.autoregressive.
        calibration: symbols (B, C, H, W), float, that show the networks' activation ranges. card: facts about the model, for JSON.

    Returns:
        The file's path; dqcodec.load_model reads it.

    Raises:
        ModelError: the model has no exact twin, or the tile does not fit it.
    """
    data = export_bytes(model, name, tile, calibration, card)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}.safetensors"
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    return partial.replace(path)


@torch.no_grad()
def export_bytes(model: DequantizedModel, name: str, tile: int | None, calibration: Tensor, card: dict) -> bytes:
    """The model file's bytes; see export."""
    if not has_exact_twin(model):
        raise ModelError(
            "only flow and autoregressive densities over hypercube bins have an exact twin, without dense nets"
        )
    kind = autoregressive if isinstance(model, AutoregressiveModel) else flow
    return kind.export_bytes(copy.deepcopy(model).cpu().eval(), name, tile, calibration.cpu(), card)
