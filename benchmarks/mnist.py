"""Prepare binary MNIST for training and measurements, from Larochelle's binarization.

    python benchmarks/mnist.py binarized_mnist_larochelle.npz -o OUT

The file holds packed bits: arrays train, valid and test with 784 bits a row. Its test images are sorted by digit. OUT
gets three things: digits.npz, the images for training, validation and test as 0 and 255; sheet.png, every tenth test image
in one 1-bit PNG of 25 rows of 40; and digits/, every twentieth test image from the sixth on as its own 1-bit PNG.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

_SIDE = 28
_DOWN, _ACROSS = 25, 40


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    folder = arguments.output / "digits"
    folder.mkdir(parents=True, exist_ok=True)
    bits = {
        name: np.unpackbits(rows, axis=1).reshape(-1, _SIDE, _SIDE) for name, rows in np.load(arguments.file).items()
    }
    parts = {name: bits[name] * np.uint8(255) for name in ("train", "valid", "test")}
    np.savez(arguments.output / "digits.npz", **parts)
    sheet = bits["test"][::10].reshape(_DOWN, _ACROSS, _SIDE, _SIDE).swapaxes(1, 2)
    save(sheet.reshape(_DOWN * _SIDE, _ACROSS * _SIDE), arguments.output / "sheet.png")
    for index, digit in enumerate(bits["test"][5::20]):
        save(digit, folder / f"{index:03d}.png")


def save(bits: np.ndarray, path: Path) -> None:
    """Write bits (H, W) as a 1-bit PNG."""
    Image.fromarray(bits.astype(bool)).save(path, optimize=True)


if __name__ == "__main__":
    main()
