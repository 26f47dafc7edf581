"""Layers that learn while they code: as Adam does, the same on any machine, and within the proven bounds."""

import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.base.compiled import compiled
from dqcodec.exact.autoregressive import heads
from dqcodec.exact.autoregressive.learning import LearningLinears
from dqcodec.exact.networks import Linear
from dqcodec.frozen.autoregressive import GRADIENT_BOUND

add_gradients = compiled(heads.add_gradients)
few = settings(max_examples=15)


def layers() -> list[Linear]:
    return programs.program(programs.AUTOREGRESSIVE).net.out


def grids(linears: list[Linear]) -> np.ndarray:
    """The steps of the weights' grids (P, 1, O)."""
    return np.exp2(-np.stack([linear.shift for linear in linears]).astype(np.float64))[:, None]


def learning(weights: float = 8.0, biases: float | None = None, linears: list[Linear] | None = None) -> LearningLinears:
    """The rates are in steps of the first layer's grid; those of biases are those of weights by default."""
    rates = np.array([[weights], [weights if biases is None else biases]])
    return LearningLinears.copies(linears or layers(), rates * grids(layers()[:1])[0])


def batch(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(gradients (P, N, O), inputs (P, N, I + 1)), up to their bounds."""
    rng, planes, linear = np.random.default_rng(seed), len(layers()), layers()[0]
    gradient = rng.normal(0, 2000, (planes, count, linear.outputs)).clip(-GRADIENT_BOUND, GRADIENT_BOUND).round()
    gradient[rng.random((planes, count)) < 0.1] = GRADIENT_BOUND
    a = rng.integers(-linear.max_input, linear.max_input + 1, (planes, count, linear.inputs + 1))
    a[..., -1] = 1
    return gradient.astype(np.float32), a.astype(np.float32)


def sums_of(gradient: np.ndarray, a: np.ndarray) -> np.ndarray:
    return a.astype(np.float64).transpose(0, 2, 1) @ gradient.astype(np.float64)


def outputs(matrices: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Of single precision, clamped."""
    return np.floor(a @ matrices).clip(layers()[0].low, layers()[0].high)


def integers(learned: LearningLinears) -> np.ndarray:
    return learned.matrices / grids(layers())


def test_it_starts_as_the_layers_it_copies_and_leaves_them_alone():
    learned, (gradient, a) = learning(), batch(0, 50)
    before = [linear.matrix.copy() for linear in layers()]
    assert learned.matrices.dtype == np.float32 and np.array_equal(learned.matrices, before)
    for linear, ours, part in zip(layers(), outputs(learned.matrices, a), a):
        assert np.array_equal(ours, linear(part[:, :-1]))
    learned.step(sums_of(gradient, a))
    assert not any(map(np.array_equal, learned.matrices, before))
    assert all(np.array_equal(linear.matrix, matrix) for linear, matrix in zip(layers(), before))


@few
@given(st.integers(0, 99), st.lists(st.integers(1, 79), max_size=5), st.booleans())
def test_learning_does_not_depend_on_the_order_of_a_batch(seed, cuts, reverse):
    whole, parts = learning(), learning()
    for turn in range(3):
        gradient, a = batch(seed + turn, 80)
        taught = np.zeros(whole.matrices.shape)
        pieces = [slice(*pair) for pair in zip([0, *sorted(cuts)], [*sorted(cuts), 80])]
        for piece in pieces[::-1] if reverse else pieces:
            for plane in range(len(taught)):
                add_gradients(*(np.ascontiguousarray(part[plane, piece].T) for part in (a, gradient)), taught[plane])
        assert np.array_equal(taught, sums_of(gradient, a))
        whole.step(sums_of(gradient, a))
        parts.step(taught)
    assert np.array_equal(whole.matrices, parts.matrices)


def test_gradients_of_a_batch_add_up():
    gradient, a = batch(0, 20)
    taught = np.zeros(learning().matrices.shape)
    for _ in range(3):
        add_gradients(*(np.ascontiguousarray(part[1].T) for part in (a, gradient)), taught[1])
    assert np.array_equal(taught[1], 3 * sums_of(gradient, a)[1]) and not taught[::2].any()


def test_every_layer_learns_as_it_does_alone():
    together, alone = learning(), [learning(linears=[linear]) for linear in layers()]
    for turn in range(10):
        sums = sums_of(*batch(turn, 30))
        together.step(sums)
        for plane, learned in enumerate(alone):
            learned.step(sums[plane : plane + 1])
            assert np.array_equal(learned.matrices[0], together.matrices[plane])


def test_the_steps_are_adams():
    learned = learning(8.0)
    scale = grids(layers()[:1]) / grids(layers())  # rates are in steps of the first layer's grid
    weights, first, second = integers(learned), 0.0, 0.0
    before = weights.copy()
    for step in range(1, 40):
        sums = sums_of(*batch(step, 30))
        learned.step(sums)
        first, second = 0.9 * first + 0.1 * sums, 0.99 * second + 0.01 * sums**2
        weights -= 8 * scale * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1)
    assert np.abs(integers(learned) - weights).max() < 0.51
    assert np.abs(weights - before).max() > 20


def test_weights_and_biases_have_rates_of_their_own():
    for rates, moved in [((8.0, 0.0), slice(0, -1)), ((0.0, 8.0), slice(-1, None))]:
        learned = learning(*rates)
        before = learned.matrices.copy()
        learned.step(np.full(before.shape, 999.0))
        changed = learned.matrices != before
        assert changed[:, moved].all() and changed.sum() == changed[:, moved].sum()


def test_learning_lowers_the_loss():
    """Outputs that are pulled one way go that way."""
    learned, (gradient, a) = learning(2.0), batch(0, 60)
    before = outputs(learned.matrices, a)
    for _ in range(20):
        learned.step(sums_of(np.full_like(gradient, -500), a))
    after = outputs(learned.matrices, a)
    for ours, theirs in zip(after, before):
        assert ours.mean(0).min() >= theirs.mean(0).min() and ours.mean() > theirs.mean()


def test_without_a_gradient_nothing_changes():
    learned = learning()
    before = learned.matrices.copy()
    for _ in range(5):
        learned.step(np.zeros(before.shape))
    assert np.array_equal(learned.matrices, before)


@pytest.mark.parametrize("rate", [1.0, 1e3, 1e7, 1e30])
def test_sums_stay_exact_after_any_learning(rate):
    """Weights are integers, and no sum of theirs reaches 2^24."""
    learned, linear = learning(rate), layers()[0]
    limits = np.append(np.full(linear.inputs, linear.max_input), 1)
    for turn in range(60):
        gradient, a = batch(turn, 40)
        learned.step(sums_of(np.abs(gradient), np.abs(a)))
        weights = integers(learned)
        assert np.array_equal(weights, np.rint(weights)) and (limits @ np.abs(weights)).max() < 1 << 24
        assert np.array_equal(outputs(learned.matrices, a), outputs(np.asfortranarray(learned.matrices), a))
    exact = np.floor(a.astype(np.float64) @ weights * grids(layers())).clip(linear.low, linear.high)
    assert np.array_equal(outputs(learned.matrices, a), exact)
