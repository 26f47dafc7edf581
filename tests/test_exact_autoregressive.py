"""The exact autoregressive program: it keeps the law of stacks, codes at the float model's rate, gives the same bytes
everywhere, and is made of proven tensors alone."""

import json

import numpy as np
import programs
import pytest
import threadpoolctl
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import AUTOREGRESSIVE, LEARNING, LEAST_SQUARES, LOWEST, cut, noise_stack, run
from safetensors.numpy import save

from dqcodec.ans.stack import Stack
from dqcodec.base.compiled import compiled
from dqcodec.base.errors import DqcodecError, ModelError, StackUnderflow
from dqcodec.base.threads import set_threads
from dqcodec.context import fronts
from dqcodec.context.fronts import Fronts
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.program import load_program
from dqcodec.flows.model import bits_per_dim
from dqcodec.frozen.autoregressive import FEATURE_PLACES, NEIGHBOURS, SLOPE

compiled_rows = compiled(fronts._rows)
few = settings(max_examples=4)
every_law = pytest.mark.parametrize("channels, bits", [(1, 1), (1, 8), (3, 5), (3, 8)])
shapes = st.sampled_from([(1, 1), (1, 13), (9, 1), (2, 2), (7, 5), (6, 17)])
tiles = st.sampled_from([(99, 99), (1, 1), (3, 4), (5, 40), (40, 6)])
lists_of_shapes = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 20)), min_size=1, max_size=5)


def program_of(channels: int = 3, bits: int = 8) -> AutoregressiveProgram:
    return programs.program(AUTOREGRESSIVE, channels, 1, bits)


def image(height: int, width: int, channels: int = 3, bits: int = 8, seed: int = 0) -> np.ndarray:
    return (programs.smooth(np.random.default_rng(seed), 1, height, width, channels)[0] >> 8 - bits).astype(np.uint8)


def odd_images(channels: int, bits: int) -> dict[str, np.ndarray]:
    top, shape = (1 << bits) - 1, (9, 13, channels)
    board = np.indices(shape[:2]).sum(0)[..., None] % 2 * top
    noise = np.random.default_rng(1).integers(0, top + 1, shape)
    odd = {"black": np.zeros(shape), "white": np.full(shape, top), "board": np.zeros(shape) + board, "noise": noise}
    return {name: pixels.astype(np.uint8) for name, pixels in odd.items()}


def shapes_of(tiles: list[np.ndarray]) -> list[tuple[int, int]]:
    return [pixels.shape[:2] for pixels in tiles]


def assert_popped(program: AutoregressiveProgram, stack: Stack, tiles: list[np.ndarray]) -> None:
    popped = program.pop(stack, shapes_of(tiles))
    assert all(pixels.dtype == np.uint8 for pixels in popped)
    assert all(np.array_equal(*pair) for pair in zip(popped, tiles, strict=True))


def assert_round_trip(program: AutoregressiveProgram, tiles: list[np.ndarray], stack: Stack) -> None:
    before = stack.to_bytes()
    program.push(stack, program.slots(tiles))
    assert_popped(program, stack, tiles)
    assert stack.to_bytes() == before


@every_law
@few
@given(st.integers(0, 999), shapes, tiles)
def test_pop_undoes_push(channels, bits, seed, shape, tile):
    assert_round_trip(program_of(channels, bits), cut(image(*shape, channels, bits, seed), tile), noise_stack(seed))


@every_law
@few
@given(st.integers(0, 999), lists_of_shapes)
def test_tiles_of_different_sizes_are_coded_together(channels, bits, seed, shapes):
    tiles = [image(*shape, channels, bits, seed + n) for n, shape in enumerate(shapes)]
    assert_round_trip(program_of(channels, bits), tiles, noise_stack(seed))


def slots_by_place(program: AutoregressiveProgram, tiles: list[np.ndarray]) -> list[np.ndarray]:
    """Those of each tile, in raster order."""
    slots = program.slots(tiles)
    by_place = np.empty_like(slots.slots)
    by_place[np.concatenate([slots.fronts.places(front)[:, 0] for front in range(len(slots.fronts))])] = slots.slots
    return np.split(by_place, np.cumsum([height * width for height, width in shapes_of(tiles)])[:-1])


@every_law
def test_the_code_of_a_tile_does_not_depend_on_other_tiles(channels, bits):
    """By a program that does not learn."""
    program = programs.still(channels, bits)
    tiles = [image(*shape, channels, bits, n) for n, shape in enumerate([(7, 9), (1, 1), (2, 30), (7, 9), (20, 3)])]
    together = slots_by_place(program, tiles)
    for ours, tile in zip(together, tiles, strict=True):
        assert np.array_equal(ours, slots_by_place(program, [tile])[0])
    for ours, theirs in zip(together[::-1], slots_by_place(program, tiles[::-1])):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("channels, bits", [(1, 1), (3, 8)])
def test_any_image_codes(channels, bits):
    for pixels in odd_images(channels, bits).values():
        assert_round_trip(program_of(channels, bits), cut(pixels, (3, 5)), noise_stack())


@every_law
@few
@given(st.integers(0, 999), lists_of_shapes)
def test_push_undoes_pop(channels, bits, seed, shapes):
    program, stack = program_of(channels, bits), noise_stack(seed)
    before = stack.to_bytes()
    tiles = program.pop(stack, shapes)
    assert [pixels.shape for pixels in tiles] == [(*shape, channels) for shape in shapes]
    assert all(pixels.dtype == np.uint8 and pixels.max() < 1 << bits for pixels in tiles)
    program.push(stack, program.slots(tiles))
    assert stack.to_bytes() == before


def test_images_pushed_one_after_the_other_are_popped_in_reverse():
    program, stack = program_of(), noise_stack()
    before = stack.to_bytes()
    images = [cut(image(5 + i, 9, seed=i), (4, 9)) for i in range(3)]
    for pixels in images:
        program.push(stack, program.slots(pixels))
    for pixels in reversed(images):
        assert_popped(program, stack, pixels)
    assert stack.to_bytes() == before


@every_law
def test_the_coded_bits_are_those_of_the_slots(channels, bits):
    program, stack, pixels = program_of(channels, bits), noise_stack(), image(20, 40, channels, bits)
    slots, before = program.slots(cut(pixels, (8, 40))), stack.bits
    program.push(stack, slots)
    assert abs(stack.bits - before - slots.bits) < 32 + 0.002 * pixels.size


@torch.no_grad()
@every_law
@pytest.mark.parametrize("kind", [AUTOREGRESSIVE, LEAST_SQUARES])
@pytest.mark.parametrize("tile", [(24, 9), (7, 20)])
def test_the_bits_of_a_program_that_does_not_learn_are_near_the_float_models(channels, bits, tile, kind):
    model, pixels = programs.model(kind, channels, 1, bits), image(24, 36, channels, bits, 5)
    x = [torch.from_numpy(part.copy()).permute(2, 0, 1)[None].float() for part in cut(pixels, tile)]
    real = bits_per_dim(sum(model.bound(part).double().sum() for part in x), pixels.size)
    ours = programs.still(channels, bits, kind).slots(cut(pixels, tile)).bits / pixels.size
    assert abs(ours - float(real)) < 0.01


@every_law
@few
@given(st.integers(0, 999), lists_of_shapes)
def test_pop_undoes_push_where_least_squares_predict(channels, bits, seed, shapes):
    tiles = [image(*shape, channels, bits, seed + n) for n, shape in enumerate([*shapes, (40, 3)])]
    assert_round_trip(programs.program(LEAST_SQUARES, channels, 1, bits), tiles, noise_stack(seed))


def test_any_image_codes_where_least_squares_predict():
    for pixels in odd_images(3, 8).values():
        assert_round_trip(programs.program(LEAST_SQUARES), cut(pixels, (3, 5)), noise_stack())


@every_law
def test_a_program_learns_while_it_codes(channels, bits):
    """A program with random weights takes fewer bits for an image once it has learned."""
    tiles = cut(image(24, 32, channels, bits, 5), (6, 32))
    still = programs.still(channels, bits).slots(tiles)
    assert program_of(channels, bits).slots(tiles).bits < 0.99 * still.bits


def test_every_image_is_coded_by_the_program_as_it_was_loaded():
    pixels, program = image(6, 10), program_of()
    first = program.slots([pixels])
    assert_round_trip(program, [odd_images(3, 8)["noise"]], noise_stack())
    assert np.array_equal(program.slots([pixels]).slots, first.slots)


def test_a_stack_too_short_for_the_first_loan_raises_underflow():
    program = program_of()
    with pytest.raises(StackUnderflow):
        program.push(Stack(), program.slots([image(1, 1)]))
    with pytest.raises(StackUnderflow):
        program.pop(Stack(bytes(40)), [(20, 20)])


@few
@given(st.integers(0, 999), st.sampled_from([8, 200, 2000]))
def test_random_bits_decode_to_something_or_to_a_named_error(seed, length):
    try:
        tiles = program_of().pop(noise_stack(seed, length), [(4, 8), (5, 6)])
    except DqcodecError:
        return
    assert [pixels.shape for pixels in tiles] == [(4, 8, 3), (5, 6, 3)]


some_shapes = st.one_of(
    lists_of_shapes, st.sampled_from([[(9, 14)], [(16, 40)] * 4 + [(6, 40)], [(1, 1)] * 30, [(1, 200), (200, 1)]])
)
many = settings(max_examples=30)


@many
@given(some_shapes)
def test_fronts_hold_every_pixel_once_after_what_it_needs(shapes):
    walk = Fronts(shapes)
    fronts_places = [walk.places(front) for front in range(len(walk))]
    places = np.concatenate(fronts_places)
    expected = [(y, x, width, n) for n, (height, width) in enumerate(shapes) for y, x in np.ndindex(height, width)]
    assert np.array_equal(np.sort(places[:, 0]), np.arange(walk.pixels)) and walk.pixels == len(expected)
    assert np.array_equal(places[:, 1:], np.array(expected)[places[:, 0]])
    assert np.array_equal(walk.bounds, np.cumsum([0, *map(len, fronts_places)]))
    front_of = np.empty(walk.pixels, np.int64)
    front_of[places[:, 0]] = np.repeat(np.arange(len(walk)), np.diff(walk.bounds))
    corner = 0
    for height, width in shapes:
        own = front_of[corner : corner + height * width].reshape(height, width)
        for up, right in {*NEIGHBOURS, *FEATURE_PLACES}:
            y, x = np.indices(own.shape)[:, up:, max(0, -right) : width - max(0, right)]
            assert (own[y - up, x + right] < own[y, x]).all()
        corner += height * width


@many
@given(some_shapes)
def test_a_front_is_of_one_turn_and_follows_tiles_and_their_rows(shapes):
    walk = Fronts(shapes)
    diagonals = []
    for front in range(len(walk)):
        cells, y, x, *_ = walk.places(front).T
        diagonals.append(x[0] + SLOPE * y[0])
        assert (x + SLOPE * y == diagonals[-1]).all() and (np.diff(cells) > 0).all()
    assert (np.diff(diagonals) > 0).all()


@many
@given(some_shapes)
def test_chunks_make_up_their_front_and_borrow_little_of_what_is_coded(shapes):
    walk = Fronts(shapes)
    for front in range(len(walk)):
        chunks = list(walk.chunks(front))
        size = walk.bounds[front + 1] - walk.bounds[front]
        assert [n for chunk in chunks for n in range(chunk.start, chunk.stop)] == list(range(size))
        for chunk in chunks:
            coded = walk.pixels - walk.bounds[front] - chunk.stop
            assert 0 < chunk.stop - chunk.start <= max(2, coded // 16)


@many
@given(some_shapes)
def test_compiled_fronts_equal_plain_python(shapes):
    walk, tiles = Fronts(shapes), np.array(shapes)
    corners, last = np.cumsum([0, *tiles.prod(1)])[:-1], max(width + SLOPE * (height - 1) for height, width in shapes)
    for height, width in shapes:
        for diagonal in range(last):
            rows = [y for y in range(height) if 0 <= diagonal - SLOPE * y < width]
            start, stop = compiled_rows(height, width, diagonal)
            assert (start, stop) == fronts._rows(height, width, diagonal)
            assert list(range(start, stop)) == rows
    sizes, theirs = np.zeros((2, last), np.int64)
    fronts._sizes(tiles, sizes)
    fronts._sizes.py_func(tiles, theirs)
    assert np.array_equal(sizes, theirs)
    diagonals = np.flatnonzero(sizes)
    for front in (0, len(walk) // 2, len(walk) - 1):
        places = np.empty_like(walk.places(front))
        fronts._places.py_func(tiles, corners, 0, diagonals[front], places)
        assert np.array_equal(places, walk.places(front))


@many
@given(some_shapes, st.sampled_from([1, 5, 40]))
def test_batches_of_tiles_follow_each_other_and_are_as_small_as_fills_a_front(shapes, least):
    """The fronts of each batch have FRONT pixels on average, except the last batch; without the last tile they have fewer."""
    diagonals = [width + SLOPE * (height - 1) for height, width in shapes]
    areas = [height * width for height, width in shapes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fronts, "FRONT", least)
        batches, walk = list(fronts._batches(np.array(shapes))), Fronts(shapes)

    def fills(tiles: slice) -> bool:
        return sum(areas[tiles]) >= least * max(diagonals[tiles])

    assert [n for batch in batches for n in range(len(shapes))[batch]] == list(range(len(shapes)))
    for batch in batches:
        assert fills(batch) or batch.stop == len(shapes)
        assert not any(fills(slice(batch.start, stop)) for stop in range(batch.start + 1, batch.stop))
    batch_of = np.repeat(np.arange(len(batches)), [batch.stop - batch.start for batch in batches])
    in_order = batch_of[walk.tiles()]
    assert (np.diff(in_order) >= 0).all()
    for front in range(len(walk)):
        assert len({*in_order[walk.bounds[front] : walk.bounds[front + 1]]}) == 1
    corners = np.cumsum([0, *areas])
    places = np.concatenate([walk.places(front) for front in range(len(walk))])
    assert np.array_equal(np.sort(places[:, 0]), np.arange(walk.pixels))
    assert np.array_equal(np.searchsorted(corners, places[:, 0], side="right") - 1, walk.tiles())


@pytest.mark.parametrize("least", [1, 6, 40])
def test_tiles_in_any_batches_are_coded_together(least, monkeypatch):
    monkeypatch.setattr(fronts, "FRONT", least)
    tiles = [image(*shape, seed=n) for n, shape in enumerate([(7, 5), (1, 1), (9, 20), (2, 30), (7, 5)])]
    assert_round_trip(program_of(), tiles, noise_stack())


@every_law
def test_the_bits_of_each_tile_are_those_of_its_slots(channels, bits):
    tiles = [image(*shape, channels, bits, n) for n, shape in enumerate([(7, 9), (1, 1), (2, 30), (7, 9)])]
    slots = program_of(channels, bits).slots(tiles)
    assert slots.bits == pytest.approx(slots.tile_bits.sum()) and len(slots.tile_bits) == len(tiles)
    still = programs.still(channels, bits)
    assert still.slots(tiles).tile_bits == pytest.approx([still.slots([tile]).bits for tile in tiles])


# --- the same bytes everywhere

# argv: a model file each. Prints the SHA-256 of the stack after an image of noise and waves, for each model.
DIGESTS = """
import hashlib, json, sys
from pathlib import Path
import numba
import numpy as np
from dqcodec.ans.stack import Stack
from dqcodec.exact.program import load_program
from dqcodec.base.threads import single_thread

def words(count):
    return (np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)).astype(np.int64)

digests = []
for path in sys.argv[1:]:
    program = load_program(Path(path))
    shape = 23, 35, program.channels
    ramp = np.add.outer(np.arange(23) * 5, np.arange(35) * 3)[..., None]
    pixels = ((words(np.prod(shape)).reshape(shape) % 40 + ramp) % (1 << program.bits)).astype(np.uint8)
    tiles = [pixels[:12, :20], pixels[:12, 20:], pixels[12:, :20], pixels[12:, 20:]]
    stack = Stack(words(4000).astype(np.uint8).tobytes())
    before = stack.to_bytes()
    with single_thread():
        program.push(stack, program.slots(tiles))
        digests.append(hashlib.sha256(stack.to_bytes()).hexdigest())
        for ours, theirs in zip(program.pop(stack, [tile.shape[:2] for tile in tiles]), tiles, strict=True):
            assert (ours == theirs).all()
        assert stack.to_bytes() == before
assert "torch" not in sys.modules
print(json.dumps([digests, numba.config.CPU_NAME, numba.config.CPU_FEATURES]))
"""


def digests(**variables) -> tuple[list[str], str | None, str | None]:
    """The processor that loops were compiled for, too: its name and features."""
    paths = [programs.path(kind) for kind in (AUTOREGRESSIVE, LEAST_SQUARES, LEARNING)]
    return json.loads(run(DIGESTS, *paths, **variables))


def test_instruction_sets_change_no_bit():
    expected, *processor = digests()
    assert len(set(expected)) == 3 and processor == [None, None]  # this one
    assert digests(**LOWEST) == [expected, "generic", ""]


def coded(program: AutoregressiveProgram, tiles: list[np.ndarray]) -> bytes:
    stack = noise_stack()
    program.push(stack, program.slots(tiles))
    return stack.to_bytes()


@pytest.mark.parametrize("channels", [1, 3])
def test_how_fronts_are_cut_into_chunks_changes_no_slot(channels, monkeypatch):
    program, tiles = program_of(channels), cut(image(7, 13, channels), (3, 5))
    plain = program.slots(tiles)
    for least, bits_for_one in [(1, 1 << 33), (3, 400), (1 << 30, 8)]:
        monkeypatch.setattr("dqcodec.context.fronts.LEAST_CHUNK", least)
        monkeypatch.setattr("dqcodec.context.fronts.BITS_FOR_ONE", bits_for_one)
        assert np.array_equal(program.slots(tiles).slots, plain.slots)
        assert_round_trip(program, tiles, noise_stack())


@pytest.fixture
def default_threads():
    yield
    set_threads(0)


def test_threads_change_no_bit(default_threads):
    """Fronts that are long enough for three threads."""
    program = program_of()
    tiles = [image(10, 30 + n % 3, seed=n) for n in range(33)] + [image(9, 7)]
    assert np.diff(Fronts(shapes_of(tiles)).bounds).max() > 300
    set_threads(1)
    slots, stack = program.slots(tiles).slots, noise_stack()
    start = stack.to_bytes()
    expected = coded(program, tiles)
    for threads, blas_threads in [(1, 2), (2, 1), (3, 1), (3, 2)]:
        set_threads(threads)
        with threadpoolctl.threadpool_limits(blas_threads):
            assert np.array_equal(program.slots(tiles).slots, slots)
            stack = noise_stack()
            program.push(stack, program.slots(tiles))
            assert stack.to_bytes() == expected
            assert_popped(program, stack, tiles)
            assert stack.to_bytes() == start


@pytest.mark.parametrize("channels", [1, 3])
def test_the_layout_of_pixels_changes_no_bit(channels):
    program, pixels = program_of(channels), image(8, 11, channels)
    plain = coded(program, cut(pixels, (5, 9)))
    others = np.asfortranarray(pixels), np.repeat(pixels, 2, 1)[:, ::2], pixels[:, ::-1].copy()[:, ::-1]
    for other in (*others, pixels.copy().transpose(1, 0, 2).copy().transpose(1, 0, 2)):
        assert np.array_equal(other, pixels) and coded(program, cut(other, (5, 9))) == plain
    pixels.flags.writeable = False
    assert coded(program, cut(pixels, (5, 9))) == plain


# --- model files


def load(content: bytes) -> AutoregressiveProgram:
    return load_program(programs.write(content))


def tensors(**changes) -> dict[str, np.ndarray]:
    return programs.tensors(AUTOREGRESSIVE) | {name.replace("__", "."): value for name, value in changes.items()}


def with_tensors(changed: dict[str, np.ndarray]) -> bytes:
    return programs.with_tensors(AUTOREGRESSIVE, changed)


def refused(content: bytes) -> bool:
    try:
        load(content)
    except ModelError as error:
        assert str(error) and "\n" not in str(error)
        return True
    return False


@every_law
def test_a_program_knows_its_file(channels, bits):
    program = program_of(channels, bits)
    assert (program.kind, program.name, program.channels, program.bits) == (
        AUTOREGRESSIVE,
        AUTOREGRESSIVE,
        channels,
        bits,
    )
    assert program.card == {"about": "a test"} and len(program.id) == 8
    assert load(programs.data(AUTOREGRESSIVE, channels, 1, bits)).id == program.id


def test_an_export_is_the_same_every_time():
    content = programs.data(AUTOREGRESSIVE, 3)
    programs.data.cache_clear()
    assert programs.data(AUTOREGRESSIVE, 3) == content


def test_every_tensor_is_needed():
    for name in tensors():
        changed = tensors()
        del changed[name]
        assert refused(with_tensors(changed)), name


@pytest.mark.parametrize("grown", [True, False])
def test_tensors_of_a_wrong_shape_are_a_model_error(grown):
    """Found when the file is read, not when the first image is coded."""
    missed = []
    for name, tensor in tensors().items():
        for axis in range(tensor.ndim):
            changed = (
                np.concatenate([tensor, np.take(tensor, [-1], axis)], axis) if grown else np.delete(tensor, -1, axis)
            )
            if not refused(with_tensors(tensors() | {name: changed})):
                missed.append((name, axis))
    assert not missed


@pytest.mark.parametrize(
    "change", [lambda a: a[None], lambda a: a[..., None], lambda a: a.reshape(-1)[0]], ids=["row", "column", "number"]
)
def test_tensors_of_a_wrong_dimension_are_a_model_error(change):
    missed = [
        name
        for name, tensor in tensors().items()
        if tensor.ndim and not refused(with_tensors(tensors() | {name: change(tensor)}))
    ]
    assert not missed


def test_tensors_that_are_no_integers_are_a_model_error():
    missed = [
        name
        for name, tensor in tensors().items()
        if not refused(with_tensors(tensors() | {name: tensor + np.float32(0.25)}))
    ]
    assert not missed


def accepted_with(value: int) -> list[str]:
    """The tensors that may hold that value."""
    accepted = []
    for name, tensor in tensors().items():
        changed = tensor.astype(np.int64)
        changed.flat[-1] = value
        if not refused(with_tensors(tensors() | {name: changed})):
            accepted.append(name)
    return accepted


@pytest.mark.parametrize("value", [1 << 24, (1 << 32) + 1, 1 << 62, -(1 << 24), -(1 << 45), -(1 << 63)])
def test_integers_whose_sums_are_not_proven_exact_are_a_model_error(value):
    assert not accepted_with(value)


@pytest.mark.parametrize("plane", [1, 2])
@pytest.mark.parametrize("kind, column", [(AUTOREGRESSIVE, 0), (LEAST_SQUARES, 0), (LEAST_SQUARES, -1)])
def test_a_heads_two_parts_are_proven_together(kind, column, plane):
    """Each alone stays below 2^24, but not their sum."""
    known, heads = f"net.known.{plane}.weight", "net.heads.weight"
    changed = programs.tensors(kind)
    rows = len(changed[heads]) // 3
    changed[known] = np.zeros_like(changed[known])
    changed[known][0, column] = (1 << 23) // 256
    changed[heads] = np.zeros_like(changed[heads])
    assert not refused(programs.with_tensors(kind, changed))
    changed[heads][plane * rows, 0] = (1 << 23) // int(changed["net.level"]) + 1
    assert refused(programs.with_tensors(kind, changed))


@pytest.mark.parametrize("part", ["heads", "known.1"])
def test_a_heads_two_parts_have_one_grid(part):
    name = f"net.{part}.shift"
    assert refused(with_tensors(tensors() | {name: tensors()[name] + 1}))


@pytest.mark.parametrize("level", [0, -1, (1 << 16) + 1, 1 << 22, 1 << 40])
def test_an_activation_level_that_float32_cannot_hold_is_a_model_error(level):
    assert refused(with_tensors(tensors(net__level=np.array(level))))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 0},
        {"format": None},
        {"kind": "flow"},
        {"kind": "other"},
        {"kind": None},
        {"kind": ["autoregressive"]},
        {"kind": {}},
        {"channels": 1},
        {"channels": 2},
        {"channels": "3"},
        {"channels": None},
        {"channels": 3.5},
        {"bits": 0},
        {"bits": 9},
        {"bits": 8.0},
        {"bits": True},
        {"bits": None},
        {"tile": []},
        {"tile": [1]},
        {"tile": [1, 2, 3]},
        {"tile": [-8, 8]},
        {"tile": [7, 8]},
        {"tile": [8, 0]},
        {"tile": [8.0, 8]},
        {"tile": ["8", "8"]},
        {"tile": "88"},
        {"tile": 8},
        {"tile": None},
        {"tile": [True, 8]},
        {"tile": [None, 8]},
        {"tile": {"8": 8}},
        {"features": 0},
        {"features": 3},
        {"features": 5},
        {"features": 257},
        {"features": -4},
        {"features": "4"},
        {"features": 4.0},
        {"blocks": -1},
        {"blocks": 2},
        {"blocks": 65},
        {"blocks": 10**12},
        {"blocks": None},
        {"mixtures": 0},
        {"mixtures": 2},
        {"mixtures": 4},
        {"mixtures": 33},
        {"mixtures": -3},
        {"mixtures": 3.0},
        {"mixtures": []},
        {"head_grid": -17},
        {"head_grid": 17},
        {"head_grid": 3.0},
        {"head_grid": None},
        {"rate_bits": 0},
        {"rate_bits": 33},
        {"rate_bits": "9"},
        {"channels": 3.0},
        {"name": None},
        {"name": 3},
        {"card": None},
        {"card": "text"},
        {"card": []},
        {"unknown": 1},
        {"subflows": [1]},
    ],
    ids=str,
)
def test_a_wrong_description_is_a_model_error(changes):
    assert refused(programs.described(AUTOREGRESSIVE, **changes))


@pytest.mark.parametrize("value", [0, 1, 1.0, None, "true", "", [], [True], {}], ids=str)
@pytest.mark.parametrize("kind", [AUTOREGRESSIVE, LEAST_SQUARES])
def test_least_squares_that_are_neither_true_nor_false_are_a_model_error(kind, value):
    assert refused(programs.described(kind, least_squares=value))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind, other", [(AUTOREGRESSIVE, LEAST_SQUARES), (LEAST_SQUARES, AUTOREGRESSIVE)])
def test_networks_with_and_without_predictions_are_never_confused(kind, other, channels):
    """Each of the layers that differ is enough."""
    description = programs.metadata(programs.described(kind, channels, least_squares=kind == LEAST_SQUARES))
    own, foreign = (programs.tensors(each, channels) for each in (kind, other))
    differ = {name for name in own if own[name].shape != foreign[name].shape}
    assert differ == {"net.in.weight", *(f"net.known.{plane}.weight" for plane in range(1, channels))}
    assert not refused(save(own, metadata=description))
    assert refused(save(foreign, metadata=description))
    for name in differ:
        assert refused(save(own | {name: foreign[name]}, metadata=description))


@pytest.mark.parametrize(
    "key",
    [
        "format",
        "kind",
        "name",
        "channels",
        "bits",
        "tile",
        "features",
        "blocks",
        "mixtures",
        "head_grid",
        "rate_bits",
        "card",
    ],
)
def test_every_part_of_the_description_is_needed(key):
    description = json.loads(programs.metadata(programs.data(AUTOREGRESSIVE))["dqcodec"])
    del description[key]
    assert refused(save(tensors(), metadata={"dqcodec": json.dumps(description)}))


def test_flows_and_autoregressive_programs_are_never_confused():
    description = json.loads(programs.metadata(programs.data(AUTOREGRESSIVE))["dqcodec"])
    assert refused(save(programs.tensors("ard"), metadata={"dqcodec": json.dumps(description)}))
    assert refused(save(tensors(), metadata=programs.metadata(programs.data("ard"))))


def assert_model_error_or_lawful(content: bytes) -> None:
    """Push and pop of every program undo each other, stack included."""
    if refused(content):
        return
    program = load(content)
    pixels = image(4, 6, program.channels, program.bits)
    pixels[2:] = odd_images(program.channels, program.bits)["noise"][2:4, :6]
    assert_round_trip(program, cut(pixels, (2, 3)), noise_stack())


@settings(max_examples=80)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_of_the_header_is_a_model_error_or_a_program_that_keeps_the_law(index, byte):
    content = bytearray(programs.data(AUTOREGRESSIVE))
    content[index % (8 + int.from_bytes(content[:8], "little"))] = byte
    assert_model_error_or_lawful(bytes(content))


@settings(max_examples=60)
@given(st.floats(0, 1, exclude_max=True), st.integers(32, 126))
def test_a_flipped_byte_of_the_description_is_a_model_error_or_a_program_that_keeps_the_law(place, byte):
    description = bytearray(programs.metadata(programs.data(AUTOREGRESSIVE))["dqcodec"].encode())
    description[int(place * len(description))] = byte
    assert_model_error_or_lawful(save(tensors(), metadata={"dqcodec": description.decode()}))


@settings(max_examples=40)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_flipped_byte_of_the_tensors_is_a_model_error_or_a_program_that_keeps_the_law(place, mask):
    content = bytearray(programs.data(AUTOREGRESSIVE))
    header = 8 + int.from_bytes(content[:8], "little")
    content[header + int(place * (len(content) - header))] ^= mask
    assert_model_error_or_lawful(bytes(content))


@settings(max_examples=10)
@given(st.integers(0, 999))
def test_a_program_of_random_weights_biases_and_shifts_keeps_the_law(seed):
    """Every layer clamps."""
    rng, changed = np.random.default_rng(seed), tensors()
    for name, tensor in changed.items():
        if name.startswith("net.") and tensor.ndim == 2:
            changed[name] = rng.integers(-1 << rng.integers(1, 8), 1 << rng.integers(1, 8), tensor.shape)
        if name.endswith(".bias") and "known" not in name:
            changed[name] = rng.integers(-1 << 16, 1 << 16, tensor.shape)
        if name.endswith(".shift"):
            changed[name] = np.full(tensor.shape, seed % 12 + 1)
    assert not refused(with_tensors(changed))
    assert_model_error_or_lawful(with_tensors(changed))
