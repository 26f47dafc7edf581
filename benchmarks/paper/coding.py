"""Code test images with the integer program of a trained run."""

import tempfile
from pathlib import Path

import numpy as np

from dqcodec.exact.program import Program, load_program
from dqcodec.methods import table
from dqcodec.methods.payload import ModelReport
from dqcodec.training.data import Crops
from dqcodec.training.release import export_run

_BATCH = 100


def symbols(test: Crops, count: int | None) -> np.ndarray:
    """All test images, or `count` of them, (N, H, W, C)."""
    return np.concatenate(list(test.tiles(_BATCH, count))).transpose(0, 2, 3, 1)


def exported(run: Path, side: int) -> Program:
    """The exact program of a run, for tiles of this side."""
    with tempfile.TemporaryDirectory() as folder:
        return load_program(export_run(run, Path(folder), tile=side))


def code(run: Path, x: np.ndarray) -> tuple[bytes, ModelReport]:
    """Code images x (N, H, W, C) on one stack by a run's program, decode and compare them.

    Raises:
        SystemExit: the decoded images differ.
    """
    program, layers = exported(run, x.shape[1]), list(x.astype(np.uint8))
    method = table.rows_of(program)[0].module
    payload = method.encode(layers, program)
    decoded = method.decode(payload.data, [layer.shape for layer in layers], program)
    if not all(map(np.array_equal, decoded, layers)):
        raise SystemExit(f"{run.name}: the decoded images differ")
    return payload.data, payload.report


def rates(payload: bytes, report: ModelReport, dims: int) -> dict[str, float]:
    """Bits per dimension: the integer program's bound, the whole payload, and its initial bits."""
    bits = {"exact_bpd": report.vi_bits, "coded_bpd": 8 * len(payload), "initial_bpd": report.initial_bits}
    return {key: round(value / dims, 5) for key, value in bits.items()}
