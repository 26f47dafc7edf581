"""Atomic writes: a target is written whole or not at all, and never over another file unless asked.

A file is written under a temporary name beside its target, and takes its place when it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dqcodec.base import ending
from dqcodec.command import streams
from dqcodec.command.stamp import Stamp
from dqcodec.command.temporary import temporary_beside

_MAX_TIME = (1 << 63) - 1  # nanoseconds that every system takes
# errors of file systems without hard links
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}

# errors of systems and folders that cannot be synced: Windows opens none, and a folder may
# be writable, but not readable
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EPERM, errno.EBADF}


def check_target(target: Path | None, *, force: bool, former: tuple[int, ...] | None = None) -> None:
    """Raise OSError if `write` would refuse this target; for use before the work.

    former: device and inode, before the command, of the file that `force` may overwrite; None: any file. Two paths may
    lead to one file, on a file system that does not see the case of letters, for example.
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
    if not (stat.S_ISREG(mode) or streams.is_stream_mode(mode)):
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

    Missing directories are made. The file gets the stamp's mode, time and owner. A pipe or device gets the bytes at the
    end. Raises OSError; unless `force`, FileExistsError, even if another file takes the place at the last moment.
    former: see check_target.
    """
    check_target(target, force=force, former=former)
    if streams.is_stream(target):
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            with open(target, "wb") as stream:
                shutil.copyfileobj(file, stream)
        return
    target = Path(os.path.realpath(target))  # a link stays a link
    made = [each for each in target.parents if not each.exists()]
    for folder in reversed(made):  # mkdir(parents=True) recurses, and cannot make a thousand folders
        folder.mkdir(exist_ok=True)
    with temporary_beside(target, 0o600 if stamp else 0o666) as (descriptor, temporary):
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if stamp:
            os.chmod(temporary, _owned(temporary, stamp))
            _set_time(temporary, stamp.mtime_ns)
        check_target(target, force=force, former=former)
        (os.replace if force and former != () else _move)(temporary, target)
    for folder in (target.parent, *(each.parent for each in made)):
        _sync(folder)


def _set_time(path: Path, time: int) -> None:
    """Set a file's time, nanoseconds; the nearest that the system takes."""
    try:
        os.utime(path, ns=(time, time))
    except (OverflowError, OSError):
        nearest = max(-_MAX_TIME, min(time, _MAX_TIME))
        os.utime(path, ns=(nearest, nearest))


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


def _sync(folder: Path) -> None:
    """Make a file's new name survive a loss of power, where the system can; raises OSError if it fails."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
