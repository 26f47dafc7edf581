"""Signals at random moments: does the command end, are files complete, do sources remain, is nothing left behind?

    python benchmarks/signals.py [--minutes N] [--seed N] [--json RESULT.json]

A command works on a small tree or archive, with 1 or 2 processes, with or without --rm. It gets a signal at a moment
between its start and its usual end. SIGINT and SIGHUP go to all its processes, as from a terminal. These are checked:

    ended       the command and all processes that it started are gone
    whole       each file under its final name equals the one of an undisturbed run
    kept        each source is unchanged, or its output is whole
    left        no temporary file is left; after SIGKILL at most one
    next        the same command, run again, makes all files and leaves no temporary file

The result has one row for each kind of command, number of processes and signal: the number of trials, the longest time
from the signal to the end, and the failures. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import script
from PIL import Image

from dqcodec.bench.machine import machine

_MODEL = ["-m", "photo"]
_COMMANDS = {
    "compress a tree": ["compress", *_MODEL, "-r", "png", "-o", "out"],
    "decompress a tree": ["decompress", "-r", "dqc", "-o", "out"],
    "make an archive": ["compress", *_MODEL, "--group", "1", "png", "-o", "out/all.dqc"],
    "unpack an archive": ["decompress", "all.dqc", "-o", "out"],
}
_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]
_GRACE = 20  # seconds; a command that takes longer to end hangs
_IMAGES, _HEIGHT, _WIDTH = 4, 60, 80


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, end = random.Random(arguments.seed), time.monotonic() + 60 * arguments.minutes
    where = machine()
    rows: dict[tuple, dict] = defaultdict(lambda: {"trials": 0, "most_seconds": 0.0, "failed": []})
    with tempfile.TemporaryDirectory() as name:
        start = Path(name) / "start"
        make_inputs(start)
        usual = {}
        while time.monotonic() < end:
            kind, jobs = rng.choice([*_COMMANDS]), rng.choice([1, 2])
            if (kind, jobs) not in usual:
                usual[kind, jobs] = undisturbed(start, Path(name) / f"usual{len(usual)}", kind, jobs)
            number, removes = rng.choice(_SIGNALS), rng.random() < 0.5
            made, seconds = usual[kind, jobs]
            moment = rng.uniform(0.3, 1.1 * seconds)
            shutil.copytree(start, Path(name) / "trial")
            took, failed = trial(Path(name) / "trial", command(kind, jobs, removes), number, moment, made)
            shutil.rmtree(Path(name) / "trial")
            row = rows[kind, jobs, number.name]
            row["trials"] += 1
            row["most_seconds"] = max(row["most_seconds"], round(took, 2))
            row["failed"] += [f"{fault} ({'--rm, ' * removes}at {moment:.3f} s)" for fault in failed]
            for fault in failed:
                print(f"{kind}, -j {jobs}, {number.name}, at {moment:.3f} s: {fault}", flush=True)
    named = [dict(zip(("command", "processes", "signal"), key)) | row for key, row in sorted(rows.items())]
    script.publish({"machine": where, "rows": named}, arguments.json)
    sys.exit(any(row["failed"] for row in rows.values()))


def make_inputs(folder: Path) -> None:
    """Make inputs: png/, some images; dqc/, the same compressed; all.dqc, the same as an archive of several groups."""
    (folder / "png").mkdir(parents=True)
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:_HEIGHT, :_WIDTH]
    for number in range(_IMAGES):
        waves = [128 + 60 * np.sin(x / (9 + plane) + number) + 50 * np.cos(y / 7) for plane in range(3)]
        pixels = np.stack(waves, -1) + rng.normal(0, 4, (_HEIGHT, _WIDTH, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"png/{number}.png")
    for options in (["-r", "png", "-o", "dqc"], ["--group", "2", "png", "-o", "all.dqc"]):
        script.run(*script.DQCODEC, "compress", "-q", *_MODEL, *options, cwd=folder)


def command(kind: str, jobs: int, removes: bool) -> list[str]:
    """The command line of a kind of command."""
    options = ["-q", "-f", "-j", str(jobs), *(["--rm"] if removes else [])]
    return [*script.DQCODEC, *_COMMANDS[kind], *options]


def undisturbed(start: Path, folder: Path, kind: str, jobs: int) -> tuple[dict[str, bytes], float]:
    """(the files that a command makes without a signal, its seconds)."""
    shutil.copytree(start, folder)
    begin = time.monotonic()
    subprocess.run(command(kind, jobs, False), cwd=folder, check=True)
    return files(folder / "out"), time.monotonic() - begin


def files(folder: Path) -> dict[str, bytes]:
    """Name -> content of all files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def trial(
    folder: Path, arguments: list[str], number: signal.Signals, moment: float, made: dict[str, bytes]
) -> tuple[float, list[str]]:
    """Run a command and send it a signal -> (seconds from the signal to the end, failures)."""
    before, failed = files(folder), []
    with subprocess.Popen(arguments, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        time.sleep(moment)
        begin = time.monotonic()
        if number in (signal.SIGINT, signal.SIGHUP) and process.poll() is None:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        try:
            _, complaints = process.communicate(timeout=_GRACE)  # returns when all processes with its stderr are gone
        except subprocess.TimeoutExpired:
            failed.append("ended: a process is left")
            os.killpg(process.pid, signal.SIGKILL)
            _, complaints = process.communicate()
        took = time.monotonic() - begin
    if process.returncode not in (0, -number, 128 + number):
        failed.append(f"ended: exit code {process.returncode}")
    if process.returncode == 128 + number and complaints.count("\n") != 1:
        failed.append("ended: " + " / ".join(complaints.splitlines()))
    after = files(folder)
    left = [name for name in after if name.endswith(".tmp")]
    if len(left) > (number == signal.SIGKILL):
        failed.append(f"left: {', '.join(left)}")
    finished = {
        name.removeprefix("out/"): data for name, data in after.items() if name.startswith("out/") and name not in left
    }
    failed += [f"whole: {name}" for name, data in finished.items() if made.get(name) != data]
    lost = [name for name, data in before.items() if after.get(name) != data]
    if len(finished) < len(made):
        failed += [f"kept: {name}" for name in lost if is_lost(name, finished)]
    if not lost:
        again = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
        if again.returncode or files(folder / "out") != made:
            failed.append(f"next: exit code {again.returncode}, {again.stderr.strip() or 'other files'}")
    return took, failed


def is_lost(source: str, finished: dict[str, bytes]) -> bool:
    """Whether a source has no output."""
    name = Path(source).name
    return not {name, f"{name}.dqc", name.removesuffix(".dqc")} & {*finished}


if __name__ == "__main__":
    main()
