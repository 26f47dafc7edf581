"""Several threads give the result of one, and an error in one reaches the caller."""

import math
import os
import threading

import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import run

from dqcodec.base import processors, threads
from dqcodec.base.threads import in_threads, map_in_threads, set_threads, single_thread

few = settings(max_examples=60)


@pytest.fixture(autouse=True)
def own_threads(monkeypatch):
    """The helpers of one test do not work for another."""
    monkeypatch.setattr(threads, "_helpers", threads._Helpers())
    yield
    set_threads(0)


def parts_of(count: int, least: int) -> list[tuple[int, int]]:
    return in_threads(lambda part: (part.start, part.stop), count, least)


def covered(parts: list[tuple[int, int]]) -> list[int]:
    return [i for start, stop in parts for i in range(start, stop)]


@few
@given(st.integers(1, 4), st.integers(0, 500), st.integers(1, 120))
def test_the_parts_are_all_in_order_and_none_too_short(limit, count, least):
    set_threads(limit)
    parts = parts_of(count, least)
    assert covered(parts) == list(range(count))
    assert len(parts) == max(1, min(limit, count // least))
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


def test_without_a_count_there_is_a_thread_for_each_processor_that_may_be_used(monkeypatch):
    for count in (3, 1):
        monkeypatch.setattr(threads, "available_cpus", lambda: count)
        assert len(parts_of(100, 1)) == count


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no such limit")
def test_processors_that_this_process_may_not_use_do_not_count():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert processors.available_cpus() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    "groups, limits, quota",
    [
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/gone\n", {}, math.inf),
        (
            "3:cpuset:/\n1:cpu,cpuacct:/a\n0::/\n",
            {"cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        ("1:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, math.inf),
        ("1:cpu:/outside\n", {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ("1:memory:/a\n", {"cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, math.inf),
    ],
)
def test_the_quota_of_a_control_group_and_of_those_around_it_counts(tmp_path, monkeypatch, groups, limits, quota):
    for name, text in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{name}": text for name, text in limits.items()},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert processors._quota(tmp_path) == quota
    monkeypatch.setattr(processors, "_quota", lambda: quota)
    monkeypatch.setattr(processors.os, "sched_getaffinity", lambda process: {*range(64)}, raising=False)
    monkeypatch.setattr(processors.os, "process_cpu_count", lambda: 64, raising=False)
    assert processors.available_cpus() == (64 if quota == math.inf else math.ceil(quota))


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
        assert covered(parts_of(3, 1)) == [0, 1, 2]  # in fewer parts, if a helper still works for the failed call


def test_callers_in_threads_of_their_own_get_their_own_results():
    set_threads(3)
    results = {}

    def call(caller: int) -> None:
        results[caller] = [
            in_threads(lambda part: (caller, covered([(part.start, part.stop)])), 9, 1) for _ in range(50)
        ]

    callers = [threading.Thread(target=call, args=(caller,)) for caller in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert {*results} == {*range(4)}
    for caller, calls in results.items():
        for parts in calls:
            assert {of for of, _ in parts} == {caller} and sum((own for _, own in parts), []) == list(range(9))


def test_inside_a_part_the_work_is_cut_for_threads_that_wait():
    """The first part is done at once; its thread then waits for the second, which so gets a helper."""
    set_threads(2)

    def work(part: slice) -> int:
        if part.start == 0:
            return 0
        deadline = 1000
        while (parts := len(parts_of(2, 1))) < 2 and deadline:
            threading.Event().wait(0.01)
            deadline -= 1
        return parts

    assert in_threads(work, 2, 1) == [0, 2]


@few
@given(st.integers(1, 4), st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_a_map_has_all_results_in_order_and_takes_the_largest_first(limit, sizes):
    set_threads(limit)
    taken = []

    def note(item: int) -> int:
        taken.append(sizes[item])
        return -item

    assert map_in_threads(note, range(len(sizes)), sizes) == [-item for item in range(len(sizes))]
    assert sorted(taken) == sorted(sizes)
    assert limit > 1 or taken == sorted(sizes, reverse=True)


@pytest.mark.parametrize("is_callers", [True, False])
def test_an_error_in_a_map_reaches_the_caller_and_ends_the_work(is_callers):
    set_threads(2)
    caller, done, failing = threading.get_ident(), [], threading.Event()

    def work(item: int) -> None:
        if (threading.get_ident() == caller) == is_callers:
            failing.set()
            raise ZeroDivisionError
        failing.wait(30)
        done.append(item)
        threading.Event().wait(0.01)

    with pytest.raises(ZeroDivisionError):
        map_in_threads(work, range(1000), [1] * 1000)
    count = len(done)
    threading.Event().wait(0.05)
    assert count == len(done) < 1000


def test_without_new_threads_the_work_is_done_by_those_there_are(monkeypatch):
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    set_threads(3)
    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refuse)
        assert parts_of(3, 1) == [(0, 3)]
    assert parts_of(3, 1) == [(0, 1), (1, 2), (2, 3)]


def blas_threads() -> set[int]:
    return {info["num_threads"] for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"}


def test_single_thread_limits_matrix_products_and_restores_the_number():
    with threadpoolctl.threadpool_limits(2):
        before = blas_threads()
        with single_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_the_limit_lasts_until_the_last_of_several_threads_is_done_and_is_then_undone():
    """The first to ask for it is the first to be done."""
    limits = threadpoolctl.threadpool_limits(2)
    threads._disown()  # this thread would keep the others from changing it
    try:
        before, seen = blas_threads(), []
        meetings = [threading.Barrier(2, timeout=60) for _ in range(3)]

        def first() -> None:
            with single_thread():
                meetings[0].wait()
                meetings[1].wait()
            meetings[2].wait()

        other = threading.Thread(target=first)
        other.start()
        meetings[0].wait()
        with single_thread():
            meetings[1].wait()
            meetings[2].wait()
            seen.append(blas_threads())
        other.join(60)
        seen.append(blas_threads())
    finally:
        limits.restore_original_limits()
    assert seen == [{1}, before] and before == {2}


# --- a process that forks after its threads have worked

FORKED = """
import os, signal, sys, threading, warnings
import numpy as np
import threadpoolctl
from dqcodec.base.threads import in_threads, set_threads, single_thread

warnings.simplefilter("ignore", DeprecationWarning)  # that it forks though it has threads
set_threads(3)
in_threads(lambda part: part.start, 3, 1)
threadpoolctl.threadpool_limits(2)
asked, done = threading.Event(), threading.Event()

def hold():
    with single_thread():
        asked.set()
        done.wait()

threading.Thread(target=hold, daemon=True).start()
asked.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    assert in_threads(lambda part: part.start, 3, 1) == [0, 1, 2]
    blas = [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
    assert set(blas) == {2}, blas
    with single_thread():
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_the_child_of_a_fork_has_threads_of_its_own_and_no_limit_of_threads_that_are_not_there():
    assert run(FORKED).split() == [b"7"]
