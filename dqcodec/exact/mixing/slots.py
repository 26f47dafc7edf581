"""Where contexts remember the bits that they saw: slots of a history for each node of 4 bits (see counters.py).

Most contexts are used once. Of these only the node is kept that their 4 bits reached, which says all histories. A slot
is made at the second use. So contexts that are used once take little memory, and little time.
"""

from typing import NamedTuple

import numpy as np

from dqcodec.base.compiled import part_of_loop_in_place
from dqcodec.base.instructions import prefetch
from dqcodec.exact.mixing.counters import history_after

_SLOT = 16  # numbers of a slot: one line of the cache; the first is unused
_LINE_BYTES = 64
_FIRST = 32  # the number of the first slot for a second use; nodes of 4 bits, and what follows them, are 1 to 31
_NEW = 32768 << 8  # a history without bits


class Slots(NamedTuple):
    """The slots of several contexts.

    Attributes:
        entries: of all slots, uint32. The first slots are for contexts at their first use, one for each. The others lie
            in the order of their contexts' second use.
        places: for each context and hash, uint64: above a check of 32 bits, below it the number of the slot, if that is
            at least _FIRST, else the node that the only use reached, or 0 before any use.
        last: the number of the last slot, int64 (1,).
        at: for each context the first entry of its slot at hand, its place and its check, shifted, int64 (3, contexts).
        bits: log2 of the hashes of a context.
    """

    entries: np.ndarray
    places: np.ndarray
    last: np.ndarray
    at: np.ndarray
    bits: int

    @classmethod
    def new(cls, contexts: int, bits: int) -> "Slots":
        """Of contexts (at most _FIRST) that were never used."""
        # the system gives memory where it is used
        room = np.empty(_SLOT * (_FIRST + (contexts << bits) + 1), np.uint32)
        lines = room[-room.ctypes.data % _LINE_BYTES // room.itemsize :]
        at = np.zeros((3, contexts), np.int64)
        return cls(lines, np.zeros(contexts << bits, np.uint64), np.array([_FIRST - 1]), at, bits)


@part_of_loop_in_place
def choose(slots, i, hash_, check):
    """Choose the place of context i by a hash. check: uint32, by which contexts with the same place differ."""
    place = (i << slots.bits) + np.int64(hash_ >> np.uint64(64 - slots.bits))
    slots.at[1, i], slots.at[2, i] = place, np.int64(np.uint64(check) << np.uint64(32))
    prefetch(slots.places, place)


@part_of_loop_in_place
def find(slots):
    """Find the slots of the chosen places. A slot of another check is cleared."""
    entries, places, at = slots.entries, slots.places, slots.at
    low = np.uint64(0xFFFFFFFF)
    for i in range(at.shape[1]):  # all loads start together, because memory is slow
        prefetch(entries, np.int64(places[at[1, i]] & low) * _SLOT)
    for i in range(at.shape[1]):
        found, check = places[at[1, i]], np.uint64(at[2, i])
        slot, path, is_own = np.int64(found & low), np.int64(0), found & ~low == check
        if slot < _FIRST:
            slot, path = np.int64(i), slot if is_own else np.int64(0)
            if path:
                slots.last[0] += 1
                slot = slots.last[0]
            is_own = False
        first = slot * _SLOT
        if not is_own:
            for j in range(first, first + _SLOT):
                entries[j] = _NEW
        if path:
            _follow(entries, first, path)
        if slot >= _FIRST:
            places[at[1, i]] = check | np.uint64(slot)
        at[0, i] = first


@part_of_loop_in_place
def _follow(entries, first, node):
    """Enter in a cleared slot the bits that lead to a node."""
    left, here = np.int64(0), np.int64(1)
    while node >> left > 1:
        left += 1
    while left:
        left -= 1
        bit = node >> left & 1
        entries[first + here] = history_after(np.int64(_NEW), bit)
        here = 2 * here + bit


@part_of_loop_in_place
def leave(slots, node):
    """Leave the slots after 4 bits, or a sample's last ones. node: 1, and these bits."""
    places, at = slots.places, slots.at
    for i in range(at.shape[1]):
        if at[0, i] < _FIRST * _SLOT:
            places[at[1, i]] = np.uint64(at[2, i]) | np.uint64(node)
