"""Compress and decompress one photograph, compare the pixels, and show the rates.

python benchmarks/demo.py [PNG]      (default: a photograph that comes with scikit-image)
"""

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import numpy as np
import script
from PIL import Image


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("png", type=Path, nargs="?", help="default: a photograph that comes with scikit-image")
    source = parser.parse_args().png or Path(str(files("skimage.data") / "coffee.png"))
    if not source.is_file():
        sys.exit(f"{source}: there is no such file")
    with tempfile.TemporaryDirectory() as folder:
        packed, restored = Path(folder) / "image.png.dqc", Path(folder) / "image.png"
        script.run(*script.DQCODEC, "compress", "-v", source, "-o", packed)
        script.run(*script.DQCODEC, "decompress", packed, "-o", restored)
        before, after = (np.asarray(Image.open(path)) for path in (source, restored))
        if before.dtype != after.dtype or not np.array_equal(before, after):
            sys.exit("the pixels differ")
        webp = Path(folder) / "image.webp"
        Image.open(source).save(webp, lossless=True, quality=100, method=6)
        print(f"\n{source.name}, {before.shape[1]} x {before.shape[0]}: every pixel is the same.")
        for name, path in (("PNG as given", source), ("WebP, slowest", webp), ("dqcodec", packed)):
            size = path.stat().st_size
            print(f"{name:>14} {size:>9} bytes  {8 * size / before.size:.3f} bits per sample")


if __name__ == "__main__":
    main()
