import lzma
import zlib

import numpy as np
import pngs
import pytest
from dqc import sealed, stored
from effort import little_memory
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import png
from dqcodec.base.errors import CorruptError, DqcodecError, FormatError, UnsupportedImageError
from dqcodec.base.reader import Reader
from dqcodec.base.varint import folded, unfolded, write_varint
from dqcodec.codec import codec, zoo
from dqcodec.codec.group import decode
from dqcodec.format.container import MAGIC, Group, frame_bytes, may_be_short, owners, read_tail, sample_checksum
from dqcodec.format.head import Entry, read_heads
from dqcodec.format.layer import LAYER_METHODS, LEARNED, TOGETHER, Layer, Method
from dqcodec.format.section import LZMA_FILTERS, pack_section, read_section
from dqcodec.format.split import Split, Step
from dqcodec.methods.table import METHODS
from dqcodec.png.skeleton import KINDS

TEXT = png.Chunk(b"tEXt", b"Comment\0hello")
RGB = 6  # the kind of a file
ID, OTHER_ID, SUM = b"modelid!", b"another!", b"checksum"

modelled = st.builds(Layer, st.sampled_from(sorted(LEARNED)), st.sampled_from([ID, OTHER_ID]))
layers = modelled | st.builds(Layer, st.sampled_from([Method.CLASSICAL, Method.MIXING]))
comments = st.lists(st.builds(png.Chunk, st.sampled_from([b"tEXt", b"prIv"]), st.binary(max_size=300)), max_size=3)
steps = {True: [Step.SCALED, Step.BYTES, Step.RESIDUAL], False: [Step.PLAIN]}


@st.composite
def coded(draw):
    color_type, bit_depth = draw(st.sampled_from(KINDS))
    header = png.Header(draw(st.integers(1, 1 << 13)), draw(st.integers(1, 1 << 13)), color_type, bit_depth)
    before, after = tuple(draw(comments)), tuple(draw(comments))
    if color_type == 3:
        before += (png.Chunk(b"PLTE", draw(st.binary(max_size=40))),)
    skeleton = png.Skeleton(header, (before, after), draw(st.binary(max_size=9)))
    step = draw(st.sampled_from([*steps[bit_depth == 16], *[Step.COLORS][: color_type == 3]]))
    split = Split(step, draw(st.booleans()) and color_type in (4, 6))
    rasters = tuple(tuple(draw(layers) for _ in split.shapes(size, skeleton)) for size in skeleton.sizes)
    return Entry(skeleton, split, rasters, draw(st.binary(max_size=20)))


entries = st.just(Entry()) | coded()


@st.composite
def groups(draw, most=1):
    images = tuple(draw(st.lists(entries, min_size=1, max_size=most)))
    payloads = tuple(draw(st.binary(max_size=50)) for _ in owners(images))
    return Group(images, payloads, SUM if any(image.skeleton for image in images) else b"")


quick = settings(max_examples=60)


def plain(shape, method, payload, model_id=b"", before=()):
    header = png.Header(shape[1], shape[0], {1: 0, 3: 2}[shape[2]], 8)
    skeleton = png.Skeleton(header, (before, ()))
    return Group((Entry(skeleton, rasters=((Layer(method, model_id),),)),), (payload,), SUM)


@quick
@given(groups())
def test_parse_undoes_pack(group):
    assert Group.unpack(group.pack()) == group


def again(group: Group, max_pixels: int = 1 << 40) -> Group:
    """Read the heads and the tail of a group."""
    heads, tail = group.heads(), group.tail()
    reader = Reader(heads + tail)
    images = read_heads(reader, len(group.entries), max_pixels)
    assert reader.position == len(heads)
    return read_tail(images, reader)


@quick
@given(groups(6))
def test_heads_and_tail_of_many_images_read_as_they_were(group):
    assert again(group) == group


@quick
@given(groups(6), st.data())
def test_heads_and_tails_that_are_cut_are_corrupt(group, data):
    """Of the last payload the end is not known."""
    heads, tail = group.heads(), group.tail()
    length = data.draw(st.integers(0, len(heads) + len(tail) - len(group.payloads[-1])))
    reader = Reader((heads + tail)[:length])
    try:
        images = read_heads(reader, len(group.entries), 1 << 40)
        assert length >= len(heads) and images == group.entries
        assert read_tail(images, reader).payloads[-1] == b""
        assert length == len(heads + tail) - len(group.payloads[-1])
    except CorruptError as error:
        assert "\n" not in str(error)


@quick
@given(groups(6))
def test_every_layer_has_one_payload_and_shares_it_only_with_its_like(group):
    owned = owners(group.entries)
    assert sorted(place for places in owned for place in places) == sorted(
        (image, layer) for image, entry in enumerate(group.entries) for layer in range(max(1, len(entry.layers)))
    )
    shared = []
    for places in owned:
        assert places == sorted(places)
        images = [group.entries[image] for image, _ in places]
        if images[0].skeleton is None:
            assert len(places) == 1
            continue
        found = {entry.layers[layer] for entry, (_, layer) in zip(images, places)}
        channels = {entry.shapes[layer][2] for entry, (_, layer) in zip(images, places)}
        assert len(found) == 1
        (layer,) = found
        assert len(places) == 1 or layer.method in TOGETHER
        assert layer.method != Method.MIXING or len(channels) == 1
        if layer.method in TOGETHER:
            shared.append((layer, *(channels if layer.method == Method.MIXING else ())))
    assert len(set(shared)) == len(shared)
    firsts = [(group.entries[image], layer) for (image, layer), *_ in owned]
    is_shared = [bool(entry.skeleton) and entry.layers[layer].method in TOGETHER for entry, layer in firsts]
    assert is_shared == sorted(is_shared)  # those alone come first
    for part in (False, True):
        firsts = [places[0] for places, each in zip(owned, is_shared) if each == part]
        assert firsts == sorted(firsts)


def test_the_pixel_limit_holds_for_all_images_of_a_group_together():
    image = plain((30, 20, 3), Method.CLASSICAL, b"")
    group = Group(image.entries * 3 + (Entry(),), (b"",) * 4, SUM)
    assert again(group, 1800) == group
    with pytest.raises(UnsupportedImageError):
        again(group, 1799)


@quick
@given(groups(), st.integers(0), st.integers(1, 255))
def test_any_flipped_byte_is_an_error(group, index, flip):
    data = bytearray(group.pack())
    data[index % len(data)] ^= flip
    with pytest.raises(DqcodecError):
        found = Group.unpack(bytes(data))
        assert found.is_short  # by a flip in the magic; what it then holds does not decode
        decode(found, zoo.find)


@quick
@given(groups())
def test_a_short_file_is_read_as_it_was_written_and_has_10_bytes_less(group):
    made = group.shortened()
    assert Group.unpack(made.pack()) == made
    assert len(group.pack()) - len(made.pack()) == (10 if may_be_short(group.entries[0]) else 0)
    assert len(made.pack()) == len(group.heads()) + len(group.tail()) + frame_bytes(group.entries[0])


SHORT = codec.compress(pngs.write(np.indices((3, 4)).sum(0)[..., None], before=pngs.chunk(b"tEXt", b"Comment\0hello")))[
    0
]


@quick
@given(st.integers(0, len(SHORT) - 1), st.integers(1, 255))
def test_any_flipped_byte_of_a_short_file_is_an_error_when_it_is_decoded(index, flip):
    data = bytearray(SHORT)
    data[index] ^= flip
    with pytest.raises(DqcodecError):
        codec.decompress(bytes(data), zoo.find)


def test_any_cut_of_a_short_file_is_an_error_when_it_is_decoded():
    assert Group.unpack(SHORT).is_short
    for length in range(len(SHORT)):
        with pytest.raises(DqcodecError):
            codec.decompress(SHORT[:length], zoo.find)


def test_a_large_image_or_a_recipe_makes_no_short_file():
    small, large = (plain((256, width, 1), Method.CLASSICAL, b"") for width in (256, 257))
    assert small.shortened().is_short and not large.shortened().is_short
    forged = Group(large.entries, large.payloads, SUM[:4]).pack()
    with pytest.raises(CorruptError):
        Group.unpack(forged)
    exact = codec.compress(pngs.write(np.zeros((3, 4, 1), np.uint8)), exact=True)[0]
    assert Group.unpack(exact).entries[0].recipe and not Group.unpack(exact).is_short


def test_any_cut_is_an_error():
    data = plain((5, 7, 3), Method.FLOW, b"payload", ID, (TEXT,)).pack()
    for length in range(len(data)):
        with pytest.raises(DqcodecError):
            Group.unpack(data[:length])


@quick
@given(st.binary(max_size=60))
def test_any_bytes_behind_a_valid_crc_parse_to_what_packs_again_or_are_a_named_error(body):
    try:
        group = Group.unpack(sealed(body))
    except DqcodecError as error:
        assert "\n" not in str(error)
    else:
        assert Group.unpack(group.pack()) == group


def test_the_format_and_the_table_name_the_same_methods():
    assert set(METHODS) == LAYER_METHODS
    assert {row.number for row in METHODS.values() if row.needs} == LEARNED


@pytest.mark.parametrize("shape", [(1, 1, 3), (512, 768, 3), (16383, 8192, 3), (63, 1 << 21, 3), (1 << 27, 1, 1)])
def test_overhead_is_at_most_32_bytes_for_a_models_and_10_for_stored(shape):
    assert all(len(plain(shape, method, b"", ID).pack()) <= 32 for method in LEARNED)
    assert len(stored(b"").pack()) == 10


@pytest.mark.parametrize("count", [1, 30, 3000])
def test_chunks_take_few_bytes(count):
    bare = len(plain((1, 1, 3), Method.CLASSICAL, b"").pack())
    with_chunks = plain((1, 1, 3), Method.CLASSICAL, b"", before=(TEXT,) * count).pack()
    assert len(with_chunks) <= bare + len(TEXT.body) + 3 + (count > 1) * 99
    assert Group.unpack(with_chunks).entries[0].skeleton.parts == ((TEXT,) * count, ())


def test_a_model_is_named_once_in_a_row():
    split, skeleton = Split(Step.PLAIN, alpha=True), png.Skeleton(png.Header(1, 1, 6, 8))
    for ids, named in (((ID, ID), 1), ((ID, OTHER_ID), 2)):
        rasters = (tuple(Layer(Method.FLOW, each) for each in ids),)
        data = Group((Entry(skeleton, split, rasters),), (b"", b""), SUM).pack()
        assert sum(data.count(each) for each in set(ids)) == named and Group.unpack(data).entries[0].rasters == rasters


def test_a_model_is_named_once_in_a_row_of_images_too():
    image, other = (plain((1, 1, 3), Method.AUTOREGRESSIVE, b"", each).entries[0] for each in (ID, OTHER_ID))
    between = plain((1, 1, 3), Method.MIXING, b"").entries[0]
    group = Group((image, between, Entry(), image, other, image), (b"",) * 4, SUM)
    assert (group.heads().count(ID), group.heads().count(OTHER_ID)) == (2, 1)
    assert again(group) == group


@quick
@given(st.binary(max_size=300) | st.builds(bytes.__mul__, st.binary(max_size=9), st.integers(0, 3000)))
def test_a_section_is_read_as_it_was_packed_and_grows_by_little(raw):
    packing, section = pack_section(raw)
    assert len(section) <= len(raw) + len(write_varint(len(raw)))
    reader = Reader(section + b"next", 0, len(section) + 4)
    assert read_section(reader, packing) == raw and reader.rest() == b"next"
    for unknown in (0, 5, 255):
        with pytest.raises(CorruptError):
            read_section(Reader(section), unknown)


def test_other_formats_versions_and_damage_raise_different_errors():
    for data in (b"", b"\x89PNG\r\n\x1a\n" + bytes(20)):
        with pytest.raises(FormatError, match="not a .dqc"):
            Group.unpack(data)
    with pytest.raises(FormatError, match="version 9"):
        Group.unpack(MAGIC + b"\x09" + bytes(9))


@pytest.mark.parametrize(
    "body",
    [
        b"\x40",  # stored with a recipe
        b"\x10",  # stored with chunks
        bytes([RGB | 128, 1, 1, 16]) + SUM,  # a reserved bit
        bytes([RGB, 0, 1, 16]) + SUM,  # no width
        bytes([RGB, 0x81, 0, 1, 16]) + SUM,  # a number with a zero tail
        bytes([RGB]) + b"\xff" * 9,  # a number without end
        bytes([RGB | 1 << 4, 1, 1]) + b"\xff\xff\xff\xff\x7f" + b"\x10" + SUM,  # chunks past the end
        bytes([RGB | 1 << 6, 1, 1, 99, 16]) + SUM,  # a recipe past the end
        bytes([RGB | 2 << 4, 1, 1, 4]) + b"\x05abc" + b"\x10" + SUM,  # no deflate stream
        bytes([RGB | 3 << 4, 1, 1, 4]) + b"\x05abc" + b"\x10" + SUM,  # no LZMA stream
        bytes([RGB, 1, 1]),  # no layers
        bytes([RGB, 1, 1, 16]) + SUM[:-1],
        bytes([RGB, 1, 1, 0x00]) + SUM,  # a layer that is stored
        bytes([RGB, 1, 1, 0x60]) + SUM,  # no such method
        bytes([RGB, 1, 1, 0xA0]) + SUM,  # the model of a layer before the first
        bytes([RGB, 1, 1, 0xF0]) + SUM,  # the model of a layer before, for a method that needs none
        bytes([RGB, 1, 1, 0x20]) + SUM[:7],  # a model's id past the end
        bytes([RGB, 1, 1, 0x18]) + SUM,  # RGB with alpha
        bytes([RGB, 1, 1, 0x12]) + SUM,  # high and low bytes of 8 bits
        bytes([RGB, 1, 1, 0x14]) + SUM,  # a palette's colours without one
        bytes([RGB, 1, 1, 0x17]) + SUM,  # no such step
        bytes([15, 1, 1, 0x12]),  # a layer that is missing
        bytes([15, 1, 1, 0x12, 0x11]) + SUM,  # a layer with high bits
        bytes([15, 1, 1, 0x12, 1]) + SUM + b"\x05ab",  # a payload past the end
        bytes([8, 1, 1, 16]) + SUM,  # palette indices without palette
    ],
)
def test_malformed_fields_behind_a_valid_crc_are_corrupt(body):
    with pytest.raises(CorruptError):
        Group.unpack(sealed(body))


@pytest.mark.parametrize("coding", [2, 3])
def test_claimed_lengths_take_no_memory(coding):
    if coding == 2:
        stream = zlib.compressobj(9, wbits=-15)
        bomb = stream.compress(bytes(1 << 25)) + stream.flush()
    else:
        bomb = lzma.compress(bytes(1 << 25), lzma.FORMAT_RAW, filters=LZMA_FILTERS)
    section = b"\x10" + bomb  # claims 16 bytes, expands to 32 MiB
    data = sealed(bytes([RGB | coding << 4, 1, 1]) + write_varint(len(section)) + section + b"\x10" + SUM)
    with little_memory(1 << 22):
        with pytest.raises(CorruptError):
            Group.unpack(data)
        with pytest.raises(UnsupportedImageError):
            Group.unpack(sealed(bytes([RGB]) + b"\xff\xff\xff\xff\x07" * 2 + SUM))


def test_the_checksum_covers_shape_and_samples():
    pixels = np.arange(12, dtype=np.uint8)
    shapes = [(2, 2, 3), (4, 1, 3), (1, 4, 3), (12, 1, 1), (3, 4, 1)]
    sums = {sample_checksum([pixels.reshape(shape)]) for shape in shapes}
    sums |= {sample_checksum([(pixels + 1).reshape(2, 2, 3)]), sample_checksum([pixels.reshape(2, 2, 3)] * 2)}
    sums |= {sample_checksum([pixels.astype(np.uint16).reshape(2, 2, 3) * scale]) for scale in (1, 257)}
    assert len(sums) == 9 and all(len(each) == 8 for each in sums)


@pytest.fixture
def packed_by_lzma(monkeypatch):
    """A list that gets the length of everything that LZMA packs."""
    lengths, compress = [], lzma.compress
    monkeypatch.setattr(
        lzma, "compress", lambda raw, *options, **more: lengths.append(len(raw)) or compress(raw, *options, **more)
    )
    return lengths


def test_the_chunks_of_an_image_are_packed_once_for_all_tried_ways(packed_by_lzma, quick):
    text = pngs.chunk(b"tEXt", b"Comment\0" + np.random.default_rng(0).bytes(5000))
    for color_type, bit_depth in [(2, 8), (6, 8), (6, 16)]:
        packed_by_lzma.clear()
        dqc, report = codec.compress(pngs.random(np.random.default_rng(0), 9, 9, color_type, bit_depth, before=text))
        assert report.chunk_bytes > 5000 and len(packed_by_lzma) == 1


def test_lzma_is_skipped_for_long_noise_but_not_for_distant_repeats(packed_by_lzma, monkeypatch):
    monkeypatch.setattr("dqcodec.format.section._MAX_NOISE_BYTES", 1 << 16)
    noise = np.random.default_rng(0).bytes(1 << 17)
    packing, section = pack_section(noise)
    assert packing == 1 and not packed_by_lzma
    for shift in range(8):
        raw = noise + bytes(shift) + noise[: 1 << 14]  # deflate looks back 2^15 bytes
        packing, section = pack_section(raw)
        assert packing == 3 and len(section) < len(noise) + (1 << 12) and packed_by_lzma.pop() == len(raw)


@given(st.lists(st.integers(-(1 << 61), (1 << 61) - 1), min_size=1))
def test_signed_numbers_fold_into_unsigned_ones_and_back(values):
    codes = [folded(value) for value in values]
    assert codes == [2 * value if value >= 0 else -2 * value - 1 for value in values]
    assert [unfolded(code) for code in codes] == values
    assert folded(np.array(values)).tolist() == codes and unfolded(np.array(codes)).tolist() == values
