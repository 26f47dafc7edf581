"""Coding at the importance-weighted bound: bits-back with coupled particles, and the flow method with several layers."""

import json
import math

import numpy as np
import programs
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import noise_stack

from dqcodec import png
from dqcodec.ans import bits_back
from dqcodec.ans.bits_back import CoupledBitsBack
from dqcodec.ans.logarithms import ONE, exp2, log2
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, DqcodecError, LatentOverflow, ParticlesError, StackUnderflow
from dqcodec.base.varint import read_varint, write_varint
from dqcodec.codec import candidates, choose, codec
from dqcodec.command import cli
from dqcodec.format.container import Layer, Method
from dqcodec.frozen.ans import EXP2_BITS, LOG2_BITS
from dqcodec.frozen.flow import CHOICE_BITS, MAX_PARTICLES
from dqcodec.methods import flow
from dqcodec.methods.payload import Effort

few = settings(max_examples=12)
numbers = st.sampled_from([1, 2, 3, 4, 7, 16, MAX_PARTICLES])


def digits(count: int, side: int = 8, bits: int = 1, seed: int = 0) -> np.ndarray:
    """Smooth tiles with samples of `bits` bits, (B, H, W, 1) int64."""
    return programs.smooth(np.random.default_rng(seed), count, side, side, 1) >> 8 - bits


def layers_of(x: np.ndarray) -> list[np.ndarray]:
    return list(x.astype(np.uint8))


def uniform(bits: int = 1, levels: int = 2):
    return programs.program("uniform", 1, levels, bits)


# --- integers


@given(st.integers(1, (1 << 31) - 1))
def test_log2_is_right_to_its_last_digit(number):
    assert -1.01 / ONE < int(log2(np.array(number))) / ONE - math.log2(number) <= 1e-14


def test_log2_of_powers_of_two_is_whole():
    assert np.array_equal(log2(1 << np.arange(31)), np.arange(31) << LOG2_BITS)


@given(st.integers(0, 50 * ONE))
def test_exp2_is_right(below):
    assert abs(int(exp2(np.array(-below))) - 2.0 ** (EXP2_BITS - below / ONE)) < 32


def test_exp2_of_very_small_numbers_is_zero():
    assert exp2(np.array([0, -ONE, -40 * ONE, -(1 << 60)])).tolist() == [1 << EXP2_BITS, 1 << EXP2_BITS - 1, 0, 0]


@few
@given(numbers, st.integers(8, 15))
def test_particles_lie_evenly_in_every_dimension_and_the_first_is_the_sample_itself(particles, fraction_bits):
    offsets = bits_back.coupled_offsets(particles, (4, 4, 1), fraction_bits)
    assert not offsets[0].any()
    even = (np.arange(particles) << fraction_bits) // particles
    assert np.array_equal(np.sort(offsets, 0), np.broadcast_to(even[:, None, None, None], offsets.shape))
    assert particles < 3 or (offsets[1] != offsets[1, 0, 0]).any()


def test_the_offsets_are_those_of_the_format():
    assert bits_back.coupled_offsets(4, (6,), 8).tolist() == GOLDEN_OFFSETS


GOLDEN_OFFSETS = [
    [0, 0, 0, 0, 0, 0],
    [64, 128, 64, 192, 64, 128],
    [192, 64, 128, 64, 128, 192],
    [128, 192, 192, 128, 192, 64],
]


@few
@given(st.integers(0, 999), numbers)
def test_every_particle_has_a_slot_and_all_of_them_the_whole(seed, particles):
    weights = -np.random.default_rng(seed).integers(0, 90 * ONE, (5, particles))
    starts, sizes = bits_back._shares(weights)
    assert sizes.min() >= 1 and (sizes.sum(1) == 1 << CHOICE_BITS).all()
    assert np.array_equal(starts[:, 1:], np.cumsum(sizes, 1)[:, :-1])
    shares = np.exp2((weights - weights.max(1, keepdims=True)) / ONE)
    assert np.abs(sizes / (1 << CHOICE_BITS) - shares / shares.sum(1, keepdims=True)).max() < 1e-4


# --- the codec


@few
@given(numbers, st.integers(1, 8), st.integers(0, 999), st.integers(1, 4), st.booleans())
def test_pop_undoes_push_the_stack_included(particles, bits, seed, count, noisy):
    x = digits(count, bits=bits, seed=seed)
    x = np.random.default_rng(seed).integers(0, 1 << bits, x.shape) if noisy else x
    coder, stack = uniform(bits).coupled(particles), noise_stack(seed)
    before = stack.to_bytes()
    coder.push(stack, x)
    assert np.array_equal(coder.pop(stack, *x.shape[:3]), x) and stack.to_bytes() == before


@few
@given(numbers, st.integers(0, 999))
def test_push_undoes_pop_wherever_it_pops_pixels(particles, seed):
    """Random bits, decoded, are a sample: coded again they are the same bits."""
    coder, stack = uniform(8).coupled(particles), noise_stack(seed)
    before = stack.to_bytes()
    x = coder.pop(stack, 1, 8, 8)
    coder.push(stack, x)
    assert stack.to_bytes() == before


def test_one_particle_gives_the_bytes_of_plain_bits_back():
    program, x = uniform(), digits(6)
    plain, coupled = noise_stack(), noise_stack()
    bits = program.codec.push(plain, x)
    assert (
        np.abs(CoupledBitsBack(program.codec.dequantizer, program.codec.density, 1).push(coupled, x) - bits).max() < 3
    )
    assert plain.to_bytes() == coupled.to_bytes() and program.coupled(1) is program.codec


@torch.no_grad()
@pytest.mark.parametrize("bits", [1, 3])
@pytest.mark.parametrize("particles", [2, 4, 16])
def test_the_coded_bits_are_the_float_models_coupled_bound(particles, bits):
    program, model, x = uniform(bits), programs.model("uniform", 1, 2, bits), digits(64, bits=bits)
    coder, fraction_bits = program.coupled(particles), program.description.fraction_bits
    stack = noise_stack(5, 1 << 18)
    u, before = stack.clone().pop(1 << fraction_bits, x.shape), stack.bits
    told = coder.push(stack, x)
    offsets = bits_back.coupled_offsets(particles, x.shape[1:], fraction_bits)
    log_weights = []
    for offset in offsets:
        value = x + ((u + offset) % (1 << fraction_bits) + 0.5) / (1 << fraction_bits)
        log_weights.append(model.density.log_prob(torch.from_numpy(value).float().permute(0, 3, 1, 2)).double())
    bound = (math.log(particles) - torch.logsumexp(torch.stack(log_weights), 0)) / math.log(2)
    assert np.abs(told - bound.numpy()).mean() / x[0].size < 0.01
    assert abs(stack.bits - before - told.sum()) / x.size < 0.01


def test_more_particles_take_fewer_bits():
    x = digits(200)
    bits = [uniform().coupled(k).push(noise_stack(1, 1 << 19), x).sum() for k in (1, 2, 4, 16, 64)]
    assert bits == sorted(bits, reverse=True) and bits[-1] < 0.97 * bits[0]


def least_loan(particles: int, x: np.ndarray) -> int:
    """The bytes that coding x borrows on the way."""
    for length in range(0, 1 << 12, 4):
        try:
            uniform().coupled(particles).push(Stack(np.random.default_rng(0).bytes(length)), x)
        except StackUnderflow:
            continue
        return length


def test_the_first_loan_does_not_grow_with_the_particles():
    x = digits(3)
    alone = least_loan(1, x)
    assert all(least_loan(particles, x) <= alone + 16 for particles in (2, 16, MAX_PARTICLES))


def test_weights_do_not_depend_on_how_many_are_computed_at_once(monkeypatch):
    coder, v = uniform().coupled(5), digits(3) << uniform().description.fraction_bits
    offsets = coder._offsets(v.shape[1:])
    weights = coder._weights(v, offsets)
    monkeypatch.setattr(bits_back, "_CHUNK_DIMS", 1)
    assert np.array_equal(coder._weights(v, offsets), weights)


def test_only_a_uniform_dequantizer_has_several_particles_and_no_one_has_too_many():
    for kind in ("gaussian", "bipartite", "ard"):
        assert programs.program(kind).coupled(1) is programs.program(kind).codec
        with pytest.raises(ParticlesError, match=f"the model {kind} has no uniform dequantizer"):
            programs.program(kind).coupled(2)
    for particles in (0, -1, MAX_PARTICLES + 1, 1 << 40):
        with pytest.raises(ParticlesError):
            uniform().coupled(particles)


# --- payloads


@few
@given(
    numbers,
    st.integers(1, 8),
    st.integers(0, 999),
    st.lists(st.tuples(st.integers(4, 21), st.integers(4, 21)), min_size=1, max_size=5),
)
def test_several_layers_round_trip_or_cannot_pay(particles, bits, seed, sizes):
    rng, program = np.random.default_rng(seed), uniform(bits)
    layers = [(programs.smooth(rng, 1, *size, 1)[0] >> 8 - bits).astype(np.uint8) for size in sizes]
    try:
        payload, report = programs.encode(layers, program, particles)
    except StackUnderflow:
        return
    decoded = programs.decode(payload, [layer.shape for layer in layers], program)
    assert all(map(np.array_equal, decoded, layers)) and report.particles == particles
    assert len(report.layer_bits) == len(layers) and min(report.layer_bits) > 0


def test_layers_together_pay_the_first_loan_once():
    program, layers = uniform(8), layers_of(digits(12, 24, 8))
    _, report = programs.encode(layers, program)
    parts = [programs.encode([layer], program)[1] for layer in layers]
    assert report.seed_bits < 0.2 * sum(each.seed_bits for each in parts)
    alone = np.array([each.layer_bits[0] for each in parts])
    assert np.abs(np.array(report.layer_bits) / alone - 1).max() < 0.05


@pytest.mark.parametrize("particles", [1, 4])
def test_the_parts_of_the_report_add_up(particles):
    layers = layers_of(digits(300))
    payload, report = programs.encode(layers, uniform(), particles)
    assert abs(report.grid_bits) < 0.02 * 64 * len(layers)
    assert abs(8 * len(payload) - report.vi_bits - report.initial_bits - report.grid_bits) < 160
    plain, _ = programs.encode(layers, uniform())
    assert particles == 1 or (len(payload) < len(plain) and report.seed_bits < 1.5 * 8 * len(plain))


LAYERS = layers_of(digits(90, seed=3))
SHAPES = [layer.shape for layer in LAYERS]


@pytest.mark.parametrize("number", [0, MAX_PARTICLES + 1, 1 << 30])
def test_a_wrong_number_of_particles_is_a_corrupt_file(number):
    payload, _ = programs.encode(LAYERS, uniform(), 4)
    _, position = read_varint(payload, 0)
    with pytest.raises(CorruptError):
        programs.decode(write_varint(number) + payload[position:], SHAPES, uniform())


def test_particles_of_a_model_that_has_none_are_a_corrupt_file():
    program, layers = programs.program("gaussian", 1, 2, 1), LAYERS
    payload, _ = programs.encode(layers, program)
    with pytest.raises(CorruptError, match="uniform"):
        programs.decode(b"\4" + payload[1:], SHAPES, program)


def test_damage_gives_pixels_or_a_named_error():
    payload, _ = programs.encode(LAYERS, uniform(), 4)
    rng = np.random.default_rng(0)
    for index in [*range(9), *rng.integers(0, len(payload), 20)]:
        for broken in (
            payload[:index],
            payload[:index] + bytes([payload[index] ^ 1 << int(rng.integers(8))]) + payload[index + 1 :],
        ):
            try:
                decoded = programs.decode(broken, SHAPES, uniform())
            except DqcodecError as error:
                assert "\n" not in str(error)
            else:
                assert [pixels.shape for pixels in decoded] == SHAPES


# --- files


@pytest.fixture
def by_models_alone(monkeypatch):
    """A model of random weights has no chance beside the other methods."""
    loser = candidates.CodedLayer(Layer(Method.CLASSICAL), bytes(1 << 16), 1 << 16)
    monkeypatch.setattr(choose, "by_webp", lambda pixels, quick: loser)
    monkeypatch.setattr(candidates, "takes_mixing", lambda pixels, **told: False)
    monkeypatch.setattr(candidates, "takes_experts", lambda *_: False)


def gray(bits: int, count: int = 90) -> bytes:
    """A PNG with samples of `bits` bits: tiles side by side, and a comment that keeps it larger than its model's code."""
    sheet = np.concatenate(list(digits(count, bits=bits, seed=4)), 1).astype(np.uint8)
    header, text = png.Header(sheet.shape[1], sheet.shape[0], 0, bits), png.Chunk(b"tEXt", b"Comment\0" + bytes(9999))
    return png.write(png.Png(header, png.Skeleton(header, ((text,), ())), (sheet,)))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_an_image_is_coded_by_the_model_of_its_bits(by_models_alone, bits):
    models = [uniform(each) for each in (1, 2, 4, 8)]
    source = gray(bits)
    dqc, report = codec.compress(source, models, particles=4)
    assert report.method == "flow" and report.learned["particles"] == codec.info(dqc).particles == 4
    assert codec.info(dqc).model_id == uniform(bits).id.hex()
    assert png.read(codec.decompress(dqc, {each.id: each for each in models}.__getitem__)[0]).same(png.read(source))


def test_images_of_an_archive_are_coded_together_by_the_models_of_their_bits(by_models_alone):
    models = [uniform(1), uniform(8)]
    sources = [codec.read(gray(bits, count)) for bits, count in [(1, 90), (8, 40), (1, 95), (8, 30), (1, 80)]]
    coded = codec.encode(sources, models, particles=2)
    assert [entry.method for entry in coded.group.entries] == ["flow"] * 5 and len(coded.group.payloads) == 2
    codec.check(lambda: coded.group, sources, models, png.MAX_PIXELS)


def test_an_image_that_cannot_be_coded_does_not_keep_a_flow_from_others(by_models_alone, monkeypatch):
    encode = flow.encode

    def careful(layers, *rest):
        if any(layer.shape[0] == 9 for layer in layers):
            raise LatentOverflow("far out")
        return encode(layers, *rest)

    program = uniform()
    length_of = program.code_length
    monkeypatch.setattr(flow, "encode", careful)
    monkeypatch.setattr(program, "code_length", lambda parts: math.inf if parts[0].shape[0] == 9 else length_of(parts))
    layers = [*LAYERS[:60], np.eye(9, 12, dtype=np.uint8)[..., None], *LAYERS[60:]]
    coded = candidates.by_model(layers, [program], Effort())
    assert [len(each) for each in coded] == [1] * 60 + [0] + [1] * 30


def test_a_flow_that_cannot_pay_for_those_that_stay_with_it_is_given_up(by_models_alone, monkeypatch):
    encode, sources = flow.encode, [codec.read(gray(1, count)) for count in (30, 31, 32)]
    tried = choose._usual

    def leave(sources, places):  # two of three images go another way
        return {place: coded for place, coded in tried(sources, places).items() if place[0] == 1}

    def careful(layers, *rest):
        if len(layers) < 3:
            raise StackUnderflow("too small")
        return encode(layers, *rest)

    monkeypatch.setattr(choose, "_usual", leave)
    monkeypatch.setattr(flow, "encode", careful)
    coded = codec.encode(sources, [uniform()])
    assert "flow" not in {entry.method for entry in coded.group.entries}


def test_the_command_takes_particles_and_reports_them(by_models_alone, tmp_path):
    (tmp_path / "a.png").write_bytes(gray(1))
    model = str(programs.path("uniform", 1, 2, 1))
    run = CliRunner().invoke(cli.main, ["compress", str(tmp_path / "a.png"), "-m", model, "--particles", "4", "--json"])
    assert run.exit_code == 0 and json.loads(run.stdout)["learned"]["particles"] == 4
    told = CliRunner().invoke(cli.main, ["info", str(tmp_path / "a.png.dqc")])
    assert "particles      4\n" in told.stdout


@pytest.mark.parametrize("number", [0, MAX_PARTICLES + 1])
def test_an_impossible_number_of_particles_is_wrong_usage(number):
    assert CliRunner().invoke(cli.main, ["compress", "a.png", "--particles", str(number)]).exit_code == 2


def test_particles_of_a_model_that_has_none_are_a_named_error(by_models_alone, tmp_path):
    (tmp_path / "a.png").write_bytes(gray(1))
    model = str(programs.path("gaussian", 1, 2, 1))
    run = CliRunner().invoke(cli.main, ["compress", str(tmp_path / "a.png"), "-m", model, "--particles", "4"])
    assert run.exit_code == 3 and "no uniform dequantizer" in run.stderr and not (tmp_path / "a.png.dqc").exists()
