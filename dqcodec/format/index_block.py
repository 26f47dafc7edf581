"""An index block of an archive as bytes: places and names of some of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dqcodec.base.errors import CorruptError
from dqcodec.base.varint import write_varint
from dqcodec.format.archive_group import MAX_MEMBERS
from dqcodec.format.names import pack_names, read_name
from dqcodec.format.section import pack_tagged, read_tagged

BLOCK_BYTES = 1 << 15  # an index block ends once its list of groups is longer


@dataclass(frozen=True)
class Block:
    """An index block.

    groups: number of groups in the archive. offset: of the block's first group, bytes. places: (length in bytes, names)
    of each of the block's groups.
    """

    groups: int
    offset: int
    places: tuple[tuple[int, tuple[str, ...]], ...]


def pack_block(groups: int, offset: int, places: Sequence[bytes]) -> bytes:
    """The packed header of an index block. groups, offset: see Block. places: of each group, as bytes."""
    return pack_tagged(
        write_varint(groups) + offset.to_bytes(8, "little") + write_varint(len(places)) + b"".join(places)
    )


def unpack_block(header: bytes) -> Block:
    """The inverse of pack_block; raises CorruptError."""
    reader = read_tagged(header)
    groups, offset, places = reader.varint(), int.from_bytes(reader.take(8), "little"), []
    left, start = reader.varint(), reader.position
    while left and reader.position - start <= BLOCK_BYTES:
        size = reader.varint()
        names: list[str] = []
        while len(names) < MAX_MEMBERS and reader.data[reader.position : reader.position + 1] != b"\0":
            names.append(read_name(reader))
        if reader.take(1) != b"\0" or not names:
            raise CorruptError("malformed index of the archive")
        places.append((size, tuple(names)))
        left -= 1
    if left or reader.rest() or not places:
        raise CorruptError("malformed index of the archive")
    return Block(groups, offset, tuple(places))


def pack_place(length: int, names: Iterable[str]) -> bytes:
    """The place of a group in an index block."""
    return write_varint(length) + pack_names(names) + b"\0"
