"""Layers that learn while they code: as Adam does, the same everywhere, and never past what is proven exact."""

import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.exact.learning import GRADIENT_BOUND, LearningLinear
from dqcodec.exact.networks import Linear

few = settings(max_examples=15, deadline=None, derandomize=True)


def layer() -> Linear:
    return programs.program(programs.AUTOREGRESSIVE).net.out[0]


def rates_of(linear: Linear, rate: float) -> np.ndarray:
    """As many steps of the weights' grid, of both weights and biases."""
    return rate * np.exp2(-linear.shift.astype(np.float64))[:, None] * np.ones((1, 2))


def learning(rate: float = 8.0) -> LearningLinear:
    return LearningLinear(layer(), rates_of(layer(), rate))


def batch(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(gradients (O, N), inputs (I + 1, N)), up to their bounds."""
    rng, linear = np.random.default_rng(seed), layer()
    gradient = rng.normal(0, 2000, (linear.outputs, count)).clip(-GRADIENT_BOUND, GRADIENT_BOUND).round()
    gradient[:, rng.random(count) < 0.1] = GRADIENT_BOUND
    a = rng.integers(-linear.max_input, linear.max_input + 1, (linear.inputs + 1, count))
    a[-1] = 1
    return gradient.astype(np.float32), a.astype(np.float32)


def integers(learned: LearningLinear) -> np.ndarray:
    return learned.matrix.astype(np.float64) * np.exp2(layer().shift.astype(np.float64))[:, None]


def test_it_starts_as_the_layer_it_copies_and_leaves_that_alone():
    linear, learned, (gradient, a) = layer(), learning(), batch(0, 50)
    before = linear.matrix.copy()
    assert np.array_equal(learned(a), linear(a))
    learned.observe(gradient, a)
    assert np.array_equal(learned(a), linear(a))  # learns only when told to
    learned.step()
    assert not np.array_equal(learned.matrix, before) and np.array_equal(linear.matrix, before)


@few
@given(st.integers(0, 99), st.lists(st.integers(1, 79), max_size=5), st.booleans())
def test_a_batch_in_any_parts_and_order_teaches_the_same(seed, cuts, reverse):
    whole, parts = learning(), learning()
    for turn in range(3):
        gradient, a = batch(seed + turn, 80)
        whole.observe(gradient, a)
        pieces = [slice(*pair) for pair in zip([0, *sorted(cuts)], [*sorted(cuts), 80])]
        for piece in pieces[::-1] if reverse else pieces:
            parts.observe(np.asfortranarray(gradient)[:, piece], a[:, piece].copy())
        whole.step()
        parts.step()
    assert np.array_equal(whole.matrix, parts.matrix)


def test_the_steps_are_adams():
    linear, learned = layer(), learning(8.0)
    weights, first, second = integers(learned), 0.0, 0.0
    for step in range(1, 40):
        gradient, a = batch(step, 30)
        learned.observe(gradient, a)
        learned.step()
        sums = gradient.astype(np.float64) @ a.astype(np.float64).T
        first, second = 0.9 * first + 0.1 * sums, 0.99 * second + 0.01 * sums**2
        weights -= 8 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1)
    assert np.abs(integers(learned) - weights).max() < 0.51
    assert np.abs(weights - linear.matrix * np.exp2(linear.shift)[:, None]).max() > 20


def test_it_learns_what_it_is_taught():
    """Outputs that are pulled one way go that way."""
    learned, (_, a) = learning(2.0), batch(0, 60)
    before = learned(a)
    for _ in range(20):
        learned.observe(np.full((layer().outputs, 60), -500, np.float32), a)
        learned.step()
    assert learned(a).mean(1).min() >= before.mean(1).min() and learned(a).mean() > before.mean()


def test_without_a_gradient_nothing_changes():
    learned, (gradient, a) = learning(), batch(0, 10)
    for _ in range(5):
        learned.observe(0 * gradient, a)
        learned.step()
    assert np.array_equal(learned.matrix, layer().matrix)


@pytest.mark.parametrize("rate", [1.0, 1e3, 1e7, 1e30])
def test_however_much_it_learns_its_sums_stay_exact(rate):
    """Weights are integers, and no sum of theirs reaches 2^24."""
    learned, linear = learning(rate), layer()
    limits = np.append(np.full(linear.inputs, linear.max_input), 1)
    for turn in range(60):
        gradient, a = batch(turn, 40)
        learned.observe(np.abs(gradient), np.abs(a))
        learned.step()
        weights = integers(learned)
        assert np.array_equal(weights, np.rint(weights)) and (np.abs(weights) @ limits).max() < 1 << 24
        assert np.array_equal(learned(a), learned(np.asfortranarray(a)))
    exact = np.floor(weights @ a.astype(np.float64) / np.exp2(linear.shift)[:, None]).clip(linear.low, linear.high)
    assert np.array_equal(learned(a), exact)
