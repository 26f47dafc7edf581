"""Work on the machines of a Dask cluster (pip install 'dqcodec[cluster]'), for trees too large for one.

Its workers need this version of dqcodec and its models; files, not archives' images, they read and write themselves, by the
same paths. Results are the same as here. What a lost worker had in hand, another does again.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from . import __version__
from .errors import ClusterError

_AHEAD = 2  # pieces of work handed out for each thread of the cluster
_SECONDS = 20  # to find the scheduler, and a worker


@contextlib.contextmanager
def workers(address: str) -> Iterator[Callable[[Callable, Iterable], Iterator]]:
    """A map by the cluster whose scheduler is at an address, as tcp://host:8786; results come in order.

    Raises:
        ClusterError: there is no such cluster, or its workers have another version.
    """
    try:
        from distributed import Client, KilledWorker
    except ModuleNotFoundError as error:
        raise ClusterError(f"{error.name} is not installed; it comes with: pip install 'dqcodec[cluster]'") from error
    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
        client.wait_for_workers(1, timeout=_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(f"no cluster with workers at {address} ({error})") from error
    with client:
        versions = set(client.run(_prepare).values())
        if versions != {__version__}:
            raise ClusterError(f"the workers have dqcodec {', '.join(sorted(versions))}, this is {__version__}")

        def mapped(function: Callable, items: Iterable) -> Iterator:
            pending: deque = deque()
            for item in items:
                pending.append(client.submit(function, item, pure=False))
                if len(pending) > _AHEAD * sum(client.nthreads().values()):
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

        try:
            yield mapped
        except KilledWorker as error:
            raise ClusterError("several workers were lost over one piece of work, perhaps for want of memory") from error


def _prepare() -> str:
    """In a worker: its threads are work enough. The version there."""
    from .exact.threads import set_threads

    set_threads(1)
    return __version__
