import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import noise_stack

from dqcodec.ans.stack import Stack
from dqcodec.base.errors import LatentOverflow, ModelError
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.frozen.flow import PRECISION

TOTAL = 1 << PRECISION
few = settings(max_examples=30)


def bell(cells: int = 33, low_bits: int = 4, unbounded: bool = True) -> TableLaw:
    """A bell of cells around zero."""
    mass = np.exp(-0.5 * ((np.arange(cells) - cells // 2) / (cells / 8)) ** 2)
    frequencies = np.maximum(1, (mass / mass.sum() * TOTAL).astype(np.int64))
    frequencies[cells // 2] += TOTAL - frequencies.sum()
    return TableLaw(frequencies, -(cells // 2), low_bits, unbounded)


def inside(law: TableLaw, count: int, seed: int = 0) -> np.ndarray:
    """Grid integers drawn from the law, its two end cells left out."""
    rng = np.random.default_rng(seed)
    f = law.frequencies[1:-1]
    cells = law.first + 1 + rng.choice(len(f), count, p=f / f.sum())
    return (cells << law.low_bits) + rng.integers(0, 1 << law.low_bits, count)


def assert_pop_undoes_push(law, g):
    stack = noise_stack()
    before = stack.to_bytes()
    law.push(stack, g)
    popped = law.pop(stack, g.shape)
    assert popped.dtype == np.int64 and np.array_equal(popped, g)
    assert stack.to_bytes() == before


@few
@given(
    st.lists(st.one_of(st.integers(-300, 300), st.integers(-(1 << 48), 1 << 48)), max_size=40), st.sampled_from([0, 4])
)
def test_pop_undoes_push_at_any_integer_the_far_tails_too(values, low_bits):
    assert_pop_undoes_push(bell(low_bits=low_bits), np.array(values, np.int64))


@few
@given(st.integers(0, 1000), st.booleans(), st.integers(0, 60))
def test_push_undoes_pop(seed, unbounded, count):
    law, stack = bell(unbounded=unbounded), noise_stack(seed)
    before = stack.to_bytes()
    law.push(stack, law.pop(stack, (count,)))
    assert stack.to_bytes() == before


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000, 20000])
def test_any_count_is_coded_and_given_back(count):
    assert_pop_undoes_push(bell(), inside(bell(), count))


def test_arrays_of_any_layout_are_coded_to_the_same_bytes():
    law, g = bell(), inside(bell(), 120).reshape(2, 3, 4, 5)
    assert_pop_undoes_push(law, g)
    plain, other = noise_stack(), noise_stack()
    law.push(plain, g)
    law.push(other, np.asfortranarray(g))
    assert plain.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("unbounded", [True, False])
def test_the_coded_length_is_that_of_the_frequencies(unbounded):
    law, stack = bell(cells=257, unbounded=unbounded), noise_stack()
    g = inside(law, 20000)
    before = stack.bits
    law.push(stack, g)
    ideal = (law.low_bits - np.log2(law.frequencies[(g >> law.low_bits) - law.first] / TOTAL)).sum()
    assert abs(stack.bits - before - ideal) < 32 + 0.002 * len(g)


def test_pops_from_random_bits_follow_the_law():
    law = bell(low_bits=2, unbounded=False)
    count = 20000
    cells = (law.pop(noise_stack(1, 1 << 17), (count,)) >> law.low_bits) - law.first
    expected = count * law.frequencies / TOTAL
    common = expected > 20
    chi2 = ((np.bincount(cells, minlength=len(expected)) - expected) ** 2 / expected)[common]
    assert chi2.sum() < 2 * common.sum()


@pytest.mark.parametrize("distance", [0, 1, 1000, 1 << 36, (1 << 47) + 1])
@pytest.mark.parametrize("side", [-1, 1])
def test_an_escape_costs_about_the_bits_of_its_distance(distance, side):
    law = bell()
    end = law.first if side < 0 else law.first + len(law.frequencies) - 1
    stack = noise_stack()
    before = stack.bits
    law.push(stack, np.full(100, (end + side * distance) << law.low_bits))
    cell_bits = law.low_bits + PRECISION - np.log2(law.frequencies[0])
    assert np.log2(1 + distance) < (stack.bits - before) / 100 - cell_bits + 1 < np.log2(1 + distance) + 8


def test_the_far_tail_ends_with_an_error_never_with_another_integer():
    law = bell()
    for g in (1 << 62, -(1 << 62), 1 << 53, -(1 << 53)):
        with pytest.raises(LatentOverflow):
            law.push(noise_stack(), np.array([g]))


@pytest.mark.parametrize("offset", [-1, 33 << 4, 1 << 40])
def test_a_bounded_law_refuses_what_lies_outside(offset):
    law = bell(unbounded=False)
    low = law.first << law.low_bits
    assert_pop_undoes_push(law, np.array([low, low + (33 << 4) - 1]))
    with pytest.raises(LatentOverflow):
        law.push(noise_stack(), np.array([0, low + offset]))


@pytest.mark.parametrize(
    "frequencies",
    [
        [],
        [TOTAL],
        [TOTAL - 1, 1],
        [0, TOTAL - 1, 1],
        [-1, TOTAL, 1],
        [1, 2, 3],
        [TOTAL, TOTAL, TOTAL],
        [[1, 1, TOTAL - 2]],
        [1, 1, TOTAL - 1],
    ],
)
def test_frequencies_that_are_no_law_are_a_model_error(frequencies):
    with pytest.raises(ModelError):
        TableLaw(np.array(frequencies, np.int64), 0, 4)


@pytest.mark.parametrize("low_bits, unbounded", [(-1, False), (23, False), (64, False), (15, True), (22, True)])
def test_low_bits_that_integers_or_the_stack_cannot_hold_are_a_model_error(low_bits, unbounded):
    with pytest.raises(ModelError):
        TableLaw(np.array([1, 1, TOTAL - 2]), 0, low_bits, unbounded)


@pytest.mark.parametrize("seed", range(4))
def test_far_values_of_the_widest_unbounded_law_come_back(seed):
    law = TableLaw(np.array([TOTAL // 2 - 1, 2, TOTAL // 2 - 1]), 0, 14)
    stack = Stack(np.random.default_rng(seed).bytes(1 << 16))
    before = stack.to_bytes()
    law.push(stack, law.pop(stack, (2000,)))
    assert stack.to_bytes() == before
