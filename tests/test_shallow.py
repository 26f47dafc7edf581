"""A model of 1, 2 or 4 bits codes images of its bits, where it wins."""

import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from programs import AUTOREGRESSIVE

from dqcodec import png
from dqcodec.codec import codec, suitability, ways, zoo
from dqcodec.codec.effort import Effort
from dqcodec.context.fronts import Fronts
from dqcodec.exact import generating
from dqcodec.format.layer import Method
from dqcodec.methods import model_mixing

few = settings(max_examples=10)
depths = pytest.mark.parametrize("bits", [1, 2, 4])


def shallow(samples: np.ndarray, bits: int) -> bytes:
    """The gray PNG of samples (H, W)."""
    header = png.Header(samples.shape[1], samples.shape[0], 0, bits)
    return png.write(png.Png(header, png.Skeleton(header), (samples.astype(np.uint8)[..., None],)))


def text(height: int = 300, width: int = 420) -> np.ndarray:
    """Lines of print, (height, width), 1 where paper is."""
    page = Image.new("1", (width, height), 1)
    for line in range(height // 12 - 1):
        ImageDraw.Draw(page).text(
            (8, 12 * line + 4), f"{line} The quick brown fox jumps over the lazy dog, {line * 7919 % 1000} times." * 2
        )
    return np.asarray(page)


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    """What the shipped model takes for digits, (60, 28, 28)."""
    return generating.generate(zoo.load("mnist-binary"), 60, 28)[..., 0]


@few
@given(
    st.integers(1, 8),
    st.integers(0, 999),
    st.lists(st.tuples(st.integers(1, 19), st.integers(1, 19)), min_size=1, max_size=4),
)
def test_an_autoregressive_model_of_any_bits_codes_layers_of_them(bits, seed, sizes):
    program, rng = programs.program(AUTOREGRESSIVE, 1, 1, bits), np.random.default_rng(seed)
    layers = [rng.integers(0, 1 << bits, (*size, 1)).astype(np.uint8) for size in sizes]
    payload, _ = programs.encode(layers, program)
    mixed = model_mixing.encode(layers, program).data
    shapes = [layer.shape for layer in layers]
    assert all(map(np.array_equal, programs.decode(payload, shapes, program), layers))
    assert all(map(np.array_equal, model_mixing.decode(mixed, shapes, program), layers))


def test_the_loan_of_few_bits_stays_small():
    """Fronts of many tiles' last pixels, of which next to nothing is coded, are long."""
    fronts = Fronts([(28, 28)] * 600, 1)
    chunks = [chunk for front in range(len(fronts)) for chunk in fronts.chunks(front)]
    assert max(chunk.stop - chunk.start for chunk in chunks) <= 32
    assert sum(chunk.stop - chunk.start for chunk in chunks) == fronts.pixels


def test_digits_choose_the_model_of_digits_by_themselves(digits):
    sheet = digits.reshape(6, 10, 28, 28).swapaxes(1, 2).reshape(168, 280)
    source, models = shallow(sheet, 1), list(map(zoo.load, zoo.names()))
    dqc, report = codec.compress(source, models)
    assert report.model == "mnist-binary" and report.dqc_bytes < 0.95 * codec.compress(source)[1].dqc_bytes
    assert png.read(codec.decompress(dqc, zoo.find)[0]).same(png.read(source))


def test_digits_of_an_archive_choose_it_too(digits):
    sources = [codec.read(shallow(digit, 1)) for digit in digits]
    coded, plain = codec.encode(sources, [zoo.load("gray"), zoo.load("mnist-binary")]), codec.encode(sources, [])
    assert [program.name for program in coded.programs] == ["mnist-binary"]
    assert len(coded.group.pack()) < 0.95 * len(plain.group.pack())
    codec.check(coded.group, sources, coded.programs, png.MAX_PIXELS)


@pytest.mark.parametrize("samples", [
    text(150, 200), ~text(150, 200), np.zeros((60, 70), bool), np.indices((50, 64)).sum(0) % 2, np.random.default_rng(0).random((64, 64)) < 0.5,
], ids=["text", "white on black", "blank", "checkerboard", "noise"])  # fmt: skip
def test_a_model_makes_no_other_image_larger(samples):
    source = shallow(samples, 1)
    assert codec.compress(source, [zoo.load("mnist-binary")])[1].dqc_bytes <= codec.compress(source)[1].dqc_bytes


@depths
def test_models_of_other_bits_are_not_tried(bits):
    others = [programs.program(AUTOREGRESSIVE, 1, 1, each) for each in (1, 2, 4, 8) if each != bits]
    samples = np.random.default_rng(0).integers(0, 1 << bits, (20, 30))
    assert not codec.encode([codec.read(shallow(samples, bits))], others).programs


def test_large_images_that_a_model_does_not_know_are_coded_without_it(monkeypatch):
    """For them it would take long, and keep mixing, which is better at them, from the largest."""
    program, page = zoo.load("mnist-binary"), text(150, 200).astype(np.uint8)[..., None]
    ((small,),) = ways.by_model([page], [program], Effort.USUAL)
    monkeypatch.setattr(suitability, "MAX_RIVAL_SAMPLES", page.size // 8 - 1)
    assert ways.by_model([page], [program], Effort.USUAL) == [[]]
    ((best,),) = ways.by_model([page], [program], Effort.BEST)
    assert small.layer.method == best.layer.method == Method.MODEL_MIXING


def test_large_images_that_it_knows_are_coded_with_it(monkeypatch, digits):
    sheet = digits.reshape(6, 10, 28, 28).swapaxes(1, 2).reshape(168, 280, 1)
    monkeypatch.setattr(suitability, "MAX_RIVAL_SAMPLES", 100)
    assert len(ways.by_model([sheet], [zoo.load("mnist-binary")], Effort.USUAL)[0]) == 1
