"""Mixing with a model: what was coded comes back, from any machine, and is smaller than by either alone."""

from functools import partial

import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import AUTOREGRESSIVE, LEAST_SQUARES, LOWEST, run

from dqcodec import png
from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.codec import candidates, codec, suitability, zoo
from dqcodec.codec.effort import Effort
from dqcodec.format.layer import Layer, Method
from dqcodec.methods import autoregressive, classical, mixing, model_mixing, table
from dqcodec.methods.payload import Payload

shapes = st.sampled_from([(1, 1), (1, 13), (9, 1), (7, 5), (6, 17), (20, 30)])

# argv: a model file, a payload, height, width, channels. Writes the pixels to stdout.
DECODE = """
import sys
from pathlib import Path
from dqcodec.exact.program import load_program
from dqcodec.methods import model_mixing

model, payload, *shape = sys.argv[1:]
(pixels,) = model_mixing.decode(Path(payload).read_bytes(), [tuple(map(int, shape))], load_program(Path(model)))
sys.stdout.buffer.write(pixels.tobytes())
"""


def image(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return programs.smooth(np.random.default_rng(seed), 1, height, width, channels)[0].astype(np.uint8)


@settings(max_examples=20)
@given(st.integers(0, 999), st.lists(shapes, min_size=1, max_size=3), st.sampled_from([1, 3]), st.booleans())
def test_decode_undoes_encode(seed, sizes, channels, is_noise):
    rng, program = np.random.default_rng(seed), programs.tiled(8, 16, channels)
    layers = [
        rng.integers(0, 256, (*size, channels)).astype(np.uint8) if is_noise else image(*size, channels, seed)
        for size in sizes
    ]
    payload = model_mixing.encode(layers, program).data
    decoded = model_mixing.decode(payload, [layer.shape for layer in layers], program)
    assert all(map(np.array_equal, decoded, layers))


def test_decode_undoes_encode_where_least_squares_predict():
    program, layers = programs.program(LEAST_SQUARES), [image(36, 20), image(5, 7)]
    decoded = model_mixing.decode(model_mixing.encode(layers, program).data, [layer.shape for layer in layers], program)
    assert all(map(np.array_equal, decoded, layers))


def test_it_is_smaller_than_the_model_or_mixing_alone():
    program, pixels = programs.program(AUTOREGRESSIVE), image(48, 60)
    size = len(model_mixing.encode([pixels], program).data)
    assert size < len(autoregressive.encode([pixels], program).data)
    assert size < len(mixing.encode([pixels]).data)


def test_a_file_decodes_with_the_lowest_instruction_set(tmp_path):
    pixels = image(21, 33)
    (tmp_path / "payload").write_bytes(model_mixing.encode([pixels], programs.program(AUTOREGRESSIVE)).data)
    decoded = run(DECODE, programs.path(AUTOREGRESSIVE), tmp_path / "payload", *pixels.shape, **LOWEST)
    assert decoded == pixels.tobytes()


def test_the_layout_of_pixels_changes_no_byte():
    program, pixels = programs.program(AUTOREGRESSIVE), image(9, 14)
    plain = model_mixing.encode([pixels], program)
    for other in (np.asfortranarray(pixels), np.repeat(pixels, 2, 1)[:, ::2], pixels[:, ::-1].copy()[:, ::-1]):
        assert model_mixing.encode([other], program) == plain


@settings(max_examples=20)
@given(st.binary(max_size=60))
def test_any_bytes_decode_to_the_shape(data):
    (pixels,) = model_mixing.decode(data, [(5, 7, 3)], programs.program(AUTOREGRESSIVE))
    assert pixels.shape == (5, 7, 3)


@pytest.fixture
def by_models_alone(monkeypatch, quick):
    """Models of random weights have no chance beside the other methods."""
    monkeypatch.setattr(candidates, "is_icon", lambda *_: False)
    monkeypatch.setattr(
        classical, "encode", lambda layers, search: Payload(b"\0" + layers[0].tobytes(), (1 + layers[0].size,))
    )


def test_small_images_are_coded_by_it_and_come_back_or_are_a_named_error(by_models_alone):
    program, source = programs.program(AUTOREGRESSIVE), png.write(png.plain(image(40, 50)))
    dqc, report = codec.compress(source, [program])
    assert report.method == "model-mixing" and report.model == program.name and report.learned is None
    find_program = partial(zoo.find, named=program)
    assert np.array_equal(png.read(codec.decompress(dqc, find_program)[0]).pixels, image(40, 50))
    for position in range(0, len(dqc), 7):
        broken = dqc[:position] + bytes([dqc[position] ^ 1]) + dqc[position + 1 :]
        with pytest.raises(DqcodecError):
            codec.decompress(broken, find_program)


def test_large_images_are_coded_by_it_only_if_asked_for_or_if_it_gains_much(by_models_alone, monkeypatch):
    monkeypatch.setattr(suitability, "MAX_RIVAL_SAMPLES", 100)
    few = png.write(png.plain(np.random.default_rng(0).integers(0, 2, (40, 50, 3)).astype(np.uint8) * 200))
    assert codec.compress(few, [programs.program(AUTOREGRESSIVE)])[1].method == "model-mixing"
    assert codec.compress(few, [programs.program(AUTOREGRESSIVE)], Effort.FAST)[1].method != "model-mixing"
    program, source = programs.program(AUTOREGRESSIVE), png.write(png.plain(image(40, 50)))
    assert codec.compress(source, [program])[1].method == "autoregressive"
    monkeypatch.setattr(
        candidates, "_photographs", lambda sources, modelled, effort: {0}
    )  # no mixing without the model
    assert codec.compress(source, [program], Effort.BEST)[1].method == "model-mixing"


def test_a_flow_is_no_model_for_it():
    program = programs.program("gaussian")
    layer = Layer(Method.MODEL_MIXING, program.id)
    with pytest.raises(CorruptError, match="another kind"):
        table.decode(bytes(40), layer, [(16, 16, 3)], lambda _: program)
