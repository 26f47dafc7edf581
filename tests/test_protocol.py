"""Programs ask no more of a stack than ans.protocol.BitStack says: they run on the plainest one."""

import math

import numpy as np
import programs
import pytest
from programs import KINDS

from dqcodec.ans.stack import Stack
from dqcodec.base.errors import StackUnderflow


class Number:
    """A stack that is one large integer: pushes multiply and add, pops divide. It loses no fraction of a bit."""

    def __init__(self, value: int):
        self.value = value

    def push(self, symbols, sizes):
        sizes = np.broadcast_to(sizes, symbols.shape)
        for symbol, size in zip(symbols.ravel()[::-1].tolist(), sizes.ravel()[::-1].tolist()):
            assert 0 <= symbol < size <= 1 << 23
            self.value = self.value * size + symbol

    def pop(self, sizes, shape=None):
        sizes = np.broadcast_to(sizes, shape) if np.ndim(sizes) == 0 else sizes
        symbols = []
        for size in sizes.ravel().tolist():
            self.value, symbol = divmod(self.value, size)
            symbols.append(symbol)
        if not self.value:
            raise StackUnderflow("the number is used up")
        return np.array(symbols, np.int64).reshape(sizes.shape)


def number(seed: int = 0) -> Number:
    return Number(int.from_bytes(np.random.default_rng(seed).bytes(8000) + b"\1", "little"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_runs_on_a_stack_that_is_one_number(kind):
    program, stack = programs.program(kind), number()
    x = programs.smooth(np.random.default_rng(0), 3, 8, 8)
    before = stack.value
    program.codec.push(stack, x)
    assert np.array_equal(program.codec.pop(stack, 3, 8, 8), x)
    assert stack.value == before


def test_an_autoregressive_density_runs_on_a_stack_that_is_one_number():
    program, stack = programs.program(programs.AUTOREGRESSIVE), number()
    tiles = list(programs.smooth(np.random.default_rng(0), 2, 5, 9).astype(np.uint8))
    before, slots = stack.value, program.slots(tiles)
    program.push(stack, slots)
    assert abs(math.log2(stack.value) - math.log2(before) - slots.bits) < 1
    assert all(np.array_equal(tile, again) for tile, again in zip(tiles, program.pop(stack, [(5, 9)] * 2), strict=True))
    assert stack.value == before


def test_both_stacks_give_the_same_symbols():
    sizes = np.random.default_rng(0).integers(1, 1 << 23, (5, 7))
    symbols = np.random.default_rng(1).integers(0, sizes)
    for stack in (number(), Stack(bytes(400))):
        stack.push(symbols, sizes)
        stack.push(symbols[0] % 9, 9)
        assert np.array_equal(stack.pop(9, (7,)), symbols[0] % 9)
        assert np.array_equal(stack.pop(sizes), symbols)
