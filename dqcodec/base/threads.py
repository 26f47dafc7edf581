"""How many threads work on an image; the results are the same with any number."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import Any

from threadpoolctl import ThreadpoolController

_threads = 0  # 0: one per processor


def set_threads(count: int) -> None:
    """How many threads to use; 0: one per processor. Changes speed alone."""
    global _threads
    _threads = count


def single_thread() -> AbstractContextManager:
    """Matrix products by one thread: for small ones, several only wait for each other."""
    return _blas().limit(limits=1, user_api="blas")


def in_threads(function: Callable[[slice], Any], count: int, least: int) -> list[Any]:
    """function of slices of range(count), one a thread, none shorter than `least` unless it is the only one."""
    threads = max(1, min(count // least, _threads or os.cpu_count() or 1))
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
