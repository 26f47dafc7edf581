"""A forked child can decode after its parent has decoded with threads, as PyTorch's loaders need."""

import os
import subprocess
import sys

import numpy as np
import pngs
import pytest
from click.testing import CliRunner

from dqcodec.codec import trial
from dqcodec.command.cli import main

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")

# argv: an archive. Prints for each image whether worker processes decode it as this process did before.
LOADED = """
import sys, threading, warnings
import torch
from torch.utils.data import DataLoader, Dataset

from dqcodec.base import threads
from dqcodec.codec.archive import Archive
from dqcodec.exact.autoregressive import walk

warnings.simplefilter("ignore", DeprecationWarning)  # that it forks though it has threads

class Images(Dataset):
    def __init__(self, archive):
        self.archive, self.names = archive, [*archive]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, number):
        return torch.frombuffer(bytearray(self.archive[self.names[number]]), dtype=torch.uint8)

walk._LEAST_PART = 4  # so that threads have work on small images
threads.set_threads(3)
images = Images(Archive(sys.argv[1]))
before = [*images]
assert threading.active_count() == 3
loader = DataLoader(images, batch_size=None, num_workers=4, multiprocessing_context="fork", timeout=200)
print([torch.equal(*pair) for pair in zip(before, loader, strict=True)])
"""


def test_the_workers_of_a_loader_decode_an_archive_though_their_parent_did_before(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "in").mkdir()
    for number in range(8):
        y, x = np.mgrid[:24, : 40 + number]
        smooth = 128 + 60 * np.sin(x / 7 + number) + 50 * np.cos(y / 5)
        samples = smooth[..., None] + np.random.default_rng(number).normal(0, 4, (*x.shape, 3))
        (tmp_path / f"in/{number}.png").write_bytes(pngs.write(samples.astype(np.uint8)))
    monkeypatch.setattr(trial, "may_win", lambda *_: False)  # threads decode what a model alone has coded
    archive = str(tmp_path / "all.dqc")
    result = CliRunner().invoke(
        main, ["compress", "-m", "photo-fast", "--group", "1", str(tmp_path / "in"), "-o", archive]
    )
    assert result.exit_code == 0, result.stderr
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", LOADED, archive]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == str([True] * 8)
