"""Interlaced flows: masses of all images add up to one and are integrals of the density, no coupling sees what comes later,
samples have the density's frequencies, and the exact twin sees the same."""

import itertools
import math

import numpy as np
import pytest
import torch
from flows import ard, near_middle, randomised, symbols
from hypothesis import given
from hypothesis import strategies as st
from test_flows_autoregressive import all_images, every_bits, random_mixture

from dqcodec.context import interlacing
from dqcodec.context.planes import coding_order, differences
from dqcodec.flows import objectives, planes
from dqcodec.flows.dequantizers import FlowDequantizer, Settings, UniformDequantizer
from dqcodec.flows.features import StandardFeatures
from dqcodec.flows.interlaced import InterlacedFlow, seen
from dqcodec.flows.mixture import LEAST_MASS, LogisticMixture
from dqcodec.flows.model import DequantizedModel
from dqcodec.frozen.autoregressive import GRID
from dqcodec.frozen.interlaced import NEIGHBOURS, PLACES

SMALL = {"bits": 8, "width": 4, "blocks": 1, "noise": "logistic"}


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def density(channels: int, bits: int, levels: int = 1) -> InterlacedFlow:
    """A tiny one with random parameters, in float64."""
    torch.manual_seed(0)
    return randomised(InterlacedFlow(channels, bits, [(6, 1)] * levels, 4, 2))


def repeated(mixture: LogisticMixture, count: int) -> LogisticMixture:
    """Each of N mixtures `count` times, (N, count)."""
    return LogisticMixture(*(part[:, None].expand(-1, count, -1) for part in mixture))


@pytest.mark.parametrize(("channels", "bits", "height", "width"), [(1, 1, 2, 4), (3, 1, 2, 2), (1, 2, 2, 2)])
def test_the_masses_of_all_images_add_up_to_one(channels, bits, height, width):
    images = all_images(channels, height, width, bits)
    assert math.isclose(density(channels, bits).log_mass(images).exp().sum(), 1, rel_tol=1e-9)


@pytest.mark.parametrize("mean", [-9.0, 9.0, 200.0, 260.0])
def test_single_precision_keeps_the_masses_and_densities_far_from_a_mean(mean):
    x, bits = torch.arange(256.0), 8
    parts = torch.zeros(1), torch.tensor([mean]), torch.tensor([1.5])
    single = LogisticMixture(*(part.expand(len(x), 1) for part in parts))
    double = LogisticMixture(*(part.double() for part in single))
    assert torch.allclose(single.log_mass(x, bits).double(), double.log_mass(x.double(), bits), rtol=0, atol=1e-4)
    outer = x[[0, -1]]
    single, double = (LogisticMixture(*(part[:2] for part in mixture)) for mixture in (single, double))
    assert torch.allclose(
        single.log_density(outer, bits).double(), double.log_density(outer.double(), bits), rtol=0, atol=1e-4
    )


@every_bits
def test_the_density_of_a_bin_integrates_to_its_mass(bits):
    mixture = random_mixture(200, bits=bits)
    x = torch.randint(0, 2**bits, (200,)).double()
    x[:2] = torch.tensor([0.0, 2**bits - 1])
    places = (torch.arange(4000).double() + 0.5) / 4000
    y = x[:, None] - 0.5 + places
    masses = repeated(mixture, 4000).log_density(y, bits).exp().mean(-1)
    assert torch.allclose(masses, mixture.log_mass(x, bits).exp(), rtol=1e-3, atol=LEAST_MASS / 100)


@every_bits
def test_samples_inside_a_bin_have_its_density(bits):
    mixture, x = random_mixture(1, bits=bits), torch.tensor([0.0]).double()
    noise = (torch.arange(20_000).double() + 0.5) / 20_000
    y = repeated(mixture, len(noise)).sample_inside(noise[None], bits, x[:, None].expand(1, len(noise)))[0]
    assert ((y >= -0.5) & (y < 0.5)).all()
    cells = torch.histc(y, 8, -0.5, 0.5) / len(noise)
    places = -0.5 + (torch.arange(8000).double() + 0.5) / 8000
    shares = repeated(mixture, 8000).log_density(places[None], bits)[0].exp().view(8, -1).mean(1)
    assert torch.allclose(cells, shares / shares.sum(), atol=2e-3)


def test_samples_have_the_frequencies_of_their_masses():
    torch.manual_seed(1)
    flow, count = density(1, 1).float(), 40_000
    v = flow.sample(count, 2, 2)
    assert ((v >= 0) & (v < 2)).all()
    images = all_images(1, 2, 2, 1).float()
    numbers = (v.floor().flatten(1) * torch.tensor([8.0, 4.0, 2.0, 1.0])).sum(1).long()
    masses = flow.log_mass(images).exp()
    frequencies = torch.bincount(numbers, minlength=16) / count
    assert (frequencies - masses).abs().max() < 5 * (masses.max() / count).sqrt()


def test_there_are_no_samples_of_other_sizes():
    with pytest.raises(ValueError):
        density(1, 1, levels=2).sample(1, 4, 6)


@pytest.mark.parametrize("number", range(len(PLACES)))
def test_a_coupling_sees_known_pixels_only(number):
    y = planes.differences(symbols(2, 3, 8, 6, bits=8))
    changed = y.clone()
    for row, column in PLACES[number:]:
        changed[:, :, row::2, column::2] += symbols(2, 3, 4, 3, bits=8)
    one, other = seen(y, number, 8), seen(changed, number, 8)
    assert torch.equal(one.inputs, other.inputs) and all(map(torch.equal, one.moments, other.moments))


def test_neighbours_are_the_nearest_known_pixels():
    known = {(0, 0)}
    for place, near in zip(PLACES, NEIGHBOURS):
        window = [
            p
            for p in itertools.product(range(-5, 6), repeat=2)
            if ((place[0] + p[0]) % 2, (place[1] + p[1]) % 2) in known
        ]
        distances = sorted(dy**2 + dx**2 for dy, dx in window)
        assert len(set(near)) == len(near) and set(near) <= set(window)
        assert [dy**2 + dx**2 for dy, dx in near] == distances[: len(near)]
        known.add(place)


@given(
    st.integers(0, 2), st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3]), st.integers(1, 8), st.integers(0)
)
def test_the_exact_twin_sees_the_same(number, rows, columns, channels, bits, seed):
    x = np.random.default_rng(seed).integers(0, 1 << bits, (2, 2 * rows, 2 * columns, channels))
    exact = interlacing.seen(differences(coding_order(x)), number, bits)
    real = seen(planes.differences(torch.from_numpy(x).permute(0, 3, 1, 2).float()), number, bits)
    assert np.array_equal(exact.inputs, GRID * real.inputs.permute(0, 2, 3, 1).numpy())
    assert np.array_equal(exact.sums, real.moments.sums.permute(0, 2, 3, 1).numpy())
    assert np.array_equal(exact.spreads, real.moments.spreads.permute(0, 2, 3, 1).numpy())
    assert exact.spreads.max() <= interlacing.LARGEST_SPREAD


def test_weights_are_on_average_the_mass():
    """For a uniform and an autoregressive dequantizer: E w = P, and vi <= log P."""
    flow, x = density(3, 8), near_middle(4, 3, 2, 2, bits=8)
    mass = flow.log_mass(x)
    learned = randomised(ard(Settings(channels=3, **SMALL, features="standard"), 1), 0.1)
    for dequantizer in (UniformDequantizer(), learned):
        weights = DequantizedModel(dequantizer, flow, 8).log_weights(x, 20_000)
        assert (weights.mean(0) < mass).all() and (objectives.iw(weights) - mass).abs().max() < 0.1


def test_logistic_noise_can_be_uniform():
    dequantizer: FlowDequantizer = ard(Settings(channels=1, **SMALL), 1).double()
    for parameter in dequantizer.transforms.parameters():
        torch.nn.init.zeros_(parameter)
    u, log_q = dequantizer.sample(symbols(3, 1, 4, 4, bits=8))
    assert log_q.abs().max() < 1e-6 and 0.2 < u.mean() < 0.8
    assert StandardFeatures(1, 8)(symbols(1, 1, 2, 4, bits=8)).shape == (1, 8, 1, 2)
