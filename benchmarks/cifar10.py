"""Prepare CIFAR-10 for training and measurements, from its published binary files.

    python benchmarks/cifar10.py FOLDER -o OUT [--validation N]
    python benchmarks/cifar10.py SHEET.png ... -o OUT

FOLDER holds data_batch_1.bin .. data_batch_5.bin and test_batch.bin (Krizhevsky 2009). OUT gets cifar10.npz: of the
50000 training images the last N for validation, the others for training, and the test images. N is 10000 unless it is given, as in the
paper. OUT also gets test_00.png .. test_09.png, 1000 test images each, as a sheet of 25 rows of 40.

From such sheets the second command makes one PNG for each image, numbered from 0000.png.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

_RECORD_BYTES = 1 + 3 * 32 * 32


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", metavar="FOLDER|SHEET.png")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--validation", type=int, default=10000, metavar="N")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.paths[0].is_dir():
        prepare(*arguments.paths, arguments.output, arguments.validation)
    else:
        cut(arguments.paths, arguments.output)


def prepare(folder: Path, output: Path, validation: int) -> None:
    """Write the arrays for training, `validation` images of them for validation, and the sheets of test images."""
    training = np.concatenate([read(folder / f"data_batch_{i}.bin") for i in range(1, 6)])
    test = read(folder / "test_batch.bin")
    train, valid = np.split(training, [len(training) - validation])
    np.savez(output / "cifar10.npz", train=train, valid=valid, test=test)
    for index, images in enumerate(test.reshape(10, 1000, 32, 32, 3)):
        Image.fromarray(sheet(images)).save(output / f"test_{index:02d}.png", optimize=True)


def cut(sheets: list[Path], output: Path) -> None:
    """Write one PNG for each image of the sheets."""
    images = np.concatenate([images_of(np.asarray(Image.open(path))) for path in sheets])
    for index, pixels in enumerate(images):
        Image.fromarray(pixels).save(output / f"{index:04d}.png", optimize=True)


def read(path: Path) -> np.ndarray:
    """The images of one binary file, (N, 32, 32, 3) uint8. A record is a label byte and three colour planes."""
    records = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, _RECORD_BYTES)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def sheet(images: np.ndarray) -> np.ndarray:
    """1000 images (1000, 32, 32, 3) -> a sheet (800, 1280, 3)."""
    return images.reshape(25, 40, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(800, 1280, 3)


def images_of(sheet: np.ndarray) -> np.ndarray:
    """The inverse of sheet."""
    return sheet.reshape(25, 32, 40, 32, 3).transpose(0, 2, 1, 3, 4).reshape(1000, 32, 32, 3)


if __name__ == "__main__":
    main()
