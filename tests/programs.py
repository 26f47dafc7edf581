"""Small exact programs with random weights, of every kind, made once per session; pixels to code; other processes."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from safetensors.numpy import load, save
from torch import nn

from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, LatentOverflow
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.program import Program, load_program
from dqcodec.export.program import export_bytes
from dqcodec.flows.model import DequantizedModel
from dqcodec.flows.transforms import Conv1x1
from dqcodec.format.layer import Layer
from dqcodec.methods import table
from dqcodec.methods.payload import ModelReport
from dqcodec.training.build import build
from dqcodec.training.config import Config

# of flows: of affine couplings, by their dequantizer (alternating is an ARD); of mixture couplings, with an ARD
KINDS = ("uniform", "gaussian", "bipartite", "ard", "alternating", "interlaced")
AUTOREGRESSIVE, LEAST_SQUARES = "autoregressive", "least-squares"  # the latter an autoregressive one that predicts
LEARNING = "learning"  # one that predicts, and whose whole network learns
_OF_PIXELS = (AUTOREGRESSIVE, LEAST_SQUARES, LEARNING)
TILE = 8
OUT_OF_RANGE = (LatentOverflow, CorruptError)  # what a dequantizer says of a point that it never samples

VARIABLES = (
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
)
NO_FEATURES = " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))
LOWEST = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": NO_FEATURES,
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_CPU_NAME": "generic",
}

_folder = Path(tempfile.mkdtemp(prefix="dqcodec-tests-"))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)


def config(kind: str, channels: int = 3, levels: int = 1, bits: int = 8) -> Config:
    """levels: of a flow."""
    level = {"subflows": 2, "width": 8, "blocks": 1}
    dequantizer = {
        "kind": "ard" if kind in ("alternating", "interlaced") else kind,
        "alternating": kind == "alternating",
        "width": 8,
        "blocks": 1,
        "subflows": 1 if kind == "ard" else 2,
        "context_channels": 4,
        "channels_per_group": 2,
    }
    density = {"levels": [level] * levels}
    if kind == "interlaced":
        dequantizer |= {"features": "standard", "noise": "logistic"}
        density |= {"kind": "interlaced", "head": 6, "mixtures": 2}
    if kind in _OF_PIXELS:
        dequantizer = {"kind": "posterior"}
        density = {"kind": AUTOREGRESSIVE, "width": 12, "blocks": 1, "head": 6, "features": 4, "mixtures": 3}
        density |= {"least_squares": kind != AUTOREGRESSIVE, "learning": 4 if kind == LEARNING else 0}
    return Config.model_validate(
        {
            "name": kind,
            "data": {"channels": channels, "bits": bits, "crop": TILE},
            "dequantizer": dequantizer,
            "density": density,
        }
    )


@functools.cache
def model(kind: str, channels: int = 3, levels: int = 1, bits: int = 8) -> DequantizedModel:
    """An untrained model all of whose layers do something."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        result = build(config(kind, channels, levels, bits)).eval()
        result.initialise(calibration(channels, bits))
        with torch.no_grad():
            for module in result.modules():
                if isinstance(module, nn.Conv2d):
                    randomise(module)
                elif isinstance(module, nn.Linear):
                    module.weight.copy_(0.7 * torch.randn_like(module.weight) / module.in_features**0.5)
                elif isinstance(module, Conv1x1):
                    module.lower.add_(0.1 * torch.randn_like(module.lower))
                    module.upper.add_(0.1 * torch.randn_like(module.upper))
    return result


@torch.no_grad()
def randomise(conv: nn.Conv2d, strength: float = 0.5) -> None:
    fan_in = conv.weight[0].numel()
    conv.weight.copy_(strength * torch.randn_like(conv.weight) / fan_in**0.5)
    if conv.bias is not None:
        conv.bias.copy_(0.1 * torch.randn_like(conv.bias))


@functools.cache
def data(kind: str, channels: int = 3, levels: int = 1, bits: int = 8) -> bytes:
    """The bytes of a model file."""
    tile = None if kind in _OF_PIXELS else TILE
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return export_bytes(
            model(kind, channels, levels, bits), kind, tile, calibration(channels, bits), {"about": "a test"}
        )


def write(content: bytes) -> Path:
    """A new file of that content."""
    with tempfile.NamedTemporaryFile(dir=_folder, suffix=".safetensors", delete=False) as file:
        file.write(content)
    return Path(file.name)


@functools.cache
def path(kind: str, channels: int = 3, levels: int = 1, bits: int = 8) -> Path:
    return write(data(kind, channels, levels, bits))


@functools.cache
def program(kind: str, channels: int = 3, levels: int = 1, bits: int = 8) -> Program:
    return load_program(path(kind, channels, levels, bits))


def uniform(bits: int = 1, levels: int = 2) -> Program:
    """A flow of gray images with this number of bits, and with a uniform dequantizer."""
    return program("uniform", 1, levels, bits)


def digits(count: int, side: int = 8, bits: int = 1, seed: int = 0) -> np.ndarray:
    """Smooth tiles with this number of bits, (B, H, W, 1) int64."""
    return smooth(np.random.default_rng(seed), count, side, side, 1) >> 8 - bits


@functools.cache
def tiled(rows: int, columns: int, channels: int = 3, bits: int = 8) -> AutoregressiveProgram:
    """The autoregressive program for such tiles."""
    return load_program(write(described(AUTOREGRESSIVE, channels, 1, bits, tile=[rows, columns])))


@functools.cache
def still(channels: int = 3, bits: int = 8, kind: str = AUTOREGRESSIVE) -> AutoregressiveProgram:
    """The autoregressive program that hardly learns while it codes."""
    rules = [
        (rule.gradient_bits, 32, rule.input_bits) for rule in program(kind, channels, 1, bits).description.learning
    ]
    return load_program(write(described(kind, channels, 1, bits, rate_bits=32, learning=rules)))


def encode(layers: Sequence[np.ndarray], program: Program) -> tuple[bytes, ModelReport]:
    """The payload of layers by the program's own method, and the model's report."""
    payload = table.rows_of(program)[0].module.encode(layers, program)
    return payload.data, payload.report


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: Program) -> list[np.ndarray]:
    """Undo encode."""
    layer = Layer(table.rows_of(program)[0].number, program.id)
    return table.decode(payload, layer, shapes, lambda model_id: program)


def tensors(kind: str, channels: int = 3, levels: int = 1, bits: int = 8) -> dict[str, np.ndarray]:
    return load(data(kind, channels, levels, bits))


def metadata(content: bytes) -> dict[str, str]:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]


def with_tensors(kind: str, changed: dict[str, np.ndarray]) -> bytes:
    """The model file with other tensors."""
    return save({name: np.asarray(a, order="C") for name, a in changed.items()}, metadata=metadata(data(kind)))


def described(kind: str, /, *of: int, **changes) -> bytes:
    """The model file with another description; of: channels, levels, bits."""
    description = json.loads(metadata(data(kind, *of))["dqcodec"]) | changes
    return save(tensors(kind, *of), metadata={"dqcodec": json.dumps(description)})


def amplified(kind: str, shear_bits: int) -> dict[str, np.ndarray]:
    """The tensors of a program whose 1x1 convolutions make all that goes through them larger."""
    changed = tensors(kind)
    for name, tensor in changed.items():
        if name.endswith(".lower"):
            changed[name] = np.tril(np.ones_like(tensor), -1) * ((1 << shear_bits) - 1)
        if name.endswith(".upper"):
            changed[name] = np.triu(np.ones_like(tensor), 1) * ((1 << shear_bits) - 1)
        if name.endswith(".sizes"):
            changed[name] = np.ones_like(tensor)
    return changed


def smooth(rng: np.random.Generator, batch: int, height: int, width: int, channels: int = 3) -> np.ndarray:
    """Slopes of random directions with a little noise: (B, H, W, C) int64 pixels."""
    slope = rng.uniform(-3, 3, (2, batch, 1, 1, 1))
    y, x = np.arange(height)[:, None, None], np.arange(width)[:, None]
    level = rng.uniform(60, 200, (batch, 1, 1, channels))
    pixels = level + slope[0] * y + slope[1] * x + rng.normal(0, 3, (batch, height, width, channels))
    return pixels.round().clip(0, 255).astype(np.int64)


def calibration(channels: int = 3, bits: int = 8) -> torch.Tensor:
    """Pixels (B, C, H, W), smooth and noisy ones."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (2, TILE, TILE, channels))
    pixels = np.concatenate([smooth(rng, 6, TILE, TILE, channels), noise]) >> 8 - bits
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float()


def odd_tiles(channels: int = 3) -> dict[str, np.ndarray]:
    """Tiles that no model expects."""
    shape = (1, TILE, TILE, channels)
    board = np.indices((TILE, TILE)).sum(0)[None, ..., None] % 2 * 255
    line = np.zeros(shape, np.int64)
    line[:, 3] = 255
    rng = np.random.default_rng(5)
    return {
        "black": np.zeros(shape, np.int64),
        "white": np.full(shape, 255),
        "noise": rng.integers(0, 256, shape),
        "checkerboard": np.broadcast_to(board, shape).astype(np.int64),
        "line": line,
        "smooth": smooth(rng, 1, TILE, TILE, channels),
    }


def noise_stack(seed: int = 0, length: int = 1 << 15) -> Stack:
    """A stack that pops what cannot be told from random bits."""
    return Stack(np.random.default_rng(seed).bytes(length))


def cut(pixels: np.ndarray, tile: tuple[int, int]) -> list[np.ndarray]:
    """Pixels (H, W, C) as tiles of at most that shape, row by row."""
    rows, columns = tile
    corners = [(y, x) for y in range(0, pixels.shape[0], rows) for x in range(0, pixels.shape[1], columns)]
    return [pixels[y : y + rows, x : x + columns] for y, x in corners]


def run(script: str, *arguments, **variables) -> bytes:
    """What a script prints in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | variables
    command = [sys.executable, "-c", script, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, env=environment, timeout=400)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout
