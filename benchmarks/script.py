"""What the scripts share: their arguments, their images, commands that they run, and their results."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

DQCODEC = sys.executable, "-m", "dqcodec"


def parser(docstring: str) -> argparse.ArgumentParser:
    """The parser of a script's arguments, with `--json RESULT.json`. docstring: of the script."""
    made = argparse.ArgumentParser(description=docstring.splitlines()[0])
    made.add_argument("--json", type=Path, help="write the result to this file, too")
    return made


def publish(result: dict, path: Path | None) -> None:
    """Print a result, and write it to a JSON file if there is a path."""
    print(json.dumps(result, indent=1))
    write(result, path)


def write(result: dict, path: Path | None) -> None:
    """Write a result, or what is known of it so far, to a JSON file if there is a path."""
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n")


def files_of(paths: Sequence[Path], pattern: str = "*") -> list[Path]:
    """The given files, and the files of the given folders whose names match a pattern, by name."""
    return [file for path in paths for file in (sorted(path.glob(pattern)) if path.is_dir() else [path])]


def read_rgb(path: Path) -> np.ndarray:
    """The pixels of an image, (H, W, 3) uint8."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def tiles_of(pixels: np.ndarray, side: int) -> np.ndarray:
    """All whole tiles of an image (H, W, C), row by row: (N, side, side, C)."""
    rows, columns, channels = pixels.shape[0] // side, pixels.shape[1] // side, pixels.shape[2]
    grid = pixels[: rows * side, : columns * side].reshape(rows, side, columns, side, channels)
    return grid.swapaxes(1, 2).reshape(-1, side, side, channels)


def run(*command: object, **options) -> tuple[subprocess.CompletedProcess, float]:
    """Run a command -> (the finished process, its processor seconds). options: of subprocess.run.

    Raises:
        CalledProcessError: the command failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run([*map(str, command)], check=True, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process, round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)
