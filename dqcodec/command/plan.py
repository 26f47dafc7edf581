"""Inputs -> jobs, each with its output; or inputs -> members of one archive."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dqcodec.command import reading, streams
from dqcodec.command.kinds import PNG
from dqcodec.command.names import DQC_SUFFIX, STDIO, check_folder_name, member_name, png_name
from dqcodec.command.options import Converting
from dqcodec.command.stamp import inode, is_same
from dqcodec.command.walk import Found, shown_source
from dqcodec.format.names import Names

_STDOUT = {STDIO, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}


@dataclass(frozen=True)
class Job:
    """One input and its output; None stands for standard input and standard output.

    is_written: whether there is an output; otherwise the input is only checked. former: device and inode of the file
    that is at the target before the command; see atomic.check_target. data: of a stream that was read already. error:
    why the job cannot be done. note: what the user should know of the names.
    """

    source: Path | None
    target: Path | None = None
    is_written: bool = True
    former: tuple[int, ...] = ()
    data: bytes | None = None
    error: str | None = None
    note: str | None = None

    @property
    def names(self) -> tuple[str, str | None]:
        """Source and target as shown to people."""
        return shown_source(self.source), str(self.target or "<stdout>") if self.is_written else None

    @property
    def has_stream(self) -> bool:
        """Whether its input or its output is a stream. Only this process has its streams, and nothing replaces them."""
        return streams.is_stream(self.source) or (self.is_written and streams.is_stream(self.target))


def is_for_archive(sources: Sequence[str], output: str | None) -> bool:
    """Whether inputs go into one archive: the output is a .dqc file, and they are several or a directory."""
    if output is None or not output.lower().endswith(DQC_SUFFIX) or os.path.isdir(output):
        return False
    return len(sources) > 1 or os.path.isdir(sources[0])


def plan(
    found: Found, output: str | None, rename: Callable[[Path], str], check_name: Callable[[str], None]
) -> list[Job]:
    """The jobs for a command's inputs and its -o FILE|DIR|-. Under -o DIR the trees of folders are mirrored.

    The output of a folder is a folder, even if only one file lies there. check_name: raises ValueError if a file may
    not have the name that -o gives. Inputs that would go to the same file get an error, and so does one that would
    replace another. Raises ValueError if the output is no place for all inputs, or would replace one.
    """
    inputs, targets = found.inputs, _targets(found, output, rename, check_name)
    places = [target and Path(os.path.realpath(target)) for target in targets]
    uses = Counter(places)
    if uses[None] > 1:
        raise ValueError("several inputs would go to standard output")
    if [source for source, _ in inputs].count(None) > 1:
        raise ValueError("standard input can be read only once")
    sources = {inode(source): source for source, _ in inputs if source and not streams.is_stream(source)}
    sources.pop((), None)  # of what is not there
    jobs = []
    for (source, _), target, place in zip(inputs, targets, places):
        check_apart([target], [source])
        former, error = inode(target) if target else (), None
        if uses[place] > 1:
            error = f"{target} would be the output of {uses[place]} inputs (-o names another)"
        elif former in sources:
            error = f"{target} would replace the input {sources[former]}"
        jobs.append(Job(source, target, former=former, error=error))
    return jobs


def _targets(
    found: Found, output: str | None, rename: Callable[[Path], str], check_name: Callable[[str], None]
) -> list[Path | None]:
    """The output of each input; raises ValueError if -o is no place for all."""
    inputs = found.inputs
    if output is None:
        return [None if streams.is_stream(source) else source.with_name(rename(source)) for source, _ in inputs]
    if output == "":
        raise ValueError("the output has no name")
    is_stdout = output in _STDOUT
    if is_stdout or not (output.endswith(os.sep) or os.path.isdir(output)):
        if len(inputs) == 1 and not found.has_folder:
            if not (is_stdout or streams.is_stream(Path(output))):
                check_name(output)
            return [None if is_stdout else Path(output)]
        what = "the files of a folder" if found.has_folder else f"{len(inputs)} files"
        if is_stdout:
            raise ValueError(f"standard output takes one file, not {what}: give a folder with -o")
        if os.path.exists(output):
            raise ValueError(f"{what} go into a folder, and {output} is none")
        check_folder_name(output)
    return [Path(output) / relative.with_name(rename(source or relative)) for source, relative in inputs]


def plan_archive(found: Found, target: Path, keep_others: bool = False) -> list[tuple[Path, str]]:
    """Each input with its name in an archive, sorted by name; with `keep_others`, also the other files of folders.

    Raises ValueError if two names are the same, one is a folder of another, the archive would replace an input, or an
    input is a pipe or a device, which could be read only once.
    """
    for source, _ in found.inputs:
        if streams.is_stream(source):
            raise ValueError(f"{source or 'standard input'} does not go into an archive; only files do")
    inputs = [(source, member_name(_image_path(source, relative))) for source, relative in found.inputs]
    inputs += [(source, member_name(relative)) for source, relative in found.others] if keep_others else []
    inputs.sort(key=lambda each: each[1])
    names, named = Names(), {}
    for source, name in inputs:
        other = names.add(name)
        if other == name:
            is_one_folder = named[name].parent == source.parent
            remedy = "rename one of them" if is_one_folder else "give a folder that holds both"
            raise ValueError(f"{named[name]} and {source} would both be {name} in the archive: {remedy}")
        if other:
            raise ValueError(f"{other} would be a file and a folder in the archive")
        named[name] = source
    check_apart([target], named.values())
    return inputs


def check_apart(
    targets: Iterable[Path | None], sources: Collection[Path | None] = (), models: Iterable[str] = ()
) -> None:
    """Raise ValueError if a target is a file that the command reads: one of its sources, or
    of its models by name or path.

    Raises UnknownModelError if there is no such model.
    """
    from dqcodec.codec import zoo

    files = [zoo.locate(name) for name in models]
    for target in targets:
        if target is None or streams.is_stream(target) or not os.path.exists(target):
            continue
        if any(is_same(file, target) for file in files):
            raise ValueError(f"{target} would replace a model that this command needs")
        for source in sources:
            if source is not None and is_same(source, target):
                raise ValueError(f"{target} would replace its own input {source} (-o names another)")


def check_outputs(options: Converting, jobs: Sequence[Job]) -> None:
    """Raise ValueError if --json and an output would both go to stdout, --rm would leave no file, or a model would be
    replaced; UnknownModelError if there is no such model."""
    if options.as_json and any(job.target is None for job in jobs):
        raise ValueError("--json and the image cannot both go to stdout")
    if options.rm and any(job.has_stream for job in jobs):
        raise ValueError("--rm is for files that become files, not for pipes, devices and standard streams")
    check_apart([job.target for job in jobs], models=options.models)


def _image_path(source: Path, relative: Path) -> Path:
    """An image's path in an archive. A PNG keeps its path, with any suffix."""
    name = png_name(relative.name)
    return relative if name == relative.name or reading.starts_as(source, PNG) else relative.with_name(name)
