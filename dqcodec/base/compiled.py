"""Loops over pixels, compiled to machine code by numba; every operation of floats alone, as IEEE 754 rounds it.

Nothing is fused, reordered or approximated, so a loop gives the same bits on every machine. Loops release the interpreter's
lock. Compiled code is kept beside the source, or in the user's cache folder, from one start to the next.
"""

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numba
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache

_CONSTANTS = "frozen"  # the package, beside a loop's own, whose constants loops may use


def compiled(loop: Callable) -> Callable:
    """The loop, compiled when it is first called. It may call compiled loops of the same package of dqcodec, and use constants of
    dqcodec.frozen."""
    dispatcher = numba.njit(nogil=True, error_model="numpy")(loop)
    try:
        dispatcher._cache = _Cache(loop)
    except RuntimeError:  # there is no folder to keep it in
        pass
    return dispatcher


def inlined(loop: Callable) -> Callable:
    """A loop for one that is `compiled` and calls it once; that takes less time to compile than two loops."""
    return numba.njit(nogil=True, error_model="numpy", inline="always")(loop)


def when_compiling(tell: Callable[[], None]) -> None:
    """Have it told, once, when a loop has to be compiled: that may take half a minute."""

    class Listener(event.Listener):
        def on_start(self, _):
            event.unregister("numba:compile", self)
            tell()

        def on_end(self, _):
            """Nothing to tell."""

    event.register("numba:compile", Listener())


class _Files(CompileResultCacheImpl):
    """Numba takes a loop's code from its cache if the loop's own file is unchanged; other files matter as much."""

    def __init__(self, loop: Callable):
        super().__init__(loop)
        self._filename_base += f"-{_sources(_package(loop))}"


class _Cache(FunctionCache):
    _impl_class = _Files


def _package(loop: Callable) -> Path:
    """The folder of the package, just below the root, that the loop is of: for dqcodec.exact.mixing.x, dqcodec/exact."""
    depth = loop.__module__.count(".")
    return Path(inspect.getfile(loop)).parents[max(depth - 2, 0)]


@cache
def _sources(folder: Path) -> str:
    """What all modules in a folder and below hold, the constants beside it and this module, as a few hex digits."""
    digest = hashlib.sha256()
    for path in [*sorted(folder.rglob("*.py")), *sorted((folder.parent / _CONSTANTS).glob("*.py")), Path(__file__)]:
        name = path.relative_to(folder) if path.is_relative_to(folder) else path.name
        digest.update(f"{name} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
