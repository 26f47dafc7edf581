import zlib

import fake_learned
import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import codec, png
from dqcodec.container import Container
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
    return restored == source if png.read(source).skeleton is None else png.read(restored).same(png.read(source))


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


def smooth(height, width, color_type, bit_depth):
    """Samples of a kind that compresses well."""
    count = pngs.SAMPLES[color_type]
    return np.add.outer(np.arange(height) * 5, np.arange(width) * 3)[..., None] * (1 + np.arange(count)) % (1 << bit_depth)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("interlace", [False, True])
@pytest.mark.parametrize("color_type, bit_depth", pngs.KINDS)
def test_every_png_kind_is_compressed_and_round_trips(color_type, bit_depth, interlace, exact):
    transparent = {} if color_type in (4, 6) else {"before": CHUNKS["before"] + pngs.chunk(b"tRNS", bytes(2))}
    samples = smooth(40, 50, color_type, bit_depth)
    source = pngs.write(samples, bit_depth, color_type, interlace, idats=2, **CHUNKS | transparent)
    dqc, report = codec.compress(source, exact=exact)
    restored, _ = codec.decompress(dqc, no_programs)
    assert same_image(restored, source) and (not exact or restored == source)
    assert report.method != "stored" and len(dqc) < len(source) and codec.info(dqc).exact == exact
    assert same_image(codec.decompress(dqc, no_programs, repack=True)[0], source)
    noisy = pngs.random(np.random.default_rng(2), 9, 11, color_type, bit_depth, interlace=interlace, **CHUNKS)
    dqc, _ = codec.compress(noisy, exact=exact)
    assert same_image(codec.decompress(dqc, no_programs)[0], noisy) and len(dqc) <= len(noisy) + 10


@pytest.mark.parametrize("color_type, bit_depth", pngs.KINDS)
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 5)])
def test_small_images_of_every_kind_round_trip(size, color_type, bit_depth):
    source = pngs.random(np.random.default_rng(3), *size, color_type, bit_depth, interlace=True)
    dqc, _ = codec.compress(source)
    assert same_image(codec.decompress(dqc, no_programs)[0], source)


def test_colours_below_alpha_0_and_low_bytes_are_kept():
    rng = np.random.default_rng(4)
    hidden = np.dstack([photo(), rng.integers(0, 2, (40, 60, 1))])
    deep = photo().astype(int) * 256 + rng.integers(0, 3, (40, 60, 3))
    for samples, bit_depth, steps in ((hidden, 8, "RGBA"), (deep, 16, "high"), (photo().astype(int) * 257, 16, "RGB")):
        dqc, report = codec.compress(pngs.write(samples, bit_depth))
        assert np.array_equal(png.read(codec.decompress(dqc, no_programs)[0]).pixels, samples)
        assert steps in report.layers[0].name and sum(layer.bytes for layer in report.layers) == report.payload_bytes


def test_animations_are_compressed_frame_by_frame():
    frames = [((5, 9), photo(20, 30)), ((0, 0), photo())]
    source = pngs.animated(photo(), frames, **CHUNKS)
    dqc, report = codec.compress(source)
    assert same_image(codec.decompress(dqc, no_programs)[0], source) and len(dqc) < 0.6 * len(source)
    assert [layer.raster for layer in report.layers] == [0, 1, 2] and report.dims == 3 * (40 * 60 * 2 + 20 * 30)
    assert codec.info(dqc).rasters == 3 and "frame 2 RGB by classical" in report.details()
    assert codec.decompress(codec.compress(source, exact=True)[0], no_programs)[0] == source
    for limit, compressed in ((5400, True), (5399, False)):
        for work in (lambda: codec.compress(source, max_pixels=limit), lambda: codec.info(dqc, max_pixels=limit)):
            if compressed:
                work()
            else:
                with pytest.raises(UnsupportedImageError, match="limit"):
                    work()


def test_stripping_leaves_out_what_does_not_change_the_picture():
    source = pngs.write(photo(), **CHUNKS)
    dqc, _ = codec.compress(source, strip=True)
    restored = png.read(codec.decompress(dqc, no_programs)[0])
    assert np.array_equal(restored.pixels, photo()) and restored.skeleton.parts == (((b"gAMA", b"\0\0\xb1\x8f"),), ())
    noise = pngs.random(np.random.default_rng(5), 2, 2, **CHUNKS)
    assert b"hello" not in codec.decompress(codec.compress(noise, strip=True)[0], no_programs)[0]


def test_layers_of_an_image_may_have_different_methods(monkeypatch):
    fake_learned.install(monkeypatch)
    hidden = np.dstack([photo(), photo(channels=1) // 100])
    dqc, report = codec.compress(pngs.write(hidden), [PROGRAM])
    assert report.method == "flow+mixing" and report.model == "fake"
    assert [(layer.name, layer.model) for layer in report.layers] == [("RGBA", "fake"), ("alpha of RGBA", None)]
    assert np.array_equal(png.read(codec.decompress(dqc, the_program)[0]).pixels, hidden)
    alpha_bits = 8 * report.layers[1].bytes
    model_bits = (report.learned["vi_bpd"] * report.dims - alpha_bits) / (40 * 60 * 3)
    assert model_bits == pytest.approx(3.46 / 3.47 * 16 / (40 * 60 * 3)) and "by fake" in report.details()


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


@pytest.mark.parametrize("method", ["stored", "mixing", "flow"])
def test_any_flipped_byte_or_cut_is_a_named_error_never_a_wrong_image(method, monkeypatch):
    fake_learned.install(monkeypatch)
    pixels = np.random.default_rng(4).integers(0, 256, (2, 2, 3)) if method == "stored" else photo(9, 9)
    source = pngs.write(pixels, 8, **({} if method == "stored" else CHUNKS))
    dqc, report = codec.compress(source, [PROGRAM] if method == "flow" else [])
    if method == "stored":
        dqc = Container(source).pack()
    else:
        assert report.method == method
    for index in range(len(dqc)):
        damaged = bytearray(dqc)
        damaged[index] ^= 1 << index % 8
        for broken in (bytes(damaged), dqc[:index], dqc + dqc[:index] if index else b""):
            with pytest.raises(DqcodecError):
                codec.decompress(broken, the_program)


def sources():
    """An image for each way to make a file."""
    indices = smooth(20, 30, 3, 4)
    yield pngs.write(photo(20, 30), **CHUNKS)
    yield pngs.write(indices, 4, 3, before=pngs.chunk(b"tRNS", b"\0\7\xff"))
    yield pngs.write(smooth(12, 17, 6, 16), 16)
    yield pngs.animated(photo(9, 10), [((1, 2), photo(5, 6))])


COMPRESSED = [codec.compress(source, exact=exact, verify=False)[0] for source in sources() for exact in (False, True)]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(range(len(COMPRESSED))), st.integers(0), st.integers(0, 255), st.booleans())
def test_damage_under_a_forged_crc_gives_the_image_or_a_named_error(number, index, byte, cut):
    source = list(sources())[number // 2]
    body = bytearray(COMPRESSED[number][:-4])
    index %= len(body)
    body[index] = byte
    body = bytes(body[:index] if cut else body)
    try:
        restored, _ = codec.decompress(body + zlib.crc32(body).to_bytes(4, "little"), no_programs)
    except DqcodecError as error:
        assert "\n" not in str(error)
    else:
        assert all(map(np.array_equal, png.read(restored).rasters, png.read(source).rasters))


@pytest.mark.parametrize("data", [b"", b"no png", pngs.write(photo())[:-9], pngs.write(photo())[:99]])
def test_broken_inputs_are_named_errors(data):
    with pytest.raises(DqcodecError) as caught:
        codec.compress(data)
    assert str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("payload", [b"", b"no png", pngs.SIGNATURE, pngs.write(photo())[:-1]])
def test_a_stored_file_that_is_no_png_is_corrupt(payload):
    with pytest.raises(CorruptError):
        codec.decompress(Container(payload).pack(), no_programs)


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
    assert classical.chunk_bytes == len(CHUNKS["before"] + CHUNKS["after"]) - 24 and classical.model_id is None
    stored = codec.info(Container(pngs.random(np.random.default_rng(5), 3, 4, 6, 16)).pack())
    assert (stored.method, stored.width, stored.height, stored.samples) == ("stored", 4, 3, 4)
