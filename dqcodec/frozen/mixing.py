"""Constants of the methods mixing and model mixing."""

import math

import numpy as np

ORDERS = {1: [0], 2: [1, 0], 3: [1, 0, 2], 4: [3, 1, 0, 2]}  # number of channels -> order in which they are coded
CONTEXTS = 18
INPUTS = 2 * CONTEXTS + 1  # two of each context, and the model's
MAX_SLOT_BITS = 16  # log2 of the slots of a context; a slot has 64 bytes

# Logits are in units of 1/256, between -LIMIT and LIMIT. Probabilities are those of a 1, in units of 1/65536.
# No value is close to a half, so that any machine's exp rounds it to the same integer.
LIMIT = 2815
SQUASH = np.array([round(65536 / (1 + math.exp(-logit / 256))) for logit in range(-LIMIT, LIMIT + 1)])
STRETCH = np.searchsorted(SQUASH, np.arange(4096) * 16 + 8) - LIMIT
FINE_STRETCH = (np.searchsorted(SQUASH, np.arange(65536)) - LIMIT).astype(np.int16)
MIN_PROBABILITY = 16
# A state is the number of zeros and ones that a context saw lately, 4 bits each; 0 is none.
# STATES: the first probability of each state.
STATES = np.array([65536 * (5 * (state & 15) + 2) // (5 * ((state >> 4) + (state & 15)) + 4) for state in range(256)])
RATES = np.array([65536 * 2 // (2 * count + 3) for count in range(256)])  # of a counter, by its uses
MIN_USES, MAX_USES = 6, 240
WEIGHT = 65536 // 10
