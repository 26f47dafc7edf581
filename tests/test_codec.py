import dataclasses
import zlib

import fake_learned
import numpy as np
import pngs
import pytest
from dqc import stored as stored_group
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import png
from dqcodec.base.errors import (
    CorruptError,
    DqcodecError,
    LatentOverflow,
    StackUnderflow,
    UnknownModelError,
    UnsupportedImageError,
    VerifyError,
)
from dqcodec.codec import candidates, choose, codec, suitability, trial, ways
from dqcodec.codec.effort import Effort
from dqcodec.codec.source import read
from dqcodec.codec.ways import CodedLayer
from dqcodec.format.container import Group, owners
from dqcodec.format.head import Entry
from dqcodec.format.layer import Layer, Method
from dqcodec.format.split import Split, Step
from dqcodec.methods import table
from dqcodec.png.skeleton import MAX_TAIL_BYTES

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
    assert report.verified and report.dqc_bytes == len(dqc)
    assert report.payload_bytes + report.chunk_bytes + report.container_bytes == len(dqc)


@pytest.mark.parametrize("channels", [1, 3])
def test_the_candidates_are_the_sizes_of_whole_files_and_the_smallest_is_taken(channels):
    dqc, report = codec.compress(pngs.write(photo(channels=channels), **CHUNKS))
    assert len(dqc) == min(report.candidates.values())


def test_frames_that_are_alike_are_coded_as_small_as_was_tried():
    """The last frame equals the one before. Mixing them together is the best way, mixing the last one alone the worst."""
    dqc, report = codec.compress(pngs.animated(photo(), [((0, 0), photo())]))
    assert len(dqc) <= min(report.candidates.values()) + 16


def smooth(height, width, color_type, bit_depth):
    """Samples of a kind that compresses well."""
    count = pngs.SAMPLES[color_type]
    return (
        np.add.outer(np.arange(height) * 5, np.arange(width) * 3)[..., None] * (1 + np.arange(count)) % (1 << bit_depth)
    )


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
    assert codec.info(dqc).rasters == 3 and "frame 2 RGB by " in report.details()
    assert codec.decompress(codec.compress(source, exact=True)[0], no_programs)[0] == source
    for limit, compressed in ((5400, True), (5399, False)):
        for work in (lambda: codec.compress(source, max_pixels=limit), lambda: codec.info(dqc, max_pixels=limit)):
            if compressed:
                work()
            else:
                with pytest.raises(UnsupportedImageError, match="limit"):
                    work()


def test_what_cannot_be_stripped_is_an_error_and_not_kept():
    with pytest.raises(UnsupportedImageError, match="stripped"):
        codec.compress(pngs.write(photo(9, 9), before=pngs.chunk(b"tEXt", b"a\0secret"), end=b"more"), strip=True)
    with pytest.raises(ValueError, match="exact"):
        codec.compress(pngs.write(photo(9, 9)), strip=True, exact=True)


def test_stripping_leaves_out_what_does_not_change_the_picture():
    source = pngs.write(photo(), **CHUNKS)
    dqc, _ = codec.compress(source, strip=True)
    restored = png.read(codec.decompress(dqc, no_programs)[0])
    assert np.array_equal(restored.pixels, photo()) and restored.skeleton.parts == (((b"gAMA", b"\0\0\xb1\x8f"),), ())
    noise = pngs.random(np.random.default_rng(5), 2, 2, **CHUNKS)
    assert b"hello" not in codec.decompress(codec.compress(noise, strip=True)[0], no_programs)[0]


IDOT = pngs.chunk(b"iDOT", bytes(28))


def test_offsets_into_the_packed_data_are_left_out_and_the_report_says_so():
    source = pngs.write(photo(), before=IDOT + CHUNKS["before"], after=CHUNKS["after"])
    dqc, report = codec.compress(source)
    assert report.dropped == ("iDOT",) and report.as_dict()["dropped"] == ("iDOT",) and "left out iDOT" in report.line()
    restored, _ = codec.decompress(dqc, no_programs)
    assert png.read(restored).same(png.read(pngs.write(photo(), **CHUNKS)))
    _, report = codec.compress(source, strip=True)
    assert report.dropped == ("iDOT", "tEXt")


def test_a_file_that_is_given_back_as_it_is_keeps_them():
    source = pngs.write(photo(), before=IDOT)
    dqc, report = codec.compress(source, exact=True)
    assert report.dropped == () and report.recipe_bytes and codec.decompress(dqc, no_programs)[0] == source
    restored, report = codec.decompress(dqc, no_programs, repack=True)
    assert report.dropped == ("iDOT",) and "left out iDOT" in report.line() and b"iDOT" not in restored
    source = pngs.write(photo(1, 1), before=IDOT, end=b"tail")
    dqc, report = codec.compress(source)
    assert report.method == "stored" and report.dropped == () and codec.decompress(dqc, no_programs)[0] == source


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("tail", [pngs.chunk(b"IEND"), b"\0", bytes(range(256)) * 9])
def test_bytes_after_the_end_of_a_png_come_back(tail, exact):
    for source in (pngs.write(photo(), tail=tail), pngs.animated(photo(), [((0, 0), photo())], tail=tail)):
        dqc, report = codec.compress(source, exact=exact)
        found, _ = codec.decompress(dqc, no_programs)
        assert found.endswith(pngs.chunk(b"IEND") + tail) and png.read(found).same(png.read(source))
        assert report.dropped == () and (not exact or found == source)
        if source == pngs.write(photo(), tail=tail):
            assert report.method != "stored"


def test_a_stripped_file_that_is_stored_keeps_its_packing():
    """A new packing may be larger than the PNG."""
    text = pngs.chunk(b"tEXt", b"Comment\0hello")
    source = pngs.write(photo(), before=text + pngs.chunk(b"gAMA", bytes(4)), after=text, tail=b"x", interlace=True)
    stripped = read(source, strip=True)
    assert stripped.stored == source.replace(text, b"")[:-1]
    assert png.read(stripped.stored).same(stripped.image)


def test_stripping_tells_of_bytes_after_the_end():
    source = pngs.write(photo(), tail=b"hidden")
    dqc, report = codec.compress(source, strip=True)
    assert report.dropped == ("bytes after IEND",) and "left out bytes after IEND" in report.line()
    assert codec.decompress(dqc, no_programs)[0].endswith(pngs.chunk(b"IEND"))


def test_very_many_bytes_after_the_end_are_kept_with_the_file():
    source = pngs.write(photo(), tail=bytes(MAX_TAIL_BYTES + 1))
    dqc, report = codec.compress(source)
    assert report.method == "stored" and codec.decompress(dqc, no_programs)[0] == source


def test_layers_of_an_image_may_have_different_methods(monkeypatch):
    fake_learned.install(monkeypatch)
    hidden = np.dstack([photo(), photo(channels=1) // 100])
    dqc, report = codec.compress(pngs.write(hidden), [PROGRAM])
    assert report.method == "flow+trained-mixing" and report.model == "fake"
    assert [(layer.name, layer.model) for layer in report.layers] == [("RGBA", "fake"), ("alpha of RGBA", None)]
    assert np.array_equal(png.read(codec.decompress(dqc, the_program)[0]).pixels, hidden)
    alpha_bits = 8 * report.layers[1].bytes
    model_bits = (report.learned["vi_bpd"] * report.dims - alpha_bits) / (40 * 60 * 3)
    assert model_bits == pytest.approx(3.46) and "by fake" in report.details()


def test_the_flow_is_taken_where_it_is_smallest_and_reports_its_limit(monkeypatch):
    fake_learned.install(monkeypatch)
    source = pngs.write(photo(), **CHUNKS)
    dqc, report = codec.compress(source, [PROGRAM])
    assert same_image(codec.decompress(dqc, the_program)[0], source)
    assert (report.method, report.model, report.container_bytes <= 32) == ("flow", "fake", True)
    assert report.learned["vi_bpd"] == pytest.approx(3.46) and "(limit 3.46) verified" in report.line()
    assert codec.info(dqc).model_id == PROGRAM.id.hex()
    with pytest.raises(UnknownModelError):
        codec.decompress(dqc, no_programs)


@pytest.mark.parametrize("error", [LatentOverflow("far tail"), StackUnderflow("empty")])
def test_an_image_that_a_flow_cannot_code_takes_another_method(monkeypatch, error):
    fake_learned.install(monkeypatch, error=error)
    source = pngs.write(photo())
    dqc, report = codec.compress(source, [PROGRAM])
    assert report.method == "classical" and "flow" not in report.candidates
    assert same_image(codec.decompress(dqc, no_programs)[0], source)


def test_an_image_that_no_program_fits_is_coded_without(monkeypatch):
    fake_learned.install(monkeypatch)
    assert codec.compress(pngs.write(photo(channels=1)), [PROGRAM])[1].model is None


def test_verification_catches_a_wrong_decoder(monkeypatch):
    fake_learned.install(monkeypatch, wrong=True)
    source = pngs.write(photo())
    with pytest.raises(VerifyError):
        codec.compress(source, [PROGRAM])
    dqc, report = codec.compress(source, [PROGRAM], verify=False)
    assert not report.verified
    with pytest.raises(CorruptError, match="checksum"):
        codec.decompress(dqc, the_program)


@pytest.mark.parametrize("method", ["stored", "trained-mixing", "flow"])
def test_any_flipped_byte_or_cut_is_a_named_error_never_a_wrong_image(method, monkeypatch):
    fake_learned.install(monkeypatch)
    pixels = np.random.default_rng(4).integers(0, 256, (2, 2, 3)) if method == "stored" else photo(9, 9)
    source = pngs.write(pixels, 8, **({} if method == "stored" else CHUNKS))
    dqc, report = codec.compress(source, [PROGRAM] if method == "flow" else [])
    if method == "stored":
        dqc = stored_group(source).pack()
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


@settings(max_examples=400)
@given(st.sampled_from(range(len(COMPRESSED))), st.integers(0), st.integers(0, 255), st.booleans())
def test_damage_under_a_forged_crc_gives_the_image_or_a_named_error(number, index, byte, cut):
    source = list(sources())[number // 2]
    body = bytearray(COMPRESSED[number][:-4])
    index %= len(body)
    body[index] = byte
    body = bytes(body[:index] if cut else body)
    try:
        restored, _ = codec.decompress(body + zlib.crc32(body).to_bytes(4, "little"), no_programs)
        image = png.read(restored)  # a stored file is given back broken, and no reader takes it
    except DqcodecError as error:
        assert "\n" not in str(error)
    else:
        assert all(map(np.array_equal, image.rasters, png.read(source).rasters))


@pytest.mark.parametrize("data", [b"", b"no png", pngs.write(photo())[:-9], pngs.write(photo())[:99]])
def test_broken_inputs_are_named_errors(data):
    with pytest.raises(DqcodecError) as caught:
        codec.compress(data)
    assert str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("payload", [b"", b"no png", pngs.SIGNATURE, pngs.write(photo())[:32]])
def test_a_stored_file_that_is_no_png_is_corrupt(payload):
    with pytest.raises(CorruptError):
        codec.decompress(stored_group(payload).pack(), no_programs)


def test_the_size_limit_holds_both_ways():
    source = pngs.write(photo())
    dqc, _ = codec.compress(source)
    with pytest.raises(UnsupportedImageError, match="limit"):
        codec.compress(source, max_pixels=100)
    with pytest.raises(UnsupportedImageError, match="limit"):
        codec.decompress(dqc, no_programs, max_pixels=100)


def test_info_tells_the_header_of_every_method():
    dqc, report = codec.compress(pngs.write(photo(), **CHUNKS))
    classical = codec.info(dqc)
    assert (classical.method, classical.width, classical.height, classical.samples) == ("classical", 60, 40, 3)
    assert classical.chunk_bytes == report.chunk_bytes > 0 and classical.model_id is None
    stored = codec.info(stored_group(pngs.random(np.random.default_rng(5), 3, 4, 6, 16)).pack())
    assert (stored.method, stored.width, stored.height, stored.samples) == ("stored", 4, 3, 4)


# --- several images


def coded_together(files, programs=(), find=no_programs):
    """The group, checked, and what it decodes to."""
    read = [codec.read(data) for data in files]
    coded = codec.encode(read, programs)
    codec.check(coded.group, read, programs, png.MAX_PIXELS)
    images = codec.decode(coded.group, find)
    restored = [codec.restore(entry, image) for entry, image in zip(coded.group.entries, images, strict=True)]
    assert all(map(same_image, restored, files))
    return coded


def test_large_layers_that_a_model_may_suit_are_mixed_if_they_repeat():
    noise = np.random.default_rng(0).integers(0, 256, (320, 320, 3)).astype(np.uint8)
    tiles = np.tile(noise[:20, :20], (16, 16, 1))
    for pixels, is_mixed in ((noise, False), (tiles, True), (0 * noise, True), (noise[:200], True)):
        assert suitability.takes_mixing(pixels, is_modelled=True) == is_mixed
        assert suitability.takes_mixing(pixels, is_modelled=False)


def drawing(height=20, width=24, channels=3, shift=0):
    y, x = np.ogrid[:height, :width]
    rings = np.minimum(np.hypot(y - 9 - shift, x - 8) // 2, 6)[..., None]
    return (rings * np.arange(20, 20 + 9 * channels, 9)).astype(np.uint8)


def shaded(height=20, width=24, channels=3, shift=0):
    """A drawing of too many colours for indices."""
    shades = np.indices((height, width)).sum(0).astype(np.uint8)[..., None]
    return drawing(height, width, channels, shift) + shades


def noise(height, width):
    return np.random.default_rng(height * width).integers(0, 256, (height, width, 3)).astype(np.uint8)


def test_layers_of_several_images_are_mixed_in_one_payload_for_each_count_of_channels(monkeypatch):
    monkeypatch.setattr(candidates, "takes_experts", lambda *_: False)
    pixels = [shaded(), shaded(shift=1), shaded(channels=1), shaded(30, 9), shaded(channels=1, shift=2)]
    coded = coded_together(map(pngs.write, pixels))
    assert [entry.method for entry in coded.group.entries] == ["trained-mixing"] * 5
    assert owners(coded.group.entries) == [[(0, 0), (1, 0), (3, 0)], [(2, 0), (4, 0)]]
    assert len(coded.group.payloads) == 2 and coded.reports == (None, None) and coded.programs == []
    alone = sum(len(table.encode(Method.TRAINED_MIXING, [each]).data) for each in pixels)
    assert sum(map(len, coded.group.payloads)) < 0.9 * alone


def test_images_that_are_the_same_cost_little_beyond_the_first():
    source = pngs.write(drawing())
    one, many = (sum(map(len, coded_together([source] * count).group.payloads)) for count in (1, 6))
    assert many < 2 * one


def test_an_image_alone_is_coded_as_its_file_is():
    for source in sources():
        coded = codec.encode([codec.read(source)], [])
        assert coded.group.shortened().pack() == codec.compress(source)[0]


def layer_coded(method: Method, size: int, program=None) -> CodedLayer:
    return CodedLayer(Layer(method, program.id if program else b""), b"", size, program, together=3)


def test_layers_of_a_kind_share_a_way_unless_one_is_much_smaller_by_another():
    """It must be far smaller, because its help made the others' sizes."""
    read = [codec.read(pngs.write(drawing(channels=channels))) for channels in (3, 3, 3, 3, 1)]
    model = fake_learned.Program(kind="autoregressive")
    sizes = [(100, 80), (100, 80), (79, 80), (60, 80), (10, 20)]  # of mixing, by the model; the last: another kind
    both = [(layer_coded(Method.MIXING, a), layer_coded(Method.AUTOREGRESSIVE, b, model)) for a, b in sizes]
    kept = choose._usual(read, {(n, Split(Step.PLAIN), 0): list(pair) for n, pair in enumerate(both)})
    mixed, modelled = zip(*both)
    expected = [[modelled[0]], [modelled[1]], [modelled[2]], [mixed[3], modelled[3]], [mixed[4]]]
    assert list(kept.values()) == expected
    only = {(0, Split(Step.PLAIN), 0): [mixed[0]]}
    assert choose._usual(read, only) == only


def test_images_of_a_kind_share_a_split_unless_one_is_much_smaller_by_another():
    read = [codec.read(pngs.write(drawing(channels=4))) for _ in range(4)]
    whole, apart = Split(Step.PLAIN), Split(Step.PLAIN, alpha=True)

    def choice(number: int, split: Split, size: int) -> choose.Choice:
        coded = [layer_coded(Method.MIXING, size / (1 + split.alpha))] * (1 + split.alpha)
        entry = Entry(read[number].image.skeleton, split, (tuple(each.layer for each in coded),))
        return choose.Choice(entry, tuple(coded))

    sizes = [(1000, 800), (1000, 800), (750, 800), (500, 800)]
    stored = choose.Choice(Entry(), stored=bytes(5000))
    found = [[choice(n, whole, a), choice(n, apart, b), stored] for n, (a, b) in enumerate(sizes)]
    chosen = choose._chosen(read, found)
    assert [each.entry.split for each in chosen] == [apart, apart, apart, whole]
    small = choose.Choice(Entry(), stored=bytes(100))
    assert choose._chosen(read, [[*each[:2], small] for each in found])[2].entry == Entry()


@pytest.fixture
def by_model(monkeypatch):
    """A model that codes any layers together for 1000 bytes each, and the layers that it coded."""
    calls, model = [], fake_learned.Program(kind="autoregressive")
    fake_learned.install(monkeypatch, see=lambda layers: calls.append(len(layers)))

    def by_model(layers, programs, effort):
        payload = table.encode(Method.AUTOREGRESSIVE, layers, model)
        calls.clear()
        layer = Layer(Method.AUTOREGRESSIVE, model.id)
        return [[CodedLayer(layer, payload.data, 1000, model, payload.report, len(layers))] for _ in layers]

    monkeypatch.setattr(candidates, "by_model", by_model)
    monkeypatch.setattr(trial, "bits_ratio", lambda method, layers, program: 1)
    return model, calls


def test_layers_that_leave_a_model_are_mixed_and_the_others_coded_anew(by_model):
    model, calls = by_model
    pixels = [noise(40, 60), noise(39, 60), shaded(), noise(40, 59)]
    coded = coded_together(list(map(pngs.write, pixels)), [model], lambda model_id: model)
    assert [entry.method for entry in coded.group.entries] == ["autoregressive"] * 2 + [
        "trained-mixing",
        "autoregressive",
    ]
    assert calls == [3] and coded.programs == [model] and len(coded.group.payloads) == 2
    assert owners(coded.group.entries) == [[(0, 0), (1, 0), (3, 0)], [(2, 0)]]
    assert [len(report.layer_bits) if report else None for report in coded.reports] == [3, None]
    assert coded.group.payloads[1] == table.encode(Method.TRAINED_MIXING, [shaded()]).data


def test_layers_that_all_stay_with_a_model_are_coded_once(by_model):
    model, calls = by_model
    coded = coded_together(list(map(pngs.write, [noise(40, 60), noise(39, 60)])), [model], lambda model_id: model)
    assert [entry.method for entry in coded.group.entries] == ["autoregressive"] * 2 and not calls


@pytest.mark.parametrize("tiles_in_a_row", [8, 16])
@pytest.mark.parametrize(("estimate", "is_tried"), [(1e9, False), (1, True)])
def test_a_model_is_tried_on_a_drawing_only_if_a_sample_shows_that_it_may_beat_mixing(
    monkeypatch, estimate, is_tried, tiles_in_a_row
):
    tried = []
    monkeypatch.setattr(candidates, "by_model", lambda layers, *_: tried.extend(layers) or [[] for _ in layers])
    monkeypatch.setattr(trial, "drawing_bits", lambda *_: estimate)
    tiles = codec.read(pngs.write(np.tile(noise(20, 20), (tiles_in_a_row, tiles_in_a_row, 1))))
    ways = candidates.code_together({0: tiles}, [fake_learned.Program(kind="autoregressive")], Effort.USUAL)
    assert bool(tried) == is_tried and {way.layer.method for each in ways.values() for way in each} == {
        Method.TRAINED_MIXING
    }


class _CountingProgram(fake_learned.Program):
    """A pixel takes a bit if it differs from its left or upper neighbour."""

    def code_length(self, parts):
        return float(sum(suitability.differing(part).sum() for part in parts))


@given(st.integers(0, 2**32 - 1))
def test_the_bits_of_a_drawing_are_estimated_from_where_they_are(seed):
    rng = np.random.default_rng(seed)
    flat = np.zeros((400, 500, 3), np.uint8)
    program = _CountingProgram(kind="autoregressive")
    assert (
        trial.drawing_bits(flat, [program], Effort.USUAL) == 0 and trial.drawing_bits(flat, [], Effort.USUAL) == np.inf
    )
    top, left = rng.integers(0, 300, 2)
    flat[top : top + 60, left : left + 60] = noise(60, 60)  # little of the image, all of its bits
    total = suitability.differing(flat).sum()
    assert trial.drawing_bits(flat, [program], Effort.USUAL) == pytest.approx(total, rel=0.1)


def test_a_group_that_was_altered_is_found():
    files = [pngs.write(drawing()), pngs.write(drawing(shift=1)), *sources()]
    read = [codec.read(source, exact=True) for source in files]
    group = codec.encode(read, []).group

    def check(altered: Group, of=read) -> None:
        codec.check(altered, of, (), png.MAX_PIXELS)

    check(group)
    first, second, *others = group.entries

    def with_first(**changes) -> Group:
        return dataclasses.replace(group, entries=(dataclasses.replace(first, **changes), second, *others))

    for altered in (
        dataclasses.replace(group, checksum=bytes(8)),
        dataclasses.replace(group, payloads=(group.payloads[0][:-2], *group.payloads[1:])),
        with_first(recipe=second.recipe + b"x"),
        with_first(skeleton=read[2].image.skeleton),
    ):
        with pytest.raises(VerifyError):
            check(altered)
    changed = drawing()
    changed[3, 4, 1] ^= 1
    for data in (changed, drawing(shift=1)):
        with pytest.raises(VerifyError, match="another image"):
            check(group, [codec.read(pngs.write(data)), *read[1:]])
    with pytest.raises(VerifyError, match="another image"):
        check(group, [read[1], read[0], *read[2:]])

    with pytest.raises(VerifyError, match="damaged"), codec.verifying():
        raise CorruptError("damaged")


@pytest.mark.parametrize("count", [1, 3])
def test_a_group_of_fewer_or_more_images_is_found(count):
    read = [codec.read(pngs.write(drawing(shift=n))) for n in range(3)]
    group = codec.encode(read[:count], []).group
    with pytest.raises(VerifyError):
        codec.check(group, read[:2], (), png.MAX_PIXELS)


def test_with_the_effort_best_a_layer_is_coded_by_the_usual_model_too(monkeypatch):
    fake_learned.install(monkeypatch)
    large, usual = (
        fake_learned.Program(name, name.encode(), card={"multiplications_per_pixel": size})
        for name, size in (("large", 1_000_000), ("usual", 50_000))
    )
    layers = [np.random.default_rng(0).integers(0, 256, (9, 9, 3)).astype(np.uint8)]
    for effort, names in ((Effort.USUAL, ["usual"]), (Effort.BEST, ["large", "usual"])):
        (tried,) = ways.by_model(layers, [large, usual], effort)
        assert [way.program.name for way in tried] == names
