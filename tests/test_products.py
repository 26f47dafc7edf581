"""Products of short integers are those of any integers, and a layer gives the same with them and with floats."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.base.instructions import MULTIPLIES_PAIRS
from dqcodec.exact.autoregressive import products
from dqcodec.exact.autoregressive.linear import layers, linear

pytestmark = pytest.mark.skipif(not MULTIPLIES_PAIRS, reason="this processor has no products of pairs")

sizes = st.integers(1, 90)
largest = products.LARGEST


@numba.njit
def by_rows(a, b):
    return products.product(products.pairs(a), products.pairs(b), a.shape[1])


@numba.njit
def by_columns(a, b):
    return products.product(products.column_pairs(a), products.pairs(b), a.shape[0])


@numba.njit
def by_columns_alone(a, b):
    return products.product(products.column_pairs(a), np.ascontiguousarray(products.column_pairs(b.T)), a.shape[0])


@numba.njit
def outputs(of, index, inputs):
    return linear(of, index, inputs)


@settings(max_examples=60)
@given(sizes, sizes, sizes, st.integers(0, 99))
def test_products_of_pairs_are_those_of_the_numbers(rows, inner, columns, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(-200, 201, (rows, inner)).astype(np.float32)
    b = rng.integers(-largest, largest + 1, (inner, columns)).astype(np.float32)
    want = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(by_columns(a, b)[:rows, :columns], want)
    assert np.array_equal(by_columns_alone(a, b)[:rows, :columns], want)
    assert np.array_equal(by_rows(np.ascontiguousarray(a.T), b)[:rows, :columns], want)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_numbers_have_their_products(sign):
    a, b = np.full((1, 2), largest, np.float32), np.full((2, 1), sign * largest, np.float32)
    assert by_columns(a, b)[0, 0] == sign * 2 * largest**2


@given(sizes, sizes, sizes, st.integers(0, 99))
def test_a_layer_gives_the_same_with_integers_and_with_floats(inputs, outputs_, pixels, seed):
    rng = np.random.default_rng(seed)
    shifts = rng.integers(1, 20, (2, outputs_))
    integers = rng.integers(-70, 71, (2, inputs + 1, outputs_)).astype(np.float32)
    short = layers(integers * np.ldexp(np.float32(1), -shifts)[:, None], shifts, inputs, 2047)
    assert short.are_short.all()
    floats = short._replace(are_short=np.zeros(2, bool))
    a = rng.integers(-2047, 2048, (inputs, pixels)).astype(np.float32)
    assert np.array_equal(outputs(short, 1, a), outputs(floats, 1, a))


def test_a_layer_with_a_long_weight_uses_floats():
    matrices, shifts = np.ones((2, 3, 4), np.float32), np.zeros((2, 4), np.int64)
    matrices[1, 1, 2] = largest + 1
    assert layers(matrices, shifts, 2, 256).are_short.tolist() == [True, False]
    assert not layers(matrices, shifts, 2, largest + 1).are_short.any()
