"""Run -> model file to ship: the averaged model's integer program with its card."""

from pathlib import Path

import numpy as np
import torch

from dqcodec.export.program import export
from dqcodec.training.card import card
from dqcodec.training.data import load
from dqcodec.training.evaluate import evaluate
from dqcodec.training.runs import RunError, RunFolder
from dqcodec.training.trainer import load_model
from dqcodec.training.validation import CALIBRATION_CROPS

_MEASURED_CROPS = 512


def export_run(
    run: Path | str,
    folder: Path | str,
    *,
    data: Path | str | None = None,
    name: str | None = None,
    tile: int | None = None,
    facts: dict[str, str] | None = None,
) -> Path:
    """Write folder/<name>-<sha8>.safetensors, and the released run (see runs) to folder/<name>/.

    Args:
        run: of the trainer, or released; the latter has no crops, so it needs data.
        data: training data. Its validation part calibrates the export and gives the rate on the card. Without it, the
            run's own crops calibrate, and the last milestone gives the rate.
        name: of the model; default: the configuration's. tile: see Config.default_tile.
        facts: added to the card.

    Returns:
        The model file's path.

    Raises DqcodecError: the run is not readable or has no calibration crops, or its model has no integer program.
    """
    folder = Path(folder)
    model, config = load_model(run)
    source = RunFolder(run)
    if data is None:
        crops, valid_bpd = source.calibration(), next((m["valid_bpd"] for m in reversed(source.metrics())), None)
        if crops is None:
            raise RunError(f"{run} has no calibration crops; name its data")
    else:
        valid = load(data, config.data.channels, config.data.crop, config.data.bits).valid
        crops = np.concatenate(list(valid.tiles(CALIBRATION_CROPS, CALIBRATION_CROPS)))
        valid_bpd = evaluate(model, valid.tiles(32, _MEASURED_CROPS), 1).vi_bpd
    minutes, steps = source.spent()
    facts = card(model, config, minutes, steps, valid_bpd) | (facts or {})
    calibration = torch.from_numpy(crops).float()
    source.release(model, folder / (name or config.name))
    return export(model, name or config.name, tile or config.default_tile, calibration, facts, folder)
