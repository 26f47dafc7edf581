"""Errors that end a command with one line: a wrong usage with exit code 2, a failure with 3."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from dqcodec.base.errors import FAILURES, DqcodecError, one_line
from dqcodec.command.progress import print_failure
from dqcodec.command.results import FileResult, shown
from dqcodec.command.streams import OneLineError


class Failure(OneLineError):
    """A command did nothing; the exit code is 3."""

    exit_code = 3


@contextmanager
def one_line_failures(extra: str) -> Iterator[None]:
    """Turn an expected error of the block into a Failure of one line.

    Args:
        extra: the optional dependencies of dqcodec that the block imports from.

    Raises Failure: a DqcodecError, an OSError, or a package that is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise not_installed(error.name, extra) from error
    except (DqcodecError, OSError) as error:
        raise Failure(" ".join(str(error).split())) from error


def not_installed(package: str, extra: str) -> Failure:
    """The Failure for a package that comes with the optional dependencies `extra`."""
    return Failure(f"{package} is not installed; it comes with: pip install 'dqcodec[{extra}]'")


@contextmanager
def ending_with_failure(path: str, as_json: bool = False) -> Iterator[None]:
    """A failure of the block ends the command with an error of this file, and exit code 3."""
    try:
        yield
    except FAILURES as error:
        print_failure(FileResult(path, error=one_line(error)), as_json)
        sys.exit(3)


@contextmanager
def usage_errors() -> Iterator[None]:
    """An error of the block, in what the user named, becomes a UsageError; too little memory, a Failure."""
    try:
        yield
    except (DqcodecError, ValueError) as error:
        raise click.UsageError(shown(str(error))) from error
    except MemoryError as error:
        raise Failure(one_line(error)) from error
