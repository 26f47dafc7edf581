import lzma
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import container, png
from dqcodec.container import LEARNED, MAGIC, Container, Layer, Method, sample_checksum
from dqcodec.errors import CorruptError, DqcodecError, FormatError, UnsupportedImageError
from dqcodec.layers import Split, Step
from dqcodec.png.chunks import KINDS
from dqcodec.varint import write_varint

TEXT = png.Chunk(b"tEXt", b"Comment\0hello")
RGB = 6  # the kind of a file
ID, SUM = b"modelid!", b"checksum"

modelled = st.builds(Layer, st.sampled_from(sorted(LEARNED)), st.binary(max_size=50), st.sampled_from([ID, b"another!"]))
layers = modelled | st.builds(Layer, st.sampled_from([Method.CLASSICAL, Method.MIXING]), st.binary(max_size=50))
comments = st.lists(st.builds(png.Chunk, st.sampled_from([b"tEXt", b"prIv"]), st.binary(max_size=300)), max_size=3)
steps = {True: [Step.SCALED, Step.BYTES, Step.RESIDUAL], False: [Step.PLAIN]}


@st.composite
def coded(draw):
    color_type, bit_depth = draw(st.sampled_from(KINDS))
    header = png.Header(draw(st.integers(1, 1 << 13)), draw(st.integers(1, 1 << 13)), color_type, bit_depth)
    before, after = tuple(draw(comments)), tuple(draw(comments))
    if color_type == 3:
        before += (png.Chunk(b"PLTE", draw(st.binary(max_size=40))),)
    skeleton = png.Skeleton(header, (before, after))
    step = draw(st.sampled_from([*steps[bit_depth == 16], *[Step.COLORS][: color_type == 3]]))
    split = Split(step, draw(st.booleans()) and color_type in (4, 6))
    rasters = tuple(tuple(draw(layers) for _ in split.shapes(size, skeleton)) for size in skeleton.sizes)
    return Container(None, skeleton, split, rasters, SUM, draw(st.binary(max_size=20)))


containers = st.builds(Container, st.binary(max_size=50)) | coded()
quick = settings(max_examples=60, deadline=None, derandomize=True)


def plain(shape, method, payload, model_id=b"", before=()):
    header = png.Header(shape[1], shape[0], {1: 0, 3: 2}[shape[2]], 8)
    skeleton = png.Skeleton(header, (before, ()))
    return Container(None, skeleton, rasters=((Layer(method, payload, model_id),),), checksum=SUM)


def sealed(body: bytes) -> bytes:
    """`body` behind magic and version, with a valid CRC."""
    data = MAGIC + b"\1" + body
    return data + zlib.crc32(data).to_bytes(4, "little")


@quick
@given(containers)
def test_parse_undoes_pack(container):
    assert Container.parse(container.pack()) == container


@quick
@given(containers, st.integers(0), st.integers(1, 255))
def test_any_flipped_byte_is_an_error(container, index, flip):
    data = bytearray(container.pack())
    data[index % len(data)] ^= flip
    with pytest.raises(DqcodecError):
        Container.parse(bytes(data))


def test_any_cut_is_an_error():
    data = plain((5, 7, 3), Method.FLOW, b"payload", ID, (TEXT,)).pack()
    for length in range(len(data)):
        with pytest.raises(DqcodecError):
            Container.parse(data[:length])


@quick
@given(st.binary(max_size=60))
def test_any_bytes_behind_a_valid_crc_parse_to_what_packs_again_or_are_a_named_error(body):
    try:
        container = Container.parse(sealed(body))
    except DqcodecError as error:
        assert "\n" not in str(error)
    else:
        assert Container.parse(container.pack()) == container


@pytest.mark.parametrize("shape", [(1, 1, 3), (512, 768, 3), (16383, 8192, 3), (63, 1 << 21, 3), (1 << 27, 1, 1)])
def test_overhead_is_at_most_32_bytes_for_a_models_and_10_for_stored(shape):
    assert all(len(plain(shape, method, b"", ID).pack()) <= 32 for method in LEARNED)
    assert len(Container(b"").pack()) == 10


@pytest.mark.parametrize("count", [1, 30, 3000])
def test_chunks_take_few_bytes(count):
    bare = len(plain((1, 1, 3), Method.CLASSICAL, b"").pack())
    with_chunks = plain((1, 1, 3), Method.CLASSICAL, b"", before=(TEXT,) * count).pack()
    assert len(with_chunks) <= bare + len(TEXT.body) + 3 + (count > 1) * 99
    assert Container.parse(with_chunks).skeleton.parts == ((TEXT,) * count, ())


def test_a_model_is_named_once_in_a_row():
    split, skeleton = Split(Step.PLAIN, alpha=True), png.Skeleton(png.Header(1, 1, 6, 8))
    for ids, named in (((ID, ID), 1), ((ID, b"another!"), 2)):
        rasters = (tuple(Layer(Method.FLOW, b"", each) for each in ids),)
        data = Container(None, skeleton, split, rasters, SUM).pack()
        assert sum(data.count(each) for each in set(ids)) == named and Container.parse(data).rasters == rasters


def test_other_files_and_versions_are_told_apart_from_damage():
    for data in (b"", b"\x89PNG\r\n\x1a\n" + bytes(20)):
        with pytest.raises(FormatError, match="not a .dqc"):
            Container.parse(data)
    with pytest.raises(FormatError, match="version 9"):
        Container.parse(MAGIC + b"\x09" + bytes(9))


@pytest.mark.parametrize(
    "body",
    [
        b"\x40",  # stored with a recipe
        b"\x10",  # stored with chunks
        bytes([RGB | 128, 1, 1]) + SUM + b"\x10",  # a reserved bit
        bytes([RGB, 0, 1]) + SUM + b"\x10",  # no width
        bytes([RGB, 0x81, 0, 1]) + SUM + b"\x10",  # a number with a zero tail
        bytes([RGB]) + b"\xff" * 9,  # a number without end
        bytes([RGB | 1 << 4, 1, 1]) + b"\xff\xff\xff\xff\x7f" + SUM + b"\x10",  # chunks past the end
        bytes([RGB | 1 << 6, 1, 1, 99]) + SUM + b"\x10",  # a recipe past the end
        bytes([RGB | 2 << 4, 1, 1, 4]) + b"\x05abc" + SUM + b"\x10",  # no deflate stream
        bytes([RGB | 3 << 4, 1, 1, 4]) + b"\x05abc" + SUM + b"\x10",  # no LZMA stream
        bytes([RGB, 1, 1]) + SUM[:-1],
        bytes([RGB, 1, 1]) + SUM,  # no layers
        bytes([RGB, 1, 1]) + SUM + b"\x00",  # a layer that is stored
        bytes([RGB, 1, 1]) + SUM + b"\x90",  # the model of a layer before the first
        bytes([RGB, 1, 1]) + SUM + b"\x18",  # RGB with alpha
        bytes([RGB, 1, 1]) + SUM + b"\x12",  # high and low bytes of 8 bits
        bytes([RGB, 1, 1]) + SUM + b"\x14",  # a palette's colours without one
        bytes([RGB, 1, 1]) + SUM + b"\x17",  # no such step
        bytes([15, 1, 1]) + SUM + b"\x12\x05ab",  # a layer past the end
        bytes([8, 1, 1]) + SUM + b"\x10",  # palette indices without palette
    ],
)
def test_malformed_fields_behind_a_valid_crc_are_corrupt(body):
    with pytest.raises(CorruptError):
        Container.parse(sealed(body))


@pytest.mark.parametrize("coding", [2, 3])
def test_no_memory_is_taken_for_what_a_file_only_claims(coding):
    if coding == 2:
        stream = zlib.compressobj(9, wbits=-15)
        bomb = stream.compress(bytes(1 << 25)) + stream.flush()
    else:
        bomb = lzma.compress(bytes(1 << 25), lzma.FORMAT_RAW, filters=container._LZMA_FILTERS)
    section = b"\x10" + bomb  # claims 16 bytes, expands to 32 MiB
    data = sealed(bytes([RGB | coding << 4, 1, 1]) + write_varint(len(section)) + section + SUM + b"\x10")
    tracemalloc.start()
    with pytest.raises(CorruptError):
        Container.parse(data)
    with pytest.raises(UnsupportedImageError):
        Container.parse(sealed(bytes([RGB]) + b"\xff\xff\xff\xff\x07" * 2 + SUM))
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_the_checksum_covers_shape_and_samples():
    pixels = np.arange(12, dtype=np.uint8)
    shapes = [(2, 2, 3), (4, 1, 3), (1, 4, 3), (12, 1, 1), (3, 4, 1)]
    sums = {sample_checksum([pixels.reshape(shape)]) for shape in shapes}
    sums |= {sample_checksum([(pixels + 1).reshape(2, 2, 3)]), sample_checksum([pixels.reshape(2, 2, 3)] * 2)}
    sums |= {sample_checksum([pixels.astype(np.uint16).reshape(2, 2, 3) * scale]) for scale in (1, 257)}
    assert len(sums) == 9 and all(len(each) == 8 for each in sums)
