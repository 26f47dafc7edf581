"""Fixed-point logarithms, and uniforms on the stack."""

LOG2_BITS = 24  # a logarithm counts 2^-24 bits
EXP2_BITS = 30  # of 2^x, x <= 0: 2^0 is 2^30
UNIFORM_BITS = 23  # the symbol of a uniform is the high part of an integer of at most 23 bits ...
SPARE_BITS = 11  # ... and of 11 more than the symbol has
