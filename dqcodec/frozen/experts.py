"""Constants of the method experts."""

import numpy as np

# neighbours (rows down, columns to the right)
MARGIN = 4  # columns at both sides of an image
UP, DOWN = 3, 1  # rows above and below it
OWN = np.array(
    [(0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0), (-1, 2), (-1, -2), (-2, 1), (-2, -1), (0, -3), (-3, 0)]
    + [(-2, 2), (-2, -2), (-1, 3), (-1, -3), (-3, 1), (-3, -1), (0, -4), (-3, 2), (-3, -2), (-2, 3), (-2, -3), (-1, 4)]
)
OWN_FIRST, OWN_WIDE, OWN_LATER = 12, 24, 8  # regressors among these: of the first channel, if it is wide, and of others
NEAREST = 4  # of these, which give the mean and come first in a regression
OTHER = np.array([(0, 0), (0, -1), (-1, 0), (0, 1), (1, 0)])  # of each earlier channel

# regressions: a short and a long memory
DECAYS = np.array([23 / 32, 63 / 64])  # of a row above, and of a pixel to the left
PERSISTENCES = np.array([5 / 8, 31 / 32])  # of a column, for each column to its right
REFIT = 8  # columns between two fits of the long memory
RIDGE, LEAST_PIVOT = 1 / 16, 1 / 1024
PREDICTIONS = 8

# laws: Student's t with 4 degrees of freedom
LAWS = 8
GRID, RANGE = 32, 64  # the table of its distribution function: z = -RANGE to RANGE, in steps of 1 / GRID
LEAST_SCALE = 1 / 32
SHARP_INVERSE = 4.0  # of the scale of a law whose place continues a surface


def _distribution() -> np.ndarray:
    z = np.arange(-GRID * RANGE, GRID * RANGE + 1) / GRID
    sine = z / 2 / np.sqrt(z * z / 4 + 1)
    below = 0.5 + sine * (3 - sine * sine) / 4
    below[0], below[-1] = 0.0, 1.0
    return below


def _quantiles() -> np.ndarray:
    """The quantiles of the nodes 0 (none), 1, 2, ...: each node halves the range that its parent left."""
    digits = [node.bit_length() for node in range(1, 1 << DEPTH)]
    targets = [(2 * (node - (1 << d - 1)) + 1) / (1 << d) for node, d in enumerate(digits, 1)]
    return np.append(0.0, (np.searchsorted(DISTRIBUTION, targets) - GRID * RANGE) / GRID)


# decisions: a tree of quantiles, then steps into a tail
DEPTH = 5
NODES = 64
STEPS, SHARP_STEPS = 16, 8  # that differ; the nodes of the others are those of CANDIDATES in a sharp channel
CANDIDATES = np.array([7, 3, 5, 1, 2, 6, 4, 0])  # laws whose places a sharp channel tries first
DISTRIBUTION = _distribution()
QUANTILES = _quantiles()

# mixing
HISTOGRAMS, DIRECT = 5, 2
INPUTS = LAWS + HISTOGRAMS + DIRECT + 1
CONTEXTS = 2048  # of a histogram
DIRECT_BITS = 16
SETS = 3
LAW_WEIGHT, OTHER_WEIGHT = 7168, 3277
MIN_PROBABILITY = 16
HISTOGRAM_USES, DIRECT_USES = 250, 60
CELLS = 32  # of a refinement, over all logits

# bounds
MAX_WIDTH = 1 << 15  # the regressions of a row take up to 6 KB a column
MAX_SAMPLE_BYTES = 110  # at most 73 decisions of 12 bits
MAX_SAMPLES_A_BYTE = 23_000  # a sample takes at least one decision; the most certain one takes log2(65536 / 65520) bits
