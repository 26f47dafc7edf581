"""Coding test images by the exact program of a trained run."""

import tempfile
from pathlib import Path

import numpy as np

from dqcodec.exact.program import load_program
from dqcodec.methods import learned
from dqcodec.methods.report import ModelReport
from dqcodec.training.release import export_run


def code(run: Path, x: np.ndarray, particles: int = 1) -> tuple[bytes, ModelReport]:
    """Export a run, then code images (N, H, W, C) of symbols on one stack, decode and compare them.

    Raises:
        SystemExit: the images do not come back.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = load_program(export_run(run, Path(folder), tile=x.shape[1]))
    layers = list(x.astype(np.uint8))
    payload, report = learned.encode(layers, program, particles)
    decoded = learned.decode(payload, [layer.shape for layer in layers], program)
    if not all(map(np.array_equal, decoded, layers)):
        raise SystemExit(f"{run.name}: the images do not come back")
    return payload, report
