"""Binary MNIST in the forms that dqcodec trains and measures on, from Larochelle's binarization.

    python benchmarks/mnist.py binarized_mnist_larochelle.npz -o OUT

The file holds packed bits, arrays train, valid and test of 784 bits a row. OUT gets digits.npz, images of 0 and 255 to train and to
validate on; sheet.png, every tenth test image in one 1-bit PNG of 25 rows of 40; and digits/, every twentieth of the others as a
1-bit PNG each. (The file has the test images sorted by digit.)
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

_SIDE = 28
_DOWN, _ACROSS = 25, 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    folder = arguments.output / "digits"
    folder.mkdir(parents=True, exist_ok=True)
    bits = {
        name: np.unpackbits(rows, axis=1).reshape(-1, _SIDE, _SIDE) for name, rows in np.load(arguments.file).items()
    }
    np.savez(arguments.output / "digits.npz", train=bits["train"] * np.uint8(255), valid=bits["valid"] * np.uint8(255))
    sheet = bits["test"][::10].reshape(_DOWN, _ACROSS, _SIDE, _SIDE).swapaxes(1, 2)
    save(sheet.reshape(_DOWN * _SIDE, _ACROSS * _SIDE), arguments.output / "sheet.png")
    for index, digit in enumerate(bits["test"][5::20]):
        save(digit, folder / f"{index:03d}.png")


def save(bits: np.ndarray, path: Path) -> None:
    Image.fromarray(bits.astype(bool)).save(path, optimize=True)


if __name__ == "__main__":
    main()
