"""Bytes of dqcodec and its peers on PNG files; every codec's losslessness is checked on the way.

    python benchmarks/rates.py FILE.png... [--model NAME] [--peers] [--jobs N] [--json RESULT.json]

Prints a line a file and the totals: achieved rate beside the model's vi bound, and where the difference goes.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
from machine import machine
from PIL import Image

from dqcodec import codec, zoo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--model", action="append")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    work = partial(measure, models=arguments.model or zoo.names(), with_peers=arguments.peers)
    rows = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(work, arguments.files):
            rows.append(row)
            print(describe(row), flush=True)
    total = summary(rows)
    print(json.dumps(total, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "total": total, "files": rows}, indent=1) + "\n")


def measure(path: Path, models: list[str], with_peers: bool) -> dict:
    """Bytes by codec, and dqcodec's report, for one file."""
    data, programs = path.read_bytes(), [zoo.load(name) for name in models]
    packed, report = codec.compress(data, programs, verify=False)
    restored, _ = codec.decompress(packed, lambda wanted: next(p for p in programs if p.id == wanted))
    pixels = _pixels(data)
    if not np.array_equal(pixels, _pixels(restored)):
        raise SystemExit(f"{path}: dqcodec is not lossless")
    row = {"file": path.name, "samples": report.samples * report.width * report.height, "dqcodec": len(packed),
           "PNG as given": len(data), "dqcodec, flow alone": report.candidates.get("flow"), "method": report.method, "model": report.model, **(report.flow or {}),
           "container_bits": 8 * (report.container_bytes + report.chunk_bytes)}
    if with_peers:
        from peers import PEERS

        for peer in PEERS:
            coded = peer.encode(pixels)
            if not np.array_equal(pixels, peer.decode(coded)):
                raise SystemExit(f"{path}: {peer.name} is not lossless")
            row[peer.name] = len(coded)
    return row


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(data)))


def describe(row: dict) -> str:
    bpd = 8 * row["dqcodec"] / row["samples"]
    limit = f" (limit {row['vi_bpd']:.3f})" if row["method"] == "flow" else ""
    return f"{row['file']}: {row['PNG as given']} -> {row['dqcodec']} B, {bpd:.3f} bpd{limit} {row['method']} {row['model'] or ''}"


def summary(rows: list[dict]) -> dict:
    """Total bytes and mean rates, and the parts of the gap to the bound in bpd."""
    samples = sum(row["samples"] for row in rows)
    shown = ("dqcodec", "PNG", "WebP", "JPEG XL")
    names = [name for name in rows[0] if name.startswith(shown) and all(row[name] for row in rows)]
    total = {"files": len(rows), "samples": samples}
    total |= {f"{name}, bytes": sum(row[name] for row in rows) for name in names}
    total |= {f"{name}, bpd": round(8 * sum(row[name] for row in rows) / samples, 4) for name in names}
    flow = [row for row in rows if row["method"] == "flow"]
    if len(flow) == len(rows):
        total["vi bound, bpd"] = round(sum(row["vi_bpd"] * row["samples"] for row in rows) / samples, 4)
        for part in ("initial_bits", "grid_bits", "container_bits"):
            total[f"{part}, bpd"] = round(sum(row[part] for row in rows) / samples, 5)
    return total


if __name__ == "__main__":
    main()
