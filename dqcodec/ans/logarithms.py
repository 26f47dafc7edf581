"""log2 and 2^x on integers, in fixed point. All machines give the same numbers; floating-point logarithms do not.

The unit of a fixed-point logarithm is 2^-LOG2_BITS bits.
"""

from math import isqrt

import numpy as np

from dqcodec.frozen.ans import EXP2_BITS, LOG2_BITS

ONE = 1 << LOG2_BITS  # one bit
_MANTISSA_BITS = 31


def log2(numbers: np.ndarray) -> np.ndarray:
    """Fixed-point log2 of integers 1 .. 2^31 - 1, int64, rounded down. Each squaring gives the next binary digit."""
    numbers = np.asarray(numbers, np.int64)
    whole = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1  # exact below 2^53
    mantissa = (numbers << (_MANTISSA_BITS - whole)).astype(np.uint64)  # 2^31 .. 2^32
    digits = np.zeros(numbers.shape, np.int64)
    for _ in range(LOG2_BITS):
        mantissa = mantissa * mantissa >> np.uint64(_MANTISSA_BITS)
        carry = mantissa >> np.uint64(_MANTISSA_BITS + 1)
        mantissa >>= carry
        digits = digits << 1 | carry.astype(np.int64)
    return (whole << LOG2_BITS) + digits


def _halvings() -> list[int]:
    """2^-(1/2), 2^-(1/4), ..., in units of 2^-62."""
    powers, power = [], 1 << 61
    for _ in range(LOG2_BITS):
        power = isqrt(power << 62)
        powers.append(power)
    return powers


_HALVINGS = [power >> (62 - EXP2_BITS) for power in _halvings()]


def exp2(logarithms: np.ndarray) -> np.ndarray:
    """2^EXP2_BITS times 2^x for fixed-point x <= 0, int64. The result is 0 for very small x."""
    below = -np.asarray(logarithms, np.int64)
    power = np.full(below.shape, 1 << EXP2_BITS, np.int64)
    for digit, halving in enumerate(_HALVINGS, 1):
        is_set = below >> (LOG2_BITS - digit) & 1
        power = np.where(is_set, power * halving >> EXP2_BITS, power)
    return power >> np.minimum(below >> LOG2_BITS, 62)
