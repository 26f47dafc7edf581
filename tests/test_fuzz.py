"""Broken and hostile files give the right thing or an error with a name, in bounded time and memory.

benchmarks/fuzz.py does the same for longer.
"""

import functools
import json
import lzma
import random
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pngs
import pytest
from effort import assert_linear, little_memory, no_hang
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from dqcodec import png
from dqcodec.base.errors import CorruptError, DqcodecError, ModelError, UnsupportedImageError
from dqcodec.base.reader import MAX_PARTS, Reader
from dqcodec.base.varint import write_varint
from dqcodec.codec import codec
from dqcodec.codec.source import read
from dqcodec.exact.flow.dequantizers import SigmoidCells
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.exact.mixing import model_mixing
from dqcodec.exact.mixing.context_mixing import Mixer
from dqcodec.exact.program import load_program
from dqcodec.format import archive_group
from dqcodec.format.canvas import Spot
from dqcodec.format.container import MAGIC, Group, sample_checksum
from dqcodec.format.head import read_heads
from dqcodec.format.layer import Layer, Method
from dqcodec.format.section import LZMA_FILTERS
from dqcodec.format.split import Split, skeleton
from dqcodec.format.values import Map
from dqcodec.methods import table
from dqcodec.png import MAX_PIXELS
from dqcodec.png.skeleton import KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from fuzzing import targets  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"
SUM = b"checksum"
GRAY, RGB, PALETTE = (1 + KINDS.index(kind) for kind in ((0, 8), (2, 8), (3, 8)))
DEFLATE, LZMA = 2, 3
HEAD = bytes([1 << 1, 15 << 3]) + b"\x78\x01" + bytes(8)  # of a recipe
FEW = 2 << 20  # bytes
EXAMPLES = {"container": 60, "archive": 40, "model": 20, "png": 12, "payloads": 30}


@functools.cache
def target(name: str):
    return targets.target_of(name)


def sealed(body: bytes) -> bytes:
    """The .dqc file of `body`, with a valid CRC."""
    data = MAGIC + b"\1" + body
    return data + zlib.crc32(data).to_bytes(4, "little")


def deflated(raw: bytes, claimed: int | None = None) -> bytes:
    """A section of raw bytes."""
    stream = zlib.compressobj(9, wbits=-15)
    body = write_varint(len(raw) if claimed is None else claimed) + stream.compress(raw) + stream.flush()
    return write_varint(len(body)) + body


def plain(pixels: np.ndarray, recipe: bytes = b"", kind: int = GRAY) -> bytes:
    """A .dqc file of raw pixels, with a recipe."""
    height, width, _ = pixels.shape
    size = write_varint(width) + write_varint(height)
    recipe = write_varint(len(recipe)) + recipe if recipe else b""
    head = bytes([kind | bool(recipe) << 6]) + size + recipe + b"\x10"
    return sealed(head + sample_checksum([pixels]) + b"\0" + pixels.tobytes())


def modelled(kind: str, description: dict | None = None, **tensors: np.ndarray) -> bytes:
    """The golden model of a kind with another description or other tensors, __ in their names for dots."""
    content = (GOLDEN / f"{kind}.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["dqcodec"]
    changed = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    told = json.loads(header) | (description or {})
    return save(load(content) | changed, {"dqcodec": json.dumps(told)})


def find(model_id: bytes):
    raise DqcodecError("no models here")


# Laws of any broken file.


@pytest.mark.parametrize("name", targets.NAMES)
def test_broken_inputs_give_the_right_result_or_a_named_error_in_bounded_time_and_memory(name, capfd):
    target(name)

    @settings(max_examples=EXAMPLES[name])
    @given(st.integers(0, (1 << 32) - 1))
    def check(seed):
        rng = random.Random(seed)
        data = targets.mutated(target(name), rng.choice(target(name).seeds), rng)
        tracemalloc.reset_peak()
        with no_hang():
            target(name).check(data)
        assert tracemalloc.get_traced_memory()[1] < 256 << 20

    with warnings.catch_warnings(), little_memory(256 << 20):
        warnings.simplefilter("error")
        check()
    assert capfd.readouterr() == ("", "")


# Bombs are refused before memory is taken.


@pytest.mark.parametrize(
    "body",
    [
        bytes([RGB]) + b"\xff\xff\xff\xff\x07" * 2 + b"\x10" + SUM,  # 2^31 x 2^31
        bytes([RGB]) + write_varint(1 << 14) * 2 + b"\x40" + SUM + b"\1",  # more than the usual limit
        bytes([RGB | DEFLATE << 4, 1, 1]) + deflated(bytes(1 << 25), 16) + b"\x10" + SUM,  # more than it claims
        bytes([RGB | DEFLATE << 4, 1, 1]) + deflated(b"", (1 << 35) - 1) + b"\x10" + SUM,  # claims 32 GiB
        bytes([RGB | DEFLATE << 4, 1, 1]) + deflated(b"abc", 1 << 26) + b"\x10" + SUM,  # claims 64 MiB
        bytes([RGB, 1, 1]) + b"\x20" + SUM,
        bytes([RGB | 1 << 6, 1, 1]) + b"\xff\xff\xff\xff\x7f" + b"\x10" + SUM,  # a recipe of 32 GiB
    ],
)
def test_a_dqc_bomb_is_refused(body):
    with little_memory(FEW), pytest.raises((CorruptError, UnsupportedImageError)):
        codec.decompress(sealed(body), find)


def test_an_lzma_bomb_is_refused():
    bomb = write_varint(16) + lzma.compress(bytes(1 << 25), lzma.FORMAT_RAW, filters=LZMA_FILTERS)
    data = sealed(bytes([RGB | LZMA << 4, 1, 1]) + write_varint(len(bomb)) + bomb + b"\x10" + SUM)
    with little_memory(FEW), pytest.raises(CorruptError):
        Group.unpack(data)


def test_pixels_of_all_frames_together_are_limited():
    control = b"\x16" + struct.pack(">IIIIHHBB", 1000, 1000, 0, 0, 1, 10, 0, 0)
    chunks = b"\x15" + struct.pack(">II", 9, 0) + (b"\0" + control) * 9 + b"\0"
    data = sealed(bytes([RGB | DEFLATE << 4]) + write_varint(1000) * 2 + deflated(chunks) + b"\x40" + SUM)
    with little_memory(FEW), pytest.raises(UnsupportedImageError):
        Group.unpack(data, 9_999_999)
    frames = [((0, 0), np.zeros((10, 10, 3), int))] * 9
    with pytest.raises(UnsupportedImageError):
        png.read(pngs.animated(np.zeros((10, 10, 3), int), frames), 999)


@pytest.mark.parametrize("size", [(1 << 30, 1 << 30), (1 << 14, 1 << 14), (1 << 13, 1 << 13)])
def test_a_png_that_claims_more_than_it_holds_is_refused(size):
    stream = zlib.compress(bytes(1000))
    data = pngs.SIGNATURE + pngs.header(*size) + pngs.chunk(b"IDAT", stream) + pngs.chunk(b"IEND")
    with little_memory(FEW), pytest.raises((CorruptError, UnsupportedImageError)):
        png.read(data)


def test_image_data_beyond_the_image_are_not_inflated():
    stream = zlib.compress(bytes(1 << 26))
    data = pngs.SIGNATURE + pngs.header(1, 1) + pngs.chunk(b"IDAT", stream) + pngs.chunk(b"IEND")
    with little_memory(FEW):
        assert png.read(data).skeleton is None


def test_texts_of_a_png_are_not_inflated():
    bomb = pngs.chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(1 << 26)))
    data = pngs.write(np.zeros((1, 1, 3), int), before=bomb)
    packed, _ = codec.compress(data)
    with little_memory(FEW):
        assert png.read(codec.decompress(packed, find)[0]).same(png.read(data))


def test_a_recipes_filters_are_not_inflated_beyond_the_rows():
    stream = zlib.compressobj(9, wbits=-15)
    bomb = stream.compress(bytes(1 << 25)) + stream.flush()
    recipe = bytes([6 << 1, 15 << 3]) + b"\x78\x9c" + bytes(8) + b"\0\6" + bomb
    with little_memory(FEW), pytest.raises(CorruptError):
        codec.decompress(plain(np.zeros((2, 2, 1), np.uint8), recipe), find)


# Findings.


def test_many_rasters_in_few_bytes_take_little_memory():
    data = sealed(bytes([RGB | DEFLATE << 4, 1, 1]) + deflated(bytes(1 << 16)) + b"\x10" + SUM)
    with little_memory(FEW), suppress(CorruptError):
        Group.unpack(data)


def test_many_chunks_in_few_bytes_take_little_memory():
    data = sealed(bytes([RGB | DEFLATE << 4, 1, 1]) + deflated(b"\x0b" * (1 << 15)) + b"\x10" + SUM)
    with little_memory(FEW), suppress(CorruptError):
        Group.unpack(data)


def test_many_images_in_few_bytes_take_little_memory():
    header = bytes([DEFLATE]) + deflated(write_varint(1 << 15) + bytes(1 << 15))
    with little_memory(FEW), suppress(CorruptError):
        archive_group.unpack_group(header, b"x")


def test_the_images_of_a_group_have_a_limited_number_of_frames_together():
    count, images = 2040, 1 + MAX_PARTS // (2 * 2040)
    control = b"\x16" + struct.pack(">IIIIHHBB", 1, 1, 0, 0, 1, 10, 0, 0)
    chunks = b"\x15" + struct.pack(">II", count, 0) + (control + b"\0") * count
    head = bytes([RGB | DEFLATE << 4, 1, 1]) + deflated(chunks) + b"\x40" + b"\4" * (count - 1)
    assert len(read_heads(Reader(head * 2), 2, MAX_PIXELS)) == 2
    with pytest.raises(CorruptError, match="too many rasters and chunks"):
        read_heads(Reader(head * images), images, MAX_PIXELS)


def test_the_table_of_a_view_is_read_once_for_all_frames(monkeypatch):
    count, calls = 50, []
    values = (1 << 12).to_bytes(2, "little") + write_varint(2) + bytes(16)
    control = b"\x16" + struct.pack(">IIIIHHBB", 1, 1, 0, 0, 1, 10, 0, 0)
    chunks = b"\x15" + struct.pack(">II", count, 0) + (control + b"\0") * count
    chunks = b"\x7e" + write_varint(len(values)) + values + chunks
    head = bytes([15 | DEFLATE << 4, 1, 1]) + deflated(chunks) + b"\x40" + b"\4" * (count - 1)
    unpack = Map.unpack
    monkeypatch.setattr(Map, "unpack", lambda *arguments: calls.append(0) or unpack(*arguments))
    (entry,) = read_heads(Reader(head), 1, MAX_PIXELS)
    assert len(entry.shapes) == count and len(calls) <= 3


def test_many_frames_are_decoded_in_linear_time(monkeypatch):
    count, calls = 50, []
    control = b"\x16" + struct.pack(">IIIIHHBB", 1, 1, 0, 0, 1, 10, 0, 0)
    chunks = b"\x15" + struct.pack(">II", count, 0) + (b"\0" + control) * count + b"\0"
    data = sealed(
        bytes([GRAY | DEFLATE << 4, 1, 1]) + deflated(chunks) + b"\x40" + b"\4" * count
        + sample_checksum([np.zeros((1, 1, 1), np.uint8)] * (count + 1)) + b"\1" * (count + 1)
    )  # fmt: skip
    shapes = Split.shapes
    monkeypatch.setattr(Split, "shapes", lambda *arguments: calls.append(0) or shapes(*arguments))
    with suppress(CorruptError):  # what the payload decodes to is of no matter
        codec.decompress(data, find)
    assert len(calls) <= 10 * count


def test_many_frames_are_encoded_in_linear_time(monkeypatch):
    count, calls, rng = 40, [], np.random.default_rng(0)
    frames = [((0, 0), rng.integers(0, 256, (2, 2, 3))) for _ in range(count)]
    apply = Split.apply
    monkeypatch.setattr(Split, "apply", lambda *arguments: calls.append(0) or apply(*arguments))
    codec.compress(pngs.animated(rng.integers(0, 256, (2, 2, 3)), frames))
    assert len(calls) <= 20 * count


@pytest.mark.parametrize(
    "method", [Method.MIXING, Method.MODEL_MIXING, Method.PIXEL_MIXING, Method.TRAINED_MIXING, Method.ANIMATION]
)
def test_mixing_of_more_than_a_payload_can_hold_is_refused(method):
    program = load_program(GOLDEN / "autoregressive.safetensors")
    payload = b"\0\x08" if method == Method.ANIMATION else b"\x08"  # every bit takes a 3000th of a bit at least
    layer, spot = Layer(method, program.id), Spot((0, 0), (3000, 1000), 0, 0, stays=True, is_over=False)
    with pytest.raises(CorruptError):
        table.decode(payload, layer, [(3000, 1000, 3)], lambda model_id: program, [spot])


def test_the_memory_of_model_mixing_is_that_of_its_pixels(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(modelled("autoregressive", {"tile": [1024, 1024]}))
    program, mixer = load_program(tmp_path / "x.safetensors"), Mixer.new([(1, 1, 3)], [8], b"")
    model_mixing.unmix(program, [(2, 2)], mixer)
    with little_memory(FEW):
        model_mixing.unmix(program, [(1, 1024), *[(1024, 1)] * 4], mixer)


def test_many_pieces_of_image_data_after_many_chunks_are_read_in_linear_time():
    def file_of(pieces: int) -> bytes:
        start = pngs.SIGNATURE + pngs.header(1, 1, 8, 0) + pngs.chunk(b"tEXt") * pieces
        start += pngs.chunk(b"IDAT", zlib.compress(b"\0\0"))
        return start + pngs.chunk(b"IDAT") * pieces + pngs.chunk(b"IEND")

    assert_linear(file_of, png.read, 1000)


def test_many_pieces_after_the_end_of_image_data_are_read_in_linear_time():
    def file_of(pieces: int) -> bytes:
        start = pngs.SIGNATURE + pngs.header(1, 1, 8, 0) + pngs.chunk(b"IDAT", zlib.compress(b"\0\0"))
        return start + pngs.chunk(b"IDAT", bytes(600)) * pieces + pngs.chunk(b"IEND")

    assert png.read(file_of(1)).skeleton is None
    assert_linear(file_of, png.read, 1000)


def refuse(dqc: bytes) -> None:
    with pytest.raises(CorruptError):
        codec.decompress(dqc, find)


def test_a_palettes_number_of_too_many_digits_is_refused_in_linear_time():
    def file_of(digits: int) -> bytes:
        code = write_varint(256) + b"\1" + bytes(3 * 255) + b"\xff" * digits
        chunks = b"\x81" + write_varint(len(code)) + code
        return sealed(bytes([PALETTE | DEFLATE << 4, 1, 1]) + deflated(chunks) + b"\x14" + SUM + b"\0abc")

    assert_linear(file_of, refuse, 1 << 18)


@pytest.mark.parametrize("length", [0, 2, 4, 769, 771])
def test_a_palette_that_no_png_may_have_is_refused(length):
    chunks = b"\x81" + write_varint(length) + bytes(length)
    refuse(sealed(
        bytes([PALETTE | DEFLATE << 4, 1, 1]) + deflated(chunks) + b"\x10"
        + sample_checksum([np.zeros((1, 1, 1), np.uint8)]) + b"\0\0"
    ))  # fmt: skip


def test_a_recipe_does_not_repeat_a_stream():
    pixels = np.random.default_rng(0).integers(0, 256, (128, 128, 1), dtype=np.uint8)
    cuts = write_varint(3003) + b"\1" + b"\0\2" * 1500 + b"\1"
    with little_memory(FEW), pytest.raises(CorruptError):
        codec.decompress(plain(pixels, HEAD + cuts + b"\0"), find)


def test_a_recipe_does_not_make_more_chunks_than_its_stream_can_fill():
    recipe = HEAD + write_varint(1 << 17) + b"\0\0" + b"\0"
    with little_memory(FEW), pytest.raises(CorruptError):
        codec.decompress(plain(np.zeros((1, 1, 1), np.uint8), recipe), find)


def test_a_recipes_number_of_too_many_digits_is_refused_in_linear_time():
    def file_of(digits: int) -> bytes:
        return plain(np.zeros((4096, 1, 1), np.uint8), HEAD + b"\0" + b"\5" + b"\xff" * digits)

    assert_linear(file_of, refuse, 1 << 15)


def test_a_palette_with_two_lists_of_alphas_is_split_without_loss():
    alphas = pngs.chunk(b"tRNS", b"\x80" * 3) + pngs.chunk(b"tRNS", b"\x70" * 5)
    source = read(pngs.write(np.arange(9).reshape(3, 3, 1), 8, 3, before=alphas))
    image = source.image
    for split in source.splits:
        parts = [split.apply(raster, image.skeleton) for raster in image.rasters]
        assert split.undo(parts, skeleton(image, split)).same(image)


@pytest.mark.parametrize("dtype", ["F8_E5M2", "F8_E4M3", "F8_E8M0", "F4"])
def test_a_tensor_of_a_type_that_numpy_lacks_is_a_model_error(dtype, tmp_path):
    header = json.dumps({"x": {"dtype": dtype, "shape": [0], "data_offsets": [0, 0]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ModelError):
        load_program(tmp_path / "x.safetensors")


def test_frequencies_whose_sum_overflows_are_no_table(tmp_path):
    total, count = (1 << 64) + (1 << 20), 2050
    frequencies = np.full(count, total // count)
    frequencies[0] += total - sum(map(int, frequencies))
    assert frequencies.max() < 1 << 53 and frequencies.sum() == 1 << 20
    (path := tmp_path / "x.safetensors").write_bytes(modelled("uniform", logistic__frequencies=frequencies))
    script = "import sys, pathlib, dqcodec.exact.program as p; p.load_program(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", script, str(path)]  # it may crash
    result = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], timeout=60)
    assert result.returncode == 1 and "ModelError" in result.stderr


@pytest.mark.parametrize("channels", [10**7, 10**12])
def test_a_context_of_more_channels_than_the_file_holds_takes_no_memory(channels, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(modelled("bipartite", {"context_channels": channels}))
    with little_memory(FEW), pytest.raises(ModelError):
        load_program(tmp_path / "x.safetensors")


def test_a_sigmoids_cell_is_not_larger_than_the_stack_can_code():
    tail = TableLaw(np.array([1, 1, (1 << 20) - 2]), 0, 0)
    with pytest.raises(ModelError):
        SigmoidCells(np.array([-(1 << 23), 1, 2]), tail)


def test_a_tile_is_not_wider_than_a_stack(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(modelled("autoregressive", {"tile": [8, 1 << 40]}))
    with pytest.raises(ModelError):
        load_program(tmp_path / "x.safetensors")


@pytest.mark.parametrize("place", ["in", "mid", "out"])
def test_an_autoregressive_dequantizer_that_is_not_causal_is_refused(place, tmp_path):
    name = f"dequantizer.0.{place}.weight"
    weight = load((GOLDEN / "ard.safetensors").read_bytes())[name].copy()
    weight[0, -1, -1, -1] = 1  # the first place sees the last
    (tmp_path / "x.safetensors").write_bytes(modelled("ard", **{name.replace(".", "__"): weight}))
    with pytest.raises(ModelError, match="depends on later places"):
        load_program(tmp_path / "x.safetensors")
