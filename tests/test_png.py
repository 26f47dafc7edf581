import dataclasses
import struct
import zlib
from io import BytesIO

import numpy as np
import pngs
import pytest
from effort import little_memory
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dqcodec import png
from dqcodec.base.errors import CorruptError, DqcodecError, UnsupportedImageError
from dqcodec.png import chunks, metadata
from dqcodec.png import samples as png_samples

TEXT = pngs.chunk(b"tEXt", b"Comment\0hello")
GAMMA = pngs.chunk(b"gAMA", b"\0\0\xb1\x8f")


quick = settings(max_examples=60)


def noise(shape, bit_depth, seed=0):
    dtype = np.uint16 if bit_depth == 16 else np.uint8
    return np.random.default_rng(seed).integers(0, 1 << bit_depth, shape).astype(dtype)


@quick
@given(
    st.sampled_from(pngs.KINDS), st.integers(1, 9), st.integers(1, 17), st.booleans(), st.integers(1, 3), st.integers(0)
)
def test_every_kind_has_exactly_its_samples_and_keeps_them(kind, height, width, interlace, idats, seed):
    color_type, bit_depth = kind
    samples = noise((height, width, pngs.SAMPLES[color_type]), bit_depth, seed)
    image = png.read(pngs.write(samples, bit_depth, color_type, interlace, idats=idats))
    again = png.read(png.write(image))
    for each in (image, again):
        assert each.header == (width, height, color_type, bit_depth)
        assert each.pixels.dtype == samples.dtype and np.array_equal(each.pixels, samples)
    assert again.skeleton == image.skeleton


@quick
@given(
    st.sampled_from(pngs.KINDS),
    st.integers(1, 9),
    st.integers(1, 9),
    st.lists(st.integers(0, 4), min_size=9, max_size=9),
)
def test_every_filter_is_undone(kind, height, width, filters):
    color_type, bit_depth = kind
    header = png.Header(width, height, color_type, bit_depth)
    samples = noise((height, width, header.samples), bit_depth)
    rows = png_samples.to_rows(samples, header, 1)
    kinds = [np.resize(np.uint8(filters), len(part)) for part in rows]
    stream = zlib.compress(png_samples.filtered(rows, kinds, header))
    decoded, is_tidy = png_samples.decode([stream[:5], stream[5:]], (height, width), header, 1)
    assert is_tidy and np.array_equal(decoded, samples)


@pytest.mark.parametrize("color_type, bit_depth", [(0, 8), (2, 8), (4, 8), (6, 8), (0, 16), (2, 16)])
def test_pillow_reads_what_is_written(color_type, bit_depth):
    smooth = np.add.outer(np.arange(40) * 3, np.arange(60))[..., None] * (257 if bit_depth == 16 else 1)
    samples = (smooth + np.arange(pngs.SAMPLES[color_type])) % (1 << bit_depth)
    data = png.write(png.read(pngs.write(samples, bit_depth, color_type)))
    assert len(data) < samples.size // 4
    theirs = np.asarray(Image.open(BytesIO(data))).reshape(40, 60, -1)
    assert np.array_equal(theirs, samples if theirs.dtype != np.uint8 else samples >> bit_depth - 8)


def test_chunks_come_back_verbatim_in_their_places():
    palette = pngs.chunk(b"PLTE", bytes(6))
    image = png.read(pngs.write(np.zeros((2, 2, 3), int), before=GAMMA + palette, after=TEXT, idats=2))
    parts = ((b"gAMA", GAMMA[8:-4]), (b"PLTE", bytes(6))), ((b"tEXt", b"Comment\0hello"),)
    assert image.skeleton.parts == parts
    data = png.write(image)
    assert GAMMA + palette + pngs.chunk(b"IDAT")[4:8] not in data and data.index(GAMMA + palette) == 33
    assert data.endswith(TEXT + pngs.chunk(b"IEND")) and png.read(data).same(image)


@quick
@given(
    st.sampled_from(pngs.KINDS),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=3),
    st.booleans(),
    st.integers(1, 3),
)
def test_every_frame_of_an_animation_is_kept(kind, corners, is_first, idats):
    color_type, bit_depth = kind
    count = pngs.SAMPLES[color_type]
    frames = [((top, left), noise((5 - top, 7 - left, count), bit_depth, top)) for top, left in corners]
    data = pngs.animated(
        noise((5, 7, count), bit_depth), frames, bit_depth, color_type, is_first, idats, TEXT, after=TEXT
    )
    image = png.read(data)
    if not (frames or is_first):
        assert image.skeleton.parts[0][-1].kind == b"acTL" if image.skeleton else True
        return
    assert all(map(np.array_equal, image.rasters[1:], [samples for _, samples in frames]))
    assert len(image.rasters) == 1 + len(frames) and image.skeleton.sizes[1:] == tuple(f.shape[:2] for _, f in frames)
    assert png.read(png.write(image)).same(image)
    assert metadata.unpack(metadata.pack(image.skeleton), image.header) == (image.skeleton, b"")


@pytest.mark.parametrize("raw", [b"\x7c\0", b"\x7c\1", b"\x7c\1a\0", b"\x7c\1a\x7c\1a"])
def test_bytes_after_iend_are_some_and_the_last_item(raw):
    assert metadata.unpack(b"\x7c\1a", png.Header(1, 1, 2, 8))[0].tail == b"a"
    with pytest.raises(CorruptError):
        metadata.unpack(raw, png.Header(1, 1, 2, 8))


STILL = np.zeros((4, 4, 1), int)


@pytest.mark.parametrize(
    "data",
    [
        pngs.write(STILL, end=b"more"),
        pngs.write(STILL, before=pngs.chunk(b"CgBI", bytes(4))),
        pngs.write(STILL, before=pngs.chunk(b"acTL", bytes(8))),
        pngs.animated(STILL, [((0, 0), STILL)]).replace(b"acTL", b"acTl"),
        pngs.animated(STILL, [((2, 2), STILL)]),
        pngs.animated(STILL, [((0, 0), STILL)], between=pngs.chunk(b"fcTL", bytes(26))),
        pngs.animated(STILL, [((0, 0), STILL[:3])]).replace(*(struct.pack(">II", 4, height) for height in (3, 4))),
    ],
)  # fmt: skip
def test_what_a_skeleton_cannot_express_leaves_only_the_default_image(data):
    data = recrc(data)
    image = png.read(data)
    assert image.skeleton is None and np.array_equal(image.pixels, STILL)


def recrc(data: bytes) -> bytes:
    """With the right CRC for every chunk."""
    out, position = [data[:8]], 8
    while position < len(data) and data[position + 4 : position + 8].isalpha():
        length = int.from_bytes(data[position : position + 4])
        out.append(pngs.chunk(data[position + 4 : position + 8], data[position + 8 : position + 8 + length]))
        position += 12 + length
    return b"".join(out) + data[position:]


@pytest.mark.parametrize("extra", [b"x", b"extra"])
def test_data_beyond_the_image_leaves_no_skeleton(extra):
    beyond = zlib.compress(bytes(6) + extra), zlib.compress(bytes(6)) + extra, zlib.compress(bytes(6))[:-1]
    for stream in beyond:
        image = png.read(pngs.SIGNATURE + pngs.header(5, 1, 8, 0) + pngs.chunk(b"IDAT", stream) + pngs.chunk(b"IEND"))
        assert image.skeleton is None and image.pixels.shape == (1, 5, 1)


@quick
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*sorted({kind for kind, _ in metadata._TYPES}), b"prIv", b"zzzz"]), st.binary(max_size=40)
        )
    ),
    st.integers(0),
    st.binary(max_size=200),
)
def test_metadata_are_packed_and_unpacked(chunks, place, values):
    chunks = [png.Chunk(kind, body) for kind, body in chunks if kind not in (b"acTL", b"fcTL")]
    chunks = [chunk for index, chunk in enumerate(chunks) if chunk.kind not in [each.kind for each in chunks[:index]]]
    place %= len(chunks) + 1
    skeleton = png.Skeleton(png.Header(3, 5, 2, 8), (tuple(chunks[:place]), tuple(chunks[place:])))
    assert metadata.unpack(metadata.pack(skeleton, values), skeleton.header) == (skeleton, values)


@quick
@given(st.binary(max_size=60), st.sampled_from([2, 3]))
def test_any_bytes_are_metadata_that_can_be_written_or_a_named_error(data, color_type):
    header = png.Header(3, 5, color_type, 8)
    try:
        skeleton, values = metadata.unpack(data, header)
    except CorruptError as error:
        assert "\n" not in str(error)
    else:
        assert metadata.unpack(metadata.pack(skeleton, values), header) == (skeleton, values)
        assert [len(size) for size in skeleton.sizes] == [2] * (len(skeleton.parts) - 1)


@pytest.mark.parametrize("kind", [b"IHDR", b"IDAT", b"IEND", b"fdAT", b"fcTL", b"acTL", b"CgBI"])
def test_chunks_that_may_not_stand_there_are_refused(kind):
    skeleton = png.Skeleton(png.Header(3, 5, 2, 8), ((png.Chunk(kind, b""),), ()))
    with pytest.raises(CorruptError):
        metadata.unpack(metadata.pack(skeleton), skeleton.header)


def test_two_pngs_are_the_same_only_if_all_that_they_hold_is():
    image = png.read(pngs.animated(noise((9, 8, 3), 8), [((0, 0), noise((4, 8, 3), 8, 1))], before=TEXT))
    assert image.same(png.read(png.write(image))) and len(image.rasters) == 2
    for raster in image.rasters:
        other = raster.copy()
        other[-1, -1, -1] ^= 1
        for wrong in (other, raster.astype(np.uint16), raster[:-1], raster[..., :1]):
            rasters = [wrong if each is raster else each for each in image.rasters]
            assert not image.same(dataclasses.replace(image, rasters=tuple(rasters)))
    for rasters in ((), image.rasters[:1], (*image.rasters, image.pixels)):
        other = dataclasses.replace(image, rasters=rasters)
        assert not image.same(other) and not other.same(image)
    assert not image.same(dataclasses.replace(image, header=image.header._replace(bit_depth=16)))
    assert not image.same(image.stripped())


def test_a_png_of_very_many_chunks_is_refused_before_they_take_memory(monkeypatch):
    monkeypatch.setattr(chunks, "MAX_CHUNKS", 4)
    few, many = (pngs.write(noise((2, 2, 3), 8), before=count * TEXT) for count in (1, 2))
    assert png.read(few).skeleton
    with pytest.raises(UnsupportedImageError, match="more than 4 chunks"):
        png.read(many)
    chunks.check_trailing(BytesIO(many + bytes(chunks.MAX_TRAILING_BYTES)), 1 << 25)  # reads no more heads than that


def test_large_rasters_are_compared_to_their_ends_whatever_their_types():
    """They are compared some rows at a time, more of uint8 than of uint16."""
    samples = np.zeros((3000, 1000, 1), np.uint8)
    image = png.read(pngs.write(samples))
    other = samples.astype(np.uint16)
    other[-1] = 1
    for wrong in (other, np.concatenate([samples[:-1], samples[-1:] + 1]), samples.astype(np.int64)):
        assert not image.same(dataclasses.replace(image, rasters=(wrong,)))


def test_a_png_packed_anew_has_no_chunks_that_tell_of_the_old_packing():
    packed = [pngs.chunk(kind, b"body") for kind in (b"iDOT", b"dSIG", b"caBX")]
    # unsafe to copy by their names, but what they depend on stays: samples, palette, order
    kept = (
        GAMMA + pngs.chunk(b"sBIT", bytes(3)) + pngs.chunk(b"bKGD", bytes(6)) + pngs.chunk(b"abCD", b"unknown") + TEXT
    )
    source = pngs.write(noise((3, 3, 3), 8), before=packed[0] + kept + packed[2], after=packed[1] + TEXT)
    image = png.read(source)
    assert image.skeleton.lost(image.repacked().skeleton) == ("iDOT", "caBX", "dSIG")
    again = png.read(png.write(image))
    assert again.same(image.repacked()) and not again.same(image)
    assert again.skeleton == png.read(pngs.write(noise((3, 3, 3), 8), before=kept, after=TEXT)).skeleton


def test_stripping_keeps_what_samples_mean():
    kept = GAMMA + pngs.chunk(b"sBIT", bytes(3)) + pngs.chunk(b"iCCP", b"p\0\0") + pngs.chunk(b"tRNS", bytes(6))
    image = png.read(pngs.write(noise((3, 3, 3), 8), before=kept + TEXT + pngs.chunk(b"pHYs", bytes(9)), after=TEXT))
    stripped = image.stripped()
    assert [kind for kind, _ in stripped.skeleton.parts[0]] == [b"gAMA", b"sBIT", b"iCCP", b"tRNS"]
    assert stripped.skeleton.parts[1] == () and stripped.pixels is image.pixels


def test_size_limit_is_checked_before_anything_is_decoded_and_only_ours_counts(monkeypatch):
    huge = pngs.SIGNATURE + pngs.header(1 << 30, 1 << 30) + pngs.chunk(b"IDAT", b"x") + pngs.chunk(b"IEND")
    with pytest.raises(UnsupportedImageError, match="limit"):
        png.read(huge)
    with pytest.raises(CorruptError, match="too short"):
        png.read(huge, max_pixels=1 << 60)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1)
    assert png.read(pngs.write(np.zeros((9, 9, 1), int))).pixels.shape == (9, 9, 1)


@pytest.mark.parametrize(
    "data, error",
    [
        (b"", UnsupportedImageError),
        (b"GIF89a", UnsupportedImageError),
        (pngs.SIGNATURE, CorruptError),
        (pngs.SIGNATURE + pngs.chunk(b"IEND"), CorruptError),
        (pngs.SIGNATURE + pngs.header(1, 1) + pngs.chunk(b"IEND"), CorruptError),
        (pngs.SIGNATURE + pngs.header(0, 1) + pngs.chunk(b"IDAT") + pngs.chunk(b"IEND"), CorruptError),
        (pngs.SIGNATURE + pngs.header(1, 1, 3) + pngs.chunk(b"IDAT") + pngs.chunk(b"IEND"), CorruptError),
        (pngs.SIGNATURE + pngs.header(1, 1) + pngs.chunk(b"IDAT", b"zz") + pngs.chunk(b"IEND"), CorruptError),
        (pngs.SIGNATURE + pngs.header(1, 1, 8, 3) + pngs.chunk(b"IDAT", b"zz") + pngs.chunk(b"IEND"), CorruptError),
        (pngs.write(np.zeros((1, 1, 1), int), 8, 3, before=pngs.chunk(b"PLTE", bytes(3))), CorruptError),
        (
            pngs.SIGNATURE
            + pngs.header(1, 1, 8, 0)
            + pngs.chunk(b"IDAT", zlib.compress(b"\5\0"))
            + pngs.chunk(b"IEND"),
            CorruptError,
        ),
        (
            pngs.SIGNATURE + pngs.header(1, 1, 8, 0) + pngs.chunk(b"IDAT", zlib.compress(b"\0")) + pngs.chunk(b"IEND"),
            CorruptError,
        ),
        (pngs.write(np.zeros((1, 1, 3), int), after=TEXT + pngs.chunk(b"IDAT")), CorruptError),
        (pngs.write(np.zeros((1, 1, 3), int), before=pngs.header(1, 1)), CorruptError),
        (pngs.write(np.zeros((1, 1, 3), int), before=pngs.chunk(b"t\n\0t")), CorruptError),
    ],
)
def test_malformed_files_give_one_line_errors(data, error):
    with pytest.raises(error) as caught:
        png.read(data)
    assert str(caught.value) and "\n" not in str(caught.value)


def test_any_flipped_byte_or_cut_is_an_error():
    data = pngs.write(np.arange(48).reshape(4, 4, 3), before=TEXT)
    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 1 << index % 8
        for broken in (bytes(damaged), data[:index]):
            with pytest.raises(DqcodecError):
                png.read(broken)


def test_cut_image_data_with_valid_crcs_is_an_error():
    noise = np.random.default_rng(2).integers(0, 256, (20, 20, 3))
    whole = pngs.write(noise, idats=2)
    second = whole.rindex(b"IDAT") - 4
    with pytest.raises(CorruptError):
        png.read(whole[:second] + pngs.chunk(b"IEND"))


def test_reading_takes_two_copies_of_the_samples_at_once_writing_one_besides_and_comparing_none():
    ramp = np.indices((900, 800, 3)).sum(0) % 256
    data = pngs.write(ramp)
    other = png.read(data)
    png.write(other)  # compiled
    with little_memory(int(2.3 * ramp.size)):
        image = png.read(data)
    with little_memory(int(1.4 * ramp.size)):
        png.write(image)
    with little_memory(ramp.size * 2 // 3):
        assert image.same(other)
