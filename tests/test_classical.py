import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.methods import classical


def images():
    rng = np.random.default_rng(0)
    ramp = np.add.outer(np.arange(70), np.arange(33)).astype(np.uint8)
    yield "1x1", rng.integers(0, 256, (1, 1, 3), np.uint8)
    yield "row", rng.integers(0, 256, (1, 300, 3), np.uint8)
    yield "column", rng.integers(0, 256, (300, 1, 1), np.uint8)
    yield "black", np.zeros((50, 40, 3), np.uint8)
    yield "white", np.full((50, 40, 1), 255, np.uint8)
    yield "noise", rng.integers(0, 256, (31, 17, 3), np.uint8)
    yield "ramp", np.stack([ramp, ramp * 2, 255 - ramp], -1)
    yield "gray ramp", ramp[..., None]
    yield "gray and alpha", np.stack([ramp, 255 - ramp], -1)
    yield "opaque gray", np.stack([ramp, np.full_like(ramp, 255)], -1)
    yield "colours below alpha 0", np.stack([ramp, ramp * 3, 255 - ramp, ramp // 60 * 85], -1)
    yield "opaque colours", np.stack([ramp, ramp * 3, 255 - ramp, np.full_like(ramp, 255)], -1)
    yield "transparent noise", rng.integers(0, 256, (31, 17, 4), np.uint8) * np.uint8([1, 1, 1, 0])
    yield "wide", np.zeros((2, 20000, 1), np.uint8)
    yield "tall", np.broadcast_to((np.arange(9000) % 251).astype(np.uint8)[:, None, None], (9000, 2, 3))


@pytest.mark.parametrize("search", [classical.QUICK, classical.THOROUGH, classical.SLOWEST])
@pytest.mark.parametrize("pixels", [pytest.param(pixels, id=name) for name, pixels in images()])
def test_decode_undoes_encode_and_costs_at_most_a_byte_over_raw(pixels, search):
    data = classical.encode([pixels], search).data
    assert np.array_equal(classical.decode(data, [pixels.shape])[0], pixels)
    assert len(data) <= pixels.size + 1


def test_flat_images_take_few_bytes():
    assert len(classical.encode([np.full((300, 400, 3), 7, np.uint8)]).data) < 32
    assert len(classical.encode([np.full((1, 1, 1), 7, np.uint8)]).data) == 2


@settings(max_examples=60)
@given(st.integers(0), st.integers(0, 255), st.booleans())
def test_damage_gives_other_pixels_or_a_corrupt_error(index, byte, cut):
    pixels = dict(images())["ramp"]
    data = bytearray(classical.encode([pixels], classical.QUICK).data)
    index %= len(data)
    data[index] = byte
    try:
        (decoded,) = classical.decode(bytes(data[:index] if cut else data), [pixels.shape])
    except DqcodecError as error:
        assert isinstance(error, CorruptError)
    else:
        assert decoded.shape == pixels.shape


@pytest.mark.parametrize("shape", [(9000, 2, 1), (2, 9000, 3), (5, 5, 3)])
@pytest.mark.parametrize("data", [b"", b"\0", b"\1", b"\2abc", b"\1\xff\xff\xff\xff", b"\1\0\0\0\0\0\0\0\0"])
def test_malformed_payloads_are_corrupt(data, shape):
    with pytest.raises(CorruptError):
        classical.decode(data, [shape])
