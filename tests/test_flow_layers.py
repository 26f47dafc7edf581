"""The flow method with several layers, and with models of different bits."""

import math

import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import digits, uniform

from dqcodec import png
from dqcodec.base.errors import DqcodecError, LatentOverflow, StackUnderflow
from dqcodec.codec import choose, codec, ways
from dqcodec.codec.effort import Effort
from dqcodec.format.layer import Layer, Method
from dqcodec.methods import flow


def layers_of(x: np.ndarray) -> list[np.ndarray]:
    return list(x.astype(np.uint8))


@settings(max_examples=12)
@given(
    st.integers(1, 8),
    st.integers(0, 999),
    st.lists(st.tuples(st.integers(4, 21), st.integers(4, 21)), min_size=1, max_size=5),
)
def test_several_layers_round_trip_or_cannot_pay(bits, seed, sizes):
    rng, program = np.random.default_rng(seed), uniform(bits)
    layers = [(programs.smooth(rng, 1, *size, 1)[0] >> 8 - bits).astype(np.uint8) for size in sizes]
    try:
        payload, report = programs.encode(layers, program)
    except StackUnderflow:
        return
    decoded = programs.decode(payload, [layer.shape for layer in layers], program)
    assert all(map(np.array_equal, decoded, layers))
    assert len(report.layer_bits) == len(layers) and min(report.layer_bits) > 0


def test_layers_together_pay_the_first_loan_once():
    program, layers = uniform(8), layers_of(digits(12, 24, 8))
    _, report = programs.encode(layers, program)
    parts = [programs.encode([layer], program)[1] for layer in layers]
    assert report.seed_bits < 0.2 * sum(each.seed_bits for each in parts)
    alone = np.array([each.layer_bits[0] for each in parts])
    assert np.abs(np.array(report.layer_bits) / alone - 1).max() < 0.05


def test_the_parts_of_the_report_add_up():
    layers = layers_of(digits(300))
    payload, report = programs.encode(layers, uniform())
    assert abs(report.grid_bits) < 0.02 * 64 * len(layers)
    assert abs(8 * len(payload) - report.vi_bits - report.initial_bits - report.grid_bits) < 160


LAYERS = layers_of(digits(90, seed=3))
SHAPES = [layer.shape for layer in LAYERS]


def test_damage_gives_pixels_or_a_named_error():
    payload, _ = programs.encode(LAYERS, uniform())
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
def by_models_alone(monkeypatch, quick):
    """A model with random weights never wins against the other methods."""
    loser = ways.CodedLayer(Layer(Method.CLASSICAL), bytes(1 << 16), 1 << 16)
    monkeypatch.setattr(choose, "by_webp", lambda pixels, search: loser)


def gray(bits: int, count: int = 120) -> bytes:
    """A PNG with this number of bits: tiles side by side, and a comment that keeps it larger than its model's code."""
    sheet = np.concatenate(list(digits(count, bits=bits, seed=4)), 1).astype(np.uint8)
    header, text = png.Header(sheet.shape[1], sheet.shape[0], 0, bits), png.Chunk(b"tEXt", b"Comment\0" + bytes(9999))
    return png.write(png.Png(header, png.Skeleton(header, ((text,), ())), (sheet,)))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_an_image_is_coded_by_the_model_of_its_bits(by_models_alone, bits):
    models = [uniform(each) for each in (1, 2, 4, 8)]
    source = gray(bits)
    dqc, report = codec.compress(source, models)
    assert report.method == "flow" and codec.info(dqc).model_id == uniform(bits).id.hex()
    assert png.read(codec.decompress(dqc, {each.id: each for each in models}.__getitem__)[0]).same(png.read(source))


def test_images_of_an_archive_are_coded_together_by_the_models_of_their_bits(by_models_alone):
    models = [uniform(1), uniform(8)]
    sources = [codec.read(gray(bits, count)) for bits, count in [(1, 90), (8, 40), (1, 95), (8, 30), (1, 80)]]
    coded = codec.encode(sources, models)
    assert [entry.method for entry in coded.group.entries] == ["flow"] * 5 and len(coded.group.payloads) == 2
    codec.check(coded.group, sources, models, png.MAX_PIXELS)


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
    coded = ways.by_model(layers, [program], Effort.USUAL)
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
