"""An autoregressive program codes any image and gives it back; damage is a named error."""

import functools

import fake_learned
import numpy as np
import pngs
import programs
import pytest
from dqc import group, reshaped
from effort import little_memory, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import AUTOREGRESSIVE
from test_flow_method import (
    assert_every_damage_is_a_named_error,
    assert_right_image_or_named_error,
    choose,
    damaged_payloads,
    decode,
    encode,
    image,
    keep_models,
    odd_images,
)

from dqcodec import png
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, DqcodecError, UnknownModelError
from dqcodec.base.varint import write_varint
from dqcodec.codec import codec, trial
from dqcodec.codec.effort import Effort
from dqcodec.context import fronts
from dqcodec.exact.program import load_program
from dqcodec.format.layer import Method
from dqcodec.methods import autoregressive

SHAPES = [(1, 1), (1, 2), (2, 1), (1, 15), (9, 1), (7, 5)]
TILED_SHAPES = [(1, 1), (8, 9), (9, 10), (17, 19)]


def program_of(channels: int = 3):
    return programs.program(AUTOREGRESSIVE, channels)


def assert_round_trip(pixels: np.ndarray, program) -> tuple[bytes, object]:
    payload, report = encode(pixels, program)
    decoded = decode(payload, pixels.shape, program)
    assert decoded.dtype == np.uint8 and np.array_equal(decoded, pixels)
    return payload, report


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_round_trips(shape, channels):
    assert_round_trip(image(*shape, channels), program_of(channels))


@pytest.mark.parametrize("shape", [(128, 1), (300, 3), (129, 140), (2, 1030)], ids=str)
def test_more_than_one_tile_round_trips(shape):
    assert_round_trip(image(*shape, 1), programs.tiled(128, 1024, 1))


@pytest.mark.parametrize("shape", TILED_SHAPES, ids=str)
@pytest.mark.parametrize("tile", [(8, 9), (8, 999), (999, 9)], ids=str)
def test_tiles_of_any_shape_round_trip(shape, tile):
    assert_round_trip(image(*shape, 1), programs.tiled(*tile, 1))


@pytest.mark.parametrize("channels", [1, 3])
def test_odd_images_round_trip(channels):
    for pixels in odd_images(channels).values():
        assert_round_trip(pixels[:4, 5:12], program_of(channels))


@pytest.mark.parametrize("front", [1, 30, 1000])
def test_any_count_of_batches_round_trips(front, monkeypatch):
    monkeypatch.setattr(fronts, "FRONT", front)
    for shape in [(16, 11), (17, 11)]:
        assert_round_trip(image(*shape), programs.tiled(8, 9))


@pytest.mark.parametrize("pixels", [1, 12, 50])
def test_stacks_of_few_pixels_round_trip(pixels, monkeypatch):
    """A stack never has less than a row of a tile."""
    monkeypatch.setattr(autoregressive, "MAX_STACK_PIXELS", pixels)
    for shape in [(1, 12), (5, 12), (7, 1)]:
        assert_round_trip(image(*shape), programs.tiled(8, 9))


def test_pixels_of_any_layout_give_the_same_payload():
    pixels, program = image(8, 11), program_of()
    payload, _ = encode(pixels, program)
    for other in (np.asfortranarray(pixels), pixels[:, ::-1].copy()[:, ::-1], np.repeat(pixels, 2, 1)[:, ::2]):
        assert encode(other, program)[0] == payload


@pytest.mark.parametrize("shape", [(1, 1), (15, 20), (131, 1)], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_parts_of_the_report_add_up(shape, channels):
    pixels = image(*shape, channels)
    payload, report = encode(pixels, program_of(channels))
    ideal_bits = report.vi_bits
    assert abs(ideal_bits + report.initial_bits + report.grid_bits - 8 * len(payload)) < 1e-6 * len(payload)
    assert 0 < report.vi_bits <= 19 * pixels.size and 0 <= report.seed_bits <= report.initial_bits
    assert -1 < report.grid_bits < 64 + 0.001 * pixels.size  # the stack's whole words
    assert report.initial_bits < 8 * 48  # a small seed and a few lengths


def test_the_reported_rate_is_the_programs():
    pixels, program = image(15, 16), program_of()
    _, report = encode(pixels, program)
    assert report.vi_bits == pytest.approx(program.slots([pixels]).bits)


@pytest.mark.parametrize("shape", [(40, 40, 1), (40, 40, 4)])
def test_a_shape_that_the_program_does_not_fit_is_never_chosen_and_never_decoded(shape):
    assert choose(np.zeros(shape, np.uint8), [program_of()]) is None
    with pytest.raises(CorruptError):
        decode(bytes(50), shape, program_of())


def test_a_program_of_fewer_bits_is_never_chosen():
    program = programs.program(AUTOREGRESSIVE, 3, 1, 5)
    assert codec.compress(pngs.write(image(9, 9)), [program])[1].model is None
    with pytest.raises(CorruptError):
        decode(bytes(50), (9, 9, 3), program)


# --- several layers


def layers_of(*shapes: tuple[int, int], channels: int = 3) -> list[np.ndarray]:
    return [image(*shape, channels, seed) for seed, shape in enumerate(shapes)]


def assert_round_trip_together(layers: list[np.ndarray], program) -> tuple[bytes, object]:
    payload, report = programs.encode(layers, program)
    decoded = programs.decode(payload, [pixels.shape for pixels in layers], program)
    assert all(np.array_equal(*pair) for pair in zip(decoded, layers, strict=True))
    assert [pixels.dtype for pixels in decoded] == [np.uint8] * len(layers) == [np.uint8] * len(report.layer_bits)
    return payload, report


SOME = [(7, 5), (1, 1), (12, 20), (7, 5), (2, 30)]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("tile", [(8, 9), (128, 1024)], ids=str)
def test_layers_of_any_sizes_round_trip_together(tile, channels):
    layers = layers_of(*SOME, channels=channels)
    assert_round_trip_together(layers, programs.tiled(*tile, channels))
    assert_round_trip_together(layers[::-1], programs.tiled(*tile, channels))


@pytest.mark.parametrize("pixels", [1, 12, 100, 1 << 20])
@pytest.mark.parametrize("front", [1, 30])
def test_layers_round_trip_together_in_any_count_of_stacks_and_batches(pixels, front, monkeypatch):
    monkeypatch.setattr(autoregressive, "MAX_STACK_PIXELS", pixels)
    monkeypatch.setattr(fronts, "FRONT", front)
    assert_round_trip_together(layers_of(*SOME), programs.tiled(8, 9))


def test_stacks_take_tiles_as_long_as_they_fit(monkeypatch):
    monkeypatch.setattr(autoregressive, "MAX_STACK_PIXELS", 100)
    program = programs.tiled(8, 9)
    stacks = list(autoregressive.stacks(SOME, program))
    places = np.concatenate([np.full(shape, number) for number, shape in enumerate(SOME)], axis=None)
    boxes = [box for stack in stacks for box in stack]
    counts = [np.zeros(shape, int) for shape in SOME]
    for number, *box in boxes:
        counts[number][tuple(box)] += 1
    assert all((count == 1).all() for count in counts) and [box[0] for box in boxes] == sorted(box[0] for box in boxes)
    areas = [[(box[1].stop - box[1].start) * (box[2].stop - box[2].start) for box in stack] for stack in stacks]
    assert all(sum(area) <= 100 for area in areas) and sum(map(sum, areas)) == len(places)
    assert all(sum(area) + following[0] > 100 for area, following in zip(areas, areas[1:])) and len(stacks) > 1


def test_the_parts_of_the_report_add_up_over_layers():
    layers, program = layers_of(*SOME), program_of()
    payload, report = assert_round_trip_together(layers, program)
    assert abs(report.vi_bits + report.initial_bits + report.grid_bits - 8 * len(payload)) < 1e-6 * len(payload)
    assert report.vi_bits == pytest.approx(sum(report.layer_bits)) and min(report.layer_bits) > 0


def test_without_learning_the_bits_of_a_layer_do_not_depend_on_other_layers():
    layers, program = layers_of(*SOME), programs.still()
    together = assert_round_trip_together(layers, program)[1].layer_bits
    assert together == pytest.approx([programs.encode([pixels], program)[1].vi_bits for pixels in layers])


def test_a_layer_is_smaller_after_a_similar_layer():
    """In batches of their own, and on one stack."""
    layers, program = [image(24, 24)] * 3, programs.tiled(24, 24)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fronts, "FRONT", 1)
        payload, report = assert_round_trip_together(layers, program)
        alone, of_one = programs.encode(layers[:1], program)
        first, second, third = report.layer_bits
        assert first == pytest.approx(of_one.vi_bits) and third < second < first
        assert len(payload) < 3 * len(alone)
        patch.setattr(autoregressive, "MAX_STACK_PIXELS", 24 * 24)
        assert programs.encode(layers, program)[1].layer_bits == pytest.approx([first] * 3)


def test_layers_of_another_count_or_other_shapes_are_a_named_error_or_layers():
    layers, program = layers_of((4, 6), (5, 5)), program_of()
    payload, _ = programs.encode(layers, program)
    for shapes in ([(4, 6, 3)], [(4, 6, 3), (5, 5, 3), (1, 1, 3)], [(5, 5, 3), (4, 6, 3)], [(4, 6, 3), (5, 4, 3)]):
        try:
            assert [pixels.shape for pixels in programs.decode(payload, shapes, program)] == shapes
        except CorruptError as error:
            assert "\n" not in str(error)
    with pytest.raises(CorruptError):
        programs.decode(payload, [(4, 6, 3), (5, 5, 1)], program)


def test_a_program_must_fit_all_layers_to_be_chosen():
    layers = layers_of((64, 64), (1, 40), (64, 64))
    flow = programs.program("uniform")
    assert trial.best_program(layers[:1], [flow]) is flow
    assert (
        trial.best_program(layers, [flow])
        is None
        is trial.best_program([*layers, image(9, 9, 1)], [program_of(), flow])
    )
    assert trial.best_program(layers, [flow, spoilt()]) is spoilt()
    assert trial.best_program(layers, [spoilt(), program_of()]) is program_of()
    assert trial.best_program(layers_of(*[(2, 2)] * 3000), [spoilt(), program_of()]) is program_of()


@pytest.mark.parametrize(
    ("effort", "chosen"), [(Effort.FAST, "small"), (Effort.USUAL, "usual"), (Effort.BEST, "large")]
)
def test_the_effort_bounds_the_multiplications_of_a_model(effort, chosen):
    def sized(name: str, multiplications: int, bits_per_sample: float) -> fake_learned.Program:
        program = fake_learned.Program(name, card={"multiplications_per_pixel": multiplications})
        program.code_length = lambda parts: bits_per_sample * sum(pixels.size for pixels in parts)
        return program

    known = [sized("large", 500_000, 1.0), sized("usual", 64_000, 2.0), sized("small", 32_000, 3.0)]
    layers = layers_of((20, 20))
    assert trial.best_program(layers, known, effort).name == chosen
    assert trial.best_program(layers, known[:1], effort).name == "large"  # the only one


def test_a_program_codes_a_sample_once_however_many_methods_are_compared_with_it():
    program, calls = fake_learned.Program("one"), []
    program.code_length = lambda parts: calls.append(parts) or 8.0
    layers = layers_of((96, 96))
    ratios = [trial.bits_ratio(method, layers, program) for method in (Method.TRAINED_MIXING, Method.EXPERTS)]
    assert len(calls) == 1 and ratios[0] != ratios[1]
    assert trial.bits_ratio(Method.EXPERTS, layers, program) == ratios[1] and len(calls) == 1


def test_a_small_lone_layer_takes_the_largest_model_without_a_trial():
    def sized(name: str, multiplications: int, bits: float) -> fake_learned.Program:
        program = fake_learned.Program(name, card={"multiplications_per_pixel": multiplications})
        program.code_length = lambda parts: bits
        return program

    known = [sized("usual", 64_000, 2.0), sized("small", 32_000, 1.0)]
    assert trial.best_program(layers_of((32, 32)), known).name == "usual"
    for shapes in ([(31, 33)], [(32, 32)] * 2, [(128, 128)]):  # too few pixels, not alone, not small
        assert trial.best_program(layers_of(*shapes), known).name == "small"
    assert trial.best_program(layers_of((32, 32)), known, Effort.BEST).name == "small"


# --- the choice


@functools.cache
def spoilt():
    """The program with means that are all six spreads too high."""
    changed = programs.tensors(AUTOREGRESSIVE)
    for name in (f"net.out.{plane}" for plane in range(3)):
        weight, bias, shift = (changed[f"{name}.{part}"] for part in ("weight", "bias", "shift"))
        means = slice(len(bias) // 3, 2 * len(bias) // 3)
        weight[means] = 0
        bias[means] = 6 * 256 << shift[means].astype(np.int64)
    return load_program(programs.write(programs.with_tensors(AUTOREGRESSIVE, changed)))


def test_the_better_of_a_flow_and_an_autoregressive_program_is_chosen():
    pixels, ranking = image(16, 24), [program_of(), programs.program("uniform"), spoilt()]
    sizes = [len(encode(pixels, program)[0]) for program in ranking]
    assert sizes == sorted(set(sizes))
    assert choose(pixels, ranking) is choose(pixels, ranking[::-1]) is ranking[0]
    assert choose(pixels, ranking[1:]) is ranking[1]


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (30, 1), (3, 20)], ids=str)
def test_an_image_of_any_size_has_a_program(shape):
    """Where a flow's tiles do not fit, too."""
    candidates = [programs.program("uniform"), spoilt(), program_of()]
    assert choose(image(*shape), candidates) in candidates[1:]


# --- damage

PIXELS = image(4, 6)


def assert_pixels_or_named_error(payload: bytes, shape=PIXELS.shape, program=None) -> bool:
    """Whether it decodes to something."""
    try:
        pixels = decode(payload, shape, program or program_of())
    except DqcodecError as error:
        assert "\n" not in str(error)
        return False
    assert pixels.shape == shape and pixels.dtype == np.uint8
    return True


def test_every_cut_and_every_byte_more_is_corrupt():
    payload, _ = encode(PIXELS, program_of())
    for broken in [payload[:cut] for cut in range(len(payload))] + [payload + bytes(count) for count in (1, 4)]:
        with pytest.raises(CorruptError):
            decode(broken, PIXELS.shape, program_of())


def test_a_flipped_byte_gives_an_image_or_a_named_error():
    program = programs.tiled(8, 8)
    payload, _ = encode(PIXELS, program)
    rng = np.random.default_rng(0)
    for index in [*range(8), *range(8, len(payload), 3)]:
        broken = bytearray(payload)
        broken[index] ^= int(rng.integers(1, 256))
        assert_pixels_or_named_error(bytes(broken), program=program)


def test_a_damaged_payload_gives_an_image_or_a_named_error_without_hanging():
    payload, _ = encode(PIXELS, program_of())
    for broken in list(damaged_payloads(payload))[::2]:
        with no_hang():
            assert_pixels_or_named_error(broken)


@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_random_bytes_give_an_image_or_a_named_error(payload):
    assert_pixels_or_named_error(payload)


HUGE = (1 << 35) - 1
numbers = st.one_of(st.integers(0, 90), st.sampled_from([1 << 31, 1 << 32, HUGE]))


@settings(max_examples=40)
@given(st.lists(numbers, max_size=4), st.binary(max_size=80))
def test_random_numbers_before_random_bytes_give_an_image_or_a_named_error(header, rest):
    assert_pixels_or_named_error(b"".join(map(write_varint, header)) + bytes(-len(rest) % 4) + rest)


def payload_of(seed_bytes: int, length: int | None = None) -> bytes:
    """A payload with any numbers in its head, and a stack of noise."""
    stack = Stack(np.random.default_rng(0).bytes(60)).to_bytes()
    return write_varint(seed_bytes) + write_varint(len(stack) if length is None else length) + stack


@pytest.mark.parametrize(
    "claims", [(0,), (4,), (HUGE,), (0, HUGE), (HUGE, HUGE), (0, 0), (0, 4), (0, 5), (0, 60)], ids=str
)
def test_a_payload_shorter_than_it_claims_is_corrupt(claims):
    with pytest.raises(CorruptError):
        decode(payload_of(*claims), PIXELS.shape, program_of())


@pytest.mark.parametrize("shape, seed_bytes", [((200, 200, 3), 0), ((200, 200, 3), HUGE), ((1, 900, 3), HUGE)], ids=str)
def test_a_small_payload_takes_no_more_memory_than_a_real_one(shape, seed_bytes):
    """Decoding takes about 130 bytes for each pixel of a group, and more for narrow images."""
    with little_memory(600 * shape[0] * shape[1] + (1 << 20)), pytest.raises(CorruptError):
        decode(payload_of(seed_bytes), shape, program_of())


def test_another_programs_payload_gives_an_image_or_a_named_error():
    payload, _ = encode(PIXELS, spoilt())
    assert not np.array_equal(payload, encode(PIXELS, program_of())[0])
    assert_pixels_or_named_error(payload)
    for kind in ("uniform", "ard"):
        assert_pixels_or_named_error(encode(image(24, 29), programs.program(kind))[0])
        assert_pixels_or_named_error(payload, (24, 29, 3), programs.program(kind))


# --- whole files


def find(model_id: bytes):
    for channels in (1, 3):
        if program_of(channels).id == model_id:
            return program_of(channels)
    raise UnknownModelError("no such model")


def dqc_of(pixels: np.ndarray, payload: bytes | None = None, method: Method = Method.AUTOREGRESSIVE) -> bytes:
    program = program_of(pixels.shape[2])
    payload = encode(pixels, program)[0] if payload is None else payload
    return group(pixels, method, payload, program.id).pack()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (7, 5)], ids=str)
def test_files_of_any_size_round_trip(shape, channels):
    source = pngs.write(image(*shape, channels))
    dqc, _ = codec.compress(source, [program_of(channels)])
    assert len(dqc) <= len(source) + 64
    assert np.array_equal(png.read(codec.decompress(dqc, find)[0]).pixels, image(*shape, channels))


def test_compress_writes_the_smallest_file(monkeypatch):
    """If the other methods cannot win, compress, info and decompress all use the method."""
    pixels = image(13, 16)
    keep_models(monkeypatch)
    source = pngs.write(pixels, before=pngs.chunk(b"tEXt", b"Comment\0" + bytes(9999)))
    dqc, report = codec.compress(source, [programs.program("uniform"), program_of()])
    assert (report.method, report.model, report.verified) == (AUTOREGRESSIVE, AUTOREGRESSIVE, True)
    assert report.payload_bytes + report.chunk_bytes + report.container_bytes == len(dqc) == report.dqc_bytes
    assert report.container_bytes <= 32
    parts = report.learned
    assert parts["coded_bpd"] == 8 * report.payload_bytes / pixels.size
    assert (parts["coded_bpd"] - parts["vi_bpd"]) * pixels.size == pytest.approx(
        parts["initial_bits"] + parts["grid_bits"]
    )
    assert f"(limit {parts['vi_bpd']:.2f})" in report.line() and "seed_bits" in report.details()
    told = codec.info(dqc)
    assert (told.method, told.model_id, told.payload_bytes) == (
        AUTOREGRESSIVE,
        program_of().id.hex(),
        report.payload_bytes,
    )
    restored, report = codec.decompress(dqc, find)
    assert report.method == AUTOREGRESSIVE
    assert png.read(restored).same(png.read(source))
    with pytest.raises(UnknownModelError):
        codec.decompress(dqc, lambda model_id: find(b"another!"))


def test_a_file_whose_model_is_of_another_kind_is_corrupt():
    dqc, other = dqc_of(PIXELS), programs.program("uniform")
    with pytest.raises(CorruptError):
        codec.decompress(dqc, lambda model_id: other)
    flow = dqc_of(PIXELS, method=Method.FLOW)
    with pytest.raises(CorruptError):
        codec.decompress(flow, find)


def test_a_flipped_byte_or_a_cut_of_a_file_is_a_named_error():
    assert_every_damage_is_a_named_error(dqc_of(PIXELS), find)


def test_damage_under_a_right_crc_is_a_named_error_or_the_right_image():
    payload, _ = encode(PIXELS, program_of())
    for broken in list(damaged_payloads(payload))[1::3]:
        assert_right_image_or_named_error(dqc_of(PIXELS, broken), find, PIXELS)


@pytest.mark.parametrize("shape", [(4, 5), (3, 6), (6, 4), (24, 1), (1, 24), (1000, 1000)], ids=str)
def test_a_file_of_another_shape_is_a_named_error(shape):
    payload, _ = encode(PIXELS, program_of())
    with no_hang(), pytest.raises(DqcodecError):
        codec.decompress(reshaped(group(PIXELS, Method.AUTOREGRESSIVE, payload, program_of().id), *shape).pack(), find)
