"""Exact mixture couplings: the laws of bins and of cells are distributions, and near those of the float mixtures."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from programs import noise_stack, program
from test_exact_mixture import tables
from test_flow_method import image

from dqcodec.ans.logarithms import ONE
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import LatentOverflow
from dqcodec.exact.flow.mixture_coupling import Laws
from dqcodec.flows.mixture import LogisticMixture
from dqcodec.frozen.autoregressive import (
    INVERSE_SCALE_BITS,
    LARGEST_MEAN,
    LEAST_MEAN,
    POSITION_BITS,
    TOTAL,
    WEIGHT_BITS,
)
from dqcodec.frozen.interlaced import CELL_BITS, CELL_TOTAL_BITS


def random_laws(count: int, bits: int, seed: int = 0) -> Laws:
    """With means anywhere, and all scales."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(3), count).T * ((1 << WEIGHT_BITS) - max(1, (1 << bits) >> 5))
    means = rng.integers(LEAST_MEAN, LARGEST_MEAN, (3, count)) >> rng.integers(0, 8, count)
    scales = 2.0**INVERSE_SCALE_BITS * np.exp2(-rng.uniform(-4, 7, (3, count)))
    mixtures = np.stack([weights, means, np.maximum(1, scales)]).astype(np.int32)
    return Laws(mixtures, tables(), 1 << bits)


@given(st.integers(1, 8), st.integers(0, 1 << 30))
def test_cells_of_any_bin_fill_all_slots(bits, seed):
    laws = random_laws(50, bits, seed)
    x = np.random.default_rng(seed).integers(0, 1 << bits, 50)
    cells = laws.cells(x)
    assert (cells[:, 0] == 0).all() and (cells[:, -1] == 1 << CELL_TOTAL_BITS).all()
    assert np.diff(cells).min() >= 1
    first, count = laws.bins(x)
    assert count.min() >= 1 and (laws.find(first) == x).all() and (laws.find(first + count - 1) == x).all()
    assert ((first + count == TOTAL) == (x == (1 << bits) - 1)).all()


def test_cells_are_near_the_float_density():
    laws, bits = random_laws(400, 8), 8
    weight, mean, inverse_scale = (torch.from_numpy(part.T.astype(np.float64)) for part in laws.mixtures)
    share = weight / weight.sum(-1, keepdim=True)
    # a mean is counted from the lower end of bin 0
    steps = mean / 2**POSITION_BITS - 0.5
    mixture = LogisticMixture(share.log(), steps, inverse_scale / 2**INVERSE_SCALE_BITS)
    x = laws.find(np.random.default_rng(0).integers(0, TOTAL, 400)).clip(1, 254)
    shares = np.diff(laws.cells(x)) / (1 << CELL_TOTAL_BITS)
    places = (torch.arange(32 << CELL_BITS).double() + 0.5) / (32 << CELL_BITS)
    wide = LogisticMixture(*(part[:, None].expand(-1, len(places), -1) for part in mixture))
    density = wide.log_density(torch.from_numpy(x)[:, None] - 0.5 + places, bits).exp()
    expected = density.view(400, 1 << CELL_BITS, -1).mean(-1)
    expected /= expected.sum(1, keepdim=True)
    lost = (expected * (expected / torch.from_numpy(shares)).log2()).sum(1)
    likely = mixture.log_mass(torch.from_numpy(x).double(), bits).exp() > 1e-4  # the sigmoid's table has steps of 2^-16
    assert likely.sum() > 300 and lost[likely].mean() < 2e-3


@pytest.mark.parametrize("value", [-1, 256 << 8])
def test_values_outside_of_all_bins_are_refused(value):
    v = np.full((1, 8, 8, 3), value)
    with pytest.raises(LatentOverflow):
        program("interlaced").codec.density.push(noise_stack(), v)


@pytest.mark.parametrize("before, growth", [(0, 3), (500, 6), (100_000, 3), (0, 12)])
def test_symbols_take_their_masses_and_come_back(before, growth):
    density, x = program("interlaced").codec.density, image(16, 16).astype(np.int64)[None]
    stack = Stack(bytes(3000))
    start = stack.bits
    cost = density.push_symbols(stack, x, before, growth) / ONE
    assert abs(stack.bits - start - cost.sum()) < 0.001 * x.size + 1
    assert np.array_equal(density.pop_symbols(stack, x.shape, before, growth), x)
    assert stack.seed(3000) == bytes(3000)


def test_symbols_cost_no_more_than_values_whose_noise_is_given_back():
    """-log2 P(x) is the least rate of bits-back."""
    codec, x = program("interlaced").codec, image(16, 16).astype(np.int64)[None]
    bits_back = np.mean([codec.push(Stack(np.random.default_rng(n).bytes(20000)), x)[0] for n in range(4)])
    assert codec.density.push_symbols(Stack(bytes(3000)), x, 0, 3)[0] / ONE < bits_back
