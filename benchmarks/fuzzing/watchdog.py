"""Watches the fuzzer's process: it ends, or it hangs, that is, one input takes too much time of a processor."""

from __future__ import annotations

import math
import mmap
import os
import signal
import struct
import time
from pathlib import Path

from fuzzing.limits import MAX_INPUT


class Shared:
    """What both processes see: how many inputs were tried, how many were good, the one at hand, and when to end.

    The time counts from the moment at which the seeds are checked and all loops compiled.
    """

    _FIELDS = struct.Struct("<qqq")
    _END = struct.Struct("<d")

    def __init__(self):
        self._memory = mmap.mmap(-1, MAX_INPUT * 4 + self._FIELDS.size)
        self._time = mmap.mmap(-1, self._END.size)

    @property
    def end(self) -> float:
        """The time at which to end; infinite before the seeds are checked."""
        return self._END.unpack_from(self._time)[0] or math.inf

    def start(self, seconds: float) -> None:
        """Set the end, unless an earlier process has."""
        if self.end == math.inf:
            self._END.pack_into(self._time, 0, time.time() + seconds)

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self._FIELDS.unpack_from(self._memory)

    @property
    def data(self) -> bytes:
        size = self._FIELDS.size
        return self._memory[size : size + self.numbers[2]]

    def begin(self, data: bytes) -> None:
        tried, good, _ = self.numbers
        self._memory[self._FIELDS.size : self._FIELDS.size + len(data)] = data
        self._FIELDS.pack_into(self._memory, 0, tried + 1, good, len(data))

    def count(self) -> None:
        tried, good, length = self.numbers
        self._FIELDS.pack_into(self._memory, 0, tried, good + 1, length)


def watch(child: int, shared: Shared, patience: float) -> str | None:
    """Wait for the process; what happened to it. patience: seconds of a processor for one input; ten times of the clock."""
    last, since, spent, reported = -1, time.time(), 0.0, time.time()
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 and time.time() > shared.end - 5 else "broken" if code == 3 else f"ended-{-code}"
        tried, good, _ = shared.numbers
        if tried != last:
            last, since, spent = tried, time.time(), _processor_seconds(child)
        if tried and (_processor_seconds(child) - spent > patience or time.time() - since > 10 * patience):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang"
        if time.time() - reported > 30:
            print(f"{tried} inputs, {good} good", flush=True)
            reported = time.time()
        time.sleep(0.1)


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
