"""The method flow."""

# networks
INPUT_BITS = 8  # what a network sees is on a grid of 2^-8 ...
INPUT_RANGE = 8  # ... and clamped to [-8, 8]
INPUT_BOUND = INPUT_RANGE << INPUT_BITS
LOG_SCALE_BITS = 6  # raw log-scales come out on a grid of 2^-6 ...
LOG_SCALE_BOUND = 16 << LOG_SCALE_BITS  # ... and are clamped to [-16, 16], where 3 tanh(raw / 3) is flat
LOCATION_BOUND = 1 << 30  # of a network's location output, in grid units

# transforms
SCALE_BITS = 10  # r: scales are R / S, R = 2^r
R = 1 << SCALE_BITS
MAX_SCALE = 1 << 18  # of S
SHEAR_BITS = 14
MAX_LATENT = 1 << 38  # beyond, sums and products might leave 2^63

# table laws
PRECISION = 20  # P: frequencies sum to 2^P
MIN_CHUNK, CHUNKS = 1 << 10, 4  # an array is coded in so many parts, each at least so long
ESCAPE_WORDS, WORD_BITS = 3, 16  # how far beyond its table a law reaches, in bits: ESCAPE_WORDS * WORD_BITS

# bits-back with particles
MAX_PARTICLES = 64
CHOICE_BITS = 22  # of the law of particles

# payloads
MAX_BATCH_DIMS = 3 << 17  # tiles are coded in batches of at most so many dimensions
