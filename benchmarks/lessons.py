"""What the layers of a network that learn while it codes gain, and cost: bits per dimension and seconds of processor.

    python benchmarks/lessons.py PHOTO|FOLDER... -m MODEL... [--images N] [--json RESULT.json]

Each of N photographs, spread evenly, is coded by a model as it is, and by the same weights with fewer layers that learn,
down to the last layers alone.
"""

import dataclasses
import time
from pathlib import Path

import numpy as np
import script
from PIL import Image

from dqcodec.base.threads import single_thread
from dqcodec.bench.machine import machine
from dqcodec.codec import zoo
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.model_file import load

_DEPTHS = 1, 3  # the heads; these and the last block


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("-m", "--model", action="append", required=True)
    parser.add_argument("--images", type=int, default=8)
    arguments = parser.parse_args()
    files = script.files_of(arguments.paths)
    count = min(arguments.images, len(files))
    files = [files[index * len(files) // count] for index in range(count)]
    result: dict = {"machine": machine(), "images": [f"{file.parent.name}/{file.name}" for file in files], "rows": []}
    for name in arguments.model:
        program = zoo.load(name)
        images = [pixels(file, program.channels) for file in files]
        most = len(program.description.learning)
        for layers in sorted({layers for layers in (0, *_DEPTHS, most) if layers <= most}):
            result["rows"].append(coded(name, layers, images))
            print(result["rows"][-1], flush=True)
    script.publish(result, arguments.json)


def coded(name: str, layers: int, images: list[np.ndarray]) -> dict:
    """The bits of images when this number of layers learns, beside the last ones."""
    program = with_layers(name, layers)
    with single_thread():
        program.slots([images[0][:64, :64]])  # compiles
        start = time.process_time()
        bits = sum(program.code_length(cut(image, program.tile)) for image in images)
        seconds = time.process_time() - start
    samples, pixels = sum(image.size for image in images), sum(image[..., 0].size for image in images)
    return {"model": name, "layers": layers, "bpd": bits / samples, "microseconds": 1e6 * seconds / pixels}


def with_layers(name: str, layers: int) -> AutoregressiveProgram:
    """A model of whose layers fewer learn."""
    program = zoo.load(name)
    description = dataclasses.replace(program.description, learning=program.description.learning[:layers])
    return load(zoo.locate(name), lambda _, tensors, id: AutoregressiveProgram(description, tensors, id))


def pixels(file: Path, channels: int) -> np.ndarray:
    """A photograph, uint8 (H, W, C)."""
    image = np.asarray(Image.open(file).convert("RGB" if channels == 3 else "L"))
    return image.reshape(*image.shape[:2], channels)


def cut(image: np.ndarray, tile: tuple[int, int]) -> list[np.ndarray]:
    """An image cut into tiles, row by row."""
    rows, columns = tile
    corners = [(y, x) for y in range(0, image.shape[0], rows) for x in range(0, image.shape[1], columns)]
    return [np.ascontiguousarray(image[y : y + rows, x : x + columns]) for y, x in corners]


if __name__ == "__main__":
    main()
