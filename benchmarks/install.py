"""Whether the wheel works in an empty environment, and how much it takes.

    python benchmarks/install.py [--json RESULT.json]

Builds the wheel, installs it with its dependencies from the package index into a new virtual environment, and there
compresses and decompresses an image: with no compiler on the path, and a home and an installation that cannot be
written. As root it does this as the user nobody, since nothing is read-only to root.
"""

import os
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
import script
from PIL import Image

from dqcodec.bench.machine import machine

ROOT = Path(__file__).resolve().parents[1]
_NOBODY = 65534
_SHOWN = 6  # the largest packages


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        result = {"machine": machine()} | measure(Path(name))
    script.publish(result, arguments.json)


def measure(work: Path) -> dict:
    """Build, install and use the wheel in the folder `work` -> the result, for JSON."""
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    script.run(*pip, "wheel", "--no-deps", "-w", work / "wheel", ROOT)
    (wheel,) = (work / "wheel").glob("*.whl")
    venv.create(work / "venv", with_pip=False)
    python = work / "venv" / "bin" / "python"
    script.run(*pip, "--python", python, "install", "--no-cache-dir", "--no-compile", wheel)
    (packages,) = (work / "venv").glob("lib/python*/site-packages")
    sizes = {}
    for path in packages.iterdir():
        name = path.name.split("-")[0].removesuffix(".libs")
        sizes[name] = sizes.get(name, 0) + sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    largest = sorted(sizes, key=sizes.get, reverse=True)[:_SHOWN]
    return {
        "wheel_bytes": wheel.stat().st_size,
        "installed_bytes": sum(sizes.values()),
        "largest_bytes": {name: sizes[name] for name in largest},
        "processor_seconds": there_and_back(python, work),
    }


def there_and_back(python: Path, work: Path) -> dict[str, float]:
    """Compress and decompress an image with the installation alone -> processor seconds of each command."""
    home, folder = work / "home", work / "files"
    home.mkdir(mode=0o555)
    folder.mkdir()
    rows, columns = np.indices((64, 96))
    noise = np.random.default_rng(0).integers(0, 9, (64, 96, 3))
    pixels = (np.stack([rows * 3, columns * 2, rows + columns], 2) + noise).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        os.chown(folder, _NOBODY, _NOBODY)
    environment = {"HOME": str(home), "PATH": str(python.parent), "TMPDIR": str(folder)}
    seconds = {}
    for command in (("compress", "a.png"), ("decompress", "a.png.dqc", "-o", "b.png")):
        _, seconds[command[0]] = script.run(python, "-m", "dqcodec", *command, cwd=folder, env=environment, **user)
    kept = [*home.rglob("*"), *python.parents[1].rglob("*.nbc")]  # compiled loops
    if kept:
        raise SystemExit(f"{kept[0]} was written, so nothing was read-only")
    if not np.array_equal(np.asarray(Image.open(folder / "b.png")), pixels):
        raise SystemExit("the image did not come back")
    return seconds


if __name__ == "__main__":
    main()
