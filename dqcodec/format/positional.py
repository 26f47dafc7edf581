"""A file of which several threads read places of their own."""

from __future__ import annotations

import io
import os
import threading
from typing import BinaryIO


class Positional:
    """A file that several threads can read at once, each at its own place. size: in bytes."""

    def __init__(self, file: BinaryIO):
        """file: seekable."""
        self._file, self._lock = file, threading.Lock()
        raw = getattr(file, "raw", file)
        self._has_pread = (
            isinstance(file, io.BufferedReader | io.FileIO) and isinstance(raw, io.FileIO) and hasattr(os, "pread")
        )
        with self._lock:
            self.size = file.seek(0, os.SEEK_END)

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on, or fewer at the end of the file; raises OSError."""
        count = max(0, min(count, self.size - offset))
        if not self._has_pread:
            with self._lock:
                self._file.seek(offset)
                return self._file.read(count)
        parts = []
        while count and (part := os.pread(self._file.fileno(), count, offset)):
            parts.append(part)
            offset, count = offset + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
