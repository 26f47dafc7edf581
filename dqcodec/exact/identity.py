"""The id of a model file in .dqc files."""

import hashlib
from pathlib import Path


def file_id(path: Path) -> bytes:
    """The first 8 bytes of the SHA-256 of the file; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()[:8]
