"""Which paths are streams; and standard streams that are closed, full, or cannot encode a name:
the command goes on, or ends with one line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click


class OneLineError(click.ClickException):
    """The command ends with exit code 1 and one line, as for a file that fails."""

    def show(self, file: Any = None) -> None:
        """Print the line."""
        print_line(f"dqcodec: {self.format_message()}")


def prepare() -> None:
    """Make the standard streams safe to use.

    A closed input or output fails when it is used, and a closed standard error swallows messages. Otherwise the next
    file to be opened would get the free descriptor, and the messages. Characters that the locale cannot encode are
    escaped.
    """
    _open_closed(0, os.O_WRONLY)
    _open_closed(1, os.O_RDONLY)
    _open_closed(2, os.O_WRONLY)
    sys.stdin = sys.stdin or open(0, closefd=False)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.stderr.reconfigure(errors="backslashreplace")


def print_line(text: str) -> None:
    """Print a line on standard error, if it can be printed."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """An error of standard output, or of a working folder that was removed, ends the command with one line.

    If nobody reads standard output any more, click ends it silently.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        drop_output()
        nameless = "the working folder" if error.errno == errno.ENOENT else "standard output"
        raise OneLineError(f"{error.filename or nameless}: {error.strerror or error}") from error


def drop_output() -> None:
    """Discard what standard output could not write; its buffer would fail again at exit."""
    sys.stdout = open(os.devnull, "w")


def is_stream(path: Path | None) -> bool:
    """Whether a path is a standard stream (None), a pipe or a device. These are used once and never replaced."""
    try:
        return path is None or is_stream_mode(os.stat(path).st_mode)
    except OSError:  # nothing there, or no permission
        return False


def is_stream_mode(mode: int) -> bool:
    """Whether a mode is that of a pipe, a device or a socket."""
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def _open_closed(descriptor: int, flags: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, flags)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
        os.set_inheritable(descriptor, True)
