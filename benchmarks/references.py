"""The files, headings and classes that documents and docstrings name. check_docs.py checks that each of them exists."""

import re
from collections.abc import Iterator
from pathlib import Path

from documents import ROOT

_LINK = re.compile(r"\]\((?!http)([^)#\s]*)(#[^)\s]+)?\)")
_BLOCKS = re.compile(r"\n\s*\n|\n(?=[|*-]|\d+\. )")  # what is between paragraphs, rows of tables and items of lists
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:dqcodec|benchmarks|docs|models|tests)/[^\s*]*")
_FILE = re.compile(r"[\w/]+\.py\b")
_CLASS = re.compile(r"[A-Z]\w*[a-z]\w*")


def missing_files() -> Iterator[str]:
    """Files that a document links to or names, but that do not exist; classes that are not in the file before them."""
    for document in _markdown():
        for target, _ in _LINK.findall(_prose(document)):
            if not (document.parent / target).exists():
                yield f"{_name(document)}: links to {target}, which is not there"
        for block in _BLOCKS.split(document.read_text()):
            yield from (f"{_name(document)}: {problem}" for problem in missing_names(block, document.parent))


def missing_names(block: str, folder: Path) -> Iterator[str]:
    """What is wrong with the files and classes that a block of Markdown, such as a row of a table, names as code.

    A path starts at a folder of the repository. A bare name, such as `stack.py`, is in the folder of the path before it;
    without one it is in `folder`. Classes that follow a path after a colon, as in `x.py`: `A`, `B`, are in that file.
    """
    file, end = None, 0
    for code in _CODE.finditer(block):
        name, between = code[1], block[end : code.start()]
        end = code.end()
        if _PATH.fullmatch(name):
            file = ROOT / name
            folder = file if name.endswith("/") else file.parent
        elif _FILE.fullmatch(name):
            file = folder / name
        elif file and _CLASS.fullmatch(name) and between in (": ", ", "):
            if f"class {name}" not in file.read_text():
                yield f"names {name}, which is not in {file.name}"
            continue
        else:
            file = None
            continue
        if not file.exists():
            yield f"names {name}, which is not there"
            file = None


def missing_modules() -> Iterator[str]:
    """Files that a docstring or a comment of the package names, relative to its folder, to dqcodec/ or to the repository,
    but that do not exist."""
    for module in sorted((ROOT / "dqcodec").rglob("*.py")):
        for name in _FILE.findall(module.read_text()):
            if not any((folder / name).exists() for folder in (module.parent, ROOT / "dqcodec", ROOT)):
                yield f"{_name(module)}: names {name}, which is not there"


def missing_headings() -> Iterator[str]:
    """Links to a heading that does not exist."""
    for document in _markdown():
        for target, anchor in _LINK.findall(_prose(document)):
            linked = document.parent / target if target else document
            if anchor and linked.exists() and anchor[1:] not in _anchors(linked):
                yield f"{_name(document)}: links to {target}{anchor}, which has no such heading"


def _prose(document: Path) -> str:
    """A document without its indented code."""
    return re.sub(r"^    .*$", "", document.read_text(), flags=re.MULTILINE)


def _markdown() -> list[Path]:
    return [
        *ROOT.glob("*.md"),
        *(path for folder in ("docs", "benchmarks", "models") for path in (ROOT / folder).rglob("*.md")),
    ]


def _anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))
