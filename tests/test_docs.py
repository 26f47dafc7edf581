"""What docs/library.md shows runs, type checkers see the names that are public, and files that documents name exist.

Scripts of benchmarks/ take hours and optional packages, so no test runs them; what they import from each other exists.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dqcodec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import references  # noqa: E402

EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_librarys_examples_run_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    Path("models").symlink_to(ROOT / "models")
    examples = EXAMPLE.findall((ROOT / "docs" / "library.md").read_text())
    assert len(examples) >= 8
    names = {"__name__": "library"}
    for example in examples:
        exec(compile(example, "docs/library.md", "exec"), names)


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(dqcodec.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {}
    exec(compile(ast.Module(block.body, []), dqcodec.__file__, "exec"), seen)
    names = {name for name in seen if not name.startswith("_")}
    assert {name: seen[name] for name in names} == {name: getattr(dqcodec, name) for name in dqcodec._PUBLIC}
    assert set(dqcodec.__all__) == {"__version__", *names} - {"open"}  # import * leaves Python's own open alone


@pytest.mark.parametrize(
    ("block", "problems"),
    [
        ("| mixture | `dqcodec/exact/autoregressive/`: `program.py`, `mixture.py`; `dqcodec/ans/stack.py` |", ["mixture.py"]),
        ("`dqcodec/exact/mixture.py`; `dqcodec/exact/autoregressive/`: `program.py`", []),
        ("`dqcodec/codec/candidates.py` tries it, `choose.py`\nand `chosen.py` take it", ["chosen.py"]),
        ("`dqcodec/flows/bins.py`: `Hypercube`, `Hypercubes`", ["Hypercubes"]),
        ("`dqcodec/flow/dequantizers.py`: `Hypercube`", ["dqcodec/flow/dequantizers.py"]),
        ("`format.md` and `results.py`, before any folder is named", ["results.py"]),
    ],
)  # fmt: skip
def test_a_file_or_class_that_a_document_names_wrongly_is_found(block, problems):
    assert [problem.split()[1].rstrip(",") for problem in references.missing_names(block, ROOT / "docs")] == problems


def test_every_file_that_documents_and_docstrings_name_exists():
    assert not [*references.missing_files(), *references.missing_modules(), *references.missing_headings()]


def imported(script: Path) -> Iterator[tuple[Path, str]]:
    """(file, name) of what a script imports from the scripts beside it and from dqcodec."""
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom):
            found = [
                folder / f"{node.module.replace('.', '/')}.py" for folder in (script.parent, ROOT / "benchmarks", ROOT)
            ]
            yield from ((file, alias.name) for file in found if file.exists() for alias in node.names)


def known(module: str, folder: Path) -> bool:
    """Whether Python, an installed package or a folder of scripts has a module."""
    name = module.partition(".")[0]
    places = (folder, ROOT / "benchmarks", ROOT / "benchmarks" / "paper", ROOT / "tests")
    return any((place / f"{name}.py").exists() or (place / name).is_dir() for place in places) or name in OTHERS


OTHERS = {*sys.stdlib_module_names, "dqcodec"} | {
    "PIL", "atheris", "craystack", "distributed", "imagecodecs", "jaxtyping", "matplotlib", "numpy", "torch",
}  # fmt: skip


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda path: path.stem)
def test_scripts_import_only_what_exists(script):
    tree = ast.parse(script.read_text())
    modules = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [module for module in modules if not known(module, script.parent)]
    for file, name in imported(script):
        assert re.search(rf"^(?:def |class |from .* import .*|import .*|)\b{name}\b", file.read_text(), re.MULTILINE), (
            f"{name} is not in {file.name}"
        )
