"""Loops over pixels, compiled to machine code by numba; every operation of floats alone, as IEEE 754 rounds it.

Nothing is fused, reordered or approximated, so a loop gives the same bits on every machine. Loops release the interpreter's
lock. Compiled code is kept beside the source, or in the user's cache folder, from one start to the next; where that fails,
each start compiles.
"""

import contextlib
import hashlib
import inspect
import logging
import os
import pickle
import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import extending
from numba.core import event, serialize
from numba.core.caching import CompileResultCacheImpl, FunctionCache

from dqcodec.base import ending

_SHARED = ("context", "frozen")  # packages beside a loop's own, whose loops and constants it may use
_DIGEST_BYTES = hashlib.sha256().digest_size
_log = logging.getLogger("dqcodec")  # a line on stderr, unless the program says otherwise
_is_warned = False


def compiled(loop: Callable) -> Callable:
    """The loop, compiled when it is first called. It may call compiled loops of the same package of dqcodec and of
    dqcodec.context, and use constants of dqcodec.frozen."""
    dispatcher = numba.njit(nogil=True, error_model="numpy")(loop)
    try:
        dispatcher._cache = _Cache(loop)
    except RuntimeError:  # there is no folder to keep it in
        pass
    return dispatcher


def implements(generic: Callable, kind: type) -> Callable[[Callable], Callable]:
    """Mark a loop as what `generic`, a functools.singledispatch function, does for a first argument of a NamedTuple kind.

    Compiled loops may call `generic`. The kind is known when they are compiled, and the marked loop becomes a part of them.
    """

    def register(loop: Callable) -> Callable:
        @extending.overload(generic, strict=False, inline="always")
        def choose(first, *others):
            return loop if getattr(first, "instance_class", None) is kind else None

        return generic.register(kind, loop)

    return register


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


class _Entries:
    """Files of a folder, one for each key: SHA-256 of what follows, then the pickled key and value."""

    def __init__(self, folder: str, name: str):
        self._start = os.path.join(folder, name)

    def load(self, key: tuple) -> Any:
        """The value; None where there is no whole file of it."""
        try:
            data = self._path(key).read_bytes()
        except OSError:
            return None
        digest, pickled = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if digest != hashlib.sha256(pickled).digest():
            return None
        found, value = pickle.loads(pickled)
        return value if found == key else None

    def save(self, key: tuple, value: Any) -> None:
        """Raises OSError, and then the file is as it was."""
        pickled, path = serialize.dumps((key, value)), self._path(key)
        temporary = path.with_suffix(f".{secrets.token_hex(8)}.tmp")
        with ending.not_ending():  # it takes a moment, and leaves nothing half done
            try:
                temporary.write_bytes(hashlib.sha256(pickled).digest() + pickled)
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def _path(self, key: tuple) -> Path:
        number = hashlib.sha256(f"{numba.__version__} {key}".encode()).hexdigest()[:16]
        return Path(f"{self._start}-{number}.nbc")


class _Cache(FunctionCache):
    """Numba's own stops a program where its files are damaged or cannot be written."""

    _impl_class = _Files

    def __init__(self, loop: Callable):
        super().__init__(loop)
        self._cache_file = _Entries(self.cache_path, self._impl.filename_base)

    def load_overload(self, signature, context):
        with contextlib.suppress(Exception):  # whatever is wrong, the loop is compiled anew
            return super().load_overload(signature, context)

    def save_overload(self, signature, code):
        try:
            super().save_overload(signature, code)
        except OSError as error:
            _warn_once(self.cache_path, error.strerror)


def _warn_once(folder: str, reason: str) -> None:
    global _is_warned
    if not _is_warned:
        _is_warned = True
        _log.warning("dqcodec: compiled loops cannot be kept in %s (%s); each start takes longer", folder, reason)


def _package(loop: Callable) -> Path:
    """The folder of the package, just below the root, that the loop is of: for dqcodec.exact.mixing.x, dqcodec/exact."""
    depth = loop.__module__.count(".")
    return Path(inspect.getfile(loop)).parents[max(depth - 2, 0)]


@cache
def _sources(folder: Path) -> str:
    """What all modules in a folder and below, in the shared packages beside it and in this file hold, as a few hex digits."""
    digest = hashlib.sha256()
    shared = [path for package in _SHARED for path in sorted((folder.parent / package).glob("*.py"))]
    for path in [*sorted(folder.rglob("*.py")), *shared, Path(__file__)]:
        name = path.relative_to(folder.parent) if path.is_relative_to(folder.parent) else path.name
        digest.update(f"{name} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
