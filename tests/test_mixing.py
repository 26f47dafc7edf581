import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_classical import images

from dqcodec.errors import CorruptError
from dqcodec.methods import classical, mixing


@pytest.mark.parametrize("pixels", [pytest.param(pixels, id=name) for name, pixels in images() if pixels.size < 20000])
def test_decode_undoes_encode(pixels):
    assert np.array_equal(mixing.decode(mixing.encode(pixels), pixels.shape), pixels)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 256), st.integers(0))
def test_any_samples_come_back(height, width, channels, colors, seed):
    pixels = np.random.default_rng(seed).integers(0, colors, (height, width, channels)).astype(np.uint8)
    assert np.array_equal(mixing.decode(mixing.encode(pixels), pixels.shape), pixels)


def test_drawings_are_smaller_than_by_webp():
    y, x = np.ogrid[:48, :48]
    disc = np.minimum(np.hypot(y - 24, x - 20) // 4, 6).astype(np.uint8)[..., None]
    for pixels in (disc, np.concatenate([disc * 40, disc * 30, 255 - disc * 20, (disc < 5) * np.uint8(255)], axis=2)):
        assert len(mixing.encode(pixels)) < 0.8 * len(classical.encode(pixels))


def test_what_is_least_expected_fits_its_buffer():
    """Samples that were the same for long, and then are not."""
    pixels = np.zeros((60, 60, 1), np.uint8)
    pixels[50:, ::3] = 255
    pixels[55:, 1::4] = 85
    assert np.array_equal(mixing.decode(mixing.encode(pixels), pixels.shape), pixels)


def test_golden_bytes():
    """A change here is a new version of the format."""
    pixels = (np.add.outer(np.arange(6) * 7, np.arange(8) * 5)[..., None] * np.arange(1, 4)).astype(np.uint8)
    assert mixing.encode(pixels).hex() == GOLDEN


GOLDEN = "08ffffff0447d299b94cb1baf310dbf0d0f961ca2f8d14d9e8fccfd2710dff7b9a681f24fcbd08cf0d38befa898f640b9ebe03873ea9802a82412d758661f5af0625d24c2b1768e716133519cf77a8d18d582746b38fcb8666d63ff2524b85dec6110c360b6125467fab287226f8cb36a583f9fa475d602f8002581989d9345c8003c9"


def test_no_probability_is_so_near_a_half_that_machines_could_round_it_apart():
    exact = [65536 / (1 + math.exp(-logit / 256)) for logit in range(-mixing._LIMIT, mixing._LIMIT + 1)]
    assert min(abs(value % 1 - 0.5) for value in exact if value != 32768.5) > 1e-6


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.binary(max_size=60))
def test_any_bytes_decode_to_the_shape_or_are_corrupt(data):
    try:
        assert mixing.decode(data, (5, 7, 3)).shape == (5, 7, 3)
    except CorruptError as error:
        assert not data or not 1 <= data[0] <= 8, error
