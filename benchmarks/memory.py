"""Peak memory of `dqcodec compress` and `decompress` against the size of the image.

    python benchmarks/memory.py PHOTO.png [--size WIDTHxHEIGHT ...] [--model NAME] [--json RESULT.json]

The images are the photo, mirrored again and again to the size.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from dqcodec.bench.machine import machine

_SIZES = ("500x375", "2000x1500", "4000x3000")
# runs a command and prints the most memory that it took, kilobytes on Linux
_MEASURE = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", dest="sizes", action="append")
    parser.add_argument("--model", default="photo")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    photo = np.asarray(Image.open(arguments.file).convert("RGB"))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in arguments.sizes or _SIZES:
            width, height = map(int, size.split("x"))
            pads = [(0, max(0, wanted - side)) for wanted, side in zip((height, width), photo.shape)]
            Image.fromarray(np.pad(photo, (*pads, (0, 0)), "symmetric")[:height, :width]).save(folder / "a.png", compress_level=1)
            row = {
                "size": size,
                "compress_megabytes": peak("compress", "-q", "-f", "-m", arguments.model, folder / "a.png", "-o", folder / "a.dqc"),
                "decompress_megabytes": peak("decompress", "-q", "-f", folder / "a.dqc", "-o", folder / "b.png"),
            }
            rows.append(row)
            print(row)
    pixels = [int(np.prod(list(map(int, row["size"].split("x"))))) for row in rows]
    slopes = {
        key: round((rows[-1][key] - rows[0][key]) * 2**20 / (pixels[-1] - pixels[0]), 1) for key in list(rows[0])[1:]
    }
    result = {"machine": machine(), "model": arguments.model, "rows": rows, "bytes_per_pixel": slopes}
    print(slopes)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def peak(*command) -> int:
    """Megabytes."""
    run = [sys.executable, "-c", _MEASURE, sys.executable, "-m", "dqcodec", *map(str, command)]
    return round(int(subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()[-1]) / 1024)


if __name__ == "__main__":
    main()
