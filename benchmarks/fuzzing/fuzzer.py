"""The process that tests inputs, which may die by one."""

from __future__ import annotations

import argparse
import faulthandler
import io
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from fuzzing.guidance import has_atheris, import_instrumented, run_guided
from fuzzing.targets import mutated, target_of
from fuzzing.watchdog import Shared


class TimeLimit(BaseException):
    """An input takes too long."""


class Fuzzer:
    """Makes inputs of one target, tests them, and keeps findings."""

    def __init__(self, arguments: argparse.Namespace, shared: Shared):
        self.arguments, self.shared, self.folder = arguments, shared, arguments.findings
        self.target = target_of(arguments.target)
        self.printed = io.StringIO()

    def warm(self) -> None:
        """Check the seeds: they must be good, and loops are compiled."""
        for data in self.target.seeds:
            assert self.target.check(data), "a seed is not good"
        corpus = self.arguments.corpus
        self.target.seeds += [path.read_bytes() for path in sorted(corpus.iterdir())] if corpus else []

    def test(self, data: bytes) -> None:
        """One input; what goes wrong becomes a finding."""
        self.shared.begin(data)
        Path("/proc/self/clear_refs").write_text("5")
        before, error = _peak(), None
        signal.setitimer(signal.ITIMER_PROF, self.arguments.seconds)
        try:
            if self.target.check(data):
                self.shared.count()
        except BaseException as caught:
            error = caught
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if isinstance(error, KeyboardInterrupt):
            raise error
        if error is not None:
            self.keep(data, _place(error), "".join(traceback.format_exception(error)))
        elif _peak() - before > self.arguments.mebibytes << 20:
            self.keep(data, "memory", f"{_peak() - before >> 20} MiB")
        elif self.printed.tell():
            self.keep(data, "printed", self.printed.getvalue())
            self.printed.seek(0), self.printed.truncate()

    def keep(self, data: bytes, name: str, cause: str) -> None:
        """The smallest input of each name is kept."""
        path = self.folder / f"{self.arguments.target}-{name}.bin"
        if not path.exists() or path.stat().st_size > len(data):
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(f"{len(data)} bytes: {data[:200].hex()}\n\n{cause}")

    def run(self, end: float) -> None:
        """Test inputs until the time `end`. The process is then of no other use."""
        sys.stdout = sys.stderr = self.printed
        warnings.simplefilter("error")
        signal.signal(signal.SIGPROF, _stop)
        limit = 1 << 33
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        rng = random.Random(self.arguments.seed + self.shared.numbers[0])
        if is_guided(self.arguments):
            run_guided(self.target, self.test, end, rng.randrange(1 << 31))
            return
        while time.time() < end:
            data = rng.choice(self.target.seeds)
            for _ in range(rng.choice((1, 1, 1, 2))):
                data = mutated(self.target, data, rng)
            self.test(data)


def is_guided(arguments: argparse.Namespace) -> bool:
    """Whether atheris guides the choice of seeds."""
    return not arguments.plain and has_atheris()


def run_child(arguments: argparse.Namespace, shared: Shared) -> None:
    """Run as the child process, to its end: exit status 3 if the fuzzer itself is broken."""
    log = open(arguments.findings / "log.txt", "ab", buffering=0)
    for number in (1, 2):
        os.dup2(log.fileno(), number)
    faulthandler.enable(log)
    if is_guided(arguments):
        import_instrumented()
    try:
        fuzzer = Fuzzer(arguments, shared)
        fuzzer.warm()
        shared.begin(b"")
        shared.start(60 * arguments.minutes)
        fuzzer.run(shared.end)
    except BaseException:
        log.write(traceback.format_exc().encode())
        os._exit(3)
    os._exit(0)


def _peak() -> int:
    """The process's largest memory since it was last set back, bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text[text.index("VmHWM:") + 6 :].split(None, 1)[0]) << 10


def _place(error: BaseException) -> str:
    """Its kind, and where in the package it came from: findings alike have one name."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if "_stop" != frame.f_code.co_name]
    lines = [line for _, line in traceback.walk_tb(error.__traceback__)][: len(frames)]
    own = [
        (frame, line) for frame, line in zip(frames, lines) if f"{os.sep}dqcodec{os.sep}" in frame.f_code.co_filename
    ]
    frame, line = own[-1] if own else (frames[-1], lines[-1])
    where = frame.f_code.co_name if isinstance(error, TimeLimit) else line
    return f"{type(error).__name__}-{Path(frame.f_code.co_filename).stem}-{where}"


def _stop(*_) -> None:
    raise TimeLimit
