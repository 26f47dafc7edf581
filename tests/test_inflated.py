"""Chunks with compressed contents come back byte for byte; deflate is zlib's."""

import hashlib
import io
import zlib

import numpy as np
import pngs
import pytest
from golden import cases
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dqcodec import Archive, png
from dqcodec.base.errors import CorruptError
from dqcodec.codec import codec, library
from dqcodec.format.head import pack_chunks
from dqcodec.png import dictionary, exact, inflated, metadata
from dqcodec.png.deflate import LEVELS, deflate
from dqcodec.png.skeleton import InflatedChunk

quick = settings(max_examples=60)
HEADER = png.Header(3, 5, 2, 8)
texts = st.one_of(
    st.binary(max_size=3000),
    st.builds(bytes.__mul__, st.binary(max_size=40), st.integers(0, 300)),
    st.lists(st.sampled_from([b"exif", b"<rdf:li>", b"\n", b"0", b"00000000", b"xmp"]), max_size=400).map(b"".join),
    st.builds(
        lambda seed, size: (np.random.default_rng(seed).geometric(0.1, size) % 256).astype(np.uint8).tobytes(),
        st.integers(0),
        st.integers(0, 40000),
    ),
)


def zlibs(content: bytes, level: int, window_bits: int) -> bytes:
    stream = zlib.compressobj(level, zlib.DEFLATED, window_bits)
    return stream.compress(content) + stream.flush()


@pytest.mark.skipif(not exact.is_zlibs_own(), reason="needs zlib's own deflate")
@quick
@given(texts, st.sampled_from(sorted(LEVELS)), st.integers(9, 15))
@example(bytes(70000), 6, 15)
@example(bytes(range(256)) * 200, 9, 9)
def test_deflate_is_zlibs(content, level, window_bits):
    assert deflate(content, level, window_bits) == zlibs(content, level, window_bits)[2:-4]


@pytest.mark.parametrize("level, digest", [(4, "5b7b3dec973b2e73"), (6, "0b76be3347ad12ed"), (9, "5a8312a4e0fb6525")])
def test_deflate_is_the_same_on_all_machines(level, digest):
    noise = np.frombuffer(hashlib.shake_256(b"dqcodec").digest(1 << 14), np.uint8)
    content = ((noise & 7) * (np.arange(1 << 14) >> 6 & 31)).astype(np.uint8).tobytes()
    stream = deflate(content, level, 15)
    assert zlib.decompress(stream, -15) == content and hashlib.sha256(stream).hexdigest()[:16] == digest


def test_content_that_takes_deflate_long_is_refused():
    words = b"".join(bytes([7, 8, 9, n & 255, n >> 8]) for n in range(13000))
    with pytest.raises(CorruptError):
        deflate(words, 9, 15)
    chunk = png.Chunk(b"zTXt", b"long\0\0" + zlibs(words, 9, 15))
    assert inflated.pack(*chunk, inflated.MAX_BYTES) is None


def test_bodies_that_have_no_form_are_not_kept():
    bodies = [(b"tEXt", bytes(99)), (b"zTXt", b"long\0\0" + bytes(2 * inflated.MAX_BYTES))]
    before = inflated._pack.cache_info().currsize
    for kind, body in bodies:
        assert inflated.pack(kind, body, inflated.MAX_BYTES) is None
    assert inflated._pack.cache_info().currsize == before


bodies = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda start, content, level, bits, end: start + zlibs(content, level, bits) + end,
        st.sampled_from([b"name\0\0", b"name\0\1\0en\0Name\0", b"name\0\1\0", b""]),
        st.one_of(texts, st.binary(max_size=200).map(lambda data: inflated._to_hex(b"exif\n" + data))),
        st.integers(0, 9),
        st.integers(9, 15),
        st.sampled_from([b"", b"", b"x"]),
    ),
)


@quick
@given(
    st.lists(
        st.builds(png.Chunk, st.sampled_from([b"iCCP", b"zTXt", b"iTXt", b"tEXt", b"prIv"]), bodies),
        max_size=4,
    )
)
def test_any_chunks_come_back_byte_for_byte(chunks):
    skeleton = png.Skeleton(HEADER, (tuple(chunks), ()))
    for inflate in (False, True):
        found, values = metadata.unpack(metadata.pack(skeleton, inflate=inflate), HEADER)
        assert (found.deflated(), values) == (skeleton, b"")


@pytest.mark.skipif(not exact.is_zlibs_own(), reason="needs zlib's own deflate")
def test_compressed_chunks_take_fewer_bytes_and_dumps_are_kept_as_bytes():
    data = pngs.write(np.zeros((5, 3, 3), int), before=cases.profiles())
    skeleton = png.read(data).skeleton
    assert len(pack_chunks(skeleton)[1]) < 0.5 * sum(len(chunk.body) for chunk in skeleton.parts[0])
    raw = metadata.pack(skeleton)
    assert raw.count(125) >= 3 and bytes(range(90)) in raw
    assert png.read(codec.decompress(codec.compress(data)[0], None)[0]).skeleton == skeleton


def test_the_common_profile_of_srgb_costs_little():
    profile = dictionary._SRGB + dictionary.srgb_curve()
    chunk = png.Chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(profile))
    assert len(pack_chunks(png.Skeleton(HEADER, ((chunk,), ())))[1]) < (60 if exact.is_zlibs_own() else 3000)


def test_contents_of_more_than_the_limit_stay_compressed_and_are_refused():
    large = png.Chunk(b"zTXt", b"zeros\0\0" + zlib.compress(bytes(inflated.MAX_BYTES // 2 + 1)))
    skeleton = png.Skeleton(HEADER, ((large, large), ()))
    raw = metadata.pack(skeleton)
    assert len(raw) < inflated.MAX_BYTES and metadata.unpack(raw, HEADER)[0].deflated() == skeleton
    (form, content_bytes) = inflated.pack(*large, inflated.MAX_BYTES)
    assert inflated.content_bytes(form, inflated.MAX_BYTES // 2 + 1) == content_bytes
    assert inflated.deflated(form) == large.body
    with pytest.raises(CorruptError):
        inflated.content_bytes(form, inflated.MAX_BYTES // 2)


@quick
@given(st.binary(max_size=30))
def test_any_form_is_a_body_or_a_named_error(form):
    try:
        content_bytes = inflated.content_bytes(form, 100)
    except CorruptError as error:
        assert "\n" not in str(error)
    else:
        assert len(inflated.deflated(form)) >= 6 and content_bytes <= 100


def test_heads_are_read_without_deflating(monkeypatch):
    """It takes seconds where a content is repetitive, and an archive has thousands of heads."""
    text = png.Chunk(b"zTXt", b"words\0\0" + zlib.compress(b"some words, again some words " * 9))
    data = png.write(pngs.plain(np.zeros((2, 2, 1), np.uint8), (text,)))
    dqc, packed = codec.compress(data)[0], library.compress_archive({"a.png": data})
    assert codec.decompress(dqc, None)[0] == data
    monkeypatch.setattr(inflated, "deflated", None)
    assert codec.info(dqc).width == 2
    (entry,) = Archive(io.BytesIO(packed)).group(0).parts[0].entries
    assert [type(chunk) for chunk in entry.skeleton.parts[0]] == [InflatedChunk]
    with pytest.raises(TypeError):
        codec.decompress(dqc, None)
