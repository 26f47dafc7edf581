"""Fixed-point logarithms, and uniform laws on the stack."""

LOG2_BITS = 24  # a logarithm is in units of 2^-24 bits
EXP2_BITS = 30  # 2^x, x <= 0, is in units of 2^-30
UNIFORM_BITS = 23  # a uniform symbol is the high part of an integer of at most 23 bits ...
SPARE_BITS = 11  # ... which has 11 bits more than the symbol
