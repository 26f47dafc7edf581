import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.base.errors import ModelError
from dqcodec.base.threads import set_threads
from dqcodec.exact.flow import networks
from dqcodec.exact.networks import Conv
from dqcodec.frozen.flow import INPUT_BITS, INPUT_BOUND, LOG_SCALE_BITS

LEVEL = 200
few = settings(max_examples=25)


@pytest.fixture(autouse=True)
def default_threads():
    yield
    set_threads(0)


def reference(conv: Conv, a: np.ndarray) -> np.ndarray:
    """The convolution in Python's integers."""
    batch, height, width, _ = a.shape
    outputs, _, k, _ = conv.weight.shape
    padded = np.pad(a.astype(np.int64), ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0))).astype(object)
    weight, out = conv.weight.astype(object), np.zeros((batch, height, width, outputs), object)
    for dy in range(k):
        for dx in range(k):
            out += np.tensordot(padded[:, dy : dy + height, dx : dx + width], weight[:, :, dy, dx], (3, 1))
    out = (out + conv.bias.astype(object)) // (1 << conv.shift.astype(object))
    return np.clip(out.astype(np.int64), conv.low, conv.high)


def random_conv(seed: int, kernel: int, weight_bits: int, max_input: int, clamp_bits: int) -> Conv:
    outputs, inputs = 3, 4
    rng = np.random.default_rng(seed)
    top = 1 << weight_bits - 1
    weight = rng.integers(-top, top, (outputs, inputs, kernel, kernel))
    shift = rng.integers(1, 12, outputs)
    bias = rng.integers(-(1 << 12), 1 << 12, outputs)
    return Conv(weight, bias, shift, -(1 << clamp_bits), np.full(outputs, 1 << clamp_bits), max_input)


def random_input(seed: int, shape: tuple[int, ...], max_input: int) -> np.ndarray:
    """Activations, many of them at their bounds."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-max_input, max_input + 1, shape)
    return np.where(rng.random(shape) < 0.3, max_input * rng.choice([-1, 1], shape), a).astype(np.float32)


@few
@given(
    st.integers(0, 999),
    st.sampled_from([1, 3]),
    st.sampled_from([4, 8, 14, 20]),
    st.sampled_from([1, 255, 4095]),
    st.sampled_from([(1, 1, 1), (1, 1, 5), (2, 3, 4), (3, 6, 2)]),
    st.sampled_from([8, 50]),
)
def test_a_convolution_is_that_of_pythons_integers(seed, kernel, weight_bits, max_input, shape, clamp_bits):
    conv = random_conv(seed, kernel, weight_bits, max_input, clamp_bits)
    a = random_input(seed, (*shape, 4), max_input)
    assert np.array_equal(conv(a), reference(conv, a))


def single(weight: int, max_input: int, bias: int = 0) -> Conv:
    return Conv(np.full((1, 1, 1, 1), weight), np.array([bias]), np.array([1]), -1e30, 1e30, max_input)


def test_float32_is_taken_just_where_24_bits_are_proven():
    assert single(2, (1 << 23) - 1).dtype is np.float32
    assert single(2, 1 << 23).dtype is np.float64
    assert single(2, (1 << 23) - 1, -2).dtype is np.float64
    assert single(1, 5, 7).bound == 12


@pytest.mark.parametrize(
    "weight, max_input, bias",
    [((1 << 24) - 1, 1, 0), (1, (1 << 23), (1 << 23) - 1), (-1, 4095, 0), ((1 << 26) + 3, 1, 0), ((1 << 52) - 5, 1, 3)],
)
def test_sums_at_the_bound_are_exact(weight, max_input, bias):
    conv = single(weight, max_input, bias)
    for a in (max_input, -max_input, max_input - 1):
        a = np.full((1, 1, 1, 1), a, np.float32)
        assert np.array_equal(conv(a), reference(conv, a))


@pytest.mark.parametrize(
    "weight, max_input, bias",
    [
        (1 << 30, 1 << 23, 0),
        (1, 1, 1 << 53),
        (1 << 62, 4, 0),
        (-(1 << 63), 1, 0),
        (1, 1, -(1 << 63)),
    ],
)
def test_sums_that_53_bits_may_not_hold_are_refused(weight, max_input, bias):
    with pytest.raises(ModelError, match="exact"):
        single(weight, max_input, bias)


def test_weights_whose_absolute_sum_wraps_around_are_refused():
    with pytest.raises(ModelError, match="exact"):
        Conv(np.full((1, 4, 1, 1), 1 << 62), np.zeros(1, int), np.ones(1, int), 0, 1, 1)


@pytest.mark.parametrize(
    "weight, bias, shift",
    [
        ((3, 4, 3), 3, 3),
        ((3, 4, 5, 5), 3, 3),
        ((3, 4, 1, 3), 3, 3),
        ((3, 4, 3, 3), 4, 3),
        ((3, 4, 3, 3), 3, 1),
    ],
)
def test_tensors_that_do_not_fit_together_are_refused(weight, bias, shift):
    with pytest.raises(ModelError):
        Conv(np.ones(weight, int), np.ones(bias, int), np.ones(shift, int), 0, 1, 1)


@pytest.mark.parametrize("shift", [0, -3, 41])
def test_shifts_out_of_range_are_refused(shift):
    with pytest.raises(ModelError):
        Conv(np.ones((1, 1, 1, 1), int), np.zeros(1, int), np.full(1, shift), 0, 1, 1)


def residual_net(channels=3):
    program = programs.program("gaussian", channels)
    return program.codec.dequantizer.steps[0].net


def coupling_net():
    return programs.program("gaussian").codec.density.levels[0][1].net


def autoregressive_net():
    return programs.program("ard").codec.dequantizer.steps[0].net


def net_and_inputs(name: str, batch: int = 5, side: int = 6):
    """(function of arrays, arrays on the input grid)."""
    net = {"residual": residual_net, "coupling": coupling_net, "autoregressive": autoregressive_net}[name]()
    a = random_input(3, (batch, side, side + 1, net.in_channels), INPUT_BOUND)
    if name != "autoregressive":
        return net, (a,)
    context = np.abs(random_input(4, (batch, side, side + 1, 4), INPUT_BOUND))
    return lambda a, context: net(a, net.context_sums(context)), (a, context)


def map_batch(net, *arrays: np.ndarray) -> np.ndarray:
    return networks.map_batch(lambda *piece: (net(*piece),), *arrays)[0]


NETS = pytest.mark.parametrize("name", ["residual", "coupling", "autoregressive"])


@NETS
def test_outputs_are_integers_and_vary(name):
    net, arrays = net_and_inputs(name)
    out = net(*arrays)
    assert np.array_equal(out, np.floor(out)) and len(np.unique(out)) > 20


@NETS
def test_the_split_of_the_batch_changes_nothing(name):
    net, arrays = net_and_inputs(name)
    whole = net(*arrays)
    for size in (1, 2, 3):
        pieces = [net(*(a[i : i + size] for a in arrays)) for i in range(0, len(whole), size)]
        assert np.array_equal(whole, np.concatenate(pieces))


@NETS
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_change_nothing(name, threads):
    net, arrays = net_and_inputs(name)
    set_threads(threads)
    assert np.array_equal(map_batch(net, *arrays), net(*arrays))


@NETS
def test_the_layout_of_arrays_changes_nothing(name):
    net, arrays = net_and_inputs(name)
    whole = net(*arrays)
    layouts = {
        "fortran": np.asfortranarray,
        "strided": lambda a: np.repeat(a, 2, -1)[..., ::2],
        "reversed": lambda a: np.ascontiguousarray(a[:, ::-1, :, ::-1])[:, ::-1, :, ::-1],
        "channels first": lambda a: np.ascontiguousarray(a.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1),
    }
    for layout, change in layouts.items():
        for function in (net, lambda *a: map_batch(net, *a)):
            assert np.array_equal(function(*map(change, arrays)), whole), layout


@NETS
def test_inputs_are_left_as_they_were(name):
    net, arrays = net_and_inputs(name)
    copies = [a.copy() for a in arrays]
    net(*arrays)
    assert all(map(np.array_equal, arrays, copies))


@pytest.mark.parametrize("side", [1, 2])
def test_networks_take_maps_of_one_and_two_pixels(side):
    for name in ("residual", "autoregressive"):
        net, arrays = net_and_inputs(name, side=8)
        small = [a[:, :side, :side] for a in arrays]
        assert net(*small).shape[:3] == (5, side, side)


def test_an_autoregressive_output_depends_on_earlier_places_alone():
    net, (a, context) = net_and_inputs("autoregressive", batch=1, side=4)
    before = net(a, context)
    channels = a.shape[-1]
    for channel, y, x in [(0, 0, 0), (3, 2, 1), (channels - 1, 3, 4), (5, 1, 4)]:
        changed = a.copy()
        changed[0, y, x, channel] = np.where(a[0, y, x, channel] > 0, -INPUT_BOUND, INPUT_BOUND)
        differs = (net(changed, context) != before)[0].reshape(4, 5, 2, channels).any(2)
        order = np.arange(differs.size).reshape(channels, 4, 5).transpose(1, 2, 0)  # C x H x W
        assert not differs[order <= order[y, x, channel]].any()


def values(a: np.ndarray) -> torch.Tensor:
    """Integers of the input grid -> the torch net's input."""
    return torch.from_numpy(a / 2.0**INPUT_BITS).float().permute(0, 3, 1, 2)


def reals(out: np.ndarray, grid_bits: int) -> tuple[np.ndarray, np.ndarray]:
    m, raw = np.split(out.astype(np.float64), 2, -1)
    return m / 2**grid_bits, raw / 2**LOG_SCALE_BITS


def assert_near(exact: tuple, real: torch.Tensor):
    real = np.split(real.permute(0, 2, 3, 1).double().numpy(), 2, -1)
    for ours, theirs, grid in zip(exact, real, (0, 2.0**-LOG_SCALE_BITS)):
        assert theirs.std() > 0.05
        error = np.abs(ours - theirs)
        assert np.sqrt(np.mean(error**2)) < 0.02 * theirs.std() + grid
        assert error.max() < 0.2 * theirs.std() + grid


@torch.no_grad()
def test_the_exact_residual_net_is_near_the_float_net():
    rng = np.random.default_rng(0)
    model, program = programs.model("gaussian"), programs.program("gaussian")
    grid_bits = program.codec.dequantizer.grid_bits
    features = program.codec.dequantizer.features(programs.smooth(rng, 4, 8, 8))
    real = model.dequantizer.transforms.transforms[0].net(values(features))
    assert_near(reals(residual_net()(features), grid_bits), real)


@torch.no_grad()
def test_the_exact_autoregressive_net_is_near_the_float_net():
    rng = np.random.default_rng(0)
    model, program = programs.model("ard"), programs.program("ard")
    dequantizer = program.codec.dequantizer
    x = programs.smooth(rng, 4, 8, 8)
    context = dequantizer._context(x)
    real_context = model.dequantizer.context(torch.from_numpy(x).float().permute(0, 3, 1, 2))
    assert float((values(context) - real_context).abs().max()) < 0.1
    eps = np.rint(rng.normal(0, 1 << INPUT_BITS, (4, 4, 4, 12))).astype(np.float32)
    net = autoregressive_net()
    real = model.dequantizer.transforms.transforms[0].net(values(eps), values(context))
    assert_near(reals(net(eps, net.context_sums(context)), dequantizer.grid_bits), real)
