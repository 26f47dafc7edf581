"""Constants of the method flow."""

# networks
INPUT_BITS = 8  # inputs of networks are on a grid of 2^-8 ...
INPUT_RANGE = 8  # ... and clamped to [-8, 8]
INPUT_BOUND = INPUT_RANGE << INPUT_BITS
LOG_SCALE_BITS = 6  # raw log-scales of networks are on a grid of 2^-6 ...
LOG_SCALE_BOUND = 16 << LOG_SCALE_BITS  # ... and are clamped to [-16, 16], where 3 tanh(raw / 3) is flat
AROUND = tuple((dy, dx) for dy in range(3) for dx in range(3) if (dy, dx) != (1, 1))  # the neighbours of (1, 1)
LOCATION_BOUND = 1 << 30  # the largest location of a network, in grid units

# transforms
SCALE_BITS = 10  # r: scales are R / S, R = 2^r
R = 1 << SCALE_BITS
MAX_SCALE = 1 << 18  # S is below this
SHEAR_BITS = 14
MAX_LATENT = 1 << 38  # for larger latents, sums and products might reach 2^63

# table laws
PRECISION = 20  # P: frequencies sum to 2^P
MIN_CHUNK, CHUNKS = 1 << 10, 4  # an array is coded in at most 4 parts; all except the last have 1024 elements or more
ESCAPE_WORDS, WORD_BITS = 3, 16  # a law reaches 2^(ESCAPE_WORDS * WORD_BITS) cells beyond its table

# bits-back with particles
MAX_PARTICLES = 64
CHOICE_BITS = 22  # bits of precision of the law of particles

# payloads
OWN_LOAN = MAX_PARTICLES + 1  # in place of the number of particles: the density codes the first tiles
OWN_SEED = 8  # zero bytes that the first symbol of an own loan borrows
MAX_GROWTH = 12  # of the parts of an own loan; for images that take even less code other methods are better, and faster
MAX_BATCH_DIMS = 3 << 17  # the largest batch of tiles, in dimensions
