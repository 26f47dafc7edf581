"""What a model file is known by in .dqc files."""

import hashlib
from pathlib import Path


def file_id(path: Path) -> bytes:
    """The first 8 bytes of the SHA-256 of the file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()[:8]
