"""Compress and decompress whole trees of PNG files. Is every image restored, and which files are rejected?

    python benchmarks/trees.py FOLDER... [--made N] [--exact] [--jobs N] [--json RESULT.json]

`dqcodec compress -r` mirrors each tree, and `decompress -r` restores it. Pixels, mode, metadata, time and permissions
of each image are compared; with --exact all bytes. The result lists the rejected files. Each of them must be invalid:
a chunk's CRC is wrong, or libpng rejects it, too. --made N adds a tree of N small images of all kinds in nested
folders, three of them broken.

The exit code is 1 if a valid file was rejected, an image was not restored, or a broken file was accepted.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import imagecodecs
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import pngs
import script

from dqcodec import png
from dqcodec.bench.machine import machine
from dqcodec.command.stamp import Stamp


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--made", type=int, metavar="N")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    options = ["-j", str(arguments.jobs), *(["--exact"] if arguments.exact else [])]
    where, rows = machine(), []
    for folder in arguments.folders:
        with tempfile.TemporaryDirectory() as name:
            rows.append({"tree": folder.name} | there_and_back(folder, Path(name), options))
    if arguments.made:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "made"
            broken = make(folder, arguments.made)
            row = there_and_back(folder, Path(name), options)
        row["refuses_what_is_broken"] = sorted(row["refused"]) == broken
        rows.append({"tree": "made"} | row)
    script.publish({"machine": where, "exact": arguments.exact, "trees": rows}, arguments.json)
    sys.exit(
        any(row["differ"] or row["refused_but_valid"] or not row.get("refuses_what_is_broken", True) for row in rows)
    )


def there_and_back(folder: Path, work: Path, options: list[str]) -> dict:
    """Compress and restore a tree, in the folder `work` -> the result, for JSON."""
    packed, restored = work / "packed", work / "restored"
    code, results = run("compress", "-r", folder, "-o", f"{packed}/", *options)
    refused = {str(Path(each["source"]).relative_to(folder)): each["error"] for each in results if "error" in each}
    back_code, _ = run("decompress", "-r", packed, "-o", f"{restored}/", *options[:2])
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))
    differ = [
        name for name in names if name not in refused and not same(folder / name, restored / name, "--exact" in options)
    ]
    invalid = {name: why_invalid((folder / name).read_bytes()) for name in refused}
    return {
        "files": len(names),
        "bytes": sum((folder / name).stat().st_size for name in names if name not in refused),
        "dqc_bytes": sum(path.stat().st_size for path in packed.rglob("*.dqc")),
        "exit_codes": [code, back_code],
        "came_back": len(names) - len(refused) - len(differ),
        "differ": differ,
        "refused": {name: {"error": refused[name], "invalid": invalid[name]} for name in sorted(refused)},
        "refused_but_valid": sorted(name for name in refused if invalid[name] is None),
        "left_over": sorted(set(relative(restored)) - set(names)),
    }


def run(*command) -> tuple[int, list[dict]]:
    """Run a dqcodec command -> (its exit code, its JSON object for each file).

    Raises:
        SystemExit: stderr has lines that the JSON does not explain.
    """
    result = subprocess.run([*script.DQCODEC, *map(str, command), "--json"], capture_output=True, text=True)
    results = [json.loads(line) for line in result.stdout.splitlines()]
    failures = [f"dqcodec: {each['source']}: {each['error']}" for each in results if "error" in each]
    if result.stderr.splitlines() != failures:
        raise SystemExit(result.stderr)
    return result.returncode, results


def same(original: Path, restored: Path, exact: bool) -> bool:
    """Whether a file was restored: all bytes if `exact`, else the image with its metadata, time and permissions."""
    if not restored.is_file() or Stamp.of(original.stat()) != Stamp.of(restored.stat()):
        return False
    files = original.read_bytes(), restored.read_bytes()
    return files[0] == files[1] or (not exact and png.read(files[0]).repacked().same(png.read(files[1])))


def why_invalid(data: bytes) -> str | None:
    """Why a file is no valid PNG, found without dqcodec; None if it seems valid."""
    if not data.startswith(pngs.SIGNATURE):
        return "no PNG signature"
    for kind, body, crc in chunks(data):
        if zlib.crc32(kind + body) != crc:
            return f"the CRC of {kind.decode('latin1')} is wrong"
    try:
        imagecodecs.png_decode(data)
    except (ValueError, RuntimeError) as error:  # UnicodeDecodeError: some messages are not text
        return f"libpng: {error}" if not isinstance(error, UnicodeError) else "libpng rejects it"
    return None


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """(type, body, CRC) of each complete chunk."""
    start = len(pngs.SIGNATURE)
    while start + 12 <= len(data):
        end = start + 12 + int.from_bytes(data[start : start + 4], "big")
        if end > len(data):
            return
        yield data[start + 4 : start + 8], data[start + 8 : end - 4], int.from_bytes(data[end - 4 : end], "big")
        start = end


def make(folder: Path, count: int) -> list[str]:
    """Write a tree of `count` PNGs of all kinds -> the names of the three broken ones."""
    rng = random.Random(0)
    names = [f"{'/'.join(rng.choices('abc', k=rng.randrange(4)))}/{number}.png".lstrip("/") for number in range(count)]
    damages = dict(zip(rng.sample(names, 3), (cut_off, damaged, text)))
    for number, name in enumerate(names):
        data = image(number, rng)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(damages.get(name, bytes)(data))
        path.chmod(rng.choice([0o644, 0o600, 0o664, 0o755, 0o444]))
        os.utime(path, ns=(0, rng.randrange(2 * 10**18)))
    return sorted(damages)


def cut_off(data: bytes) -> bytes:
    """The first two thirds."""
    return data[: len(data) * 2 // 3]


def damaged(data: bytes) -> bytes:
    """With one changed bit in the image data."""
    place = data.index(b"IDAT") + 7
    return data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]


def text(data: bytes) -> bytes:
    """A text instead of the image."""
    return b"This is no image.\n"


def image(number: int, rng: random.Random) -> bytes:
    """The PNG with this number. It determines colour type and bit depth, then interlacing and animation."""
    color_type, bit_depth = pngs.KINDS[number % len(pngs.KINDS)]
    number //= len(pngs.KINDS)
    noise = np.random.default_rng(rng.randrange(1 << 32))
    shape = rng.randint(1, 40), rng.randint(1, 40), pngs.SAMPLES[color_type]
    ramp = np.indices(shape).sum(0) * rng.randint(0, 9) + noise.integers(
        0, 1 + rng.choice([0, 3, 1 << bit_depth]), shape
    )
    samples = ramp % (1 << bit_depth)
    options = {
        "before": before(color_type, bit_depth, rng),
        "after": rng.choice([b"", pngs.chunk(b"tEXt", b"Comment\0made")]),
    }
    if number % 4 == 3:
        frames = [
            ((0, 0), np.roll(samples, k, 1)[: rng.randint(1, shape[0]), : rng.randint(1, shape[1])]) for k in range(2)
        ]
        return pngs.animated(samples, frames, bit_depth, color_type, is_first=bool(number & 4), **options)
    options |= {
        "interlace": number % 2 == 1,
        "idats": rng.randint(1, 3),
        "tail": rng.choice([b"", b"", b"after the end"]),
    }
    return pngs.write(samples, bit_depth, color_type, **options)


def before(color_type: int, bit_depth: int, rng: random.Random) -> bytes:
    """A random choice of chunks before the image data."""
    key = (
        rng.randbytes(1 << min(bit_depth, 3)) if color_type == 3 else (1).to_bytes(2, "big") * pngs.SAMPLES[color_type]
    )
    kinds = [
        (b"gAMA", (45455).to_bytes(4, "big")),
        (b"pHYs", bytes(9)),
        (b"tIME", b"\x07\xea\1\2\3\4\5"),
        (b"prVt", b"own"),
    ]
    if color_type in (0, 2, 3):
        kinds.append((b"tRNS", key))
    return b"".join(pngs.chunk(*each) for each in kinds if rng.random() < 0.5)


def relative(folder: Path) -> list[str]:
    """Names of all files below a folder."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


if __name__ == "__main__":
    main()
