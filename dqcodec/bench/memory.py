"""Peak memory of this process."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc/self")


def reset_peak() -> None:
    """Reset the peak to the memory that is in use. Only Linux can do this; elsewhere the old peak stays."""
    with suppress(OSError):
        (_PROC / "clear_refs").write_text("5")


def peak_bytes() -> int:
    """Largest resident memory since the last reset, bytes."""
    # on Linux not ru_maxrss, which a process inherits from its parent
    with suppress(OSError, StopIteration):
        lines = (_PROC / "status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
