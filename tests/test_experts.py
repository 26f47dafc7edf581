import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.base.errors import CorruptError
from dqcodec.exact.mixing.experts import Kind
from dqcodec.frozen import experts as frozen
from dqcodec.methods import experts, mixing


def encode(*layers: np.ndarray) -> bytes:
    """The payload of layers, whose sizes are those that it says."""
    payload = experts.encode(layers)
    assert sum(payload.sizes) == len(payload.data) and len(payload.sizes) == len(layers)
    return payload.data


def encode_as(kind: Kind, *layers: np.ndarray) -> bytes:
    """The payload of layers of one kind."""
    return experts.encode_as(layers, [kind] * len(layers)).data


def assert_come_back(*layers: np.ndarray) -> None:
    """By each kind, and by all in turns."""
    for kinds in (*([kind] for kind in Kind), list(Kind)):
        payload = experts.encode_as(layers, [kinds[number % len(kinds)] for number in range(len(layers))])
        decoded = experts.decode(payload.data, [pixels.shape for pixels in layers])
        assert all(np.array_equal(*pair) for pair in zip(decoded, layers, strict=True))


def blurred(height: int, width: int, noise: float = 0, seed: int = 0) -> np.ndarray:
    """Noise of 16 bits, blurred, with white noise upon it, uint16 (H, W, 1)."""
    rng = np.random.default_rng(seed)
    surface = rng.normal(0, 20000, (height, width))
    for axis in (0, 1):
        surface = sum(weight * np.roll(surface, shift, axis) for shift, weight in enumerate((1, 4, 6, 4, 1))) / 16
    return (32768 + surface + rng.normal(0, noise, surface.shape)).round().clip(0, 65535).astype(np.uint16)[..., None]


def balls(height: int, width: int, noise: float = 0, seed: int = 0) -> np.ndarray:
    """Distances to spheres and to a slanted plane behind them, in millimetres, with white noise upon them, uint16 (H, W, 1)."""
    rng = np.random.default_rng(seed)
    y, x = (np.arange(height)[:, None] - height / 2) / width, np.arange(width) / width - 0.5
    square, far = x * x + y * y + 1, 9 / (1 + 0.4 * y + 0.2 * x)
    for _ in range(12):
        center, radius = rng.uniform((-2, -1, 3), (2, 1, 7)), rng.uniform(0.2, 0.8)
        along = x * center[0] + y * center[1] + center[2]
        inside = along * along - square * (center @ center - radius * radius)
        far = np.where(inside > 0, np.minimum(far, (along - np.sqrt(np.maximum(inside, 0))) / square), far)
    return (1000 * far + rng.normal(0, noise, far.shape)).round().clip(0, 65535).astype(np.uint16)[..., None]


def slope(height: int, width: int, channels: int, noise: float = 20, seed: int = 0) -> np.ndarray:
    """A smooth surface of 14 bits with noise, the same in all channels, uint16 (H, W, C)."""
    rng = np.random.default_rng(seed)
    y, x = np.arange(height)[:, None, None], np.arange(width)[:, None]
    surface = 6000 + 20 * y + 4000 * np.sin(x / 9 + y / 17)
    own = rng.normal(0, noise / 4, (height, width, channels))
    return (surface + rng.normal(0, noise, (height, width, 1)) + own).round().clip(0, 16383).astype(np.uint16)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(0, 65535),
    st.integers(0, 65535),
    st.sampled_from([np.uint8, np.uint16]),
    st.integers(0),
)
def test_any_samples_come_back(sizes, channels, least, largest, dtype, seed):
    rng, bound = np.random.default_rng(seed), np.iinfo(dtype).max
    low, high = sorted((least & bound, largest & bound))
    assert_come_back(*(rng.integers(low, high, (*size, channels), endpoint=True).astype(dtype) for size in sizes))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_smooth_layers_with_outliers_come_back(channels):
    pixels = slope(24, 31, channels)
    pixels[5:8, 3:20] = 65535
    pixels[::7, ::5] = 0
    assert_come_back(pixels, slope(3, 40, channels, seed=1))


@pytest.mark.parametrize("period", [1, 2, 3])
def test_extremes_that_alternate_come_back(period):
    y, x = np.ogrid[:17, :23]
    assert_come_back(np.where((y + x) % (period + 1), 65535, 0).astype(np.uint16)[..., None])


def test_predictable_samples_take_only_the_bits_of_their_noise():
    """White noise of deviation 20 has log2(20 sqrt(2 pi e)) = 6.37 bits; the surface adds little to it."""
    assert 6.3 < 8 * len(encode(slope(128, 128, 1))) / 128**2 < 7.0


def test_a_channel_helps_the_next():
    """Channels differ by noise of deviation 5, which has 4.37 bits; twice for a difference of two."""
    three, one = (len(encode(slope(64, 64, channels))) for channels in (3, 1))
    assert three < one * (1 + 2 * 5.4 / 6.6)


def test_steps_between_values_cost_nothing():
    pixels = slope(32, 32, 1)
    assert abs(len(encode(3 * (pixels // 4) + 7)) - len(encode(pixels // 4))) <= 2


def test_a_layer_is_smaller_after_a_similar_layer():
    first, second = slope(32, 32, 1, seed=1), slope(32, 32, 1, seed=2)
    assert len(encode(first, second)) < len(encode(first)) + len(encode(second)) - 8


def test_deep_samples_are_smaller_than_by_mixing_of_their_bytes():
    pixels = slope(64, 64, 1)
    halves = [(pixels >> 8).astype(np.uint8), (pixels & 255).astype(np.uint8)]
    assert len(encode(pixels)) < 0.8 * sum(len(mixing.encode([half]).data) for half in halves)


def test_channels_of_one_value_take_their_head_alone():
    assert len(encode(np.full((300, 400, 3), 40000, np.uint16))) == 3 * (3 + 1 + 1)


@pytest.mark.parametrize("size", [(64, 65), (182, 183), (32, 1100)])
def test_smooth_deep_layers_are_smaller_from_a_wide_neighbourhood_and_coded_so(size):
    pixels = blurred(*size)
    assert encode(pixels) == encode_as(Kind.WIDE, pixels)
    assert len(encode(pixels)) < 0.98 * len(encode_as(Kind.NARROW, pixels))


@pytest.mark.parametrize("size", [(64, 65), (182, 183)])
def test_surfaces_with_sharp_edges_are_a_fourth_smaller_as_sharp_and_coded_so(size):
    pixels = balls(*size)
    assert encode(pixels) == encode_as(Kind.SHARP, pixels)
    assert len(encode(pixels)) < 0.75 * min(len(encode_as(kind, pixels)) for kind in (Kind.NARROW, Kind.WIDE))


@pytest.mark.parametrize(
    "pixels",
    [
        blurred(64, 65, noise=2000),
        blurred(182, 183, noise=2000),
        blurred(63, 65),
        balls(64, 65, noise=20),
        blurred(64, 65) >> 8,
        blurred(64, 65) >> 8 << 8,
        blurred(64, 65).repeat(3, axis=2),
        np.full((64, 65, 1), 40000, np.uint16),
    ],
    ids=["noisy", "noisy-large", "small", "noisy-edges", "8-bit", "8-bit-steps", "rgb", "flat"],
)
def test_layers_that_gain_little_are_narrow(pixels):
    assert encode(pixels) == encode_as(Kind.NARROW, pixels)


def test_a_kind_is_marked_by_its_number_of_bytes_in_each_layer():
    layers = [np.full((3, 4, 3), value, np.uint16) for value in (5, 7)]
    for kind in Kind:
        zeros = b"\0" * kind
        assert encode_as(kind, *layers) == b"".join(
            least + zeros + b"\1\0" + (least + b"\1\0") * 2 for least in (b"\5", b"\7")
        )


@pytest.mark.parametrize("payload", [b"\0\0\0\0\5\0\1\5", b"\0\0\0\0\1\5\0\1\5", b"\0\1\5\0\0\1\5", b"\0\0", b"\0\0\1"])
def test_a_mark_that_is_unknown_or_at_a_later_channel_is_refused(payload):
    with pytest.raises(CorruptError):
        experts.decode(payload + bytes(20), [(2, 2, 2)])
    with pytest.raises(CorruptError):
        experts.decode(payload, [(2, 2, 2)])


@pytest.mark.parametrize(
    "payload",
    [b"", b"\0", b"\0\0\5", b"\xff\xff\3\1\1", b"\1\x02\xff\xff\3", b"\xff\xff\xff\xff\x0f\1\1"],
)
def test_ranges_that_are_missing_or_no_samples_are_refused(payload):
    with pytest.raises(CorruptError):
        experts.decode(payload, [(2, 2, 1)])


def test_a_short_payload_for_a_large_layer_is_refused():
    with pytest.raises(CorruptError, match="too short"):
        experts.decode(b"\0\1\1abc", [(20000, 20000, 1)])


def test_a_layer_too_wide_is_refused_unless_it_has_one_value():
    shape = (1, frozen.MAX_WIDTH + 1, 1)
    with pytest.raises(CorruptError, match="too wide"):
        experts.decode(b"\0\1\1abcdef", [shape])
    assert (experts.decode(b"\7\1\0", [shape])[0] == 7).all()


@settings(max_examples=40)
@given(st.binary(max_size=60), st.integers(1, 65535), st.sampled_from([b"\1", b"\0\1", b"\0\0\1"]))
def test_any_code_decodes(code, largest, step):
    head = b"\0" + step + bytes([largest & 127 | 128, largest >> 7 & 127 | 128, largest >> 14])
    if largest >> 14:
        (pixels,) = experts.decode(head + code, [(5, 7, 1)])
        assert pixels.max() <= largest
