"""Speed, memory and start-up of dqcodec beside its peers, in one run on one image.

    python benchmarks/speed.py FILE.png [--model NAME] [--ard-model NAME] [--repeat 3] [--json RESULT.json]

Each figure is the best of the repetitions. Speeds are megapixels a second of wall clock, without reading files; the
peak memory and the start-up time are those of the whole `dqcodec` process.
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
from machine import machine
from peers import PEERS
from PIL import Image

from dqcodec import zoo
from dqcodec.methods import flow

ARD_TILES = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="photo")
    parser.add_argument("--ard-model", default="cifar10")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    pixels = np.asarray(Image.open(arguments.file).convert("RGB"))
    program = zoo.load(arguments.model)
    rows = [time_codec(
        f"dqcodec {arguments.model}", pixels, arguments.repeat,
        lambda image: flow.encode(image, program)[0], lambda data: flow.decode(data, pixels.shape, program),
    )]
    rows += [time_codec(peer.name, pixels, arguments.repeat, peer.encode, peer.decode) for peer in PEERS]
    for row in rows:
        print("{codec:>22} {bytes:>9} bytes  encode {encode_mp_s:8.3f} MP/s  decode {decode_mp_s:8.3f} MP/s".format(**row))
    result = {"machine": machine(), "image": arguments.file.name, "pixels": pixels[..., 0].size, "codecs": rows}
    result["process"] = time_process(arguments.file, arguments.model)
    result["ard"] = time_ard(zoo.load(arguments.ard_model), pixels)
    print(json.dumps(result["process"] | {"ard": result["ard"]}, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def time_codec(name, pixels, repeat, encode, decode) -> dict:
    """Bytes and the best speeds both ways."""
    encode_seconds, decode_seconds = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        data = encode(pixels)
        middle = time.perf_counter()
        restored = decode(data)
        encode_seconds.append(middle - start)
        decode_seconds.append(time.perf_counter() - middle)
        if not np.array_equal(restored, pixels):
            raise SystemExit(f"{name} is not lossless")
    megapixels = pixels[..., 0].size / 1e6
    return {"codec": name, "bytes": len(data), "encode_mp_s": round(megapixels / min(encode_seconds), 3),
            "decode_mp_s": round(megapixels / min(decode_seconds), 3)}


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
    from dqcodec.ans.stack import Stack

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
