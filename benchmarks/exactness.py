"""Does a file that was made with all threads decode with one thread and the lowest instruction set?

    python benchmarks/exactness.py FILE.png [--model NAME] [--json RESULT.json]

Each setting has its own process. It decodes the first process's file and encodes the image again. All files must be
equal, byte for byte.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import script

from dqcodec.bench.machine import machine

_SETTINGS = {
    "as it is": {},
    "one thread": {"DQCODEC_BENCHMARK_THREADS": "1"},
    "one thread, AVX2 at most": {
        "DQCODEC_BENCHMARK_THREADS": "1",
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx2,+fma",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR AVX512F AVX512CD AVX512_SKX",
    },
    "one thread, no FMA or AVX": {
        "DQCODEC_BENCHMARK_THREADS": "1",
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512CD AVX512_SKX",
    },
}
_PROCESS = """
import sys, hashlib, os, warnings
warnings.simplefilter("ignore")
import numpy as np
from PIL import Image
from dqcodec.codec import zoo
from dqcodec.base.threads import set_threads
from dqcodec.methods import table
set_threads(int(os.environ.get("DQCODEC_BENCHMARK_THREADS", 0)))
pixels, program = np.asarray(Image.open(sys.argv[1]).convert("RGB")), zoo.load(sys.argv[2])
given = sys.stdin.buffer.read()
method = table.rows_of(program)[0].module
payload = method.encode([pixels], program).data
same = np.array_equal(method.decode(given or payload, [pixels.shape], program)[0], pixels)
sys.stdout.buffer.write(bytes([same]) + payload)
"""


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="photo")
    arguments = parser.parse_args()
    first, rows, where = b"", [], machine()
    for name, settings in _SETTINGS.items():
        command = [sys.executable, "-c", _PROCESS, str(arguments.file), arguments.model]
        output = subprocess.run(command, input=first, env=os.environ | settings, capture_output=True, check=True).stdout
        decoded, payload = bool(output[0]), output[1:]
        first = first or payload
        rows.append(
            {
                "setting": name,
                "decodes the first file": decoded,
                "same bytes": payload == first,
                "sha256": hashlib.sha256(payload).hexdigest()[:16],
            }
        )
    if not all(row["decodes the first file"] and row["same bytes"] for row in rows):
        raise SystemExit("not exact")
    result = {"machine": where, "image": arguments.file.name, "model": arguments.model, "settings": rows}
    script.publish(result, arguments.json)


if __name__ == "__main__":
    main()
