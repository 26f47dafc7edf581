import tracemalloc
import zlib

import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.container import LEARNED, MAGIC, Container, Method, pixel_checksum
from dqcodec.errors import CorruptError, DqcodecError, FormatError, UnsupportedImageError
from dqcodec.png import Chunks

TEXT = pngs.chunk(b"tEXt", b"Comment\0hello")
ID, SUM = b"modelid!", b"checksum"

chunk_sets = st.builds(Chunks, st.binary(max_size=300), st.sampled_from([b"", TEXT, TEXT * 40]))
shapes = st.tuples(st.integers(1, 1 << 13), st.integers(1, 1 << 13), st.sampled_from([1, 3]))
containers = st.one_of(
    st.builds(Container, st.just(Method.STORED), st.binary(max_size=50)),
    st.builds(Container, st.just(Method.CLASSICAL), st.binary(max_size=50), shapes, st.just(SUM), chunks=chunk_sets),
    st.builds(Container, st.sampled_from(sorted(LEARNED)), st.binary(max_size=50), shapes, st.just(SUM), st.just(ID), chunk_sets),
)
quick = settings(max_examples=60, deadline=None, derandomize=True)


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
    data = Container(Method.FLOW, b"payload", (5, 7, 3), SUM, ID, Chunks(TEXT)).pack()
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
    assert all(len(Container(method, b"", shape, SUM, ID).pack()) <= 32 for method in LEARNED)
    assert len(Container(Method.STORED, b"").pack()) == 10


def test_chunks_are_compressed_only_where_that_is_smaller():
    bare = len(Container(Method.FLOW, b"", (1, 1, 3), SUM, ID).pack())
    small = len(Container(Method.FLOW, b"", (1, 1, 3), SUM, ID, Chunks(TEXT)).pack())
    large = len(Container(Method.FLOW, b"", (1, 1, 3), SUM, ID, Chunks(TEXT * 100)).pack())
    assert bare < small <= bare + len(TEXT) + 2 and large < bare + len(TEXT) * 10


def test_other_files_and_versions_are_told_apart_from_damage():
    for data in (b"", b"\x89PNG\r\n\x1a\n" + bytes(20)):
        with pytest.raises(FormatError, match="not a .dqc"):
            Container.parse(data)
    with pytest.raises(FormatError, match="version 9"):
        Container.parse(MAGIC + b"\x09" + bytes(9))


@pytest.mark.parametrize(
    "body",
    [
        b"\3",  # autoregressive without channels
        b"\x40",  # reserved bits
        b"\4",  # stored with channels
        bytes([1 | 2 << 2, 1, 1]) + SUM,  # two channels
        bytes([1 | 1 << 2, 0, 1]) + SUM,  # no width
        bytes([1 | 1 << 2, 0x81, 0, 1]) + SUM,  # a number with a zero tail
        bytes([1 | 1 << 2]) + b"\xff" * 9,  # a number without end
        bytes([1 | 1 << 2 | 1 << 4, 1, 1]) + b"\xff\xff\xff\xff\x7f" + SUM,  # chunks past the end
        bytes([1 | 1 << 2 | 2 << 4, 1, 1, 4]) + b"\x05abc" + SUM,  # no zlib stream
        bytes([1 | 1 << 2, 1, 1]) + SUM[:-1],
    ],
)
def test_malformed_fields_behind_a_valid_crc_are_corrupt(body):
    with pytest.raises(CorruptError):
        Container.parse(sealed(body))


def test_no_memory_is_taken_for_what_a_file_only_claims():
    bomb = zlib.compress(bytes(1 << 25), 9)
    section = b"\x10" + bomb  # claims 16 bytes, expands to 32 MiB
    length = bytes([len(section) & 127 | 128, len(section) >> 7 & 127 | 128, len(section) >> 14])
    data = sealed(bytes([1 | 1 << 2 | 2 << 4, 1, 1]) + length + section + SUM)
    tracemalloc.start()
    with pytest.raises(CorruptError):
        Container.parse(data)
    with pytest.raises(UnsupportedImageError):
        Container.parse(sealed(bytes([1 | 1 << 2]) + b"\xff\xff\xff\xff\x07" * 2 + SUM))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_pixel_checksum_covers_shape_and_samples():
    pixels = np.arange(12, dtype=np.uint8)
    sums = {pixel_checksum(pixels.reshape(shape)) for shape in [(2, 2, 3), (4, 1, 3), (1, 4, 3), (12, 1, 1), (3, 4, 1)]}
    assert len(sums | {pixel_checksum((pixels + 1).reshape(2, 2, 3))}) == 6
    assert all(len(each) == 8 for each in sums)
