"""Coded bytes of an image against the vi bound of the float model, and the parts of the difference.

    python benchmarks/bound.py SHEET.png --run RUN --model NAME [--tile 32] [--json RESULT.json]

RUN is a run folder or a released run in models/. The sides of the image are multiples of the model's tile. The float
bound is a mean over four samples of the dequantizer's noise. Where the density knows masses, log P(x) is there as well.
"""

from pathlib import Path

import script
import torch

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
    parser = script.parser(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--tile", type=int, default=32)
    arguments = parser.parse_args()
    where = machine()
    program = zoo.load(arguments.model)
    data = arguments.file.read_bytes()
    packed, report = codec.compress(data, [program], verify=True)
    if report.learned is None:
        raise SystemExit(f"{arguments.file}: {report.method} gives a smaller file than the model")
    pixels = script.read_rgb(arguments.file)
    dims = pixels.size
    model, _ = load_model(arguments.run)
    x = torch.from_numpy(script.tiles_of(pixels, arguments.tile)).permute(0, 3, 1, 2).float()
    float_bpd, float_mass_bpd = float_bound(model, x), None
    if isinstance(model.density, InterlacedFlow):
        float_mass_bpd = mass_bpd(model.density, [part.numpy() for part in x.split(_BATCH)])
    coded_bpd, bits = 8 * len(packed) / dims, report.learned
    result = {
        "machine": where,
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
    script.publish(result, arguments.json)


@torch.no_grad()
def float_bound(model: DequantizedModel, x: torch.Tensor) -> float:
    """Mean vi bound of tiles (N, 3, H, W), bits per dimension."""
    torch.manual_seed(0)
    bounds = [bits_per_dim(model.bound(batch), batch[0].numel()) for _ in range(_DRAWS) for batch in x.split(_BATCH)]
    return float(torch.cat(bounds).mean())


if __name__ == "__main__":
    main()
