"""Inputs -> jobs, names of outputs, and writing a file whole or not at all.

Files that are named are taken for what they are; what is found in a named directory is taken only if it is a regular
file: links and special files are left out.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from dqcodec.base import ending

STDIO = "-"
DQC_SUFFIX, PNG_SUFFIX = ".dqc", ".png"
FORMATS = ("png", "ppm", "bmp", "tiff", "webp", "npy")  # that images may be decompressed to
# of files that are taken as images besides PNGs
IMAGE_SUFFIXES = {".bmp", ".pbm", ".pgm", ".ppm", ".pnm", ".tif", ".tiff", ".webp", ".jpg", ".jpeg", ".gif", ".npy"}
_MAX_TIME = (1 << 63) - 1


@dataclass(frozen=True)
class Job:
    """One input and its output; None stands for standard input and standard output."""

    source: Path | None
    target: Path | None

    @property
    def names(self) -> tuple[str, str]:
        """Source and target as shown to people."""
        return str(self.source or "<stdin>"), str(self.target or "<stdout>")


@dataclass(frozen=True)
class Stamp:
    """What is kept of a file besides its content: its permissions, and when it was modified, nanoseconds since 1970."""

    mode: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_mode & 0o777, status.st_mtime_ns)


def compressed_name(source: Path) -> str:
    """a.png -> a.png.dqc"""
    return source.name + DQC_SUFFIX


def decompressed_name(source: Path, suffix: str = PNG_SUFFIX) -> str:
    """a.png.dqc -> a.png; a.bmp.dqc -> a.png; where no image's suffix is in it: a.dqc, a -> a.png"""
    stem = source.name.removesuffix(DQC_SUFFIX)
    return stem + suffix if stem == source.name else image_name(stem, suffix)


def image_name(name: str, suffix: str) -> str:
    """a.png, a.bmp, a -> a.png, for .png; a suffix that is right is kept as it is written."""
    stem, old = os.path.splitext(name)
    if old.lower() == suffix:
        return name
    return (stem if old.lower() in {PNG_SUFFIX, *IMAGE_SUFFIXES} else name) + suffix


def is_for_archive(sources: Sequence[str], output: str | None) -> bool:
    """Whether inputs are to be packed into one archive: many, or a directory, into a .dqc file."""
    if output is None or not output.endswith(DQC_SUFFIX) or Path(output).is_dir():
        return False
    return len(sources) > 1 or Path(sources[0]).is_dir()


def plan(
    sources: Sequence[str],
    output: str | None,
    rename: Callable[[Path], str],
    *,
    recursive: bool = False,
    suffix: str = "",
    skip: Callable[[Path], None] = lambda path: None,
) -> list[Job]:
    """The jobs for the command's paths and its -o FILE|DIR|-.

    A directory in `sources` stands, with `recursive`, for the `suffix` files below it, and under -o DIR its tree is
    mirrored. `skip` is told of what is left out. Raises ValueError where the outputs would not be one for each input.
    """
    inputs = find(sources, recursive, suffix, skip)
    to_directory = output not in (None, STDIO) and (output.endswith(os.sep) or Path(output).is_dir())
    if output is not None and not to_directory and len(inputs) > 1:
        if output == STDIO or Path(output).exists():
            raise ValueError(f"{len(inputs)} inputs, but {output} is not a directory")
        to_directory = True
    if output == STDIO:
        targets = [None] * len(inputs)
    elif to_directory:
        targets = [Path(output) / relative.with_name(rename(source or relative)) for source, relative in inputs]
    elif output is not None:
        targets = [Path(output)] * len(inputs)
    else:
        targets = [source.with_name(rename(source)) if source else None for source, _ in inputs]
    named = [target for target in targets if target]
    if len(set(named)) < len(named) or targets.count(None) > 1:
        raise ValueError("several inputs would go to the same output")
    if any(source and target and source.resolve() == target.resolve() for (source, _), target in zip(inputs, targets)):
        raise ValueError("an output would replace its own input")
    return [Job(source, target) for (source, _), target in zip(inputs, targets)]


def plan_archive(
    sources: Sequence[str], suffix: str, skip: Callable[[Path], None] = lambda path: None
) -> list[tuple[Path, str]]:
    """Each input and its name in an archive, sorted by name; a directory stands for the `suffix` files below it.

    Raises ValueError where two names would be the same, or one a folder of another.
    """
    if STDIO in sources:
        raise ValueError("standard input does not go into an archive")
    named = {}
    for source, relative in find(sources, True, suffix, skip):
        is_converted = relative.suffix.lower() in IMAGE_SUFFIXES
        name = (relative.with_suffix(PNG_SUFFIX) if is_converted else relative).as_posix()
        if name in named:
            raise ValueError(f"{named[name]} and {source} would both be {name} in the archive")
        named[name] = source
    for name in named:
        if folder := next((str(each) for each in PurePath(name).parents if str(each) in named), None):
            raise ValueError(f"{folder} would be a file and a folder in the archive")
    return [(named[name], name) for name in sorted(named)]


def find(
    sources: Sequence[str], recursive: bool, suffix: str, skip: Callable[[Path], None]
) -> list[tuple[Path | None, Path]]:
    """Each source, and its path relative to an output directory; see `plan`."""
    inputs: list[tuple[Path | None, Path]] = []
    for source in sources:
        path = Path(source)
        if source == STDIO:
            inputs.append((None, Path("stdin")))
        elif path.is_dir():
            if not recursive:
                raise ValueError(f"{source} is a directory (-r takes the files below it)")
            inputs += [(each, each.relative_to(path)) for each in sorted(_walk(path, suffix, skip))]
        else:
            inputs.append((path, Path(path.name)))
    return inputs


def _walk(folder: Path, suffix: str, skip: Callable[[Path], None]) -> Iterator[Path]:
    """The regular files below a directory that end so, and directories that cannot be listed: reading one fails too."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        yield folder
        return
    for entry in found:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(path, suffix, skip)
        elif path.suffix.lower() == suffix and entry.is_file(follow_symlinks=False):
            yield path
        elif path.suffix.lower() == suffix or path.is_dir():
            skip(path)


def read(source: Path | None) -> tuple[bytes, Stamp | None]:
    """All bytes of a file, or of standard input, and the file's stamp."""
    if source is None:
        if sys.stdin.isatty():
            raise OSError("standard input is a terminal")
        return sys.stdin.buffer.read(), None
    with open(source, "rb") as file:
        return file.read(), Stamp.of(os.fstat(file.fileno()))


def start(source: Path) -> bytes:
    """The first bytes of a file, enough to tell what it is; none where it cannot be read."""
    try:
        with open(source, "rb") as file:
            return file.read(16)
    except OSError:
        return b""


def remove(source: Path, stamp: Stamp) -> None:
    """Remove a file that was read; raises OSError if it has changed since."""
    if Stamp.of(source.stat()) != stamp:
        raise OSError("it has changed meanwhile and is not removed")
    source.unlink()


def below(folder: Path, name: str) -> Path:
    """Where in a folder an archive's image goes; raises OSError if that lies outside of it, or behind a link.

    Not even a link to a place within is followed: it may be changed.
    """
    parts = name.split("/")
    if PurePath(name).parts != tuple(parts) or {"", ".", ".."} & {*parts}:
        raise OSError("its name cannot be a file's here")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise OSError(f"{path} is a symbolic link")
    return path


def check_target(target: Path | None, *, force: bool) -> None:
    """Raise OSError if `write` to this target would be refused; for use before the work is done."""
    if target is None:
        if sys.stdout.isatty():
            raise OSError("standard output is a terminal")
    elif target.exists():
        if not target.is_file():
            raise FileExistsError(f"{target} exists and is not a regular file")
        if not force:
            raise FileExistsError(f"{target} exists (-f overwrites it)")


def write(target: Path | None, data: bytes, *, force: bool = False, stamp: Stamp | None = None) -> None:
    """Write a file atomically; None is standard output. See `writing`."""
    check_target(target, force=force)
    if target is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with writing(target, force=force, stamp=stamp) as file:
        file.write(data)


@contextlib.contextmanager
def writing(target: Path, *, force: bool = False, stamp: Stamp | None = None) -> Iterator[BinaryIO]:
    """A file to write and read back, that takes its place when it is written whole, or (on any failure) never.

    Missing directories are made. It gets the stamp's mode and time. Raises OSError; FileExistsError unless `force`.
    """
    check_target(target, force=force)
    target = Path(os.path.realpath(target))  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(target) as (descriptor, temporary):
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask() if stamp is None else stamp.mode)
        if stamp:
            time = max(-_MAX_TIME, min(stamp.mtime_ns, _MAX_TIME))
            os.utime(temporary, ns=(time, time))
        check_target(target, force=force)
        os.replace(temporary, target)
    _sync(target.parent)


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[tuple[int, str]]:
    """(descriptor, path) of a new file beside the target; removed, unless it was given another name, even by a signal."""

    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    with contextlib.ExitStack() as stack:
        with ending.not_ending():
            descriptor, path = tempfile.mkstemp(prefix=f".{target.name[:60]}.", suffix=".tmp", dir=target.parent)
            stack.enter_context(ending.at_end(remove))
            stack.callback(remove)
        yield descriptor, path


def _sync(folder: Path) -> None:
    """See to it that a file's new name outlives a loss of power; not all systems can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
