"""What work may take: bounds of memory, and of time as laws that hold on any machine."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_HANG = 60.0  # CPU seconds that no small input takes on any machine
_GROWTH = 8


@contextmanager
def little_memory(limit: int) -> Iterator[None]:
    """limit: bytes that may be taken at once, as tracemalloc counts them."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@contextmanager
def no_hang() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < _HANG


def assert_linear(prepare: Callable[[int], Any], work: Callable[[Any], object], size: int) -> None:
    """The time of `work` grows with the size of its input, not with the size's square."""
    small, large = (_seconds(work, prepare(n)) for n in (size, _GROWTH * size))
    assert large < _GROWTH**1.5 * small


def _seconds(work: Callable[[Any], object], prepared: Any) -> float:
    def once() -> float:
        start = time.process_time()
        work(prepared)
        return time.process_time() - start

    return min(once() for _ in range(5))
