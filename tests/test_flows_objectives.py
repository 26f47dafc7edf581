"""Bounds: their order, their special cases, and log P(x) itself where it is known."""

import math

import pytest
import torch
from flows import DENSITIES, DEQUANTIZERS, randomised, symbols
from hypothesis import given
from hypothesis import strategies as st

from dqcodec.flows import objectives
from dqcodec.flows.densities import DiagonalGaussian
from dqcodec.flows.dequantizers import UniformDequantizer
from dqcodec.flows.model import DequantizedModel

log_weights = st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=1, max_size=6).map(
    lambda rows: torch.tensor(rows, dtype=torch.float64)
)
alphas = st.floats(-20, 1)


@given(log_weights)
def test_renyi_has_vi_iw_and_vr_max_as_special_cases(w):
    torch.testing.assert_close(objectives.renyi(w, 1.0), w.mean(0))
    torch.testing.assert_close(objectives.renyi(w, 0.0), torch.log(torch.exp(w).mean(0)))
    torch.testing.assert_close(objectives.renyi(w, -math.inf), w.max(0).values)


@given(log_weights, alphas, alphas)
def test_renyi_falls_as_alpha_grows(w, a, b):
    low, high = sorted((a, b))
    if 1 - low < 1e-6 or (high < 1 and 1 - high < 1e-6):
        return  # a difference of logarithms, divided by nearly nothing
    assert (objectives.renyi(w, low) >= objectives.renyi(w, high) - 1e-6).all()


@given(log_weights, alphas)
def test_with_one_sample_all_bounds_are_one(w, alpha):
    torch.testing.assert_close(objectives.renyi(w[:1], alpha), w[0], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("alpha", [1.5, math.nan])
def test_alpha_above_one_is_refused(alpha):
    with pytest.raises(ValueError):
        objectives.renyi(torch.zeros(2, 2), alpha)


def test_bounds_rise_to_a_known_log_probability():
    """p normal per pixel, q uniform: P(x) is a product of differences of normal cdfs."""
    torch.manual_seed(0)
    density = DiagonalGaussian((1, 2, 2), 2.0, 1.0).double()
    with torch.no_grad():
        density.log_scale.fill_(math.log(0.4))
    model = DequantizedModel(UniformDequantizer(), density, 2)
    x = symbols(3, 1, 2, 2, bits=2)
    cdf = torch.distributions.Normal(2.0, 0.4).cdf
    log_p = (cdf(x + 1) - cdf(x)).log().flatten(1).sum(1)
    with torch.no_grad():
        w = model.log_weights(x, 64_000)
    # every bound of K samples averaged over many draws of K
    means = {k: objectives.iw(w.view(k, -1)).view(-1, 3).mean(0) for k in (1, 4, 16)}
    torch.testing.assert_close(means[1], objectives.vi(w))
    assert (means[1] < means[4]).all() and (means[4] < means[16]).all() and (means[16] < log_p).all()
    torch.testing.assert_close(objectives.iw(w), log_p, atol=0.2, rtol=0)


def test_half_infinite_bins_halve_the_line():
    """p symmetric about zero: P(x) = 1/2 per pixel."""
    torch.manual_seed(0)
    model = DequantizedModel(
        randomised(DEQUANTIZERS["gaussian"]("half_infinite"), 0.1), DiagonalGaussian((1, 2, 2), 0.0, 1.0).double(), 1
    )
    with torch.no_grad():
        weights = model.log_weights(symbols(2, 1, 2, 2), 40_000).exp()
    error = weights.std(0) / len(weights) ** 0.5
    assert (error < 0.1 / 16).all() and ((weights.mean(0) - 1 / 16).abs() < 5 * error).all()


def test_vr_max_is_the_largest_weight_and_has_its_gradient():
    torch.manual_seed(0)
    model = DequantizedModel(randomised(DEQUANTIZERS["bipartite"]("hypercube")), randomised(DENSITIES["flow"]()), 1)
    x = symbols(2, 1, 2, 2)

    def gradients(bound):
        model.zero_grad()
        bound.sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    torch.manual_seed(5)
    cheap = model.bound(x, 6, -math.inf)
    cheap_gradients = gradients(cheap)
    torch.manual_seed(5)
    full = objectives.renyi(model.log_weights(x, 6), -math.inf)
    torch.testing.assert_close(cheap, full)
    torch.testing.assert_close(cheap_gradients, gradients(full))


@pytest.mark.parametrize("density", DENSITIES)
def test_sampled_images_are_symbols(density):
    torch.manual_seed(0)
    x = DequantizedModel(UniformDequantizer(), DENSITIES[density](), 2).sample(10, 2, 2)
    assert x.shape == (10, 1, 2, 2) and torch.equal(x, x.round()) and x.min() >= 0 and x.max() <= 3
