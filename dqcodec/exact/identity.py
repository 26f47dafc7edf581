"""The id of a model file in .dqc files."""

import functools
import hashlib
from pathlib import Path


def file_id(path: Path) -> bytes:
    """The first 8 bytes of the SHA-256 of the file; raises OSError."""
    status = path.stat()
    return _file_id(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _file_id(path: Path, size: int, mtime_ns: int) -> bytes:
    """The id of a file that has this size and time: a batch looks its models up for each file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()[:8]
