import numpy as np
import pngs
import programs
import pytest
from dqc import group, reshaped
from effort import no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import KINDS

from dqcodec import png
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, DqcodecError, LatentOverflow, StackUnderflow, UnknownModelError
from dqcodec.base.varint import write_varint
from dqcodec.codec import candidates, codec, suitability, trial, ways
from dqcodec.format.layer import Layer, Method
from dqcodec.methods.payload import ModelReport

SHAPES = [(32, 32), (33, 35), (31, 64), (47, 18), (8, 200), (200, 9), (17, 90), (70, 33)]
every_kind = pytest.mark.parametrize("kind", KINDS)


def image(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Gentle waves with a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.arange(height)[:, None, None], np.arange(width)[:, None]
    waves = 120 + 60 * np.sin(y / 9 + np.arange(channels) / 3) * np.cos(x / 13)
    return (waves + rng.normal(0, 3, (height, width, channels))).round().clip(0, 255).astype(np.uint8)


def odd_images(channels: int = 3) -> dict[str, np.ndarray]:
    board = np.indices((33, 70)).sum(0)[..., None] % 2 * 255
    line = np.zeros((33, 70, channels), np.uint8)
    line[:, 9] = 255
    noise = np.random.default_rng(1).integers(0, 256, (33, 70, channels))
    black = np.zeros((33, 70, channels))
    odd = {"black": black, "white": black + 255, "noise": noise, "checkerboard": black + board, "line": line}
    return {name: pixels.astype(np.uint8) for name, pixels in odd.items()}


def program_of(kind, channels=3, levels=1):
    return programs.program(kind, channels, levels)


def encode(pixels: np.ndarray, program) -> tuple[bytes, ModelReport]:
    """The payload of one layer, and its report."""
    payload, report = programs.encode([pixels], program)
    assert len(report.layer_bits) == 1
    return payload, report


def decode(payload: bytes, shape: tuple[int, ...], program) -> np.ndarray:
    (pixels,) = programs.decode(payload, [shape], program)
    return pixels


def choose(pixels: np.ndarray, candidates):
    return trial.best_program([pixels], candidates)


@every_kind
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_round_trips(kind, shape):
    program, pixels = program_of(kind), image(*shape)
    payload, report = encode(pixels, program)
    assert np.array_equal(decode(payload, pixels.shape, program), pixels)
    assert 0 < report.vi_bits < 12 * pixels.size and report.seed_bits > 0


@every_kind
@pytest.mark.parametrize("name", odd_images())
def test_odd_images_round_trip_or_leave_the_range(kind, name):
    program, pixels = program_of(kind), odd_images()[name]
    try:
        payload, _ = encode(pixels, program)
    except (LatentOverflow, StackUnderflow):  # another method takes it
        return
    assert np.array_equal(decode(payload, pixels.shape, program), pixels)


@pytest.mark.parametrize("kind", ["uniform", "ard"])
def test_gray_and_two_levels_round_trip(kind):
    program = program_of(kind, 1, 2)
    for shape in [(32, 32), (41, 30), (7, 100)]:
        pixels = image(*shape, channels=1)
        payload, _ = encode(pixels, program)
        assert np.array_equal(decode(payload, pixels.shape, program), pixels)


def test_pixels_of_any_layout_give_the_same_payload():
    program, pixels = program_of("gaussian"), image(40, 41)
    payload, _ = encode(pixels, program)
    for other in (np.asfortranarray(pixels), image(40, 41)[:, ::-1].copy()[:, ::-1], np.repeat(pixels, 2, 1)[:, ::2]):
        assert encode(other, program)[0] == payload


@every_kind
@pytest.mark.parametrize("shape", [(2, 2), (8, 8), (9, 9), (8, 16), (2, 9)], ids=str)
def test_an_image_too_small_for_the_first_loan_is_an_underflow(kind, shape):
    try:
        payload, _ = encode(image(*shape), program_of(kind))
    except StackUnderflow:
        return
    # two tiles may do where the seed is large
    assert np.array_equal(decode(payload, (*shape, 3), program_of(kind)), image(*shape))


def test_an_image_of_one_tile_is_an_underflow():
    with pytest.raises(StackUnderflow):
        encode(image(8, 8), program_of("uniform"))


@pytest.mark.parametrize("shape", [(8, 8), (16, 40), (33, 35)], ids=str)
def test_an_interlaced_flow_lends_to_itself(shape):
    """Its initial bits are few, and its first tiles take less than the bound of bits-back."""
    program, pixels = program_of("interlaced"), image(*shape)
    payload, report = encode(pixels, program)
    assert np.array_equal(decode(payload, pixels.shape, program), pixels)
    assert shape == (33, 35) or report.initial_bits < 8 * 16


@pytest.mark.parametrize("value", [0, 255])
def test_an_interlaced_flow_codes_images_that_take_almost_no_bits(value):
    program, pixels = program_of("interlaced"), np.full((16, 24, 3), value, np.uint8)
    payload, _ = encode(pixels, program)
    assert np.array_equal(decode(payload, pixels.shape, program), pixels)


@pytest.mark.parametrize("shape", [(1, 40, 3), (40, 1, 3), (40, 40, 1), (40, 40, 4)])
def test_a_shape_that_no_program_fits_is_never_chosen_and_never_decoded(shape):
    assert choose(np.zeros(shape, np.uint8), [program_of("uniform")]) is None
    with pytest.raises(CorruptError):
        decode(b"\1\1" + bytes(50), shape, program_of("uniform"))


def test_the_program_of_the_fewest_bits_is_chosen():
    candidates = [program_of(kind) for kind in KINDS]
    chosen = choose(image(64, 64), candidates)
    sizes = {program.name: len(encode(image(64, 64), program)[0]) for program in candidates}
    assert sizes[chosen.name] <= 1.02 * min(sizes.values())
    gray = program_of("uniform", 1, 2)
    assert choose(image(64, 64), [gray, chosen]) is chosen
    assert choose(image(64, 64, 1), [gray, chosen]) is gray


def test_a_program_that_fails_leaves_the_image_to_another_program():
    changed = programs.amplified("uniform", 17)
    bad = programs.load_program(programs.write(programs.with_tensors("uniform", changed)))
    with pytest.raises(LatentOverflow):
        encode(image(64, 64), bad)
    good = program_of("gaussian")
    assert choose(image(64, 64), [bad, good]) is choose(image(64, 64), [good, bad]) is good


def test_the_parts_of_the_report_add_up():
    pixels, program = image(120, 120), program_of("gaussian")
    payload, report = encode(pixels, program)
    excess = 8 * len(payload) - report.vi_bits
    assert abs(report.grid_bits) < 0.02 * pixels.size + 64
    assert abs(excess - report.initial_bits - report.grid_bits) < 8 * 24  # lengths and the stack's two top words


PIXELS = image(24, 29)


def assert_every_damage_is_a_named_error(dqc: bytes, find) -> None:
    """Every byte flipped somewhere, every cut."""
    for index in range(len(dqc)):
        broken = bytearray(dqc)
        broken[index] ^= 1 << index % 8
        for damaged in (bytes(broken), dqc[:index]):
            with pytest.raises(DqcodecError):
                codec.decompress(damaged, find)


def test_latents_out_of_range_are_a_corrupt_payload():
    """A stack whose bits are the code of latents that no image has."""
    program, rng = program_of("gaussian"), np.random.default_rng(3)
    stack, depth = Stack(rng.bytes(60000)), len(program.codec.density.levels)
    shape = (1, programs.TILE >> depth, programs.TILE >> depth, 3 << depth)
    program.codec.density.logistic.push(stack, rng.integers(-(1 << 42), 1 << 42, shape))
    payload = write_varint(1) + write_varint(1) + write_varint(8) + stack.to_bytes()
    with pytest.raises(CorruptError, match="latent"):
        decode(payload, (programs.TILE, 2 * programs.TILE, 3), program)


def assert_right_image_or_named_error(dqc: bytes, find, pixels: np.ndarray) -> None:
    try:
        restored, _ = codec.decompress(dqc, find)
    except DqcodecError as error:
        assert "\n" not in str(error)
    else:
        assert np.array_equal(png.read(restored).pixels, pixels)


def damaged_payloads(payload: bytes):
    rng = np.random.default_rng(0)
    for index in [*range(0, 40, 3), *rng.integers(0, len(payload), 12), *range(len(payload) - 9, len(payload))]:
        broken = bytearray(payload)
        broken[index] ^= 1 << int(rng.integers(8))
        yield bytes(broken)
    for cut in [*range(6), *rng.integers(0, len(payload), 4), len(payload) - 4, len(payload) - 1]:
        yield payload[:cut]
    for length in (0, 1, 2, 9, 60, 500, 2000):
        yield rng.bytes(length)
        yield payload[:4] + rng.bytes(4 * (length // 4))
    yield payload + bytes(4)
    yield payload + b"\1\0\0\0"


@every_kind
def test_a_damaged_payload_gives_an_image_or_a_named_error_without_hanging(kind):
    program = program_of(kind)
    payload, _ = encode(PIXELS, program)
    for broken in damaged_payloads(payload):
        with no_hang():
            try:
                pixels = decode(broken, PIXELS.shape, program)
            except DqcodecError as error:
                assert "\n" not in str(error)
            else:
                assert pixels.shape == PIXELS.shape and pixels.dtype == np.uint8


@every_kind
@settings(max_examples=10)
@given(st.binary(max_size=400))
def test_random_bytes_give_an_image_or_a_named_error(kind, payload):
    try:
        pixels = decode(payload, PIXELS.shape, program_of(kind))
    except DqcodecError:
        return
    assert pixels.shape == PIXELS.shape


def test_another_programs_payload_gives_an_image_or_a_named_error():
    payload, _ = encode(PIXELS, program_of("ard"))
    for kind in ("uniform", "gaussian", "bipartite"):
        try:
            assert decode(payload, PIXELS.shape, program_of(kind)).shape == PIXELS.shape
        except DqcodecError:
            pass


# --- whole files


def find(model_id: bytes):
    for kind in KINDS:
        if program_of(kind).id == model_id:
            return program_of(kind)
    raise UnknownModelError("no such model")


def assert_files_round_trip(pixels: np.ndarray, candidates):
    source = pngs.write(pixels)
    dqc, report = codec.compress(source, candidates)
    restored, _ = codec.decompress(dqc, find)
    assert np.array_equal(png.read(restored).pixels, pixels)
    assert len(dqc) <= len(source) + 64
    return report


@every_kind
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 90), (90, 1), (2, 2), (7, 5), (8, 8), (16, 17), (33, 70), (64, 48)], ids=str
)
@pytest.mark.parametrize("channels", [1, 3])
def test_files_of_any_size_round_trip(kind, shape, channels):
    assert_files_round_trip(image(*shape, channels), [program_of(kind)])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", odd_images())
def test_odd_files_round_trip(name, channels):
    report = assert_files_round_trip(odd_images(channels)[name], [program_of(kind) for kind in KINDS])
    assert report.method != "flow"


def flow_file(kind: str) -> tuple[bytes, np.ndarray]:
    """A file by the method flow; a program with random weights would hardly win."""
    program, pixels = program_of(kind), PIXELS
    payload, _ = encode(pixels, program)
    return group(pixels, Method.FLOW, payload, program.id).pack(), pixels


@every_kind
def test_a_flow_file_decompresses_and_names_its_model(kind):
    dqc, pixels = flow_file(kind)
    restored, report = codec.decompress(dqc, find)
    assert np.array_equal(png.read(restored).pixels, pixels) and report.method == "flow"
    assert codec.info(dqc).model_id == program_of(kind).id.hex()
    with pytest.raises(UnknownModelError):
        codec.decompress(dqc, lambda model_id: find(b"another!"))


def keep_models(monkeypatch) -> None:
    """Keep other methods from winning."""
    loser = ways.CodedLayer(Layer(Method.CLASSICAL), bytes(1 << 16), 1 << 16)
    monkeypatch.setattr("dqcodec.codec.choose.by_webp", lambda pixels, search: loser)
    monkeypatch.setattr(candidates, "is_icon", lambda *_: False)
    monkeypatch.setattr(candidates, "takes_mixing", lambda pixels, **told: False)
    monkeypatch.setattr(candidates, "takes_experts", lambda *_: False)
    monkeypatch.setattr(suitability, "MAX_RIVAL_SAMPLES", 0)


def test_compress_writes_the_flow_file_if_it_is_smallest(monkeypatch):
    """If the other methods cannot win, compress, info and decompress all use a real program."""
    keep_models(monkeypatch)
    source = pngs.write(PIXELS, before=pngs.chunk(b"tEXt", b"Comment\0" + bytes(9999)))
    dqc, report = codec.compress(source, [program_of("ard")])
    assert (report.method, report.model, report.verified) == ("flow", "ard", True)
    restored = png.read(codec.decompress(dqc, find)[0])
    assert np.array_equal(restored.pixels, PIXELS) and restored.skeleton == png.read(source).skeleton


@every_kind
def test_a_flipped_byte_or_a_cut_of_a_flow_file_is_a_named_error(kind):
    dqc, _ = flow_file(kind)
    assert_every_damage_is_a_named_error(dqc, find)


@every_kind
def test_damage_under_a_right_crc_is_a_named_error_or_the_right_image(kind):
    """Without the CRC, the stack, the range of pixels or their checksum find damage."""
    program = program_of(kind)
    payload, _ = encode(PIXELS, program)
    for broken in damaged_payloads(payload):
        dqc = group(PIXELS, Method.FLOW, broken, program.id).pack()
        assert_right_image_or_named_error(dqc, find, PIXELS)


@pytest.mark.parametrize("shape", [(24, 28), (23, 29), (29, 24), (48, 29), (2, 348), (1000, 1000)], ids=str)
def test_a_flow_file_of_another_shape_is_a_named_error(shape):
    program = program_of("gaussian")
    payload, _ = encode(PIXELS, program)
    dqc = reshaped(group(PIXELS, Method.FLOW, payload, program.id), *shape).pack()
    with no_hang(), pytest.raises(DqcodecError):
        codec.decompress(dqc, find)
