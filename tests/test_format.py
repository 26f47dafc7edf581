"""docs/format.md is complete and true: a decoder written from it reads what the package writes; its example holds."""

import hashlib
import re
from pathlib import Path
from types import SimpleNamespace

import independent_decoder as decoder
import numpy as np
import pngs
import pytest
import worked_example
from golden import cases, make
from golden.cases import TINY, Case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from programs import tiled

from dqcodec import png
from dqcodec.ans import logarithms, uniform
from dqcodec.ans.particles import coupled_offsets
from dqcodec.ans.stack import Stack
from dqcodec.codec import codec
from dqcodec.context.fronts import Fronts
from dqcodec.context.predictions import predict_tiles
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.exact.program import load_program
from dqcodec.format.container import Group
from dqcodec.format.layer import Method
from dqcodec.format.split import Split, Step
from dqcodec.methods.autoregressive import stacks
from dqcodec.png import dictionary, metadata

GOLDEN = Path(__file__).parent / "golden"
CASES = cases.cases()
FLOWS = ("uniform", "gaussian", "bipartite", "ard", "alternating", "particles")
DOCUMENT = worked_example.DOCUMENT.read_text()


def models() -> dict[bytes, bytes]:
    files = [path.read_bytes() for path in (*GOLDEN.glob("*.safetensors"), *cases.SHIPPED)]
    return {hashlib.sha256(file).digest()[:8]: file for file in files}


def decoded_alike(file: bytes, source: bytes) -> bool:
    """Whether the document's decoder makes of a .dqc file what its PNG holds."""
    return alike(decoder.decode(file, models()), source)


def alike(found: decoder.Decoded, source: bytes) -> bool:
    """Whether the decoded parts equal those of a PNG, or the bytes of a file kept verbatim."""
    if found.png and found.png != source:
        return False
    if not found.rasters:
        return bool(found.png)
    image = png.read(source)
    chunks = [[tuple(chunk) for chunk in part] for part in image.skeleton.parts]
    chunks[-1] += [(b"", image.skeleton.tail)] if image.skeleton.tail else []
    same = [np.array_equal(*pair) for pair in zip(found.rasters, image.rasters, strict=True)]
    return found.chunks == chunks and all(same)


# --- whole files


def test_the_documents_decoder_imports_nothing_of_the_package():
    assert not re.search(r"(import|from) dqcodec", Path(decoder.__file__).read_text())


@pytest.mark.parametrize("name", CASES)
def test_the_documents_decoder_reads_tiny_golden_files(name):
    assert decoded_alike((TINY / f"{name}.dqc").read_bytes(), (TINY / f"{name}.png").read_bytes())


@pytest.mark.parametrize("name", FLOWS)
def test_the_documents_decoder_reads_flows_of_several_batches(name):
    assert decoded_alike((GOLDEN / f"{name}.dqc").read_bytes(), (GOLDEN / "image.png").read_bytes())


def test_the_documents_decoder_reads_the_golden_archive():
    found, files = decoder.decode_archive((GOLDEN / "archive.dqc").read_bytes(), models()), make.members()
    assert list(found) == list(files)
    assert all(alike(found[name], files[name]) for name in files)


def test_the_documents_decoder_reads_the_golden_archive_with_a_model():
    found = decoder.decode_archive((GOLDEN / "archive-model.dqc").read_bytes(), models())
    source = (TINY / "autoregressive.png").read_bytes()
    assert list(found) == ["own.png", "base.png"] and all(alike(each, source) for each in found.values())


@settings(max_examples=25)
@given(data=st.data())
def test_the_documents_decoder_reads_files_of_the_package(data):
    color_type, depth = data.draw(st.sampled_from(pngs.KINDS))
    height, width = data.draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    channels, seed = pngs.SAMPLES[color_type], data.draw(st.integers(0, 1000))
    patches = cases.flat(height, width, 1 << min(depth, data.draw(st.integers(1, 4))), seed).repeat(channels, 2)
    samples = data.draw(st.sampled_from([patches, cases.smooth(height, width, channels, depth, seed=seed)]))
    before = pngs.chunk(b"tRNS", bytes([7, 9])) if color_type == 3 and data.draw(st.booleans()) else b""
    source = pngs.write(samples, depth, color_type, before=before)
    assert decoded_alike(codec.compress(source)[0], source)


def test_the_documents_dictionary_is_that_of_the_package():
    for read, own in ((decoder.DICTIONARY, dictionary.TEXTS), (decoder.PROFILES, dictionary.PROFILES)):
        assert read == own and f"{len(own)} bytes" in DOCUMENT and hashlib.sha256(own).hexdigest() in DOCUMENT


def test_the_documents_frequent_chunks_take_a_byte_each_in_the_package():
    assert len(decoder.WHOLE) == 24
    for code, (kind, body) in decoder.WHOLE.items():
        header, chunk = png.Header(1, 1, 2, 8), png.Chunk(kind, body)
        read, _ = metadata.unpack(bytes([code]), header)
        assert read.parts == ((chunk,), ()) and metadata.pack(read) == bytes([code])


# --- what tiny files do not reach

sides = st.tuples(st.integers(1, 12), st.integers(1, 12))


def symbols(largest: int) -> st.SearchStrategy:
    """Lists of (symbol, size), sizes up to the largest."""
    sized = st.integers(1, largest).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size)))
    return st.lists(sized, min_size=1, max_size=30)


batches = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=2).map(
    lambda shapes: shapes * 700
)


@settings(max_examples=30)
@given(shapes=st.one_of(st.lists(sides, min_size=1, max_size=4), batches), bits=st.sampled_from([1, 4, 8]))
def test_the_document_orders_pixels_as_the_package_does(shapes, bits):
    ours, theirs = Fronts(shapes, bits), decoder.fronts_of([(0, 0, 0, *shape) for shape in shapes])
    assert len(ours) == len(theirs)
    for number, front in enumerate(theirs):
        assert ours.places(number)[:, [4, 1, 2]].tolist() == [list(place) for place in front]
        assert [(part.start, part.stop) for part in ours.chunks(number)] == decoder.chunks_of(theirs, number, bits)


@settings(max_examples=30)
@given(
    layers=st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 3000)), min_size=1, max_size=3),
    tile=st.tuples(st.sampled_from([8, 128, 4096]), st.sampled_from([100, 1024, 4096])),
)
def test_the_document_puts_tiles_on_stacks_as_the_package_does(layers, tile):
    program = tiled(*tile)
    ours = [
        [(number, y.start, x.start, y.stop - y.start, x.stop - x.start) for number, y, x in boxes]
        for boxes in stacks(layers, program)
    ]
    model = type("Model", (), {"tile": tile})
    assert decoder.cut([(*shape, 3) for shape in layers], model) == ours


@given(seed=st.binary(max_size=20), symbols=symbols(1 << 23))
def test_the_documents_stack_is_the_packages(seed, symbols):
    numbers, sizes = np.array(symbols).T
    ours = Stack(seed)
    ours.push(numbers, sizes)
    theirs = decoder.Stack(Stack(seed).to_bytes())
    theirs.push(numbers, sizes)
    assert np.array(theirs.save(), "<u4").tobytes() == ours.to_bytes()
    assert theirs.pop(sizes) == numbers.tolist()
    theirs.check_seed(seed)


@given(symbols(1 << 20))
def test_the_documents_uniforms_are_the_packages(symbols):
    numbers, sizes = np.array(symbols).T
    ours, seed = Stack(bytes(100)), Stack(bytes(100)).to_bytes()
    uniform.push(ours, numbers, sizes)
    theirs = decoder.Stack(seed)
    theirs.fine_push(numbers.tolist(), sizes.tolist())
    assert np.array(theirs.save(), "<u4").tobytes() == ours.to_bytes()


@given(values=st.lists(st.integers(-(1 << 50), 1 << 50), min_size=1, max_size=20), low_bits=st.sampled_from([0, 3]))
def test_the_documents_laws_are_the_packages_far_from_the_table_too(values, low_bits):
    frequencies = np.array([7, 1 << 19, (1 << 19) - 7 - 5, 5])
    ours = Stack(bytes(400))
    law = TableLaw(frequencies, -2, low_bits)
    values = np.array(values) >> 3 - low_bits
    law.push(ours, values)
    model = type("Model", (), {"tensors": {"law.frequencies": frequencies, "law.grid": np.array([-2, low_bits])}})
    written = decoder.TableLaw(model, "law")
    theirs = decoder.Stack(ours.to_bytes())
    assert written.pop(theirs, values.shape).tolist() == values.tolist()
    theirs.check_seed(bytes(400))
    assert written.cost(values[None]).tolist() == law.cost(values[None]).tolist()


@given(st.integers(1, (1 << 31) - 1), st.integers(-(1 << 31), 0))
def test_the_documents_logarithms_are_the_packages(number, logarithm):
    assert decoder.log2(number) == logarithms.log2(np.array(number))
    assert decoder.exp2(logarithm) == logarithms.exp2(np.array(logarithm))


def test_the_documents_particles_are_the_packages():
    assert np.array_equal(decoder.particle_offsets(7, 12, 5), coupled_offsets(7, (12,), 5))


@settings(max_examples=20)
@given(data=st.data())
def test_the_documents_recipes_give_the_packages_files(data):
    color_type, depth = data.draw(st.sampled_from(pngs.KINDS))
    height, width = data.draw(sides)
    options = {"interlace": data.draw(st.booleans()), "idats": data.draw(st.integers(1, 4))}
    source = pngs.random(np.random.default_rng(height), height, width, color_type, depth, **options)
    if data.draw(st.booleans()):
        source = png.write(png.read(source))  # with filters
    case = Case(
        lambda: source, Method.CLASSICAL, split=Split(Step.BYTES if depth == 16 else Step.PLAIN), has_recipe=True
    )
    file = cases.encode(case, source)
    assert Group.unpack(file).entries[0].recipe
    assert decoded_alike(file, source)


def hard_planes(height: int, width: int, kind: str, seed: int) -> np.ndarray:
    """Planes (H, W, 3), int16, on which roundings show: regressors are large and depend on each other, pivots are small, and
    gains are large, since the last plane is nearly flat."""
    rng = np.random.default_rng(seed)
    y, x = np.indices((height, width))
    rows, columns = rng.choice([0, 255], (height, 1)), rng.choice([0, 255], width)
    green = {
        "board": (y + x) % 2 * 255,
        "checks": (y // 2 + x // 2) % 2 * 255,
        "rows": rows + 0 * x,
        "columns": columns + 0 * y,
    }[kind]
    red = 255 - 2 * green
    green = abs(green - (rng.random(green.shape) < 0.03))  # a few pixels are off
    blue = (rng.random(green.shape) < 0.1) * rng.choice([1, -1, 3])
    return np.stack([green, red, blue], -1).astype(np.int16)


@settings(max_examples=5)
@given(
    sides, st.sampled_from([1, 3]), st.sampled_from([1, 4, 8]), st.sampled_from(["board", "checks", "rows", "columns"]),
    st.integers(0, 1000),
)  # fmt: skip
@example((10, 14), 3, 8, "board", 3)
@example((10, 14), 3, 8, "checks", 3)
@example((10, 14), 3, 8, "rows", 6)
def test_the_document_predicts_as_the_package_does(shape, channels, bits, kind, seed):
    planes = np.trunc(hard_planes(*shape, kind, seed)[..., :channels] / 2 ** (8 - bits)).astype(np.int16)
    assert np.array_equal(document_predictions(planes, bits), predict_tiles(planes[None], bits)[0])


def document_predictions(planes: np.ndarray, bits: int) -> np.ndarray:
    """Of planes (H, W, P), in 64ths of a pixel step."""
    height, width, channels = planes.shape
    walk = SimpleNamespace(
        P=channels, symbols=1 << bits, predicts=True, model=SimpleNamespace(bits=bits), trace=lambda name, value: None,
        planes=[np.zeros_like(planes)], features=[np.zeros((height, width, 0))], errors=[np.zeros(planes.shape, np.int64)],
        regressions=[[decoder.Regression(height, width, p) for p in range(channels)]],
    )  # fmt: skip
    predictions = np.empty(planes.shape, np.int64)
    for front in decoder.fronts_of([(0, 0, 0, height, width)]):
        for tile, y, x in front:
            context = decoder.Context(walk, tile, y, x)
            for p in range(channels):
                if p:
                    context.predict(p)
                context.set(p, int(planes[y, x, p]))
            predictions[y, x], walk.planes[0][y, x], walk.errors[0][y, x] = (
                context.centers,
                planes[y, x],
                context.errors,
            )
    return predictions


# --- the worked example


def numbers(name: str) -> list[list[int]]:
    """The lines of that name in the document, their numbers."""
    _, text, _ = worked_example.section(DOCUMENT)
    return [[int(each) for each in line.split()] for line in re.findall(rf"^{name} = (.*)$", text, re.MULTILINE)]


def test_the_worked_example_matches_the_documents_decoder():
    _, text, _ = worked_example.section(DOCUMENT)
    assert text == worked_example.example(), "run tests/worked_example.py"


def test_the_worked_examples_symbols_and_slots_are_the_packages():
    program = load_program(GOLDEN / "gray.safetensors")
    pixels = png.read((TINY / "example.png").read_bytes()).pixels
    slots = program.slots([pixels])
    found = [line[:2] + line[3:] for line in numbers("pixel, t, symbol, start, count")]  # y, x, symbol, start, count
    first = zip(numbers("pixel"), numbers("symbol, start, count"))
    found = [[*pixel, *coded] for pixel, coded in first] + found
    places = np.concatenate([slots.fronts.places(front) for front in range(len(slots.fronts))])
    expected = [
        [y, x, pixels[y, x, 0], *slot]
        for (y, x), slot in zip(places[:, 1:3].tolist(), slots.slots[:, 0].tolist(), strict=True)
    ]
    assert found == expected
