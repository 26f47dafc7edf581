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
from programs import AUTOREGRESSIVE, noise_stack
from safetensors.numpy import save
from test_exactness import LOWEST, run

from dqcodec.ans.stack import Stack
from dqcodec.errors import DqcodecError, ModelError, StackUnderflow
from dqcodec.exact.autoregressive import AutoregressiveProgram
from dqcodec.exact.context import SLOPE
from dqcodec.exact.fronts import Fronts
from dqcodec.exact.program import load_program
from dqcodec.flows.model import bits_per_dim

few = settings(max_examples=4, deadline=None, derandomize=True)
every_law = pytest.mark.parametrize("channels, bits", [(1, 1), (1, 8), (3, 5), (3, 8)])
shapes = st.sampled_from([(1, 1), (1, 13), (9, 1), (2, 2), (7, 5), (6, 17)])
tiles = st.sampled_from([None, (1, 1), (3, 4), (5, 40), (40, 6)])


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


def assert_round_trip(program: AutoregressiveProgram, pixels: np.ndarray, stack: Stack, tile=None) -> None:
    before, tile = stack.to_bytes(), tile or pixels.shape[:2]
    program.push(stack, program.slots(pixels, tile))
    assert np.array_equal(program.pop(stack, pixels.shape[:2], tile), pixels)
    assert stack.to_bytes() == before


@every_law
@few
@given(st.integers(0, 999), shapes, tiles)
def test_pop_undoes_push(channels, bits, seed, shape, tile):
    assert_round_trip(program_of(channels, bits), image(*shape, channels, bits, seed), noise_stack(seed), tile)


@pytest.mark.parametrize("channels, bits", [(1, 1), (3, 8)])
def test_any_image_codes(channels, bits):
    for pixels in odd_images(channels, bits).values():
        assert_round_trip(program_of(channels, bits), pixels, noise_stack(), (3, 5))


@every_law
@few
@given(st.integers(0, 999), shapes, tiles)
def test_push_undoes_pop(channels, bits, seed, shape, tile):
    program, stack = program_of(channels, bits), noise_stack(seed)
    before = stack.to_bytes()
    pixels = program.pop(stack, shape, tile or shape)
    assert pixels.shape == (*shape, channels) and pixels.dtype == np.uint8 and pixels.max() < 1 << bits
    program.push(stack, program.slots(pixels, tile or shape))
    assert stack.to_bytes() == before


def test_images_pushed_one_after_the_other_are_popped_in_reverse():
    program, stack = program_of(), noise_stack()
    before = stack.to_bytes()
    images = [image(5 + i, 9, seed=i) for i in range(3)]
    for pixels in images:
        program.push(stack, program.slots(pixels, (4, 9)))
    for pixels in reversed(images):
        assert np.array_equal(program.pop(stack, pixels.shape[:2], (4, 9)), pixels)
    assert stack.to_bytes() == before


@every_law
def test_the_coded_bits_are_those_of_the_slots(channels, bits):
    program, stack, pixels = program_of(channels, bits), noise_stack(), image(20, 40, channels, bits)
    slots, before = program.slots(pixels, (8, 40)), stack.bits
    program.push(stack, slots)
    assert abs(stack.bits - before - slots.bits) < 32 + 0.002 * pixels.size


@torch.no_grad()
@every_law
@pytest.mark.parametrize("tile", [(24, 9), (7, 20)])
def test_the_bits_of_a_program_that_does_not_learn_are_near_the_float_models(channels, bits, tile):
    model, pixels = programs.model(AUTOREGRESSIVE, channels, 1, bits), image(24, 36, channels, bits, 5)
    cut = [pixels[y : y + tile[0], x : x + tile[1]] for y in range(0, 24, tile[0]) for x in range(0, 36, tile[1])]
    x = [torch.from_numpy(part.copy()).permute(2, 0, 1)[None].float() for part in cut]
    real = bits_per_dim(sum(model.bound(part).double().sum() for part in x), pixels.size)
    ours = programs.still(channels, bits).slots(pixels, tile).bits / pixels.size
    assert abs(ours - float(real)) < 0.01


@every_law
def test_a_program_learns_while_it_codes(channels, bits):
    """One of random weights gets better at the image."""
    pixels, tile = image(24, 32, channels, bits, 5), (6, 32)
    still = programs.still(channels, bits).slots(pixels, tile)
    assert program_of(channels, bits).slots(pixels, tile).bits < 0.99 * still.bits


def test_every_image_is_coded_by_the_program_as_it_was_loaded():
    pixels, program = image(6, 10), program_of()
    first = program.slots(pixels, (6, 10))
    assert_round_trip(program, odd_images(3, 8)["noise"], noise_stack())
    assert np.array_equal(program.slots(pixels, (6, 10)).sizes, first.sizes)


def test_a_loan_that_the_stack_cannot_pay_is_an_underflow():
    program = program_of()
    with pytest.raises(StackUnderflow):
        program.push(Stack(), program.slots(image(1, 1), (1, 1)))
    with pytest.raises(StackUnderflow):
        program.pop(Stack(bytes(40)), (20, 20), (20, 20))


@few
@given(st.integers(0, 999), st.sampled_from([8, 200, 2000]))
def test_random_bits_decode_to_something_or_to_a_named_error(seed, length):
    try:
        pixels = program_of().pop(noise_stack(seed, length), (8, 8), (4, 8))
    except DqcodecError:
        return
    assert pixels.shape == (8, 8, 3)


@pytest.mark.parametrize("shape, tile", [((1, 1), (1, 1)), ((9, 14), (9, 14)), ((9, 14), (4, 5)), ((70, 40), (16, 40))])
def test_fronts_hold_every_pixel_once_after_what_it_needs(shape, tile):
    fronts = Fronts(shape, tile)
    assert np.array_equal(fronts.order, fronts.y * shape[1] + fronts.x)
    assert np.array_equal(np.sort(fronts.order), np.arange(shape[0] * shape[1]))
    assert [i for front in fronts.chunks for chunk in front for i in range(chunk.start, chunk.stop)] == list(range(len(fronts.y)))
    last = -1
    for front in fronts.chunks:
        part = slice(front[0].start, front[-1].stop)
        turns = np.unique(fronts.x[part] % tile[1] + SLOPE * (fronts.y[part] % tile[0]))
        assert len(turns) == 1 and turns[0] > last
        last = turns[0]
    sizes = [chunk.stop - chunk.start for front in fronts.chunks for chunk in front]
    assert sizes[-1] <= 2  # what is coded first borrows little


# --- the same bytes everywhere

# argv: a model file each. Prints the SHA-256 of the stack after an image of noise and waves, for each model.
DIGESTS = """
import hashlib, json, sys
from pathlib import Path
import numpy as np
from dqcodec.ans.stack import Stack
from dqcodec.exact.networks import single_thread
from dqcodec.exact.program import load_program

def words(count):
    return (np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)).astype(np.int64)

digests = []
for path in sys.argv[1:]:
    program = load_program(Path(path))
    shape, tile = (23, 35, program.channels), (12, 20)
    ramp = np.add.outer(np.arange(23) * 5, np.arange(35) * 3)[..., None]
    pixels = ((words(np.prod(shape)).reshape(shape) % 40 + ramp) % (1 << program.bits)).astype(np.uint8)
    stack = Stack(words(4000).astype(np.uint8).tobytes())
    before = stack.to_bytes()
    with single_thread():
        program.push(stack, program.slots(pixels, tile))
        digests.append(hashlib.sha256(stack.to_bytes()).hexdigest())
        assert (program.pop(stack, shape[:2], tile) == pixels).all() and stack.to_bytes() == before
assert "torch" not in sys.modules
print(json.dumps(digests))
"""


def digests(**variables) -> list[str]:
    paths = [programs.path(AUTOREGRESSIVE, 3, 1, 8), programs.path(AUTOREGRESSIVE, 1, 1, 5)]
    return json.loads(run(DIGESTS, *paths, **variables))


def test_instruction_sets_change_no_bit():
    expected = digests()
    assert len(set(expected)) == 2
    assert digests(**LOWEST) == expected


def coded(program: AutoregressiveProgram, pixels: np.ndarray, tile: tuple[int, int]) -> bytes:
    stack = noise_stack()
    program.push(stack, program.slots(pixels, tile))
    return stack.to_bytes()


@pytest.mark.parametrize("channels", [1, 3])
def test_how_fronts_are_cut_into_chunks_changes_no_slot(channels, monkeypatch):
    program, pixels = program_of(channels), image(7, 13, channels)
    plain = program.slots(pixels, (3, 5))
    for least, pixels_for_one in [(1, 1 << 30), (3, 50), (1 << 30, 1)]:
        monkeypatch.setattr("dqcodec.exact.fronts._LEAST_CHUNK", least)
        monkeypatch.setattr("dqcodec.exact.fronts._PIXELS_FOR_ONE", pixels_for_one)
        slots = program.slots(pixels, (3, 5))
        assert np.array_equal(slots.starts, plain.starts) and np.array_equal(slots.sizes, plain.sizes)
        assert_round_trip(program, pixels, noise_stack(), (3, 5))


def test_threads_change_no_bit():
    results = set()
    for threads in (1, 2, 3):
        with threadpoolctl.threadpool_limits(threads):
            results.add(coded(program_of(), image(12, 40), (6, 8)))
    assert len(results) == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_the_layout_of_pixels_changes_no_bit(channels):
    program, pixels = program_of(channels), image(8, 11, channels)
    plain = coded(program, pixels, (5, 9))
    others = np.asfortranarray(pixels), np.repeat(pixels, 2, 1)[:, ::2], pixels[:, ::-1].copy()[:, ::-1]
    for other in (*others, pixels.copy().transpose(1, 0, 2).copy().transpose(1, 0, 2)):
        assert np.array_equal(other, pixels) and coded(program, other, (5, 9)) == plain
    pixels.flags.writeable = False
    assert coded(program, pixels, (5, 9)) == plain


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
    assert (program.kind, program.name, program.channels, program.bits) == (AUTOREGRESSIVE, AUTOREGRESSIVE, channels, bits)
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
            changed = np.concatenate([tensor, np.take(tensor, [-1], axis)], axis) if grown else np.delete(tensor, -1, axis)
            if not refused(with_tensors(tensors() | {name: changed})):
                missed.append((name, axis))
    assert not missed


@pytest.mark.parametrize("change", [lambda a: a[None], lambda a: a[..., None], lambda a: a.reshape(-1)[0]], ids=["row", "column", "number"])
def test_tensors_of_a_wrong_dimension_are_a_model_error(change):
    missed = [
        name for name, tensor in tensors().items() if tensor.ndim and not refused(with_tensors(tensors() | {name: change(tensor)}))
    ]
    assert not missed


def test_tensors_that_are_no_integers_are_a_model_error():
    missed = [name for name, tensor in tensors().items() if not refused(with_tensors(tensors() | {name: tensor + np.float32(0.25)}))]
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
def test_a_heads_two_parts_are_proven_together(plane):
    """Each alone stays below 2^24, their sum does not."""
    known, heads = f"net.known.{plane}.weight", "net.heads.weight"
    changed = tensors()
    rows = len(changed[heads]) // 3
    changed[known] = np.zeros_like(changed[known])
    changed[known][0, 0] = (1 << 23) // 256
    changed[heads] = np.zeros_like(changed[heads])
    assert not refused(with_tensors(changed))
    changed[heads][plane * rows, 0] = (1 << 23) // int(changed["net.level"]) + 1
    assert refused(with_tensors(changed))


@pytest.mark.parametrize("part", ["heads", "known.1"])
def test_a_heads_two_parts_have_one_grid(part):
    name = f"net.{part}.shift"
    assert refused(with_tensors(tensors() | {name: tensors()[name] + 1}))


@pytest.mark.parametrize("level", [0, -1, (1 << 16) + 1, 1 << 22, 1 << 40])
def test_an_activation_level_that_float32_cannot_hold_is_a_model_error(level):
    assert refused(with_tensors(tensors(net__level=np.array(level))))


@pytest.mark.parametrize("changes", [
    {"format": 0}, {"format": None}, {"kind": "flow"}, {"kind": "other"}, {"kind": None}, {"kind": ["autoregressive"]},
    {"kind": {}}, {"channels": 1}, {"channels": 2}, {"channels": "3"}, {"channels": None}, {"channels": 3.5}, {"bits": 0},
    {"bits": 9}, {"bits": 8.0}, {"bits": True}, {"bits": None}, {"tile": []}, {"tile": [1]}, {"tile": [1, 2, 3]},
    {"tile": [-8, 8]}, {"tile": [7, 8]}, {"tile": [8, 0]}, {"tile": [8.0, 8]}, {"tile": ["8", "8"]}, {"tile": "88"}, {"tile": 8}, {"tile": None},
    {"tile": [True, 8]}, {"tile": [None, 8]}, {"tile": {"8": 8}}, {"features": 0}, {"features": 3}, {"features": 5},
    {"features": 257}, {"features": -4}, {"features": "4"}, {"features": 4.0}, {"blocks": -1}, {"blocks": 2},
    {"blocks": 65}, {"blocks": 10**12}, {"blocks": None}, {"mixtures": 0}, {"mixtures": 2}, {"mixtures": 4},
    {"mixtures": 33}, {"mixtures": -3}, {"mixtures": 3.0}, {"mixtures": []}, {"head_grid": -17},
    {"head_grid": 17}, {"head_grid": 3.0}, {"head_grid": None}, {"rate_bits": 0}, {"rate_bits": 33}, {"rate_bits": "9"}, {"name": None}, {"name": 3}, {"card": None},
    {"card": "text"}, {"card": []}, {"unknown": 1}, {"subflows": [1]},
], ids=str)
def test_a_wrong_description_is_a_model_error(changes):
    assert refused(programs.described(AUTOREGRESSIVE, **changes))


@pytest.mark.parametrize("key", ["format", "kind", "name", "channels", "bits", "tile", "features", "blocks", "mixtures", "head_grid", "rate_bits", "card"])
def test_every_part_of_the_description_is_needed(key):
    description = json.loads(programs.metadata(programs.data(AUTOREGRESSIVE))["dqcodec"])
    del description[key]
    assert refused(save(tensors(), metadata={"dqcodec": json.dumps(description)}))


def test_a_flow_is_not_taken_for_an_autoregressive_program_nor_the_other_way():
    description = json.loads(programs.metadata(programs.data(AUTOREGRESSIVE))["dqcodec"])
    assert refused(save(programs.tensors("ard"), metadata={"dqcodec": json.dumps(description)}))
    assert refused(save(tensors(), metadata=programs.metadata(programs.data("ard"))))


def assert_model_error_or_lawful(content: bytes) -> None:
    """Every program that is made keeps the law of stacks."""
    if refused(content):
        return
    program = load(content)
    pixels = image(4, 6, program.channels, program.bits)
    pixels[2:] = odd_images(program.channels, program.bits)["noise"][2:4, :6]
    assert_round_trip(program, pixels, noise_stack(), (2, 3))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_of_the_header_is_a_model_error_or_a_program_that_keeps_the_law(index, byte):
    content = bytearray(programs.data(AUTOREGRESSIVE))
    content[index % (8 + int.from_bytes(content[:8], "little"))] = byte
    assert_model_error_or_lawful(bytes(content))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(0, 1, exclude_max=True), st.integers(32, 126))
def test_a_flipped_byte_of_the_description_is_a_model_error_or_a_program_that_keeps_the_law(place, byte):
    description = bytearray(programs.metadata(programs.data(AUTOREGRESSIVE))["dqcodec"].encode())
    description[int(place * len(description))] = byte
    assert_model_error_or_lawful(save(tensors(), metadata={"dqcodec": description.decode()}))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_flipped_byte_of_the_tensors_is_a_model_error_or_a_program_that_keeps_the_law(place, mask):
    content = bytearray(programs.data(AUTOREGRESSIVE))
    header = 8 + int.from_bytes(content[:8], "little")
    content[header + int(place * (len(content) - header))] ^= mask
    assert_model_error_or_lawful(bytes(content))


@settings(max_examples=10, deadline=None, derandomize=True)
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
