import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqcodec.base.compiled import compiled_in_place
from dqcodec.exact.mixing import slots
from dqcodec.exact.mixing.counters import history_after
from dqcodec.exact.mixing.slots import Slots

_CONTEXTS, _BITS = 2, 2  # few hashes: places are shared, and used again
_NEW = 32768 << 8
_USE = st.tuples(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=_CONTEXTS, max_size=_CONTEXTS),
    st.integers(1, 4).flatmap(lambda count: st.lists(st.integers(0, 1), min_size=count, max_size=count)),
)


@compiled_in_place
def _use(tables, places, checks, bits, seen):
    """Use a slot for each context; sets the history that each has before each bit."""
    for i in range(len(places)):
        slots.choose(tables, i, np.uint64(places[i]) << np.uint64(62), checks[i])
    slots.find(tables)
    node = np.int64(1)
    for k in range(len(bits)):
        for i in range(len(places)):
            history = np.int64(tables.entries[tables.at[0, i] + node])
            seen[k, i] = history
            tables.entries[tables.at[0, i] + node] = history_after(history, bits[k])
        node = 2 * node + bits[k]
    slots.leave(tables, node)


class _Plain:
    """What Slots are for: a history for each place and node, which are forgotten when another check takes the place."""

    def __init__(self):
        self.checks, self.histories = {}, {}

    def use(self, keys, bits) -> list[list[int]]:
        """The histories before each bit."""
        for i, (place, check) in enumerate(keys):
            if self.checks.get((i, place)) != check:
                self.checks[i, place], self.histories[i, place] = check, {}
        seen, node = [], 1
        for bit in bits:
            of_places = [self.histories[i, place] for i, (place, _) in enumerate(keys)]
            seen.append([histories.get(node, _NEW) for histories in of_places])
            for histories in of_places:
                histories[node] = int(history_after(histories.get(node, _NEW), bit))
            node = 2 * node + bit
        return seen


@given(st.lists(_USE, max_size=30))
def test_slots_remember_what_a_table_of_all_histories_remembers(uses):
    tables, plain = Slots.new(_CONTEXTS, _BITS), _Plain()
    for keys, bits in uses:
        places, checks = np.array(keys).T
        seen = np.zeros((len(bits), _CONTEXTS), np.int64)
        _use(tables, places, checks.astype(np.uint32), np.array(bits), seen)
        assert seen.tolist() == plain.use(keys, bits)


@pytest.mark.parametrize("contexts", [1, 22])
def test_contexts_that_are_used_once_take_no_slot(contexts):
    tables = Slots.new(contexts, 4)
    before = tables.last[0]
    for place in range(8):
        for i in range(contexts):
            slots.choose(tables, i, np.uint64(place << 60), 1)
        slots.find(tables)
        slots.leave(tables, 0b10110)
    assert tables.last[0] == before


def test_slots_never_run_out():
    tables = Slots.new(1, 1)
    for check in range(1, 50):
        for _ in range(2):
            slots.choose(tables, 0, np.uint64(1 << 63), check)
            slots.find(tables)
            slots.leave(tables, 0b11111)
    assert (tables.last[0] + 1) * 16 <= len(tables.entries)
