import zlib

import fake_learned
import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import codec, png
from dqcodec.container import Container, Method
from dqcodec.errors import (
    CorruptError,
    DqcodecError,
    LatentOverflow,
    StackUnderflow,
    UnknownModelError,
    UnsupportedImageError,
    VerifyError,
)

PROGRAM = fake_learned.Program()
CHUNKS = {"before": pngs.chunk(b"gAMA", b"\0\0\xb1\x8f"), "after": pngs.chunk(b"tEXt", b"Comment\0" + b"hello " * 50)}


def no_programs(model_id):
    raise UnknownModelError(f"no model with id {model_id.hex()}")


def the_program(model_id):
    return PROGRAM if model_id == PROGRAM.id else no_programs(model_id)


def photo(height=40, width=60, channels=3):
    rng = np.random.default_rng(0)
    slope = np.add.outer(np.arange(height) * 2, np.arange(width))[..., None]
    return ((slope + rng.integers(0, 6, (height, width, channels))) % 256).astype(np.uint8)


def same_image(restored: bytes, source: bytes) -> bool:
    ours, theirs = png.read(restored), png.read(source)
    if theirs.pixels is None:
        return restored == source
    return np.array_equal(ours.pixels, theirs.pixels) and ours.chunks == theirs.chunks


def plain_images():
    rng = np.random.default_rng(1)
    board = np.indices((33, 70)).sum(0) % 2 * 255
    for channels in (1, 3):
        yield f"1x1 {channels}", np.full((1, 1, channels), 200)
        yield f"1xN {channels}", rng.integers(0, 256, (1, 500, channels))
        yield f"7x5 {channels}", rng.integers(0, 256, (7, 5, channels))
        yield f"black {channels}", np.zeros((70, 33, channels), int)
        yield f"white {channels}", np.full((70, 33, channels), 255)
        yield f"noise {channels}", rng.integers(0, 256, (70, 33, channels))
        yield f"board {channels}", np.repeat(board[..., None], channels, -1)
        yield f"line {channels}", np.where(np.arange(70)[:, None, None] == 9, 255, np.zeros((70, 33, channels), int))
        yield f"photo {channels}", photo(channels=channels)


@pytest.mark.parametrize("pixels", [pytest.param(pixels, id=name) for name, pixels in plain_images()])
@pytest.mark.parametrize("options", [{}, CHUNKS], ids=["bare", "chunks"])
def test_any_plain_image_round_trips_and_grows_by_at_most_64_bytes(pixels, options):
    source = pngs.write(pixels, **options)
    dqc, report = codec.compress(source)
    restored, _ = codec.decompress(dqc, no_programs)
    assert same_image(restored, source) and len(dqc) <= len(source) + 64
    assert report.verified and report.dqc_bytes == len(dqc) == min(report.candidates.values())
    assert report.payload_bytes + report.chunk_bytes + report.container_bytes == len(dqc)


@pytest.mark.parametrize("interlace", [False, True])
@pytest.mark.parametrize("color_type, bit_depth", pngs.KINDS)
def test_every_png_kind_round_trips(color_type, bit_depth, interlace):
    source = pngs.random(np.random.default_rng(2), 9, 11, color_type, bit_depth, interlace=interlace, **CHUNKS)
    dqc, _ = codec.compress(source)
    assert same_image(codec.decompress(dqc, no_programs)[0], source) and len(dqc) <= len(source) + 64


def test_16_bit_rgb_comes_back_byte_for_byte():
    source = pngs.random(np.random.default_rng(3), 9, 11, 2, 16)
    dqc, report = codec.compress(source)
    assert report.method == "stored" and codec.decompress(dqc, no_programs)[0] == source


def test_the_flow_is_taken_where_it_is_smallest_and_reports_its_limit(monkeypatch):
    fake_learned.install(monkeypatch)
    source = pngs.write(photo(), **CHUNKS)
    dqc, report = codec.compress(source, [PROGRAM])
    assert same_image(codec.decompress(dqc, the_program)[0], source)
    assert (report.method, report.model, report.container_bytes <= 32) == ("flow", "fake", True)
    assert report.learned["vi_bpd"] == 3.46 and "(limit 3.46) verified" in report.line()
    assert codec.info(dqc).model_id == PROGRAM.id.hex()
    with pytest.raises(UnknownModelError):
        codec.decompress(dqc, no_programs)


@pytest.mark.parametrize("error", [LatentOverflow("far tail"), StackUnderflow("empty")])
def test_a_flow_that_cannot_code_the_image_gives_way(monkeypatch, error):
    fake_learned.install(monkeypatch, error=error)
    source = pngs.write(photo())
    dqc, report = codec.compress(source, [PROGRAM])
    assert report.method == "classical" and "flow" not in report.candidates
    assert same_image(codec.decompress(dqc, no_programs)[0], source)


def test_an_image_that_no_program_fits_is_coded_without(monkeypatch):
    fake_learned.install(monkeypatch)
    assert codec.compress(pngs.write(photo(channels=1)), [PROGRAM])[1].method == "classical"


def test_a_codec_that_does_not_give_the_image_back_is_caught(monkeypatch):
    fake_learned.install(monkeypatch, wrong=True)
    source = pngs.write(photo())
    with pytest.raises(VerifyError):
        codec.compress(source, [PROGRAM])
    dqc, report = codec.compress(source, [PROGRAM], verify=False)
    assert not report.verified
    with pytest.raises(CorruptError, match="checksum"):
        codec.decompress(dqc, the_program)


@pytest.mark.parametrize("method", ["stored", "classical", "flow"])
def test_any_flipped_byte_or_cut_is_a_named_error_never_a_wrong_image(method, monkeypatch):
    fake_learned.install(monkeypatch)
    pixels = np.random.default_rng(4).integers(0, 256, (2, 2, 3)) if method == "stored" else photo(9, 9)
    source = pngs.write(pixels, 8, **({} if method == "stored" else CHUNKS))
    dqc, report = codec.compress(source, [PROGRAM] if method == "flow" else [])
    if method == "stored":
        dqc = Container(Method.STORED, source).pack()
    else:
        assert report.method == method
    for index in range(len(dqc)):
        damaged = bytearray(dqc)
        damaged[index] ^= 1 << index % 8
        for broken in (bytes(damaged), dqc[:index], dqc + dqc[:index] if index else b""):
            with pytest.raises(DqcodecError):
                codec.decompress(broken, the_program)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0), st.integers(0, 255), st.booleans())
def test_damage_under_a_forged_crc_gives_the_image_or_a_named_error(index, byte, cut):
    pixels = photo(20, 30)
    source = pngs.write(pixels, **CHUNKS)
    body = bytearray(codec.compress(source, verify=False)[0][:-4])
    index %= len(body)
    body[index] = byte
    body = bytes(body[:index] if cut else body)
    try:
        restored, _ = codec.decompress(body + zlib.crc32(body).to_bytes(4, "little"), no_programs)
    except DqcodecError as error:
        assert "\n" not in str(error)
    else:
        assert np.array_equal(png.read(restored).pixels, pixels)


@pytest.mark.parametrize("data", [b"", b"no png", pngs.write(photo())[:-9], pngs.write(photo())[:99]])
def test_broken_inputs_are_named_errors(data):
    with pytest.raises(DqcodecError) as caught:
        codec.compress(data)
    assert str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("payload", [b"", b"no png", pngs.SIGNATURE, pngs.write(photo())[:-1]])
def test_a_stored_file_that_is_no_png_is_corrupt(payload):
    with pytest.raises(CorruptError):
        codec.decompress(Container(Method.STORED, payload).pack(), no_programs)


def test_the_size_limit_holds_both_ways():
    source = pngs.write(photo())
    dqc, _ = codec.compress(source)
    with pytest.raises(UnsupportedImageError, match="limit"):
        codec.compress(source, max_pixels=100)
    with pytest.raises(UnsupportedImageError, match="limit"):
        codec.decompress(dqc, no_programs, max_pixels=100)


def test_info_tells_the_header_of_every_method():
    classical = codec.info(codec.compress(pngs.write(photo(), **CHUNKS))[0])
    assert (classical.method, classical.width, classical.height, classical.samples) == ("classical", 60, 40, 3)
    assert classical.chunk_bytes == len(CHUNKS["before"] + CHUNKS["after"]) and classical.model_id is None
    stored = codec.info(codec.compress(pngs.random(np.random.default_rng(5), 3, 4, 6, 16))[0])
    assert (stored.method, stored.width, stored.height, stored.samples) == ("stored", 4, 3, 4)
