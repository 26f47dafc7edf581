"""Autoregressive densities: masses of all images add up to one and are integrals of the density, no factor depends on what
comes later, and with the posterior as dequantizer every bound is log P."""

import itertools
import math

import pytest
import torch
from flows import TINY, autoregressive_density, near_middle, symbols

from dqcodec.flows.autoregressive_density import AutoregressiveDensity
from dqcodec.flows.mixture import LEAST_MASS, LogisticMixture
from dqcodec.flows.model import AutoregressiveModel, DequantizedModel, bits_per_dim
from dqcodec.flows.planes import coding_order, differences, image_order
from dqcodec.frozen.autoregressive import FEATURE_PLACES, NEIGHBOURS

every_bits = pytest.mark.parametrize("bits", [1, 5, 8])
every_channels = pytest.mark.parametrize("channels", [1, 3])


def random_mixture(*shape: int, bits: int, components: int = 3, seed: int = 0) -> LogisticMixture:
    """Mixtures with means in and around the range, scales from a fraction of a step to the range."""
    torch.manual_seed(seed)
    size = *shape, components
    mean = (1.4 * torch.rand(size).double() - 0.2) * 2**bits
    return LogisticMixture(
        torch.randn(size).double().log_softmax(-1), mean, torch.exp2(3 - bits * torch.rand(size).double())
    )


def expanded(mixture: LogisticMixture, count: int) -> LogisticMixture:
    return LogisticMixture(*(part.expand(count, -1) for part in mixture))


def cdf(mixture: LogisticMixture, y: torch.Tensor, bits: int) -> torch.Tensor:
    """The density, with the least mass, which is spread evenly over all bins."""
    parts = torch.sigmoid((y[..., None] - mixture.mean) * mixture.inverse_scale)
    even = (y + 0.5).clamp(0, 2**bits)
    return (mixture.log_weight.exp() * parts).sum(-1) * (1 - 2**bits * LEAST_MASS) + even * LEAST_MASS


def integral(
    mixture: LogisticMixture, low: torch.Tensor, high: torch.Tensor, bits: int, steps: int = 2000
) -> torch.Tensor:
    """Of exp(log_prob), by midpoints."""
    places = (torch.arange(steps).double() + 0.5) / steps
    y = low[..., None] + places * (high - low)[..., None]
    spread = LogisticMixture(*(part[..., None, :] for part in mixture))
    return spread.log_prob(y, bits).exp().mean(-1) * (high - low)


def all_images(channels: int, height: int, width: int, bits: int) -> torch.Tensor:
    dims = channels * height * width
    return torch.tensor(list(itertools.product(range(2**bits), repeat=dims))).double().view(-1, channels, height, width)


# --- mixtures


@every_bits
def test_the_masses_of_all_symbols_add_up_to_one(bits):
    mixture = random_mixture(40, 1, bits=bits)
    masses = mixture.log_mass(torch.arange(2**bits).double().expand(40, -1), bits).exp()
    torch.testing.assert_close(masses.sum(-1), torch.ones(40).double())
    assert masses.min() >= LEAST_MASS


@every_bits
def test_the_mass_of_a_symbol_is_the_integral_of_the_density_over_its_bin(bits):
    """The first and the last bin go on without end."""
    mixture, x = random_mixture(30, bits=bits), torch.randint(2**bits, (30,)).double()
    x[:2] = torch.tensor([0, 2**bits - 1])
    far = 40 * (1 / mixture.inverse_scale).amax(-1)
    low, high = x - 0.5, x + 0.5
    mass = integral(mixture, low, high, bits, 8_000)
    below = integral(mixture, mixture.mean.amin(-1).clamp(max=0) - far, low, bits, 8_000)
    above = integral(mixture, high, mixture.mean.amax(-1).clamp(min=2**bits) + far, bits, 8_000)
    mass = mass + torch.where(x == 0, below, 0) + torch.where(x == 2**bits - 1, above, 0)
    torch.testing.assert_close(mixture.log_mass(x, bits).exp(), mass, rtol=1e-4, atol=1e-9)


def test_samples_of_a_mixture_follow_its_distribution_function():
    mixture, count = expanded(random_mixture(1, bits=5), 20_000), 20_000
    quantile = cdf(mixture, mixture.sample(torch.rand(count).double(), 5), 5).sort().values
    assert (quantile - torch.arange(count) / count).abs().max() < 2 / count**0.5  # Kolmogorov-Smirnov, 1 in 1000


@pytest.mark.parametrize("x", [0, 5, 31])
@pytest.mark.parametrize("far", [False, True])
def test_samples_within_a_bin_follow_its_part_of_the_distribution_function(x, far):
    """In a bin far from all components, this is the uniform part."""
    mixture, count = expanded(random_mixture(1, bits=5, seed=3), 20_000), 20_000
    if far:
        mixture = mixture._replace(
            mean=torch.full_like(mixture.mean, 31 - x if x != 5 else 28), inverse_scale=torch.full_like(mixture.mean, 9)
        )
    y = mixture.sample(torch.rand(count).double(), 5, torch.full((count,), x).double())
    assert x == 0 or y.min() >= x - 0.5
    assert x == 31 or y.max() < x + 0.5
    ends = torch.tensor([x - 0.5, x + 0.5]).double()
    below, above = cdf(LogisticMixture(*(part[:2] for part in mixture)), ends, 5)
    below, above = (0.0 if x == 0 else below), (1.0 if x == 31 else above)
    quantile = ((cdf(mixture, y, 5) - below) / (above - below)).sort().values
    assert (quantile - torch.arange(count) / count).abs().max() < 2 / count**0.5


# --- densities


@pytest.mark.parametrize(
    "channels, height, width, bits",
    [(1, 1, 2, 1), (1, 1, 2, 2), (1, 2, 3, 1), (3, 1, 2, 1), (3, 1, 1, 2), (1, 1, 1, 8)],
)
@torch.no_grad()
def test_the_probabilities_of_all_images_add_up_to_one(channels, height, width, bits):
    density = autoregressive_density(channels, bits)
    log_p = density.log_mass(all_images(channels, height, width, bits))
    assert log_p.std() > 0.1
    torch.testing.assert_close(log_p.exp().sum(), torch.tensor(1.0).double())


@torch.no_grad()
def test_the_density_is_the_product_of_its_mixtures():
    density, x = autoregressive_density(3, 5), near_middle(4, 3, 3, 2, bits=5)
    u = torch.rand_like(x)
    y = coding_order(x + u) - 0.5
    torch.testing.assert_close(density.log_prob(x + u), density.mixture(x).log_prob(y, 5).flatten(1).sum(1))


@every_channels
@pytest.mark.parametrize("bits", [1, 8])
@torch.no_grad()
def test_a_factor_depends_on_what_comes_before_it_alone(channels, bits):
    density, x = autoregressive_density(channels, bits), near_middle(1, channels, 5, 4, bits=bits)

    def factors(x):
        return torch.cat(density.mixture(x), -1).flatten(0, 3)  # (order of coding, 3 K)

    before = factors(x)
    for y, column, place in itertools.product(range(5), range(4), range(channels)):
        changed = coding_order(x).clone()
        changed[0, y, column, place] += -1 if changed[0, y, column, place] else 1
        differs = (factors(image_order(changed)) != before).any(1)
        index = (y * 4 + column) * channels + place
        assert not differs[: index + 1].any()
        if index + 1 < len(differs):
            assert differs[index + 1 :].any()


@every_channels
@torch.no_grad()
def test_every_neighbour_and_its_features_are_used(channels):
    density, x = autoregressive_density(channels, 8), near_middle(1, channels, 9, 15, bits=8)
    before = torch.cat(density.mixture(x), -1)[0, 6, 7]
    dy, dx = FEATURE_PLACES[-1]
    far = (dy + NEIGHBOURS[-1][0], dx + NEIGHBOURS[-1][1])
    assert far not in NEIGHBOURS
    for up, right in [*NEIGHBOURS, *FEATURE_PLACES, far]:
        for channel in range(channels):
            changed = x.clone()
            changed[0, channel, 6 - up, 7 + right] += 40
            differs = torch.cat(density.mixture(changed), -1)[0, 6, 7] != before
            assert differs.flatten(1).any(1).all(), (up, right, channel)


@torch.no_grad()
def test_a_pixels_later_planes_see_its_earlier_ones():
    density, x = autoregressive_density(3, 8), near_middle(1, 3, 3, 3, bits=8)
    before = torch.cat(density.mixture(x), -1)[0, 1, 1]
    for channel, later in [(1, [False, True, True]), (0, [False, False, True]), (2, [False] * 3)]:
        changed = x.clone()
        changed[0, channel, 1, 1] += 3
        differs = (torch.cat(density.mixture(changed), -1)[0, 1, 1] != before).any(1)
        assert differs.tolist() == later


@pytest.mark.parametrize("channels, width, bits", [(1, 1, 1), (1, 1, 2), (1, 2, 1), (3, 1, 1)])
def test_samples_come_as_often_as_their_mass_says(channels, width, bits):
    density, count = autoregressive_density(channels, bits, seed=2).float(), 20_000
    torch.manual_seed(0)
    x = AutoregressiveModel(density).sample(count, 1, width)
    assert x.min() == 0 and x.max() == 2**bits - 1 and torch.equal(x, x.round())
    images = all_images(channels, 1, width, bits)
    index = (x.flatten(1) @ 2.0 ** (bits * torch.arange(channels * width).flip(0).float())).long()
    assert torch.equal(images[index].float(), x)
    with torch.no_grad():
        expected = count * density.double().log_mass(images).exp()
    chi2 = (torch.bincount(index, minlength=len(images)) - expected) ** 2 / expected
    freedom = len(images) - 1
    assert chi2.sum() < freedom + 3 * (2 * freedom) ** 0.5 + 3


@every_channels
@torch.no_grad()
def test_samples_of_larger_images_cost_what_the_density_says(channels):
    """log P of its own samples lies near the entropy of the factors."""
    density = autoregressive_density(channels, 2).float()
    torch.manual_seed(1)
    v = density.sample(50, 4, 5)
    x = density.quantize(v)
    assert v.shape == x.shape == (50, channels, 4, 5) and x.min() >= 0 and x.max() <= 3
    every = torch.arange(4.0).view(4, 1, 1, 1, 1).expand(4, *coding_order(x).shape)
    log_p = density.mixture(x).log_mass(every, 2)
    entropy = -(log_p.exp() * log_p).sum(0).flatten(1).sum(1)
    surprise = -density.log_mass(x) - entropy  # a martingale's end
    assert abs(surprise.mean()) < 4 * surprise.std() / len(surprise) ** 0.5


@every_bits
@every_channels
@torch.no_grad()
def test_single_precision_gives_about_the_same_rate(channels, bits):
    density, x = autoregressive_density(channels, bits), symbols(2, channels, 7, 6, bits=bits)
    x[1] = (torch.arange(7)[:, None] + torch.arange(6)) % 2 * (2**bits - 1)
    rate = bits_per_dim(density.log_mass(x), x[0].numel())
    assert rate.max() < 19 and rate.min() > 0
    torch.testing.assert_close(
        bits_per_dim(density.float().log_mass(x.float()), x[0].numel()).double(), rate, atol=0.5, rtol=0
    )


def test_every_parameter_of_a_density_gets_a_gradient():
    density = autoregressive_density(3, 5)
    density.log_mass(near_middle(3, 3, 6, 6, bits=5)).sum().backward()
    for name, parameter in density.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@torch.no_grad()
def test_an_untrained_density_codes_smooth_images_below_their_bits():
    x = (100 + 2 * torch.arange(16)[:, None] + torch.arange(16)).expand(1, 3, 16, 16).float()
    density = AutoregressiveDensity(3, 8, TINY)
    assert 1 < bits_per_dim(density.log_mass(x), x.numel()) < 5


@every_channels
def test_planes_and_orders_lose_nothing(channels):
    x = symbols(2, channels, 3, 4, bits=8)
    assert torch.equal(image_order(coding_order(x)), x)
    y = differences(x)
    if channels == 3:
        assert torch.equal(coding_order(x).permute(0, 3, 1, 2) - y, y[:, :1] * torch.tensor([0, 1, 1])[:, None, None])
    else:
        assert torch.equal(y, x)


# --- the posterior as dequantizer


@every_bits
@every_channels
@torch.no_grad()
def test_every_bound_is_the_probability_for_any_noise(channels, bits):
    model, x = AutoregressiveModel(autoregressive_density(channels, bits)), near_middle(6, channels, 4, 3, bits=bits)
    log_p = model.density.log_mass(x)
    for _ in range(5):
        u, log_q = model.dequantizer.sample(x)
        assert torch.equal(model.density.quantize(x + u), x)
        torch.testing.assert_close(model.density.log_prob(x + u) - log_q, log_p)
        torch.testing.assert_close(model.dequantizer.log_prob(u, x), log_q)
    for samples, alpha in [(1, 1.0), (5, 1.0), (5, 0.5), (5, 0.0), (5, -math.inf)]:
        torch.testing.assert_close(DequantizedModel.bound(model, x, samples, alpha), log_p)
        torch.testing.assert_close(model.bound(x, samples, alpha), log_p)
    torch.testing.assert_close(model.log_weights(x, 3), log_p.expand(3, -1))


@every_channels
@torch.no_grad()
def test_samples_lie_in_the_bin_of_their_symbol_and_are_a_function_of_their_noise(channels):
    model, x = AutoregressiveModel(autoregressive_density(channels, 5)), near_middle(20, channels, 4, 4, bits=5)
    noise = model.dequantizer.noise(x)
    u, _ = model.dequantizer.sample(x, noise)
    inner = (x > 0) & (x < 31)
    assert (u[inner] >= 0).all() and (u[inner] < 1).all()
    assert torch.equal(model.density.quantize(model.dequantizer.value(x, u)), x)
    assert torch.equal(model.dequantizer.sample(x, noise)[0], u)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@torch.no_grad()
def test_samples_of_the_farthest_symbols_lie_in_their_bins_too(dtype):
    model = AutoregressiveModel(autoregressive_density(1, 8)).to(dtype)
    x = symbols(20, 1, 4, 4, bits=8).to(dtype)
    for noise in (None, torch.zeros_like(x), torch.full_like(x, 1 - 1e-7)):
        u, log_q = model.dequantizer.sample(x, noise)
        assert torch.isfinite(log_q).all()
        assert torch.equal(model.density.quantize(x + u), x)
        torch.testing.assert_close(model.density.log_prob(x + u) - log_q, model.density.log_mass(x))


@torch.no_grad()
def test_the_posterior_integrates_to_one():
    """Over the bin of one pixel."""
    model, x = AutoregressiveModel(autoregressive_density(1, 5)), torch.full((1, 1, 1, 1), 15.0).double()
    u = ((torch.arange(4000).double() + 0.5) / 4000).view(-1, 1, 1, 1)
    total = model.dequantizer.log_prob(u, x.expand(len(u), -1, -1, -1)).exp().mean()
    torch.testing.assert_close(total, torch.tensor(1.0).double(), atol=1e-6, rtol=0)
