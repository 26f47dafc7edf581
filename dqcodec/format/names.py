"""The names of an archive's files: which are allowed, which can be side by side, and as bytes."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader

MAX_NAME_BYTES = 1 << 12


def is_name(name: str) -> bool:
    """Whether a file of an archive can have the name: a relative path, its parts divided by slashes.

    Bytes that are not UTF-8 are in the name as Python has them from the system, by surrogateescape.
    """
    try:
        data = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    is_exact = data.decode("utf-8", "surrogateescape") == name
    return is_exact and len(data) <= MAX_NAME_BYTES and "\0" not in name and not {"", ".", ".."} & {*name.split("/")}


class Names:
    """Names that can be side by side in an archive: no two are equal, and none is a folder of another."""

    def __init__(self) -> None:
        """No names."""
        self._keys: list[str] = []  # sorted, with \0 for /, so that all of a folder follow its name

    def add(self, name: str) -> str | None:
        """Add a name and return None, or return a name that is in its way."""
        key = name.replace("/", "\0")
        place = bisect.bisect_right(self._keys, key)
        for other in self._keys[max(0, place - 1) : place + 1]:
            if f"{key}\0".startswith(f"{other}\0") or other.startswith(f"{key}\0"):
                return other.replace("\0", "/")
        self._keys.insert(place, key)
        return None


def clashes(names: Sequence[str]) -> set[int]:
    """The numbers of the names that equal an earlier name, or that have another name as a folder."""
    kept = Names()
    return {number for number in sorted(range(len(names)), key=names.__getitem__) if kept.add(names[number])}


def pack_names(names: Iterable[str]) -> bytes:
    """Names, a zero byte after each."""
    return b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)


def read_name(reader: Reader) -> str:
    """Read a name of pack_names. Raises CorruptError: no file can have it."""
    end = reader.data.find(b"\0", reader.position, reader.position + MAX_NAME_BYTES + 1)
    name = reader.take(max(end, reader.position) - reader.position).decode("utf-8", "surrogateescape")
    reader.take(1)
    if not is_name(name):
        raise CorruptError("the archive has a file with an invalid name")
    return name
