"""The target of .dqc files."""

from __future__ import annotations

import contextlib
import random
import zlib

from dqcodec import png
from dqcodec.base.errors import DqcodecError
from dqcodec.base.reader import Reader
from dqcodec.codec import codec
from dqcodec.format.container import Group, is_short, sample_checksum
from dqcodec.format.section import pack_section, read_section
from fuzzing.changes import changed
from fuzzing.errors import named_errors
from fuzzing.limits import MAX_PIXELS
from fuzzing.seeds import ONE_PIXEL, compressed, find_program, images, programs

_CHUNK_WORDS = (
    b"\0", b"@", b"A", b"BIJW", b"\x0b", b"\x16" + bytes(22), b"\x16" + ONE_PIXEL, b"\x95\x08" + bytes(8), b"\x01" + bytes(768),
    b"\x7d\x8c\x0a\6\x58\x85\3a\0\0hello", b"\x7e\x02\0\x10", b"\x7e\x06\x05\0\2\1\2\3", b"\x81\x03abc", b"\x82\x01\0", b"\x7fprIv", b"\xffIDAT\x01x",
)  # fmt: skip


class Target:
    """.dqc files: header, chunks, recipe, layers."""

    def __init__(self):
        self.seeds = [compressed(image, exact=number % 2 == 1) for number, image in enumerate(images()[::2])]
        self.seeds += [compressed(image, [program]) for image in images(model=True) for program in programs()]

    def change(self, data: bytes, rng: random.Random) -> bytes:
        at = 3 if is_short(data) else 5  # of the head
        if rng.random() < 0.5 and len(data) > 20:
            with contextlib.suppress(DqcodecError):  # the chunks within their section
                reader = Reader(data, at + 1, len(data) - 4)
                for _ in range(2):
                    reader.varint()
                start, packing = reader.position, data[at] >> 4 & 3 | data[at] >> 7 << 2
                raw = changed(read_section(reader, packing) if packing else b"", rng, _CHUNK_WORDS)
                packing, section = pack_section(raw)
                return _sealed(
                    data[:at]
                    + bytes([data[at] & ~176 | (packing & 3) << 4 | packing >> 2 << 7])
                    + data[at + 1 : start]
                    + section
                    + reader.rest(),
                    data,
                )
        body = changed(data[at:-4], rng) if rng.random() < 0.9 else changed(data[:-4], rng)[at:]
        return _sealed(data[:at] + body, data)

    def check(self, data: bytes) -> bool:
        info = named_errors(lambda: codec.info(data, max_pixels=MAX_PIXELS))
        found = named_errors(lambda: codec.decompress(data, find_program, max_pixels=MAX_PIXELS))
        if found is None:
            return False
        group = Group.unpack(data)
        assert info is not None and Group.unpack(group.pack()) == group
        if group.entries[0].skeleton is None:
            assert found[0] == group.payloads[0]
        else:
            image = png.read(found[0])
            assert image.skeleton is not None and group.checksum
            assert sample_checksum(image.rasters).startswith(group.checksum)
        return True


def _sealed(body: bytes, like: bytes) -> bytes:
    """`body` with a right CRC; `like` a short file, with the checksum of its samples."""
    checksum = zlib.crc32(like[:-4]) ^ int.from_bytes(like[-4:], "little") if is_short(like) else 0
    return body + (zlib.crc32(body) ^ checksum).to_bytes(4, "little")
