"""An archive gives back its images, reads only the groups that it needs, and names damage."""

import functools
import hashlib
import io
import os
import zlib
from collections.abc import Sequence

import numpy as np
import pngs
import programs
import pytest
from effort import little_memory, no_hang
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_codec import CHUNKS, no_programs, photo, same_image, smooth
from test_container import groups
from test_flow_method import image, keep_models

from dqcodec import png
from dqcodec.base.errors import CorruptError, FormatError, UnknownModelError, UnsupportedImageError
from dqcodec.base.varint import write_varint
from dqcodec.codec import archive as mapping
from dqcodec.codec import codec
from dqcodec.codec.archive import Archive
from dqcodec.format import archive
from dqcodec.format.archive import Writer, is_archive
from dqcodec.format.archive_group import ArchiveGroup, Member, PackedGroup, Verbatim, pack_group, unpack_group
from dqcodec.format.container import Group
from dqcodec.format.frame import INDEX_MARK
from dqcodec.format.head import Entry
from dqcodec.format.layer import Layer, Method
from dqcodec.format.names import Names, clashes
from dqcodec.format.section import pack_section
from dqcodec.png import metadata

quick = settings(max_examples=60)
NAMED = (FormatError, CorruptError, UnsupportedImageError)
SECOND = 10**9
START = archive.MAGIC + bytes([archive.VERSION])


def kinds() -> dict[str, bytes]:
    """A PNG file of each kind."""
    return {
        "gray": pngs.write(smooth(9, 14, 0, 8)),
        "RGB": pngs.write(photo(12, 10), **CHUNKS),
        "RGBA": pngs.write(smooth(8, 8, 6, 8)),
        "palette": pngs.write(smooth(9, 10, 3, 4), 4, 3, before=pngs.chunk(b"tRNS", b"\0\7\xff")),
        "16 bits": pngs.write(smooth(6, 7, 0, 16), 16),
        "scaled": pngs.write(photo(6, 7).astype(int) * 257, 16),
        "1 bit": pngs.write(smooth(9, 9, 0, 1), 1),
        "animated": pngs.animated(photo(9, 10), [((1, 2), photo(5, 6))]),
        "stored": pngs.write(photo(3, 3), end=b"more"),
        "another RGB": pngs.write(photo(9, 9)),
    }


@functools.cache
def sources(exact: bool = False) -> tuple[codec.Source, ...]:
    return tuple(codec.read(data, exact=exact) for data in kinds().values())


@functools.cache
def coded(exact: bool = False) -> Group:
    return codec.encode(sources(exact), []).group


def stored(*files: bytes) -> Group:
    return Group((Entry(),) * len(files), files)


def numbered(number: int) -> bytes:
    """A small PNG file for each number."""
    return pngs.write(np.full((1, 1, 3), 1) * [number % 256, number // 256, 7])


def group_of(members: Sequence[Member | str], *parts: Group | Verbatim, contents: Sequence[int] = ()) -> PackedGroup:
    """A packed group. members: or names. parts: their contents, in order."""
    members = tuple(Member(each) if isinstance(each, str) else each for each in members)
    return pack_group(ArchiveGroup(members, tuple(contents) or tuple(range(len(members))), parts))


def written(*groups: PackedGroup) -> bytes:
    stream = io.BytesIO()
    writer = Writer(stream)
    for group in groups:
        writer.add(group)
    writer.finish()
    return stream.getvalue()


def opened(data: bytes, find_program=no_programs, **options) -> Archive:
    return Archive(io.BytesIO(data), find_program, **options)


# --- groups


def numbered_members(count: int) -> tuple[Member, ...]:
    return tuple(Member(f"{number}") for number in range(count))


@st.composite
def archive_groups(draw, most=3):
    parts = tuple(draw(st.lists(groups(most) | st.builds(Verbatim, st.binary(max_size=60)), min_size=1, max_size=3)))
    count = sum(1 if isinstance(part, Verbatim) else len(part.entries) for part in parts)
    contents = draw(st.permutations(range(count))) + draw(st.lists(st.integers(0, count - 1), max_size=3))
    return ArchiveGroup(numbered_members(len(contents)), tuple(contents), parts)


@quick
@given(archive_groups())
def test_a_group_is_read_as_it_was_packed(group):
    packed = pack_group(group)
    assert unpack_group(packed.header, packed.body, 1 << 40) == group
    for member, content in enumerate(group.contents):
        part, image = group.place(member)
        before = sum(1 if isinstance(each, Verbatim) else len(each.entries) for each in group.parts[:part])
        assert before + image == content


@quick
@given(archive_groups(2), st.integers(0), st.integers(1, 255), st.booleans(), st.booleans())
def test_damage_under_right_crcs_is_a_group_or_a_named_error(group, index, flip, cut, in_body):
    packed = pack_group(group)
    data = bytearray(packed.body if in_body else packed.header)
    assume(data)
    index %= len(data)
    data[index] ^= flip
    damaged = bytes(data[:index] if cut else data)
    try:
        found = unpack_group(*((packed.header, damaged) if in_body else (damaged, packed.body)))
    except NAMED as error:
        assert "\n" not in str(error)
    else:
        again = pack_group(found)
        assert unpack_group(again.header, again.body) == found


@pytest.mark.parametrize("exact", [False, True])
def test_images_of_every_kind_are_coded_together(exact):
    packed = group_of(list(kinds()), coded(exact))
    (group,) = unpack_group(packed.header, packed.body).parts
    methods = [entry.method for entry in group.entries]
    assert methods[8] == "stored" != methods[9] and len(group.payloads) < len(group.entries)
    decoded = codec.decode(group, no_programs)
    for entry, each, data in zip(group.entries, decoded, kinds().values(), strict=True):
        restored = codec.restore(entry, each)
        assert same_image(restored, data) and (not exact or restored == data)


def test_palettes_that_are_alike_are_packed_together():
    header = png.Header(8, 8, 3, 8)
    colors = np.random.default_rng(0).integers(0, 4, (20, 768), dtype=np.uint8)
    colors[:, 9:] = colors[0, 9:]
    skeletons = [png.Skeleton(header, ((png.Chunk(b"PLTE", bytes(each)),), ())) for each in colors]
    entries = tuple(Entry(skeleton, rasters=((Layer(Method.MIXING),),)) for skeleton in skeletons)
    packed = group_of([f"{n}" for n in range(20)], Group(entries, (b"code",), bytes(8)))
    assert len(packed.header) < 2 * len(entries[0].head()) + 100


def test_the_pixel_limit_holds_for_all_images_of_a_group_together():
    packed = group_of(["again", *kinds(), "file"], coded(), Verbatim(b"file"), contents=[0, *range(11)])
    sizes = [size for entry in coded().entries if entry.skeleton for size in entry.skeleton.sizes]
    pixels = sum(height * width for height, width in sizes)
    assert unpack_group(packed.header, packed.body, pixels).parts[0] == coded()
    with pytest.raises(UnsupportedImageError, match="limit"):
        unpack_group(packed.header, packed.body, pixels - 1)


def section_of(raw: bytes) -> bytes:
    packing, section = pack_section(raw)
    return bytes([packing]) + section


def numbers(*values: int) -> bytes:
    return b"".join(map(write_varint, values))


def header_of(*raw_names: bytes, contents=None, times=None, modes=None, parts: bytes | None = None) -> bytes:
    """A group's header, unpacked; its images are stored."""
    count = len(raw_names)
    return b"".join((
        numbers(count), numbers(*([0] * count if contents is None else contents)), b"".join(name + b"\0" for name in raw_names),
        numbers(*([0, 0] * count if times is None else times)), numbers(*([0] * count if modes is None else modes)),
        numbers(1, count) + bytes(count) if parts is None else parts,
    ))  # fmt: skip


HUGE = (1 << 35) - 1


def test_the_forger_can_write_a_group():
    found = unpack_group(section_of(header_of(b"a", b"b/c", times=(1, 5, 0, 0), modes=(0o777, 0))), b"\1xyz")
    assert found == ArchiveGroup(
        (Member("a", 5 - SECOND, 0o777), Member("b/c", -SECOND, 0)), (0, 1), (stored(b"x", b"yz"),)
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        numbers(0),  # no members
        header_of(*[b"%d" % n for n in range(4097)]),
        numbers(HUGE) + header_of(b"a")[1:],
        b"\xff" * 9,  # a number without end
        b"\x81\0" + header_of(b"a")[1:],  # a number with a zero tail
        header_of(b"a", contents=(2,)),  # no such content
        header_of(b"a", contents=(1,)),  # a content below 0
        header_of(b"a", b"b", contents=(0, 1)),  # a content that is no member's
        header_of(b"a", times=()),
        header_of(b"a", times=(0, SECOND)),
        header_of(b"a", modes=()),
        header_of(b"a", modes=(512,)),
        header_of(b"a", parts=b""),
        header_of(b"a", parts=numbers(0)),
        header_of(b"a", parts=numbers(HUGE)),
        header_of(b"a", parts=numbers(1, HUGE)),
        header_of(b"a", parts=numbers(1, 2, 0, 0)),  # more images than members
        header_of(b"a", parts=numbers(2, 1, 0)),  # one part less than it says
        header_of(b"a", parts=numbers(1, 1)),  # no head
        header_of(b"a") + b"\0",
        header_of(b"a")[:-1],
        numbers(1, 0) + b"a" * 9999,  # a name without end
        header_of(b"a/" * 4000 + b"a"),
    ],
)
def test_malformed_headers_of_groups_are_corrupt(raw):
    header = section_of(raw)
    with no_hang(), little_memory(1 << 21), pytest.raises(CorruptError) as caught:
        unpack_group(header, b"\1xyz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"\1", b"\5x", b"\xff\xff\xff\xff\x7f", b"\xff" * 9, b"\3x"])
def test_malformed_bodies_of_groups_are_corrupt(body):
    with pytest.raises(CorruptError):
        unpack_group(section_of(header_of(b"a", b"b", b"c", parts=numbers(2, 2, 0, 0, 1, 0))), body)


def test_a_file_that_does_not_match_its_checksum_is_corrupt():
    packed = group_of(["a"], Verbatim(b"some text"))
    with pytest.raises(CorruptError, match="checksum"):
        unpack_group(packed.header, packed.body[:-1] + b"x")


@pytest.mark.parametrize(
    "packed",
    [
        b"", b"\0\0", b"\1", b"\1\xff\xff\xff\xff\x7f", b"\1" + b"\xff" * 9, b"\4" + section_of(header_of(b"a"))[1:],
        section_of(header_of(b"a")) + b"\0", b"\2\5\x09abcd", b"\3\5\x09abcd", b"\2\5" + write_varint(HUGE),
    ],
)  # fmt: skip
def test_a_header_that_is_not_packed_as_it_says_is_corrupt(packed):
    with pytest.raises(CorruptError):
        unpack_group(packed, b"x")


def test_a_header_that_unpacks_to_more_than_it_says_takes_no_memory():
    stream = zlib.compressobj(9, wbits=-15)
    data = stream.compress(bytes(1 << 25)) + stream.flush()
    section = write_varint(99) + data
    with little_memory(1 << 22), pytest.raises(CorruptError):
        unpack_group(b"\2" + write_varint(len(section)) + section, b"x")


def packed_zeros() -> bytes:
    """A section of 64 MiB of zeros, packed into some kilobytes."""
    return section_of(bytes(1 << 26))


@pytest.mark.parametrize("kind", ["files", "heads"])
def test_a_group_of_many_sections_unpacks_to_no_more_than_its_limit(kind):
    names = [b"%d" % number for number in range(12)]
    if kind == "files":
        part = hashlib.sha256(bytes(1 << 26)).digest()[:8] + packed_zeros()
        header, body = header_of(*names, parts=numbers(12) + bytes(12)), (write_varint(len(part)) + part) * 11 + part
    else:
        packing, section = pack_section(
            bytes([metadata._LONG_CODES[b"tEXt"] | 128]) + write_varint(1 << 25) + bytes(1 << 25)
        )
        head = bytes([4 | packing << 4, 1, 1]) + section + bytes([16])
        header, body = header_of(*names, parts=numbers(1, 12) + head * 12), bytes(99)
    with little_memory((1 << 28) + (1 << 27)), pytest.raises(CorruptError, match="too many bytes"):
        unpack_group(section_of(header), body)


# --- names, times, modes

chunks_of_names = st.text(max_size=6).map(lambda text: text.encode("utf-8", "ignore")) | st.binary(max_size=4)
names = st.lists(st.lists(chunks_of_names, min_size=1, max_size=3).map(b"".join), min_size=1, max_size=4).map(b"/".join)


def is_name(name: bytes) -> bool:
    return b"\0" not in name and all(part not in (b"", b".", b"..") for part in name.split(b"/"))


def without_folders(found: list[bytes]) -> list[bytes]:
    """Those names that are no other's folder."""
    return [name for name in found if not any(other.startswith(name + b"/") for other in found)]


@given(st.lists(names.filter(is_name).map(os.fsdecode), max_size=12))
def test_names_go_together_if_none_is_another_or_a_folder_of_another(many):
    kept, taken = Names(), []
    for name in many:
        in_way = [other for other in taken if f"{name}/".startswith(f"{other}/") or f"{other}/".startswith(f"{name}/")]
        found = kept.add(name)
        assert found in in_way if in_way else found is None
        taken += [] if in_way else [name]
    assert bool(clashes(many)) == (taken != many)
    left = [name for number, name in enumerate(many) if number not in clashes(many)]
    assert not clashes(left) and {*left} == {
        name for name in many if not any(name.startswith(f"{each}/") for each in many)
    }


many_names = st.lists(names.filter(is_name), unique=True, max_size=12).map(without_folders)
times = st.integers(-(1 << 32) * SECOND, (1 << 33) * SECOND) | st.integers(-9, 9).map(lambda second: second * SECOND)


@settings(max_examples=30)
@given(many_names, st.data())
def test_an_archive_keeps_order_names_times_and_modes(raw_names, data):
    members = [Member(os.fsdecode(name), data.draw(times), data.draw(st.integers(0, 0o777))) for name in raw_names]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(members)), max_size=3)))
    bounds = sorted({0, *cuts, len(members)})
    files = [numbered(n) for n in range(len(members))]
    parts = [members[a:b] for a, b in zip(bounds, bounds[1:])]
    packed = written(*(group_of(members[a:b], stored(*files[a:b])) for a, b in zip(bounds, bounds[1:])))
    for found in (opened(packed), opened(packed, salvage=True), opened(packed[:-20] if members else packed)):
        assert [found.member(name) for name in found] == members and list(found) == [member.name for member in members]
        assert list(found.values()) == files
        assert [count for _, count in found.group_sizes] == [len(part) for part in parts]
        assert [os.fsencode(name) for name in found] == raw_names


def test_times_before_1970_and_far_ahead_are_kept_to_the_nanosecond():
    stamps = [0, -1, -SECOND, -SECOND - 1, 2**31 * SECOND, (1 << 33) * SECOND + 999_999_999, -(1 << 32) * SECOND, 1, -7]
    members = [Member(f"{n}.png", stamp) for n, stamp in enumerate(stamps)]
    found = opened(written(group_of(members, stored(*map(numbered, range(len(stamps)))))))
    assert [found.member(name).mtime_ns for name in found] == stamps


def test_an_archive_without_files_is_empty():
    for salvage in (False, True):
        with opened(written(), salvage=salvage) as archive:
            assert len(archive) == 0 and list(archive) == [] and archive.group_sizes == [] and "a" not in archive
            assert not archive.damage


def test_an_archive_of_very_many_names_has_an_index_of_several_blocks():
    """Any of them may be damaged, because the groups have the names, too."""
    names = [f"{'folder' * 30}/{n:05}.png" for n in range(800)]
    data = written(*(group_of([name], stored(numbered(number))) for number, name in enumerate(names)))
    block = data.index(INDEX_MARK)
    assert data.count(INDEX_MARK) > 2 and list(opened(data)) == names and not opened(data).damage
    found = opened(data[: block + 30] + b"x" + data[block + 31 :])
    assert list(found) == names and not any(each.is_loss for each in found.damage)
    assert found[names[0]] == numbered(0)


# --- reading


NAMES = ["a.png", "b/a.png", "b/c/ü.png", "b/d.png", "e.png", "f.png", "g.png"]
FILES = dict(zip(NAMES, [*kinds().values()]))
GROUPS = [NAMES[:3], NAMES[3:4], NAMES[4:]]


@functools.cache
def example() -> bytes:
    def coded_group(part: list[str]) -> PackedGroup:
        return group_of(part, codec.encode([codec.read(FILES[name], exact=True) for name in part], []).group)

    return written(*map(coded_group, GROUPS))


@functools.cache
def bounds() -> list[int]:
    """Where each group of the example starts, and where the last one ends."""
    return [5, *(5 + int(end) for end in np.cumsum([size for size, _ in opened(example()).group_sizes]))]


@pytest.fixture
def decoded(monkeypatch) -> list[Group]:
    """The groups that are decoded."""
    groups, decode = [], codec.decode
    monkeypatch.setattr(mapping, "decode", lambda group, *rest: groups.append(group) or decode(group, *rest))
    return groups


def test_an_archive_is_a_mapping_of_its_images(tmp_path):
    path = tmp_path / "images.dqc"
    path.write_bytes(example())
    assert is_archive(path.read_bytes()[:5]) and not is_archive(b"\x89DQC\1") and not is_archive(b"")
    for file in (path, str(path), path.open("rb")):
        with Archive(file, no_programs) as found:
            assert len(found) == len(NAMES) and list(found) == list(found.keys()) == NAMES
            assert dict(found) == FILES and found == FILES
            assert NAMES[1] in found and "b" not in found and "A.png" not in found and None not in found
            assert found.get("none") is None
            for missing in ("none", "b", "b/", "", "../a.png"):
                with pytest.raises(KeyError):
                    found[missing]
        with pytest.raises(ValueError, match="closed"):
            found.group(0)


def test_images_are_read_in_any_order():
    found = opened(example())
    for name in [*NAMES[::-1], *NAMES[::2], *NAMES[1::2]]:
        assert found[name] == FILES[name]


def test_iteration_decodes_each_group_once(decoded):
    found = opened(example())
    assert not decoded
    assert list(found.items()) == list(FILES.items()) and len(decoded) == len(GROUPS)


def test_one_image_is_read_and_decoded_with_its_group_alone(decoded):
    class Seen(io.BytesIO):
        def read(self, size=-1):
            start = self.tell()
            data = super().read(size)
            places.append((start, start + len(data)))
            return data

    places = []
    found = Archive(Seen(example()), no_programs)
    assert all(stop <= 5 or start >= bounds()[-1] for start, stop in places)
    for number, part in enumerate(GROUPS):
        places.clear()
        assert found[part[-1]] == FILES[part[-1]] and len(decoded) == number + 1
        assert all(bounds()[number] <= start and stop <= bounds()[number + 1] for start, stop in places)
        places.clear()
        assert found[part[0]] == FILES[part[0]] and len(decoded) == number + 1 and not places


def test_a_group_is_known_without_being_decoded(decoded):
    found = opened(example())
    counts = [len(found.group(number).members) for number in range(len(GROUPS))]
    assert counts == [count for _, count in found.group_sizes] == [3, 1, 3]
    assert [found.kind(name) for name in found] == ["image"] * 7
    assert not decoded


def test_membership_decodes_nothing(decoded):
    found = opened(example())
    assert all(name in found for name in NAMES) and "none" not in found and not decoded


def test_the_pixel_limit_holds_for_each_group():
    found = opened(example(), max_pixels=400)
    assert found[NAMES[3]] == FILES[NAMES[3]] and found[NAMES[4]] == FILES[NAMES[4]]
    with pytest.raises(UnsupportedImageError, match="limit"):
        opened(example(), max_pixels=80)[NAMES[3]]


def test_files_of_other_formats_are_refused_as_archives(tmp_path):
    (tmp_path / "a.png").write_bytes(numbered(0))
    with pytest.raises(FormatError, match="not an archive"):
        Archive(tmp_path / "a.png")
    for data in (b"", b"\x89DQ", b"\x89DQC\1" + bytes(30)):
        with pytest.raises(FormatError, match="not an archive"):
            opened(data)
    with pytest.raises(FormatError, match="version 01"):
        opened(archive.MAGIC + b"\1" + example()[5:])
    with pytest.raises(FileNotFoundError):
        Archive(tmp_path / "none.dqc")


# --- what coding together gains


def total(group: Group) -> int:
    packed = group_of([f"{n}" for n in range(len(group.entries))], group)
    return len(packed.header) + len(packed.body)


def program_of():
    return programs.program(programs.AUTOREGRESSIVE)


def find(model_id: bytes):
    if model_id != program_of().id:
        raise UnknownModelError("no such model")
    return program_of()


def test_images_by_a_model_are_coded_together_and_decode(monkeypatch):
    keep_models(monkeypatch)
    files = [pngs.write(image(30, 40, 3, seed)) for seed in range(4)] + [pngs.write(image(9, 9))]
    together = codec.encode([codec.read(data) for data in files], [program_of()])
    assert {entry.method for entry in together.group.entries} == {programs.AUTOREGRESSIVE}
    assert len(together.group.payloads) == 1 and together.group.heads().count(program_of().id) == 1
    alone = sum(total(codec.encode([codec.read(data)], [program_of()]).group) for data in files)
    assert total(together.group) <= alone - 8 * 4  # the checksum is only one
    data = written(group_of([f"{n}.png" for n in range(len(files))], together.group))
    found = opened(data, find)
    assert all(same_image(found[f"{n}.png"], file) for n, file in enumerate(files))
    assert found.group(0).parts == (together.group,)
    with pytest.raises(UnknownModelError):
        opened(data)["0.png"]


def icons(count: int, size: int = 16) -> list[bytes]:
    """Similar small drawings."""
    y, x = np.ogrid[:size, :size]
    rings = [np.minimum(np.hypot(y - 8 + n % 5 - 2, x - 8 + n // 5 % 5 - 2) // 2, 5)[..., None] for n in range(count)]
    return [pngs.write((ring * [40, 25, 12 + n % 3]).astype(np.uint8)) for n, ring in enumerate(rings)]


def test_similar_drawings_are_smaller_together():
    read = [codec.read(data) for data in icons(8)]
    together = codec.encode(read, []).group
    assert {entry.method for entry in together.entries} == {Method.TRAINED_MIXING.label}
    assert total(together) < 0.6 * sum(total(codec.encode([source], []).group) for source in read)


def test_an_image_takes_few_bytes_beyond_its_payload():
    """Heads and index, of 200 small images."""
    files = icons(200)
    members = [Member(f"img{n:04}.png", (1_700_000_000 + 7 * n) * SECOND) for n in range(200)]
    group = codec.encode([codec.read(data) for data in files], []).group
    data = written(group_of(members, group))
    assert len(data) - sum(map(len, group.payloads)) < 12 * 200
    found = opened(data)
    assert all(same_image(found[member.name], file) for member, file in zip(members, files))
