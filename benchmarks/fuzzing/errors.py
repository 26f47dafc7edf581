"""The errors that a broken input may give: those of dqcodec, of one line."""

from __future__ import annotations

from collections.abc import Callable

from dqcodec.base.errors import DqcodecError


def named_errors(read: Callable):
    """Its result; None where it raises a DqcodecError, which must have one line, and not hide an index out of bounds."""
    try:
        return read()
    except DqcodecError as error:
        assert "\n" not in str(error)
        if isinstance(error.__cause__, (ArithmeticError, LookupError)):
            raise error.__cause__ from None
        return None
