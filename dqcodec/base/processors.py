"""The processors that this process may use: by its affinity, and by the quota that Linux grants to its control groups."""

import math
import os
from functools import cache
from pathlib import Path


def available_cpus() -> int:
    """The number of processors that this process may use at once, by its affinity and the quota of its control
    group."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        cpus = os.process_cpu_count()
    elif hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count()
    return max(1, math.ceil(min(cpus or 1, _quota())))


@cache
def _quota(root: Path = Path("/")) -> float:
    """The processors that Linux grants to the control group of this process and to its parents; inf without a quota."""
    quota = math.inf
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return quota
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        group = base / path.strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(base):
                quota = min(quota, _quota_of(folder))
    return quota


def _quota_of(folder: Path) -> float:
    """The processors of one control group: quota / period.

    Version 2 has both in one file, `150000 100000` or `max 100000`. Version 1 has a file for each; -1 is no quota.
    """
    try:
        if (folder / "cpu.max").exists():
            time, period = (folder / "cpu.max").read_text().split()
        else:
            time, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(time) / int(period) if time != "max" and int(time) > 0 else math.inf
    except (OSError, ValueError):
        return math.inf
