"""Constants of the method jpeg: those of JPEG decoders, and of the coding of coefficients."""

import numpy as np

# Blocks. A coefficient (v, u) has the vertical frequency v and the horizontal frequency u; its place is 8 v + u.
ZIGZAG = np.array([
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55,
    62, 63,
])  # fmt: skip
# The tables of ITU-T T.81, Annex K.1, by place.
LUMA = np.array([
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87,
    80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92,
    95, 98, 112, 100, 103, 99,
])  # fmt: skip
CHROMA = np.array([
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99,
])  # fmt: skip
MAX_STEP = 255

# The inverse transform: 8192 sqrt(2) cos(k pi / 16) and sums of these, as Loeffler,
# Ligtenberg and Moschytz (1989) use them.
FIX_0_298, FIX_0_390, FIX_0_541, FIX_0_765, FIX_0_899, FIX_1_175 = 2446, 3196, 4433, 6270, 7373, 9633
FIX_1_501, FIX_1_847, FIX_1_961, FIX_2_053, FIX_2_562, FIX_3_072 = 12299, 15137, 16069, 16819, 20995, 25172
CONSTANT_BITS, PASS_BITS = 13, 2

# Colours, ITU-R BT.601 with full range: 65536 times 1.402, 1.772, 0.71414, 0.34414, rounded.
RED, BLUE, GREEN_BY_RED, GREEN_BY_BLUE = 91881, 116130, 46802, 22554

# Coding of coefficients, see frozen/mixing.py and frozen/pixel_mixing.py for what it shares with other methods.
CONTEXTS = 16
INPUTS = 17  # one of each context, and a constant
SETS = 3  # of weights
FIRST_ROWS = (0, 600, 1112)  # of each set's weights; 1624 rows in all
ROWS = 1624
FIRST_WEIGHT = 65536 * 3 // 10
FIRST_FINAL_WEIGHT = 65536 // SETS
RATE, FINAL_RATE = 12, 2
MAX_TABLE_BITS = 18  # log2 of the counters of a context
STAGE_ROWS = 600
MIN_PROBABILITY = 32
MAX_BLOCKS_A_BYTE = 1623  # a block takes at least 7 decisions; the most certain ones take log2(65536 / 65504) bits
MAX_EXPONENT = 13  # binary digits of a coded number
MAX_NUMBER = 4095
EDGE, INNER = 1024, 1448  # a coefficient's part of a sample at a block's edge: 1024 for frequency 0, else 1024 sqrt(2)
