"""Constants of the methods autoregressive and model mixing."""

# contexts
# (rows up, columns to the right), the nearest first; the first six give the local mean and spread
NEIGHBOURS = (
    (0, -1), (1, 0), (1, -1), (1, 1), (0, -2), (2, 0),
    (0, -3), (1, -3), (1, -2), (1, 2), (2, -2), (2, -1), (2, 1), (2, 2), (3, -1), (3, 0), (3, 1),
)  # fmt: skip
MOMENT_WEIGHTS = (2, 2, 1, 1, 1, 1)  # in eighths
REACH = 3  # the largest distance of a neighbour, rows or columns
FEATURE_PLACES = ((0, -1), (0, -2), (1, -1), (1, 0), (1, 1), (2, 0))
GRID = 32  # inputs of networks are in units of 1/32 ...
STANDARD_BOUND = 8  # ... and within [-8, 8]
INPUT_BOUND = STANDARD_BOUND * GRID
SPREAD_FLOOR = 32  # added to a spread: half a pixel step, in units of 1/64

# least squares
OWN_REGRESSORS = 5  # of the plane itself: W, N, NW, NE, WW, less the mean; the sixth neighbour follows from these
OTHER_REGRESSORS = 2  # of each earlier plane: the pixel, and W, less the mean of W and N; N follows from these
DECAY = 27 / 32  # of a row above, and of a pixel to the left
PERSISTENCE = 3 / 4  # of a column, for each column to its right
TAPS = (9 / 16, 21 / 64, 7 / 16)  # of the columns x + 2, x + 1, x: so x + 2, x + 1, x, x - 1 weigh 9/16, 3/4, 1, 3/4
RIDGE, LEAST_PIVOT = 1 / 4, 1 / 8
PREDICTION_BITS = 6  # predictions are in steps of 2^-6 of a pixel step
ERROR_FLOOR = 2 << PREDICTION_BITS  # a quarter of a pixel step: sums of errors are in eighths
PREDICTED = 4  # numbers that a network sees of a prediction


def inputs(planes: int) -> int:
    """The number of inputs from the neighbours of a pixel with P planes, without their features."""
    return planes * (len(NEIGHBOURS) + 2) + 2


def predicted_inputs(planes: int) -> int:
    """The number of inputs from predictions: four of the first plane, two of each other plane."""
    return PREDICTED + 2 * (planes - 1)


# the order of coding
# a neighbour is at most SLOPE - 1 columns to the right per row up, so pixels of equal x + SLOPE y are independent
SLOPE = 3
FRONT = 512  # pixels: long vectors are fast, but the last layers learn only once a front
LEAST_CHUNK = 2  # pixels
# bits of coded samples that pay the loan of one more pixel, if each takes at least half a bit of code
BITS_FOR_ONE = 128
SHALLOW_CHUNK = 32  # the largest chunk below 8 bits, where many pixels may take almost no code
MAX_STACK_PIXELS = 1 << 20  # a pixel takes about 100 bytes of memory

# networks
MAX_LOGIT = 1 << 20
MAX_LOG_SCALE = 1 << 14

# mixtures
TOTAL_BITS = 19
TOTAL = 1 << TOTAL_BITS  # slots of a law
POSITION_BITS = 6  # positions are in units of 1/64 pixel step
MEAN_GRID = 256  # means are in units of 1/256 spread ...
MEAN_BOUND = 16 * MEAN_GRID  # ... up to 16 spreads
LEAST_MEAN, LARGEST_MEAN = -320 << POSITION_BITS, 576 << POSITION_BITS
LOGIT_GRID = 32
LOGIT_RANGE = 16 * LOGIT_GRID  # a component with a logit this far below the largest has almost no weight
WEIGHT_BITS = 14
LOG2_SCALE_GRID = GRID  # the same grid as log-spreads, so that both can be added
LOG2_SCALE_LOW, LOG2_SCALE_HIGH = -4 * LOG2_SCALE_GRID, 7 * LOG2_SCALE_GRID
SIGMOID_CELLS = 8192  # over [-16, 16)
SIGMOID_GRID = SIGMOID_CELLS // 32
INVERSE_SCALE_BITS = 11  # inverse scales are in units of 2^-11 per pixel step

# learning
GRADIENT_GRID = 1024  # gradients are in units of 1/1024 nat ...
GRADIENT_BOUND = 64 * GRADIENT_GRID  # ... up to 64 nats
MOMENTUM, SECOND_MOMENTUM = 0.9, 0.99
EPSILON = 1.0  # of Adam, in units of the sums of integer gradients
EXACT = float(1 << 24)  # a step is skipped if a sum could reach this: float32 would not be exact
NET_GRADIENT_BOUND = 63  # of gradients with respect to sums of the network; their unit is the model's
LEAST_BATCH = 256  # pixels, at least, from which the network's layers learn in a step
