"""Logistic mixing (Mahoney 2005), in integers: logits of several predictions, weighted, give one.

Logits are in units of 1/256, from -LIMIT to LIMIT. Probabilities are those of a 1, in 65536ths.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.frozen.mixing import FINE_STRETCH, LIMIT, SQUASH

_UNIT_BITS = 16  # weights are in units of 2^-16


@part_of_loop_in_place
def stretch(probability):
    """The logit of a probability, 0 to 65535."""
    return np.int64(FINE_STRETCH[probability])


@part_of_loop_in_place
def squash(logit):
    """The probability, 1 to 65535, of a logit."""
    return np.int64(SQUASH[logit + LIMIT])


@part_of_loop_in_place
def mixed(weights, row, inputs):
    """The logit that is the weighted sum of logits.

    Args:
        weights: int32 (rows, n), 2^-16. A view of one row would cost more than its sum.
        row: of the weights.
        inputs: the logits, int32 (n,).
    """
    total = np.int64(0)
    for i in range(len(inputs)):
        total += np.int64(weights[row, i]) * np.int64(inputs[i])
    return min(LIMIT, max(-LIMIT, total >> _UNIT_BITS))


@part_of_loop_in_place
def learn(weights, row, inputs, error, rate):
    """Change weights so that the mixed logit is nearer to a bit.

    Args:
        weights, row, inputs: see mixed; the row is changed.
        error: 65536 times the bit, less the mixed logit's probability.
        rate: at most 64.
    """
    step = np.int32(error * rate >> 4)
    for i in range(len(inputs)):
        weights[row, i] += np.int32(np.int32(inputs[i] * step) + (1 << 13)) >> 14


@part_of_loop_in_place
def rate_after(samples):
    """The rate of the weights of mixing and pixel mixing, after this number of samples: from 46 down to 6."""
    return 6 + 40 * 256 // (256 + samples)


class Network(NamedTuple):
    """Mixing in two layers: contexts select rows of weights, each row mixes the inputs, and
    final weights mix their logits.

    Attributes:
        weights: int32 (rows, inputs), 2^-16.
        finals: int32 (final rows, sets), 2^-16.
        inputs: the logits to mix, int32 (inputs,).
        rows: the selected rows, int64 (sets,).
        logits: those of the first layer, int32 (sets,).
    """

    weights: np.ndarray
    finals: np.ndarray
    inputs: np.ndarray
    rows: np.ndarray
    logits: np.ndarray

    @classmethod
    def new(cls, weights: np.ndarray, finals: np.ndarray) -> "Network":
        """A network that starts with these weights; the arrays change."""
        inputs, sets = weights.shape[1], finals.shape[1]
        return cls(weights, finals, np.zeros(inputs, np.int32), np.zeros(sets, np.int64), np.zeros(sets, np.int32))


@part_of_loop_in_place
def mixed_twice(network, final):
    """The logit of a network. final: the row of the final weights."""
    for k in range(len(network.rows)):
        network.logits[k] = mixed(network.weights, network.rows[k], network.inputs)
    return mixed(network.finals, final, network.logits)


@part_of_loop_in_place
def learn_twice(network, final, target, probability, rate, final_rate):
    """Change a network's weights after a bit.

    Args:
        network, final: see mixed_twice.
        target: 65535 or 65536 times the bit.
        probability: that of the network's logit.
        rate, final_rate: of both layers, see learn.
    """
    for k in range(len(network.rows)):
        learn(network.weights, network.rows[k], network.inputs, target - squash(network.logits[k]), rate)
    learn(network.finals, final, network.logits, target - probability, final_rate)
