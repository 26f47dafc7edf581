"""Archives that learn from their own images: bytes without and with the model that they bring.

    python benchmarks/learning.py FOLDER ... --learn 5m [-m MODEL] [--json RESULT.json]

The dqcodec command packs each folder with `--learn`, one thread and all else by default, and verifies the archive.
`learn_processor_seconds` is what the training got of a core.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import script

from dqcodec.bench.machine import machine


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--learn", required=True)
    parser.add_argument("-m", "--model")
    arguments = parser.parse_args()
    where = machine()
    sets = [measure(folder, arguments.learn, arguments.model) for folder in arguments.folders]
    script.publish({"machine": where, "sets": sets}, arguments.json)


def measure(folder: Path, time: str, model: str | None) -> dict:
    """Pack a folder -> the result, for JSON."""
    models = ["-m", model] if model else []
    with tempfile.TemporaryDirectory() as work:
        command = ["compress", folder, "-o", f"{work}/set.dqc", "--learn", time, "--json", *models]
        run, seconds = script.run(*script.DQCODEC, *command, stdout=subprocess.PIPE, text=True)
    *files, archive = map(json.loads, run.stdout.splitlines())
    learned = archive["learned"]
    without = archive["dqc_bytes"] + (learned["saved_bytes"] - learned["bytes"] if learned["saved_bytes"] else 0)
    return {
        "set": folder.name,
        "images": archive["images"],
        "pixels": sum(each.get("width", 0) * each.get("height", 0) for each in files),
        "base": learned["base"],
        "learn_seconds": learned["seconds"],
        "learn_processor_seconds": learned["processor_seconds"],
        "processor_seconds": seconds,
        "model_bytes": learned["bytes"],
        "bytes_without": without,
        "bytes": archive["dqc_bytes"],
        "verified": archive["verified"],
    }


if __name__ == "__main__":
    main()
