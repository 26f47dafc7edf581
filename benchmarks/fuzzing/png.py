"""The target of PNG files."""

from __future__ import annotations

import contextlib
import random
import struct
import zlib

import pngs

from dqcodec import png
from dqcodec.base.errors import UnsupportedImageError
from dqcodec.codec import codec
from dqcodec.png import exact
from fuzzing.changes import NUMBERS, changed
from fuzzing.errors import named_errors
from fuzzing.limits import MAX_INPUT, MAX_PIXELS
from fuzzing.seeds import ONE_PIXEL, find_program, images

_PNG_CHUNKS = (
    (b"tRNS", b"\0\x80"), (b"tRNS", b""), (b"tRNS", b"\1"), (b"PLTE", b"abcdef"), (b"PLTE", b""), (b"IDAT", b""),
    (b"IEND", b""), (b"acTL", struct.pack(">II", 1, 0)), (b"acTL", struct.pack(">II", 2, 0)), (b"fdAT", b""),
    (b"fcTL", bytes(4) + ONE_PIXEL), (b"fcTL", struct.pack(">IIIIIHHBB", 0, 5, 6, 0, 0, 1, 10, 0, 0)),
    (b"fdAT", b"\0\0\0\1x"), (b"gAMA", b"\0\0\xb1\x8f"), (b"prIv", b"private"), (b"CRIT", b"unknown"),
)  # fmt: skip


class Target:
    """PNG files: chunks, image data, animations; what is read is compressed and decompressed."""

    def __init__(self):
        self.seeds = images()

    def change(self, data: bytes, rng: random.Random) -> bytes:
        chunks, position = [], 8
        while position + 12 <= len(data):
            length, kind = struct.unpack_from(">I4s", data, position)
            chunks.append((kind, data[position + 8 : position + 8 + length]))
            position += 12 + length
        tail = data[position:]
        for _ in range(rng.choice((1, 1, 2, 3))):
            if not chunks:
                return changed(data, rng)
            place = rng.randrange(len(chunks))
            kind, body = chunks[place]
            match rng.randrange(9):
                case 0:
                    chunks[place] = kind, changed(body, rng)
                case 1:
                    chunks.insert(rng.randrange(len(chunks) + 1), (kind, body))
                case 2:
                    del chunks[place]
                case 3:
                    other = rng.randrange(len(chunks))
                    chunks[place], chunks[other] = chunks[other], chunks[place]
                case 4:
                    chunks.insert(place, rng.choice(_PNG_CHUNKS))
                case 5:
                    chunks[place : place + 1] = [(kind, body)] * rng.choice((2, 30, 300))
                case 6:  # the header's fields
                    if chunks[0][0] == b"IHDR" and len(chunks[0][1]) == 13:
                        fields = list(struct.unpack(">IIBBBBB", chunks[0][1]))
                        field = rng.randrange(7)
                        fields[field] = rng.choice(NUMBERS) if field < 2 else rng.randrange(17)
                        chunks[0] = b"IHDR", struct.pack(">IIBBBBB", *fields)
                case 7:  # image data, and how it is cut
                    stream = b"".join(body for kind, body in chunks if kind == b"IDAT")
                    with contextlib.suppress(zlib.error):
                        raw = zlib.decompress(stream)
                        raw = raw if rng.random() < 0.3 else changed(raw, rng)
                        setting = (
                            rng.randrange(10),
                            zlib.DEFLATED,
                            rng.randrange(9, 16),
                            rng.randrange(8, 10),
                            rng.randrange(5),
                        )
                        deflate = zlib.compressobj(*setting)
                        stream = deflate.compress(raw) + deflate.flush()
                    stream += rng.choice((b"", b"", b"x", b"x" * 300))
                    cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.choice((0, 0, 1, 2, 40))))
                    parts = [(b"IDAT", stream[a:b]) for a, b in zip([0, *cuts], [*cuts, len(stream)])]
                    first = next((n for n, (kind, _) in enumerate(chunks) if kind == b"IDAT"), place)
                    chunks = [each for each in chunks if each[0] != b"IDAT"]
                    chunks[first:first] = parts
                case 8:
                    tail = rng.choice((b"", b"x", changed(data, rng)[:99]))
        made = pngs.SIGNATURE + b"".join(pngs.chunk(*each) for each in chunks) + tail
        return changed(made, rng) if rng.random() < 0.02 else made[:MAX_INPUT]

    def check(self, data: bytes) -> bool:
        image = named_errors(lambda: png.read(data, MAX_PIXELS))
        named_errors(lambda: png.read(data, MAX_PIXELS, decode=False))
        if image is None:
            return False
        if image.skeleton is not None:
            assert png.read(png.write(image)).same(image.repacked()), (
                "an image changes when it is written and read again"
            )
            recipe = exact.find(data, image)
            assert recipe is None or exact.restore(image, recipe) == data
        if image.skeleton is None:
            with contextlib.suppress(UnsupportedImageError):
                codec.compress(data, strip=True)
                raise AssertionError("what is kept as it is is said to be stripped")
        for options in ({}, {"exact": True}, *([{"strip": True}] if image.skeleton else ())):
            packed, _ = codec.compress(data, **options, max_pixels=MAX_PIXELS)
            restored, _ = codec.decompress(packed, find_program)
            if options.get("exact"):
                assert restored == data
            elif image.skeleton is None:
                assert restored == data
            elif options.get("strip"):
                assert png.read(restored).same(image.stripped())
            else:
                assert restored == data or png.read(restored).same(image.repacked())
        return True
