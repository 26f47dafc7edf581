"""Threads: their number, those that help with loops over slices or items, and one thread for matrix products.

The results are the same with any number.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

from dqcodec.base.processors import available_cpus

_threads = 0  # 0: one per processor


def set_threads(count: int) -> None:
    """Set the number of threads; 0: one per processor that this process may use. It changes only the speed."""
    global _threads
    _threads = count


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

    No slice is shorter than `least`, unless there is only one. Inside `function`, in_threads uses threads that have no
    work or wait for others. An error of a thread is raised here.
    """
    parts = 1 + _helpers.take(count // least - 1)
    cuts = [count * part // parts for part in range(parts + 1)]
    first, *others = (slice(*pair) for pair in zip(cuts, cuts[1:]))
    answers = [_helpers.ask(function, part) for part in others]
    try:
        own = function(first)
    except Exception:  # helpers may still write into the caller's arrays; a signal does not wait for them
        with suppress(Exception):
            _helpers.results(answers)
        raise
    return [own, *_helpers.results(answers)]


def map_in_threads(function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """The results of a function for each of one or more items, in order. A thread that is
    done takes the largest item left.

    In other respects it is like in_threads.
    """
    results: list[Any] = [None] * len(items)
    waiting = iter(sorted(range(len(items)), key=lambda number: -sizes[number]))  # shared by the threads

    def work(_: slice) -> None:
        try:
            for number in waiting:
                results[number] = function(items[number])
        finally:
            deque(waiting, 0)  # after an error no thread takes another item

    in_threads(work, len(items), 1)
    return results


class _Helpers:
    """Threads that help those that call in_threads. They start when they are first needed,
    and serve until the process ends.

    Unlike the threads of an executor, they also help a job that another helper does.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._jobs: SimpleQueue = SimpleQueue()
        self._taken = 0  # helpers that may work, less the threads that wait for some
        self._idle = 0  # helpers that wait for a job

    def take(self, wanted: int) -> int:
        """Take up to `wanted` helpers, if the number of threads and the system allow them. `ask` each of them for one job."""
        if wanted < 1:
            return 0
        with self._lock:
            helpers = max(0, min(wanted, (_threads or available_cpus()) - 1 - self._taken))
            with suppress(RuntimeError):  # the system gives no more threads
                while self._idle < helpers:
                    Thread(target=self._work, daemon=True).start()
                    self._idle += 1
            helpers = min(helpers, self._idle)
            self._idle -= helpers
            self._taken += helpers
        return helpers

    def ask(self, function: Callable[[slice], Any], part: slice) -> SimpleQueue:
        """Give a helper a job. Returns the queue for its (result, None) or (None, error)."""
        answer: SimpleQueue = SimpleQueue()
        self._jobs.put((function, part, answer))
        return answer

    def results(self, answers: Sequence[SimpleQueue]) -> list[Any]:
        """Wait for the results of jobs; raises the first error. Meanwhile another thread may have one helper more."""
        if not answers:
            return []
        with self._lock:
            self._taken -= 1
        try:
            outcomes = [answer.get() for answer in answers]
        finally:
            with self._lock:
                self._taken += 1
        for _, error in outcomes:
            if error is not None:
                raise error
        return [result for result, _ in outcomes]

    def _work(self) -> None:
        while True:
            function, part, answer = self._jobs.get()
            try:
                outcome = function(part), None
            except BaseException as error:
                outcome = None, error
            with self._lock:
                self._taken -= 1
                self._idle += 1
            answer.put(outcome)
            del function, part, answer, outcome  # they may hold much memory


_helpers = _Helpers()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _forked() -> None:
    """In the child of a fork only the thread that forked exists: forget the other threads and what they held."""
    global _lock, _helpers
    _lock, _helpers = Lock(), _Helpers()
    _let_go([thread for thread in _holders if thread != get_ident()])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
