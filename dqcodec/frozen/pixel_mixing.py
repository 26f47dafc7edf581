"""Constants of the method pixel mixing; logits are those of frozen/mixing.py."""

import numpy as np

from dqcodec.frozen import mixing

MARGIN = 6  # columns at both sides of a layer and rows above it; the largest distance of a context's pixel
DEFAULT_PERIODS = ((0, 3), (3, 0))  # rows up, columns left
STAGE_CELLS, STAGE_STEP = 32, 176  # a stage is a table over logits, in steps of 176
STAGE_RATE = 5  # an entry moves by 2^-5 of its error
# the first entries of a stage
STAGE = mixing.SQUASH[np.clip(STAGE_STEP * np.arange(STAGE_CELLS + 1) - 1, 0, 2 * mixing.LIMIT)] << 4
MAX_COUNT = 255  # uses of a counter, see mixing.RATES

# bits of samples
CONTEXTS = 22
INPUTS = 48  # two of each context, two of the matches, and zeros
SETS = 4  # of weights, that mix the inputs
FIRST_ROWS = (0, 96, 280, 568)  # of each set's weights; 824 rows in all
ROWS = 824
MAX_SLOT_BITS = 18  # log2 of the slots of a context; a slot has 64 bytes
MAX_STAGE_BITS = 14
FIRST_WEIGHT, FIRST_FINAL_WEIGHT = 65536 // 15, 65536 // SETS
FINAL_RATE = 2
# NEXT: the state after a bit, see mixing.STATES. A bit halves the count of the other bit if that is above 2.
_ZEROS, _ONES = np.arange(256) >> 4, np.arange(256) & 15
NEXT = np.array([
    np.minimum(_ZEROS + 1, 15) << 4 | np.where(_ONES > 2, _ONES + 1 >> 1, _ONES),
    np.where(_ZEROS > 2, _ZEROS + 1 >> 1, _ZEROS) << 4 | np.minimum(_ONES + 1, 15),
])  # fmt: skip
STATE_RATES = mixing.RATES[_ZEROS + _ONES]

# whole pixels
HIT_CONTEXTS = 8
HIT_INPUTS = 16  # one of each context, six others, and zeros
HIT_SETS = 3
HIT_ROWS = 576
FIRST_HIT_ROWS = (0, 64, 320)
FIRST_HIT_WEIGHT = 65536 * 2 // 10
HIT_RATE = 20
MAX_HIT_BITS = 20  # log2 of the counters of a context
LEAST_HIT = 63500  # a pixel is coded whole if its prediction is right with at least this probability, 65536ths
LONGEST = 31  # matches
LEAST_MATCH = 8

# the canvas of an animation
CANVAS_TRUST = 256  # the first of its counters of trust, by the neighbours that agree
CANVAS_ROW = HIT_CONTEXTS + HIT_SETS  # its own context comes after the rows of the weights
