"""Coding at the importance-weighted bound: bits-back with coupled particles, and files that earlier versions made with them."""

import math
import sys
from pathlib import Path

import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import digits, noise_stack, uniform

from dqcodec.ans import particles as coupled
from dqcodec.ans.logarithms import ONE, exp2, log2
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, StackUnderflow
from dqcodec.base.varint import write_varint
from dqcodec.frozen.ans import EXP2_BITS, LOG2_BITS
from dqcodec.frozen.flow import CHOICE_BITS, MAX_PARTICLES

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "paper"))

from particles import Particles, rates  # noqa: E402

few = settings(max_examples=12)
numbers = st.sampled_from([1, 2, 3, 4, 7, 16, MAX_PARTICLES])


def coder(number: int, bits: int = 1) -> Particles:
    """A coder with `number` particles, for a program of `bits` bits."""
    parts = uniform(bits).codec
    return Particles(parts.dequantizer, parts.density, number)


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
    offsets = coupled.coupled_offsets(particles, (4, 4, 1), fraction_bits)
    assert not offsets[0].any()
    even = (np.arange(particles) << fraction_bits) // particles
    assert np.array_equal(np.sort(offsets, 0), np.broadcast_to(even[:, None, None, None], offsets.shape))
    assert particles < 3 or (offsets[1] != offsets[1, 0, 0]).any()


def test_the_offsets_are_those_of_the_format():
    assert coupled.coupled_offsets(4, (6,), 8).tolist() == GOLDEN_OFFSETS


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
    starts, sizes = coupled.shares(weights)
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
    codec, stack = coder(particles, bits), noise_stack(seed)
    before = stack.to_bytes()
    codec.push(stack, x)
    assert np.array_equal(codec.pop(stack, *x.shape[:3]), x) and stack.to_bytes() == before


@few
@given(numbers, st.integers(0, 999))
def test_push_undoes_pop_wherever_it_pops_pixels(particles, seed):
    """Random bits, decoded, are a sample: coded again they are the same bits."""
    codec, stack = coder(particles, 8), noise_stack(seed)
    before = stack.to_bytes()
    x = codec.pop(stack, 1, 8, 8)
    codec.push(stack, x)
    assert stack.to_bytes() == before


def test_one_particle_gives_the_bytes_of_plain_bits_back():
    program, x = uniform(), digits(6)
    plain, alone = noise_stack(), noise_stack()
    bits = program.codec.push(plain, x)
    assert np.abs(coder(1).push(alone, x) - bits).max() < 3
    assert plain.to_bytes() == alone.to_bytes()


@torch.no_grad()
@pytest.mark.parametrize("bits", [1, 3])
@pytest.mark.parametrize("particles", [2, 4, 16])
def test_the_coded_bits_are_the_float_models_coupled_bound(particles, bits):
    program, model, x = uniform(bits), programs.model("uniform", 1, 2, bits), digits(64, bits=bits)
    fraction_bits = program.description.fraction_bits
    stack = noise_stack(5, 1 << 18)
    u, before = Stack.from_bytes(stack.to_bytes()).pop(1 << fraction_bits, x.shape), stack.bits
    told = coder(particles, bits).push(stack, x)
    offsets = coupled.coupled_offsets(particles, x.shape[1:], fraction_bits)
    log_weights = []
    for offset in offsets:
        value = x + ((u + offset) % (1 << fraction_bits) + 0.5) / (1 << fraction_bits)
        log_weights.append(model.density.log_prob(torch.from_numpy(value).float().permute(0, 3, 1, 2)).double())
    bound = (math.log(particles) - torch.logsumexp(torch.stack(log_weights), 0)) / math.log(2)
    assert np.abs(told - bound.numpy()).mean() / x[0].size < 0.01
    assert abs(stack.bits - before - told.sum()) / x.size < 0.01


def test_more_particles_take_fewer_bits():
    x = digits(200)
    bits = [coder(k).push(noise_stack(1, 1 << 19), x).sum() for k in (1, 2, 4, 16, 64)]
    assert bits == sorted(bits, reverse=True) and bits[-1] < 0.97 * bits[0]


def least_loan(particles: int, x: np.ndarray) -> int:
    """The bytes that coding x borrows on the way."""
    for length in range(0, 1 << 12, 4):
        try:
            coder(particles).push(Stack(np.random.default_rng(0).bytes(length)), x)
        except StackUnderflow:
            continue
        return length
    raise AssertionError("it borrows more than 4 KiB")


def test_the_first_loan_does_not_grow_with_the_particles():
    x = digits(3)
    alone = least_loan(1, x)
    assert all(least_loan(particles, x) <= alone + 16 for particles in (2, 16, MAX_PARTICLES))


def test_weights_do_not_depend_on_how_many_are_computed_at_once(monkeypatch):
    codec, v = coder(5), digits(3) << uniform().description.fraction_bits
    offsets = codec.offsets(v.shape[1:])
    weights = codec.weights(v, offsets)
    monkeypatch.setattr(coupled, "_CHUNK_DIMS", 1)
    assert np.array_equal(codec.weights(v, offsets), weights)


def test_images_that_are_coded_together_take_their_bound():
    x = digits(300, side=16)
    found = {number: rates(uniform(), x, number) for number in (1, 4)}
    for each in found.values():
        assert abs(each["coded_bpd"] - each["initial_bpd"] - each["exact_bpd"]) < 0.01
    assert found[4]["coded_bpd"] < found[1]["coded_bpd"]


# --- payloads


LAYERS = list(digits(150, seed=3).astype(np.uint8))
SHAPES = [layer.shape for layer in LAYERS]


@pytest.mark.parametrize("number", [MAX_PARTICLES + 1, 1 << 30])
def test_a_wrong_number_of_particles_is_a_corrupt_file(number):
    payload, _ = programs.encode(LAYERS, uniform())
    assert payload[0] == 0
    with pytest.raises(CorruptError, match=f"{number} particles"):
        programs.decode(write_varint(number) + payload[1:], SHAPES, uniform())


def test_particles_of_a_model_that_has_none_are_a_corrupt_file():
    program = programs.program("gaussian", 1, 2, 1)
    payload, _ = programs.encode(LAYERS, program)
    with pytest.raises(CorruptError, match="4 particles"):
        programs.decode(b"\4" + payload[1:], SHAPES, program)
