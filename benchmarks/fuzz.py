"""Fuzz what reads files from elsewhere: any broken input gives the right thing or an error with a name.

    python benchmarks/fuzz.py TARGET --minutes N [--seed S] [--corpus DIR] [--findings DIR] [--bounds]

Each target of fuzzing/ makes seeds; those in --corpus are taken too. Every input is a seed, changed: bits, numbers, cuts,
splices, repeats, and parts of a format; checksums and CRCs are made anew, so that deep code is reached. An input is a
finding if reading it

    - raises what is no DqcodecError, or an error of many lines;
    - gives an image that does not match its checksum, or does not survive being written and read again;
    - takes more than --seconds of one processor, or more than --mebibytes beside what was there before;
    - prints or warns, or ends the process.

With atheris installed, what an input reaches in Python code guides the choice of the next seed (--plain does without).
--bounds has compiled loops check their indices (slower). Findings are files, each with a .txt of what happened; then
the exit code is 1. Linux only.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import zlib
from pathlib import Path

from fuzzing.fuzzer import run_child
from fuzzing.limits import ROOT
from fuzzing.targets import NAMES
from fuzzing.watchdog import Shared, watch

sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, help="a folder of more seeds")
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()) / "dqcodec-findings")
    parser.add_argument("--seconds", type=float, default=10, help="for one input")
    parser.add_argument("--mebibytes", type=int, default=256, help="for one input")
    parser.add_argument("--bounds", action="store_true", help="compiled loops check their indices")
    parser.add_argument("--plain", action="store_true", help="without atheris")
    arguments = parser.parse_args()
    if arguments.bounds:  # loops compiled so are kept apart from others
        os.environ |= {
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "dqcodec-fuzz-bounds"),
        }
    arguments.findings.mkdir(parents=True, exist_ok=True)
    shared, start = Shared(), time.time()
    while time.time() < shared.end:
        child = os.fork()
        if not child:
            run_child(arguments, shared)
        happened = watch(child, shared, 6 * arguments.seconds)
        if happened == "broken":
            sys.exit((arguments.findings / "log.txt").read_text()[-3000:])
        if happened:
            path = arguments.findings / f"{arguments.target}-{happened}-{zlib.crc32(shared.data):08x}.bin"
            path.write_bytes(shared.data)
            path.with_suffix(".txt").write_text((arguments.findings / "log.txt").read_text(errors="replace")[-3000:])
    tried, good, _ = shared.numbers
    found = sorted(arguments.findings.glob(f"{arguments.target}-*.bin"))
    print(f"{tried} inputs in {time.time() - start:.0f} s, {good} good, {len(found)} findings")
    for path in found:
        print(f"  {path} {path.stat().st_size} bytes")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
