"""Seconds and peak memory of `dqcodec compress` and `decompress` as images get larger and archives get more images.

    python benchmarks/growth.py PHOTO|FOLDER... [--megapixels N ...] [--images N ...] [--json RESULT.json]

A large image is a mosaic of all photographs, cropped to their smallest height and width, and mirrored until it has its
size (4 : 3). An archive's images are crops of 32 x 32 pixels of that mosaic. Each is measured on one processor, on two,
and, for archives, on a Dask cluster of two workers that runs here; all else is default. Memory is that of the largest
process. Every image comes back the same. Two processors of a machine may share a core: so it is measured, too, how much more two
processes multiply than one.
"""

import contextlib
import logging
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import script
from PIL import Image

from dqcodec.bench.machine import machine

_MEGAPIXELS = (1, 10, 50)
_IMAGES = (100, 1000, 10_000)
_CROP = 32
_ENVIRONMENT = dict(os.environ)  # Dask changes it, so that what runs later returns memory to the system at each step
# runs a command; prints its seconds and its peak memory, kilobytes on Linux
_MEASURE = (
    "import resource, subprocess, sys, time; start = time.monotonic(); subprocess.run(sys.argv[1:], check=True); "
    "print(time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
# multiplies matrices for some seconds; prints products a second
_MULTIPLY = (
    "import numpy, time; a = numpy.ones((512, 512), numpy.float32); a @ a; start = time.monotonic(); count = 0\n"
    "while time.monotonic() < start + 4: a @ a; count += 1\n"
    "print(count / (time.monotonic() - start))"
)


def main() -> None:
    """The command line, see the module."""
    Image.MAX_IMAGE_PIXELS = None
    parser = script.parser(__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--megapixels", type=int, nargs="*", default=_MEGAPIXELS)
    parser.add_argument("--images", type=int, nargs="*", default=_IMAGES)
    arguments = parser.parse_args()
    photos = mosaic([script.read_rgb(file) for file in script.files_of(arguments.paths)])
    result: dict = {"machine": machine(), "two_processes": two_processes(), "images": [], "archives": []}

    def add(table: str, row: dict) -> None:
        result[table].append(row)
        print(row, flush=True)
        script.write(result, arguments.json)

    with tempfile.TemporaryDirectory() as name:
        large_image(photos, 1, Path(name))  # compiles, which is kept
        archive(photos, 10, Path(name))
        for size in arguments.megapixels:
            add("images", {"megapixels": size, **large_image(photos, size, Path(name))})
        for count in arguments.images:
            add("archives", {"images": count, **archive(photos, count, Path(name))})


def two_processes() -> float:
    """The matrix products a second of two processes at once, relative to those of one: what the machine's processors share."""
    (alone,), together = _products(1), _products(2)
    return round(sum(together) / alone, 2)


def _products(processes: int) -> list[float]:
    """Matrix products a second of each of some processes of one thread that run at once."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    runs = [
        subprocess.Popen([sys.executable, "-c", _MULTIPLY], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    return [float(run.communicate()[0]) for run in runs]


def mosaic(photos: Sequence[np.ndarray]) -> np.ndarray:
    """Photographs (H, W, 3) as one image, with about the same number of rows and columns."""
    height, width = (min(photo.shape[axis] for photo in photos) for axis in (0, 1))
    columns = math.isqrt(len(photos))
    cells = np.stack([photo[:height, :width] for photo in photos[: len(photos) // columns * columns]])
    rows = cells.reshape(-1, columns, height, width, 3)
    return rows.transpose(0, 2, 1, 3, 4).reshape(len(rows) * height, columns * width, 3)


def mirrored(photos: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image of this size: a mosaic, mirrored as often as needed."""
    pads = [(0, max(0, wanted - side)) for wanted, side in zip((height, width), photos.shape)]
    return np.ascontiguousarray(np.pad(photos, (*pads, (0, 0)), "symmetric")[:height, :width])


def large_image(photos: np.ndarray, megapixels: int, folder: Path) -> dict:
    """An image of this number of megapixels, on one processor and on two: way -> measurement."""
    height = round(math.sqrt(megapixels * 1e6 * 3 / 4))
    image = mirrored(photos, height, round(megapixels * 1e6 / height))
    png, packed, back = folder / "a.png", folder / "a.dqc", folder / "b.png"
    Image.fromarray(image).save(png, compress_level=1)
    rows = {}
    for processors in (1, 2):
        row = round_trip(png, packed, back, processors=processors)
        if not np.array_equal(np.asarray(Image.open(back)), image):
            raise SystemExit(f"{megapixels} megapixels came back changed")
        rows[f"processors {processors}"] = row
    return rows


def archive(photos: np.ndarray, count: int, folder: Path) -> dict:
    """An archive of small images, in three ways: way -> measurement."""
    rng = np.random.default_rng(0)
    source, packed, back = folder / f"{count}", folder / f"{count}.dqc", folder / f"{count}-back"
    source.mkdir()
    for number in range(count):
        y, x = (int(rng.integers(side - _CROP)) for side in photos.shape[:2])
        Image.fromarray(photos[y : y + _CROP, x : x + _CROP]).save(source / f"{number:06}.png")
    rows = {f"-j {jobs}": round_trip(source, packed, back, "-j", jobs, processors=jobs) for jobs in (1, 2)}
    with cluster() as address:
        rows["cluster"] = round_trip(source, packed, back, "--cluster", address)
    for path in source.iterdir():
        if not np.array_equal(np.asarray(Image.open(path)), np.asarray(Image.open(back / path.name))):
            raise SystemExit(f"{path.name} of {count} images came back changed")
    return rows


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """The address of a Dask cluster here: two workers, processes of one thread each."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as started:
        yield started.scheduler_address


def round_trip(source: Path, packed: Path, back: Path, *options: object, processors: int = 2) -> dict:
    """Compress, verify included, and decompress on this number of processors: seconds, megabytes (of 2^20 bytes), bytes."""
    together = ("-o", packed) if source.is_file() else ("-r", "-o", packed)
    seconds, megabytes = measured("compress", "-q", "-f", source, *together, *options, processors=processors)
    back_seconds, back_megabytes = measured(
        "decompress", "-q", "-f", packed, "-o", back, *options, processors=processors
    )
    return {
        "bytes": packed.stat().st_size,
        "compress_seconds": seconds,
        "decompress_seconds": back_seconds,
        "compress_megabytes": megabytes,
        "decompress_megabytes": back_megabytes,
    }


def measured(*command: object, processors: int) -> tuple[float, int]:
    """Seconds, and the peak memory in MiB of the largest process, of a dqcodec command on this number of processors."""
    run = [sys.executable, "-c", _MEASURE, *script.DQCODEC, *map(str, command)]
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:processors])
    try:
        output = subprocess.run(run, check=True, capture_output=True, text=True, env=_ENVIRONMENT).stdout.split()
    finally:
        os.sched_setaffinity(0, usable)
    return round(float(output[-2]), 2), round(int(output[-1]) / 1024)


if __name__ == "__main__":
    main()
