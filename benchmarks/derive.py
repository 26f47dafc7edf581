"""Make a test set from another one: the luma of its images, or thumbnails.

    python benchmarks/derive.py luma|thumbnails FOLDER -o OUT

Luma is ITU-R 601, computed by Pillow. A thumbnail is the central square, reduced to 64 x 64 (Lanczos).
"""

import argparse
from pathlib import Path

from PIL import Image, ImageOps

_SIDE = 64


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["luma", "thumbnails"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for path in sorted(arguments.folder.glob("*.png")):
        with Image.open(path) as image:
            derive(image.convert("RGB"), arguments.kind).save(arguments.output / path.name, optimize=True)


def derive(image: Image.Image, kind: str) -> Image.Image:
    """The luma or the thumbnail of an RGB image."""
    return image.convert("L") if kind == "luma" else ImageOps.fit(image, (_SIDE, _SIDE), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    main()
