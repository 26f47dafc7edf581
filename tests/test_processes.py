"""A map by several processes is map; an error in one reaches the caller, and no process outlives the map."""

import errno
import multiprocessing
import os
import signal
from multiprocessing.context import SpawnProcess

import pytest

from dqcodec.base.errors import WorkerError
from dqcodec.command import workers


@pytest.fixture
def mapped():
    with workers.processes(2) as mapped:
        yield mapped
    assert not multiprocessing.active_children()


def square(number: int) -> int:
    return number * number


def fail_at_3(number: int) -> int:
    if number == 3:
        raise EOFError("at 3")  # which is also what the end of a pipe raises
    return number


def die_at_3(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def held_signals(number: int) -> set[signal.Signals]:
    return {*signal.pthread_sigmask(signal.SIG_BLOCK, [])}


def test_results_come_in_order_and_again(mapped):
    for _ in range(2):
        assert [*mapped(square, range(20))] == [number * number for number in range(20)]
    assert [*mapped(square, [])] == []


def test_an_error_reaches_the_caller_with_where_it_was_raised(mapped):
    results = mapped(fail_at_3, range(20))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(EOFError, match="at 3") as error:
        next(results)
    assert "in fail_at_3" in error.value.__notes__[0]
    assert [*mapped(square, [1])] == [1]


def test_an_unpicklable_function_is_an_error(mapped):
    with pytest.raises(Exception, match="pickle"):
        [*mapped(lambda number: number, range(3))]
    assert [*mapped(square, [1])] == [1]


def test_stopping_early_does_not_wait_for_the_rest(mapped):
    assert next(mapped(square, range(10**9))) == 0


@pytest.mark.skipif(os.name != "posix", reason="the system has other signals")
def test_a_process_that_is_killed_is_an_error_and_the_others_end():
    with pytest.raises(WorkerError, match="a process was ended"), workers.processes(2) as mapped:
        [*mapped(die_at_3, range(20))]
    assert not multiprocessing.active_children()


@pytest.mark.skipif(os.name != "posix", reason="the system has other signals")
def test_only_the_main_process_gets_the_signals_of_a_terminal(mapped):
    """And the first one gets it."""
    for held in mapped(held_signals, range(8)):
        assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= held
    assert not held_signals(0) & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def test_a_process_that_cannot_be_started_is_an_error_and_the_others_end(monkeypatch):
    real, started = SpawnProcess.start, []

    def start(process):
        if started:
            raise OSError(errno.EMFILE, "Too many open files")
        started.append(process)
        real(process)

    monkeypatch.setattr(SpawnProcess, "start", start)
    with pytest.raises(WorkerError, match="cannot be started: Too many open files"), workers.processes(2):
        pass
    assert started and not multiprocessing.active_children()
