"""The workers of a command: several processes here, or the machines of a Dask cluster (pip install 'dqcodec[cluster]').

Both give a map. Its results come in order and are the same as those of this process. It takes few items ahead. Each
worker uses one thread. The workers of a cluster need this version of dqcodec and its models. They read and write single
files themselves, under the same absolute paths. If a worker is lost, another repeats its work, and may find its output;
see atomic.write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from dqcodec import __version__
from dqcodec.base import ending
from dqcodec.base.errors import WorkerError
from dqcodec.command.options import Running

if TYPE_CHECKING:
    from distributed import Client, Future

Map = Callable[[Callable, Iterable], Iterator]  # map, or one whose results others compute

_AHEAD = 2  # items handed out per worker
_SECONDS = 20  # to find the scheduler, and then a worker
_PATIENCE = 60  # seconds to wait for a worker after all are lost
_GRACE = 1  # seconds to let a process end itself
_NO_SCHEDULER = "no Dask scheduler answers at {}; start one with `dask scheduler`, and workers with `dask worker`"
_LOST = "the connection to the cluster's scheduler was lost"


@contextlib.contextmanager
def mapping(options: Running, items: int) -> Iterator[Map]:
    """A lazy map for at most `items` items: by a cluster or several processes if the options say so."""
    count = min(options.processes, items)
    if options.cluster:
        with cluster(options.cluster) as mapped:
            yield mapped
    elif count > 1:
        with processes(count) as mapped:
            yield mapped
    else:
        yield map


@contextlib.contextmanager
def processes(count: int) -> Iterator[Map]:
    """A map by `count` processes. They end with this process, even if it is killed.

    Raises WorkerError: they cannot be started, or one was ended.
    """
    from concurrent.futures import ThreadPoolExecutor

    if os.name == "posix":
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # its start would let signals through later
    workers = _Processes()
    with ending.at_end(workers.stop), ThreadPoolExecutor(count) as pool:
        try:
            for _ in range(count):
                workers.start()
            yield _map(partial(pool.submit, workers.ask), lambda future: future.result(), lambda: count)
        finally:
            workers.stop()


class _Processes:
    """Processes of this machine that work for it. They end when `stop` is called, or when this process ends."""

    def __init__(self) -> None:
        import multiprocessing

        # a process that has used threads must not fork
        self._spawn = multiprocessing.get_context("spawn")
        # only this process has the end `ours`; its death closes it
        self._life, self._ours = self._spawn.Pipe(duplex=False)
        self._started: list = []
        self._idle: SimpleQueue[Connection] = SimpleQueue()

    def start(self) -> None:
        """Start one more; raises WorkerError."""
        try:
            mine, theirs = self._spawn.Pipe()
            process = self._spawn.Process(target=_serve, args=(self._life, theirs))
            with ending.not_ending(), ending.signals_held(), theirs:
                process.start()
                self._started.append(process)
        except OSError as error:
            raise WorkerError(f"a process cannot be started: {error.strerror}; a smaller -j takes less") from error
        self._idle.put(mine)

    def ask(self, function: Callable, item: Any) -> Any:
        """Hand an item to an idle process and wait for the result. One thread for each process may ask."""
        connection = self._idle.get()
        try:
            connection.send((function, item))
            result, error = connection.recv()
        except (EOFError, OSError) as lost:
            raise WorkerError("a process was ended, perhaps for want of memory; -j 1 takes less") from lost
        finally:
            self._idle.put(connection)
        if error:
            raise error
        return result

    def stop(self) -> None:
        """End all; those that do not end themselves are killed."""
        self._ours.close()
        deadline = time.monotonic() + _GRACE
        for process in self._started:
            process.join(max(0, deadline - time.monotonic()))
            process.kill()
            process.join()


def _serve(life: Connection, connection: Connection) -> None:
    """The loop of a process: answer each (function, item) with (result, None) or (None, error) until `life` ends."""
    from dqcodec.base.threads import set_threads

    ending.end_with(lambda: life.poll(None))
    set_threads(1)
    logging.getLogger("dqcodec").setLevel(logging.ERROR)  # one warning, from the main process, is enough
    while True:
        task = connection.recv_bytes()
        try:
            function, item = pickle.loads(task)
            answer = function(item), None
        except Exception as error:
            error.add_note(traceback.format_exc())
            answer = None, error
        connection.send(answer)


@contextlib.contextmanager
def cluster(address: str, patience: float = _PATIENCE) -> Iterator[Map]:
    """A map by the cluster whose scheduler has this address, for example tcp://host:8786.

    patience: seconds to wait for a worker after all are lost.

    Raises WorkerError: there is no such cluster, it is lost, or its workers have another version.
    """
    try:
        from distributed import Client, KilledWorker
    except ModuleNotFoundError as error:
        raise WorkerError(f"{error.name} is not installed; it comes with: pip install 'dqcodec[cluster]'") from error
    for handler in logging.getLogger("distributed").handlers:  # what matters becomes an error of one line
        handler.setLevel(logging.CRITICAL)
    _check_answers(address)
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(Client(address, timeout=_SECONDS, set_as_default=False))
        except (OSError, ValueError) as error:
            raise WorkerError(_NO_SCHEDULER.format(address)) from error
        try:
            client.wait_for_workers(1, timeout=_SECONDS)
        except TimeoutError as error:
            raise WorkerError(
                f"the cluster at {address} has no workers; start one with `dask worker {address}`"
            ) from error
        try:
            submit = partial(client.submit, _work, __version__, pure=False)
            yield _map(submit, partial(_result, client, patience), lambda: _threads(client))
        except KilledWorker as error:
            raise WorkerError("several workers were lost over one piece of work, perhaps for want of memory") from error


def _check_answers(address: str) -> None:
    """Raise WorkerError if no scheduler is at an address of TCP; a client of distributed would wait there for ever.

    A scheduler speaks first.
    """
    protocol, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if protocol in ("", "tcp"):
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS) as connection:
                is_silent = not connection.recv(1)
        except (OSError, OverflowError) as error:
            raise WorkerError(_NO_SCHEDULER.format(address)) from error
        if is_silent:
            raise WorkerError(_NO_SCHEDULER.format(address))


def _result(client: Client, patience: float, future: Future) -> Any:
    """The result of a future. Waits while the cluster has workers, and `patience` seconds longer."""
    seen = time.monotonic()
    while True:
        try:
            return future.result(patience / 4)
        except TimeoutError:
            if future.status == "error":  # the error may be the work's own
                return future.result()
        except CancelledError as error:
            raise WorkerError(_LOST) from error
        if _threads(client):
            seen = time.monotonic()
        elif time.monotonic() - seen > patience:
            raise WorkerError(f"the cluster has had no worker for {patience:g} s")


def _threads(client: Client) -> int:
    """The number of threads of all workers."""
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise WorkerError(_LOST) from error


def _work(version: str, function: Callable, item: Any) -> Any:
    """Do an item in a worker of a cluster, with one thread, since the worker runs several items at a time."""
    from dqcodec.base.threads import set_threads

    if version != __version__:
        raise WorkerError(f"a worker has dqcodec {__version__}, this is {version}")
    set_threads(1)
    return function(item)


def _map(submit: Callable, result: Callable, count: Callable[[], int]) -> Map:
    """submit: (function, item) -> future. result: future -> its result. count: the number of workers now."""

    def mapped(function: Callable, items: Iterable) -> Iterator:
        pending: deque = deque()
        for item in items:
            pending.append(submit(function, item))
            if len(pending) > _AHEAD * count():
                yield result(pending.popleft())
        while pending:
            yield result(pending.popleft())

    return mapped
