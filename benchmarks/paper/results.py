"""The results of a table: named cells in one JSON file, which is rewritten after each cell."""

import argparse
import json
from pathlib import Path

from dqcodec.bench.machine import machine

RESULTS = Path(__file__).parent / "results"


def json_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Add --json FILE. default: its text in the help."""
    text = f"file of the results (default: {default}); those of the documents are in benchmarks/paper/results"
    parser.add_argument("--json", type=Path, metavar="FILE", help=text)


class Results:
    """The cells of a table that are measured. An interrupted run loses only the current cell."""

    def __init__(self, path: Path):
        self.path = path
        self.cells = json.loads(path.read_text())["cells"] if path.exists() else {}

    def __contains__(self, name: str) -> bool:
        return name in self.cells

    def add(self, name: str, cell: dict) -> None:
        """Add a cell, with the date and the processor of its measurement."""
        where = machine()
        self.cells[name] = cell | {"processor": where["processor"], "date": where["date"][:10]}
        partial = self.path.with_suffix(".partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps({"cells": self.cells}, indent=1) + "\n")
        partial.replace(self.path)
