"""Constants of the method trained mixing; others are those of frozen/pixel_mixing.py.

trained_mixing.npz beside this file, which benchmarks/priors.py wrote, has what was learned; see exact/mixing/priors.py.
"""

from dqcodec.frozen import pixel_mixing

TABLE_SHA256 = "9f87d78f05bb05a60075962c128120be89c769d717c81ed30563ac3f05c55174"
LAWS = 8
LEVELS = (0, 2, 6, 15, 40)  # a difference is of the level that is the number of these below it
LAW_ROWS = 4 * 3 * 6 * 6  # channel, alpha, levels of the neighbours' spread and of the surprise
FIRST_LAW = 2 * pixel_mixing.CONTEXTS + 3  # of the inputs
INPUTS = 64  # one of each law follows those of exact/mixing/bit_mixing.py; zeros fill the rest, because sums of 64 terms are fast
SETS = pixel_mixing.SETS + 1  # the last one by the row of the laws
FIRST_LAW_ROW = pixel_mixing.ROWS
ROWS = pixel_mixing.ROWS + LAW_ROWS
SLOPE = 355  # logits a sample of a law with a mean absolute error of 1: 256 * 2 ln 2
LEAST_ERROR = 1 << 11  # added to a mean absolute error, in units of 2^-14
MAX_USES = 60  # of a mean absolute error
LEAST_SHARE = 256  # of a law's distribution function; less is a tail
USES = 20  # of counters that training has used
DONE = 500  # samples that training counts for: the weights' rate falls with their number
