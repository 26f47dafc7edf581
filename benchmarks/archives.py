"""Small images as one archive: total bytes, and the overhead of an image beside its code.

    python benchmarks/archives.py FOLDER [--first N] [--json RESULT.json]

The dqcodec command packs the folder with default settings and unpacks it. Pixels, mode, metadata, time and permissions
of each image are compared. PNG, lossless WebP and JPEG XL use one file for each image. --first takes the first N files
by name.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import script

from dqcodec import png
from dqcodec.bench import images
from dqcodec.bench.machine import machine
from dqcodec.bench.measure import file_bytes
from dqcodec.bench.peers import JpegXl, PngAsGiven, WebP
from dqcodec.codec.archive import Archive
from dqcodec.command.stamp import Stamp
from dqcodec.format.archive_group import ArchiveGroup, pack_header
from dqcodec.format.container import Group
from dqcodec.png import Skeleton

_PEERS = (PngAsGiven(), WebP(), JpegXl(9))


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = {"machine": machine()} | measure(arguments.folder, arguments.first, Path(name))
    script.publish(result, arguments.json)


def measure(folder: Path, first: int | None, work: Path) -> dict:
    """Pack and unpack the first images of a folder, in the folder `work` -> the result, for JSON."""
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.png"))][:first]
    source, packed, unpacked = work / "in", work / "set.dqc", work / "out"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / name, source / name)
    _, compress_seconds = script.run(*script.DQCODEC, "compress", "-q", source, "-o", packed)
    _, decompress_seconds = script.run(*script.DQCODEC, "decompress", "-q", packed, "-o", unpacked)
    for name in names:
        assert_same(source / name, unpacked / name)
    sizes = parts(packed)
    result = {
        "set": folder.name,
        "images": len(names),
        "bytes": packed.stat().st_size,
        "parts": sizes,
        "overhead_bytes_per_image": round((packed.stat().st_size - sizes["code"]) / len(names), 2),
        "processor_seconds": {"compress": compress_seconds, "decompress": decompress_seconds},
    }
    sources = [images.read(source / name) for name in names]
    return result | {"peers": {peer.title: file_bytes(peer, sources) for peer in _PEERS}}


def assert_same(original: Path, restored: Path) -> None:
    """Compare pixels, mode, metadata, time and permissions.

    Raises:
        SystemExit: they differ.
    """
    same = png.read(original.read_bytes()).repacked().same(png.read(restored.read_bytes()))
    if not same or Stamp.of(original.stat()) != Stamp.of(restored.stat()):
        raise SystemExit(f"{restored} is not {original}")


def parts(packed: Path) -> dict[str, int]:
    """The bytes of each part of an archive."""
    with Archive(packed) as archive:
        groups = [archive.group(number) for number in range(len(archive.group_sizes))]
        group_bytes = sum(size for size, _ in archive.group_sizes)
    headers, bare, names = (
        sum(len(pack_header(change(group))) for group in groups)
        for change in (lambda group: group, without_chunks, without_parts)
    )
    code = sum(len(payload) for group in groups for part in group.parts for payload in part.payloads)
    return {
        "code": code,
        "palettes_and_metadata": headers - bare,
        "heads": bare - names,
        "names_times_permissions": names,
        "index": packed.stat().st_size - group_bytes,
        "checksums_and_lengths": group_bytes - headers - code,
    }


def without_chunks(group: ArchiveGroup) -> ArchiveGroup:
    """The group without the metadata of its images."""

    def bare(part: Group) -> Group:
        return replace(
            part,
            entries=tuple(
                replace(each, skeleton=each.skeleton and Skeleton(each.skeleton.header)) for each in part.entries
            ),
        )

    return replace(group, parts=tuple(map(bare, group.parts)))


def without_parts(group: ArchiveGroup) -> ArchiveGroup:
    """The group without its images: names, times and modes."""
    return replace(group, parts=())


if __name__ == "__main__":
    main()
