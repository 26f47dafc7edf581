"""Groups for tests: an image of plain 8-bit samples as one layer, or a stored one."""

import dataclasses
import zlib

import pngs

from dqcodec import png
from dqcodec.format.container import MAGIC, VERSION, Group, sample_checksum
from dqcodec.format.head import Entry
from dqcodec.format.layer import Layer, Method


def group(pixels, method: Method, payload: bytes, model_id: bytes = b"", before=()) -> Group:
    """Of (H, W, C) uint8 pixels."""
    entry = Entry(pngs.plain(pixels, before).skeleton, rasters=((Layer(method, model_id),),))
    return Group((entry,), (payload,), sample_checksum([pixels]))


def stored(data: bytes) -> Group:
    return Group((Entry(),), (data,))


def reshaped(group: Group, height: int, width: int) -> Group:
    """The same, said to be of another size."""
    (entry,) = group.entries
    header = entry.skeleton.header._replace(width=width, height=height)
    entry = dataclasses.replace(entry, skeleton=png.Skeleton(header, entry.skeleton.parts))
    return dataclasses.replace(group, entries=(entry,))


def sealed(body: bytes, magic: bytes = MAGIC + bytes([VERSION])) -> bytes:
    """`body` behind magic and version, with a valid CRC."""
    data = magic + body
    return data + zlib.crc32(data).to_bytes(4, "little")
