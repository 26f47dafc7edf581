"""Coded bytes of an image against the vi bound of the float model, and the parts of the difference.

    python benchmarks/bound.py SHEET.png --run RUN --model NAME [--tile 32] [--json RESULT.json]

RUN is a run folder or a released run in models/. The sides of the image are multiples of the model's tile. The float
bound is a mean over four samples of the dequantizer's noise. Where the density knows masses, log P(x) is there as well.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from dqcodec.bench.machine import machine
from dqcodec.codec import codec, zoo
from dqcodec.flows.interlaced import InterlacedFlow
from dqcodec.flows.model import DequantizedModel, bits_per_dim
from dqcodec.training.evaluate import mass_bpd
from dqcodec.training.trainer import load_model

_DRAWS = 4
_BATCH = 50


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tile", type=int, default=32)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    program = zoo.load(arguments.model)
    data = arguments.file.read_bytes()
    packed, report = codec.compress(data, [program], verify=True)
    if report.learned is None:
        raise SystemExit(f"{arguments.file}: {report.method} gives a smaller file than the model")
    pixels = np.asarray(Image.open(arguments.file).convert("RGB"))
    dims = pixels.size
    model, _ = load_model(arguments.run)
    x = tiles(pixels, arguments.tile)
    float_bpd, float_mass_bpd = float_bound(model, x), None
    if isinstance(model.density, InterlacedFlow):
        float_mass_bpd = mass_bpd(model.density, [part.numpy() for part in x.split(_BATCH)])
    coded_bpd, bits = 8 * len(packed) / dims, report.learned
    result = {
        "machine": machine(),
        "image": arguments.file.name,
        "model": program.name,
        "dims": dims,
        "bytes": len(packed),
        "coded_bpd": round(coded_bpd, 4),
        "float_vi_bpd": round(float_bpd, 4),
        **({} if float_mass_bpd is None else {"float_mass_bpd": round(float_mass_bpd, 4)}),
        "gap_bpd": round(coded_bpd - float_bpd, 4),
        "gap_parts_bpd": {
            "rounded weights, less what learning gains; for the flow also noise of the estimate": round(
                bits["vi_bpd"] - float_bpd, 4
            ),
            "grids and tables": round(bits["grid_bits"] / dims, 4),
            "initial bits": round(bits["initial_bits"] / dims, 4),
            "container": round(8 * (report.container_bytes + report.chunk_bytes) / dims, 4),
        },
    }
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def tiles(pixels: np.ndarray, side: int) -> torch.Tensor:
    """Pixels (H, W, 3) -> tiles (N, 3, side, side), float32."""
    height, width, channels = pixels.shape
    grid = pixels.reshape(height // side, side, width // side, side, channels)
    return torch.from_numpy(grid.transpose(0, 2, 4, 1, 3).reshape(-1, channels, side, side).copy()).float()


@torch.no_grad()
def float_bound(model: DequantizedModel, x: torch.Tensor) -> float:
    """Mean vi bound of tiles (N, 3, H, W), bits per dimension."""
    torch.manual_seed(0)
    bounds = [bits_per_dim(model.bound(batch), batch[0].numel()) for _ in range(_DRAWS) for batch in x.split(_BATCH)]
    return float(torch.cat(bounds).mean())


if __name__ == "__main__":
    main()
