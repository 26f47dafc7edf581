import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dqcodec import png
from dqcodec.errors import CorruptError, DqcodecError, UnsupportedImageError

TEXT = pngs.chunk(b"tEXt", b"Comment\0hello")
GAMMA = pngs.chunk(b"gAMA", b"\0\0\xb1\x8f")


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.booleans(), st.integers(1, 3), st.randoms())
def test_8_bit_gray_and_rgb_have_exactly_their_pixels(height, width, channels, interlace, idats, random):
    pixels = np.random.default_rng(random.getrandbits(32)).integers(0, 256, (height, width, channels), np.uint8)
    image = png.read(pngs.write(pixels, interlace=interlace, idats=idats))
    assert image.pixels.dtype == np.uint8 and np.array_equal(image.pixels, pixels)
    assert (image.width, image.height, image.interlace) == (width, height, interlace)


@pytest.mark.parametrize("color_type, bit_depth", [kind for kind in pngs.KINDS if kind not in [(0, 8), (2, 8)]])
def test_other_kinds_are_read_but_have_no_pixels(color_type, bit_depth, rng=np.random.default_rng(0)):
    image = png.read(pngs.random(rng, 3, 5, color_type, bit_depth))
    assert image.pixels is None
    assert (image.color_type, image.bit_depth, image.samples) == (color_type, bit_depth, pngs.SAMPLES[color_type])


@pytest.mark.parametrize(
    "options",
    [
        {"before": pngs.chunk(b"tRNS", bytes(6))},
        {"before": pngs.chunk(b"acTL", bytes(8))},
        {"before": pngs.chunk(b"CgBI", bytes(4))},
        {"tail": b"more"},
    ],
)
def test_what_changes_the_meaning_of_samples_leaves_no_pixels(options):
    assert png.read(pngs.write(np.zeros((2, 2, 3), int), **options)).pixels is None


def test_chunks_come_back_verbatim_in_their_places():
    palette = pngs.chunk(b"PLTE", bytes(6))
    data = pngs.write(np.zeros((2, 2, 3), int), before=GAMMA + palette, after=TEXT, idats=2)
    image = png.read(data)
    assert (image.chunks.before, image.chunks.after) == (GAMMA + palette, TEXT)
    again = png.read(png.write(image.pixels, image.chunks))
    assert again.chunks == image.chunks and np.array_equal(again.pixels, image.pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_written_files_hold_only_the_given_chunks(channels, tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (70, 33, channels), np.uint8)
    path = tmp_path / "a.png"
    path.write_bytes(png.write(pixels))
    assert not len(png.read(path.read_bytes()).chunks)
    assert np.array_equal(np.asarray(Image.open(path)).reshape(pixels.shape), pixels)


@pytest.mark.parametrize("part", [*map(pngs.chunk, (b"IDAT", b"IEND", b"tRNS", b"CgBI")), b"x", GAMMA[:-1]])
def test_chunks_that_may_not_stand_there_are_refused(part):
    with pytest.raises(CorruptError):
        png.write(np.zeros((1, 1, 3), np.uint8), png.Chunks(before=part))


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
