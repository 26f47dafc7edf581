"""The target of archives."""

from __future__ import annotations

import contextlib
import io
import random
import zlib

from dqcodec.base.errors import DqcodecError
from dqcodec.base.reader import Reader
from dqcodec.codec import archive as mapping
from dqcodec.codec import codec
from dqcodec.format import archive, archive_group
from dqcodec.format.archive_group import unpack_members
from dqcodec.format.frame import pack_frame, read_frame
from dqcodec.format.positional import Positional
from dqcodec.format.section import pack_section, read_section
from fuzzing.changes import changed
from fuzzing.errors import named_errors
from fuzzing.limits import MAX_INPUT, MAX_PIXELS, ROOT
from fuzzing.seeds import find_program, images


class Target:
    """Archives of many files: index, groups, models, headers, bodies; groups that are moved, repeated, swapped; joined archives.

    Only names that the seeds have may lead to other bytes than theirs: whoever forges a group with right checksums may have it so.
    """

    def __init__(self):
        self.seeds, self.files = [], {}
        for size in (1, 3, 50):
            stream = io.BytesIO()
            writer, files = archive.Writer(stream), images()[::4]
            for start in range(0, len(files), size):
                sources = [codec.read(each, exact=True) for each in files[start : start + size]]
                note = b"file %d " % start * 9
                names = [f"{size}/{start}/{number}.png" for number in range(len(sources))]
                members = [
                    archive_group.Member(name, start * 10**9 + number)
                    for number, name in enumerate([*names, f"{size}/{start}/note", f"{size}/{start}/again"])
                ]
                contents = (*range(len(sources) + 1), 0)
                parts = codec.encode(sources, ()).group, archive_group.Verbatim(note)
                writer.add(archive_group.pack_group(archive_group.ArchiveGroup(tuple(members), contents, parts)))
                self.files |= dict(zip(names, files[start : start + size])) | {
                    members[-2].name: note,
                    members[-1].name: files[start],
                }
            writer.finish()
            self.seeds.append(stream.getvalue())
        self.seeds.append((ROOT / "tests" / "golden" / "archive-model.dqc").read_bytes())
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
            return b"".join(frames)[:MAX_INPUT]
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
        return b"".join(frames)[:MAX_INPUT]

    def check(self, data: bytes) -> bool:
        is_forged = _is_forged(data, self.heads, self.frames)
        good = False
        for salvage in (False, True):
            opened = named_errors(
                lambda: mapping.Archive(io.BytesIO(data), find_program, max_pixels=MAX_PIXELS, salvage=salvage)  # noqa: B023
            )
            for number, name in enumerate(opened or ()):
                assert name and not set(name.split("/")) & {"", ".", ".."}
                if number < 20:
                    found = named_errors(lambda: opened[name])  # noqa: B023
                    good |= found is not None
                    assert is_forged or found is None or name not in self.files or found == self.files[name], (
                        f"{name} gives other bytes"
                    )
            if opened is not None and salvage and not is_forged:
                self._check_losses(opened, data)
        return good

    def _check_losses(self, opened, data: bytes) -> None:
        """Of groups that are whole in the data, nothing is lost."""
        names = {
            name.removeprefix(name.split("/")[0] + "/") if name.startswith("archive-") else name for name in opened
        }
        for frame, header in self.frames.items():
            if frame in data and frame.startswith(b"\x89DQG"):
                assert {member.name for member in unpack_members(header)} <= names, "a whole group is not salvaged"


def _frames(data: bytes) -> list[bytes]:
    """An archive, cut where its groups, index blocks and end begin."""
    file, places, position = Positional(io.BytesIO(data)), [0], 0
    while (position := data.find(b"\x89DQ", position)) >= 0:
        frame = read_frame(file, position)
        if frame or data[position : position + 4] == b"\x89DQE":
            places.append(position)
        position = min(frame.end, len(data)) if frame else position + 1
    return [data[start:stop] for start, stop in zip(places, [*places[1:], len(data)])]


def _is_forged(data: bytes, heads: set[bytes], frames: dict[bytes, bytes]) -> bool:
    """Whether something in the data has a right checksum, but is not of a seed."""
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
