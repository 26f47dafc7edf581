"""Hashes of contexts, uint64: each extends a hash by a value. Three, as files need the one
that their method began with.
"""

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place


@part_of_loop_in_place
def hashed(hash_, value):
    """Pixels and coefficients: exclusive or, then a product."""
    return (hash_ ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15) ^ (hash_ >> np.uint64(29))


@part_of_loop_in_place
def hashed_by_products(hash_, value):
    """Context mixing: a product, a sum, a product."""
    return (hash_ * np.uint64(0x9E3779B97F4A7C15) + np.uint64(value) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)


@part_of_loop_in_place
def hashed_by_sum(hash_, value):
    """Experts: a sum, then a product."""
    hash_ = (hash_ + np.uint64(value)) * np.uint64(0xE7037ED1A0B428DB)
    return hash_ ^ hash_ >> np.uint64(29)


@part_of_loop_in_place
def place_of(hash_, bits):
    """The place of a hash in a table of 2^bits."""
    return np.int64(hash_ * np.uint64(0xD6E8FEB86659FD93) >> np.uint64(64 - bits))
