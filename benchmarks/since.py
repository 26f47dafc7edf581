"""How sizes and speeds differ from those of an earlier commit: both code the same images, in turns, in one run.

    python benchmarks/since.py COMMIT PNG|FOLDER... [--fast | --best] [--repeat N] [--json RESULT.json]

Each of the two has a process of its own with one thread, and its own models. Both code a first image before any time is taken, so
that all loops are compiled. The times are processor seconds, the least of N; compressing does not include verification.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import script

from dqcodec.bench.machine import machine

_ROOT = Path(__file__).resolve().parents[1]
_FIGURES = "bytes", "compress_seconds", "decompress_seconds"
# codes each file named on its input, and prints its figures
_WORK = """
import json, sys, time
import dqcodec
from pathlib import Path
from dqcodec.base.threads import set_threads
from dqcodec.codec import zoo

set_threads(1)
programs, effort = [zoo.load(name) for name in zoo.names()], json.loads(sys.argv[1])
for line in sys.stdin:
    png = Path(json.loads(line)).read_bytes()
    times = [time.process_time()]
    dqc = dqcodec.compress(png, programs, verify=False, **effort)
    times.append(time.process_time())
    dqcodec.decompress_png(dqc)
    times.append(time.process_time())
    print(json.dumps([len(dqc), times[1] - times[0], times[2] - times[1]]), flush=True)
"""


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("commit")
    parser.add_argument("paths", type=Path, nargs="+")
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--fast", action="store_true")
    effort.add_argument("--best", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    files = script.files_of(arguments.paths, "*.png")
    options = {name: True for name in ("fast", "best") if getattr(arguments, name)}
    result: dict = {"machine": machine(), "commit": arguments.commit, "options": options, "rows": []}
    with tempfile.TemporaryDirectory() as folder, checked_out(arguments.commit, Path(folder) / "tree") as before:
        coders = {
            name: started(tree, Path(folder) / f"loops-{name}", options)
            for name, tree in (("before", before), ("now", _ROOT))
        }
        for coder in coders.values():
            coded(coder, files[0])
        for file in files:
            runs = [{name: coded(coder, file) for name, coder in coders.items()} for _ in range(arguments.repeat)]
            row = {name: dict(zip(_FIGURES, map(min, zip(*(run[name] for run in runs))))) for name in coders}
            result["rows"].append({"image": file.name, **row})
            print(file.name, ratios([row]), flush=True)
        for coder in coders.values():
            coder.communicate()
    result["ratios"] = ratios(result["rows"])
    script.publish(result, arguments.json)


@contextlib.contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit in a folder."""
    git = ["git", "-C", str(_ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def started(tree: Path, loops: Path, options: dict) -> subprocess.Popen:
    """A process that codes with the code and the models of a tree, and keeps its compiled loops in a folder."""
    environment = os.environ | {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(loops), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _WORK, json.dumps(options)]
    return subprocess.Popen(  # Python looks for packages in the working folder first
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def coded(coder: subprocess.Popen, file: Path) -> list[float]:
    """The figures of a file."""
    coder.stdin.write(json.dumps(str(file.resolve())) + "\n")
    coder.stdin.flush()
    return json.loads(coder.stdout.readline())


def ratios(rows: Sequence[dict]) -> dict[str, float]:
    """Now to before, of the sums of each figure."""
    return {
        figure: round(sum(row["now"][figure] for row in rows) / sum(row["before"][figure] for row in rows), 4)
        for figure in _FIGURES
    }


if __name__ == "__main__":
    main()
