"""CIFAR-10 in the forms that dqcodec trains and measures on, from its published binary files.

    python benchmarks/cifar10.py FOLDER -o OUT

FOLDER holds data_batch_1.bin .. data_batch_5.bin and test_batch.bin (Krizhevsky 2009). OUT gets cifar10.npz, with the
paper's split (the first 40000 images train, the last 10000 of the training files valid), and test_00.png .. test_09.png:
1000 test images each, as one sheet of 25 rows of 40.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

_RECORD_BYTES = 1 + 3 * 32 * 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    training = np.concatenate([read(arguments.folder / f"data_batch_{i}.bin") for i in range(1, 6)])
    np.savez(arguments.output / "cifar10.npz", train=training[:40000], valid=training[40000:])
    test = read(arguments.folder / "test_batch.bin")
    for index, images in enumerate(test.reshape(10, 1000, 32, 32, 3)):
        Image.fromarray(sheet(images)).save(arguments.output / f"test_{index:02d}.png", optimize=True)


def read(path: Path) -> np.ndarray:
    """(N, 32, 32, 3) uint8 images of one binary file: records of a label byte and three colour planes."""
    records = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, _RECORD_BYTES)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def sheet(images: np.ndarray) -> np.ndarray:
    """1000 images -> (800, 1280, 3)."""
    return images.reshape(25, 40, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(800, 1280, 3)


if __name__ == "__main__":
    main()
