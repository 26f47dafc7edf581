import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import noise_stack

from dqcodec.ans.logarithms import ONE
from dqcodec.base.errors import LatentOverflow, ModelError
from dqcodec.exact.flow.transforms import (
    Affine,
    Conv1x1,
    check_range,
    divmod_exact,
    scale,
    squeezed,
    unscale,
    unsqueezed,
)
from dqcodec.frozen.flow import LOG_SCALE_BOUND, MAX_LATENT, SHEAR_BITS, R

GRID_BITS = 14
few = settings(max_examples=25)
seeds = st.integers(0, 999)


def latents(seed: int, shape=(2, 3, 2, 12), spread: float = 2.0) -> np.ndarray:
    return np.rint(np.random.default_rng(seed).normal(0, spread * 2**GRID_BITS, shape)).astype(np.int64)


def sizes(seed: int, shape) -> np.ndarray:
    """Sizes of every magnitude: 1, small, about R, the largest."""
    rng = np.random.default_rng(seed)
    size = np.rint(R * np.exp(rng.uniform(-3, 3, shape))).astype(np.int64)
    return np.where(rng.random(shape) < 0.2, rng.choice([1, 2, R, (1 << 18) - 1], shape), size)


def assert_inverse_both_ways(forward, inverse, g, z=None):
    """forward(g, stack) -> z and inverse(z, stack) -> g undo each other, the stack included."""
    g_before = g.copy()
    for first, second, start in ((forward, inverse, g), (inverse, forward, g if z is None else z)):
        stack = noise_stack(3)
        before = stack.to_bytes()
        assert np.array_equal(second(first(start, stack), stack), start)
        assert stack.to_bytes() == before
    assert np.array_equal(g, g_before)


def first(function):
    return lambda g, stack: function(g, stack)[0]


@few
@given(seeds, st.sampled_from([(1,), (5, 1), (3, 4, 5), (2, 1300), (20001,), (0, 3)]), st.sampled_from([1e-3, 2, 1e3]))
def test_scale_and_unscale_undo_each_other(seed, shape, spread):
    g, size = latents(seed, shape, spread), sizes(seed + 1, shape)
    assert_inverse_both_ways(lambda g, s: scale(g, size, s), lambda g, s: unscale(g, size, s), g)


@few
@given(st.lists(st.tuples(st.integers(1 - MAX_LATENT, MAX_LATENT - 1), st.integers(1, (1 << 18) - 1)), min_size=1))
def test_scale_is_right_to_the_ends_of_the_range(pairs):
    g, size = np.array(pairs).T
    stack = noise_stack()
    t = [(int(each) << 10) + int(r) for each, r in zip(g, noise_stack().pop(R, g.shape))]
    assert scale(g, size, stack).tolist() == [each // int(s) for each, s in zip(t, size)]


@few
@given(st.lists(st.tuples(st.integers(-(1 << 48), 1 << 48), st.integers(1, (1 << 18) - 1)), min_size=1))
def test_divmod_is_that_of_pythons_integers(pairs):
    t, size = np.array(pairs).T
    quotient, remainder = divmod_exact(t, size)
    assert list(zip(quotient.tolist(), remainder.tolist())) == [divmod(*pair) for pair in pairs]


@pytest.mark.parametrize("g", [MAX_LATENT, -MAX_LATENT, 1 << 62, -(1 << 62)])
def test_latents_out_of_range_overflow(g):
    g, size, conv = np.full((1, 1, 1, 12), g), np.full((1, 1, 1, 12), R), random_conv(0)
    for function in (scale, unscale):
        with pytest.raises(LatentOverflow):
            function(g, size, noise_stack())
    for function in (conv.forward, conv.inverse):
        with pytest.raises(LatentOverflow):
            function(g, noise_stack())
    with pytest.raises(LatentOverflow):
        check_range(np.array([0, g.flat[0]]))


def test_latents_that_leave_the_range_on_the_way_overflow():
    """Growth by a factor of 2^10 at every step ends in an error, never in another image."""
    g, size = np.full((1, 1, 1, 4), 1 << 20), np.ones((1, 1, 1, 4), np.int64)
    stack = noise_stack()
    with pytest.raises(LatentOverflow):
        for _ in range(4):
            g = scale(g, size, stack)


@pytest.mark.parametrize("log_scale", [-2.5, -0.5, -0.01, 0.0, 0.3, 1.7, 2.9])
def test_the_bits_of_a_scale_are_its_jacobian(log_scale):
    """log2(S/R) per element, within what 24-bit probabilities and the uniforms cost."""
    count = 20000
    size = np.full(count, round(R * np.exp(log_scale)))
    stack = noise_stack(0, 1 << 17)
    before = stack.bits
    scale(latents(1, (count,)), size, stack)
    assert abs((stack.bits - before) / count - np.log2(size[0] / R)) < 0.004


def random_conv(seed: int, scaled: bool = True, channels: int = 12) -> Conv1x1:
    rng = np.random.default_rng(seed)
    weights = np.rint(rng.normal(0, 0.4, (2, channels, channels)) * 2**SHEAR_BITS).astype(np.int32)
    size = np.clip(np.rint(R * np.exp(rng.normal(0, 1, channels))), 1, None).astype(np.int32) if scaled else None
    return Conv1x1(
        rng.permutation(channels).tolist(),
        np.tril(weights[0], -1),
        np.triu(weights[1], 1),
        size,
        rng.random(channels) < 0.5 if scaled else np.zeros(channels, bool),
    )


def matrix(conv: Conv1x1) -> np.ndarray:
    """The real P L D U."""
    eye = np.eye(len(conv.permutation))
    diagonal = 1 if conv.sizes is None else conv.sign * R / conv.sizes
    lower, upper = (np.asarray(w) / 2**SHEAR_BITS + eye for w in (conv.lower, conv.upper))
    return ((lower * diagonal) @ upper)[conv.permutation]


@few
@given(seeds, st.booleans(), st.sampled_from([2, 4, 12, 24]), st.sampled_from([0.01, 2.0, 30.0]))
def test_a_1x1_convolution_is_inverted_both_ways(seed, scaled, channels, spread):
    conv, g = random_conv(seed, scaled, channels), latents(seed, (2, 3, 2, channels), spread)
    assert_inverse_both_ways(first(conv.forward), conv.inverse, g)


@pytest.mark.parametrize("scaled", [True, False])
def test_a_1x1_convolution_is_the_real_one_within_some_grid_units(scaled):
    conv, g = random_conv(1, scaled), latents(2)
    z, cost = conv.forward(g, noise_stack())
    real = g @ matrix(conv).T
    gain = np.abs(matrix(conv)).sum(1).max() + 20
    assert np.abs(z - real).max() < 10 * gain
    expected = -np.log2(np.abs(np.linalg.det(matrix(conv)))) * g[0, ..., 0].size
    assert np.allclose(cost / ONE, np.full(len(g), expected), atol=1e-5)


@few
@given(seeds, st.sampled_from([1e7, 1e8, 1.6e7]))
def test_products_too_large_for_float64_are_exact_too(seed, spread):
    conv = random_conv(seed, scaled=False)
    g = np.clip(latents(seed, spread=spread), 1 - MAX_LATENT, MAX_LATENT - 1)
    try:
        z, _ = conv.forward(g, None)
    except LatentOverflow:
        return
    half, big = 1 << (SHEAR_BITS - 1), g.astype(object)
    for weight in (conv.upper, conv.lower):
        big = big + (big @ np.asarray(weight).astype(object).T + half) // (1 << SHEAR_BITS)
    assert np.array_equal(z, big[..., conv.permutation].astype(np.int64))


@pytest.mark.parametrize(
    "change",
    [
        {"permutation": [0, 0, 1, 2]},
        {"permutation": [0, 1, 2, 4]},
        {"lower": np.zeros((3, 4), int)},
        {"lower": np.full((4, 4), 1 << 17)},
        {"upper": np.full((4, 4), -(1 << 17))},
        {"sizes": np.zeros(4, int)},
        {"sizes": np.full(4, 1 << 18)},
        {"sizes": np.ones(5, int)},
    ],
)
def test_a_1x1_convolution_that_is_not_one_is_a_model_error(change):
    parts = {
        "permutation": [3, 1, 0, 2],
        "lower": np.zeros((4, 4), int),
        "upper": np.zeros((4, 4), int),
        "sizes": np.full(4, R),
        "negative": np.zeros(4, bool),
    }
    Conv1x1(**parts)
    with pytest.raises(ModelError):
        Conv1x1(**parts | change)


@few
@given(seeds, st.sampled_from([(1, 2, 2, 1), (2, 4, 6, 3), (1, 8, 2, 12)]))
def test_squeeze_is_a_reordering_inverted_both_ways_and_that_of_torch(seed, shape):
    g = latents(seed, shape)
    z = squeezed(g)
    assert np.array_equal(unsqueezed(z), g)
    assert np.array_equal(np.sort(z, None), np.sort(g, None))
    wide = latents(seed, (*shape[:3], 4 * shape[3]))
    assert np.array_equal(squeezed(unsqueezed(wide)), wide)
    theirs = torch.nn.functional.pixel_unshuffle(torch.from_numpy(g).permute(0, 3, 1, 2), 2)
    assert np.array_equal(z, theirs.permute(0, 2, 3, 1).numpy())


def transforms(kind: str):
    """The exact transforms of the density's levels, or the dequantizer's couplings."""
    program = programs.program("bipartite")
    if kind == "bipartite":
        return [step.coupling for step in program.codec.dequantizer.steps]
    return [t for t in program.codec.density.levels[0] if isinstance(t, Conv1x1) == (kind == "conv1x1")]


@few
@given(seeds, st.sampled_from(["conv1x1", "coupling"]), st.sampled_from([0.1, 1.0, 30.0]), st.integers(0, 1))
def test_the_transforms_of_a_program_are_inverted_both_ways(seed, kind, spread, index):
    transform = transforms(kind)[index]
    assert_inverse_both_ways(first(transform.forward), transform.inverse, latents(seed, (2, 4, 4, 12), spread))


@few
@given(seeds, st.integers(0, 1))
def test_a_conditional_coupling_is_inverted_both_ways(seed, index):
    coupling, g = transforms("bipartite")[index], latents(seed, (2, 4, 4, 12)) >> 3
    context = np.random.default_rng(seed).integers(0, 2048, (2, 4, 4, 4)).astype(np.float32)
    assert_inverse_both_ways(
        lambda g, s: coupling.forward(g, s, context)[0], lambda z, s: coupling.inverse(z, s, context), g
    )
    stack = noise_stack()
    z, cost = coupling.forward(g, stack, context)
    x, same_cost = coupling.inverse_and_cost(z, stack, context)
    assert np.array_equal(x, g) and np.array_equal(cost, same_cost)


@pytest.mark.parametrize(
    "sizes",
    [
        np.ones(2 * LOG_SCALE_BOUND, int),
        np.zeros(2 * LOG_SCALE_BOUND + 1, int),
        np.full(2 * LOG_SCALE_BOUND + 1, 1 << 18),
    ],
)
def test_a_scale_table_that_is_not_one_is_a_model_error(sizes):
    with pytest.raises(ModelError):
        Affine(sizes)
