"""Peak memory of this process."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc/self")


def reset_peak() -> None:
    """Let the peak start anew from what is in use. Where the system cannot (other than Linux), it goes on."""
    with suppress(OSError):
        (_PROC / "clear_refs").write_text("5")


def peak_bytes() -> int:
    """Largest resident memory since the last reset."""
    # not ru_maxrss on Linux: a process inherits it from the one that started it
    with suppress(OSError, StopIteration):
        lines = (_PROC / "status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
