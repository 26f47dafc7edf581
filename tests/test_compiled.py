"""Compiled loops round every operation of floats, and are compiled again if any source changed."""

import gc
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from functools import singledispatch
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

import dqcodec
from dqcodec.base import compiled as compiling
from dqcodec.base.compiled import compiled, implements, part_of_loop, part_of_loop_in_place


def compiled_loops() -> dict[str, Dispatcher]:
    """All loops of the package, without the parts that need torch, craystack or zarr."""
    others = ("flows", "training", "export", "torch", "arrays", "bench", "craystack", "__main__")
    names = [info.name for info in pkgutil.walk_packages(dqcodec.__path__, "dqcodec.")]
    parts = [vars(importlib.import_module(name)) for name in names if not {*others} & {*name.split(".")}]
    loops = [loop for part in parts for loop in part.values() if isinstance(loop, Dispatcher)]
    return {f"{loop.__module__}.{loop.__name__}": loop for loop in loops}


def test_all_loops_are_compiled_with_ieee_arithmetic_and_release_the_lock():
    loops = compiled_loops()
    some = {
        "dqcodec.exact.autoregressive.front.code_front",
        "dqcodec.exact.autoregressive.learning._adam",
        "dqcodec.ans.uniform._shares",
        "dqcodec.context.least_squares.advance",
    }
    assert some <= loops.keys()
    for name, loop in loops.items():
        options = {option: value for option, value in loop.targetoptions.items() if value}
        assert options == {"nogil": True, "error_model": "numpy", "nopython": True}, name


class _Doubles(NamedTuple):
    times: int


class _Squares(NamedTuple):
    times: int


@singledispatch
def _change(change, value):
    raise NotImplementedError


@implements(_change, _Doubles)
def _double(change, value):
    return 2 * change.times * value


@implements(_change, _Squares)
def _square(change, value):
    return change.times * value * value


@compiled
def _changed(change, value):
    return _change(change, value)


def test_the_kind_of_the_first_argument_decides_which_loop_is_called():
    for changed in (_changed, _changed.py_func):
        assert [changed(kind(3), 5) for kind in (_Doubles, _Squares)] == [30, 75]


def test_nothing_is_compiled_by_other_means():
    imports = re.compile(r"^\s*(import|from) (numba|llvmlite)", re.MULTILINE)
    paths = Path(dqcodec.__file__).parent.rglob("*.py")
    assert {path.name for path in paths if imports.search(path.read_text())} == {
        "compiled.py",
        "instructions.py",
        "parts.py",
    }


# --- every operation alone, in loops and in their parts


@part_of_loop
def _product(a, b):
    return a * b


@part_of_loop_in_place
def _quotient(a, b):
    return a / b


@compiled
def _multiply_add(a, b, c, out):
    for n in range(len(a)):
        out[n] = _product(a[n], b[n]) + c[n]


@compiled
def _dot(a, b):
    total = a[0] * b[0]
    for n in range(1, len(a)):
        total += a[n] * b[n]
    return total


@compiled
def _shares(a, b, out):
    for n in range(len(a)):
        out[n] = _quotient(a[n], b[n]) + np.sqrt(b[n])


def numbers(dtype: type, count: int = 1000) -> np.ndarray:
    """(3, count), all of whose bits are used."""
    return np.random.default_rng(0).uniform(0.5, 2, (3, count)).astype(dtype) * np.array([[1], [1], [-1]], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_is_rounded_before_it_is_added(dtype):
    a, b, c = numbers(dtype)
    out = np.empty_like(a)
    _multiply_add(a, b, c, out)
    product = a * b
    assert np.array_equal(out, product + c)
    if dtype == np.float32:  # a fused operation would give other numbers
        fused = (a.astype(np.float64) * b + c).astype(np.float32)
        assert (out != fused).mean() > 0.1


def fused(**options) -> list[str]:
    """The fused multiply-add instructions of a loop that is compiled with these options."""
    loop = numba.jit(**options)(_multiply_add.py_func)
    loop(*numbers(np.float32), np.empty(1000, np.float32))
    return re.findall(r"\bv?fn?m(?:add|sub|la|ls)\w*", *loop.inspect_asm().values())


@pytest.mark.skipif(not get_host_cpu_features().get("fma"), reason="the processor has no such instructions")
def test_nothing_is_fused_where_the_processor_could():
    assert not fused(**_multiply_add.targetoptions)
    assert fused(**_multiply_add.targetoptions, fastmath={"contract"})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_made_in_their_order(dtype):
    a, b, _ = numbers(dtype)
    total = dtype(0)
    for product in a * b:
        total += product
    assert _dot(a, b) == total
    assert _dot(a, b) != dtype(np.dot(a.astype(np.longdouble), b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_and_roots_are_those_of_ieee_754(dtype):
    a, b, _ = numbers(dtype)
    out = np.empty_like(a)
    _shares(a, b, out)
    assert np.array_equal(out, a / b + np.sqrt(b))


def test_a_division_by_nothing_is_no_error():
    out = np.empty(3, np.float32)
    _shares(np.array([1, -1, 0], np.float32), np.zeros(3, np.float32), out)
    assert np.array_equal(out, [np.inf, -np.inf, np.nan], equal_nan=True)


# --- what is kept from one start to the next

LOOP = """
from dqcodec.base import compiled as compiling
from dqcodec.base.compiled import compiled
from package.b import inner

@compiled
def loop(value):
    return 2 * inner(value)
"""

INNER = """
from dqcodec.base import compiled as compiling
from dqcodec.base.compiled import compiled

@compiled
def inner(value):
    return value + %s
"""

# argv: the folder of the package. Prints a result, and how often the loop was compiled and taken from what is kept.
RESULT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from package.a import loop
result = loop(3)
print(json.dumps([result, sum(loop.stats.cache_misses.values()), sum(loop.stats.cache_hits.values())]))
"""
COMPILED, KEPT = [1, 0], [0, 1]


def package(folder: Path, **modules: str) -> Path:
    (folder / "package").mkdir(exist_ok=True)
    for name, text in modules.items():
        (folder / "package" / f"{name}.py").write_text(text)
    return folder


def started(folder: Path, script: str = RESULT, **variables) -> tuple[list[int], str]:
    """What RESULT prints, and what comes on stderr."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""} | variables
    command = [sys.executable, "-c", script, str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout), process.stderr


def result(folder: Path, script: str = RESULT, **variables) -> list[int]:
    found, complaints = started(folder, script, **variables)
    assert not complaints
    return found


def test_a_loop_is_recompiled_after_a_change_in_its_folder(tmp_path):
    folder = package(tmp_path, a=LOOP, b=INNER % 1)
    assert result(folder) == [8, *COMPILED]
    assert result(folder) == [8, *KEPT]
    package(folder, b=INNER % 5)
    assert result(folder) == [16, *COMPILED]


def test_source_hashes_depend_on_module_names_and_borders(tmp_path):
    sources = compiling._sources.__wrapped__
    folder = package(tmp_path, a=LOOP, b="X = 1\n", c="Y = 2\n") / "package"
    found = [sources(folder), sources(folder)]
    package(tmp_path, b="X = 1\nY = 2\n", c="")
    found.append(sources(folder))
    (folder / "c.py").rename(folder / "d.py")
    found.append(sources(folder))
    (folder / "d.py").unlink()
    found.append(sources(folder))
    assert found[0] == found[1] and len({*found}) == 4


def test_loops_are_recompiled_after_a_change_of_the_compiler_module(tmp_path, monkeypatch):
    folder, other = package(tmp_path, a=LOOP) / "package", tmp_path / "compiled.py"
    other.write_text(inspect.getsource(compiling))
    sources = compiling._sources.__wrapped__
    ours = sources(folder)
    monkeypatch.setattr(compiling, "__file__", str(other))
    assert sources(folder) == ours
    other.write_text(inspect.getsource(compiling).replace('error_model="numpy"', 'error_model="python"'))
    assert sources(folder) != ours


def test_python_looks_for_garbage_as_usual_after_compiling():
    usual = gc.get_threshold()
    loop = compiled(lambda value: value + 1)
    try:
        gc.set_threshold(321, 7, 6)
        assert loop(1) == 2 and gc.get_threshold() == (321, 7, 6)
        with pytest.raises(TypingError):
            loop("a")
        assert gc.get_threshold() == (321, 7, 6)
    finally:
        gc.set_threshold(*usual)


def test_loops_are_compiled_without_a_writable_cache(tmp_path):
    """A folder that is not writable; the user has no cache folder either."""
    folder = package(tmp_path, a=LOOP, b=INNER % 1)
    blocked = folder / "package" / "__pycache__"
    blocked.write_text("")
    homes = {name: str(blocked / "cache") for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA")}
    assert result(folder, **homes) == [8, *COMPILED]
    assert not list(tmp_path.rglob("*.nb?"))


def test_a_loop_is_recompiled_after_a_change_of_a_shared_package_or_constant(tmp_path):
    """What is kept depends on all modules of the package just below the root, and on the root's constants."""

    def write(name: str, text: str) -> None:
        path = tmp_path / "root" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("package.b", "root.house.two.b"))

    code = RESULT.replace("package.a", "root.house.one.a")
    write("house/one/a", LOOP)
    write("house/two/b", "from root.frozen.c import C\n" + INNER % "C")
    write("frozen/c", "C = 1\n")
    assert [result(tmp_path, code), result(tmp_path, code)] == [[8, *COMPILED], [8, *KEPT]]
    write("house/two/b", "from root.frozen.c import C\n" + INNER % "C + 4")
    assert result(tmp_path, code) == [16, *COMPILED]
    write("frozen/c", "C = 2\n")
    assert result(tmp_path, code) == [18, *COMPILED]


DAMAGES = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-1],
    "one bit is wrong": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
    "of something else": lambda data: b"something else" * 9,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_file_is_not_used(tmp_path, damage):
    entries = compiling._Entries(str(tmp_path), "loop")
    entries.save(("key", 1), "value")
    entries.save(("key", 2), "other")
    path = entries._path(("key", 1))
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert [entries.load(("key", number)) for number in (1, 2, 3)] == [None, "other", None]
    entries.save(("key", 1), "value")
    assert entries.load(("key", 1)) == "value"
    assert len([*tmp_path.iterdir()]) == 2


def test_the_cache_file_of_another_loop_is_not_used(tmp_path):
    entries = compiling._Entries(str(tmp_path), "loop")
    entries.save(("key", 1), "value")
    os.replace(entries._path(("key", 1)), entries._path(("key", 2)))
    assert entries.load(("key", 2)) is None


def test_a_damaged_cache_is_replaced(tmp_path):
    folder = package(tmp_path, a=LOOP, b=INNER % 1)
    assert result(folder) == [8, *COMPILED]
    kept = sorted(tmp_path.rglob("*.nb?"))
    assert kept
    for path in kept:
        path.write_bytes(b"")
    assert result(folder) == [8, *COMPILED]
    assert result(folder) == [8, *KEPT]
    assert sorted(tmp_path.rglob("*.nb?")) == kept


# a file that grows beyond this cannot be written, as where the disk is full
FULL = (
    """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""
    + RESULT
)


@pytest.mark.skipif(os.name != "posix", reason="the system has no such limit")
def test_a_full_cache_folder_gives_one_warning_and_loops_are_compiled(tmp_path):
    folder = package(tmp_path, a=LOOP, b=INNER % 1)
    for _ in range(2):
        found, complaints = started(folder, FULL)
        assert found == [8, *COMPILED]
        assert complaints.count("\n") == 1 and "cannot be kept" in complaints
    assert not [*tmp_path.rglob("__pycache__/*")]
