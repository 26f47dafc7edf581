"""Inputs -> jobs, each with its output, or the members of one archive."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from dqcodec.command import files
from dqcodec.command.kinds import PNG
from dqcodec.command.names import DQC_SUFFIX, IMAGE_SUFFIXES, STDIO, member_name
from dqcodec.command.walk import Found

_STDOUT = {STDIO, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}


@dataclass(frozen=True)
class Job:
    """One input and its output; None stands for standard input and standard output. data: of a stream that is read
    already."""

    source: Path | None
    target: Path | None
    data: bytes | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Source and target as shown to people."""
        return str(self.source or "<stdin>"), str(self.target or "<stdout>")

    @property
    def is_local(self) -> bool:
        """Whether only this process can do it: streams are its own."""
        return files.is_stream(self.source) or files.is_stream(self.target)


def is_for_archive(sources: Sequence[str], output: str | None) -> bool:
    """Whether inputs are to be packed into one archive: many, or a directory, into a .dqc file."""
    if output is None or not output.endswith(DQC_SUFFIX) or os.path.isdir(output):
        return False
    return len(sources) > 1 or os.path.isdir(sources[0])


def plan(found: Found, output: str | None, rename: Callable[[Path], str]) -> list[Job]:
    """The jobs for a command's inputs and its -o FILE|DIR|-. Under -o DIR the trees of folders are mirrored.

    Raises ValueError where the outputs would not be one for each input, or one would replace an input.
    """
    inputs = found.inputs
    if output == "":
        raise ValueError("the output has no name")
    is_stdout = output in _STDOUT
    to_directory = output is not None and not is_stdout and (output.endswith(os.sep) or os.path.isdir(output))
    if output is not None and not to_directory and len(inputs) > 1:
        if is_stdout or os.path.exists(output):
            raise ValueError(f"{len(inputs)} inputs, but {output} is not a directory")
        to_directory = True
    if to_directory:
        targets = [Path(output) / relative.with_name(rename(source or relative)) for source, relative in inputs]
    elif output is not None:
        targets = [None if is_stdout else Path(output)] * len(inputs)
    else:
        targets = [None if files.is_stream(source) else source.with_name(rename(source)) for source, _ in inputs]
    named = [target for target in targets if target]
    if len(set(named)) < len(named):
        twice = next(target for target in named if named.count(target) > 1)
        raise ValueError(f"several inputs would go to {twice}")
    if targets.count(None) > 1:
        raise ValueError("several inputs would go to standard output")
    jobs = [Job(source, target) for (source, _), target in zip(inputs, targets)]
    for job in jobs:
        check_apart([job.source], job.target)
    return jobs


def plan_archive(found: Found, target: Path, keep_others: bool = False) -> list[tuple[Path, str]]:
    """Each input with its name in an archive, sorted by name; with `keep_others`, other files of folders too.

    Raises ValueError where two names would be the same, one a folder of another, or the archive would replace an input.
    """
    if any(source is None for source, _ in found.inputs):
        raise ValueError("standard input does not go into an archive")
    inputs = [(source, member_name(_image_path(source, relative))) for source, relative in found.inputs]
    inputs += [(source, member_name(relative)) for source, relative in found.others] if keep_others else []
    named: dict[str, Path] = {}
    for source, name in inputs:
        if name in named:
            raise ValueError(f"{named[name]} and {source} would both be {name} in the archive")
        named[name] = source
    for name in named:
        if folder := next((str(each) for each in PurePath(name).parents if str(each) in named), None):
            raise ValueError(f"{folder} would be a file and a folder in the archive")
    check_apart(named.values(), target)
    return sorted(inputs, key=lambda each: each[1])


def check_apart(sources: Sequence[Path | None], target: Path | None) -> None:
    """Raise ValueError if a target is one of the sources, by whatever name."""
    if target is None or files.is_stream(target) or not os.path.exists(target):
        return
    for source in sources:
        if source is not None and files.is_same(source, target):
            raise ValueError(f"{target} would replace its own input {source}")


def _image_path(source: Path, relative: Path) -> Path:
    """An image's path in an archive: that of a PNG is its own, whatever its suffix is."""
    is_converted = relative.suffix.lower() in IMAGE_SUFFIXES and not files.starts_as(source, PNG)
    return relative.with_suffix(".png") if is_converted else relative
