"""Densities: samples match log_prob, which integrates to one; initialisation whitens."""

import math

import pytest
import torch
from flows import DENSITIES, jacobian, randomised

from dqcodec.flows.densities import CovarianceGaussian, DiagonalGaussian, FlowDensity, logistic_log_prob


def _density(kind: str, seed: int = 0):
    torch.manual_seed(seed)
    return randomised(DENSITIES[kind](), 0.2)


@pytest.mark.parametrize("kind", DENSITIES)
def test_samples_are_of_the_density(kind):
    """The mean of r(v) / p(v) over v ~ p is one for any law r that p covers."""
    p = _density(kind)
    with torch.no_grad():
        v = p.float().sample(20_000, 2, 2).double()
        mean, std = v.mean(0), 0.6 * v.std(0)
        log_r = (-0.5 * ((v - mean) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)).flatten(1).sum(1)
        ratio = (log_r - p.double().log_prob(v)).exp()
    error = ratio.std() / len(ratio) ** 0.5
    assert error < 0.1 and abs(ratio.mean() - 1) < 5 * error


@pytest.mark.parametrize("kind", DENSITIES)
def test_densities_integrate_to_one(kind):
    p = _density(kind)
    with torch.no_grad():
        centre = p.float().sample(2_000, 2, 2).double()
        centre, scale = centre.mean(0), centre.std(0)
        z = torch.logit(torch.rand(40_000, 1, 2, 2).double())  # logistic: wider than all of them
        log_proposal = logistic_log_prob(z) - scale.log().sum()
        weights = (p.double().log_prob(centre + scale * z) - log_proposal).exp()
    error = weights.std() / len(weights) ** 0.5
    assert error < 0.1 and abs(weights.mean() - 1) < 5 * error


def test_the_covariance_gaussian_is_torchs():
    p = _density("covariance")
    v = torch.randn(7, 1, 2, 2).double()
    L = p.cholesky().detach()
    expected = torch.distributions.MultivariateNormal(p.mean.detach() + 2.0, precision_matrix=L @ L.T)
    torch.testing.assert_close(p.log_prob(v).detach(), expected.log_prob(v.flatten(1)))


def test_the_flows_log_prob_is_the_bases_plus_autograds_jacobian():
    torch.manual_seed(0)
    p = randomised(FlowDensity(1, [(2, 4, 1), (1, 4, 1)], 2.0, 2.0))
    v = torch.randn(1, 1, 4, 4).double()

    def latents(v):
        h, parts = p.rescale(v)[0], []
        for level in p.levels:
            h, out = level(h)[0].chunk(2, 1)
            parts.append(out.flatten(1))
        return torch.cat([*parts, h.flatten(1)], 1)

    log_det = torch.linalg.slogdet(jacobian(latents, v)).logabsdet
    torch.testing.assert_close(p.log_prob(v), logistic_log_prob(latents(v)) + log_det)


@pytest.mark.parametrize(
    "density", [DiagonalGaussian((3, 4, 4), 128.0, 64.0), CovarianceGaussian((3, 4, 4), 128.0, 64.0)]
)
def test_gaussians_start_at_the_datas_moments(density):
    v = 100 + 20 * torch.randn(500, 3, 4, 4)
    density.initialise(v)
    sample = density.sample(500, 4, 4)
    assert abs(sample.mean() - v.mean()) < 1 and abs(sample.std() - v.std()) < 1


def test_the_flow_starts_with_unit_variance_after_its_first_convolution():
    density = FlowDensity(3, [(2, 4, 1), (1, 4, 1)], 128.0, 64.0)
    v = 128 + 10 * torch.randn(16, 3, 8, 8).cumsum(2).cumsum(3)
    density.initialise(v)
    squeeze, conv = density.levels[0].transforms[:2]
    z = conv(squeeze(density.rescale(v)[0])[0])[0]
    torch.testing.assert_close(z.std((0, 2, 3)), torch.ones(12), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", DENSITIES)
def test_shapes_that_a_density_does_not_have_are_refused(kind):
    with pytest.raises(ValueError):
        _density(kind).sample(1, 3, 3)
