"""The number of threads that work on an image. The results are the same with any number."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, get_ident, local
from typing import Any

from threadpoolctl import ThreadpoolController

_threads = 0  # 0: one per processor


def set_threads(count: int) -> None:
    """Set the number of threads; 0: one per processor that this process may use. It changes only the speed."""
    global _threads
    _threads = count


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


_lock = Lock()
_holders: list[int] = []  # ids of the threads in `single_thread`, once for each entry
_limit: Any = None  # threadpoolctl's object that restores the old number


@contextmanager
def single_thread() -> Iterator[None]:
    """Inside this context, one thread computes a matrix product; for small products several threads only wait for each
    other.

    The limit holds for the whole process, until the last thread leaves the context.
    """
    global _limit
    with _lock:
        if not _holders:
            _limit = _blas().limit(limits=1, user_api="blas")
            _disown()
        _holders.append(get_ident())
    try:
        yield
    finally:
        with _lock:
            _let_go([get_ident()])


def _let_go(threads: list[int]) -> None:
    """Remove threads from the holders; the last one restores the old number."""
    for thread in threads:
        _holders.remove(thread)
    if threads and not _holders:
        _limit.restore_original_limits()
        _disown()


def _disown() -> None:
    """Let any thread restore the limit. threadpoolctl allows only the thread that set it, until that thread leaves a
    block."""
    with _blas().limit(limits=None):
        pass


def in_threads(function: Callable[[slice], Any], count: int, least: int) -> list[Any]:
    """Cut range(count) into one slice for each thread, and call `function` with each; returns the results in order.

    No slice is shorter than `least`, unless there is only one. Inside `function`, calls of in_threads use one thread.
    An error of a thread is raised here.
    """
    threads = 1 if _of_thread.is_part else max(1, min(count // least, _threads or available_cpus()))
    if threads == 1:
        return [function(slice(0, count))]
    cuts = [count * thread // threads for thread in range(threads + 1)]
    first, *others = (slice(*pair) for pair in zip(cuts, cuts[1:]))
    answers = [_ask(worker, function, part) for worker, part in enumerate(others)]
    _of_thread.is_part = True
    try:
        own = function(first)
    finally:
        _of_thread.is_part = False
    return [own, *(_result(answer) for answer in answers)]


class _OfThread(local):
    """is_part: whether the thread works on a slice of in_threads."""

    is_part = False


_of_thread = _OfThread()


def _ask(worker: int, function: Callable[[slice], Any], part: slice) -> SimpleQueue:
    """Give a worker a job. Returns the queue for its (result, None) or (None, error). An executor takes four times as
    long."""
    answer: SimpleQueue = SimpleQueue()
    _jobs(worker).put((function, part, answer))
    return answer


def _result(answer: SimpleQueue) -> Any:
    """Wait for a worker's result; raises its error."""
    result, error = answer.get()
    if error:
        raise error
    return result


@cache
def _jobs(worker: int) -> SimpleQueue:
    """The queue of jobs of a worker thread, which the first call starts."""
    jobs: SimpleQueue = SimpleQueue()

    def work() -> None:
        _of_thread.is_part = True
        while True:
            function, part, answer = jobs.get()
            try:
                answer.put((function(part), None))
            except BaseException as error:
                answer.put((None, error))

    Thread(target=work, daemon=True).start()
    return jobs


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _forked() -> None:
    """In the child of a fork only the thread that forked exists: forget the other threads and what they held."""
    global _lock
    _lock = Lock()
    _jobs.cache_clear()
    _let_go([thread for thread in _holders if thread != get_ident()])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
