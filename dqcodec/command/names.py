"""Names of outputs and of an archive's members."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from dqcodec.codec.image_kinds import IMAGE_KINDS
from dqcodec.command.kinds import PNG

STDIO = "-"
DQC_SUFFIX = ".dqc"
FORMATS = ("png", "ppm", "bmp", "tiff", "webp", "npy")  # what `decompress` can write
# files that are taken as images, beside PNGs
IMAGE_SUFFIXES = {suffix for kind in IMAGE_KINDS[1:] for suffix in kind.suffixes}


def compressed_name(source: Path) -> str:
    """a.png -> a.png.dqc"""
    return source.name + DQC_SUFFIX


def decompressed_name(source: Path, suffix: str = ".png") -> str:
    """a.png.dqc -> a.png; a.bmp.dqc -> a.png; a.dqc -> a.png; a -> a.png"""
    stem = source.name.removesuffix(DQC_SUFFIX)
    return stem + suffix if stem == source.name else image_name(stem, suffix)


def image_name(name: str, suffix: str) -> str:
    """For .png: a.png, a.bmp, a -> a.png. A suffix that is right stays as it is written: a.PNG, a.apng."""
    stem, old = ("", name) if name.rfind(".") == 0 else os.path.splitext(name)  # .png is a suffix alone
    alike = PNG.suffixes if suffix in PNG.suffixes else (suffix,)
    if old.lower() in alike:
        return name
    return (stem if stem and old.lower() in {*PNG.suffixes, *IMAGE_SUFFIXES} else name) + suffix


def member_name(relative: Path) -> str:
    """The name in an archive: UTF-8 in every locale; other bytes stay as they are."""
    return os.fsencode(relative.as_posix()).decode("utf-8", "surrogateescape")


def below(folder: Path, name: str) -> Path:
    """Where an archive's member goes in a folder; raises OSError if that is outside of it or behind a link.

    A link within the folder is refused too, since somebody may change it.
    """
    parts = name.split("/")
    if PurePath(name).parts != tuple(parts) or {"", ".", ".."} & {*parts}:
        raise OSError("its name cannot be a file's here")
    path = folder
    for part in parts:
        path = path / os.fsdecode(part.encode("utf-8", "surrogateescape"))
        if path.is_symlink():
            raise OSError(f"{path} is a symbolic link")
    return path
