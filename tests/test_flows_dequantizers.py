"""Dequantizers: samples come with their own density, which integrates to one, and stay in their bin."""

import itertools

import pytest
import torch
from flows import DEQUANTIZERS, randomised, symbols

KINDS = list(itertools.product(DEQUANTIZERS, ["hypercube", "half_infinite"]))
KINDS.remove(("uniform", "half_infinite"))  # [0, 1) does not cover such a bin


def _dequantizer(kind: str, bins: str):
    torch.manual_seed(0)
    return randomised(DEQUANTIZERS[kind](bins))


@pytest.mark.parametrize("kind, bins", KINDS)
def test_the_density_of_a_sample_is_what_log_prob_says(kind, bins):
    q, x = _dequantizer(kind, bins), symbols(5, 1, 4, 4)
    with torch.no_grad():
        u, log_q = q.sample(x)
        torch.testing.assert_close(q.log_prob(u, x), log_q)


@pytest.mark.parametrize("kind, bins", KINDS)
def test_samples_lie_in_the_bin_of_their_symbol(kind, bins):
    q, x = _dequantizer(kind, bins), symbols(50, 1, 4, 4)
    with torch.no_grad():
        u, _ = q.sample(x)
    assert (u >= 0).all() and (bins == "half_infinite" or (u < 1).all())
    assert torch.equal(q.bins.quantize(q.value(x, u)), x)


@pytest.mark.parametrize("y", [-200.0, -90.0, 30.0, 200.0])
def test_far_samples_stay_in_their_bin_too(y):
    bins = _dequantizer("gaussian", "hypercube").bins
    u, log_det = bins.from_real(torch.full((1, 1, 1, 1), y))
    assert 0 < u < 1 and torch.isfinite(log_det)


def test_the_value_of_a_place_near_the_end_of_a_bin_stays_in_it():
    bins = _dequantizer("uniform", "hypercube").bins
    x = torch.arange(256.0).view(-1, 1, 1, 1)
    v = bins.value(x, torch.full_like(x, 1 - 2**-24, requires_grad=True))
    assert torch.equal(bins.quantize(v), x)


@pytest.mark.parametrize("kind", DEQUANTIZERS)
def test_q_integrates_to_one(kind):
    torch.manual_seed(1)
    q, x = randomised(DEQUANTIZERS[kind]("hypercube"), 0.1), symbols(1, 1, 2, 2)
    # a logit-logistic proposal of wide spread covers q; importance sampling then gives the integral
    y = torch.logit(torch.rand(40_000, 1, 2, 2).double())
    spread = 1.5
    u = torch.sigmoid(spread * y)
    log_proposal = (
        (
            torch.nn.functional.logsigmoid(y)
            + torch.nn.functional.logsigmoid(-y)
            - torch.nn.functional.logsigmoid(spread * y)
            - torch.nn.functional.logsigmoid(-spread * y)
            - torch.tensor(spread).log()
        )
        .flatten(1)
        .sum(1)
    )
    with torch.no_grad():
        weights = (q.log_prob(u, x.expand(len(u), -1, -1, -1)) - log_proposal).exp()
    error = weights.std() / len(weights) ** 0.5
    assert error < 0.05
    assert abs(weights.mean() - 1) < 5 * error + 1e-9


@pytest.mark.parametrize("kind", DEQUANTIZERS)
def test_a_sample_is_a_function_of_its_noise(kind):
    q, x = _dequantizer(kind, "hypercube"), symbols(3, 1, 4, 4)
    noise = q.noise(x)
    with torch.no_grad():
        assert torch.equal(q.sample(x, noise)[0], q.sample(x, noise)[0])
        torch.manual_seed(7)
        fresh = q.sample(x)[0]
        torch.manual_seed(7)
        assert torch.equal(q.sample(x, q.noise(x))[0], fresh)


@pytest.mark.parametrize("kind", ["gaussian", "bipartite", "ard"])
def test_every_parameter_of_a_dequantizer_gets_a_gradient(kind):
    q, x = _dequantizer(kind, "hypercube"), symbols(4, 1, 4, 4)
    u, log_q = q.sample(x)
    (u.sum() + log_q.sum()).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in q.parameters())
