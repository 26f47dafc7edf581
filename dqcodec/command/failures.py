"""Failures that end a command: one line on stderr, exit code 3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from dqcodec.base.errors import DqcodecError


class Failure(click.ClickException):
    """A command did nothing. click prints the message and exits with code 3."""

    exit_code = 3


@contextmanager
def one_line_failures(extra: str) -> Iterator[None]:
    """Turn an expected error of the block into a Failure of one line.

    Args:
        extra: the optional dependencies of dqcodec that the block imports from.

    Raises:
        Failure: a DqcodecError, an OSError, or a package that is not installed.
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
