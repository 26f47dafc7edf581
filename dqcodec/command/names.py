"""Names of outputs and of an archive's members."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from dqcodec.codec.image_kinds import IMAGE_KINDS

STDIO = "-"
DQC_SUFFIX, PNG_ENDING = ".dqc", ".png"
FORMATS = ("png", "ppm", "bmp", "tiff", "webp", "npy")  # what `decompress` can write
# files that are taken as images, beside PNGs
IMAGE_SUFFIXES = {suffix for kind in IMAGE_KINDS[1:] for suffix in kind.suffixes}
_KINDS = {suffix: kind for kind in IMAGE_KINDS for suffix in kind.suffixes}


def compressed_name(source: Path) -> str:
    """a.png -> a.png.dqc"""
    return source.name + DQC_SUFFIX


def stripped_name(name: str) -> str:
    """a.dqc -> a; another name stays, and .dqc alone, too."""
    stem, suffix = name[: -len(DQC_SUFFIX)], name[-len(DQC_SUFFIX) :]
    return stem if suffix.lower() == DQC_SUFFIX and stem not in ("", ".", "..") else name


def decompressed_name(name: str, ending: str = PNG_ENDING) -> str:
    """The name of the image of a .dqc file: a.png.dqc -> a.png, scan.dqc -> scan, a.bmp.dqc -> a.png, a -> a.png.

    ending: see image_name.
    """
    stem = stripped_name(name)
    if stem == name:
        return name + ending
    return png_name(stem) if ending == PNG_ENDING else image_name(stem, ending)


def png_name(name: str) -> str:
    """The name of an image that becomes a PNG: a.bmp -> a.png. All names stay that are not of another format."""
    stem, old = os.path.splitext(name)
    return stem + PNG_ENDING if old.lower() in IMAGE_SUFFIXES else name


def image_name(name: str, ending: str) -> str:
    """The name of an image in another format, or of a part of it: a.png, a.bmp, a -> a.ppm, or a.4x3+0+0.png.

    ending: with a dot. A suffix that is right stays as it is written: a.PPM.
    """
    stem, old = os.path.splitext(name)
    if old.lower() == ending:
        return name
    return (stem if old.lower() in _KINDS else name) + ending


def check_image_name(output: str, format: str = "png", *, is_choice: bool = False) -> None:
    """Raise ValueError if a file of an image in this format would have the suffix of another kind of files.

    is_choice: another --format is possible. All names pass that have no suffix of images or .dqc files.
    """
    kind, old = _KINDS[f".{format}"], _suffix(output)
    if old and old not in kind.suffixes:
        other = next((each for each in FORMATS if old in _KINDS and f".{each}" in _KINDS[old].suffixes), None)
        instead = f", or give --format {other}" if is_choice and other else ""
        raise ValueError(f"{output}: the output is a {kind.name} file; name it .{format}{instead}")


def check_dqc_name(output: str) -> None:
    """Raise ValueError if a .dqc file would have the suffix of an image."""
    if _suffix(output) not in ("", DQC_SUFFIX):
        raise ValueError(f"{output}: the output is a .dqc file; name it {output}{DQC_SUFFIX}")


def check_page_name(output: str) -> None:
    """Raise ValueError if a page would have the suffix of an image or a .dqc file."""
    if _suffix(output):
        raise ValueError(f"{output}: the output is an HTML page; name it .html")


def check_folder_name(output: str) -> None:
    """Raise ValueError if a new folder would have the suffix of an image or a .dqc file."""
    if (old := _suffix(output)) and not os.path.isdir(output):
        raise ValueError(f"{output}: the output is a folder; name it without {old}")


def _suffix(name: str) -> str:
    """The suffix of a name in lower case, if it is one of images or .dqc files; else an empty text."""
    suffix = os.path.splitext(name)[1].lower()
    return suffix if suffix in {*_KINDS, DQC_SUFFIX} else ""


def member_name(relative: Path) -> str:
    """The name in an archive: UTF-8 in every locale; other bytes stay as they are."""
    return in_utf8(relative.as_posix())


def in_utf8(name: str) -> str:
    """A name as Python has it from the system, in any locale -> the name as an archive has it."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")


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
