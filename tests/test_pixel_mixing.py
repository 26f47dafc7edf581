"""Pixel mixing: what was coded comes back, alone and together, and drawn images are small."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_classical import images

from dqcodec.base.compiled import compiled
from dqcodec.base.errors import CorruptError
from dqcodec.exact.mixing import binary_coder
from dqcodec.exact.mixing.binary_coder import BinaryCoder
from dqcodec.exact.mixing.periods import find_periods
from dqcodec.frozen.pixel_mixing import DEFAULT_PERIODS
from dqcodec.methods import classical, mixing, pixel_mixing, trained_mixing

code_bit = compiled(binary_coder.code_bit)
METHODS = [pytest.param(method, id=method.__name__.rpartition(".")[2]) for method in (pixel_mixing, trained_mixing)]
sizes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 256))  # and colours


def encode(*layers: np.ndarray, method=pixel_mixing) -> bytes:
    payload = method.encode(layers)
    assert sum(payload.sizes) == len(payload.data) and len(payload.sizes) == len(layers)
    return payload.data


def come_back(*layers: np.ndarray, method=pixel_mixing) -> bool:
    decoded = method.decode(encode(*layers, method=method), [layer.shape for layer in layers])
    return all(np.array_equal(*pair) for pair in zip(decoded, layers, strict=True))


def tiled(height: int, width: int, side: int, levels: int = 256) -> np.ndarray:
    """Noise that repeats after `side` rows and columns, (height, width, 1)."""
    noise = np.random.default_rng(1).integers(0, levels, (side, side, 1)).astype(np.uint8)
    return np.tile(noise, (-(-height // side), -(-width // side), 1))[:height, :width]


@pytest.mark.parametrize("pixels", [pytest.param(pixels, id=name) for name, pixels in images() if pixels.size < 20000])
def test_decode_undoes_encode(pixels):
    assert come_back(pixels)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60)
@given(st.lists(sizes, min_size=1, max_size=5), st.integers(1, 4), st.integers(0))
def test_layers_of_any_sizes_come_back_together(method, sizes, channels, seed):
    rng = np.random.default_rng(seed)
    layers = [rng.integers(0, colors, (height, width, channels)).astype(np.uint8) for height, width, colors in sizes]
    assert come_back(*layers, method=method)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_layers_with_periods_and_matches_come_back_beside_others(channels):
    """Places one period away lie in the margins, in other rows and in earlier layers."""
    texture = np.repeat(tiled(95, 93, 19, 200), channels, axis=2)
    texture[40:, 50:] += np.arange(channels, dtype=np.uint8)
    flat = np.zeros((30, 9, channels), np.uint8)
    flat[5:20, 3:7] = 77
    assert find_periods(texture) != DEFAULT_PERIODS
    assert come_back(flat, texture, texture[:, :60], flat[::-1], texture[:9])


def test_periods_are_those_of_the_texture():
    (up, left), (other_up, other_left) = find_periods(tiled(128, 200, 32))
    assert all(place % 32 == 0 for place in (up, left, other_up, other_left))
    assert find_periods(tiled(128, 200, 1)) == find_periods(tiled(80, 90, 7)) == DEFAULT_PERIODS


def test_a_texture_that_repeats_costs_its_tile():
    assert len(encode(tiled(96, 160, 32))) < 1.1 * 32 * 32
    bits = tiled(200, 300, 32, 2)
    assert len(encode(bits)) < 2 * 32 * 32 / 8 < 0.3 * len(mixing.encode([bits]).data)


def test_a_flat_megapixel_takes_a_few_bytes():
    pixels = np.full((1024, 1024, 3), 200, np.uint8)
    pixels[500:, 300:] = 40
    data = encode(pixels)
    assert len(data) < 80
    assert np.array_equal(pixel_mixing.decode(data, [pixels.shape])[0], pixels)


def test_drawings_are_smaller_than_by_webp():
    y, x = np.ogrid[:64, :64]
    disc = np.minimum(np.hypot(y - 24, x - 20) // 4, 6).astype(np.uint8)[..., None]
    for pixels in (disc, np.concatenate([disc * 40, disc * 30, 255 - disc * 20, (disc < 5) * np.uint8(255)], axis=2)):
        assert len(encode(pixels)) < 0.8 * len(classical.encode([pixels]).data)


def test_a_layer_is_smaller_after_a_similar_layer():
    y, x = np.ogrid[:40, :40]
    icon = (np.minimum(np.hypot(y - 20, x - 16) // 4, 6)[..., None] * [40, 30, 20]).astype(np.uint8)
    others = [np.roll(icon, shift, axis) for shift, axis in ((3, 0), (5, 1), (7, 0))]
    assert len(encode(icon, *others)) < 0.6 * sum(len(encode(pixels)) for pixels in (icon, *others))


def test_the_least_likely_samples_fit_the_buffer():
    """Samples that were the same for long, and then are not."""
    pixels = np.zeros((200, 60, 1), np.uint8)
    pixels[190:, ::3] = 255
    pixels[195:, 1::4] = 85
    assert come_back(pixels)


def test_images_are_coded_to_the_golden_bytes():
    """A change here is a new version of the format."""
    pixels = (np.add.outer(np.arange(6) * 7, np.arange(8) * 5)[..., None] * np.arange(1, 4)).astype(np.uint8)
    assert encode(pixels).hex() == GOLDEN
    assert encode(pixels[:2, :3], pixels[:1] >> 5).hex() == GOLDEN_OF_TWO


GOLDEN = "089b71c21922236eddc7002a1f7e2b19e2950e7ec555201afd9d40b835819d5008178f33591759acdca524945dec51803f4b968321d34ef801cfc170f75713d6d62891fdf9e01971f3a31dccfc4e051a263a1d8a66ccd341e59a11f03b0b09b7c6801cff0169d5bbd1bee611bd31999169533cb163ac7d735317e6bd7f177a"

GOLDEN_OF_TWO = "06029ab376da01fdb59bdd078e31c9647b5242223482e7424c10"


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60)
@given(st.binary(max_size=60), st.integers(1, 4))
def test_any_bytes_decode_to_all_shapes_or_are_corrupt(method, data, channels):
    shapes = [(5, 7, channels), (1, 1, channels), (4, 2, channels)]
    try:
        assert [pixels.shape for pixels in method.decode(data, shapes)] == shapes
    except CorruptError:
        pass


@pytest.mark.parametrize(
    "head",
    ["00", "09", "28", "18", "1800000000", "1800010005", "1800009001", "18000600850200"],
    ids=["no bits", "nine bits", "unknown flag", "no periods", "here", "below", "beyond the side", "cut"],
)
def test_impossible_heads_are_corrupt(head):
    with pytest.raises(CorruptError):
        pixel_mixing.decode(bytes.fromhex(head), [(90, 70, 1)])


def test_more_pixels_than_a_code_can_hold_are_corrupt():
    with pytest.raises(CorruptError, match="too short"):
        pixel_mixing.decode(b"\x08abcd", [(1 << 14, 1 << 12, 1)])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 65535), st.booleans()), max_size=200))
def test_bits_of_any_probability_come_back_from_the_coder(pairs):
    writer = BinaryCoder.writer(2 * len(pairs))
    for probability, bit in pairs:
        code_bit(writer, probability, int(bit))
    code = writer.finish()
    cost = sum(-np.log2(probability / 65536 if bit else 1 - probability / 65536) for probability, bit in pairs)
    assert len(code) <= cost / 8 + 4
    reader = BinaryCoder.reader(code, len(pairs), 1 << 20)
    assert [code_bit(reader, probability, 0) for probability, _ in pairs] == [bit for _, bit in pairs]
