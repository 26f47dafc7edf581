"""What `dqcodec bench` does not measure: start-up and peak memory of the whole command, and the exact ARD inverse.

    python benchmarks/speed.py FILE.png [--model NAME] [--ard-model NAME] [--json RESULT.json]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from dqcodec.ans.stack import Stack
from dqcodec.bench.machine import machine
from dqcodec.codec import zoo

ARD_TILES = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="photo")
    parser.add_argument("--ard-model", default="cifar10-ard")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pixels = np.asarray(Image.open(arguments.file).convert("RGB"))
    result = {"machine": machine(), "image": arguments.file.name}
    result["process"] = time_process(arguments.file, arguments.model)
    result["ard"] = time_ard(zoo.load(arguments.ard_model), pixels)
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def time_process(file: Path, model: str) -> dict:
    """Start-up seconds of the CLI, and the peak memory of a whole compression and decompression."""
    command = [sys.executable, "-m", "dqcodec"]
    starts = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([*command, "--help"], check=True, capture_output=True)
        starts.append(time.perf_counter() - start)
    with tempfile.TemporaryDirectory() as folder:
        packed = Path(folder) / "image.dqc"
        subprocess.run([*command, "compress", "-q", "-m", model, str(file), "-o", str(packed)], check=True)
        subprocess.run([*command, "decompress", "-q", str(packed), "-o", f"{folder}/image.png"], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # kilobytes on Linux
    return {"help_seconds": round(min(starts), 3), "peak_memory_megabytes": round(peak)}


def time_ard(program, pixels) -> dict:
    """Iterations of the exact autoregressive inverse, and seconds both ways, on tiles of the image."""
    tile = program.tile
    boxes = [(top, left) for top in range(0, pixels.shape[0] - tile + 1, tile)
             for left in range(0, pixels.shape[1] - tile + 1, tile)][:ARD_TILES]
    tiles = np.stack([pixels[top : top + tile, left : left + tile] for top, left in boxes]).astype(np.int64)
    stack = Stack(np.random.default_rng(0).bytes(8 * tiles.size))
    start = time.perf_counter()
    program.codec.push(stack, tiles)
    middle = time.perf_counter()
    program.codec.pop(stack, len(tiles), tile, tile)
    seconds = time.perf_counter() - middle
    return {"model": program.name, "tiles": len(tiles), "dims": tile * tile * 3,
            "iterations": [transform.iterations for transform in program.codec.dequantizer.transforms],
            "push_ms_per_tile": round(1000 * (middle - start) / len(tiles), 2),
            "pop_ms_per_tile": round(1000 * seconds / len(tiles), 2)}


if __name__ == "__main__":
    main()
