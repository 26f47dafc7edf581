"""What threads share is done as by one alone, and what goes wrong in one is told."""

import threading

import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.base.threads import in_threads, set_threads, single_thread

few = settings(max_examples=60, deadline=None, derandomize=True)


@pytest.fixture(autouse=True)
def default_threads():
    yield
    set_threads(0)


def parts_of(count: int, least: int) -> list[tuple[int, int]]:
    return in_threads(lambda part: (part.start, part.stop), count, least)


@few
@given(st.integers(1, 4), st.integers(0, 500), st.integers(1, 120))
def test_the_parts_are_all_in_order_and_none_too_short(threads, count, least):
    set_threads(threads)
    parts = parts_of(count, least)
    assert [i for start, stop in parts for i in range(start, stop)] == list(range(count))
    assert len(parts) == max(1, min(threads, count // least))
    assert len(parts) == 1 or min(stop - start for start, stop in parts) >= least


def test_every_part_has_a_thread_of_its_own_and_the_caller_the_first():
    """They wait for each other."""
    set_threads(3)
    meeting = threading.Barrier(3, timeout=30)

    def meet(part: slice) -> int:
        meeting.wait()
        return threading.get_ident()

    for _ in range(2):
        workers = in_threads(meet, 3, 1)
        assert len(set(workers)) == 3 and workers[0] == threading.get_ident()


def test_without_a_count_there_is_a_thread_a_processor(monkeypatch):
    for processors, parts in [(3, 3), (1, 1), (None, 1)]:
        monkeypatch.setattr("dqcodec.base.threads.os.cpu_count", lambda: processors)
        assert len(parts_of(100, 1)) == parts


class Broken(BaseException):
    pass


@pytest.mark.parametrize("broken", range(3))
@pytest.mark.parametrize("error", [ValueError, Broken])
def test_an_error_in_any_part_reaches_the_caller_and_the_next_call_works(broken, error):
    set_threads(3)

    def fail(part: slice) -> int:
        if part.start == broken:
            raise error("in a part")
        return part.start

    for _ in range(2):
        with pytest.raises(error, match="in a part"):
            in_threads(fail, 3, 1)
        assert parts_of(3, 1) == [(0, 1), (1, 2), (2, 3)]


def test_callers_in_threads_of_their_own_get_their_own_results():
    set_threads(3)
    results = {}

    def call(caller: int) -> None:
        results[caller] = [in_threads(lambda part: (caller, part.start), 9, 1) for _ in range(50)]

    callers = [threading.Thread(target=call, args=(caller,)) for caller in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == {caller: [[(caller, 0), (caller, 3), (caller, 6)]] * 50 for caller in range(4)}


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"}


def test_matrix_products_are_by_one_thread_where_that_is_said_and_then_as_before():
    with threadpoolctl.threadpool_limits(2):
        before = blas_threads()
        with single_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before
