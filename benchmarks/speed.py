"""What `dqcodec bench` does not measure: the start-up time of the command, and the exact ARD inverse.

python benchmarks/speed.py FILE.png [--ard-model NAME] [--json RESULT.json]
"""

import subprocess
import time
from pathlib import Path

import numpy as np
import script

from dqcodec.ans.stack import Stack
from dqcodec.bench.machine import machine
from dqcodec.codec import zoo

ARD_TILES = 32


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--ard-model", default="cifar10-ard")
    arguments = parser.parse_args()
    pixels = script.read_rgb(arguments.file)
    result = {"machine": machine(), "image": arguments.file.name}
    result["help_seconds"] = time_help()
    result["ard"] = time_ard(zoo.load(arguments.ard_model), pixels)
    script.publish(result, arguments.json)


def time_help() -> float:
    """Start-up time of the command, seconds: the best of five `dqcodec --help`."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([*script.DQCODEC, "--help"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return round(min(seconds), 3)


def time_ard(program, pixels) -> dict:
    """Iterations of the exact autoregressive inverse, and milliseconds per tile in both directions.

    Args:
        pixels: (H, W, 3) uint8; their tiles are coded.
    """
    tile = program.tile
    tiles = script.tiles_of(pixels, tile)[:ARD_TILES].astype(np.int64)
    stack = Stack(np.random.default_rng(0).bytes(8 * tiles.size))
    start = time.perf_counter()
    program.codec.push(stack, tiles)
    middle = time.perf_counter()
    program.codec.pop(stack, len(tiles), tile, tile)
    seconds = time.perf_counter() - middle
    return {
        "model": program.name,
        "tiles": len(tiles),
        "dims": tile * tile * 3,
        "iterations": [step.iterations for step in program.codec.dequantizer.steps],
        "push_ms_per_tile": round(1000 * (middle - start) / len(tiles), 2),
        "pop_ms_per_tile": round(1000 * seconds / len(tiles), 2),
    }


if __name__ == "__main__":
    main()
