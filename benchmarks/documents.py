"""The tables, and sentences with measured numbers, in the documents.

    python benchmarks/documents.py

rewrites the documents between their markers: between `<!-- NAME -->` and `<!-- end -->` stands the table NAME, made from
the committed results. benchmarks/check_docs.py says whether all are as they should be.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "paper"))

import measured  # noqa: E402
import tables  # noqa: E402

DOCUMENTS = tuple(ROOT / name for name in ("README.md", "docs/results.md"))
PACKAGES = (  # in the order to read them
    "ans", "context", "flows", "export", "exact", "exact/flow", "exact/autoregressive", "exact/mixing", "exact/jpeg", "methods", "png", "format", "codec",
    "arrays", "page", "command", "training", "bench", "frozen", "base",
)  # fmt: skip

_BLOCK = re.compile(r"(<!-- (?!end)(\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """The command line, see the module."""
    for document in DOCUMENTS:
        document.write_text(render(document.read_text()))


def render(text: str) -> str:
    """A document with tables made from the results.

    Raises:
        KeyError: the document names an unknown table.
    """
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


def reading_order() -> str:
    """Each package with the first sentence of its docstring."""
    width = max(map(len, PACKAGES)) + len("dqcodec//  ")
    lines = [f"{f'dqcodec/{package}/':<{width}}{_first_sentence(package)}" for package in PACKAGES]
    return "\n".join(f"    {line}" for line in lines)


def _first_sentence(package: str) -> str:
    docstring = ast.get_docstring(ast.parse((ROOT / "dqcodec" / package / "__init__.py").read_text())) or ""
    return re.split(r"(?<=\.)\s", docstring)[0].replace("\n", " ")


TABLES = measured.TABLES | tables.TABLES | {"reading-order": reading_order}


if __name__ == "__main__":
    main()
