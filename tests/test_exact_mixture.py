import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.base.compiled import compiled
from dqcodec.base.errors import ModelError
from dqcodec.context.context import log_spreads
from dqcodec.exact import mixture
from dqcodec.exact.mixture import MixtureTables
from dqcodec.flows.mixture import LEAST_MASS, LogisticMixture
from dqcodec.frozen import autoregressive as frozen
from dqcodec.frozen.autoregressive import GRADIENT_BOUND, GRADIENT_GRID, GRID, TOTAL

edges, find, start = map(compiled, (mixture.edges, mixture.find, mixture.start))
set_gradients, set_mixtures, set_slots = map(compiled, (mixture.set_gradients, mixture.set_mixtures, mixture.set_slots))

few = settings(max_examples=60)
every_bits = pytest.mark.parametrize("bits", range(1, 9))


def tables() -> MixtureTables:
    return programs.program(programs.AUTOREGRESSIVE).tables


def moments(sums: np.ndarray, spreads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums and spreads like those of contexts, and the log-spreads of every spread."""
    return sums, spreads, log_spreads()


class Mixtures:
    """The laws of N symbols, from raw outputs (N, 3 K); all other arguments and results are (N,)."""

    def __init__(self, tables: MixtureTables, out: np.ndarray, sums, spreads, log_spreads, offset, bits: int):
        self.symbols, self._sigmoid = 1 << bits, tables.sigmoid
        self._laws = np.empty((3, out.shape[1] // 3, len(out)))
        self._moments = np.array([sums, spreads], np.int32)
        offsets = np.broadcast_to(offset, len(out)).astype(np.int32)
        raw = np.ascontiguousarray(out.T)
        set_mixtures(
            self._laws, self.symbols, tables, raw, 8 * self._moments[0], self._moments[1], log_spreads, offsets
        )

    def __len__(self) -> int:
        return self._laws.shape[2]

    def starts(self, symbols: np.ndarray) -> np.ndarray:
        pairs = enumerate(symbols.tolist())
        return np.array([start(self._laws, n, self._sigmoid, self.symbols, symbol) for n, symbol in pairs])

    def all_starts(self) -> np.ndarray:
        """The first slots of all symbols, and the end, (2^bits + 1, N)."""
        return np.stack([self.starts(np.full(len(self), symbol)) for symbol in range(self.symbols + 1)])

    def slots(self, symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first ones and how many they are."""
        slots = np.empty((len(self), 1, 2), np.int32)
        masses, _ = self._edges(symbols)
        set_slots(self._laws, masses, self.symbols, symbols.astype(np.int32), slots, 0)
        return slots[:, 0, 0], slots[:, 0, 1]

    def find(self, slots: np.ndarray) -> np.ndarray:
        found = np.empty(len(self), np.int32)
        find(self._laws, self._sigmoid, self.symbols, slots, found)
        return found

    def gradient(self, symbols: np.ndarray) -> np.ndarray:
        """(N, 3 K)"""
        out = np.full((3 * self._laws.shape[1], len(self)), np.nan, np.float32)
        set_gradients(self._laws, *self._edges(symbols), self._moments[1], out)
        return out.T

    def _edges(self, symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return edges(self._laws, self._sigmoid, self.symbols, symbols.astype(np.int32))


def random_mixtures(bits: int, count: int = 200, seed: int = 0, plausible: bool = True) -> tuple[Mixtures, tuple]:
    """(mixtures, their raw parameters). If not plausible, parameters reach and exceed the bounds of a network."""
    rng = np.random.default_rng(seed)
    shape, high = (rng.integers(1, 5), count), (1 << bits) - 1
    if plausible:
        parts = rng.normal(0, 32, shape), rng.normal(0, 256, shape), rng.normal(-32, 48, shape)
        local = rng.integers(0, 8 * high + 1, count), rng.integers(32, 32 + 16 * high, count)
    else:
        bounds = 1 << 20, frozen.MEAN_BOUND, 1 << 14
        parts = [rng.choice([-b, -b // 9, -1, 0, 1, b // 9, b], shape) for b in bounds]
        local = rng.choice([-8 * high, 0, 4 * high, 8 * high], count), rng.choice([32, 33, 64, 32 + 32 * high], count)
    out = np.ascontiguousarray(np.rint(np.concatenate(parts)).astype(np.float32).T)
    local = moments(*local)
    return Mixtures(tables(), out, *local, 0, bits), (out, *local)


def assert_lawful(laws: Mixtures) -> None:
    """Every symbol has a slot, all slots add up to TOTAL, and find is the inverse of slots."""
    starts = laws.all_starts()
    assert (starts[0] == 0).all() and (starts[-1] == TOTAL).all() and (np.diff(starts, axis=0) >= 1).all()
    for symbol in {0, 1, laws.symbols // 2, laws.symbols - 2, laws.symbols - 1}:
        first, sizes = laws.slots(np.full(len(laws), symbol))
        assert np.array_equal(first, starts[symbol]) and np.array_equal(first + sizes, starts[symbol + 1])
        assert (laws.find(first) == symbol).all() and (laws.find(first + sizes - 1) == symbol).all()


@few
@given(st.integers(1, 8), st.integers(0, 9999), st.booleans())
def test_every_symbol_has_a_slot_and_slots_add_up_and_are_found(bits, seed, plausible):
    assert_lawful(random_mixtures(bits, 40, seed, plausible)[0])


@few
@given(
    st.integers(1, 8),
    st.lists(
        st.tuples(st.integers(-(1 << 20), 1 << 20), st.integers(-4096, 4096), st.integers(-(1 << 14), 1 << 14)),
        min_size=1,
        max_size=32,
    ),
    st.integers(-2040, 2040),
    st.integers(32, 64 * 255 + 32),
    st.integers(0, 255),
)
def test_the_most_extreme_outputs_make_a_law_too(bits, components, sums, spreads, offset):
    out = np.array(components, np.float32).T.reshape(1, -1)
    assert_lawful(Mixtures(tables(), out, *moments(np.array([sums]), np.array([spreads])), offset, bits))


@every_bits
def test_every_slot_boundary_is_found(bits):
    laws, _ = random_mixtures(bits, 30, seed=bits)
    starts = laws.all_starts()
    for symbol in range(1 << bits):
        assert (laws.find(starts[symbol]) == symbol).all()
        assert (laws.find(starts[symbol + 1] - 1) == symbol).all()


def float_mixture(raw: torch.Tensor, sums, spreads, log_spreads) -> LogisticMixture:
    """The mixtures of raw outputs (N, 3 K) in nats, spreads and octaves."""
    local = sums, spreads, log_spreads[spreads]
    sums, spreads, log_spread = (torch.from_numpy(a.astype(np.float64))[:, None] for a in local)
    logits, mean, log2_scale = raw.chunk(3, 1)
    log2_scale = (log_spread / GRID + log2_scale).clip(-4, 7)
    return LogisticMixture(torch.log_softmax(logits, -1), sums / 8 + spreads / 64 * mean, torch.exp2(-log2_scale))


def raw_values(out: np.ndarray) -> torch.Tensor:
    """The raw outputs (N, 3 K), integers, in units of their own."""
    grids = np.repeat([frozen.LOGIT_GRID, frozen.MEAN_GRID, frozen.LOG2_SCALE_GRID], out.shape[1] // 3)
    return torch.from_numpy(out / grids)


@every_bits
def test_the_slots_are_the_masses_of_the_float_mixture(bits):
    laws, (out, *local) = random_mixtures(bits, 300, seed=10 + bits)
    real = float_mixture(raw_values(out), *local)
    symbols = torch.arange(1 << bits).double()[:, None].expand(-1, 300)
    masses = (
        LogisticMixture(*(part.expand(len(symbols), -1, -1) for part in real)).log_mass(symbols, bits).exp().numpy()
    )
    ours = np.diff(laws.all_starts(), axis=0) / TOTAL
    assert np.abs(ours - masses).max() < 0.04  # positions are on a grid of a quarter of the least scale
    divergence = (masses * np.log2(masses / ours)).sum(0)  # bits a symbol, what the tables cost
    assert divergence.mean() < 0.003 and divergence.max() < 0.1


@pytest.mark.parametrize("bits", [1, 5, 8])
def test_the_gradient_is_the_float_mixtures(bits):
    """For symbols drawn from the law, up to the grids of tables and gradients."""
    laws, (out, *local) = random_mixtures(bits, 400, seed=20 + bits)
    symbols = laws.find(np.random.default_rng(0).integers(0, TOTAL, 400))
    raw = raw_values(out).requires_grad_()
    real = float_mixture(raw, *local)
    (-real.log_mass(torch.from_numpy(symbols).double(), bits)).sum().backward()
    ours = laws.gradient(symbols)
    assert np.array_equal(ours, np.rint(ours)) and np.abs(ours).max() <= GRADIENT_BOUND
    # where a scale is clamped the float mixture's does not move
    free = (-torch.log2(real.inverse_scale) > -4) & (-torch.log2(real.inverse_scale) < 7)
    theirs, ours = raw.grad.numpy() * free.repeat(1, 3).numpy(), ours / GRADIENT_GRID * free.repeat(1, 3).numpy()
    error, scale = np.abs(ours - theirs), np.abs(theirs).clip(0.05, None)
    assert np.median(error / scale) < 0.02 and np.mean(error / scale) < 0.1
    assert (ours * theirs).sum() / np.sqrt((ours**2).sum() * (theirs**2).sum()) > 0.99


@few
@given(st.integers(1, 8), st.integers(0, 999))
def test_gradients_are_bounded_integers_at_the_ends_too(bits, seed):
    laws, _ = random_mixtures(bits, 40, seed, plausible=False)
    gradient = laws.gradient(np.random.default_rng(seed).choice([0, (1 << bits) - 1, (1 << bits) // 2], 40))
    assert np.array_equal(gradient, np.rint(gradient)) and np.abs(gradient).max() <= GRADIENT_BOUND


def test_a_least_mass_is_one_slot():
    assert LEAST_MASS == 1 / TOTAL


def test_far_means_and_narrow_scales_do_not_wrap_around():
    """A component far above the range leaves all mass to the last symbol, one far below to the first."""
    for mean, symbol in [(frozen.MEAN_BOUND, 255), (-frozen.MEAN_BOUND, 0)]:
        out = np.array([[0, mean, -(1 << 14)]], np.float32)
        local = moments(np.array([8 * 255 if symbol else 0]), np.array([64 * 255 + 32]))
        _, sizes = Mixtures(tables(), out, *local, 0, 8).slots(np.array([symbol]))
        assert sizes[0] >= TOTAL - 256


def test_an_offset_moves_the_law_by_that_number_of_symbols():
    rng = np.random.default_rng(0)
    out = np.rint(rng.normal(0, 64, (50, 9))).astype(np.float32)
    local = moments(8 * rng.integers(20, 60, 50), rng.integers(32, 640, 50))
    offset, symbols = rng.integers(0, 100, 50), rng.integers(1, 100, 50)
    plain = Mixtures(tables(), out, *local, 0, 8).starts(symbols)
    assert np.array_equal(Mixtures(tables(), out, *local, offset, 8).starts(symbols + offset), plain + offset)


@pytest.mark.parametrize(
    "name, change",
    [
        ("sigmoid", lambda a: a[:-1]),
        ("weight", lambda a: a[:-1]),
        ("inverse_scale", lambda a: a[:-1]),
        ("sigmoid", lambda a: a[None]),
        ("weight", lambda a: np.append(a, 0)),
        ("inverse_scale", lambda a: np.append(a, 1)),
        ("sigmoid", lambda a: a[::-1]),
        ("sigmoid", lambda a: a - 1),
        ("sigmoid", lambda a: a * 2),
        ("weight", lambda a: -a),
        ("weight", lambda a: a * 2),
        ("weight", lambda a: a * 0),
        ("inverse_scale", lambda a: a * 0),
        ("inverse_scale", lambda a: -a),
        ("inverse_scale", lambda a: a * 9),
    ],
)
def test_tables_that_make_no_law_are_a_model_error(name, change):
    with pytest.raises(ModelError):
        MixtureTables.checked(**tables()._asdict() | {name: change(getattr(tables(), name))})


@few
@given(st.integers(0, 99), st.integers(1, 8))
def test_every_accepted_table_makes_a_law(seed, bits):
    rng = np.random.default_rng(seed)
    weird = MixtureTables.checked(
        np.sort(rng.integers(0, (1 << 16) + 1, frozen.SIGMOID_CELLS)),
        np.append(1, rng.integers(0, 1 << rng.integers(1, 17), frozen.LOGIT_RANGE)),
        rng.integers(1, (1 << 15) + 1, frozen.LOG2_SCALE_HIGH - frozen.LOG2_SCALE_LOW + 1),
    )
    _, (out, *local) = random_mixtures(bits, 20, seed, plausible=False)
    assert_lawful(Mixtures(weird, out, *local, 0, bits))


@pytest.mark.parametrize("change", [np.asfortranarray, lambda a: np.repeat(a, 2)[::2], lambda a: a.astype(np.int64)])
def test_tables_of_any_layout_are_the_same_int32(change):
    checked = MixtureTables.checked(*map(change, tables()))
    assert all(map(np.array_equal, checked, tables()))
    assert all(table.dtype == np.int32 and table.flags.c_contiguous for table in checked)
