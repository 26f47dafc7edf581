"""The time to decode regions of a large image, beside that of the whole.

    python benchmarks/regions.py PHOTO|FOLDER... [--size WIDTHxHEIGHT] [--json RESULT.json]

The image is a mosaic of all photographs, as in growth.py, coded with default settings. Regions are squares at nine
places: the corners, the middles of the sides, and the centre. Each is compared with the same part of the image.
"""

import time
from pathlib import Path

import numpy as np
import script
from growth import mirrored, mosaic

import dqcodec
from dqcodec.bench.machine import machine

_SIDES = (64, 256, 1024)


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--size", default="4096x3072")
    arguments = parser.parse_args()
    where, photos = machine(), mosaic([script.read_rgb(file) for file in script.files_of(arguments.paths)])
    width, height = map(int, arguments.size.split("x"))
    image = mirrored(photos, height, width)
    dqc = dqcodec.compress(image, verify=False)
    decode(dqc, image, (0, 0, 1, 1))  # loads the model and the compiled loops
    rows = [{"region": "whole", "processor_seconds": [decode(dqc, image, None)]}]
    for side in _SIDES:
        seconds = [decode(dqc, image, region) for region in places(width, height, side)]
        rows.append({"region": f"{side}x{side}", "processor_seconds": seconds})
        print(rows[-1])
    method = dqcodec.info(dqc).method
    result = {"machine": where, "size": arguments.size, "method": method, "bytes": len(dqc), "rows": rows}
    script.publish(result, arguments.json)


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
