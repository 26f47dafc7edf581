"""Inputs -> jobs, names of outputs, and writing a file whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

STDIO = "-"


@dataclass(frozen=True)
class Job:
    """One input and its output; None stands for standard input and standard output."""

    source: Path | None
    target: Path | None

    @property
    def names(self) -> tuple[str, str]:
        """Source and target as shown to people."""
        return str(self.source or "<stdin>"), str(self.target or "<stdout>")


def compressed_name(name: str) -> str:
    """a.png -> a.png.dqc"""
    return name + ".dqc"


def decompressed_name(name: str) -> str:
    """a.png.dqc -> a.png; without .png in it: a.dqc, a -> a.png"""
    stem = name.removesuffix(".dqc")
    return stem if stem.lower().endswith(".png") and stem != name else stem + ".png"


def plan(
    sources: Sequence[str],
    output: str | None,
    rename: Callable[[str], str],
    *,
    recursive: bool = False,
    suffix: str = "",
) -> list[Job]:
    """The jobs for the command's paths and its -o FILE|DIR|-.

    A directory in `sources` stands, with `recursive`, for the `suffix` files below it, and under -o DIR its tree is
    mirrored. Raises ValueError where the outputs would not be one for each input.
    """
    inputs: list[tuple[Path | None, Path]] = []  # source, and its path relative to an output directory
    for source in sources:
        path = Path(source)
        if source == STDIO:
            inputs.append((None, Path("stdin")))
        elif path.is_dir():
            if not recursive:
                raise ValueError(f"{source} is a directory (-r takes the files below it)")
            found = sorted(each for each in path.rglob("*") if each.suffix.lower() == suffix and each.is_file())
            inputs += [(each, each.relative_to(path)) for each in found]
        else:
            inputs.append((path, Path(path.name)))

    to_directory = output not in (None, STDIO) and (output.endswith(os.sep) or Path(output).is_dir())
    if output is not None and not to_directory and len(inputs) > 1:
        if output == STDIO or Path(output).exists():
            raise ValueError(f"{len(inputs)} inputs, but {output} is not a directory")
        to_directory = True
    if output == STDIO:
        targets = [None] * len(inputs)
    elif to_directory:
        targets = [Path(output) / relative.with_name(rename(relative.name)) for _, relative in inputs]
    elif output is not None:
        targets = [Path(output)] * len(inputs)
    else:
        targets = [path.with_name(rename(path.name)) if path else None for path, _ in inputs]
    named = [target for target in targets if target]
    if len(set(named)) < len(named) or targets.count(None) > 1:
        raise ValueError("several inputs would go to the same output")
    if any(source and target and source.resolve() == target.resolve() for (source, _), target in zip(inputs, targets)):
        raise ValueError("an output would replace its own input")
    return [Job(source, target) for (source, _), target in zip(inputs, targets)]


def read(source: Path | None) -> bytes:
    """All bytes of a file, or of standard input."""
    if source is None:
        if sys.stdin.isatty():
            raise OSError("standard input is a terminal")
        return sys.stdin.buffer.read()
    return source.read_bytes()


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


def write(target: Path | None, data: bytes, *, force: bool = False, like: Path | None = None) -> None:
    """Write a file atomically: it is there whole, or (on any failure) not at all. None is standard output.

    Missing directories are made. `like` is a file whose mode and modification time are taken over. Raises OSError;
    FileExistsError unless `force`.
    """
    check_target(target, force=force)
    if target is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(target))  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name[:200]}.", suffix=".tmp", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if like is None:
            os.chmod(temporary, 0o666 & ~_umask())
        else:
            shutil.copymode(like, temporary)
            status = like.stat()
            os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        check_target(target, force=force)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
