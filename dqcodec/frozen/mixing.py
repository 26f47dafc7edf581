"""The methods mixing and model mixing."""

import math

import numpy as np

MARGIN = 2  # how far contexts reach, pixels
ORDERS = {1: [0], 2: [1, 0], 3: [1, 0, 2], 4: [3, 1, 0, 2]}  # of channels
CONTEXTS = 18
INPUTS = 2 * CONTEXTS + 1  # two of each, and the model's
MAX_SLOT_BITS = 16  # slots of each context, 64 bytes each

# Logits are in units of 1/256, between -LIMIT and LIMIT; probabilities, always of a 1, in 1/65536. No value is so near to
# a half that another machine's exp could round it otherwise.
LIMIT = 2815
SQUASH = np.array([round(65536 / (1 + math.exp(-logit / 256))) for logit in range(-LIMIT, LIMIT + 1)])
STRETCH = np.searchsorted(SQUASH, np.arange(4096) * 16 + 8) - LIMIT
MIN_PROBABILITY = 16
# A state is how many zeros and ones a context saw of late, 4 bits each; 0 is none. How it starts to be understood:
STATES = np.array([65536 * (5 * (state & 15) + 2) // (5 * ((state >> 4) + (state & 15)) + 4) for state in range(256)])
RATES = np.array([65536 * 2 // (2 * count + 3) for count in range(256)])  # by how often something was updated before
MIN_USES, MAX_USES = 6, 240
WEIGHT = 65536 // 10
