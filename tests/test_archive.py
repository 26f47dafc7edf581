"""Archives give back the images they were made of, read no more than is asked for, and tell what is damaged."""

import functools
import io
import os
import zlib
from contextlib import suppress

import numpy as np
import pngs
import programs
import pytest
from dqc import sealed
from effort import little_memory, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from test_codec import CHUNKS, no_programs, photo, same_image, smooth
from test_container import groups
from test_flow_method import image, keep_models

from dqcodec import png
from dqcodec.base.errors import CorruptError, DqcodecError, FormatError, UnknownModelError, UnsupportedImageError
from dqcodec.base.varint import write_varint
from dqcodec.codec import codec
from dqcodec.format import archive
from dqcodec.format.archive import Archive, Member, Writer, is_archive, pack_group, parse_group
from dqcodec.format.container import Entry, Group, Layer, Method, pack_section

quick = settings(max_examples=60, deadline=None, derandomize=True)
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
        "stored": pngs.write(photo(3, 3), tail=b"more"),
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


def written(*parts: tuple[list[Member], bytes]) -> bytes:
    stream = io.BytesIO()
    writer = Writer(stream)
    for members, group in parts:
        writer.add(members, group)
    writer.finish()
    return stream.getvalue()


def opened(data: bytes, find_program=no_programs, **options) -> Archive:
    return Archive(io.BytesIO(data), find_program, **options)


# --- groups


@quick
@given(groups(6))
def test_a_group_is_read_as_it_was_packed(group):
    assert parse_group(pack_group(group), 1 << 40) == group


@quick
@given(groups(4), st.integers(0), st.integers(1, 255), st.booleans())
def test_any_damage_to_a_group_is_an_error(group, index, flip, cut):
    data = bytearray(pack_group(group))
    index %= len(data)
    data[index] ^= flip
    with pytest.raises(NAMED):
        parse_group(bytes(data[:index] if cut else data), 1 << 40)


@quick
@given(groups(4), st.integers(0), st.integers(1, 255), st.booleans())
def test_damage_to_a_group_under_a_right_crc_is_a_group_or_a_named_error(group, index, flip, cut):
    data = bytearray(pack_group(group)[:-4])
    index %= len(data)
    data[index] ^= flip
    try:
        found = parse_group(sealed(bytes(data[:index] if cut else data), b""))
    except NAMED as error:
        assert "\n" not in str(error)
    else:
        assert found == group or parse_group(pack_group(found)) == found


@pytest.mark.parametrize("exact", [False, True])
def test_images_of_every_kind_are_coded_together(exact):
    group = parse_group(pack_group(coded(exact)))
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
    group = Group(entries, (b"code",), bytes(8))
    assert parse_group(pack_group(group)) == group
    assert len(pack_group(group)) < 2 * len(entries[0].head())


def test_the_limit_of_pixels_is_for_all_images_of_a_group_together():
    data = pack_group(coded())
    sizes = [size for entry in coded().entries if entry.skeleton for size in entry.skeleton.sizes]
    pixels = sum(height * width for height, width in sizes)
    assert parse_group(data, pixels) == coded()
    with pytest.raises(UnsupportedImageError, match="limit"):
        parse_group(data, pixels - 1)


def section_of(raw: bytes) -> bytes:
    packing, section = pack_section(raw)
    return bytes([packing]) + section


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" + section_of(b"\0"),  # no images
        b"\2" + section_of(b"\0"),  # fewer heads
        b"\1" + section_of(b"\0\0"),  # more heads
        b"\xff\xff\xff\xff\x7f" + section_of(b"\0" * 9),
        b"\xff" * 9 + section_of(b"\0"),  # a number without end
        b"\x81\0" + section_of(b"\0"),  # a number with a zero tail
        b"\1\4" + section_of(b"\0")[1:],  # no such packing
        b"\1\1\xff\xff\xff\xff\x7f\0",  # a section past the end
        b"\2" + section_of(b"\0\0"),  # no length of the first payload
        b"\2" + section_of(b"\0\0") + b"\xff\xff\xff\xff\x7f",  # a payload past the end
        b"\1" + section_of(bytes([6, 1, 1, 16])) + b"1234567",  # no whole checksum
    ],
)
def test_malformed_groups_behind_a_valid_crc_are_corrupt(body):
    with pytest.raises(CorruptError):
        parse_group(sealed(body, b""))


# --- names, times, modes

chunks_of_names = st.text(max_size=6).map(lambda text: text.encode("utf-8", "ignore")) | st.binary(max_size=4)
names = st.lists(st.lists(chunks_of_names, min_size=1, max_size=3).map(b"".join), min_size=1, max_size=4).map(b"/".join)


def is_name(name: bytes) -> bool:
    return b"\0" not in name and all(part not in (b"", b".", b"..") for part in name.split(b"/"))


def without_folders(found: list[bytes]) -> list[bytes]:
    """Those names that are no other's folder."""
    return [name for name in found if not any(other.startswith(name + b"/") for other in found)]


many_names = st.lists(names.filter(is_name), unique=True, max_size=12).map(without_folders)
times = st.integers(-(1 << 32) * SECOND, (1 << 33) * SECOND) | st.integers(-9, 9).map(lambda second: second * SECOND)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(many_names, st.data())
def test_an_archive_keeps_order_names_times_and_modes(raw_names, data):
    members = [
        Member(os.fsdecode(name), data.draw(times), data.draw(st.integers(0, 0o777))) for name in raw_names
    ]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(members)), max_size=3)))
    bounds = sorted({0, *cuts, len(members)})
    files = [numbered(n) for n in range(len(members))]
    parts = [(members[a:b], pack_group(stored(*files[a:b]))) for a, b in zip(bounds, bounds[1:])]
    archive = opened(written(*parts))
    assert list(archive.members.values()) == members and list(archive) == [member.name for member in members]
    assert list(archive.values()) == files
    assert archive.group_sizes == [(len(group), len(part)) for part, group in parts]
    assert [os.fsencode(name) for name in archive] == raw_names


def test_times_before_1970_and_far_ahead_are_kept_to_the_nanosecond():
    stamps = [0, -1, -SECOND, -SECOND - 1, 2**31 * SECOND, (1 << 33) * SECOND + 999_999_999, -(1 << 32) * SECOND, 1, -7]
    members = [Member(f"{n}.png", stamp) for n, stamp in enumerate(stamps)]
    found = opened(written((members, pack_group(stored(*map(numbered, range(len(stamps))))))))
    assert [member.mtime_ns for member in found.members.values()] == stamps


def test_an_archive_of_nothing_is_empty():
    with opened(written()) as archive:
        assert len(archive) == 0 and list(archive) == [] and archive.group_sizes == [] and "a" not in archive


# --- reading


NAMES = ["a.png", "b/a.png", "b/c/ü.png", "b/d.png", "e.png", "f.png", "g.png"]
FILES = dict(zip(NAMES, [*kinds().values()]))
GROUPS = [NAMES[:3], NAMES[3:4], NAMES[4:]]


@functools.cache
def example() -> bytes:
    def group_of(part: list[str]) -> bytes:
        return pack_group(codec.encode([codec.read(FILES[name], exact=True) for name in part], []).group)

    return written(*(([Member(name) for name in part], group_of(part)) for part in GROUPS))


@pytest.fixture
def decoded(monkeypatch) -> list[Group]:
    """The groups that are decoded."""
    groups, decode = [], codec.decode
    monkeypatch.setattr(archive.codec, "decode", lambda group, *rest: groups.append(group) or decode(group, *rest))
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


def test_images_can_be_asked_for_in_any_order():
    found = opened(example())
    for name in [*NAMES[::-1], *NAMES[::2], *NAMES[1::2]]:
        assert found[name] == FILES[name]


def test_going_through_the_images_decodes_each_group_once(decoded):
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
    sizes = [size for size, _ in found.group_sizes]
    ends = np.cumsum([5, *sizes])
    assert all(stop <= 5 or start >= ends[-1] for start, stop in places)
    for number, part in enumerate(GROUPS):
        places.clear()
        assert found[part[-1]] == FILES[part[-1]] and len(decoded) == number + 1
        assert places == [(ends[number], ends[number + 1])]
        assert found[part[0]] == FILES[part[0]] and len(decoded) == number + 1 and len(places) == 1


def test_a_group_is_known_without_being_decoded(decoded):
    found = opened(example())
    counts = [len(found.group(number).entries) for number in range(len(GROUPS))]
    assert counts == [count for _, count in found.group_sizes] == [3, 1, 3]
    assert not decoded


def test_whether_an_image_is_there_is_known_without_decoding_it(decoded):
    found = opened(example())
    assert all(name in found for name in NAMES) and "none" not in found and not decoded


def test_the_limit_of_pixels_is_one_of_a_group():
    found = opened(example(), max_pixels=400)
    assert found[NAMES[3]] == FILES[NAMES[3]] and found[NAMES[4]] == FILES[NAMES[4]]
    with pytest.raises(UnsupportedImageError, match="limit"):
        opened(example(), max_pixels=80)[NAMES[3]]


def test_other_files_are_no_archives(tmp_path):
    (tmp_path / "a.png").write_bytes(numbered(0))
    with pytest.raises(FormatError, match="not an archive"):
        Archive(tmp_path / "a.png")
    for data in (b"", b"\x89DQ", b"\x89DQC\1" + bytes(30)):
        with pytest.raises(FormatError, match="not an archive"):
            opened(data)
    with pytest.raises(FormatError, match="version 2"):
        opened(archive.MAGIC + b"\2" + example()[5:])
    with pytest.raises(FileNotFoundError):
        Archive(tmp_path / "none.dqc")


# --- damage


def assert_right_or_named_errors(data: bytes, spared: list[str], wanted: list[str]) -> None:
    """Of each wanted image; the spared ones are right."""
    try:
        found = opened(data)
    except NAMED as error:
        assert "\n" not in str(error) and not spared
        return
    assert len(found) == len(FILES) and set(spared) <= found.members.keys()
    for name in wanted:
        try:
            right = found[name] == FILES[name]
        except NAMED as error:
            assert "\n" not in str(error) and name not in spared
        else:
            assert right


def spared_by(index: int) -> list[str]:
    """The images whose groups do not have a byte of the example."""
    end = 5
    for part, (size, _) in zip(GROUPS, opened(example()).group_sizes):
        if end <= index < end + size:
            return [name for name in NAMES if name not in part]
        end += size
    return []


def test_a_flipped_byte_anywhere_costs_no_more_than_its_group():
    for index in range(len(example())):
        damaged = bytearray(example())
        damaged[index] ^= 1 << index % 8
        spared = spared_by(index)
        wanted = NAMES if index % 64 == 0 else [name for name in NAMES if name not in spared]
        assert_right_or_named_errors(bytes(damaged), spared, wanted)


def test_an_archive_that_is_cut_or_longer_is_an_error():
    for length in range(len(example())):
        with pytest.raises((FormatError, CorruptError)):
            opened(example()[:length])
    for more in (b"\0", bytes(8), example()):
        try:
            assert list(opened(example() + more)) != NAMES
        except CorruptError as error:
            assert "\n" not in str(error)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, len(GROUPS) - 1), st.integers(0), st.integers(1, 255))
def test_damage_to_a_group_under_its_crc_gives_right_images_or_named_errors(number, index, flip):
    sizes = [size for size, _ in opened(example()).group_sizes]
    start, stop = 5 + sum(sizes[:number]), 5 + sum(sizes[: number + 1])
    body = bytearray(example()[start : stop - 4])
    body[index % len(body)] ^= flip
    data = example()[:start] + sealed(bytes(body), b"") + example()[stop:]
    try:
        found = opened(data)
        images = [found[name] for name in GROUPS[number]]
    except NAMED as error:
        assert "\n" not in str(error)
    else:  # recipes and chunks are not under the checksum of the samples
        assert all(len(each) > 8 for each in images)
    other = GROUPS[number - 1][0]
    assert opened(data)[other] == FILES[other]


def test_groups_that_change_places_are_found():
    sizes = [size for size, _ in opened(example()).group_sizes]
    first, second = example()[5 : 5 + sizes[0]], example()[5 + sizes[0] : 5 + sum(sizes[:2])]
    found = opened(example()[:5] + second + first + example()[5 + sum(sizes[:2]) :])
    for name in NAMES[:4]:
        with pytest.raises(CorruptError):
            found[name]
    assert found[NAMES[4]] == FILES[NAMES[4]]


def test_a_group_of_other_images_than_the_index_names_is_corrupt():
    found = opened(written(([Member("a"), Member("b")], pack_group(stored(*map(numbered, range(3)))))))
    with pytest.raises(CorruptError, match="index"):
        found["a"]


# --- forged indices


def with_index(raw: bytes, groups: bytes = b"", *, packed: bytes | None = None, length: int | None = None) -> bytes:
    """An archive whose index is `raw`, or `packed` as it stands, under a right CRC."""
    index = section_of(raw) if packed is None else packed
    end = index + (len(index) if length is None else length).to_bytes(4, "little")
    return START + groups + end + zlib.crc32(START + end).to_bytes(4, "little")


def numbers(*values: int) -> bytes:
    return b"".join(map(write_varint, values))


def index_of(*raw_names: bytes, sizes=None, times=None, modes=None) -> bytes:
    """One for the names, all in a group of 9 bytes."""
    count = len(raw_names)
    return b"".join((
        numbers(1, 9, count) if sizes is None else numbers(*sizes), b"".join(name + b"\0" for name in raw_names),
        numbers(*([0, 0] * count if times is None else times)), numbers(*([0] * count if modes is None else modes)),
    ))


NINE = bytes(9)
HUGE = (1 << 35) - 1


def refused(data: bytes) -> None:
    """As damaged, soon, and without much memory."""
    with no_hang(), little_memory((1 << 21) + 20 * len(data)), pytest.raises(CorruptError) as caught:
        opened(data)
    assert "\n" not in str(caught.value)


def test_the_forger_can_write_an_archive():
    assert list(opened(with_index(index_of(b"a", b"b/c"), NINE))) == ["a", "b/c"]
    found = opened(with_index(index_of(b"a", times=(1, 5), modes=(0o777,)), NINE))
    assert found.members == {"a": Member("a", 5 - SECOND, 0o777)}


@pytest.mark.parametrize(
    "raw_names",
    [
        [b".."], [b"../a"], [b"a/../b"], [b"a/.."], [b"/a"], [b"//a"], [b"a//b"], [b"a/"], [b"/"], [b""], [b"."],
        [b"./a"], [b"a/."], [b"a/./b"], [b"a", b"a"], [b"a/b", b"c", b"a/b"], [b"a", b"a/b"], [b"a/b/c", b"a"],
        [b"a/b/c", b"a/b"], [b"a", b""], [b"\xff", b"\xff/a"],
    ],
)  # fmt: skip
def test_a_name_that_leaves_its_folder_or_meets_another_is_corrupt(raw_names):
    refused(with_index(index_of(*raw_names), NINE))


def test_a_zero_byte_ends_a_name():
    refused(with_index(index_of(b"a\0b"), NINE))
    refused(with_index(index_of(b"a\0"), NINE))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        index_of(b"a", sizes=(0,)),  # no group
        index_of(b"a", sizes=(2, 9, 1)),  # one group less than it says
        index_of(b"a", sizes=(1, 8, 1)),  # groups end before the index
        index_of(b"a", sizes=(1, 10, 1)),  # ... or in it
        index_of(b"a", sizes=(1, HUGE, 1)),
        index_of(b"a", sizes=(HUGE, 9, 1)),
        index_of(b"a", sizes=(1, 9, HUGE)),
        index_of(b"a", sizes=(1, 9, 2)),
        index_of(b"a", sizes=(1, 9, 0)),
        index_of(b"a", b"b", sizes=(1, 9, 1)),
        index_of(b"a", sizes=(3, 9, 0, 0, HUGE, 0, 2)),
        index_of(b"a", times=()),
        index_of(b"a", times=(0,)),
        index_of(b"a", modes=()),
        index_of(b"a", modes=(512,)),
        index_of(b"a", modes=(HUGE,)),
        index_of(b"a", modes=(0, 0)),
        index_of(b"a") + b"\0",
        index_of(b"a")[:-1],
        b"\1\x89\0\1a\0\0\0\0",  # a number with a zero tail
        b"\xff" * 9,  # a number without end
        b"\1\x09\1" + b"a" * 99,  # a name without end
    ],
)
def test_counts_and_lengths_that_lie_are_corrupt(raw):
    refused(with_index(raw, NINE))


@pytest.mark.parametrize(
    "packed",
    [
        b"", b"\0\0", b"\1", b"\1\xff\xff\xff\xff\x7f", b"\1" + b"\xff" * 9, b"\4" + section_of(index_of(b"a"))[1:],
        section_of(index_of(b"a")) + b"\0", b"\2\5\x09abcd", b"\3\5\x09abcd", b"\2\5" + write_varint(HUGE),
    ],
)  # fmt: skip
def test_an_index_that_is_not_packed_as_it_says_is_corrupt(packed):
    refused(with_index(b"", NINE, packed=packed))


@pytest.mark.parametrize("length", [0, 1, 9, 11, 1000, (1 << 32) - 1])
def test_an_index_of_another_length_than_it_says_is_corrupt(length):
    refused(with_index(index_of(b"a"), NINE, length=length))


def bomb(raw: bytes) -> bytes:
    """The raw bytes as a packed index, thousands of times smaller."""
    packing, section = pack_section(raw)
    assert len(section) < len(raw) / 100
    return bytes([packing]) + section


def test_an_index_that_unpacks_to_more_than_it_says_takes_no_memory():
    stream = zlib.compressobj(9, wbits=-15)
    data = stream.compress(bytes(1 << 25)) + stream.flush()
    section = write_varint(99) + data
    refused(with_index(b"", NINE, packed=b"\2" + write_varint(len(section)) + section))


def test_an_index_of_very_many_empty_groups_is_corrupt_and_takes_little_memory():
    """These take 4 MB for 150 bytes; an index of 64 MB is a file of 65 kB."""
    refused(with_index(b"", packed=bomb(numbers(1 << 15) + bytes(1 << 16))))


def test_a_name_of_very_many_folders_is_corrupt_or_takes_little_memory():
    """This one of 8 kB takes 30 MB; one of 80 kB takes 3 GB, and of 64 MB is a file of 70 kB."""
    data = with_index(index_of(b"a/" * 4000 + b"a"), NINE)
    with little_memory(1 << 22), suppress(CorruptError):
        opened(data)


def test_a_group_of_very_many_images_takes_little_memory():
    """Each stored image but the last has a length, so a group cannot have more than its bytes."""
    data = sealed(write_varint(1 << 15) + bomb(bytes(1 << 15)), b"")
    with little_memory(1 << 22), pytest.raises(CorruptError):
        parse_group(data)


# --- what coding together gains


def total(group: Group) -> int:
    return len(pack_group(group))


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
    assert total(together.group) <= alone + 8 - 8 * 4  # the checksum is only one
    data = written(([Member(f"{n}.png") for n in range(len(files))], pack_group(together.group)))
    found = opened(data, find)
    assert all(same_image(found[f"{n}.png"], file) for n, file in enumerate(files))
    assert found.group(0) == together.group
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
    assert {entry.method for entry in together.entries} == {Method.MIXING.name.lower()}
    assert total(together) < 0.6 * sum(total(codec.encode([source], []).group) for source in read)


def test_an_image_takes_few_bytes_beyond_its_payload():
    """Heads and index, of 200 small images."""
    files = icons(200)
    members = [Member(f"img{n:04}.png", (1_700_000_000 + 7 * n) * SECOND) for n in range(200)]
    group = codec.encode([codec.read(data) for data in files], []).group
    data = written((members, pack_group(group)))
    assert len(data) - sum(map(len, group.payloads)) < 12 * 200
    found = opened(data)
    assert all(same_image(found[member.name], file) for member, file in zip(members, files))


# --- all that is said is true of what a file may hold


@quick
@given(st.binary(max_size=80))
def test_any_bytes_behind_a_right_crc_are_an_archive_or_a_named_error(raw):
    for data in (with_index(raw), with_index(raw, NINE), with_index(b"", NINE, packed=raw)):
        try:
            found = opened(data)
            assert all(name and not name.startswith("/") for name in found)
            for name in found:
                found[name]
        except DqcodecError as error:
            assert isinstance(error, NAMED) and "\n" not in str(error)
