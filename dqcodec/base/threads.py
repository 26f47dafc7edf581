"""How many threads work on an image; the results are the same with any number."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

_threads = 0  # 0: one per processor


def set_threads(count: int) -> None:
    """How many threads to use; 0: one per processor that this process may use. Changes speed alone."""
    global _threads
    _threads = count


def available_cpus() -> int:
    """How many processors this process may use at once: by its affinity, and by the quota of its control group."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        cpus = os.process_cpu_count()
    elif hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count()
    return max(1, math.ceil(min(cpus or 1, _quota())))


@cache
def _quota(root: Path = Path("/")) -> float:
    """Of processors, as Linux grants it to the control group of this process and to those around it; inf without one."""
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
    """Of one control group: version 2 has `max 100000` or `150000 100000`, version 1 a file of each number, -1 for none."""
    try:
        if (folder / "cpu.max").exists():
            time, period = (folder / "cpu.max").read_text().split()
        else:
            time, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(time) / int(period) if time != "max" and int(time) > 0 else math.inf
    except (OSError, ValueError):
        return math.inf


_lock = Lock()
_holders: list[int] = []  # the threads that hold the limit, once for each time
_limit: Any = None  # what undoes it


@contextmanager
def single_thread() -> Iterator[None]:
    """Matrix products by one thread: for small ones, several only wait for each other.

    The limit is the process's: it lasts until the last thread that asked for it is done.
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
    for thread in threads:
        _holders.remove(thread)
    if threads and not _holders:
        _limit.restore_original_limits()
        _disown()


def _disown() -> None:
    """Let any thread change the limit: threadpoolctl lets only the one that changed it, until that leaves a block."""
    with _blas().limit(limits=None):
        pass


def in_threads(function: Callable[[slice], Any], count: int, least: int) -> list[Any]:
    """function of slices of range(count), one a thread, none shorter than `least` unless it is the only one."""
    threads = max(1, min(count // least, _threads or available_cpus()))
    cuts = [count * thread // threads for thread in range(threads + 1)]
    first, *others = (slice(*pair) for pair in zip(cuts, cuts[1:]))
    answers = [_ask(worker, function, part) for worker, part in enumerate(others)]
    return [function(first), *(_result(answer) for answer in answers)]


def _ask(worker: int, function: Callable[[slice], Any], part: slice) -> SimpleQueue:
    """Where a worker will put (its result, None) or (None, its error); a quarter of the time that an executor takes."""
    answer: SimpleQueue = SimpleQueue()
    _jobs(worker).put((function, part, answer))
    return answer


def _result(answer: SimpleQueue) -> Any:
    result, error = answer.get()
    if error:
        raise error
    return result


@cache
def _jobs(worker: int) -> SimpleQueue:
    """Of a thread that is started with it."""
    jobs: SimpleQueue = SimpleQueue()

    def work() -> None:
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
    """In the child of a fork, only the thread that forked goes on; the others, and what they held, are gone."""
    global _lock
    _lock = Lock()
    _jobs.cache_clear()
    _let_go([thread for thread in _holders if thread != get_ident()])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
