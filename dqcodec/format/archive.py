"""The archive as bytes: many files in groups that can be read independently. docs/format.md
is its specification; the two must agree.

    archive      magic, version, models, groups, index blocks, models again, end
    frame        mark, archive id, number, lengths, header, CRC, body, CRC           frame.py
    group        a frame. header: members and heads; body: payloads                  archive_group.py
    index block  a frame without a body: places and names of groups                  index_block.py
    model        a frame: what changes another model                                 own_model.py

A group holds its archive id, its number and its names, and a CRC covers these and its images. So a reader can find the
groups without the index: it searches for marks, and accepts a frame if the CRC is right. Damage in one place costs at
most one group, and a name never leads to the image of another. The index saves time; it also gives the names of a
damaged group. After a whole group the search goes on at its end, because a verbatim file in it may be an archive. Many
groups may need one model; so each model is there twice, far apart.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from dqcodec.format.archive_group import PackedGroup
from dqcodec.format.container import CRC_BYTES, crc_field
from dqcodec.format.frame import GROUP_MARK, ID_BYTES, INDEX_MARK, MARK, MODEL_MARK, pack_frame
from dqcodec.format.index_block import BLOCK_BYTES, pack_block, pack_place
from dqcodec.format.own_model import OwnModel, pack_model

MAGIC = b"\x89DQA"
VERSION = 2
START = MAGIC + bytes([VERSION])
END_MARK = MARK + b"E"
_END_FIELDS = struct.Struct(f"<{ID_BYTES}sII")
END_BYTES = len(END_MARK) + _END_FIELDS.size + CRC_BYTES


def is_archive(start: bytes) -> bool:
    """Whether a file with this start is an archive."""
    return start.startswith(MAGIC)


class End(NamedTuple):
    """The end of an archive. groups: their number. index_bytes: of the index blocks and the models after them."""

    archive_id: bytes
    groups: int
    index_bytes: int

    def pack(self) -> bytes:
        """The end as bytes, END_BYTES of them."""
        end = END_MARK + _END_FIELDS.pack(*self)
        return end + crc_field(zlib.crc32(end))


def unpack_end(data: bytes) -> End | None:
    """The end of an archive; None if the bytes are something else, or its CRC is wrong."""
    if len(data) != END_BYTES:
        return None
    end = End(*_END_FIELDS.unpack_from(data, len(END_MARK)))
    return end if end.pack() == data else None


class Writer:
    """Writes an archive to a stream: `add` each group, then `finish`. Errors are those of the stream."""

    def __init__(self, stream: BinaryIO, models: Sequence[OwnModel] = (), *, state: bytes = b""):
        """Write the magic and the version.

        models: those that groups need and that are not shipped. state: what tells the archive from others that begin
        with the same group, such as all its names and times.
        """
        self._stream, self._state, self._id = stream, state, bytes(ID_BYTES)
        self._models = [(number, *pack_model(model)) for number, model in enumerate(models)]
        self._offset = len(START)  # of group 0
        self._places: list[tuple[int, bytes]] = []  # (length of the frame, the group's place in an index block)
        stream.write(START)

    def add(self, group: PackedGroup) -> None:
        """Write a group."""
        if not self._places:
            self._id = hashlib.sha256(group.header + group.body + self._state).digest()[:ID_BYTES]
            self._stream.write(self._model_frames())
            self._offset += len(self._model_frames())
        frame = pack_frame(GROUP_MARK, self._id, len(self._places), group.header, group.body)
        self._stream.write(frame)
        self._places.append((len(frame), pack_place(len(frame), (member.name for member in group.members))))

    def finish(self) -> None:
        """Write the index, the models again, and the end."""
        index = b"".join(self._blocks()) + (self._model_frames() if self._places else b"")
        self._stream.write(index + End(self._id, len(self._places), len(index)).pack())

    def _model_frames(self) -> bytes:
        return b"".join(pack_frame(MODEL_MARK, self._id, *each) for each in self._models)

    def _blocks(self) -> Iterator[bytes]:
        """The frames of the index blocks."""
        first, size, start, offset, groups = 0, 0, self._offset, self._offset, len(self._places)
        for stop, (length, place) in enumerate(self._places, 1):
            size, offset = size + len(place), offset + length
            if size > BLOCK_BYTES or stop == groups:
                places = [place for _, place in self._places[first:stop]]
                yield pack_frame(INDEX_MARK, self._id, first, pack_block(groups, start, places))
                first, size, start = stop, 0, offset
