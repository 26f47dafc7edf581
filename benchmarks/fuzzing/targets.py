"""The targets, by name. Each has seeds, changes an input, and checks one; what goes wrong in a check is a finding.

The modules of targets import dqcodec when one is made, not before: --bounds and atheris must come first.
"""

from __future__ import annotations

import importlib
import random
import struct
from typing import Protocol

from fuzzing.changes import changed

NAMES = ("container", "archive", "model", "png", "payloads")


class Target(Protocol):
    """One kind of files: inputs, and what reads them."""

    seeds: list[bytes]

    def change(self, data: bytes, rng: random.Random) -> bytes:
        """Another input; may raise if the data is broken beyond its structure."""

    def check(self, data: bytes) -> bool:
        """Whether the data is good; raises where it gives neither the right thing nor an error with a name."""


def target_of(name: str) -> Target:
    """A new target of one of NAMES, which are modules of this package."""
    return importlib.import_module(f"fuzzing.{name}").Target()


def mutated(target: Target, data: bytes, rng: random.Random) -> bytes:
    """An input as the target changes it, or, where it is broken beyond its structure, as any bytes are."""
    try:
        return target.change(data, rng)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error):
        return changed(data, rng)
