"""A cluster packs a tree to the same bytes as this machine, even if a worker is killed; a lost cluster is an error."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pngs
import pytest
from click.testing import CliRunner

pytest.importorskip("distributed")

from dqcodec.base.errors import WorkerError
from dqcodec.codec import zoo
from dqcodec.codec.archive import Archive
from dqcodec.command import workers
from dqcodec.command.cli import main
from dqcodec.command.progress import Printer

pytestmark = pytest.mark.filterwarnings("ignore")  # distributed's own

BOUND = 300  # seconds for a test, far more than it takes


@pytest.fixture(autouse=True)
def bounded():
    """No test waits for ever."""

    def fail(*_):
        raise AssertionError(f"this takes more than {BOUND} s")

    previous = signal.signal(signal.SIGALRM, fail)
    signal.alarm(BOUND)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


class Cluster:
    """A scheduler and workers, each a process that is started and killed here alone."""

    def __init__(self, folder):
        self._file, self.processes = folder / "scheduler.json", []
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--scheduler-file", self._file)

    def wait_for_scheduler(self) -> None:
        self.address = None
        while self.address is None:
            assert self.scheduler.poll() is None
            time.sleep(0.05)
            with contextlib.suppress(OSError, ValueError):  # it is not there yet, or not whole
                self.address = json.loads(self._file.read_text())["address"]

    def add_worker(self) -> subprocess.Popen:
        return self._start(
            "dask_worker", "--scheduler-file", self._file, "--nthreads", "1", "--no-nanny", "--death-timeout", BOUND
        )

    def _start(self, program, *options):
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--no-dashboard", *map(str, options)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen(command, env=environment, cwd=self._file.parent, **quiet))
        return self.processes[-1]

    def wait_for_workers(self, count: int) -> None:
        from distributed import Client

        with Client(self.address, timeout=BOUND, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=BOUND)


@contextlib.contextmanager
def started(folder, count):
    machines = Cluster(folder)
    try:
        machines.wait_for_scheduler()
        for _ in range(count):
            machines.add_worker()
        machines.wait_for_workers(count)
        yield machines
    finally:
        for process in machines.processes:
            process.kill()
            process.wait()


@pytest.fixture
def two(tmp_path):
    with started(tmp_path, 2) as machines:
        yield machines


@pytest.fixture
def one(tmp_path):
    with started(tmp_path, 1) as machines:
        yield machines


def square(number: int) -> int:
    return number * number


def late(number: int) -> int:
    raise TimeoutError("the work's own")


def test_results_come_in_order_though_a_worker_is_killed(two):
    with workers.cluster(two.address) as mapped:
        results = []
        for result in mapped(square, range(30)):
            results.append(result)
            if len(results) == 5:
                two.processes[-1].kill()
    assert results == [number * number for number in range(30)]


def test_an_error_of_the_work_is_no_loss_of_workers(one):
    with pytest.raises(TimeoutError, match="the work's own"), workers.cluster(one.address) as mapped:
        [*mapped(late, [1])]


def test_a_cluster_without_workers_is_an_error_after_a_while(one):
    with pytest.raises(WorkerError, match="no worker"), workers.cluster(one.address, patience=2) as mapped:
        for _ in mapped(square, range(30)):
            one.processes[-1].kill()
            one.processes[-1].wait()


def test_a_worker_that_joins_later_takes_over(one):
    with workers.cluster(one.address, patience=BOUND) as mapped:
        results = []
        for result in mapped(square, range(30)):
            results.append(result)
            if len(results) == 5:
                one.processes[-1].kill()
                one.processes[-1].wait()
                one.add_worker()
    assert results == [number * number for number in range(30)]


def test_a_scheduler_that_is_lost_is_an_error(one, monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS", 8)
    with pytest.raises(WorkerError, match="scheduler"), workers.cluster(one.address) as mapped:
        for _ in mapped(square, range(30)):
            one.scheduler.kill()
            one.scheduler.wait()


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(12):
        image = pngs.random(np.random.default_rng(number), 20, 20 + number, 2)
        (folder / f"{number:02}.png").write_bytes(image)
    return folder


def test_relative_paths_start_here_not_in_the_workers_folder(one, pictures, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    shutil.copytree(pictures, "in")
    shutil.rmtree(pictures)
    shutil.copy(zoo.locate("gray"), "own.safetensors")
    for arguments in (
        ["compress", "-r", "in", "-o", "packed/", "-m", "own.safetensors", "--rm"], ["decompress", "-r", "packed", "-o", "out/"],
        ["verify", "-r", "packed"], ["compress", "out", "-o", "set.dqc"], ["decompress", "set.dqc"], ["verify", "set.dqc"],
    ):  # fmt: skip
        result = CliRunner().invoke(main, [*arguments, "--cluster", one.address])
        assert result.exit_code == 0 and str(tmp_path) not in result.stderr, result.stderr
    assert not [*Path("in").iterdir()] and len([*Path("out").iterdir()]) == len([*Path("set").iterdir()]) == 12


def kill_at(monkeypatch, machines: Cluster, count: int) -> None:
    """Kill a worker after this number of results."""
    print_result, results = Printer.print_result, []

    def counted(printer, result):
        print_result(printer, result)
        results.append(result)
        if len(results) == count:
            machines.processes[-1].kill()
            machines.processes[-1].wait()

    monkeypatch.setattr(Printer, "print_result", counted)


def test_an_archive_is_the_same_bytes_as_made_here_though_a_worker_is_killed(two, pictures, tmp_path, monkeypatch):
    arguments = ["compress", "-m", "gray", "-q", "--group", "1", str(pictures), "-o"]
    assert CliRunner().invoke(main, [*arguments, str(tmp_path / "here.dqc")]).exit_code == 0
    kill_at(monkeypatch, two, 2)
    result = CliRunner().invoke(main, [*arguments, str(tmp_path / "there.dqc"), "--cluster", two.address])
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "here.dqc").read_bytes() == (tmp_path / "there.dqc").read_bytes()
    assert len(Archive(tmp_path / "there.dqc")) == 12


@pytest.mark.parametrize("options", [["-r"], ["--group", "1", "-o", "all.dqc"]])
def test_a_lost_cluster_is_an_error_of_one_line_and_leaves_no_partial_file(
    one, pictures, tmp_path, monkeypatch, options
):
    monkeypatch.chdir(tmp_path)
    lost = workers.cluster
    monkeypatch.setattr(workers, "cluster", lambda address: lost(address, patience=2))
    kill_at(monkeypatch, one, 2)
    result = CliRunner().invoke(
        main, ["compress", "-m", "gray", "-q", str(pictures), *options, "--cluster", one.address]
    )
    assert len(result.stderr.splitlines()) == 1, result.stderr
    line = result.stderr
    assert "no worker" in line and result.exit_code in (1, 3)
    written = {path.name for path in tmp_path.rglob("*.dqc")}
    if "-r" in options:
        assert len(written) >= 2 and "results did not come" in line
        check = CliRunner().invoke(main, ["verify", "-r", "in"])
        assert check.exit_code == 0, check.stderr
    else:
        assert not written
    assert not [*tmp_path.rglob("*.tmp")]


def test_a_missing_cluster_is_an_error_of_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS", 0.2)
    (tmp_path / "a.png").write_bytes(pngs.random(np.random.default_rng(0), 9, 9))
    for address in ("tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense://x:1"):
        result = CliRunner().invoke(main, ["compress", "-m", "gray", str(tmp_path / "a.png"), "--cluster", address])
        assert result.exit_code == 3 and result.stderr.startswith(
            f"dqcodec: no Dask scheduler answers at {address}; start"
        )
        assert result.stderr.count("\n") == 1 and not (tmp_path / "a.png.dqc").exists()


@pytest.mark.parametrize("address", ["nonsense", "nonsense://x", "tcp://host", "host:port", ""])
def test_what_cannot_be_an_address_is_refused_at_once(tmp_path, monkeypatch, address):
    monkeypatch.setattr(workers, "cluster", None)
    result = CliRunner().invoke(main, ["compress", str(tmp_path / "a.png"), "--cluster", address])
    assert result.exit_code == 2 and "is not the address of a Dask scheduler" in result.stderr


def test_what_listens_and_is_no_scheduler_is_an_error_of_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS", 1)
    (tmp_path / "a.png").write_bytes(pngs.random(np.random.default_rng(0), 9, 9))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        result = CliRunner().invoke(main, ["compress", "-m", "gray", str(tmp_path / "a.png"), "--cluster", address])
    assert result.exit_code == 3 and result.stderr.startswith(f"dqcodec: no Dask scheduler answers at {address}; start")


def test_workers_of_another_version_are_refused(one, monkeypatch):
    monkeypatch.setattr(workers, "__version__", "0")
    with pytest.raises(WorkerError, match="a worker has"), workers.cluster(one.address) as mapped:
        [*mapped(square, [1])]
