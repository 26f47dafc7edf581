"""Reads the fields of bytes one after the other, within bounds."""

from __future__ import annotations

from dataclasses import dataclass

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import read_varint

MAX_UNPACKED_BYTES = 1 << 28  # of all sections of a file, or of a group of an archive
MAX_PARTS = 1 << 18  # of all images of a group: its rasters and chunks


@dataclass
class Allowance:
    """What a file, or a group of an archive, may still take. All that reads it has the same one.

    unpacked: bytes that sections unpack to. parts: rasters and chunks of images.
    """

    unpacked: int = MAX_UNPACKED_BYTES
    parts: int = MAX_PARTS


class Reader:
    """Reads fields of data[position:end] one after the other.

    allowance: what the file, or the group, may still take.
    """

    def __init__(
        self,
        data: bytes,
        position: int = 0,
        end: int | None = None,
        *,
        allowance: Allowance | None = None,
        error: str = "a field of the .dqc file runs past its end",
    ) -> None:
        """position, end: where reading starts and must stop; by default all of the data. allowance: None for a new one.
        error: the message of the CorruptError for a field that runs past the end."""
        self.data, self.position, self.end = data, position, len(data) if end is None else end
        self.allowance, self._error = allowance or Allowance(), error

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
