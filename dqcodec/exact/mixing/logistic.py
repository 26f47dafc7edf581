"""Logistic mixing (Mahoney 2005), in integers: logits of several predictions, weighted, give one.

Logits are in units of 1/256, from -LIMIT to LIMIT. Probabilities are those of a 1, in 65536ths.
"""

import numpy as np

from dqcodec.base.compiled import compiled
from dqcodec.frozen.mixing import FINE_STRETCH, LIMIT, SQUASH

_UNIT_BITS = 16  # weights are in units of 2^-16


@compiled
def stretch(probability):
    """The logit of a probability, 0 to 65535."""
    return np.int64(FINE_STRETCH[probability])


@compiled
def squash(logit):
    """The probability, 1 to 65535, of a logit."""
    return np.int64(SQUASH[logit + LIMIT])


@compiled
def mixed(weights, inputs):
    """The logit that is the weighted sum of logits.

    Args:
        weights: int32 (n,), 2^-16.
        inputs: the logits, int32 (n,).
    """
    total = np.int64(0)
    for i in range(len(inputs)):
        total += np.int64(weights[i]) * np.int64(inputs[i])
    return min(LIMIT, max(-LIMIT, total >> _UNIT_BITS))


@compiled
def learn(weights, inputs, error, rate):
    """Change weights so that the mixed logit is nearer to a bit.

    Args:
        weights: int32 (n,), changed.
        inputs: the logits that were mixed, int32 (n,).
        error: 65536 times the bit, less the mixed logit's probability.
        rate: at most 64.
    """
    step = np.int32(error * rate >> 4)
    for i in range(len(inputs)):
        weights[i] += np.int32(np.int32(inputs[i] * step) + (1 << 13)) >> 14
