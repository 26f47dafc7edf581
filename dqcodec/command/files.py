"""Read a file once, write it whole or not at all, remove only what was read.

A file is written under a temporary name beside its target, `.NAME.PID-RANDOM.tmp`, and takes its place when it is
whole. The next process that writes NAME in that folder removes the files that a killed process left.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from dqcodec.base import ending
from dqcodec.command import streams
from dqcodec.command.kinds import START_BYTES, Kind
from dqcodec.png import MAX_PIXELS
from dqcodec.png.chunks import check_trailing

_MAX_TIME = (1 << 63) - 1
_PIXEL_BYTES, _MORE_BYTES = 8, 1 << 28
_BLOCK_BYTES = 1 << 20
_NAME_BYTES = 200  # the target's part of a temporary name, which may have 255 bytes
_LEFT = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)-[0-9a-f]{8}\.tmp", re.DOTALL)
# errors of file systems without hard links
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}

_renewed: dict[tuple[int, ...], tuple[int, ...]] = {}  # of files with several names: removing one changes the ctime


@dataclass(frozen=True)
class Stamp:
    """The properties of a file that are kept: its permissions, and its modification time, nanoseconds since 1970.

    owner: user and group, kept where the system allows it; None if they are not known. identity: device, inode, size
    and times. They differ for another file, and for this one after a change. Equality ignores owner and identity.
    """

    mode: int
    mtime_ns: int
    owner: tuple[int, int] | None = field(default=None, compare=False)
    identity: tuple[int, ...] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file with this status."""
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        return cls(status.st_mode & 0o777, status.st_mtime_ns, (status.st_uid, status.st_gid), identity)

    @classmethod
    def at(cls, path: Path) -> Stamp:
        """The stamp of the file at a path; raises OSError."""
        return cls.of(os.stat(path))


def max_bytes(max_pixels: int) -> int:
    """The largest file that is read: 8 bytes a pixel of the limit, for 16-bit RGBA, and 256 MiB more."""
    return _PIXEL_BYTES * max_pixels + _MORE_BYTES


def read(
    source: Path | None, limit: int = max_bytes(MAX_PIXELS), check: Callable[[bytes], None] = lambda start: None
) -> tuple[bytes, Stamp | None]:
    """All bytes of a file and its stamp; standard input (None) has no stamp.

    limit: bytes. check: gets the first kilobytes and raises for a wrong kind of file. Raises what `check` raises,
    OSError if the file is larger than the limit or changes meanwhile, UnsupportedImageError for a PNG with more than
    chunks.MAX_TRAILING_BYTES after its end; those are not read.
    """
    if source is None:
        if sys.stdin.isatty():
            raise OSError("standard input is a terminal")
        return _read_stream(sys.stdin.buffer, limit, check), None
    with open(source, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return _read_stream(file, limit, check), Stamp.of(status)
        check(file.read(START_BYTES))
        if status.st_size > limit:
            raise OSError(f"it has {status.st_size} bytes, more than the limit of {limit} (see --max-pixels)")
        check_trailing(file, status.st_size)
        file.seek(0)
        data = file.read(status.st_size + 1)
        stamp = Stamp.of(status)
        if len(data) != status.st_size or Stamp.of(os.fstat(file.fileno())).identity != stamp.identity:
            raise OSError("it changed while it was read")
        return data, stamp


def _read_stream(file: BinaryIO, limit: int, check: Callable[[bytes], None]) -> bytes:
    data = bytearray(file.read(START_BYTES))
    check(bytes(data))
    while block := file.read(_BLOCK_BYTES):
        data += block
        if len(data) > limit:
            raise OSError(f"it has more bytes than the limit of {limit} (see --max-pixels)")
    return bytes(data)


def start(source: Path) -> bytes:
    """The first bytes of a file, enough to know its kind; b"" for a stream. Raises OSError."""
    if is_stream(source):
        return b""
    with open(source, "rb") as file:
        return file.read(START_BYTES)


def starts_as(source: Path | None, kind: Kind) -> bool:
    """Whether a file can be read and is of a kind by its first bytes."""
    try:
        return source is not None and kind.has(start(source))
    except OSError:
        return False


def is_stream(path: Path | None) -> bool:
    """Whether a path is a standard stream (None), a pipe or a device. These are used once and never replaced."""
    try:
        return path is None or _is_stream(os.stat(path).st_mode)
    except OSError:  # nothing there, or no permission
        return False


def _is_stream(mode: int) -> bool:
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to the same existing file."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def identity(path: Path) -> tuple[int, ...]:
    """Device and inode of the file at a path; () if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino


def remove(source: Path, stamp: Stamp) -> None:
    """Remove a file that was read; raises OSError if it has changed since, or another file has its place."""
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        raise OSError("it is a symbolic link and is not removed")
    expected = stamp.identity
    while expected in _renewed:
        expected = _renewed[expected]
    if Stamp.of(status).identity != expected:
        raise OSError("it has changed meanwhile and is not removed")
    try:
        if status.st_nlink == 1:
            os.unlink(source)
        else:
            _remove_name(source, expected)
    except OSError as error:
        raise OSError(f"it cannot be removed: {error.strerror or error}") from error


def _remove_name(source: Path, identity: tuple[int, ...]) -> None:
    """Remove one of a file's names, and keep the identity that this gives the other names."""
    with open(source, "rb") as file:
        os.unlink(source)
        renewed = Stamp.of(os.fstat(file.fileno())).identity
    if renewed[:-1] == identity[:-1] and renewed != identity:  # another change is none of ours
        _renewed[identity] = renewed


def check_target(target: Path | None, *, force: bool, former: tuple[int, ...] | None = None) -> None:
    """Raise OSError if `write` would refuse this target; for use before the work.

    former: the identity, before the command, of the file that `force` may overwrite; None: any file. Two paths may lead
    to one file, on a file system that does not see the case of letters, for example.
    """
    if target is None:
        if sys.stdout.isatty():
            raise OSError("standard output is a terminal")
        return
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_written(target, error) from error
    mode = status.st_mode
    if not (stat.S_ISREG(mode) or _is_stream(mode)):
        raise FileExistsError(f"{target} exists and is not a regular file")
    if stat.S_ISREG(mode) and not force:
        raise _exists(target)
    if stat.S_ISREG(mode) and former not in (None, (status.st_dev, status.st_ino)):
        raise FileExistsError(f"{target} was not there before this command; another input or program wrote it")


def write(
    target: Path | None,
    data: bytes,
    *,
    force: bool = False,
    former: tuple[int, ...] | None = None,
    stamp: Stamp | None = None,
    may_repeat: bool = False,
) -> None:
    """Write a file; None is standard output. See `writing`. Every error names the target.

    may_repeat: a worker that was lost may have done this work before, so a file with the same bytes is as good as
    written. `former` is as the main process sees it. Other machines may give other numbers to devices, so that a worker
    overwrites any file if there was one.
    """
    former = None if may_repeat and former else former
    try:
        if target is None:
            check_target(target, force=force)
            _write_output(data)
        else:
            with writing(target, force=force, former=former, stamp=stamp) as file:
                file.write(data)
    except OSError as error:
        if may_repeat and isinstance(error, FileExistsError) and _holds(target, data):
            return
        if error.errno is None:  # it has the name
            raise
        raise _not_written(target, error) from error


def _write_output(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError:
        streams.drop_output()
        raise


@contextlib.contextmanager
def writing(
    target: Path, *, force: bool = False, former: tuple[int, ...] | None = None, stamp: Stamp | None = None
) -> Iterator[BinaryIO]:
    """A file to write and read back. It takes its place when it is whole; after a failure it never does.

    Missing directories are made. The file gets the stamp's mode, time and owner. A pipe or device gets the bytes at the end.
    Raises OSError; unless `force`, FileExistsError, even if another file takes the place at the last moment. former: see
    check_target.
    """
    check_target(target, force=force, former=former)
    if is_stream(target):
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            with open(target, "wb") as stream:
                shutil.copyfileobj(file, stream)
        return
    target = Path(os.path.realpath(target))  # a link stays a link
    made = [each for each in target.parents if not each.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    with _temporary(target, 0o600 if stamp else 0o666) as (descriptor, temporary):
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if stamp:
            os.chmod(temporary, _owned(temporary, stamp))
            time = max(-_MAX_TIME, min(stamp.mtime_ns, _MAX_TIME))
            os.utime(temporary, ns=(time, time))
        check_target(target, force=force, former=former)
        (os.replace if force and former != () else _move)(temporary, target)
    for folder in (target.parent, *(each.parent for each in made)):
        _sync(folder)


def _owned(path: Path, stamp: Stamp) -> int:
    """Give a file its owner if the system allows it; returns the mode that the file may then have.

    In another group than the source's, the group may do no more than all others.
    """
    status, mode = os.stat(path), stamp.mode
    if stamp.owner is None or stamp.owner == (status.st_uid, status.st_gid):
        return mode
    user, group = stamp.owner
    with contextlib.suppress(OSError):
        os.chown(path, -1, group)
    if os.stat(path).st_gid != group:
        mode &= ~0o070 | mode << 3
    with contextlib.suppress(OSError):
        os.chown(path, user, -1)
    return mode


def is_temporary(name: str) -> bool:
    """Whether a file's name is one that a file has while it is written."""
    return _LEFT.fullmatch(name) is not None


def _holds(path: Path, data: bytes) -> bool:
    """Whether a regular file has just these bytes."""
    try:
        status = os.stat(path)
        return stat.S_ISREG(status.st_mode) and status.st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def _move(temporary: Path, target: Path) -> None:
    """Give a file its name unless another file has it; the old name may stay."""
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _move_without_links(temporary, target)


def _move_without_links(temporary: Path, target: Path) -> None:
    with ending.not_ending():  # for a moment an empty file has the name
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError as error:
            raise _exists(target) from error
        try:
            os.replace(temporary, target)
        except BaseException:
            os.unlink(target)
            raise


def _exists(target: Path) -> FileExistsError:
    return FileExistsError(f"{target} exists (-f overwrites it)")


def _not_written(target: Path | None, error: OSError) -> OSError:
    return OSError(f"cannot write {target or 'standard output'}: {error.strerror or error}")


@contextlib.contextmanager
def _temporary(target: Path, mode: int) -> Iterator[tuple[int, Path]]:
    """(descriptor, path) of a new file beside a target. At the end, even by a signal, this name is gone.

    Temporary files of this target that dead processes left are removed.
    """
    name = target.name
    while len(os.fsencode(name)) > _NAME_BYTES:
        name = name[:-1]
    for left in _leftovers(target.parent).pop(name, []):
        with contextlib.suppress(OSError):
            os.unlink(left)
    temporary = target.with_name(f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")

    def remove() -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)

    with contextlib.ExitStack() as stack:
        with ending.not_ending():
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), mode)
            stack.enter_context(ending.at_end(remove))
            stack.callback(remove)
        yield descriptor, temporary


@functools.lru_cache(1 << 10)  # a folder of many files is listed once, not for each file
def _leftovers(folder: Path) -> dict[str, list[Path]]:
    """The temporary files in a folder whose processes are dead, by the targets' names that they contain.

    A file with the number of this process is of a dead one, too: in a container every process has the same number.
    """
    found: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _LEFT.fullmatch(entry.name)
            if match and (int(match["process"]) == os.getpid() or not _is_alive(int(match["process"]))):
                found.setdefault(match["name"], []).append(folder / entry.name)
    return found


def _is_alive(process: int) -> bool:
    """Whether a process of this machine runs; True if this cannot be known."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _sync(folder: Path) -> None:
    """Make a file's new name survive a loss of power; not all systems can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
