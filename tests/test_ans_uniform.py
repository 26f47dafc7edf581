import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import noise_stack

from dqcodec.ans import uniform
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import StackUnderflow

few = settings(max_examples=40)
sizes_of_symbols = st.lists(
    st.one_of(st.integers(1, 5), st.integers(1, 1 << 20), st.integers(0, 20).map(lambda bits: 1 << bits)), max_size=40
).map(lambda sizes: np.array(sizes, np.int64))


def symbols_below(sizes: np.ndarray, seed: int = 0) -> np.ndarray:
    """Some of them the first or the last one."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, sizes.shape)
    return np.where(kind == 0, 0, np.where(kind == 1, sizes - 1, rng.integers(0, sizes)))


@few
@given(sizes_of_symbols, st.integers(0, 99))
def test_pop_undoes_push_and_restores_the_stack(sizes, seed):
    stack, symbols = noise_stack(seed), symbols_below(sizes, seed)
    before = stack.to_bytes()
    uniform.push(stack, symbols, sizes)
    assert np.array_equal(uniform.pop(stack, sizes), symbols)
    assert stack.to_bytes() == before


@few
@given(sizes_of_symbols, st.integers(0, 99))
def test_push_undoes_pop(sizes, seed):
    stack = noise_stack(seed)
    before = stack.to_bytes()
    symbols = uniform.pop(stack, sizes)
    assert (0 <= symbols).all() and (symbols < sizes).all()
    uniform.push(stack, symbols, sizes)
    assert stack.to_bytes() == before


@pytest.mark.parametrize("size", [1, 2, 3, 7, 255, 1000, 4097])
def test_every_symbol_of_a_size_comes_back(size):
    stack, symbols = noise_stack(), np.arange(size)
    uniform.push(stack, symbols, np.full(size, size))
    assert np.array_equal(uniform.pop(stack, np.full(size, size)), symbols)


def test_int32_symbols_and_sizes_are_the_same():
    sizes = np.random.default_rng(0).integers(1, 1 << 20, 500)
    symbols, plain, narrow = symbols_below(sizes), noise_stack(), noise_stack()
    uniform.push(plain, symbols, sizes)
    uniform.push(narrow, symbols.astype(np.int32), sizes.astype(np.int32))
    assert plain.to_bytes() == narrow.to_bytes()
    assert np.array_equal(uniform.pop(narrow, sizes.astype(np.int32)), symbols)


def bits_a_symbol(push, sizes: np.ndarray) -> float:
    """The cost of symbols beyond the logarithm of their sizes. They are spread evenly, because noise would hide it."""
    stack, turns = noise_stack(length=1 << 18), np.arange(len(sizes)) * 0.6180339887498949 % 1
    before = stack.bits
    push(stack, (turns * sizes).astype(np.int64), sizes)
    return (stack.bits - before - np.log2(sizes).sum()) / len(sizes)


def test_symbols_cost_the_logarithm_of_their_size_where_the_plain_stack_loses():
    rng = np.random.default_rng(0)
    for low_bits, high_bits in [(0, 6), (6, 15), (15, 18), (18, 19)]:
        sizes = np.exp2(rng.uniform(low_bits, high_bits, 20_000)).astype(np.int64)
        ours = bits_a_symbol(uniform.push, sizes)
        assert abs(ours) < 1e-3
        if low_bits >= 15:
            assert bits_a_symbol(Stack.push, sizes) > 10 * abs(ours)


def test_the_worst_size_below_half_a_million_loses_little():
    worst = (1 << 19) - (1 << 14)  # 16.5 slots a symbol: some have 16, some 17
    assert bits_a_symbol(uniform.push, np.full(20_000, worst)) < 1e-3


@few
@given(sizes_of_symbols, st.binary(max_size=9))
def test_a_stack_without_enough_spare_bits_raises_underflow(sizes, seed):
    for begin in (uniform.pop, lambda stack, sizes: uniform.push(stack, symbols_below(sizes), sizes)):
        stack = Stack(seed)
        before = stack.to_bytes()
        try:
            symbols = begin(stack, sizes)
        except StackUnderflow:
            continue
        if symbols is None:
            symbols = uniform.pop(stack, sizes)
            assert np.array_equal(symbols, symbols_below(sizes))
        else:
            uniform.push(stack, symbols, sizes)
        assert stack.to_bytes() == before


def test_an_empty_stack_has_no_spare_bits():
    sizes = np.full(9, 1000)
    with pytest.raises(StackUnderflow):
        uniform.pop(Stack(), sizes)
    with pytest.raises(StackUnderflow):
        uniform.push(Stack(), np.zeros(9, np.int64), sizes)
