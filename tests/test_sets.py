"""An archive is never larger than its files alone, and what is repeated costs a reference."""

import contextlib
import dataclasses

import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_archive import group_of, kinds, opened, written
from test_codec import no_programs, photo, same_image

from dqcodec import png
from dqcodec.base.errors import CorruptError
from dqcodec.base.reader import Reader
from dqcodec.codec import candidates, codec, group
from dqcodec.command.items import equal_together
from dqcodec.command.options import Compressing
from dqcodec.command.packing import Packing
from dqcodec.format.container import Group, sample_checksum
from dqcodec.format.head import Entry, read_heads
from dqcodec.format.layer import Layer, Method


def text(comment: bytes) -> bytes:
    return pngs.chunk(b"tEXt", b"Comment\0" + comment)


def sizes(files: list[bytes]) -> tuple[int, int]:
    """(bytes of the archive of one group, without index and end; bytes of the files alone)."""
    sets = group.encode_sets([codec.read(data) for data in files], [])
    order = [number for numbers, _ in sets for number in numbers]
    assert sorted(order) == [*range(len(files))]
    packed = group_of([f"{number}" for number in order], *(coded.group for _, coded in sets))
    found = opened(written(packed))
    assert all(same_image(found[f"{number}"], data) for number, data in enumerate(files))
    alone = sum(len(codec.encode([codec.read(data)], []).group.pack()) for data in files)
    return len(packed.header) + len(packed.body), alone


names = 2 + 1 + 2 + 4  # of a short name, content, time and mode, about


@settings(max_examples=6)
@given(st.lists(st.sampled_from([*kinds()]), min_size=1, max_size=6), st.integers(0, 3))
def test_a_group_is_never_larger_than_its_files_alone_and_sixteen_bytes_an_image(chosen, seed):
    files = [kinds()[name] for name in chosen] + [pngs.write(photo(20 + seed, 30))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "takes_mixing", lambda *_, **__: False)
        patch.setattr(candidates, "takes_experts", lambda *_: False)
        size, alone = sizes(files)
    assert size <= alone + (16 + names) * len(files)


def test_images_that_gain_nothing_by_company_are_coded_alone(monkeypatch, quick):
    """In a group, images are coded quickly; alone, thoroughly."""
    files = [pngs.write(photo(24, 24)), pngs.write(photo(25, 24)), pngs.write(photo(26, 30))]
    sources = [codec.read(data) for data in files]
    together, encode = codec.encode(sources, []), codec.encode

    def encoded(given, *rest):
        coded = encode(given, *rest)
        if len(given) > 1:  # each takes 9 bytes more, as if by a method that suits it badly
            choices = [dataclasses.replace(each, stored=b"") for each in coded.choices]
            return dataclasses.replace(coded, choices=tuple(choices), group=worse(coded.group))
        return coded

    def worse(group: Group) -> Group:
        return dataclasses.replace(group, payloads=tuple(payload + bytes(9) for payload in group.payloads))

    monkeypatch.setattr(group, "encode", encoded)
    sets = group.encode_sets(sources, [])
    assert [numbers for numbers, _ in sets] == [[0], [1], [2]]
    monkeypatch.setattr(group, "encode", encode)
    assert sum(len(coded.group.tail()) for _, coded in sets) <= len(together.group.tail()) + 3 * 12


@pytest.mark.parametrize("harm, most", [(0, 3), (99, 20)])
def test_all_images_are_coded_alone_only_if_a_sample_loses_by_company(monkeypatch, harm, most):
    """harm: bytes that company adds to each of 20 images that are alike."""
    sources = [codec.read(pngs.write(np.roll(photo(20, 12), number, 0))) for number in range(20)]
    lone, encode = [], group.encode

    def encoded(given, *rest):
        coded = encode(given, *rest)
        lone.append(len(given) == 1)
        if len(given) == 1:
            return coded
        harmed = [dataclasses.replace(each, coded=tuple(layer(part) for part in each.coded)) for each in coded.choices]
        return dataclasses.replace(coded, choices=tuple(harmed))

    def layer(coded):
        return dataclasses.replace(coded, bytes=coded.bytes + harm)

    monkeypatch.setattr(group, "encode", encoded)
    sets = group.encode_sets(sources, [])
    assert sorted(number for numbers, _ in sets for number in numbers) == [*range(20)]
    assert sum(lone) <= most and (not harm or sum(lone) == 20)


def test_images_with_the_same_samples_are_coded_once(quick):
    pixels = photo(30, 40)
    one, other = pngs.write(pixels, before=text(b"one")), pngs.write(pixels, before=text(b"other"))
    files = [one, pngs.write(photo(9, 9)), other, one]
    coded = codec.encode([codec.read(data) for data in files], [])
    assert [entry.repeats for entry in coded.group.entries] == [0, 0, 2, 3]
    assert [entry.method for entry in coded.group.entries][2:] == ["repeated"] * 2 and len(coded.group.payloads) == 2
    images = codec.decode(coded.group, no_programs)
    restored = [codec.restore(entry, each) for entry, each in zip(coded.group.entries, images)]
    assert all(same_image(back, data) for back, data in zip(restored, files, strict=True))
    single = codec.encode([codec.read(one), codec.read(files[1])], [])
    assert (
        len(coded.group.heads()) + len(coded.group.tail()) < len(single.group.heads()) + len(single.group.tail()) + 100
    )


def test_an_image_that_repeats_another_keeps_its_own_bytes_where_they_are_wanted(quick):
    pixels = photo(30, 40)
    files = [
        pngs.write(pixels, idats=1),
        pngs.write(pixels, interlace=True),
        pngs.write(pixels, idats=3, before=text(b"x")),
    ]
    sources = [codec.read(data, exact=True) for data in files]
    assert all(source.is_expressible for source in sources)
    coded = codec.encode(sources, [])
    assert [entry.repeats for entry in coded.group.entries] == [0, 1, 2]
    images = codec.decode(coded.group, no_programs)
    assert [codec.restore(entry, each) for entry, each in zip(coded.group.entries, images)] == files


def test_images_that_differ_in_kind_alone_are_not_repeats(quick):
    gray = np.arange(64).reshape(8, 8, 1) % 4
    files = [pngs.write(gray, 8), pngs.write(gray, 4), pngs.write(gray, 4, 3), pngs.write(gray.reshape(4, 16, 1), 8)]
    coded = codec.encode([codec.read(data) for data in files], [])
    assert not any(entry.repeats for entry in coded.group.entries)


def test_a_repeat_of_nothing_of_its_kind_is_corrupt():
    image = png.plain(photo(4, 5))
    first = Entry(image.skeleton, rasters=((Layer(Method.CLASSICAL),),))
    again = Entry(image.skeleton, repeats=1)
    other = Entry(png.plain(photo(5, 4)).skeleton, repeats=1)
    further = Entry(image.skeleton, repeats=2)
    for entries in ([again], [first, further], [first, other], [Entry(), again], [first, again, again]):
        heads = Group(tuple(entries), (b"",)).heads()
        with pytest.raises(CorruptError):
            read_heads(Reader(heads), len(entries), 1 << 20)
    heads = Group((first, again, further), (b"",)).heads()
    assert read_heads(Reader(heads), 3, 20) == (first, again, further)
    with pytest.raises(CorruptError):  # a file of one image has nothing to repeat
        Group.unpack(Group((again,), (b"",), sample_checksum(image.rasters)).pack())


def test_a_repeat_that_lacks_a_palette_is_corrupt():
    skeleton = png.read(pngs.write(np.zeros((2, 3, 1), int), 8, 3)).skeleton
    first, bare = Entry(skeleton, rasters=((Layer(Method.CLASSICAL),),)), dataclasses.replace(skeleton, parts=((),))
    for second, is_valid in ((skeleton, True), (bare, False)):
        heads = Group((first, Entry(second, repeats=1)), (b"",)).heads()
        with contextlib.nullcontext() if is_valid else pytest.raises(CorruptError):
            read_heads(Reader(heads), 2, 1 << 20)


def test_equal_files_follow_each_other_and_share_a_group(tmp_path):
    for name, data in {"a": b"1", "b": b"22", "c": b"1", "d": b"33", "e": b"1", "f": b"33"}.items():
        (tmp_path / name).write_bytes(data)
    inputs = [(tmp_path / name, name) for name in "abcdef"] + [(tmp_path / "missing", "missing")]
    assert "".join(name[0] for _, name in equal_together(inputs)) == "acebdfm"


def test_a_repeated_file_costs_a_reference(tmp_path, quick):
    data = pngs.write(photo(48, 48))
    sizes = []
    for count in (1, 2, 20):
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"{number}.png").write_bytes(data)
        inputs = [(path, path.name) for path in sorted(folder.iterdir())]
        target = tmp_path / f"{count}.dqc"
        report = Packing(target, Compressing()).pack(inputs, map, lambda _: None)
        assert report.groups == 1
        sizes.append(target.stat().st_size)
        with contextlib.closing(opened(target.read_bytes())) as packed:
            assert all(same_image(each, data) for each in packed.values())
    alone, two, twenty = sizes
    assert two <= alone + 40 and twenty <= alone + 20 * 30
