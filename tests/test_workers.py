"""A tree packed by a cluster is the tree packed here, though a worker is killed half-way."""

import os
import signal
import threading
import time

import numpy as np
import pngs
import pytest
from click.testing import CliRunner

pytest.importorskip("distributed")

from distributed import LocalCluster  # noqa: E402

from dqcodec.base.errors import WorkerError
from dqcodec.codec.archive import Archive
from dqcodec.command import workers
from dqcodec.command.cli import main

pytestmark = pytest.mark.filterwarnings("ignore")  # distributed's own


@pytest.fixture(scope="module")
def machines():
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as local:
        yield local


def slowly(number: int) -> int:
    time.sleep(0.1)
    return number * number


def kill_one(machines: LocalCluster) -> None:
    worker = next(iter(machines.workers.values()))
    os.kill(worker.process.process.pid, signal.SIGKILL)


def test_results_come_in_order_though_a_worker_is_killed(machines):
    with workers.cluster(machines.scheduler_address) as mapped:
        results = []
        for result in mapped(slowly, range(30)):
            results.append(result)
            if len(results) == 5:
                kill_one(machines)
    assert results == [number * number for number in range(30)]


def test_an_archive_is_the_same_bytes_as_made_here_though_a_worker_is_killed(machines, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(12):
        image = pngs.random(np.random.default_rng(number), 20, 20 + number, 2)
        (tmp_path / f"in/{number:02}.png").write_bytes(image)
    arguments = ["compress", "-m", "gray", "-q", "--group", "1", str(tmp_path / "in"), "-o"]
    assert CliRunner().invoke(main, [*arguments, str(tmp_path / "here.dqc")]).exit_code == 0
    killer = threading.Timer(0.5, kill_one, [machines])
    killer.start()
    result = CliRunner().invoke(main, [*arguments, str(tmp_path / "there.dqc"), "--cluster", machines.scheduler_address])
    killer.join()
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "here.dqc").read_bytes() == (tmp_path / "there.dqc").read_bytes()
    assert len(Archive(tmp_path / "there.dqc")) == 12


def test_no_cluster_is_one_line_and_nothing_written(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS", 0.2)
    (tmp_path / "a.png").write_bytes(pngs.random(np.random.default_rng(0), 9, 9))
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        result = CliRunner().invoke(main, ["compress", "-m", "gray", str(tmp_path / "a.png"), "--cluster", address])
        assert result.exit_code == 1 and "no cluster" in result.stderr and not (tmp_path / "a.png.dqc").exists()


def test_workers_of_another_version_are_refused(machines, monkeypatch):
    monkeypatch.setattr(workers, "__version__", "0")
    with pytest.raises(WorkerError, match="workers have"), workers.cluster(machines.scheduler_address):
        pass
