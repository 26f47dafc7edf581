import dataclasses

import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.errors import ModelError
from dqcodec.exact import mixture
from dqcodec.exact.context import GRID, Moments
from dqcodec.exact.learning import GRADIENT_BOUND, GRADIENT_GRID
from dqcodec.exact.mixture import TOTAL, Mixture
from dqcodec.flows.mixture import LEAST_MASS, LogisticMixture

few = settings(max_examples=60, deadline=None, derandomize=True)
every_bits = pytest.mark.parametrize("bits", range(1, 9))


def tables() -> mixture.MixtureTables:
    return programs.program(programs.AUTOREGRESSIVE).tables


def moments(values: np.ndarray, spreads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """sums, spreads and log-spreads as the context gives them."""
    made = Moments.of(values.astype(np.float32)[None], spreads.astype(np.float32)[None])
    return made.sums[0], made.spreads[0], made.log_spread[0]


def random_mixture(bits: int, count: int = 200, seed: int = 0, plausible: bool = True) -> tuple[Mixture, tuple]:
    """(mixtures, their raw parameters); not plausible: up to the ends of what a network can say, and beyond."""
    rng = np.random.default_rng(seed)
    shape, high = (rng.integers(1, 5), count), (1 << bits) - 1
    if plausible:
        parts = rng.normal(0, 32, shape), rng.normal(0, 256, shape), rng.normal(-32, 48, shape)
        local = rng.integers(0, 8 * high + 1, count), rng.integers(32, 32 + 16 * high, count)
    else:
        bounds = 1 << 20, mixture.MEAN_BOUND, 1 << 14
        parts = [rng.choice([-b, -b // 9, -1, 0, 1, b // 9, b], shape) for b in bounds]
        local = rng.choice([-8 * high, 0, 4 * high, 8 * high], count), rng.choice([32, 33, 64, 32 + 32 * high], count)
    out = np.rint(np.concatenate(parts)).astype(np.float32)
    local = moments(*local)
    return Mixture(tables(), out, *local, 0, bits), (out, *local)


def inner_starts(law: Mixture, count: int) -> np.ndarray:
    """(2^bits + 1, N): of all symbols, and the end."""
    symbols = np.arange(1, 1 << law.bits, dtype=np.int32)[:, None]
    starts = law.starts(np.broadcast_to(symbols, (len(symbols), count)))
    return np.concatenate([np.zeros((1, count), np.int32), starts, np.full((1, count), TOTAL, np.int32)])


def slots(law: Mixture, symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    coded = law.at(symbols)
    return coded.starts, coded.sizes


def assert_lawful(law: Mixture, count: int) -> None:
    """Every symbol has a slot, slots add up to all, and find undoes slots."""
    starts = inner_starts(law, count)
    assert (np.diff(starts, axis=0) >= 1).all()
    for symbol in {0, 1, (1 << law.bits) // 2, (1 << law.bits) - 2, (1 << law.bits) - 1}:
        symbols = np.full(count, symbol, np.int32)
        first, sizes = slots(law, symbols)
        assert np.array_equal(first, starts[symbol]) and np.array_equal(first + sizes, starts[symbol + 1])
        assert (law.find(first) == symbol).all() and (law.find(first + sizes - 1) == symbol).all()


@few
@given(st.integers(1, 8), st.integers(0, 9999), st.booleans())
def test_every_symbol_has_a_slot_and_slots_add_up_and_are_found(bits, seed, plausible):
    law, _ = random_mixture(bits, 40, seed, plausible)
    assert_lawful(law, 40)


@few
@given(
    st.integers(1, 8),
    st.lists(
        st.tuples(st.integers(-(1 << 20), 1 << 20), st.integers(-4096, 4096), st.integers(-(1 << 14), 1 << 14)),
        min_size=1, max_size=32,
    ),
    st.integers(-2040, 2040), st.integers(32, 64 * 255 + 32), st.integers(0, 255),
)
def test_the_most_extreme_outputs_make_a_law_too(bits, components, sums, spreads, offset):
    out = np.array(components, np.float32).T.reshape(-1, 1)
    law = Mixture(tables(), out, *moments(np.array([sums]), np.array([spreads])), np.array([offset], np.int32), bits)
    assert_lawful(law, 1)


@every_bits
def test_every_slot_boundary_is_found(bits):
    law, _ = random_mixture(bits, 30, seed=bits)
    starts = inner_starts(law, 30)
    for symbol in range(1 << bits):
        assert (law.find(starts[symbol]) == symbol).all()
        assert (law.find(starts[symbol + 1] - 1) == symbol).all()


def float_mixture(raw: torch.Tensor, sums, spreads, log_spread) -> LogisticMixture:
    """Of raw outputs (N, 3 K) in units of their own: nats, spreads, octaves."""
    sums, spreads, log_spread = (torch.from_numpy(a.astype(np.float64))[:, None] for a in (sums, spreads, log_spread))
    logits, mean, log2_scale = raw.chunk(3, 1)
    log2_scale = (log_spread / GRID + log2_scale).clip(-4, 7)
    return LogisticMixture(torch.log_softmax(logits, -1), sums / 8 + spreads / 64 * mean, torch.exp2(-log2_scale))


def raw_values(out: np.ndarray) -> torch.Tensor:
    """The raw outputs (3 K, N), integers, in units of their own (N, 3 K)."""
    grids = np.repeat([mixture.LOGIT_GRID, mixture.MEAN_GRID, mixture.LOG2_SCALE_GRID], len(out) // 3)
    return torch.from_numpy((out / grids[:, None]).T)


@every_bits
def test_the_slots_are_the_masses_of_the_float_mixture(bits):
    law, (out, *local) = random_mixture(bits, 300, seed=10 + bits)
    real = float_mixture(raw_values(out), *local)
    symbols = torch.arange(1 << bits).double()[:, None].expand(-1, 300)
    masses = LogisticMixture(*(part.expand(len(symbols), -1, -1) for part in real)).log_mass(symbols, bits).exp().numpy()
    ours = np.diff(inner_starts(law, 300), axis=0) / TOTAL
    assert np.abs(ours - masses).max() < 0.04  # positions are on a grid of a quarter of the least scale
    divergence = (masses * np.log2(masses / ours)).sum(0)  # bits a symbol, what the tables cost
    assert divergence.mean() < 0.003 and divergence.max() < 0.1


@pytest.mark.parametrize("bits", [1, 5, 8])
def test_the_gradient_is_the_float_mixtures(bits):
    """Of symbols drawn from the law, up to the grids of tables and gradients."""
    law, (out, *local) = random_mixture(bits, 400, seed=20 + bits)
    symbols = law.find(np.random.default_rng(0).integers(0, TOTAL, 400).astype(np.int32))
    raw = raw_values(out).requires_grad_()
    real = float_mixture(raw, *local)
    (-real.log_mass(torch.from_numpy(symbols).double(), bits)).sum().backward()
    ours = law.at(symbols).gradient(local[1])
    assert np.array_equal(ours, np.rint(ours)) and np.abs(ours).max() <= GRADIENT_BOUND
    # where a scale is clamped the float mixture's does not move
    free = (-torch.log2(real.inverse_scale) > -4) & (-torch.log2(real.inverse_scale) < 7)
    theirs, ours = raw.grad.numpy() * free.repeat(1, 3).numpy(), ours.T / GRADIENT_GRID * free.repeat(1, 3).numpy()
    error, scale = np.abs(ours - theirs), np.abs(theirs).clip(0.05, None)
    assert np.median(error / scale) < 0.02 and np.mean(error / scale) < 0.1
    assert (ours * theirs).sum() / np.sqrt((ours**2).sum() * (theirs**2).sum()) > 0.99


@few
@given(st.integers(1, 8), st.integers(0, 999))
def test_gradients_are_bounded_integers_at_the_ends_too(bits, seed):
    law, (_, _, spreads, _) = random_mixture(bits, 40, seed, plausible=False)
    symbols = np.random.default_rng(seed).choice([0, (1 << bits) - 1, (1 << bits) // 2], 40).astype(np.int32)
    gradient = law.at(symbols).gradient(spreads)
    assert np.array_equal(gradient, np.rint(gradient)) and np.abs(gradient).max() <= GRADIENT_BOUND


def test_a_least_mass_is_one_slot():
    assert LEAST_MASS == 1 / TOTAL


def test_far_means_and_narrow_scales_do_not_wrap_around():
    """A component far above the range leaves all mass to the last symbol, one far below to the first."""
    for mean, symbol in [(mixture.MEAN_BOUND, 255), (-mixture.MEAN_BOUND, 0)]:
        out = np.array([[0], [mean], [-(1 << 14)]], np.float32)
        local = moments(np.array([8 * 255 if symbol else 0]), np.array([64 * 255 + 32]))
        _, sizes = slots(Mixture(tables(), out, *local, 0, 8), np.array([symbol], np.int32))
        assert sizes[0] >= TOTAL - 256


def test_an_offset_moves_the_law_by_as_many_symbols():
    rng = np.random.default_rng(0)
    out = np.rint(rng.normal(0, 64, (9, 50))).astype(np.float32)
    low, spread = 8 * rng.integers(20, 60, 50), rng.integers(32, 640, 50)
    offset, symbols = rng.integers(0, 100, 50).astype(np.int32), rng.integers(1, 100, 50).astype(np.int32)
    plain = Mixture(tables(), out, *moments(low, spread), 0, 8).starts(symbols[None])
    moved = Mixture(tables(), out, *moments(low, spread), offset, 8).starts((symbols + offset)[None])
    assert np.array_equal(moved[0], plain[0] + offset)


def test_what_a_mixture_is_given_is_left_alone():
    _, (out, *local) = random_mixture(8)
    copies = [a.copy() for a in (out, *local)]
    law = Mixture(tables(), out, *local, 0, 8)
    symbols = np.full(200, 9, np.int32)
    law.at(symbols).gradient(local[1])
    law.find(slots(law, symbols)[0])
    assert all(map(np.array_equal, (out, *local), copies)) and (symbols == 9).all()


@pytest.mark.parametrize("name, change", [
    ("sigmoid", lambda a: a[:-1]), ("weight", lambda a: a[:-1]), ("inverse_scale", lambda a: a[:-1]),
    ("sigmoid", lambda a: a[None]), ("weight", lambda a: np.append(a, 0)), ("inverse_scale", lambda a: np.append(a, 1)),
    ("sigmoid", lambda a: a[::-1]), ("sigmoid", lambda a: a - 1), ("sigmoid", lambda a: a * 2),
    ("weight", lambda a: -a), ("weight", lambda a: a * 2), ("weight", lambda a: a * 0),
    ("inverse_scale", lambda a: a * 0), ("inverse_scale", lambda a: -a), ("inverse_scale", lambda a: a * 9),
])
def test_tables_that_make_no_law_are_a_model_error(name, change):
    with pytest.raises(ModelError):
        dataclasses.replace(tables(), **{name: change(getattr(tables(), name))})


@few
@given(st.integers(0, 99), st.integers(1, 8))
def test_whatever_tables_are_taken_make_a_law(seed, bits):
    rng = np.random.default_rng(seed)
    weird = mixture.MixtureTables(
        np.sort(rng.integers(0, (1 << 16) + 1, mixture.SIGMOID_CELLS)).astype(np.int32),
        np.append(1, rng.integers(0, 1 << rng.integers(1, 17), mixture.LOGIT_RANGE)).astype(np.int32),
        rng.integers(1, (1 << 15) + 1, mixture.LOG2_SCALE_HIGH - mixture.LOG2_SCALE_LOW + 1).astype(np.int32),
    )
    _, (out, *local) = random_mixture(bits, 20, seed, plausible=False)
    assert_lawful(Mixture(weird, out, *local, 0, bits), 20)
