import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.ans.protocol import MAX_SIZE
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, StackUnderflow, SymbolError

SEED = bytes(range(256)) * 4
few = settings(max_examples=40)
sizes_of_symbols = st.lists(
    st.one_of(st.just(1), st.integers(1, 5), st.integers(1, MAX_SIZE), st.just(MAX_SIZE)), min_size=1, max_size=30
)


def symbols_below(sizes: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, sizes)


@few
@given(sizes_of_symbols, st.integers(0, 99))
def test_pop_undoes_push_and_restores_the_stack(sizes, seed):
    stack, sizes = Stack(SEED), np.array(sizes)
    before = stack.to_bytes()
    symbols = symbols_below(sizes, seed)
    stack.push(symbols, sizes)
    assert np.array_equal(stack.pop(sizes), symbols)
    assert stack.to_bytes() == before


@few
@given(sizes_of_symbols, st.integers(0, 99))
def test_push_undoes_pop(sizes, seed):
    stack, sizes = Stack(np.random.default_rng(seed).bytes(400)), np.array(sizes)
    before = stack.to_bytes()
    stack.push(stack.pop(sizes), sizes)
    assert stack.to_bytes() == before


@few
@given(st.integers(1, MAX_SIZE), st.sampled_from([(0,), (1,), (7,), (2, 3), (2, 0, 4), (2, 2, 3, 2)]))
def test_one_size_for_all_and_the_same_size_in_an_array_are_the_same(size, shape):
    one, each = Stack(SEED), Stack(SEED)
    symbols = symbols_below(np.full(shape, size), 1)
    one.push(symbols, size)
    each.push(symbols, np.full(shape, size))
    assert one.to_bytes() == each.to_bytes()
    popped = one.pop(size, shape)
    assert popped.dtype == np.int64 and popped.shape == shape
    assert np.array_equal(popped, symbols) and np.array_equal(each.pop(np.full(shape, size)), symbols)
    assert one.to_bytes() == each.to_bytes() == Stack(SEED).to_bytes()


def test_any_array_layout_is_the_same_sequence():
    sizes = np.random.default_rng(0).integers(1, 1000, (6, 8))
    symbols = symbols_below(sizes, 1)
    plain, other = Stack(SEED), Stack(SEED)
    plain.push(symbols, sizes)
    other.push(np.asfortranarray(symbols), np.repeat(sizes, 2, 1)[:, ::2])
    assert plain.to_bytes() == other.to_bytes()
    assert np.array_equal(other.pop(np.asfortranarray(sizes)), symbols)


def test_a_size_of_one_costs_nothing():
    stack = Stack(SEED)
    stack.push(np.zeros(50, np.int64), 1)
    stack.push(np.zeros(50, np.int64), np.ones(50, np.int64))
    assert not stack.pop(1, (5, 2)).any() and not stack.pop(np.ones((5, 2), np.int64)).any()
    assert stack.to_bytes() == Stack(SEED).to_bytes()


def test_the_last_pushed_array_is_the_first_popped():
    stack = Stack(SEED)
    first, second = np.arange(10), np.arange(10)[::-1]
    stack.push(first, 10)
    stack.push(second, 11)
    assert np.array_equal(stack.pop(11, (10,)), second)
    assert np.array_equal(stack.pop(10, (10,)), first)


def test_symbols_cost_the_logarithm_of_their_size():
    stack = Stack(SEED)
    sizes = np.random.default_rng(0).integers(1, 1 << 14, 5000)
    before = stack.bits
    stack.push(symbols_below(sizes, 1), sizes)
    assert abs(stack.bits - before - np.log2(sizes).sum()) < 40


@few
@given(st.binary(max_size=9), sizes_of_symbols)
def test_a_pop_beyond_the_stack_raises_underflow(seed, sizes):
    stack, sizes = Stack(seed), np.array(sizes)
    before = stack.to_bytes()
    try:
        symbols = stack.pop(sizes)
    except StackUnderflow:
        # the seed, the zero word above it and the mark on top
        assert np.log2(sizes).sum() > 8 * len(seed) - 33
    else:
        stack.push(symbols, sizes)
        assert stack.to_bytes() == before


@pytest.mark.parametrize("sizes", [1 << 20, np.full(100, 1 << 20)], ids=["scalar", "array"])
def test_an_empty_stack_has_nothing_to_pop(sizes):
    with pytest.raises(StackUnderflow):
        Stack().pop(sizes, (100,))


def test_popping_without_end_underflows():
    stack = Stack(SEED)
    with pytest.raises(StackUnderflow):
        for _ in range(len(SEED)):
            stack.pop(1 << 16, (1,))


@pytest.mark.parametrize("symbol", [-1, 10, 1 << 31, (1 << 32) + 3, -(1 << 32) + 3, (1 << 63) - 1])
@pytest.mark.parametrize("as_array", [False, True])
def test_a_symbol_that_is_not_below_its_size_is_an_error_and_changes_nothing(symbol, as_array):
    stack = Stack(SEED)
    for size in (1, 10):
        symbols = np.array([0, symbol, 0])
        with pytest.raises(SymbolError):
            stack.push(symbols, np.full(3, size) if as_array else size)
    assert stack.to_bytes() == Stack(SEED).to_bytes()


@pytest.mark.parametrize("size", [0, -3, MAX_SIZE + 1, 1 << 25, (1 << 32) + 7])
@pytest.mark.parametrize("as_array", [False, True])
def test_a_size_that_no_stack_codes_is_an_error_and_changes_nothing(size, as_array):
    stack, sizes = Stack(SEED), np.array([5, size]) if as_array else size
    with pytest.raises(SymbolError):
        stack.pop(sizes, (2,))
    with pytest.raises(SymbolError):
        stack.push(np.zeros(2, np.int64), sizes)
    assert stack.to_bytes() == Stack(SEED).to_bytes()


def golden_stack() -> Stack:
    stack = Stack(b"dequantization")
    stack.push(np.arange(20), 1 << 10)
    stack.push(np.array([0, 2, 99, 0, (1 << 23) - 1]), np.array([1, 3, 100, 5, 1 << 23]))
    stack.pop(17, (9,))
    stack.push(np.array([123456, 7]), MAX_SIZE)
    return stack


def test_symbols_are_pushed_to_the_golden_words():
    """Any change here is a change of the file format: files written before would no longer decode."""
    assert golden_stack().to_bytes().hex() == GOLDEN


GOLDEN = "64657175616e74697a6174696f6e04124c90030f40c0020c34000209284001061c4000020f0000ba80c40360e2cb0600"


@few
@given(st.binary(max_size=40), sizes_of_symbols)
def test_a_stack_comes_back_from_its_bytes(seed, sizes):
    stack, sizes = Stack(seed), np.array(sizes)
    stack.push(symbols_below(sizes, 0), sizes)
    again = Stack.from_bytes(stack.to_bytes())
    assert again.to_bytes() == stack.to_bytes() and again.bits == stack.bits
    assert np.array_equal(again.pop(sizes), stack.pop(sizes))


@pytest.mark.parametrize("data", [b"", b"\1", bytes(4), b"\1\0\0\0", bytes(8), b"\1\0\0\0" * 3 + bytes(4), b"\1" * 9])
def test_bytes_that_no_stack_has_are_corrupt(data):
    with pytest.raises(CorruptError):
        Stack.from_bytes(data)


@few
@given(st.binary(max_size=60))
def test_any_bytes_are_a_stack_or_corrupt(data):
    try:
        stack = Stack.from_bytes(data)
    except CorruptError:
        return
    assert stack.to_bytes() == data


@few
@given(st.binary(max_size=20))
def test_the_seed_is_whole_after_all_pops(seed):
    stack = Stack(seed)
    assert stack.seed(len(seed)) == seed
    stack.push(np.arange(50), 50)
    stack.pop(50, (50,))
    assert stack.seed(len(seed)) == seed


@few
@given(st.binary(max_size=20), st.integers(0, 40))
def test_a_seed_of_another_length_is_corrupt(seed, length):
    stack = Stack(seed)
    same_words = max(1, -(-length // 4)) == max(1, -(-len(seed) // 4))
    if same_words and not any(seed[length:]):
        assert stack.seed(length) == (seed + bytes(3))[:length]
    else:
        with pytest.raises(CorruptError):
            stack.seed(length)


def test_something_left_over_the_seed_is_corrupt():
    stack = Stack(SEED)
    stack.push(np.array([1]), 1 << 20)
    with pytest.raises(CorruptError):
        stack.seed(len(SEED))
