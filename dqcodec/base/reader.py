"""Reads the fields of bytes one after the other, within bounds."""

from __future__ import annotations

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import read_varint

MAX_UNPACKED_BYTES = 1 << 28  # of all sections of a file, or of a group of an archive


class Reader:
    """Reads fields of data[position:end] one after the other.

    Attributes:
        unpacked: the bytes that sections may still unpack to.
    """

    def __init__(
        self,
        data: bytes,
        position: int = 0,
        end: int | None = None,
        *,
        unpacked: int = MAX_UNPACKED_BYTES,
        error: str = "a field of the .dqc file runs past its end",
    ) -> None:
        """position, end: where reading starts and must stop; by default all of the data. error: the message of the
        CorruptError for a field that runs past the end."""
        self.data, self.position, self.end = data, position, len(data) if end is None else end
        self.unpacked, self._error = unpacked, error

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start, self.position = self.position, self.position + count
        if self.position > self.end:
            raise CorruptError(self._error)
        return self.data[start : self.position]

    def byte(self) -> int:
        """The next byte."""
        return self.take(1)[0]

    def varint(self) -> int:
        """The next varint."""
        value, position = read_varint(self.data, self.position)
        self.take(position - self.position)
        return value

    def rest(self) -> bytes:
        """All remaining bytes."""
        return self.take(self.end - self.position)
