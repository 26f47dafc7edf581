"""The time to decode regions of a large image, beside that of the whole.

    python benchmarks/regions.py PHOTO|FOLDER... [--size WIDTHxHEIGHT] [--json RESULT.json]

The image is a mosaic of all photographs, as in memory.py, coded with default settings. Regions are squares at nine
places: the corners, the middles of the sides, and the centre. Each is compared with the same part of the image.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from memory import mosaic
from PIL import Image

import dqcodec
from dqcodec.bench.machine import machine

_SIDES = (64, 256, 1024)


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--size", default="4096x3072")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = [sorted(path.iterdir()) if path.is_dir() else [path] for path in arguments.paths]
    photos = mosaic([np.asarray(Image.open(file).convert("RGB")) for files in found for file in files])
    width, height = map(int, arguments.size.split("x"))
    pads = [(0, max(0, wanted - side)) for wanted, side in zip((height, width), photos.shape)]
    image = np.ascontiguousarray(np.pad(photos, (*pads, (0, 0)), "symmetric")[:height, :width])
    dqc = dqcodec.compress(image, verify=False)
    decode(dqc, image, (0, 0, 1, 1))  # loads the model and the compiled loops
    rows = [{"region": "whole", "processor_seconds": [decode(dqc, image, None)]}]
    for side in _SIDES:
        seconds = [decode(dqc, image, region) for region in places(width, height, side)]
        rows.append({"region": f"{side}x{side}", "processor_seconds": seconds})
        print(rows[-1])
    result = {"size": arguments.size, "method": dqcodec.info(dqc).method, "bytes": len(dqc), "rows": rows}
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine()} | result, indent=1) + "\n")


def places(width: int, height: int, side: int) -> list[tuple[int, int, int, int]]:
    """Nine squares in an image: (left, top, right, bottom)."""
    return [
        (left, top, left + side, top + side)
        for top in (0, (height - side) // 2, height - side)
        for left in (0, (width - side) // 2, width - side)
    ]


def decode(dqc: bytes, image: np.ndarray, region: tuple[int, int, int, int] | None) -> float:
    """Decode a region and compare it -> processor seconds; raises SystemExit if it differs."""
    start = time.process_time()
    pixels = dqcodec.decompress(dqc, region=region)
    seconds = round(time.process_time() - start, 2)
    left, top, right, bottom = region or (0, 0, image.shape[1], image.shape[0])
    if not np.array_equal(pixels, image[top:bottom, left:right]):
        raise SystemExit(f"the region {region} differs")
    return seconds


if __name__ == "__main__":
    main()
