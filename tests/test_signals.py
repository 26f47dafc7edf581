"""A signal ends the command at once, whatever it is doing, and leaves no process and nothing half-written."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pngs
import pytest
from click.testing import CliRunner

from dqcodec.base import ending
from dqcodec.command.cli import main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the system has other signals")

BOUND = 120  # seconds, far more than anything here takes

# The command, but one function marks that it is called, by a file named after the process, and then runs a loop of machine
# code that never ends. argv: the function, and the command's arguments.
STUCK = """
import importlib, os, signal, sys
import numba

if __name__ == "__main__":  # whoever runs the tests may ignore signals, as nohup does
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)

@numba.njit(nogil=True)
def spin(number):
    while number:
        number = 6364136223846793005 * number + 1442695040888963407
    return number

def stuck(*arguments, **options):
    open(f"stuck-{os.getpid()}", "w").close()
    spin(1)

name, _, attribute = os.environ["STUCK"].rpartition(".")
setattr(importlib.import_module(name), attribute, stuck)

from dqcodec.command.cli import main
if __name__ == "__main__":
    main()
"""
WRITING, CODING = "os.fsync", "dqcodec.codec.group.encode"


@pytest.fixture
def folder(tmp_path):
    """in/: sources; packed/: the same as .dqc files."""
    (tmp_path / "stuck.py").write_text(STUCK)
    (tmp_path / "in").mkdir()
    for number in range(4):
        image = pngs.random(np.random.default_rng(number), 4, 5 + number, 2, 16, end=b"tail")
        (tmp_path / f"in/{number}.png").write_bytes(image)
    result = CliRunner().invoke(main, ["compress", "-q", "-r", str(tmp_path / "in"), "-o", str(tmp_path / "packed")])
    assert result.exit_code == 0, result.stderr
    return tmp_path


def files(folder):
    names = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("stuck")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def end_by(number, folder, where, jobs, *arguments):
    """(return code, stderr) of a command that is stuck in `jobs` processes and gets a signal.

    It comes back only when no process has its stderr any more. What a terminal sends, it sends to all processes.
    """
    environment = os.environ | {"STUCK": where, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "stuck.py", *arguments, "-j", str(jobs)]
    options = {"cwd": folder, "env": environment, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        try:
            deadline = time.monotonic() + BOUND
            while len([*folder.glob("stuck-*")]) < jobs:
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < deadline, "it does not come to where it is to be stuck"
                time.sleep(0.02)
            if number in (signal.SIGINT, signal.SIGHUP):
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            _, complaints = process.communicate(timeout=BOUND)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    return process.returncode, complaints


NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_while_files_are_written_leaves_nothing(folder, jobs, number):
    before = files(folder)
    code, complaints = end_by(number, folder, WRITING, jobs, "decompress", "--rm", "-r", "packed", "-o", "out")
    assert code == 128 + number
    assert complaints.count("\n") == 1 and number.name in complaints
    assert files(folder) == before


@pytest.mark.parametrize("where, jobs", [(WRITING, 1), (CODING, 2)])
def test_a_signal_while_an_archive_is_made_leaves_nothing(folder, where, jobs):
    before = files(folder)
    options = ["--group", "1", "--rm"]
    code, complaints = end_by(signal.SIGTERM, folder, where, jobs, "compress", *options, "in", "-o", "all.dqc")
    assert code == 128 + signal.SIGTERM and complaints.count("\n") == 1
    assert files(folder) == before


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_command_leaves_no_process_and_at_most_one_temporary_file(folder, jobs):
    before = files(folder)
    code, complaints = end_by(signal.SIGKILL, folder, WRITING, jobs, "decompress", "--rm", "-r", "packed", "-o", "out")
    assert code == -signal.SIGKILL and not complaints
    left = files(folder)
    assert before.items() <= left.items()
    (*temporary,) = left.keys() - before.keys()
    assert all(name.endswith(".tmp") for name in temporary)
    assert len(temporary) == (jobs == 1)  # the processes of several remove their own


def test_a_signal_that_is_ignored_stays_ignored():
    """As of a command that nohup starts."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending.ending_by_signals(print):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_command_leaves_the_signals_of_the_program_that_calls_it_as_they_were(folder):
    before = [signal.getsignal(number) for number in NUMBERS]
    assert CliRunner().invoke(main, ["verify", "-q", "-r", str(folder / "packed")]).exit_code == 0
    results = []
    call = lambda: results.append(CliRunner().invoke(main, ["list", str(folder / "packed/0.png.dqc")]))  # noqa: E731
    thread = threading.Thread(target=call)  # which cannot set them
    thread.start()
    thread.join(BOUND)
    assert [result.exit_code for result in results] == [0]
    assert [signal.getsignal(number) for number in NUMBERS] == before


ENDS = """
import os, sys, threading
from dqcodec.base import ending

with ending.at_end(lambda: print("first to be registered", flush=True)), ending.at_end(lambda: 1 / 0):
    with ending.at_end(lambda: print("gone", flush=True)):
        pass
    with ending.at_end(lambda: print("last to be registered", flush=True)):
        threading.Thread(target=ending.end, args=(7, lambda: print("last", flush=True))).start()
        threading.Event().wait()
"""


def test_the_end_does_what_is_registered_in_the_opposite_order_though_one_fails():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ENDS]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND)
    assert process.returncode == 7 and not process.stderr
    assert process.stdout.splitlines() == ["last to be registered", "first to be registered", "last"]


FORKS = """
import os, signal, sys, threading, warnings
from dqcodec.base import ending

warnings.simplefilter("ignore", DeprecationWarning)  # that it forks though it has threads
with ending.ending_by_signals(lambda number: None), ending.at_end(lambda: print("put right", flush=True)):
    for code in (-signal.SIGTERM, 7):
        ready, told = os.pipe()
        child = os.fork()
        if not child:
            if code == 7:
                ending.end(7)
            os.write(told, b"1")
            while True:
                signal.pause()
        if code != 7:
            os.read(ready, 1)
            os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    print("goes on", flush=True)
"""


def test_a_signal_to_the_child_of_a_fork_ends_the_child_alone():
    """As a loader of PyTorch ends its workers."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.run(
        [sys.executable, "-c", FORKS], env=environment, capture_output=True, text=True, timeout=BOUND
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["goes on"]
