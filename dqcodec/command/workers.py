"""Who does the work: several processes here, or the machines of a Dask cluster (pip install 'dqcodec[cluster]').

Both give a map whose results come in order, which takes few items ahead, and whose workers use one thread each; the results are
the same as without. A cluster's workers need this version of dqcodec and its models; files, not archives' images, they read
and write themselves, by the same paths. What a lost worker of a cluster had in hand, another does again.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from dqcodec import __version__
from dqcodec.base.errors import WorkerError

Map = Callable[[Callable, Iterable], Iterator]

_AHEAD = 2  # items handed out for each worker
_SECONDS = 20  # to find the scheduler, and a worker


@contextlib.contextmanager
def processes(count: int) -> Iterator[Map]:
    """A map by so many processes.

    Raises:
        WorkerError: one was ended.
    """
    import multiprocessing
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

    from dqcodec.base.threads import set_threads

    # a process that has used threads must not fork
    spawn = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(count, spawn, initializer=set_threads, initargs=(1,)) as pool:
            yield _map(pool.submit, lambda: count)
    except BrokenExecutor as error:
        raise WorkerError("a process was ended, perhaps for want of memory; -j 1 takes less") from error


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Map]:
    """A map by the cluster whose scheduler is at an address, as tcp://host:8786.

    Raises:
        WorkerError: there is no such cluster, or its workers have another version.
    """
    try:
        from distributed import Client, KilledWorker
    except ModuleNotFoundError as error:
        raise WorkerError(f"{error.name} is not installed; it comes with: pip install 'dqcodec[cluster]'") from error
    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
        client.wait_for_workers(1, timeout=_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise WorkerError(f"no cluster with workers at {address} ({error})") from error
    with client:
        versions = set(client.run(_prepare).values())
        if versions != {__version__}:
            raise WorkerError(f"the workers have dqcodec {', '.join(sorted(versions))}, this is {__version__}")
        try:
            yield _map(partial(client.submit, pure=False), lambda: sum(client.nthreads().values()))
        except KilledWorker as error:
            raise WorkerError("several workers were lost over one piece of work, perhaps for want of memory") from error


def _map(submit: Callable, count: Callable[[], int]) -> Map:
    """submit gives a future; count: how many workers there are by now."""

    def mapped(function: Callable, items: Iterable) -> Iterator:
        pending: deque = deque()
        for item in items:
            pending.append(submit(function, item))
            if len(pending) > _AHEAD * count():
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    return mapped


def _prepare() -> str:
    """In a worker: its threads are work enough. The version there."""
    from dqcodec.base.threads import set_threads

    set_threads(1)
    return __version__
