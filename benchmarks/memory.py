"""Peak memory of `dqcodec compress` and `decompress` as a function of the image's size.

    python benchmarks/memory.py PHOTO|FOLDER... [--size WIDTHxHEIGHT ...] [--json RESULT.json]

An image is a mosaic of all photographs, cropped to their smallest height and width. It is mirrored until it has the
size. Settings are the default ones.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from dqcodec.bench.machine import machine

_SIZES = ("500x375", "2000x1500", "4000x3000")
# runs a command and prints its peak memory, kilobytes on Linux
_MEASURE = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--size", dest="sizes", action="append")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = [sorted(path.iterdir()) if path.is_dir() else [path] for path in arguments.paths]
    photos = mosaic([np.asarray(Image.open(file).convert("RGB")) for files in found for file in files])
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in arguments.sizes or _SIZES:
            width, height = map(int, size.split("x"))
            pads = [(0, max(0, wanted - side)) for wanted, side in zip((height, width), photos.shape)]
            Image.fromarray(np.pad(photos, (*pads, (0, 0)), "symmetric")[:height, :width]).save(
                folder / "a.png", compress_level=1
            )
            row = {
                "size": size,
                "compress_megabytes": peak("compress", "-q", "-f", folder / "a.png", "-o", folder / "a.dqc"),
                "decompress_megabytes": peak("decompress", "-q", "-f", folder / "a.dqc", "-o", folder / "b.png"),
            }
            rows.append(row)
            print(row)
    pixels = [int(np.prod(list(map(int, row["size"].split("x"))))) for row in rows]
    slopes = {
        key: round((rows[-1][key] - rows[0][key]) * 2**20 / (pixels[-1] - pixels[0]), 1) for key in list(rows[0])[1:]
    }
    result = {"machine": machine(), "rows": rows, "bytes_per_pixel": slopes}
    print(slopes)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def mosaic(photos: list[np.ndarray]) -> np.ndarray:
    """Photographs (H, W, 3) as one image, with about the same number of rows and columns."""
    height, width = (min(photo.shape[axis] for photo in photos) for axis in (0, 1))
    columns = math.isqrt(len(photos))
    cells = np.stack([photo[:height, :width] for photo in photos[: len(photos) // columns * columns]])
    rows = cells.reshape(-1, columns, height, width, 3)
    return rows.transpose(0, 2, 1, 3, 4).reshape(len(rows) * height, columns * width, 3)


def peak(*command) -> int:
    """Peak memory of a dqcodec command, MiB."""
    run = [sys.executable, "-c", _MEASURE, sys.executable, "-m", "dqcodec", *map(str, command)]
    return round(int(subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()[-1]) / 1024)


if __name__ == "__main__":
    main()
