import zlib
from io import BytesIO

import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import dqcodec
from dqcodec import png
from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.codec import codec
from dqcodec.png import exact

SMOOTH = (np.add.outer(np.arange(50) * 5, np.arange(70) * 3)[..., None] * np.arange(1, 4) // 2 % 256).astype(np.uint8)
NOISY = SMOOTH ^ np.random.default_rng(0).integers(0, 4, SMOOTH.shape, np.uint8)


def repacked(setting: tuple[int, ...], sizes=(), filters=None) -> bytes:
    """A PNG of NOISY, deflated by a setting of zlib, cut into IDATs of the given sizes and one with the rest."""
    header = png.Header(70, 50, 2, 8)
    rows = png.samples.to_rows(NOISY, header, 0)
    kinds = np.arange(50, dtype=np.uint8) % 5 if filters is None else np.full(50, filters, np.uint8)
    level, window_bits, memory_level, strategy = setting
    deflate = zlib.compressobj(level, zlib.DEFLATED, window_bits, memory_level, strategy)
    stream = deflate.compress(png.samples.filtered(rows, [kinds], header)) + deflate.flush()
    pieces = []
    for size in sizes:
        pieces.append(stream[:size])
        stream = stream[size:]
    return png.chunks.assemble(png.Skeleton(header), [[*pieces, stream]])


def assert_exact(data: bytes, limit: int) -> None:
    image = png.read(data)
    recipe = exact.find(data, image)
    assert recipe is not None and len(recipe) <= limit and exact.restore(image, recipe) == data


@pytest.mark.parametrize("level", range(1, 10))
@pytest.mark.parametrize("memory_level, strategy", [(8, 0), (9, 0), (8, 1), (9, 1)])
def test_every_level_of_zlib_is_found(level, memory_level, strategy):
    assert_exact(repacked((level, 15, memory_level, strategy)), 60)


@pytest.mark.parametrize("setting", [(6, 15, 8, 2), (6, 15, 9, 3), (6, 15, 8, 4), (9, 9, 8, 0), (6, 12, 8, 0)])
def test_other_strategies_and_windows_are_found(setting):
    assert_exact(repacked(setting, filters=1), 14)


@pytest.mark.parametrize("sizes", [(0,), (100,), (100, 100, 100), (3, 0, 7, 7)])
def test_chunks_are_cut_as_they_were(sizes):
    assert_exact(repacked((6, 15, 8, 0), sizes, filters=2), 21)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "1"])
@pytest.mark.parametrize("level", [-1, 1, 9])
def test_what_pillow_writes_with_zlib_is_given_back(mode, level):
    """Pillow's rows, deflated by Python's zlib as Pillow calls it; many a Pillow has another zlib."""
    buffer = BytesIO()
    Image.fromarray(NOISY).convert(mode).save(buffer, "PNG")
    start, end = buffer.getvalue().index(b"IDAT") - 4, buffer.getvalue().index(b"IEND") - 4
    rows = zlib.decompress(buffer.getvalue()[start + 8 : end - 4])
    strategy = zlib.Z_DEFAULT_STRATEGY if mode in ("P", "1") else zlib.Z_FILTERED
    deflate = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
    stream = pngs.chunk(b"IDAT", deflate.compress(rows) + deflate.flush())
    assert_exact(buffer.getvalue()[:start] + stream + buffer.getvalue()[end:], 60)


@pytest.mark.parametrize("color_type, bit_depth", pngs.KINDS)
def test_interlaced_files_are_given_back(color_type, bit_depth):
    assert_exact(pngs.random(np.random.default_rng(1), 9, 11, color_type, bit_depth, interlace=True, idats=2), 18)


def test_what_no_setting_makes_and_animations_have_no_recipe():
    stored = zlib.compressobj(0)
    stream = stored.compress(bytes(9)) + stored.flush()
    other = pngs.SIGNATURE + pngs.header(8, 1, 8, 0) + pngs.chunk(b"IDAT", stream) + pngs.chunk(b"IEND")
    padded = (
        pngs.SIGNATURE + pngs.header(1, 1, 1, 0) + pngs.chunk(b"IDAT", zlib.compress(b"\0\x7f")) + pngs.chunk(b"IEND")
    )
    animated = pngs.animated(SMOOTH, [((0, 0), SMOOTH)])
    for data in (other, padded, animated, pngs.write(SMOOTH, end=b"tail")):
        assert exact.find(data, png.read(data)) is None


@pytest.fixture
def another_zlib(monkeypatch):
    """A function; from its call on, deflate makes other streams than zlib's own."""

    def begin():
        compressor = exact._Setting.compressor
        monkeypatch.setattr(
            exact._Setting, "compressor", lambda self: compressor(self._replace(level=self.level % 9 + 1))
        )
        exact.is_zlibs_own.cache_clear()

    yield begin
    monkeypatch.undo()
    exact.is_zlibs_own.cache_clear()


def test_this_zlib_is_its_authors_own_or_is_not_taken_for_it(another_zlib):
    """zlib-ng tells in its version; others are found by their streams alone."""
    assert exact.is_zlibs_own() or "zlib-ng" in zlib.ZLIB_RUNTIME_VERSION
    another_zlib()
    assert not exact.is_zlibs_own()


def test_another_zlib_cannot_follow_a_recipe_and_says_so_but_has_the_image(another_zlib):
    data = repacked((9, 15, 8, 0))
    dqc, report = codec.compress(data, exact=True)
    assert report.recipe_bytes and dqcodec.decompress_png(dqc) == data
    another_zlib()
    with pytest.raises(CorruptError, match="zlib's own deflate.*--repack"):
        dqcodec.decompress_png(dqc)
    assert png.read(dqcodec.decompress_png(dqc, repack=True)).same(png.read(data))
    assert np.array_equal(dqcodec.decompress(dqc), NOISY)
    assert np.array_equal(Image.open(BytesIO(dqc)), NOISY)


def test_another_zlib_makes_no_recipe_even_of_its_own_streams_and_the_file_is_kept_verbatim(another_zlib):
    another_zlib()
    stream = exact._Setting(6, 15, 8, 0).compressor()
    rows = png.samples.to_rows(NOISY, png.Header(70, 50, 2, 8), 0)
    filtered = png.samples.filtered(rows, [np.zeros(50, np.uint8)], png.Header(70, 50, 2, 8))
    data = png.chunks.assemble(png.Skeleton(png.Header(70, 50, 2, 8)), [[stream.compress(filtered) + stream.flush()]])
    assert exact.find(data, png.read(data)) is None
    dqc, report = codec.compress(data, exact=True)
    assert report.method == "stored" and dqcodec.decompress_png(dqc) == data


@pytest.mark.parametrize("place, bit", [(0, 6), (0, 7), (1, 7)])
def test_bits_of_a_recipe_without_a_meaning_are_zero(place, bit):
    data = pngs.write(np.arange(12).reshape(2, 2, 3))
    image = png.read(data)
    recipe = bytearray(exact.find(data, image))
    recipe[place] |= 1 << bit
    with pytest.raises(CorruptError, match="malformed"):
        exact.restore(image, bytes(recipe))


def test_filters_are_one_for_each_row_and_nothing_more():
    stream = zlib.compressobj(9, wbits=-15)
    deflated = bytes([6]) + stream.compress(b"\0\1\2") + stream.flush()
    assert [*exact._unpack_kinds(deflated, 3)] == [0, 1, 2] == [*exact._unpack_kinds(bytes([5, 5 + 2 * 25]), 3)]
    for code in (deflated[:-1], deflated + b"\0", bytes([5, 5 + 2 * 25, 1])):
        with pytest.raises(CorruptError):
            exact._unpack_kinds(code, 3)


def test_a_recipe_of_other_bytes_is_damaged():
    data = repacked((9, 15, 8, 0))
    recipe = bytearray(exact.find(data, png.read(data)))
    recipe[4] ^= 1  # of the checksum
    with pytest.raises(CorruptError, match="recipe is damaged"):
        exact.restore(png.read(data), bytes(recipe))


@settings(max_examples=200)
@given(st.integers(0), st.integers(0, 255), st.booleans())
def test_a_damaged_recipe_is_a_named_error(index, byte, cut):
    data = repacked((6, 15, 8, 0), (100, 100))
    image = png.read(data)
    recipe = bytearray(exact.find(data, image))
    index %= len(recipe)
    recipe[index] = byte
    try:
        assert exact.restore(image, bytes(recipe[:index] if cut else recipe)) == data
    except DqcodecError as error:
        assert "\n" not in str(error)
