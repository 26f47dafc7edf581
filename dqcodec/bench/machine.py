"""The machine of a measurement."""

from __future__ import annotations

import datetime
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import numpy as np

from dqcodec.base.processors import available_cpus

_PACKAGES = ("numpy", "constriction", "pillow", "imagecodecs", "pyoxipng")


def machine() -> dict[str, str | int | list[str] | dict[str, str] | None]:
    """Facts about this machine, for JSON.

    load: the average of the last minute before the measurement. Above 0, other processes took part of the time.
    """
    return {
        "processor": _processor(),
        "cores": available_cpus(),
        "instruction_sets": _instruction_sets(),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "packages": _versions(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _instruction_sets() -> list[str]:
    """numpy's names of the instruction sets: those that it was built for, and those that it found."""
    known = np.show_config(mode="dicts")["SIMD Extensions"]
    return [*known.get("baseline", ()), *known.get("found", ())]


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions
