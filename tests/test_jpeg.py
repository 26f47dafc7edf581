import io

import independent_decoder
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import dqcodec
from dqcodec.base.compiled import compiled
from dqcodec.base.errors import CorruptError
from dqcodec.codec import candidates
from dqcodec.exact.jpeg import fitting, recovery
from dqcodec.exact.jpeg.blocks import block_count
from dqcodec.exact.jpeg.decoding import SAMPLINGS, Jpeg, Sampling, component_size, samples
from dqcodec.exact.jpeg.rounding import Search, search_levels
from dqcodec.exact.jpeg.tables import standard
from dqcodec.frozen.jpeg import CHROMA, LUMA, MAX_NUMBER, ZIGZAG
from dqcodec.methods import jpeg


def scene(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Slopes, waves and some noise, away from black and white, (H, W, C) uint8."""
    rng, (y, x) = np.random.default_rng(3), np.mgrid[:height, :width]
    waves = [40 * np.sin(x / (5 + 3 * c) + y / (9 - c)) + 30 * np.cos(y / (4 + c)) for c in range(channels)]
    return (128 + np.stack(waves, -1) + rng.normal(0, 4, (height, width, channels))).clip(20, 235).astype(np.uint8)


def through_jpeg(pixels: np.ndarray, **options) -> tuple[np.ndarray, Image.Image]:
    """The pixels that libjpeg has coded and decoded, and the JPEG."""
    stream = io.BytesIO()
    Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0]).save(stream, "JPEG", **options)
    file = Image.open(stream)
    file.length = len(stream.getvalue())
    return np.asarray(file).reshape(pixels.shape), file


def some_jpeg(height: int, width: int, channels: int, sampling: Sampling, largest: int, seed: int) -> Jpeg:
    rng = np.random.default_rng(seed)
    sizes = [(height, width)] + [component_size(height, width, sampling)] * (channels - 1)
    shapes = [(*map(block_count, size), 64) for size in sizes]
    levels = [rng.integers(-largest, largest + 1, shape) * (rng.random(shape) < rng.random()) for shape in shapes]
    tables = standard(LUMA, int(rng.integers(1, 101))), rng.integers(1, 256, 64)
    return Jpeg(sampling, tables[: 1 + (channels == 3)], tuple(each.astype(np.int16) for each in levels))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=2),
    st.sampled_from(SAMPLINGS),
    st.booleans(),
    st.sampled_from([0, 1, 9, MAX_NUMBER]),
    st.sampled_from([0, 1, 255]),
    st.integers(0, 1000),
)
def test_any_levels_and_any_differences_come_back(sizes, sampling, is_gray, largest, noise, seed):
    rng, channels = np.random.default_rng(seed), 1 if is_gray else 3
    jpegs = [some_jpeg(*size, channels, SAMPLINGS[0] if is_gray else sampling, largest, seed) for size in sizes]
    layers = [
        found.pixels(*size) ^ rng.integers(0, noise, (*size, channels), endpoint=True).astype(np.uint8)
        for found, size in zip(jpegs, sizes)
    ]
    payload = jpeg.encode_as(layers, jpegs)
    decoded = jpeg.decode(payload.data, [layer.shape for layer in layers])
    assert sum(payload.sizes) == len(payload.data)
    assert all(np.array_equal(*pair) for pair in zip(decoded, layers, strict=True))


@settings(max_examples=10)
@given(
    st.integers(1, 24), st.integers(1, 24), st.sampled_from([1, 3]), st.sampled_from([1, 3, 256]), st.integers(0, 1000)
)
def test_any_pixels_come_back_even_if_no_jpeg_has_them(height, width, channels, values, seed):
    rng = np.random.default_rng(seed)
    layer = (rng.integers(0, values, (height, width, channels)) * (255 // max(1, values - 1))).astype(np.uint8)
    assert np.array_equal(jpeg.decode(jpeg.encode([layer]).data, [layer.shape])[0], layer)


@pytest.mark.parametrize("offset", [(0, 0), (3, 0), (0, 9), (15, 15)])
@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_cut_off_comes_back_and_the_specification_agrees(offset, channels):
    found = some_jpeg(9 + offset[0], 7 + offset[1], channels, SAMPLINGS[channels // 3], 5, 2)._replace(offset=offset)
    layer = found.pixels(9, 7)
    data = jpeg.encode_as([layer], [found]).data
    whole = found._replace(offset=(0, 0)).pixels(9 + offset[0], 7 + offset[1])
    assert np.array_equal(layer, whole[offset[0] :, offset[1] :])
    assert np.array_equal(jpeg.decode(data, [layer.shape])[0], layer)
    assert np.array_equal(independent_decoder.jpeg(data, [layer.shape])[0], layer)


def test_the_order_of_samplings_is_that_of_the_specification():
    assert [tuple(sampling) for sampling in SAMPLINGS] == independent_decoder.SAMPLINGS


@pytest.mark.parametrize("number", range(len(SAMPLINGS)))
def test_the_specification_says_the_same_of_each_sampling(number):
    found = some_jpeg(11, 19, 3, SAMPLINGS[number], 5, number)
    layer = found.pixels(11, 19)
    layer[3, 4:8] += 9
    data = jpeg.encode_as([layer], [found]).data
    assert np.array_equal(independent_decoder.jpeg(data, [layer.shape])[0], layer)


def test_the_transform_is_the_inverse_cosine_transform_but_for_rounding():
    rng = np.random.default_rng(1)
    levels, k = rng.integers(-20, 21, (3, 4, 64)).astype(np.int16), np.arange(8)
    basis = np.cos((2 * k + 1) * k[:, None] * np.pi / 16) / 2
    basis[0] /= np.sqrt(2)
    exact = 128 + np.einsum("vi,rcvu,uj->ricj", basis, 2.0 * levels.reshape(3, 4, 8, 8), basis).reshape(24, 32)
    assert np.abs(samples(levels, np.full(64, 2)) - exact.clip(0, 255)).max() < 0.7


@pytest.mark.parametrize("subsampling, sampling", [(0, SAMPLINGS[0]), (1, SAMPLINGS[2]), (2, SAMPLINGS[1])])
@pytest.mark.parametrize("quality", [60, 75, 90])
def test_what_libjpeg_decodes_is_recovered_to_the_last_pixel(quality, subsampling, sampling):
    pixels, file = through_jpeg(scene(128, 128), quality=quality, subsampling=subsampling)
    found = recovery.recover(pixels)
    assert found.sampling == sampling
    for number, levels in enumerate(found.levels):
        used = levels.any((0, 1))
        assert (found.table(number) == file.quantization[min(number, 1)])[used].all()
    assert np.array_equal(found.pixels(128, 128), pixels)


@pytest.mark.parametrize("channels, subsampling", [(1, -1), (3, 0), (3, 2)])
def test_clamped_pixels_and_cut_blocks_are_recovered(channels, subsampling):
    clipped = (2.4 * scene(93, 109, channels).astype(np.float64) - 180).clip(0, 255).astype(np.uint8)
    pixels, _ = through_jpeg(clipped, quality=75, subsampling=subsampling)
    assert ((pixels == 0) | (pixels == 255)).mean() > 0.05
    assert (recovery.recover(pixels).pixels(93, 109) == pixels).all(-1).mean() > 0.99


@pytest.mark.parametrize("channels, subsampling, lacking", [(1, -1, (5, 6)), (3, 0, (3, 4)), (3, 2, (3, 12))])
def test_images_that_are_cut_out_are_recovered(channels, subsampling, lacking):
    whole, _ = through_jpeg(scene(144, 160, channels), quality=75, subsampling=subsampling)
    pixels = whole[16 + lacking[0] : -3, 16 + lacking[1] : -5]
    found = recovery.recover(pixels)
    assert recovery.may_be_decoded(pixels) and found.offset == lacking
    assert (found.pixels(*pixels.shape[:2]) == pixels).all(-1).mean() > 0.97


def test_black_on_white_is_recovered_though_no_block_is_free_of_clamped_pixels():
    rng = np.random.default_rng(5)
    strokes = np.where(rng.random((24, 32, 1)) < 0.3, 0, 255).astype(np.uint8).repeat(3, 0).repeat(3, 1)
    pixels, file = through_jpeg(strokes, quality=70)
    blocks = pixels[:72, :96, 0].reshape(9, 8, 12, 8)
    assert ((blocks == 0) | (blocks == 255)).any((1, 3)).all()
    assert recovery.may_be_decoded(pixels) and not recovery.may_be_decoded(strokes)
    found = recovery.recover(pixels)
    assert found.tables[0].tolist() == file.quantization[0] and np.array_equal(found.pixels(72, 96), pixels)


@pytest.mark.parametrize("known", [64, 48, 36])
def test_rounding_in_order_finds_a_point_of_the_lattice_from_some_samples(known):
    rng, table = np.random.default_rng(known), standard(LUMA, 60)
    levels = np.rint(rng.normal(0, 1.5, 64) * (rng.random(64) < 0.5)).astype(np.int64)
    basis = np.kron(fitting.BASIS, fitting.BASIS)
    is_known = np.isin(np.arange(64), rng.permutation(64)[:known])
    samples = np.rint(basis.T @ (levels * table))
    weights = np.where(is_known, 12.0, 0.001)
    precision, target = (
        basis @ (weights[:, None] * basis.T),
        (basis @ (weights * np.where(is_known, samples, 0))).reshape(8, 8),
    )
    search = Search.new(16)
    assert compiled(search_levels)(search, precision, target, (1.1 * table) ** 2, table) <= 16
    assert np.array_equal(search.levels[0, 0], levels)


def test_levels_stay_within_what_is_coded():
    pixels = (255 * (np.indices((32, 32)).sum(0) % 2)).astype(np.uint8)[..., None]
    assert all(np.abs(levels).max() <= MAX_NUMBER for levels in recovery.recover(pixels).levels)


def test_chroma_sampled_down_alone_is_recovered():
    """A JPEG with 4:2:2 whose header says 4:4:0: libjpeg puts the same blocks in other places."""
    stream = io.BytesIO()
    Image.fromarray(scene(128, 128)).save(stream, "JPEG", quality=85, subsampling=1)
    data = bytearray(stream.getvalue())
    place = data.index(b"\xff\xc0") + 11
    assert data[place] == 0x21
    data[place] = 0x12
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    found = recovery.recover(pixels)
    assert found.sampling == Sampling(2, 1) and np.array_equal(found.pixels(128, 128), pixels)


def test_gray_and_tables_of_ones_own_are_recovered():
    table = [9 + 2 * place % 23 for place in range(64)]
    pixels, file = through_jpeg(scene(128, 128, 1), qtables=[table])
    found = recovery.recover(pixels)
    assert np.array_equal(found.pixels(128, 128), pixels)
    used = found.levels[0].any((0, 1))
    assert (found.tables[0] == file.quantization[0])[used].mean() > 0.9


@pytest.mark.parametrize("channels", [1, 3])
def test_images_from_jpegs_are_told_from_others(channels):
    pixels = scene(96, 128, channels)
    assert not recovery.may_be_decoded(pixels)
    assert recovery.may_be_decoded(through_jpeg(pixels, quality=85)[0])


def test_small_images_of_clamped_blocks_are_not_searched():
    strokes = (
        np.where(np.random.default_rng(5).random((16, 16, 1)) < 0.3, 0, 255).astype(np.uint8).repeat(3, 0).repeat(3, 1)
    )
    pixels, _ = through_jpeg(strokes, quality=70)
    assert not recovery.may_be_decoded(pixels)
    assert recovery.may_be_decoded(through_jpeg(scene(48, 48, 1), quality=70)[0])


def test_standard_tables_are_those_of_libjpeg():
    for quality in (1, 30, 49, 50, 75, 99, 100):
        _, file = through_jpeg(scene(8, 8), quality=quality)
        assert file.quantization == {0: standard(LUMA, quality).tolist(), 1: standard(CHROMA, quality).tolist()}


def test_a_png_of_a_jpeg_takes_little_more_than_the_jpeg(monkeypatch):
    pixels, file = through_jpeg(scene(160, 160), quality=75)
    monkeypatch.setattr(candidates, "takes_mixing", lambda *_, **__: False)
    data = dqcodec.compress(pixels, models=[])
    assert dqcodec.info(data).method == "jpeg" and len(data) < file.length
    assert np.array_equal(dqcodec.decompress(data), pixels)


def test_own_tables_are_kept_in_zigzag_order():
    found = some_jpeg(8, 8, 3, SAMPLINGS[0], 0, 0)
    data = jpeg.encode_as([found.pixels(8, 8)], [found]).data
    assert data[2] == 0 and list(data[3:67]) == found.tables[1][ZIGZAG].tolist()


@pytest.mark.parametrize(
    "head, channels",
    [(b"", 1), (b"\1\x32", 1), (b"\x10\x32", 1), (b"\x20\x32", 1), (b"\x10", 1), (b"\6\x32\x32", 3), (b"\0\x65", 1), (b"\0", 1), (b"\0\0" + bytes(64), 1), (b"\0\0\1", 1)],
)  # fmt: skip
def test_malformed_heads_are_refused(head, channels):
    with pytest.raises(CorruptError):
        jpeg.decode(head, [(8, 8, channels)])


@pytest.mark.parametrize("side, count", [(20000, 1), (720, 2)])
def test_a_payload_too_short_for_all_its_layers_together_is_refused(side, count):
    with pytest.raises(CorruptError, match="too short"):
        jpeg.decode(b"\0\x32" * count + b"abc", [(side, side, 1)] * count)


def test_layers_with_alpha_are_refused():
    with pytest.raises(CorruptError):
        jpeg.decode(b"\0\x32\x32abc", [(8, 8, 4)])


@settings(max_examples=3)
@given(st.binary(max_size=40), st.sampled_from([b"\0\x32\x3c", b"\x09\x50\x50", b"\x0d\1\1"]))
def test_any_code_decodes_and_the_specification_agrees(code, head):
    data, shape = head + code, (4, 5, 3)
    assert np.array_equal(jpeg.decode(data, [shape])[0], independent_decoder.jpeg(data, [shape])[0])
