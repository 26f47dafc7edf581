"""Adaptive probabilities, in integers: what contexts remember.

Three kinds, as in Mahoney's PAQ (2005). All are probabilities of a 1.

- A counter has 22 bits of probability and 10 bits of uses. The more uses it had, the less a bit moves it.
- A history has 16 bits of probability and 8 bits of state, the numbers of zeros and ones that a context saw lately.
- A stage is a table over logits: it corrects a mixed logit by what bits were after similar ones. (PAQ calls it an
  adaptive probability map, others secondary symbol estimation.)
"""

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.base.instructions import prefetch
from dqcodec.frozen.mixing import FINE_STRETCH, RATES
from dqcodec.frozen.pixel_mixing import MAX_COUNT, NEXT, STAGE_CELLS, STAGE_RATE, STAGE_STEP, STATE_RATES

_LINE = 16  # numbers of 4 bytes in a line of the cache
UNUSED = 1 << 31  # a counter: probability 1 / 2, no uses


@part_of_loop_in_place
def moved(counter, target, most):
    """A counter (int64) after its 22 bits have moved toward a target. most: the uses at which their number stays."""
    uses, value = counter & 1023, counter >> 10
    return value + ((target - value) * RATES[uses] >> 16) << 10 | min(uses + 1, most)


@part_of_loop_in_place
def count(counters, at, bit):
    """Count a bit in counter `at` of uint32."""
    counters[at] = moved(np.int64(counters[at]), (bit << 22) - bit, MAX_COUNT)


@part_of_loop_in_place
def counted(counters, at):
    """The logit of counter `at`."""
    return np.int64(FINE_STRETCH[counters[at] >> 16])


@part_of_loop_in_place
def history_after(history, bit):
    """A history (int64) after a bit."""
    state, probability = history & 255, history >> 8
    probability += ((bit << 16) - bit - probability) * STATE_RATES[state] >> 16
    return probability << 8 | NEXT[bit, state]


@part_of_loop_in_place
def interpolated(table, row, place):
    """The value of a row of a table over logits, times STAGE_STEP, and the nearer cell.

    Args:
        table: (rows, STAGE_CELLS + 1), a cell every STAGE_STEP logits.
        place: a logit, counted from the first cell.
    """
    cell = place // STAGE_STEP
    beyond = place - cell * STAGE_STEP
    value = np.int64(table[row, cell]) * (STAGE_STEP - beyond) + np.int64(table[row, cell + 1]) * beyond
    return value, cell + np.int64(2 * beyond > STAGE_STEP)


@part_of_loop_in_place
def staged(stages, row, logit):
    """The probability, 65536ths, that a stage gives to a logit, and the nearer cell of its table.

    Args:
        stages: probabilities, 2^-20, int32 (rows, STAGE_CELLS + 1).
        row: the context.
    """
    value, cell = interpolated(stages, row, logit + STAGE_STEP * STAGE_CELLS // 2)
    return value // (16 * STAGE_STEP), cell


@part_of_loop_in_place
def prefetch_stage(stages, row):
    """Begin to load a row of a stage."""
    for cell in range(0, stages.shape[1], _LINE):
        prefetch(stages, row * stages.shape[1] + cell)


@part_of_loop_in_place
def learn_stage(stages, row, cell, bit):
    """Move a cell of a stage toward a bit."""
    stages[row, cell] += ((bit << 20) - (bit << 4) - stages[row, cell]) >> STAGE_RATE
