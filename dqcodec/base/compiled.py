"""Loops over pixels that numba compiles to machine code.

Each operation on floats is rounded alone, as IEEE 754 says. Nothing is fused, reordered or approximated, so a loop
gives the same bits on every machine. A loop releases the interpreter's lock. Compiled code is kept for the next start,
beside the source or in the user's cache folder. If it cannot be kept, each start compiles.
"""

import contextlib
import gc
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

from dqcodec.base import ending, parts

_COMPILERS = [Path(__file__).with_name(name) for name in ("instructions.py", "parts.py")]  # beside this module
_NEW_OBJECTS = 20_000  # between two searches for garbage while numba compiles
_SHARED = ("context", "frozen")  # packages whose loops and constants all loops may use
_DIGEST_BYTES = hashlib.sha256().digest_size
_log = logging.getLogger("dqcodec")  # by default, Python writes its warnings to stderr
_is_warned = False


def compiled(loop: Callable) -> Callable:
    """A decorator: compile the loop at its first call.

    It may call compiled loops of the same package below dqcodec and of dqcodec.context, and use constants of
    dqcodec.frozen. If one of these files changes, the loop is compiled again.
    """
    return _kept(loop, numba.njit(nogil=True, error_model="numpy"))


def compiled_in_place(loop: Callable) -> Callable:
    """A decorator like `compiled`, for a loop that makes no arrays and returns none, apart from views within it.

    Compiled loops count who uses an array, atomically, at each call that passes it. This loop does not: it is up to
    twice as fast if it passes tuples of many arrays to loops for each pixel.
    """
    return _kept(loop, numba.njit(nogil=True, error_model="numpy", _nrt=False))


def part_of_loop(function: Callable) -> Callable:
    """A decorator: compiled loops may call the function, and it is compiled with them. Python runs it as it is.

    It has no entry for Python, which takes time to compile, and to load at each start.
    """
    return extending.register_jitable(**parts.OPTIONS)(function)


def part_of_loop_in_place(function: Callable) -> Callable:
    """A decorator like `part_of_loop`, for loops that are compiled in place."""
    return extending.register_jitable(**parts.OPTIONS, _nrt=False, forceinline=True)(function)


def implements(generic: Callable, kind: type) -> Callable[[Callable], Callable]:
    """Mark a loop as what `generic`, a functools.singledispatch function, does for a first
    argument of a NamedTuple kind.

    Compiled loops may call `generic`. The kind is known when they are compiled, and the
    marked loop becomes a part of them.
    """

    def register(loop: Callable) -> Callable:
        @extending.overload(generic, strict=False, inline="always")
        def choose(first, *others):
            return loop if getattr(first, "instance_class", None) is kind else None

        return generic.register(kind, loop)

    return register


def when_compiling(tell: Callable[[], None]) -> None:
    """Call `tell` once, when the first loop must be compiled: this may take half a minute."""

    class Listener(event.Listener):
        def on_start(self, _):
            event.unregister("numba:compile", self)
            tell()

        def on_end(self, _):
            """Nothing to do."""

    event.register("numba:compile", Listener())


def _kept(loop: Callable, compiler: Callable) -> Callable:
    dispatcher = compiler(loop)
    try:
        dispatcher._cache = _Cache(loop)
    except RuntimeError:  # no folder can be written
        pass
    return dispatcher


class _RareCollections(event.Listener):
    """While numba compiles, it makes many objects that live on: Python looks for garbage less often."""

    _depth = 0

    def on_start(self, _):
        if not self._depth:
            self._usual = gc.get_threshold()
            first, *others = self._usual
            gc.set_threshold(first and max(first, _NEW_OBJECTS), *others)  # 0 means never
        self._depth += 1

    def on_end(self, _):
        self._depth -= 1
        if not self._depth:
            gc.set_threshold(*self._usual)


event.register("numba:compile", _RareCollections())


class _Files(CompileResultCacheImpl):
    """Numba uses cached code if the loop's own file is unchanged. Here all files that the loop may use count."""

    def __init__(self, loop: Callable):
        super().__init__(loop)
        self._filename_base += f"-{_sources(_package(loop))}"


class _Entries:
    """A cache in a folder, one file for each key: the SHA-256 of the rest, then the pickled key and value."""

    def __init__(self, folder: str, name: str):
        self._start = os.path.join(folder, name)

    def load(self, key: tuple) -> Any:
        """The value of a key; None if its file is missing or damaged."""
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
        """Write the value of a key; raises OSError, and then the old file is unchanged."""
        pickled, path = serialize.dumps((key, value)), self._path(key)
        temporary = path.with_suffix(f".{secrets.token_hex(8)}.tmp")
        with ending.not_ending():  # writing is short; the process may end before or after it
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
    """Numba's own cache raises errors for damaged files and folders that cannot be written; this one does not."""

    _impl_class = _Files

    def __init__(self, loop: Callable):
        super().__init__(loop)
        self._cache_file = _Entries(self.cache_path, self._impl.filename_base)

    def load_overload(self, signature, context):
        with contextlib.suppress(Exception):  # for any error, the loop is compiled again
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
    """The folder of the loop's package below dqcodec: dqcodec/exact for dqcodec.exact.mixing.x."""
    depth = loop.__module__.count(".")
    return Path(inspect.getfile(loop)).parents[max(depth - 2, 0)]


@cache
def _sources(folder: Path) -> str:
    """A hash (hex digits) of the modules in a folder and below it, in the shared packages,
    and of those that compile them.
    """
    digest = hashlib.sha256()
    shared = [path for package in _SHARED for path in sorted((folder.parent / package).glob("*.py"))]
    for path in [*sorted(folder.rglob("*.py")), *shared, Path(__file__), *_COMPILERS]:
        name = path.relative_to(folder.parent) if path.is_relative_to(folder.parent) else path.name
        digest.update(f"{name} {path.stat().st_size} ".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
