"""Whether the documents, the committed results and the tree agree. One line for each problem; exit status 1 if there is one.

    python benchmarks/check_docs.py

Needs numpy alone.
"""

import itertools
import sys
from collections.abc import Iterator

from documents import DOCUMENTS, PACKAGES, ROOT, render
from measured import COMMANDS, RESULTS
from published import CHECKERBOARD_IW, CHECKERBOARD_VI, IMAGES
from references import missing_files, missing_headings, missing_modules
from tables import cells

_MOST_LINES = 120  # of README.md
_ENTROPY_BITS = 1.0  # of the checkerboard's data
_DIGITS_TABLES = {"sheet", "archive"}


def main() -> None:
    """The command line, see the module."""
    of_tree = (readme, stale_tables, missing_files, missing_modules, missing_headings, packages)
    checks = (*of_tree, results, checkerboard, images, digits)
    problems = [problem for check in checks for problem in check()]
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))


def readme() -> Iterator[str]:
    """The README is too long."""
    lines = (ROOT / "README.md").read_text().splitlines()
    if len(lines) > _MOST_LINES:
        yield f"README.md: {len(lines)} lines, more than {_MOST_LINES}"


def stale_tables() -> Iterator[str]:
    """Tables that differ from the results."""
    for document in DOCUMENTS:
        text = document.read_text()
        if render(text) != text:
            yield f"{document.name}: tables differ from the results: run python benchmarks/documents.py"


def packages() -> Iterator[str]:
    """Packages that are missing in the reading order, or in the tree."""
    found = {str(path.parent.relative_to(ROOT / "dqcodec")) for path in (ROOT / "dqcodec").rglob("__init__.py")} - {"."}
    for package in sorted(found ^ set(PACKAGES)):
        yield f"benchmarks/documents.py: PACKAGES and the tree differ in dqcodec/{package}"


def results() -> Iterator[str]:
    """Results without a command, and commands without a result."""
    for name in sorted({path.stem for path in RESULTS.glob("*.json")} ^ set(COMMANDS)):
        yield f"benchmarks/results/{name}.json: without a command in measured.py, or a command without it"


def checkerboard() -> Iterator[str]:
    """Bounds that are in a wrong order, or worse than the paper's."""
    measured = cells("checkerboard")
    for name, cell in measured.items():
        if cell["iw_bits"] > cell["vi_bits"] + 3 * (cell["vi_error"] + cell["iw_error"]):
            yield f"checkerboard {name}: iw is above vi"
        if cell["iw_bits"] < _ENTROPY_BITS - 3 * cell["iw_error"]:
            yield f"checkerboard {name}: iw is below the entropy"
    for p, row in CHECKERBOARD_VI.items():
        for q, value in row.items():
            yield from _not_worse(measured, f"{p}-{q}-vi", "vi_bits", value)
    for objective, row in CHECKERBOARD_IW.items():
        for q, value in row.items():
            yield from _not_worse(measured, f"flow-{q}-{objective}", "iw_bits", value)


_SEED_BPD = 0.005  # by which another seed may differ


def images() -> Iterator[str]:
    """Bounds or dequantizers in a wrong order, and files that are far from the bound."""
    for table, rows in IMAGES.items():
        measured = cells(table)
        for name, cell in measured.items():
            if cell["iw_bpd"] > cell["vi_bpd"] or abs(cell["vi_bpd"] - cell["iw_bpd"] - cell["kl_bpd"]) > 2e-5:
                yield f"{table} {name}: vi, iw and KL do not fit together"
            if "coded_bpd" in cell and abs(cell["coded_bpd"] - cell["initial_bpd"] - cell["vi_bpd"]) > 0.02:
                yield f"{table} {name}: what is coded is far from vi"
        for row, published in rows.items():
            rates = [measured[f"{row}-{q}"]["vi_bpd"] for q in published]
            if any(later > earlier + _SEED_BPD for earlier, later in itertools.pairwise(rates)):
                yield f"{table} {row}: dequantizers are not in the paper's order"
    for q, (_, vi, _) in IMAGES["mnist"]["covariance"].items():
        if cells("mnist")[f"covariance-{q}"]["vi_bpd"] > vi + 0.02:
            yield f"mnist covariance-{q}: vi is above the paper's"


def digits() -> Iterator[str]:
    """Digits that miss the bound of their particles, and files of dqcodec that are not the smallest."""
    for name, cell in cells("coded").items():
        net = cell["coded_bpd"] - cell["initial_bpd"]
        if not cell["coupled_bpd"] - 0.004 <= net <= cell["iw_bpd"] + 0.002:
            yield f"coded {name}: what is coded is far from the bound of its particles"
        if not name.endswith("-1") and max(net, cell["coded_bpd"]) >= cell["vi_bpd"]:
            yield f"coded {name}: particles gain nothing over vi"
    files = cells("digits")
    if set(files) != _DIGITS_TABLES:
        yield "digits: not all is measured"
    for name, cell in files.items():
        if min(cell["bytes"], key=cell["bytes"].get) != "dqcodec" or "mnist-binary" not in cell["method"]:
            yield f"digits {name}: not smallest by dqcodec with its model"


def _not_worse(measured: dict, name: str, key: str, published: float) -> Iterator[str]:
    values = [cell[key] for cell_name, cell in measured.items() if cell_name.rpartition("-")[0] == name]
    if len(values) != 3 or sum(values) / 3 > published + 0.02:
        yield f"checkerboard {name}: worse than the paper's, or not of three seeds"


if __name__ == "__main__":
    main()
