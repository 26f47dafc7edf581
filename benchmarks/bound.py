"""Coded bytes of an image against the vi bound of the float model, and the parts of the difference.

    python benchmarks/bound.py SHEET.png --run RUN --model NAME [--tile 32] [--json RESULT.json]

RUN is a run folder or a released run in models/. The sides of the image are multiples of the model's tile. The float
bound is a mean over four samples of the dequantizer's noise, with its standard error over tiles. Where the density knows masses,
-log2 P(x) is there as well.
"""

from pathlib import Path

import script

from dqcodec.bench.machine import machine
from dqcodec.codec import codec, zoo
from dqcodec.training.evaluate import evaluate
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
    x = script.tiles_of(pixels, arguments.tile).transpose(0, 3, 1, 2).copy()
    bounds = evaluate(model, [x[start : start + _BATCH] for start in range(0, len(x), _BATCH)], _DRAWS)
    float_bpd = bounds.vi_bpd
    coded_bpd, bits = 8 * len(packed) / dims, report.learned
    result = {
        "machine": where,
        "image": arguments.file.name,
        "model": program.name,
        "dims": dims,
        "bytes": len(packed),
        "coded_bpd": round(coded_bpd, 4),
        "float_vi_bpd": round(float_bpd, 4),
        "float_vi_error_bpd": round(bounds.vi_error_bpd, 4),
        **({} if bounds.mass_bpd is None else {"float_mass_bpd": round(bounds.mass_bpd, 4)}),
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


if __name__ == "__main__":
    main()
