import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_classical import images

from dqcodec.base.errors import CorruptError
from dqcodec.frozen.mixing import LIMIT
from dqcodec.methods import classical, mixing

sizes = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 256))  # and colours


def encoded(layers: list[np.ndarray]) -> tuple[bytes, tuple[int, ...]]:
    """The payload, and the bytes of it that each layer takes."""
    payload = mixing.encode(layers)
    return payload.data, payload.sizes


def encode(pixels: np.ndarray) -> bytes:
    payload, sizes = encoded([pixels])
    assert sizes == (len(payload),)
    return payload


def decode(payload: bytes, shape: tuple[int, ...]) -> np.ndarray:
    (pixels,) = mixing.decode(payload, [shape])
    return pixels


@pytest.mark.parametrize("pixels", [pytest.param(pixels, id=name) for name, pixels in images() if pixels.size < 20000])
def test_decode_undoes_encode(pixels):
    assert np.array_equal(decode(encode(pixels), pixels.shape), pixels)


@settings(max_examples=60)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 256), st.integers(0))
def test_any_samples_come_back(height, width, channels, colors, seed):
    pixels = np.random.default_rng(seed).integers(0, colors, (height, width, channels)).astype(np.uint8)
    assert np.array_equal(decode(encode(pixels), pixels.shape), pixels)


@settings(max_examples=40)
@given(st.lists(sizes, min_size=1, max_size=5), st.integers(1, 4), st.integers(0))
def test_layers_of_any_sizes_come_back_together(sizes, channels, seed):
    rng = np.random.default_rng(seed)
    layers = [rng.integers(0, colors, (height, width, channels)).astype(np.uint8) for height, width, colors in sizes]
    payload, taken = encoded(layers)
    assert sum(taken) == len(payload) and len(taken) == len(layers)
    decoded = mixing.decode(payload, [pixels.shape for pixels in layers])
    assert all(np.array_equal(*pair) for pair in zip(decoded, layers, strict=True))


def test_a_layer_is_smaller_after_a_similar_layer():
    y, x = np.ogrid[:40, :40]
    icon = (np.minimum(np.hypot(y - 20, x - 16) // 4, 6)[..., None] * [40, 30, 20]).astype(np.uint8)
    others = [np.roll(icon, shift, axis) for shift, axis in ((3, 0), (5, 1), (7, 0))]
    payload, taken = encoded([icon, *others])
    assert len(payload) < 0.7 * sum(len(encode(pixels)) for pixels in (icon, *others))
    assert abs(taken[0] - len(encode(icon))) < 8 and max(taken[1:]) < 0.8 * taken[0]


def test_drawings_are_smaller_than_by_webp():
    y, x = np.ogrid[:48, :48]
    disc = np.minimum(np.hypot(y - 24, x - 20) // 4, 6).astype(np.uint8)[..., None]
    for pixels in (disc, np.concatenate([disc * 40, disc * 30, 255 - disc * 20, (disc < 5) * np.uint8(255)], axis=2)):
        assert len(encode(pixels)) < 0.8 * len(classical.encode([pixels]).data)


def test_the_least_likely_samples_fit_the_buffer():
    """Samples that were the same for long, and then are not."""
    pixels = np.zeros((60, 60, 1), np.uint8)
    pixels[50:, ::3] = 255
    pixels[55:, 1::4] = 85
    assert np.array_equal(decode(encode(pixels), pixels.shape), pixels)


def test_images_are_coded_to_the_golden_bytes():
    """A change here is a new version of the format."""
    pixels = (np.add.outer(np.arange(6) * 7, np.arange(8) * 5)[..., None] * np.arange(1, 4)).astype(np.uint8)
    assert encode(pixels).hex() == GOLDEN
    assert mixing.encode([pixels[:2, :3], pixels[:1] >> 5]).data.hex() == GOLDEN_OF_TWO


GOLDEN = "08ffffff0447d985246aed0ba13cf4b9b4ec06fb0cc0d96a8008183ec41ed43eb030aa4c20ac5389371241bc6eaab3ba24af1429ab7b536ebf43ccfdf4f9741f61024859cb50cd0a48c4bbe2a095170682e434861d24a04815cc05e83e4cda862ba1cf0242a666e1474a521cf2bc6c0e1ff31b39d026bdb668795c837f5569a18bef"

GOLDEN_OF_TWO = "0602ffff199438f407f388f223daefcaafa8aa64325ea1c7"


def test_no_probability_is_so_near_a_half_that_machines_could_round_it_apart():
    exact = [65536 / (1 + math.exp(-logit / 256)) for logit in range(-LIMIT, LIMIT + 1)]
    assert min(abs(value % 1 - 0.5) for value in exact if value != 32768.5) > 1e-6


@settings(max_examples=40)
@given(st.binary(max_size=60))
def test_any_bytes_decode_to_the_shape_or_are_corrupt(data):
    try:
        assert decode(data, (5, 7, 3)).shape == (5, 7, 3)
    except CorruptError as error:
        assert not data or not 1 <= data[0] <= 8, error


@settings(max_examples=40)
@given(st.binary(max_size=60))
def test_any_bytes_decode_to_all_shapes_or_are_corrupt(data):
    shapes = [(5, 7, 3), (1, 1, 3), (4, 2, 3)]
    try:
        assert [pixels.shape for pixels in mixing.decode(data, shapes)] == shapes
    except CorruptError as error:
        assert len(data) < 3 or not all(1 <= each <= 8 for each in data[:3]), error
