"""Export: a trained model becomes an exact program (dqcodec.exact), integer weights and integer tables in one file."""

import copy
import hashlib
from pathlib import Path

import torch
from torch import Tensor

from dqcodec.base.errors import ModelError
from dqcodec.export import autoregressive, flow
from dqcodec.flows.model import AutoregressiveModel, DequantizedModel


def has_exact_twin(model: DequantizedModel) -> bool:
    """Whether the model can be exported: autoregressive ones can, and flows over hypercube
    bins without dense nets or own classes.
    """
    return isinstance(model, AutoregressiveModel) or flow.has_exact_twin(model)


def export(
    model: DequantizedModel, name: str, tile: int | None, calibration: Tensor, card: dict, folder: Path | str
) -> Path:
    """Write the model's exact program to folder/<name>-<first 8 hex digits of its sha256>.safetensors.

    Args:
        tile: side of a full tile, for a flow a multiple of 2^levels; None, for autoregressive models: see
            export.autoregressive.
        calibration: symbols (B, C, H, W), float, that show the networks' activation ranges.
        card: facts about the model, for JSON.

    Returns:
        The file's path; dqcodec.load_model reads it.

    Raises ModelError: the model has no exact twin, or the tile does not fit it.
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
            "no exact twin: only autoregressive models have one, and flows made of this package's parts, over hypercube "
            "bins, without dense nets, with offset 2^(bits - 1) and unit 2^(bits - 2)"
        )
    kind = autoregressive if isinstance(model, AutoregressiveModel) else flow
    return kind.export_bytes(copy.deepcopy(model).cpu().eval(), name, tile, calibration.cpu(), card)
