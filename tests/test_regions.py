"""A region is the same part of the whole image, whatever codes it; methods in parts decode only what it needs."""

import io
import json

import numpy as np
import pngs
import programs
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from test_archive import kinds

import dqcodec
from dqcodec import png
from dqcodec.base.errors import CorruptError, RegionError, UnsupportedImageError
from dqcodec.codec import codec, conversion, zoo
from dqcodec.codec.archive import Archive
from dqcodec.codec.group import decode, decode_regions, encode
from dqcodec.codec.region import Region
from dqcodec.codec.source import read
from dqcodec.command.cli import main
from dqcodec.exact.boxes import whole
from dqcodec.format.container import Group
from dqcodec.format.layer import Layer, Method
from dqcodec.methods import autoregressive, classical, table

RNG = np.random.default_rng(3)


@st.composite
def windows(draw, height, width):
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    return slice(top, draw(st.integers(top + 1, height))), slice(left, draw(st.integers(left + 1, width)))


@pytest.fixture
def folder(quick_folder):
    return quick_folder


@pytest.fixture
def small_stacks(monkeypatch):
    """Stacks of at most two tiles, of 8 x 16 pixels; the list gets the tiles of each stack that is decoded."""
    program, decoded = programs.tiled(8, 16), []
    monkeypatch.setattr(autoregressive, "MAX_STACK_PIXELS", 256)
    pop = type(program).pop_windows

    def counted(self, stack, shapes, windows):
        decoded.append(len(shapes))
        return pop(self, stack, shapes, windows)

    monkeypatch.setattr(type(program), "pop_windows", counted)
    return program, decoded


LAYERS = [RNG.integers(0, 256, shape, np.uint8) for shape in ((21, 37, 3), (9, 5, 3))]


def test_a_window_of_an_autoregressive_layer_is_that_part_of_the_layer(small_stacks):
    program, decoded = small_stacks
    shapes = [layer.shape for layer in LAYERS]
    payload = autoregressive.encode(LAYERS, program).data

    @settings(max_examples=25)
    @given(windows(21, 37), st.none() | windows(9, 5))
    def law(first, second):
        parts = autoregressive.decode_windows(payload, shapes, [first, second], program)
        assert np.array_equal(parts[0], LAYERS[0][first])
        assert parts[1] is None if second is None else np.array_equal(parts[1], LAYERS[1][second])

    law()
    decoded.clear()
    autoregressive.decode_windows(payload, shapes, [(slice(0, 3), slice(33, 37)), None], program)
    assert decoded == [2]  # columns 32 to 36 are the third tile, which shares its stack with the fourth
    decoded.clear()
    autoregressive.decode_windows(payload, shapes, [None, whole(shapes[1])], program)
    assert len(decoded) == 1


def test_a_stack_is_decoded_up_to_the_last_front_of_the_window():
    program = programs.tiled(32, 32)
    layer = RNG.integers(0, 256, (32, 32, 3), np.uint8)
    payload = autoregressive.encode([layer], program).data
    fronts = program.slots([layer]).fronts
    assert fronts.until([(slice(0, 1), slice(0, 1))]) == 1 and fronts.until([None]) == 0
    assert fronts.until([whole(layer.shape)]) == len(fronts)
    window = slice(0, 4), slice(0, 4)
    assert np.array_equal(autoregressive.decode_windows(payload, [layer.shape], [window], program)[0], layer[window])


def test_only_the_webp_blocks_of_a_window_are_decoded(monkeypatch):
    monkeypatch.setattr(classical, "BLOCK", 16)
    layer = np.add.outer(np.arange(40), np.arange(50))[..., None].repeat(3, 2).astype(np.uint8)
    payload = classical.encode([layer]).data
    decode_block, blocks = classical._decode_block, []
    monkeypatch.setattr(classical, "_decode_block", lambda *a: blocks.append(a[1]) or decode_block(*a))
    window = slice(17, 30), slice(15, 33)
    (part,) = classical.decode_windows(payload, [layer.shape], [window])
    assert np.array_equal(part, layer[window]) and len(blocks) == 3 and payload[:1] == b"\1"
    raw = classical.encode([LAYERS[1]]).data
    assert raw[:1] == b"\0" and np.array_equal(
        classical.decode_windows(raw, [(9, 5, 3)], [window])[0], LAYERS[1][window]
    )


def test_methods_that_decode_whole_layers_give_the_window_of_them():
    payload = table.encode(Method.MIXING, LAYERS).data
    window = slice(2, 7), slice(1, 5)
    parts = table.decode_windows(
        payload, Layer(Method.MIXING), [each.shape for each in LAYERS], [None, window], zoo.find
    )
    assert parts[0] is None and np.array_equal(parts[1], LAYERS[1][window])


def test_a_region_of_every_kind_of_png_is_that_part_of_its_pixels(folder):
    for name, data in kinds().items():
        dqc = dqcodec.compress(data)
        if name == "animated":
            with pytest.raises(UnsupportedImageError, match="animation"):
                dqcodec.decompress(dqc, region=(0, 0, 1, 1))
            continue
        pixels = dqcodec.decompress(dqc)
        height, width = pixels.shape[:2]
        for region in ((0, 0, width, height), (1, 2, 3, 3), (width - 1, height - 1, width, height)):
            part = dqcodec.decompress(dqc, region=region)
            assert part.dtype == pixels.dtype, name
            assert np.array_equal(part, pixels[region[1] : region[3], region[0] : region[2]]), (name, region)
            image, _ = codec.decompress_region(dqc, Region.of(region), dqcodec.find_model)
            written = Image.open(io.BytesIO(png.write(image)))
            assert written.size == (region[2] - region[0], region[3] - region[1])


def test_a_region_of_ranks_and_of_colour_indices_is_that_part_of_the_pixels(folder):
    rng = np.random.default_rng(4)
    few = rng.integers(0, 5, (12, 14))
    deep = np.array([0, 77, 900, 21_000, 65_000], np.uint16)[few]
    colors = rng.integers(0, 256, (5, 3)).astype(np.uint8)[few]
    for pixels in (deep, colors):
        dqc = dqcodec.compress(pixels)
        assert Group.unpack(dqc).entries[0].values
        assert np.array_equal(dqcodec.decompress(dqc, region=(3, 2, 9, 11)), pixels[2:11, 3:9])


@pytest.mark.parametrize("region", [(0, 0, 0, 1), (-1, 0, 2, 2), (3, 0, 2, 2), (0, 0, 9, 1), (0, 0, 1, 9)])
def test_a_region_outside_of_the_image_is_refused(folder, region):
    dqc = dqcodec.compress(np.zeros((8, 8), np.uint8))
    with pytest.raises(RegionError):
        dqcodec.decompress(dqc, region=region)
    with pytest.raises(TypeError):
        dqcodec.decompress(dqc, region=(0, 0, 1.5, 1))


def test_a_damaged_file_gives_no_region(folder):
    dqc = bytearray(dqcodec.compress(LAYERS[0]))
    for position in range(0, len(dqc), 97):
        damaged = dqc.copy()
        damaged[position] ^= 64
        with pytest.raises(dqcodec.DqcodecError):
            dqcodec.decompress(bytes(damaged), region=(0, 0, 1, 1))
    with pytest.raises(CorruptError):
        dqcodec.decompress(bytes(dqc[:-1]), region=(0, 0, 1, 1))


def test_regions_of_images_that_share_payloads_or_samples(folder):
    pixels = [LAYERS[1], LAYERS[1], LAYERS[0]]
    program = programs.program(programs.AUTOREGRESSIVE)
    find = {program.id: program}.__getitem__
    coded = encode([read(png.write(conversion.from_array(each))) for each in pixels], [program]).group
    regions = {1: Region(1, 2, 4, 6), 2: Region(5, 5, 30, 6)}
    parts = decode_regions(coded, regions, find)
    images = decode(coded, find)
    assert set(parts) == {1, 2} and coded.entries[1].repeats
    for number, region in regions.items():
        whole_image = conversion.lone_image(images[number], png.MAX_PIXELS)
        assert parts[number].same(region.cut(whole_image))


def test_the_command_writes_the_region_and_says_if_it_is_not_compared(folder):
    Image.fromarray(LAYERS[0]).save("a.png")
    Image.fromarray(LAYERS[1]).save("small.png")
    run = lambda *arguments: CliRunner().invoke(main, list(arguments))  # noqa: E731
    assert run("compress", "a.png", "small.png").exit_code == 0
    assert run("compress", "a.png", "small.png", "-o", "set.dqc").exit_code == 0
    told = run("decompress", "a.png.dqc", "--crop", "20x10+5+3", "-o", "part.png")
    assert told.exit_code == 0 and "not compared" not in told.stderr and "20x10+5+3" in told.stderr
    Image.new("L", (257, 256)).save("large.png")
    assert run("compress", "large.png").exit_code == 0
    assert "not compared" in run("decompress", "large.png.dqc", "--crop", "20x10+5+3").stderr
    assert np.array_equal(np.asarray(Image.open("part.png")), LAYERS[0][3:13, 5:25])
    both = run("decompress", "a.png.dqc", "small.png.dqc", "--crop", "20x10+5+3", "--json")
    first, second = map(json.loads, both.stdout.splitlines()[:2])
    assert first["note"] == "written as a.20x10+5+3.png" and (folder / "a.20x10+5+3.png").exists()
    assert both.exit_code == 1 and first["region"] == "20x10+5+3" and "does not lie within" in second["error"]
    assert run("decompress", "set.dqc", "--crop", "4x3+1+2").exit_code == 0
    for name, pixels in (("a", LAYERS[0]), ("small", LAYERS[1])):
        assert np.array_equal(np.asarray(Image.open(f"set/{name}.4x3+1+2.png")), pixels[2:5, 1:5])
        assert not (folder / f"set/{name}.png").exists()
    assert run("decompress", "a.png.dqc", "--crop", "4x3").exit_code == 2
    assert run("decompress", "a.png.dqc", "--crop", "4x3+0+0", "--rm").exit_code == 2


def test_an_archive_reads_pixels_and_regions(folder):
    (folder / "in").mkdir()
    for name, data in kinds().items():
        (folder / "in" / name).write_bytes(data)
    assert CliRunner().invoke(main, ["compress", "in", "-o", "set.dqc"]).exit_code == 0
    names = [name for name in kinds() if name != "animated"]
    with Archive("set.dqc") as regions, Archive("set.dqc") as images:
        for name in names:
            pixels = conversion.to_array(images[name], png.MAX_PIXELS)
            assert np.array_equal(regions.read(name, region=(1, 0, 3, 2)), pixels[0:2, 1:3])
            assert np.array_equal(regions.read(name), pixels)
            assert np.array_equal(regions.read(name, region=(1, 0, 3, 2)), pixels[0:2, 1:3])
        with pytest.raises(RegionError):
            images.read("gray", region=(0, 0, 100, 1))
        with pytest.raises(UnsupportedImageError, match="animation"):
            images.read("animated")
        with pytest.raises(KeyError):
            images.read("nothing")


def test_a_reader_that_writes_into_its_pixels_does_not_change_the_archive(folder):
    (folder / "in").mkdir()
    for name, data in kinds().items():
        (folder / "in" / name).write_bytes(data)
    assert CliRunner().invoke(main, ["compress", "in", "-o", "set.dqc"]).exit_code == 0
    with Archive("set.dqc") as images:
        for name in [name for name in kinds() if name != "animated"]:
            file, pixels = images[name], images.read(name).copy()
            images.read(name)[:] = 1
            images.read(name, region=(1, 0, 3, 2))[:] = 2
            assert images[name] == file and np.array_equal(images.read(name), pixels)


def test_a_part_of_an_animation_of_one_frame_is_a_still_image(folder):
    (folder / "a.png").write_bytes(
        pngs.animated(RNG.integers(0, 256, (8, 9, 3)), [], before=pngs.chunk(b"gAMA", bytes(4)))
    )
    part = cropped(folder)
    assert part.skeleton.kinds == {b"gAMA"} and part.header[:2] == (3, 4)


def test_a_part_of_an_image_that_is_kept_verbatim_has_its_chunks(folder):
    before, after = pngs.chunk(b"gAMA", bytes(4)) + pngs.chunk(b"iDOT", bytes(4)), pngs.chunk(b"tEXt", b"a\0b")
    data = pngs.write(RNG.integers(0, 256, (8, 9, 3)), before=before, after=after, end=b"more")
    (folder / "a.png").write_bytes(data)
    kinds = [[chunk.kind for chunk in part] for part in cropped(folder).skeleton.parts]
    assert kinds == [[b"gAMA"], [b"tEXt"]]


def cropped(folder):
    """The region of a.png that the command decodes."""
    assert CliRunner().invoke(main, ["compress", "a.png"]).exit_code == 0
    told = CliRunner().invoke(main, ["decompress", "a.png.dqc", "--crop", "3x4+1+1", "-o", "part.png"])
    assert told.exit_code == 0
    with Image.open("part.png") as image:
        image.load()
    return png.read((folder / "part.png").read_bytes())
