"""What docs/library.md shows runs, and type checkers see the names that are public."""

import ast
import re
from pathlib import Path

import dqcodec

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_librarys_examples_run_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    examples = EXAMPLE.findall((ROOT / "docs" / "library.md").read_text())
    assert len(examples) >= 8
    names = {"__name__": "library"}
    for example in examples:
        exec(compile(example, "docs/library.md", "exec"), names)


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(dqcodec.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module.startswith("dqcodec.")]
    seen = {alias.asname or alias.name: (node.module, alias.name) for node in imports for alias in node.names}
    assert seen == {name: (f"dqcodec.{module}", attribute) for name, (module, attribute) in dqcodec._PUBLIC.items()}
    assert set(dqcodec.__all__) == {"__version__", *seen} - {"open"}  # import * leaves Python's own open alone
