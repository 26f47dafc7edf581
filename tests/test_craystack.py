"""Laws of the adapter: with craystack if it is importable, else with the stand-in in tests/.

craystack is on no registry; it needs autograd and scipy:

    git clone https://github.com/j-towns/craystack && pip install autograd scipy
    PYTHONPATH=craystack pytest tests/test_craystack.py
"""

import sys
from unittest import mock

import craystack_standin
import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.ans import uniform
from dqcodec.ans.protocol import MAX_SIZE
from dqcodec.base.errors import CorruptError, StackUnderflow, SymbolError

try:
    import craystack as cs
except ModuleNotFoundError:
    cs = craystack_standin
with mock.patch.dict(sys.modules, craystack=cs):
    from dqcodec.ans.craystack import CraystackStack, Message, model_codec

few = settings(max_examples=40)
fewer = settings(max_examples=5)
every_flow = pytest.mark.parametrize("kind", programs.KINDS)
sizes_of_symbols = st.lists(
    st.one_of(st.just(1), st.integers(1, 5), st.integers(1, MAX_SIZE), st.integers(0, 23).map(lambda bits: 1 << bits)),
    max_size=40,
).map(lambda sizes: np.array(sizes, np.int64))
head_shapes = st.sampled_from([(), (1,), (2,), (3,), (7,), (64,), (2, 3)])
lanes = st.integers(1 << 31, (1 << 63) - 1)  # a lane's whole range


def random_message(shape: tuple[int, ...], words: int, seed: int = 0) -> Message:
    """Lanes of every magnitude and both ends of their range, above random words in chunks."""
    rng = np.random.default_rng(seed)
    between = np.exp2(rng.uniform(31, 63, shape)).astype(np.uint64)
    head = np.choose(rng.integers(0, 12, shape).clip(0, 2), [np.uint64(1 << 31), np.uint64((1 << 63) - 1), between])
    tail = ()
    while words > 0:
        chunk = int(rng.integers(1, min(words, 50), endpoint=True))
        tail, words = (rng.integers(0, 1 << 32, chunk, np.uint32), tail), words - chunk
    return head, tail


def words_of(message: Message) -> np.ndarray:
    """The content of a message; it does not depend on the chunks of its tail."""
    return cs.rans.flatten(message)


def bits(message: Message) -> float:
    return 32 * (len(words_of(message)) - 2 * np.size(message[0])) + float(np.log2(message[0]).sum())


def assert_equal(message: Message, other: Message) -> None:
    assert message[0].dtype == other[0].dtype and message[0].shape == other[0].shape
    assert np.array_equal(words_of(message), words_of(other))


def symbols_below(sizes: np.ndarray, seed: int = 0) -> np.ndarray:
    """Some of them the first or the last one."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, sizes.shape)
    return np.where(kind == 0, 0, np.where(kind == 1, sizes - 1, rng.integers(0, sizes)))


@pytest.fixture(autouse=True)
def no_random_bits():
    """No test here draws from craystack's generator."""
    before = cs.rans.rng.bit_generator.state
    yield
    assert cs.rans.rng.bit_generator.state == before


# --- the stack


@few
@given(sizes_of_symbols, head_shapes, st.integers(0, 99), st.integers(0, 99))
def test_pop_undoes_push_and_restores_the_message(sizes, shape, words, seed):
    message, symbols = random_message(shape, words, seed), symbols_below(sizes, seed)
    stack = CraystackStack(message)
    stack.push(symbols, sizes)
    popped = stack.pop(sizes)
    assert popped.dtype == np.int64 and np.array_equal(popped, symbols)
    assert_equal(stack.message, message)


@few
@given(sizes_of_symbols, head_shapes, st.integers(0, 99))
def test_push_undoes_pop(sizes, shape, seed):
    message = random_message(shape, 200, seed)
    stack = CraystackStack(message)
    symbols = stack.pop(sizes)
    assert (0 <= symbols).all() and (symbols < sizes).all()
    stack.push(symbols, sizes)
    assert_equal(stack.message, message)


@few
@given(lanes, st.integers(1, MAX_SIZE), st.integers(0, (1 << 32) - 1))
def test_one_lane_of_any_value_and_any_size(lane, size, word):
    message = np.array([lane], np.uint64), (np.array([word], np.uint32), ())
    for symbol in {0, size // 2, size - 1}:
        stack = CraystackStack(message)
        stack.push(np.array([symbol]), size)
        assert stack.pop(size, (1,)) == symbol
        assert_equal(stack.message, message)
    stack = CraystackStack(message)
    stack.push(stack.pop(size, (1,)), size)
    assert_equal(stack.message, message)


@few
@given(st.integers(1, MAX_SIZE), st.sampled_from([(0,), (1,), (7,), (2, 3), (2, 0, 4), (2, 2, 3, 2)]), head_shapes)
def test_one_size_for_all_and_the_same_size_in_an_array_are_the_same(size, shape, head_shape):
    message = random_message(head_shape, 50)
    one, each = CraystackStack(message), CraystackStack(message)
    symbols = symbols_below(np.full(shape, size))
    one.push(symbols, size)
    each.push(symbols.astype(np.int32), np.full(shape, size, np.int32))
    assert_equal(one.message, each.message)
    assert np.array_equal(one.pop(size, shape), symbols) and np.array_equal(each.pop(np.full(shape, size)), symbols)


def test_any_array_layout_is_the_same_sequence():
    sizes = np.random.default_rng(0).integers(1, 1000, (6, 8))
    symbols = symbols_below(sizes)
    plain, other = CraystackStack(random_message((5,), 50)), CraystackStack(random_message((5,), 50))
    plain.push(symbols, sizes)
    other.push(np.asfortranarray(symbols), np.repeat(sizes, 2, 1)[:, ::2])
    assert_equal(plain.message, other.message)
    assert np.array_equal(other.pop(np.asfortranarray(sizes)), symbols)


def test_a_message_is_never_changed():
    message = random_message((4,), 60)
    before, words = message[0].copy(), words_of(message)
    stack = CraystackStack(message)
    halfway = stack.message
    stack.pop(1000, (90,))
    stack.push(np.arange(90), 100)
    for kept in (message, halfway):
        assert np.array_equal(kept[0], before) and np.array_equal(words_of(kept), words)


def test_uniform_symbols_are_those_of_craystacks_own_codec():
    message, symbols = random_message((8,), 50), np.arange(8) * 31
    stack = CraystackStack(message)
    stack.push(symbols, 1 << 8)
    (pushed,) = cs.Uniform(8).push(message, symbols.astype(np.uint64))
    assert_equal(stack.message, pushed)
    assert np.array_equal(CraystackStack(pushed).pop(1 << 8, (8,)), symbols)


@pytest.mark.parametrize("lanes", [1, 5, 256])
def test_symbols_cost_the_logarithm_of_their_size(lanes):
    rng = np.random.default_rng(0)
    sizes = np.exp2(rng.uniform(0, 23, 4000)).astype(np.int64)
    message = random_message((lanes,), 9)
    stack = CraystackStack(message)
    stack.push((np.arange(4000) * 0.6180339887498949 % 1 * sizes).astype(np.int64), sizes)
    assert abs(bits(stack.message) - bits(message) - np.log2(sizes).sum()) / 4000 < 1e-4


@few
@given(sizes_of_symbols, head_shapes, st.integers(0, 12), st.integers(0, 99))
def test_a_pop_beyond_the_message_raises_underflow(sizes, shape, words, seed):
    message = random_message(shape, words, seed)
    stack = CraystackStack(message)
    try:
        symbols = stack.pop(sizes)
    except StackUnderflow:
        assert np.log2(sizes).sum() > bits(message) - 32 * np.size(message[0]) - 32 * len(sizes)
        given = words_of(message)[2 * np.size(message[0]) :]
        enough = np.concatenate([given, np.zeros(len(sizes), np.uint32)])  # a symbol takes a word at most
        CraystackStack((message[0], (enough, ()))).pop(sizes)
    else:
        stack.push(symbols, sizes)
        assert_equal(stack.message, message)


@few
@given(st.integers(0, 20), st.integers(1, 5), st.integers(0, 99))
def test_the_last_word_is_still_lent(words, lanes, seed):
    """An underflow occurs exactly where craystack itself would draw random bits."""
    message, sizes = random_message((lanes,), words, seed), np.full(lanes, 1 << 16)
    stack, expected = CraystackStack(message), message
    for _ in range(2 * words + 3):  # a pop takes half a word, and the head has less than two
        lacking = len(words_of(expected)) - 2 * lanes < int(((expected[0] >> np.uint64(16)) < 1 << 31).sum())
        if lacking:
            with pytest.raises(StackUnderflow):
                stack.pop(sizes)
            return
        expected, symbols = cs.Uniform(16).pop(expected)
        assert np.array_equal(stack.pop(sizes), symbols)
        assert_equal(stack.message, expected)
    raise AssertionError("it lent without end")


@pytest.mark.parametrize("randomize", [False, True])
def test_a_base_message_has_nothing_to_lend(randomize):
    state = cs.rans.rng.bit_generator.state
    message = cs.base_message((9,), randomize)
    cs.rans.rng.bit_generator.state = state
    with pytest.raises(StackUnderflow):
        CraystackStack(message).pop(2, (9,))
    assert not CraystackStack(message).pop(1, (9,)).any()


@pytest.mark.parametrize("head", [[], [0], [(1 << 31) - 1], [1 << 31, 1 << 63], [(1 << 64) - 1]], ids=str)
def test_a_head_that_no_message_has_is_corrupt(head):
    with pytest.raises(CorruptError):
        CraystackStack((np.array(head, np.uint64), ()))


@few
@given(st.lists(st.integers(1, 1 << 20), max_size=40).map(lambda sizes: np.array(sizes, np.int64)), st.integers(0, 99))
def test_codecs_of_symbols_keep_their_laws_on_it(sizes, seed):
    message, symbols = random_message((3,), 200, seed), symbols_below(sizes, seed)
    stack = CraystackStack(message)
    uniform.push(stack, symbols, sizes)
    assert np.array_equal(uniform.pop(stack, sizes), symbols)
    assert_equal(stack.message, message)


def test_what_no_stack_codes_is_an_error_and_changes_nothing():
    message = random_message((3,), 50)
    stack = CraystackStack(message)
    for symbols, sizes in [([0, 7], 7), ([-1, 0], 7), ([(1 << 32) + 1, 0], 7), ([0, 0], MAX_SIZE + 1), ([0, 0], 0)]:
        with pytest.raises(SymbolError):
            stack.push(np.array(symbols), sizes)
    for size in (0, MAX_SIZE + 1):
        with pytest.raises(SymbolError):
            stack.pop(size, (2,))
    assert_equal(stack.message, message)


# --- models


def check_codec(codec: cs.Codec, message: Message, data) -> Message:
    """craystack's own law, message included -> the message with the data."""
    (pushed,) = codec.push(message, data)
    popped, again = codec.pop(pushed)
    np.testing.assert_equal(again, data)
    assert_equal(popped, message)
    return pushed


@every_flow
@fewer
@given(st.integers(0, 999), st.integers(1, 3), st.sampled_from([(4, 4), (8, 8), (4, 12)]), head_shapes, st.booleans())
def test_a_flow_is_a_codec(kind, seed, count, sides, head_shape, noisy):
    rng, shape = np.random.default_rng(seed), (count, *sides)
    x = rng.integers(0, 256, (*shape, 3)) if noisy else programs.smooth(rng, *shape)
    check_codec(model_codec(programs.program(kind), shape), random_message(head_shape, 4000, seed), x)


@every_flow
def test_random_bits_are_samples_that_push_back_to_the_same_bits(kind):
    """The other half of the law, for points within the range; an untrained model has few of them for larger images."""
    codec, tried = model_codec(programs.program(kind), (1, 2, 2)), 0
    for seed in range(12):
        message = random_message((16,), 4000, seed)
        try:
            popped, x = codec.pop(message)
            (pushed,) = codec.push(popped, x)
        except programs.OUT_OF_RANGE:
            continue
        assert_equal(pushed, message)
        tried += 1
    assert tried > 3


@every_flow
def test_a_flow_costs_what_it_reports(kind):
    program, message = programs.program(kind), random_message((32,), 1 << 14)
    x = programs.smooth(np.random.default_rng(7), 16, 8, 8)
    ideal_bits = program.codec.push(programs.noise_stack(), x).sum()
    (pushed,) = model_codec(program, (16, 8, 8)).push(message, x)
    assert abs(bits(pushed) - bits(message) - ideal_bits) < 32 + 0.03 * x.size  # each message draws another u


@every_flow
def test_a_message_too_short_for_the_first_loan_raises_underflow(kind):
    codec = model_codec(programs.program(kind), (1, 8, 8))
    for message in (cs.base_message((64,)), random_message((8,), 20)):
        with pytest.raises(StackUnderflow):
            codec.push(message, programs.odd_tiles()["smooth"])


def test_an_autoregressive_density_is_a_codec():
    program, message = programs.program(programs.AUTOREGRESSIVE), random_message((16,), 400)
    for shape in [(1, 8, 8), (3, 5, 9)]:
        x = programs.smooth(np.random.default_rng(0), *shape)
        pushed = check_codec(model_codec(program, shape), message, x)
        ideal_bits = sum(program.slots([image]).bits for image in x.astype(np.uint8))
        assert abs(bits(pushed) - bits(message) - ideal_bits) < 0.01 * x.size


def test_pixels_of_another_shape_or_depth_are_refused():
    codec = model_codec(programs.program("uniform"), (1, 8, 8))
    for shape in [(1, 8, 12, 3), (2, 8, 8, 3), (8, 8, 3), (1, 8, 8, 1)]:
        with pytest.raises(ValueError):
            codec.push(random_message((4,), 4000), np.zeros(shape, np.int64))
    codec = model_codec(programs.program(programs.AUTOREGRESSIVE), (1, 8, 8))
    for pixel in (-1, 256):
        with pytest.raises(ValueError):
            codec.push(random_message((4,), 4000), np.full((1, 8, 8, 3), pixel))


# --- composed with craystack's codecs


def test_a_repeated_codec_is_a_codec():
    codec = cs.repeat(model_codec(programs.program("gaussian"), (2, 8, 8)), 3)
    images = [programs.smooth(np.random.default_rng(seed), 2, 8, 8) for seed in range(3)]
    check_codec(codec, random_message((10,), 4000), images)


def test_a_codec_between_others_is_a_codec():
    """from_iterable is craystack's `serial`; its codecs take one symbol a lane."""
    codec = cs.from_iterable(
        [
            cs.Uniform(12),
            model_codec(programs.program("bipartite"), (1, 8, 8)),
            cs.Bernoulli(0.1, 10),
            model_codec(programs.program("uniform"), (2, 4, 4)),
            cs.Uniform(3),
        ]
    )
    rng = np.random.default_rng(0)
    data = [
        rng.integers(0, 1 << 12, 10, np.uint64),
        programs.smooth(rng, 1, 8, 8),
        rng.integers(0, 2, 10, np.uint64),
        programs.smooth(rng, 2, 4, 4),
        rng.integers(0, 8, 10, np.uint64),
    ]
    check_codec(codec, random_message((10,), 4000), data)


def test_a_codec_of_a_part_of_the_head_leaves_the_rest_alone():
    codec = cs.substack(model_codec(programs.program("ard"), (1, 8, 8)), lambda head: head[1, :2])
    message = random_message((3, 4), 4000)
    pushed = check_codec(codec, message, programs.odd_tiles()["noise"])
    assert np.array_equal(np.delete(pushed[0], [4, 5]), np.delete(message[0], [4, 5]))


def test_two_codecs_beside_each_other_are_a_codec():
    model = model_codec(programs.program("gaussian"), (1, 8, 8))
    codec = cs.parallel([model, cs.Uniform(5)], [lambda head: head[:6], lambda head: head[6:]])
    data = [programs.odd_tiles()["line"], np.arange(4, dtype=np.uint64)]
    check_codec(codec, random_message((10,), 4000), data)


def test_the_first_symbol_may_choose_the_next_codec():
    """A codec that depends on a decoded number: first the number of images, then the images."""

    def codecs():
        count = yield cs.substack(cs.Uniform(4), lambda head: head[:1])
        yield model_codec(programs.program("uniform"), (int(count[0]), 4, 4))

    data = [np.array([3], np.uint64), programs.smooth(np.random.default_rng(0), 3, 4, 4)]
    check_codec(cs.from_generator(codecs), random_message((10,), 4000), data)


def test_a_message_survives_being_flattened_to_words():
    codec, message = model_codec(programs.program("uniform"), (1, 8, 8)), random_message((10,), 4000)
    x = programs.odd_tiles()["checkerboard"]
    (pushed,) = codec.push(message, x)
    popped, again = codec.pop(cs.unflatten(cs.flatten(pushed), (10,)))
    assert np.array_equal(again, x)
    assert_equal(popped, message)


# --- the stand-in


@pytest.mark.skipif(cs is craystack_standin, reason="craystack is not importable")
@few
@given(sizes_of_symbols, st.sampled_from([(1,), (3,), (2, 3)]), st.integers(0, 99))
def test_the_stand_in_codes_as_craystack_does(sizes, shape, seed):
    message, lanes = random_message(shape, 200, seed), int(np.prod(shape))
    mine, theirs = message, message
    for size in np.maximum(sizes, 1):
        symbols = symbols_below(np.full(shape, size), seed).astype(np.uint64)
        mine = craystack_standin.rans.push_with_finer_prec(mine, symbols, 1, size)
        theirs = cs.rans.push_with_finer_prec(theirs, symbols, 1, size)
        assert_equal(mine, theirs)
    bits_of = np.arange(lanes).reshape(shape).astype(np.uint64) & np.uint64(1)
    for name, arguments, symbols in [("Uniform", (1,), bits_of), ("Bernoulli", (0.1, 10), bits_of)]:
        codec, other = getattr(craystack_standin, name)(*arguments), getattr(cs, name)(*arguments)
        (mine,), (theirs,) = codec.push(mine, symbols), other.push(theirs, symbols)
        assert_equal(mine, theirs)
    for _ in range(len(sizes)):
        slots, finish = craystack_standin.rans.pop_with_finer_prec(mine, 1000)
        expected, finish_theirs = cs.rans.pop_with_finer_prec(theirs, 1000)
        assert np.array_equal(slots, expected)
        mine, theirs = finish(slots, 1), finish_theirs(expected, 1)
        assert_equal(mine, theirs)
