"""The .dqc file as bytes. docs/format.md is its specification; the two must agree.

    file     magic, version, head, checksum, payloads, CRC-32     Group of one image: pack, unpack
    head     kind, size, chunks, recipe, split, layers            head.py: pack_heads, read_heads
    chunks   the PNG's other chunks, packed in a section          head.py: pack_chunks; section.py
    layer    method, and the id of its model                      layer.py: Layer
    payload  the code of one layer, or of a bundle                owners

A bundle is all layers of one method and one model; or, by a method without a model, of one number of channels.
Classical layers are alone. A stored image has one payload, its PNG file, and no layers.

A short file, of a small image, lacks the version; its check joins CRC-32 and checksum. So
only decoding shows its damage.

A reader checks magic and version first (FormatError), then the CRC, then the rest (CorruptError). It bounds each length
before it takes memory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dqcodec.base.errors import CorruptError, FormatError, UnsupportedImageError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import write_varint
from dqcodec.format.head import Entry, count_pixels, pack_heads, read_heads
from dqcodec.format.layer import TOGETHER
from dqcodec.png import MAX_PIXELS

MAGIC = b"\x89DQC"
VERSION = 1
CHECKSUM_BYTES = 8
CRC_BYTES = 4
FRAME_BYTES = len(MAGIC) + 1 + CRC_BYTES
SHORT_MAGIC = MAGIC[:3]
SHORT_CHECKSUM_BYTES = 4
_SHORT_SAVES = len(MAGIC) + 1 - len(SHORT_MAGIC) + CHECKSUM_BYTES  # bytes
MAX_SHORT_PIXELS = 1 << 16  # decoding must be quick, because only decoding shows damage
_IS_LONG = 64  # a bit of the byte after SHORT_MAGIC, set in the magic of other files


@dataclass(frozen=True)
class Group:
    """Images, the payloads of their layers in the order of the format, and the checksum of all images that are not
    stored. A short file has the first SHORT_CHECKSUM_BYTES of the checksum."""

    entries: tuple[Entry, ...]
    payloads: tuple[bytes, ...]
    checksum: bytes = b""

    @property
    def is_short(self) -> bool:
        """Whether it is, or becomes, a short file."""
        return len(self.checksum) == SHORT_CHECKSUM_BYTES

    def shortened(self) -> Group:
        """The group as a short file, if it may be one; else the group."""
        return (
            dataclasses.replace(self, checksum=self.checksum[:SHORT_CHECKSUM_BYTES])
            if may_be_short(self.entries[0])
            else self
        )

    def pack(self) -> bytes:
        """The .dqc file of a group of one image."""
        if self.is_short:
            body = SHORT_MAGIC + self.heads() + joined(self.payloads)
            return body + _check(body, self.checksum)
        body = b"".join((MAGIC, bytes([VERSION]), self.heads(), self.tail()))
        return body + crc_field(zlib.crc32(body))

    @classmethod
    def unpack(cls, data: bytes, max_pixels: int = MAX_PIXELS) -> Group:
        """The inverse of pack.

        Raises FormatError (not a .dqc file, or of another version), CorruptError (damaged), UnsupportedImageError (all
        frames together have more than `max_pixels`).
        """
        if is_short(data):
            return cls._unpack_short(data, max_pixels)
        start, end = len(MAGIC) + 1, len(data) - CRC_BYTES
        if data[: len(MAGIC)] != MAGIC:
            raise FormatError("not a .dqc file of one image")
        if end <= start:
            raise CorruptError("truncated .dqc file")
        if data[start - 1] != VERSION:
            raise FormatError(f".dqc file of version {data[start - 1]}, but this release reads version {VERSION} only")
        if crc_field(zlib.crc32(memoryview(data)[:end])) != data[end:]:
            raise CorruptError("damaged .dqc file (its CRC differs)")
        reader = Reader(data, start, end)
        return read_tail(read_heads(reader, 1, max_pixels), reader)

    @classmethod
    def _unpack_short(cls, data: bytes, max_pixels: int) -> Group:
        """Parse a short file. Damage of its bytes becomes a checksum that the samples do not match."""
        reader = Reader(data, len(SHORT_MAGIC), len(data) - CRC_BYTES)
        try:
            entries = read_heads(reader, 1, MAX_SHORT_PIXELS)
        except UnsupportedImageError as error:
            raise CorruptError("damaged .dqc file (it is short, but its image is large)") from error
        if count_pixels(entries) > max_pixels:
            raise UnsupportedImageError(f"the image has more than the limit of {max_pixels} pixels")
        group = read_payloads(entries, reader, _check(data[: reader.end], data[reader.end :]))
        if not may_be_short(entries[0]):
            raise CorruptError("malformed .dqc header")
        return group

    def heads(self) -> bytes:
        """The heads of all images, joined."""
        return pack_heads(self.entries)

    @property
    def bytes_around_heads(self) -> int:
        """The bytes of the file of one image besides its head."""
        if self.is_short:
            return len(SHORT_MAGIC) + len(joined(self.payloads)) + CRC_BYTES
        return len(MAGIC) + 1 + len(self.tail()) + CRC_BYTES

    def tail(self) -> bytes:
        """The checksum and the payloads as bytes."""
        return self.checksum + joined(self.payloads)


def joined(parts: Sequence[bytes]) -> bytes:
    """All parts, each except the last one after its length."""
    lengths = [*(write_varint(len(part)) for part in parts[:-1]), b""]
    return b"".join(each for pair in zip(lengths, parts) for each in pair)


def crc_field(crc: int) -> bytes:
    """A CRC-32 as it stands in a file."""
    return crc.to_bytes(CRC_BYTES, "little")


def is_short(start: bytes) -> bool:
    """Whether a file with this start is a short file."""
    return start.startswith(SHORT_MAGIC) and len(start) > len(SHORT_MAGIC) and not start[len(SHORT_MAGIC)] & _IS_LONG


def may_be_short(entry: Entry) -> bool:
    """Whether a short file may hold an image."""
    return bool(entry.skeleton) and not entry.recipe and entry.skeleton.area <= MAX_SHORT_PIXELS


def frame_bytes(entry: Entry) -> int:
    """The bytes of an image's file besides its head, checksum and payloads; negative if it is short."""
    return FRAME_BYTES - _SHORT_SAVES if may_be_short(entry) else FRAME_BYTES


def _check(body: bytes, checksum: bytes) -> bytes:
    """The last bytes of a short file, given the checksum; or the checksum, given the last bytes."""
    return crc_field(zlib.crc32(body) ^ int.from_bytes(checksum, "little"))


def read_tail(entries: tuple[Entry, ...], reader: Reader) -> Group:
    """Read checksum and payloads of images with these heads: the inverse of Group.tail. Raises CorruptError."""
    checksum = reader.take(CHECKSUM_BYTES) if any(entry.skeleton for entry in entries) else b""
    return read_payloads(entries, reader, checksum)


def read_payloads(entries: tuple[Entry, ...], reader: Reader, checksum: bytes) -> Group:
    """Read the payloads of images with these heads and this checksum. Raises CorruptError."""
    payloads = [reader.take(reader.varint()) for _ in owners(entries)[1:]]
    return Group(entries, (*payloads, reader.rest()), checksum)


def owners(entries: Sequence[Entry]) -> list[list[tuple[int, int]]]:
    """For each payload of a group, the layers in it, as (image, layer), counted from 0. A stored image counts as one
    layer."""
    alone, together = [], {}
    for image, entry in enumerate(entries):
        if entry.skeleton is None:
            alone.append([(image, 0)])
            continue
        for number, (layer, shape) in enumerate(zip(entry.layers, entry.shapes)):  # empty if the image repeats another
            if layer.method in TOGETHER:
                together.setdefault((layer.method, layer.model_id or shape[2]), []).append((image, number))
            else:
                alone.append([(image, number)])
    return [*alone, *together.values()]


def sample_checksum(rasters: Sequence[np.ndarray]) -> bytes:
    """The 8 bytes of the field checksum, for the samples (H, W, C), uint8 or uint16, of every raster."""
    digest = hashlib.sha256()
    for samples in rasters:
        height, width, channels = samples.shape
        digest.update(write_varint(width) + write_varint(height) + write_varint(channels))
        digest.update(np.ascontiguousarray(samples, samples.dtype.newbyteorder(">")))
    return digest.digest()[:CHECKSUM_BYTES]
