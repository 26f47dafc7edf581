"""One damaged place costs an archive at most one group; it names what is lost, and a name never gives another's bytes."""

import functools
import io
import itertools
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pngs
import pytest
from effort import assert_linear, little_memory, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from test_archive import NAMED, group_of, numbered, opened, stored, written

from dqcodec.base.errors import CorruptError, FormatError
from dqcodec.base.varint import write_varint
from dqcodec.codec.archive import Archive
from dqcodec.format import section
from dqcodec.format.archive import START, Writer
from dqcodec.format.archive_group import Member, Verbatim
from dqcodec.format.frame import GROUP_MARK, INDEX_MARK, pack_frame
from dqcodec.format.section import RAW

GROUPS = [["a.png", "b/a.png"], ["b/c.png"], ["d.png", "e.png", "again.png"], ["f.txt", "g.png"], ["h.png"]]
NAMES = [name for group in GROUPS for name in group]


@functools.cache
def files() -> dict[str, bytes]:
    found = {name: numbered(number) for number, name in enumerate(NAMES)}
    return found | {"again.png": found["e.png"], "f.txt": written(group_of(["inner.png"], stored(numbered(99))))}


@functools.cache
def frames() -> tuple[bytes, ...]:
    """The start of an archive, each group's frame, the index, the end."""
    data = files()
    packed = [
        group_of(GROUPS[0], stored(data["a.png"], data["b/a.png"])),
        group_of(GROUPS[1], stored(data["b/c.png"])),
        group_of(GROUPS[2], stored(data["d.png"], data["e.png"]), contents=[0, 1, 1]),
        group_of(GROUPS[3], stored(data["g.png"]), Verbatim(data["f.txt"]), contents=[1, 0]),
        group_of(GROUPS[4], stored(data["h.png"])),
    ]
    whole = written(*packed)
    ends = list(itertools.accumulate([5, *(size for size, _ in opened(whole).group_sizes)]))
    parts = [whole[:5], *(whole[a:b] for a, b in itertools.pairwise(ends)), whole[ends[-1] : -20], whole[-20:]]
    assert b"".join(parts) == whole
    return tuple(parts)


def example() -> bytes:
    return b"".join(frames())


def test_an_older_archive_of_the_same_files_in_an_archive_never_takes_its_place(monkeypatch):
    """Both have the same first group and, as in memory, the same id. Photographs leave nothing to pack, so the file is there
    as it is."""
    monkeypatch.setattr(section, "pack_section", lambda raw: (RAW, write_varint(len(raw)) + raw))
    a, z, gone, new = map(numbered, range(4))
    first = group_of(["a.png"], stored(a))
    old = written(first, group_of(["z.png"], stored(z)), group_of(["gone.png"], stored(gone)))
    packed = [first, group_of(["old.dqc"], Verbatim(old)), group_of(["z.png"], stored(new))]
    whole = written(*packed)
    at = whole.index(old) + len(old) - 30
    inner = bytes([*whole[:at], whole[at] ^ 255, *whole[at + 1 :]])
    ends = list(itertools.accumulate([5, *(size for size, _ in opened(whole).group_sizes)]))
    unmarked = inner[: ends[2]] + b"?" + inner[ends[2] + 1 :]  # nothing follows that says where the damaged group ends
    for data in (inner, unmarked):
        with opened(data, salvage=True) as found:
            assert "old.dqc" in [name for damage in found.damage for name in damage.names]
    with opened(inner, salvage=True) as found:
        assert {name: found[name] for name in found} == {"a.png": a, "z.png": new}


def read(data: bytes, **options) -> dict[str, bytes | None]:
    """What each name of an archive gives; None for an error with a name."""
    found = {}
    with opened(data, **options) as packed:
        for name in packed:
            try:
                found[name] = packed[name]
            except NAMED as error:
                assert "\n" not in str(error)
                found[name] = None
    return found


def assert_right(data: bytes, lost: set[str] = frozenset()) -> None:
    """Salvaging and reading give right bytes or nothing, salvaging all that is not lost, and it tells of the rest."""
    with opened(data, salvage=True) as packed:
        got = dict(packed)
        told = {name for damage in packed.damage for name in damage.names}
        is_told = any(damage.is_loss and not damage.names for damage in packed.damage)
    assert all(got[name] == files()[name] for name in NAMES if name in got)
    assert got.keys() >= {*NAMES} - lost
    assert is_told or told >= {*NAMES} - got.keys()
    try:
        found = read(data)
    except NAMED:
        return
    assert all(each in (files()[name], None) for name, each in found.items() if name in files()) and found.keys() >= {
        *NAMES
    }


def test_the_example_is_an_archive_in_which_nothing_is_wrong():
    assert read(example()) == read(example(), salvage=True) == files()
    for salvage in (False, True):
        assert not opened(example(), salvage=salvage).damage


def test_a_flipped_byte_anywhere_costs_at_most_its_group():
    ends = list(itertools.accumulate(map(len, frames())))
    for place in range(len(example())):
        damaged = bytearray(example())
        damaged[place] ^= 1 << place % 8
        struck = next(number for number, end in enumerate(ends) if place < end)
        lost = {*GROUPS[struck - 1]} if 0 < struck < 6 else set()
        if place % 8 == 0 or struck in (0, 6, 7):
            assert_right(bytes(damaged), lost)
        if place >= 5:
            assert {name for name, each in read(bytes(damaged)).items() if each is None} <= lost
            assert read(bytes(damaged)).keys() == files().keys()


def test_the_names_of_a_damaged_group_are_reported():
    parts = list(frames())
    parts[3] = parts[3][:-9] + b"damaged!" + parts[3][-1:]
    damaged = b"".join(parts)
    assert {name for name, each in read(damaged).items() if each is None} == {*GROUPS[2]}
    (lost,) = (each for each in opened(damaged, salvage=True).damage if each.is_loss)
    assert lost.names == tuple(GROUPS[2]) and lost.what == "group 2 is damaged or missing"


def test_an_archive_that_is_cut_gives_all_groups_before_the_cut():
    ends = list(itertools.accumulate(map(len, frames())))
    for length in range(5, len(example())):
        cut = example()[:length]
        whole = {name for number, group in enumerate(GROUPS) for name in group if ends[number + 1] <= length}
        if not whole:
            continue
        got = read(cut, salvage=True)
        assert {name: got[name] for name in whole} == {name: files()[name] for name in whole}
        if length >= len(example()) - 20:  # the index is whole
            assert read(cut) == files() and opened(cut).damage
        else:
            assert any(damage.is_loss for damage in opened(cut, salvage=True).damage)


@pytest.mark.parametrize("more", [b"\0", bytes(1000), b"\x89DQ", b"\x89DQG" * 9])
def test_bytes_before_or_behind_an_archive_cost_nothing(more):
    assert read(example() + more) == files() and opened(example() + more).damage
    for data in (example() + more, more + example(), more + example() + more):
        assert read(data, salvage=True) == files()


@pytest.mark.parametrize("one, two", [*itertools.combinations(range(1, 6), 2)])
def test_groups_that_change_places_never_give_another_names_bytes(one, two):
    parts = list(frames())
    parts[one], parts[two] = parts[two], parts[one]
    swapped = b"".join(parts)
    assert_right(swapped)
    assert opened(swapped, salvage=True).damage


def test_groups_of_equal_length_that_change_places_are_noticed():
    packed = [group_of([f"{n}.png"], stored(numbered(n))) for n in range(2)]
    whole = written(*packed)
    (first, _), (second, _) = opened(whole).group_sizes
    assert first == second
    swapped = whole[:5] + whole[5 + first : 5 + 2 * first] + whole[5 : 5 + first] + whole[5 + 2 * first :]
    assert read(swapped) == {"0.png": None, "1.png": None}
    assert read(swapped, salvage=True) == {f"{n}.png": numbered(n) for n in range(2)}
    assert [damage.is_loss for damage in opened(swapped, salvage=True).damage] == [False]


def test_bodies_that_change_places_are_noticed():
    """The CRC of a body covers the header before it."""
    bodies = [numbered(1), numbered(2)]
    frames = [
        pack_frame(GROUP_MARK, b"abcd", n, group_of([f"{n}"], stored(b"x")).header, body)
        for n, body in enumerate(bodies)
    ]
    size = len(bodies[0]) + 4
    assert len({len(frame) for frame in frames}) == 1
    mixed = START + frames[0][:-size] + frames[1][-size:] + frames[1]
    assert read(mixed, salvage=True) == {"1": bodies[1]}


@pytest.mark.parametrize("number", range(1, 6))
def test_a_group_that_is_missing_or_repeated_is_noticed(number):
    parts = list(frames())
    assert_right(b"".join(parts[:number] + parts[number + 1 :]), {*GROUPS[number - 1]})
    assert_right(b"".join(parts[:number] + [parts[number]] * 3 + parts[number + 1 :]))
    assert_right(b"".join([*parts[:number], *parts[number:], parts[number]]))


def test_joined_archives_are_both_read():
    other = written(group_of(["a.png", "z.png"], stored(numbered(50), numbered(51))))
    both = files() | {"archive-2/a.png": numbered(50), "archive-2/z.png": numbered(51)}
    assert read(example() + other, salvage=True) == both
    with pytest.raises(CorruptError, match="joined"):
        opened(example() + other)
    (damage,) = opened(example() + other, salvage=True).damage
    assert "joined" in damage.what and not damage.is_loss
    cut = example()[: -len(frames()[-1]) - len(frames()[-2]) - 30]
    assert read(cut + other, salvage=True) == {name: each for name, each in both.items() if name != "h.png"}
    assert read(example() * 2, salvage=True) == files()


def test_joined_archives_with_equal_first_groups_are_both_read():
    first = group_of(["a"], stored(numbered(1)))
    one, two = (written(first, group_of([name], stored(numbered(n)))) for n, name in ((2, "b"), (3, "b")))
    assert read(one + two, salvage=True) == {"a": numbered(1), "b": numbered(2), "archive-2/b": numbered(3)}


def test_an_archive_kept_verbatim_does_not_mislead_the_scan():
    inner = written(group_of(["a.png"], stored(numbered(7))), group_of(["b.png"], stored(numbered(8))))
    holder = pngs.write(np.zeros((1, 1, 1), int), end=inner)
    whole = written(
        group_of(["a.png"], stored(numbered(1))), group_of(["in.png"], stored(holder)), group_of(["c"], Verbatim(b"c"))
    )
    assert inner in whole
    assert read(whole, salvage=True) == read(whole[:-1]) == {"a.png": numbered(1), "in.png": holder, "c": b"c"}
    place = whole.index(inner)
    damaged = whole[: place + len(inner) // 2] + b"damage" + whole[place + len(inner) // 2 + 6 :]
    assert read(damaged, salvage=True) == {"a.png": numbered(1), "c": b"c"}


def test_two_groups_of_one_name_are_refused_and_salvaged_with_the_first():
    for other in ("a", "a/b"):
        data = written(group_of(["a"], Verbatim(b"1")), group_of([other, "c"], Verbatim(b"2"), Verbatim(b"3")))
        with pytest.raises(CorruptError, match="one name"):
            opened(data)
        assert read(data, salvage=True) == {"a": b"1", "c": b"3"}
        assert [damage.names for damage in opened(data, salvage=True).damage] == [(other,)]


def test_an_index_that_gives_other_names_leads_to_nothing():
    class Lying(Writer):
        def add(self, group):
            super().add(group)
            length, place = self._places[-1]
            self._places[-1] = length, place.replace(b"a\0", b"other\0")

    stream = io.BytesIO()
    writer = Lying(stream)
    writer.add(group_of(["a"], Verbatim(b"1")))
    writer.finish()
    with pytest.raises(CorruptError, match="index names"):
        opened(stream.getvalue())["other"]
    assert read(stream.getvalue(), salvage=True) == {"a": b"1"}
    assert opened(stream.getvalue(), salvage=True).damage


def test_a_file_without_any_part_of_an_archive_is_an_error():
    for data in (b"", b"no archive", START, bytes(1000), GROUP_MARK * 99):
        with pytest.raises(FormatError):
            opened(data, salvage=True)
    with pytest.raises(CorruptError):
        opened(START)


changes = st.sampled_from(["flip", "cut", "swap", "repeat", "move", "drop", "insert", "join"])


@settings(max_examples=150)
@given(st.lists(changes, min_size=1, max_size=4), st.data())
def test_any_damage_gives_right_bytes_and_reports_losses(done, data):
    parts = list(frames())
    place = st.integers(0, len(parts) - 1)
    for each in done:
        one, two = data.draw(place), data.draw(place)
        one, two = min(one, len(parts) - 1), min(two, len(parts) - 1)
        match each:
            case "flip" if parts[one]:
                at = data.draw(st.integers(0, len(parts[one]) - 1))
                parts[one] = (
                    parts[one][:at] + bytes([parts[one][at] ^ data.draw(st.integers(1, 255))]) + parts[one][at + 1 :]
                )
            case "cut":
                parts[one] = parts[one][: data.draw(st.integers(0, len(parts[one])))]
            case "swap":
                parts[one], parts[two] = parts[two], parts[one]
            case "repeat":
                parts.insert(two, parts[one])
            case "move":
                parts.insert(two, parts.pop(one))
            case "drop":
                parts[one] = b""
            case "insert":
                parts.insert(one, data.draw(st.binary(max_size=40)))
            case "join":
                parts += frames()
    damaged, whole = b"".join(parts), {frame for frame in frames()[1:6] if frame in parts}
    lost = {name for frame, group in zip(frames()[1:6], GROUPS) for name in group if frame not in whole}
    if whole:
        assert_right(damaged, lost)
    else:
        try:
            assert all(
                each in (files()[name], None) for name, each in read(damaged, salvage=True).items() if name in files()
            )
        except NAMED as error:
            assert "\n" not in str(error)


# --- hostile files


def forged_block(*groups: tuple[int, bytes], total: int | None = None, offset: int = 5, first: int = 0) -> bytes:
    raw = b"".join(bytes([size]) + names + b"\0" for size, names in groups)
    raw = bytes([len(groups) if total is None else total]) + offset.to_bytes(8, "little") + bytes([len(groups)]) + raw
    return pack_frame(INDEX_MARK, b"abcd", first, bytes([1, len(raw)]) + raw)


def forged(index: bytes, groups: bytes = bytes(9), count: int = 1) -> bytes:
    import zlib

    end = b"\x89DQEabcd" + count.to_bytes(4, "little") + len(index).to_bytes(4, "little")
    return START + groups + index + end + zlib.crc32(end).to_bytes(4, "little")


def test_the_forger_can_write_an_index():
    assert list(opened(forged(forged_block((9, b"a\0b/c\0"))))) == ["a", "b/c"]
    two = forged_block((4, b"a\0"), total=2) + forged_block((5, b"b\0"), total=2, offset=9, first=1)
    assert list(opened(forged(two, count=2))) == ["a", "b"] and not opened(forged(two, count=2)).damage


@pytest.mark.parametrize(
    "block",
    [
        forged_block((8, b"a\0")),  # groups end before the index
        forged_block((10, b"a\0")),  # ... or in it
        forged_block((9, b"a\0"), total=2),
        forged_block((9, b"a\0"), total=0),
        forged_block((9, b"a\0"), offset=6),
        forged_block((9, b"a\0"), first=1),
        forged_block((9, b"")),
        forged_block(),
        forged_block((9, b"a\0")) * 2,
        pack_frame(INDEX_MARK, b"abcd", 0, b"\1\0"),
        pack_frame(INDEX_MARK, b"abcd", 0, b""),
        pack_frame(INDEX_MARK, b"abcd", 0, b"\1\5aaaaa"),
        pack_frame(GROUP_MARK, b"abcd", 0, b"\1\0", b"x"),
    ],
)
def test_an_index_that_lies_is_not_believed(block):
    for data in (forged(block), forged(block)[:-20]):
        try:
            found = opened(data)
        except CorruptError as error:
            assert "\n" not in str(error)
        else:
            assert found.damage and all(each is None for each in read(data).values())


@pytest.mark.parametrize("name", [b"..", b"../a", b"a/../b", b"/a", b"a//b", b"a/", b".", b"./a", b"a/."])
def test_a_name_that_leaves_its_folder_is_corrupt(name):
    with pytest.raises(CorruptError):
        opened(forged(forged_block((9, name + b"\0"))))


@pytest.mark.parametrize(
    "names", [b"a\0a\0", b"a/b\0c\0a/b\0", b"a\0a/b\0", b"a/b/c\0a\0", b"a/b/c\0a/b\0", b"\xff\0\xff/a\0"]
)
def test_names_that_meet_each_other_are_corrupt(names):
    with pytest.raises(CorruptError, match="one name"):
        opened(forged(forged_block((9, names))))


def test_names_that_begin_alike_do_not_meet():
    assert len(opened(forged(forged_block((9, b"a\0a b\0a-b/c\0ab\0a.b/c\0b/a\0"))))) == 6


def salvaged(data: bytes) -> None:
    try:
        opened(data, salvage=True)
    except NAMED as error:
        assert "\n" not in str(error)


def test_many_marks_and_overlapping_headers_are_scanned_in_linear_time():
    assert_linear(lambda size: GROUP_MARK * size, salvaged, 2000)
    claiming = GROUP_MARK + b"abcd\0\xff\xff\x03\1"  # a header of 64 kB
    with no_hang():
        salvaged(claiming * 20_000)


def test_many_groups_of_one_number_are_scanned_soon():
    groups = [
        pack_frame(GROUP_MARK, b"abcd", 0, group_of(["a"], Verbatim(b"")).header, b"%d" % number)
        for number in range(2000)
    ]
    with no_hang():
        salvaged(b"".join(groups))


def test_an_index_of_very_many_groups_takes_little_memory():
    from test_archive import section_of

    raw = b"\xff\xff\x03" + (5).to_bytes(8, "little") + b"\xff\xff\x03" + b"\1a\0\0" * 65535
    data = forged(pack_frame(INDEX_MARK, b"abcd", 0, section_of(raw)))
    with little_memory(1 << 23), no_hang():
        salvaged(data)


# --- threads and processes


def test_several_threads_read_one_archive(tmp_path):
    path = tmp_path / "set.dqc"
    path.write_bytes(example())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for packed in (Archive(path), Archive(io.BytesIO(example()))):
            with packed, ThreadPoolExecutor(4) as pool:
                wanted = [NAMES[number * 7 % len(NAMES)] for number in range(1500)]
                assert list(pool.map(packed.__getitem__, wanted)) == [files()[name] for name in wanted]
    finally:
        sys.setswitchinterval(interval)


def test_reading_by_position_leaves_a_files_own_place_alone(tmp_path):
    path = tmp_path / "set.dqc"
    path.write_bytes(example())
    with path.open("rb") as file, Archive(file) as packed:
        file.seek(3)
        assert packed["h.png"] == files()["h.png"] and file.tell() == 3


def test_an_archive_is_pickled_by_its_path(tmp_path):
    path = tmp_path / "set.dqc"
    path.write_bytes(example())
    with Archive(path, salvage=True) as packed, pickle.loads(pickle.dumps(packed)) as other:
        assert dict(other) == files()
    with pytest.raises(TypeError, match="path"):
        pickle.dumps(opened(example()))


def test_members_keep_their_times_when_salvaged():
    data = written(group_of([Member("a", 5, 0o600)], stored(pngs.write(np.zeros((1, 1, 1), int)))))
    assert opened(data[:-1], salvage=True).member("a") == Member("a", 5, 0o600)
