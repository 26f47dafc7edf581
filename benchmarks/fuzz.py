"""Fuzz what reads files from elsewhere: any broken input gives the right thing or an error with a name.

    python benchmarks/fuzz.py TARGET --minutes N [--seed S] [--corpus DIR] [--findings DIR] [--bounds]

Seeds are made here; those in --corpus are taken too. Every input is a seed, changed: bits, numbers, cuts, splices,
repeats, and parts of a format; checksums and CRCs are made anew, so that deep code is reached. An input is a finding if
reading it

    - raises what is no DqcodecError, or an error of many lines;
    - gives an image that does not match its checksum, or does not survive being written and read again;
    - takes more than --seconds of one processor, or more than --mebibytes beside what was there before;
    - prints or warns, or ends the process.

With atheris installed, what an input reaches in Python code guides the choice of the next seed (--plain does without).
--bounds has compiled loops check their indices (slower). Findings are files, each with a .txt of what happened; then
the exit code is 1. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import io
import json
import math
import mmap
import os
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests")]
_MAX_PIXELS = 1 << 14
_MAX_INPUT = 1 << 20  # bytes
_NUMBERS = (
    0, 1, 2, 3, 7, 8, 16, 31, 32, 63, 64, 127, 128, 255, 256, 257, 1 << 13, 1 << 16, 1 << 20, 1 << 24, (1 << 31) - 1,
    1 << 31, (1 << 32) - 1,
)  # fmt: skip


class TimeLimit(BaseException):
    """An input takes too long."""


# Changes of bytes.


def changed(data: bytes, rng: random.Random, words: tuple[bytes, ...] = ()) -> bytes:
    """`data` after one to some changes."""
    for _ in range(1 << rng.randrange(4)):
        data = rng.choice(_CHANGES)(data[:_MAX_INPUT], rng, words)
    return data[:_MAX_INPUT]


def _flip(data, rng, words):
    return _at(data, rng, lambda byte: byte ^ 1 << rng.randrange(8))


def _byte(data, rng, words):
    return _at(
        data, rng, lambda byte: rng.choice((0, 1, 127, 128, 255, byte + 1 & 255, byte - 1 & 255, rng.randrange(256)))
    )


def _number(data, rng, words):
    place, value = rng.randrange(len(data) + 1), rng.choice(_NUMBERS)
    form = rng.choice(
        [_varint(value), *(value.to_bytes(4, order) for order in ("little", "big")), bytes([value & 255])]
    )
    return data[:place] + form + data[place + rng.choice((0, len(form))) :]


def _cut(data, rng, words):
    start, stop = _span(data, rng)
    return data[:start] + data[stop:]


def _truncate(data, rng, words):
    return data[: rng.randrange(len(data) + 1)]


def _copy(data, rng, words):
    (start, stop), place = _span(data, rng), rng.randrange(len(data) + 1)
    return data[:place] + data[start:stop] + data[place:]


def _repeat(data, rng, words):
    start, stop = _span(data, rng)
    times = rng.choice((2, 3, 17, 300)) if stop - start > 64 else rng.choice((2, 5, 40, 1000))
    times = min(times, 2 + _MAX_INPUT // max(1, stop - start))
    return data[:start] + data[start:stop] * times + data[stop:]


def _word(data, rng, words):
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice(words or (b"\0", b"\xff")) + data[place:]


_CHANGES = (_flip, _flip, _byte, _byte, _number, _number, _cut, _truncate, _copy, _repeat, _word)


def _at(data: bytes, rng: random.Random, change: Callable[[int], int]) -> bytes:
    if not data:
        return data
    place = rng.randrange(min(len(data), 64) if rng.random() < 0.5 else len(data))
    return data[:place] + bytes([change(data[place])]) + data[place + 1 :]


def _span(data: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 30, 200, len(data))))


def _varint(value: int) -> bytes:
    from dqcodec.base.varint import write_varint

    return write_varint(value)


def _sealed(body: bytes, like: bytes) -> bytes:
    """`body` with a right CRC; `like` a short file, with the checksum of its samples."""
    from dqcodec.format.container import is_short

    checksum = zlib.crc32(like[:-4]) ^ int.from_bytes(like[-4:], "little") if is_short(like) else 0
    return body + (zlib.crc32(body) ^ checksum).to_bytes(4, "little")


# Targets: each has seeds, changes an input, and checks one; errors of `check` are findings.


class Container:
    """.dqc files: header, chunks, recipe, layers."""

    def __init__(self):
        self.seeds = [_compress(image, exact=number % 2 == 1) for number, image in enumerate(images()[::2])]
        self.seeds += [_compress(image, [program]) for image in images(model=True) for program in programs()]

    def change(self, data: bytes, rng: random.Random) -> bytes:
        from dqcodec.base.errors import DqcodecError
        from dqcodec.format.container import is_short
        from dqcodec.format.reader import Reader
        from dqcodec.format.section import pack_section, read_section

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
        from dqcodec import png
        from dqcodec.codec import codec
        from dqcodec.format.container import Group, sample_checksum

        told = _named_errors(lambda: codec.info(data, max_pixels=_MAX_PIXELS))
        found = _named_errors(lambda: codec.decompress(data, find_program, max_pixels=_MAX_PIXELS))
        if found is None:
            return False
        group = Group.unpack(data)
        assert told is not None and Group.unpack(group.pack()) == group
        if group.entries[0].skeleton is None:
            assert found[0] == group.payloads[0]
        else:
            image = png.read(found[0])
            assert image.skeleton is not None and group.checksum
            assert sample_checksum(image.rasters).startswith(group.checksum)
        return True


class Archive:
    """Archives of many files: index, groups, models, headers, bodies; groups that are moved, repeated, swapped; joined archives.

    Only names that the seeds have may lead to other bytes than theirs: whoever forges a group with right checksums may have it so.
    """

    def __init__(self):
        from dqcodec.codec import archive as mapping
        from dqcodec.codec import codec
        from dqcodec.format import archive
        from dqcodec.format.frame import read_frame
        from dqcodec.format.positional import Positional

        self.seeds, self.files = [], {}
        for size in (1, 3, 50):
            stream = io.BytesIO()
            writer, files = archive.Writer(stream), images()[::4]
            for start in range(0, len(files), size):
                sources = [codec.read(each, exact=True) for each in files[start : start + size]]
                note = b"file %d " % start * 9
                names = [f"{size}/{start}/{number}.png" for number in range(len(sources))]
                members = [
                    archive.Member(name, start * 10**9 + number)
                    for number, name in enumerate([*names, f"{size}/{start}/note", f"{size}/{start}/again"])
                ]
                contents = (*range(len(sources) + 1), 0)
                parts = codec.encode(sources, ()).group, archive.Verbatim(note)
                writer.add(archive.pack_group(archive.ArchiveGroup(tuple(members), contents, parts)))
                self.files |= dict(zip(names, files[start : start + size])) | {
                    members[-2].name: note,
                    members[-1].name: files[start],
                }
            writer.finish()
            self.seeds.append(stream.getvalue())
        self.seeds.append((_ROOT / "tests" / "golden" / "archive-model.dqc").read_bytes())
        self.files |= dict(mapping.Archive(io.BytesIO(self.seeds[-1]), find_program))
        self.frames, self.heads = {}, set()  # frame -> header, of all seeds; frames without their bodies
        for piece in (piece for seed in self.seeds for piece in _frames(seed)):
            if frame := read_frame(Positional(io.BytesIO(piece)), 0):
                self.frames[piece[: frame.end]] = frame.header
                self.heads.add(piece[: frame.body_offset])

    def change(self, data: bytes, rng: random.Random) -> bytes:
        kind = rng.randrange(4)
        if kind == 0 or len(data) < 20:
            return changed(data, rng, (b"\x89DQG", b"\x89DQI", b"\x89DQM", b"\x89DQE", data[9:13]))
        frames = _frames(data)
        if kind == 1:
            for _ in range(rng.choice((1, 1, 2, 4))):
                self._move(frames, rng)
            return b"".join(frames)[:_MAX_INPUT]
        return self._forged(frames, rng, within=kind == 2)

    def _move(self, frames: list[bytes], rng: random.Random) -> None:
        one, two = rng.randrange(len(frames)), rng.randrange(len(frames))
        match rng.randrange(5):
            case 0:
                frames[one], frames[two] = frames[two], frames[one]
            case 1:
                frames.insert(two, frames[one])
            case 2:
                frames.insert(two, frames.pop(one))
            case 3:
                frames[one] = changed(frames[one], rng)
            case _:
                frames += _frames(rng.choice(self.seeds))

    def _forged(self, frames: list[bytes], rng: random.Random, within: bool) -> bytes:
        """A header or a body changed under right checksums."""
        from dqcodec.base.errors import DqcodecError
        from dqcodec.format.frame import pack_frame, read_frame
        from dqcodec.format.positional import Positional
        from dqcodec.format.reader import Reader
        from dqcodec.format.section import pack_section, read_section

        places = [place for place, frame in enumerate(frames) if frame[:4] in (b"\x89DQG", b"\x89DQI", b"\x89DQM")]
        with contextlib.suppress(DqcodecError, IndexError):
            place = rng.choice(places)
            file = Positional(io.BytesIO(frames[place]))
            frame = read_frame(file, 0)
            if frame is None:
                return b"".join(frames)
            header, body = frame.header, file.read(frame.body_offset, frame.body_bytes)
            if body and not within:
                body = changed(body, rng) or b"x"
            else:
                reader = Reader(header, 1, len(header))
                packing, section = pack_section(
                    changed(read_section(reader, header[0]), rng, (b"../", b"/", b"a/" * 999, b"..\0", b".\0"))
                )
                header = bytes([packing]) + section
            frames[place] = pack_frame(frame.mark, frame.archive_id, frame.number, header, body)
        return b"".join(frames)[:_MAX_INPUT]

    def check(self, data: bytes) -> bool:
        from dqcodec.codec import archive

        is_forged = _is_forged(data, self.heads, self.frames)
        good = False
        for salvage in (False, True):
            opened = _named_errors(
                lambda: archive.Archive(io.BytesIO(data), find_program, max_pixels=_MAX_PIXELS, salvage=salvage)  # noqa: B023
            )
            for number, name in enumerate(opened or ()):
                assert name and not set(name.split("/")) & {"", ".", ".."}
                if number < 20:
                    found = _named_errors(lambda: opened[name])  # noqa: B023
                    good |= found is not None
                    assert is_forged or found is None or name not in self.files or found == self.files[name], (
                        f"{name} gives other bytes"
                    )
            if opened is not None and salvage and not is_forged:
                self._check_losses(opened, data)
        return good

    def _check_losses(self, opened, data: bytes) -> None:
        """Of groups that are whole in the data, nothing is lost."""
        from dqcodec.format.archive import unpack_members

        names = {
            name.removeprefix(name.split("/")[0] + "/") if name.startswith("archive-") else name for name in opened
        }
        for frame, header in self.frames.items():
            if frame in data and frame.startswith(b"\x89DQG"):
                assert {member.name for member in unpack_members(header)} <= names, "a whole group is not salvaged"


def _frames(data: bytes) -> list[bytes]:
    """An archive, cut where its groups, index blocks and end begin."""
    from dqcodec.format.frame import read_frame
    from dqcodec.format.positional import Positional

    file, places, position = Positional(io.BytesIO(data)), [0], 0
    while (position := data.find(b"\x89DQ", position)) >= 0:
        frame = read_frame(file, position)
        if frame or data[position : position + 4] == b"\x89DQE":
            places.append(position)
        position = min(frame.end, len(data)) if frame else position + 1
    return [data[start:stop] for start, stop in zip(places, [*places[1:], len(data)])]


def _is_forged(data: bytes, heads: set[bytes], frames: dict[bytes, bytes]) -> bool:
    """Whether something in the data has a right checksum, but is not of a seed."""
    from dqcodec.format.frame import read_frame
    from dqcodec.format.positional import Positional

    file, position = Positional(io.BytesIO(data)), -1
    while (position := data.find(b"\x89DQ", position + 1)) >= 0:
        frame = read_frame(file, position)
        if frame and data[position : frame.body_offset] not in heads:
            return True
        if frame and frame.body_bytes:
            body = data[frame.body_offset : frame.end]
            if (
                zlib.crc32(body[:-4], frame.crc).to_bytes(4, "little") == body[-4:]
                and data[position : frame.end] not in frames
            ):
                return True
    return False


class Model:
    """Model files: description and tensors; what is loaded must code exactly."""

    def __init__(self):
        import numpy as np

        self.seeds = [path.read_bytes() for path in model_paths()]
        ramp = np.indices((20, 26)).sum(0)[..., None] * 4 + np.arange(3) * 30
        noise = np.random.default_rng(0).integers(-9, 9, ramp.shape)
        self.pixels = (ramp + noise).clip(0, 255).astype(np.uint8)
        self.path = Path(tempfile.mkdtemp(prefix="dqcodec-fuzz-")) / "model.safetensors"

    def change(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.1:
            return changed(data, rng)
        length = int.from_bytes(data[:8], "little")
        header, body = data[8 : 8 + length], data[8 + length :]
        if rng.random() < 0.1:
            header = changed(header, rng)
            return len(header).to_bytes(8, "little") + header + body
        parsed = json.loads(header)
        tensors = {name: [each["dtype"], each["shape"], body[slice(*each["data_offsets"])]]
                   for name, each in parsed.items() if name != "__metadata__"}  # fmt: skip
        description = json.loads(parsed["__metadata__"]["dqcodec"])
        for _ in range(rng.choice((1, 1, 2, 4))):
            if rng.random() < 0.25:
                description[rng.choice([*description, "other"])] = rng.choice(_VALUES)
            elif description.get("learning") and rng.random() < 0.25:
                self._change_lessons(description["learning"], rng)
            else:
                self._change_tensors(tensors, rng)
        return self._packed(json.dumps(description), tensors)

    @staticmethod
    def _change_lessons(lessons: list[list[int]], rng: random.Random) -> None:
        """How layers of the network learn, and how many do."""
        place = rng.randrange(len(lessons))
        match rng.randrange(4):
            case 0 | 1:
                lessons[place][rng.randrange(3)] = rng.choice((-33, -32, -8, -1, 0, 1, 3, 8, 16, 31, 32, 33))
            case 2:
                lessons[place:place] = [[*lessons[place]] for _ in range(rng.choice((1, 1, 90)))]
            case 3:
                del lessons[place]

    def _change_tensors(self, tensors: dict[str, list], rng: random.Random) -> None:
        name = rng.choice(sorted(tensors))
        dtype, shape, raw = tensors[name]
        size = {"I8": 1, "U8": 1, "I16": 2, "I32": 4, "I64": 8}.get(dtype, 8)
        match rng.randrange(7):
            case 0 | 1 | 2:  # a number, or all of them
                value = rng.choice([*_NUMBERS, (1 << 53) - 1, 1 << 17, 1 << 38, rng.randrange(1 << 16)]) * rng.choice(
                    (1, -1)
                )
                code = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
                places = range(len(raw) // size)
                for place in places if rng.random() < 0.2 else [rng.choice(places)]:
                    raw = raw[: place * size] + code + raw[(place + 1) * size :]
                    tensors[name][2] = raw
                    if len(raw) > 20000:
                        break
            case 3:
                tensors[name][1] = rng.choice(
                    [[1, *shape], [*shape, 1], shape[::-1], [len(raw) // size], shape[1:], [0]]
                )
                if tensors[name][1] == shape[1:] and shape:
                    tensors[name][2] = raw[: len(raw) // shape[0]]
                elif tensors[name][1] == [0]:
                    tensors[name][2] = b""
            case 4:  # fewer or more of them
                if shape:
                    row, count = len(raw) // shape[0], rng.choice([1, shape[0] - 1, shape[0] + 1, 2 * shape[0]])
                    tensors[name][1:] = [count, *shape[1:]], (raw * 2 + raw[:row])[: count * row]
            case 5:
                other = rng.choice(sorted(tensors))
                tensors[name], tensors[other] = tensors[other], tensors[name]
            case 6:
                if rng.random() < 0.5:
                    del tensors[name]
                else:
                    tensors[name][0] = rng.choice(
                        ["BOOL", "U8", "I8", "F8_E5M2", "I16", "BF16", "F16", "U32", "F32", "U64"]
                    )

    @staticmethod
    def _packed(description: str, tensors: dict[str, list]) -> bytes:
        header, position = {"__metadata__": {"dqcodec": description}}, 0
        for name, (dtype, shape, raw) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + len(raw)]}
            position += len(raw)
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + b"".join(raw for *_, raw in tensors.values())

    def check(self, data: bytes) -> bool:
        import numpy as np

        from dqcodec.codec.suitability import takes_model
        from dqcodec.exact.program import load_program
        from dqcodec.format.layer import Layer
        from dqcodec.methods import table

        self.path.write_bytes(data)
        program = _named_errors(lambda: load_program(self.path))
        if program is None:
            return False
        pixels = self.pixels[..., : program.channels] >> 8 - program.bits
        for row in table.rows_of(program) if takes_model(pixels) and program.fits(pixels.shape) else ():
            payload = _named_errors(lambda: table.encode(row.number, [pixels], program))
            if payload:
                layer = Layer(row.number, program.id)
                (decoded,) = table.decode(payload.data, layer, [pixels.shape], lambda _: program)
                assert np.array_equal(decoded, pixels), "what the program codes is not what it decodes"
        return True


class Png:
    """PNG files: chunks, image data, animations; what is read is compressed and decompressed."""

    def __init__(self):
        self.seeds = images()

    def change(self, data: bytes, rng: random.Random) -> bytes:
        import pngs

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
                        fields[field] = rng.choice(_NUMBERS) if field < 2 else rng.randrange(17)
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
        return changed(made, rng) if rng.random() < 0.02 else made[:_MAX_INPUT]

    def check(self, data: bytes) -> bool:
        from dqcodec import png
        from dqcodec.base.errors import UnsupportedImageError
        from dqcodec.codec import codec
        from dqcodec.png import exact

        image = _named_errors(lambda: png.read(data, _MAX_PIXELS))
        _named_errors(lambda: png.read(data, _MAX_PIXELS, decode=False))
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
            packed, _ = codec.compress(data, **options, max_pixels=_MAX_PIXELS)
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


class Payloads:
    """Payloads of every method, in files whose checksum is that of what they decode to. First a byte: which setting."""

    def __init__(self):
        import numpy as np

        from dqcodec.exact.jpeg.recovery import recover
        from dqcodec.format.layer import Layer, Method
        from dqcodec.methods import classical, jpeg, table

        rng = np.random.default_rng(1)

        def layers(*shapes):
            ramps = [np.indices(shape).sum(0) * 3 + rng.integers(0, 20, shape) for shape in shapes]
            return [ramp.clip(0, 255).astype(np.uint8) for ramp in ramps]

        self.settings, self.seeds = [], []
        for channels in (1, 2, 3, 4):
            for several in (layers((9, 11, channels), (3, 1, channels)), layers((1, 1, channels))):
                for method in (Method.MIXING, Method.PIXEL_MIXING, Method.TRAINED_MIXING):
                    self._add(Layer(method), *several, payload=table.encode(method, several).data)
                deep = [pixels.astype(np.uint16) * 37 for pixels in several]
                self._add(Layer(Method.EXPERTS), *deep, payload=table.encode(Method.EXPERTS, deep).data)
                if channels in (1, 3):
                    self._add(Layer(Method.JPEG), *several, payload=table.encode(Method.JPEG, several).data)
                    whole = [recover(np.pad(pixels, ((2, 0), (3, 0), (0, 0)))) for pixels in several]
                    cut = [found._replace(offset=(2, 3)) for found in whole]
                    self._add(Layer(Method.JPEG), *several, payload=jpeg.encode_as(several, cut).data)
            tiled = np.tile(layers((17, 19, channels))[0], (6, 5, 1))  # it has periods
            self._add(Layer(Method.PIXEL_MIXING), tiled, payload=table.encode(Method.PIXEL_MIXING, [tiled]).data)
            self._add_animation(channels)
            for pixels in (*layers((21, 30, channels)), layers((3, 2050, channels))[0] & 8):
                self._add(Layer(Method.CLASSICAL), pixels, payload=classical.encode([pixels], quick=True).data)
        for program in programs():
            several = layers((20, 26, program.channels))
            small = layers((1, 30, program.channels), (40, 2, program.channels), (1, 1, program.channels))
            several += [pixels for pixels in small if program.fits(pixels.shape)]
            for row in table.rows_of(program):
                payload = table.encode(row.number, several, program).data
                self._add(Layer(row.number, program.id), *several, payload=payload)

    def _add(self, layer, *arrays, payload: bytes) -> None:
        from dqcodec import png

        self.seeds.append(bytes([len(self.settings)]) + payload)
        self.settings.append((layer, [png.plain(pixels).skeleton for pixels in arrays]))

    def _add_animation(self, channels: int) -> None:
        """The frames of an animation, blended and disposed of in every way."""
        from dqcodec.codec.source import read
        from dqcodec.format.layer import Layer, Method
        from dqcodec.format.split import Split, Step
        from dqcodec.methods import table

        name = {1: "gray", 2: "alpha", 3: "rgb", 4: "rgba"}[channels]
        source = read((_ROOT / "tests" / "golden" / "tiny" / f"animation-{name}.png").read_bytes())
        split = Split(Step.PLAIN)
        payload = table.encode(Method.ANIMATION, source.layers(split), spots=source.spots(split, 0)).data
        self.seeds.append(bytes([len(self.settings)]) + payload)
        self.settings.append((Layer(Method.ANIMATION), [source.image.skeleton]))

    def change(self, data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.05:
            return bytes([rng.randrange(len(self.settings))]) + data[1:]
        return data[:1] + changed(data[1:], rng, (b"\xff" * 40, bytes(40)))

    def check(self, data: bytes) -> bool:
        import numpy as np

        from dqcodec.codec import codec
        from dqcodec.format.container import Group, sample_checksum
        from dqcodec.format.head import Entry
        from dqcodec.format.layer import Method
        from dqcodec.format.split import Split, Step
        from dqcodec.methods import table

        layer, skeletons = self.settings[data[0] % len(self.settings)] if data else self.settings[0]
        is_deep = layer.method == Method.EXPERTS
        dtype, split = (np.uint16, Split(Step.WHOLE)) if is_deep else (np.uint8, Split(Step.PLAIN))
        entries = tuple(Entry(skeleton, split, ((layer,),) * len(skeleton.sizes)) for skeleton in skeletons)
        shapes = [(*size, skeleton.header.samples) for skeleton in skeletons for size in skeleton.sizes]
        spots = [spot for number, entry in enumerate(entries) for spot in entry.spots(number)]
        arrays = _named_errors(lambda: table.decode(data[1:], layer, shapes, find_program, spots))
        if arrays is None:
            return False
        assert [(pixels.shape, pixels.dtype) for pixels in arrays] == [(shape, dtype) for shape in shapes]
        group = Group(entries, (data[1:],), sample_checksum(arrays))
        rasters = [raster for decoded in codec.decode(group, find_program) for raster in decoded.rasters]
        assert all(np.array_equal(*pair) for pair in zip(rasters, arrays, strict=True))
        return True


TARGETS = {"container": Container, "archive": Archive, "model": Model, "png": Png, "payloads": Payloads}


def mutated(target, data: bytes, rng: random.Random) -> bytes:
    """An input as the target changes it, or, where it is broken beyond its structure, as any bytes are."""
    try:
        return target.change(data, rng)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error):
        return changed(data, rng)


# What the targets are made of.


@functools.cache
def images(model: bool = False) -> list[bytes]:
    """PNG files of all kinds; `model`: such as models code."""
    import numpy as np
    import pngs

    rng = np.random.default_rng(0)
    ramp = np.indices((20, 26)).sum(0)[..., None] * 4 + np.arange(3) * 30 + rng.integers(0, 9, (20, 26, 3))
    if model:
        return [pngs.write(ramp)]
    text, colors = pngs.chunk(b"tEXt", b"Comment\0hello"), rng.integers(0, 3, (9, 7, 1))
    files = [pngs.random(rng, 5, 6, *kind, before=text if kind[1] == 8 else b"") for kind in pngs.KINDS]
    files += [pngs.random(rng, 9, 11, 2, 8, interlace=True), pngs.random(rng, 3, 2, 0, 2, interlace=True, after=text)]
    files += [pngs.write(colors, 8, 3, before=pngs.chunk(b"tRNS", b"\0\x80")), pngs.write(ramp, idats=3)]
    files += [pngs.write((colors.repeat(4, 2) * 257), 16), pngs.write(colors * 0 + np.arange(7)[:, None] * 900, 16)]
    few = (colors * 40).repeat(6, 0).repeat(6, 1)  # whose views have indices of colours, and fewer channels
    files += [pngs.write(np.concatenate([few, few // 2 + 9, few, 0 * few + 255], axis=2))]
    packed = pngs.chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"a text, and again a text " * 5))
    files += [pngs.write(colors, before=packed)]  # whose chunk is kept inflated
    frames = [((1, 2), rng.integers(0, 256, (3, 4, 3))), ((0, 0), rng.integers(0, 256, (6, 7, 3)))]
    files += [
        pngs.animated(rng.integers(0, 256, (6, 7, 3)), frames, is_first=first, before=text) for first in (True, False)
    ]
    order = rng.permutation(256)  # of grays: a palette that is best coded by way of its colours
    palette = pngs.chunk(b"PLTE", bytes(np.argsort(order).astype(np.uint8).repeat(3))) + pngs.chunk(
        b"tRNS", b"\x80" * 3
    )
    shades = order[np.indices((48, 40)).sum(0) * 2 + rng.integers(0, 3, (48, 40))][..., None]
    data = b"".join(pngs.chunk(b"IDAT", piece) for piece in pngs.pieces(shades))
    files.append(pngs.SIGNATURE + pngs.header(40, 48, 8, 3) + palette + data + pngs.chunk(b"IEND"))
    return [*files, pngs.write(ramp[:3, :3], tail=b"more")]


def model_paths() -> list[Path]:
    return sorted((_ROOT / "tests" / "golden").glob("*.safetensors"))


@functools.cache
def programs() -> list:
    from dqcodec.exact.program import load_program

    return list(map(load_program, model_paths()))


def find_program(model_id: bytes):
    from dqcodec.base.errors import UnknownModelError

    for program in programs():
        if program.id == model_id:
            return program
    raise UnknownModelError("no such model")


def _compress(image: bytes, programs: Sequence = (), *, exact: bool = False) -> bytes:
    from dqcodec.codec import codec

    return codec.compress(image, programs, exact=exact)[0]


def _named_errors(read: Callable):
    """Its result; None where it raises a DqcodecError, which must have one line, and not hide an index out of bounds."""
    from dqcodec.base.errors import DqcodecError

    try:
        return read()
    except DqcodecError as error:
        assert "\n" not in str(error)
        if isinstance(error.__cause__, (ArithmeticError, LookupError)):
            raise error.__cause__
        return None


_ONE_PIXEL = struct.pack(">IIIIHHBB", 1, 1, 0, 0, 1, 10, 0, 0)
_CHUNK_WORDS = (
    b"\0", b"@", b"A", b"BIJW", b"\x0b", b"\x16" + bytes(22), b"\x16" + _ONE_PIXEL, b"\x95\x08" + bytes(8), b"\x01" + bytes(768),
    b"\x7d\x8c\x0a\6\x58\x85\3a\0\0hello", b"\x7e\x02\0\x10", b"\x7e\x06\x05\0\2\1\2\3", b"\x81\x03abc", b"\x82\x01\0", b"\x7fprIv", b"\xffIDAT\x01x",
)  # fmt: skip
_PNG_CHUNKS = (
    (b"tRNS", b"\0\x80"), (b"tRNS", b""), (b"tRNS", b"\1"), (b"PLTE", b"abcdef"), (b"PLTE", b""), (b"IDAT", b""),
    (b"IEND", b""), (b"acTL", struct.pack(">II", 1, 0)), (b"acTL", struct.pack(">II", 2, 0)), (b"fdAT", b""),
    (b"fcTL", bytes(4) + _ONE_PIXEL), (b"fcTL", struct.pack(">IIIIIHHBB", 0, 5, 6, 0, 0, 1, 10, 0, 0)),
    (b"fdAT", b"\0\0\0\1x"), (b"gAMA", b"\0\0\xb1\x8f"), (b"prIv", b"private"), (b"CRIT", b"unknown"),
)  # fmt: skip
_VALUES = (
    None, True, False, [], {}, "", "x", "flow", "autoregressive", "uniform", "gaussian", "ard", "bipartite", 0, 1, 2, 3,
    8, 9, 14, 16, 20, 64, 255, 1 << 12, 1 << 16, 1 << 40, 10**30, -1, -(10**9), 1.5, 3.0, float("nan"), float("inf"),
    [1], [1] * 9, [8, 8], [1 << 40] * 2, [None], "\ud800", [[]] * 3,
)  # fmt: skip


# The run: a process that is watched by another, which sees it end or hang.


class Shared:
    """What both processes see: how many inputs were tried, how many were good, the one at hand, and when to end.

    The time counts from the moment at which the seeds are checked and all loops compiled.
    """

    _FIELDS = struct.Struct("<qqq")
    _END = struct.Struct("<d")

    def __init__(self):
        self._memory = mmap.mmap(-1, _MAX_INPUT * 4 + self._FIELDS.size)
        self._time = mmap.mmap(-1, self._END.size)

    @property
    def end(self) -> float:
        """The time at which to end; infinite before the seeds are checked."""
        return self._END.unpack_from(self._time)[0] or math.inf

    def start(self, seconds: float) -> None:
        """Set the end, unless an earlier process has."""
        if self.end == math.inf:
            self._END.pack_into(self._time, 0, time.time() + seconds)

    @property
    def numbers(self) -> tuple[int, int, int]:
        return self._FIELDS.unpack_from(self._memory)

    @property
    def data(self) -> bytes:
        size = self._FIELDS.size
        return self._memory[size : size + self.numbers[2]]

    def begin(self, data: bytes) -> None:
        tried, good, _ = self.numbers
        self._memory[self._FIELDS.size : self._FIELDS.size + len(data)] = data
        self._FIELDS.pack_into(self._memory, 0, tried + 1, good, len(data))

    def count(self) -> None:
        tried, good, length = self.numbers
        self._FIELDS.pack_into(self._memory, 0, tried, good + 1, length)


class Fuzzer:
    def __init__(self, arguments: argparse.Namespace, shared: Shared):
        self.arguments, self.shared, self.folder = arguments, shared, arguments.findings
        self.target = TARGETS[arguments.target]()
        self.printed = io.StringIO()

    def warm(self) -> None:
        """Check the seeds: they must be good, and loops are compiled."""
        for data in self.target.seeds:
            assert self.target.check(data), "a seed is not good"
        corpus = self.arguments.corpus
        self.target.seeds += [path.read_bytes() for path in sorted(corpus.iterdir())] if corpus else []

    def test(self, data: bytes) -> None:
        """One input; what goes wrong becomes a finding."""
        self.shared.begin(data)
        Path("/proc/self/clear_refs").write_text("5")
        before, error = _peak(), None
        signal.setitimer(signal.ITIMER_PROF, self.arguments.seconds)
        try:
            if self.target.check(data):
                self.shared.count()
        except BaseException as caught:
            error = caught
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if isinstance(error, KeyboardInterrupt):
            raise error
        if error is not None:
            self.keep(data, _place(error), "".join(traceback.format_exception(error)))
        elif _peak() - before > self.arguments.mebibytes << 20:
            self.keep(data, "memory", f"{_peak() - before >> 20} MiB")
        elif self.printed.tell():
            self.keep(data, "printed", self.printed.getvalue())
            self.printed.seek(0), self.printed.truncate()

    def keep(self, data: bytes, name: str, told: str) -> None:
        """The smallest input of each name is kept."""
        path = self.folder / f"{self.arguments.target}-{name}.bin"
        if not path.exists() or path.stat().st_size > len(data):
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(f"{len(data)} bytes: {data[:200].hex()}\n\n{told}")

    def run(self, end: float) -> None:
        sys.stdout = sys.stderr = self.printed
        warnings.simplefilter("error")
        signal.signal(signal.SIGPROF, _stop)
        limit = 1 << 33
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        rng = random.Random(self.arguments.seed + self.shared.numbers[0])
        if _atheris(self.arguments):
            self._guided(end, rng.randrange(1 << 31))
            return
        while time.time() < end:
            data = rng.choice(self.target.seeds)
            for _ in range(rng.choice((1, 1, 1, 2))):
                data = mutated(self.target, data, rng)
            self.test(data)

    def _guided(self, end: float, seed: int) -> None:
        import atheris

        corpus = Path(tempfile.mkdtemp(prefix="dqcodec-fuzz-"))
        for number, data in enumerate(self.target.seeds):
            (corpus / f"seed{number}").write_bytes(data)

        def mutate(data, max_size, seed):
            return mutated(self.target, bytes(data), random.Random(seed))[:max_size]

        limits = {
            "mutate_depth": 2,
            "max_total_time": max(1, int(end - time.time())),
            "max_len": _MAX_INPUT,
            "timeout": 3600,
            "rss_limit_mb": 0,
        }
        options = [f"-{name}={value}" for name, value in (limits | {"seed": seed}).items()]
        atheris.Setup(["fuzz", str(corpus), *options], self.test, custom_mutator=mutate)
        atheris.Fuzz()


def _atheris(arguments: argparse.Namespace) -> bool:
    if arguments.plain:
        return False
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def _compiled_modules() -> list[str]:
    """Whose code is not Python's to guide by."""
    paths = [
        path
        for path in (_ROOT / "dqcodec").rglob("*.py")
        if re.search(r"^@(compiled|implements)", path.read_text(), re.M)
    ]
    return [".".join(path.relative_to(_ROOT).with_suffix("").parts) for path in paths]


def _peak() -> int:
    """The process's largest memory since it was last set back, bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text[text.index("VmHWM:") + 6 :].split(None, 1)[0]) << 10


def _place(error: BaseException) -> str:
    """Its kind, and where in the package it came from: findings alike have one name."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if "_stop" != frame.f_code.co_name]
    lines = [line for _, line in traceback.walk_tb(error.__traceback__)][: len(frames)]
    own = [
        (frame, line) for frame, line in zip(frames, lines) if f"{os.sep}dqcodec{os.sep}" in frame.f_code.co_filename
    ]
    frame, line = own[-1] if own else (frames[-1], lines[-1])
    where = frame.f_code.co_name if isinstance(error, TimeLimit) else line
    return f"{type(error).__name__}-{Path(frame.f_code.co_filename).stem}-{where}"


def _stop(*_) -> None:
    raise TimeLimit


def _child(arguments: argparse.Namespace, shared: Shared) -> None:
    """The process that may die."""
    log = open(arguments.findings / "log.txt", "ab", buffering=0)
    for number in (1, 2):
        os.dup2(log.fileno(), number)
    faulthandler.enable(log)
    if _atheris(arguments):
        import atheris

        with atheris.instrument_imports(include=["dqcodec"], exclude=_compiled_modules()):
            from dqcodec.codec import archive, codec  # noqa: F401
            from dqcodec.format import index, salvage  # noqa: F401
            from dqcodec.methods import autoregressive, experts, flow, jpeg, mixing, trained_mixing  # noqa: F401
            from dqcodec.png import exact, samples  # noqa: F401
    try:
        fuzzer = Fuzzer(arguments, shared)
        fuzzer.warm()
        shared.begin(b"")
        shared.start(60 * arguments.minutes)
        fuzzer.run(shared.end)
    except BaseException:
        log.write(traceback.format_exc().encode())
        os._exit(3)
    os._exit(0)


def _watch(child: int, shared: Shared, patience: float) -> str | None:
    """Wait for the process; what happened to it. patience: seconds of a processor for one input; ten times of the clock."""
    last, since, spent, told = -1, time.time(), 0.0, time.time()
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 and time.time() > shared.end - 5 else "broken" if code == 3 else f"ended-{-code}"
        tried, good, _ = shared.numbers
        if tried != last:
            last, since, spent = tried, time.time(), _processor_seconds(child)
        if tried and (_processor_seconds(child) - spent > patience or time.time() - since > 10 * patience):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang"
        if time.time() - told > 30:
            print(f"{tried} inputs, {good} good", flush=True)
            told = time.time()
        time.sleep(0.1)


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, help="a folder of more seeds")
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir()) / "dqcodec-findings")
    parser.add_argument("--seconds", type=float, default=10, help="for one input")
    parser.add_argument("--mebibytes", type=int, default=256, help="for one input")
    parser.add_argument("--bounds", action="store_true", help="compiled loops check their indices")
    parser.add_argument("--plain", action="store_true", help="without atheris")
    arguments = parser.parse_args()
    if arguments.bounds:  # loops compiled so are kept apart from others
        os.environ |= {
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "dqcodec-fuzz-bounds"),
        }
    arguments.findings.mkdir(parents=True, exist_ok=True)
    shared, start = Shared(), time.time()
    while time.time() < shared.end:
        child = os.fork()
        if not child:
            _child(arguments, shared)
        happened = _watch(child, shared, 6 * arguments.seconds)
        if happened == "broken":
            sys.exit((arguments.findings / "log.txt").read_text()[-3000:])
        if happened:
            path = arguments.findings / f"{arguments.target}-{happened}-{zlib.crc32(shared.data):08x}.bin"
            path.write_bytes(shared.data)
            path.with_suffix(".txt").write_text((arguments.findings / "log.txt").read_text(errors="replace")[-3000:])
    tried, good, _ = shared.numbers
    found = sorted(arguments.findings.glob(f"{arguments.target}-*.bin"))
    print(f"{tried} inputs in {time.time() - start:.0f} s, {good} good, {len(found)} findings")
    for path in found:
        print(f"  {path} {path.stat().st_size} bytes")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
