import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import KINDS, noise_stack

from dqcodec.base.errors import ModelError
from dqcodec.exact.flow.dequantizers import SigmoidCells
from dqcodec.exact.flow.features import PixelFeatures

few = settings(max_examples=5)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_model = pytest.mark.parametrize("channels, levels", [(3, 1), (1, 2)])


def dequantizer(kind, *size):
    return programs.program(kind, *size).codec.dequantizer


@every_kind
@every_model
@few
@given(st.integers(0, 999), st.integers(1, 3), st.booleans())
def test_push_undoes_pop_and_u_is_in_its_bin(kind, channels, levels, seed, batch, noisy):
    q, rng = dequantizer(kind, channels, levels), np.random.default_rng(seed)
    shape = (batch, 4, 8, channels)
    x = rng.integers(0, 256, shape) if noisy else programs.smooth(rng, *shape)
    stack = noise_stack(seed)
    before = stack.to_bytes()
    v, log2_q = q.pop(stack, x)
    assert v.dtype == np.int64 and v.shape == shape and log2_q.shape == (batch,) and np.isfinite(log2_q).all()
    assert np.array_equal(v >> q.fraction_bits, x) and np.array_equal(q.quantize(v), x)
    q.push(stack, v, x)
    assert stack.to_bytes() == before


@every_kind
@every_model
@few
@given(st.integers(0, 999))
def test_pop_undoes_push_of_any_point_of_the_bin(kind, channels, levels, seed):
    q, rng = dequantizer(kind, channels, levels), np.random.default_rng(seed)
    x = programs.smooth(rng, 2, 4, 4, channels)
    v = (x << q.fraction_bits) + rng.integers(0, 1 << q.fraction_bits, x.shape)
    stack = noise_stack(seed)
    stack.pop(1 << 20, (2,))  # the seed's zero word: it would be popped as the far end of the first tail
    before = stack.to_bytes()
    try:
        q.push(stack, v, x)
    except programs.OUT_OF_RANGE:  # u whose eps the normal's table does not hold: no pop gives it
        return
    assert np.array_equal(q.pop(stack, x)[0], v)
    assert stack.to_bytes() == before


@every_kind
@pytest.mark.parametrize("name", programs.odd_tiles())
def test_odd_tiles_are_dequantized_too(kind, name):
    q, x, stack = dequantizer(kind), programs.odd_tiles()[name], noise_stack()
    before = stack.to_bytes()
    v, _ = q.pop(stack, x)
    assert np.array_equal(q.quantize(v), x)
    q.push(stack, v, x)
    assert stack.to_bytes() == before


@pytest.mark.parametrize("channels", [1, 3])
def test_ard_is_inverted_within_one_step_a_dimension(channels):
    q = dequantizer("ard", channels)
    for seed in range(5):
        x = programs.smooth(np.random.default_rng(seed), 2, 4, 4, channels)
        stack = noise_stack(seed)
        q.push(stack, q.pop(stack, x)[0], x)
        assert all(1 < step.iterations <= x[0].size + 1 for step in q.steps)


def test_ard_inverts_each_image_on_its_own():
    """An image whose iteration ends early neither waits for the others nor changes."""
    q = dequantizer("ard")
    x = np.concatenate(list(programs.odd_tiles().values()))
    step, context = q.steps[0], q._context(x)
    y = np.rint(np.random.default_rng(0).normal(0, 1 << q.grid_bits, context.shape[:3] + (12,))).astype(np.int64)
    stack = noise_stack()
    eps = step.unsample(y, stack, context)
    assert np.array_equal(step.sample(eps, stack, context)[0], y)
    assert stack.to_bytes() == noise_stack().to_bytes()


@every_kind
@pytest.mark.parametrize("bits", [1, 3, 5, 8])
def test_the_borrowed_bits_are_the_log_density_that_pop_reports(kind, bits):
    q, x = dequantizer(kind, 3, 1, bits), programs.smooth(np.random.default_rng(1), 32, 8, 8) >> (8 - bits)
    stack = noise_stack(0, 1 << 17)
    before = stack.bits
    v, log2_q = q.pop(stack, x)
    borrowed = before - stack.bits
    # log2_q is per pixel unit^D, a bin has 2^fraction_bits points a dimension
    assert abs(borrowed - (q.fraction_bits * x.size - log2_q.sum())) / x.size < 0.004


@torch.no_grad()
@every_kind
def test_the_log_density_is_near_the_float_models(kind):
    q, x = dequantizer(kind), programs.smooth(np.random.default_rng(2), 16, 8, 8)
    v, log2_q = q.pop(noise_stack(0, 1 << 16), x)
    u = (v - (x << q.fraction_bits) + 0.5) / 2**q.fraction_bits

    def tensor(a):
        return torch.from_numpy(a).float().permute(0, 3, 1, 2)

    expected = programs.model(kind).dequantizer.log_prob(tensor(u), tensor(x)).double() / np.log(2)
    assert np.abs(log2_q - expected.numpy()).max() / x[0].size < 0.03


@torch.no_grad()
@every_kind
def test_u_is_distributed_as_in_the_float_model(kind):
    """The mean and spread of u at each place, over many pops for one tile."""
    q, count = dequantizer(kind), 400
    x = np.repeat(programs.smooth(np.random.default_rng(3), 1, 4, 4), count, 0)
    stack = noise_stack(0, 1 << 17)
    u = (q.pop(stack, x)[0] - (x << q.fraction_bits) + 0.5) / 2**q.fraction_bits
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs, _ = programs.model(kind).dequantizer.sample(torch.from_numpy(x).float().permute(0, 3, 1, 2))
    theirs = theirs.permute(0, 2, 3, 1).numpy()
    error = (u.mean(0) - theirs.mean(0)) / np.sqrt((u.var(0) + theirs.var(0)) / count)
    assert np.square(error).mean() < 2 and np.abs(error).max() < 5
    assert np.abs(u.std(0) / theirs.std(0) - 1).max() < 0.35


def sigmoid_cells() -> SigmoidCells:
    return dequantizer("gaussian").cells


def test_cells_of_the_sigmoid_are_the_real_ones():
    cells, grid_bits = sigmoid_cells(), dequantizer("gaussian").grid_bits
    y = np.arange(-9 << grid_bits, 9 << grid_bits, 37)
    u = 1 / (1 + np.exp(-y / 2**grid_bits))
    assert np.abs(cells.u(y) + 0.5 - u * cells.cells).max() < 0.52 + cells.cells / 4 / 2**grid_bits
    assert cells.u(np.array([-(1 << 40), 1 << 40])).tolist() == [0, cells.cells - 1]


@few
@given(st.lists(st.one_of(st.integers(-(1 << 14), 1 << 14), st.integers(-(1 << 40), 1 << 40)), min_size=1))
def test_positions_in_cells_are_given_back(values):
    cells, y, stack = sigmoid_cells(), np.array(values, np.int64), noise_stack()
    before = stack.to_bytes()
    u = cells.u(y)
    cells.push_position(stack, y, u)
    assert np.array_equal(cells.pop_position(stack, u), y)
    assert stack.to_bytes() == before


@pytest.mark.parametrize("edges", [[0, 1], [0, 1, 1], [3, 2, 1], [[0, 1, 2]], [0, 5, 1 << 24]])
def test_cells_that_do_not_increase_are_a_model_error(edges):
    with pytest.raises(ModelError):
        SigmoidCells(np.array(edges, np.int32), sigmoid_cells().tail)


@pytest.mark.parametrize(
    "matrix, gain",
    [
        (np.ones((4, 3)), np.zeros(4)),
        (np.ones((4, 4)), np.zeros(3)),
        (np.full((4, 4), 9), np.zeros(4)),
        (np.ones((4, 4)), np.full(4, 17)),
        (np.ones((4, 4)), np.full(4, -17)),
    ],
)
def test_features_that_do_not_fit_are_a_model_error(matrix, gain):
    with pytest.raises(ModelError):
        PixelFeatures(matrix.astype(np.int8), gain.astype(np.int8), 128)
