import copy
import io
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pngs
import programs
import pytest
from dqc import group
from PIL import Image, ImageSequence, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile

import dqcodec
from dqcodec import png
from dqcodec.base import errors
from dqcodec.base.errors import CorruptError, FormatError, UnsupportedImageError
from dqcodec.codec import codec, conversion, export, foreign, library
from dqcodec.codec.archive import Archive
from dqcodec.command import names
from dqcodec.format import archive, archive_group
from dqcodec.format.layer import Method
from dqcodec.methods import autoregressive

RNG = np.random.default_rng(0)
COLORS = (np.add.outer(np.arange(12) * 9, np.arange(17))[..., None] + np.arange(3) * 40).astype(np.uint8)


@pytest.fixture(autouse=True)
def folder(quick_folder):
    return quick_folder


def pillow(mode):
    """An image in colour or gray, of one of Pillow's modes."""
    if mode == "I;16":
        return Image.fromarray(RNG.integers(0, 1 << 16, (9, 8)).astype(np.uint16))
    image = Image.fromarray(COLORS)
    return image.convert("L").convert("LA") if mode == "LA" else image.convert(mode)


def saved(image, format, **options):
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def looks(image):
    """Pixels that can be compared."""
    return np.asarray(image if image.mode.startswith("I") else image.convert("RGBA"))


def test_the_public_names_are_there():
    assert {*dqcodec.__all__, "open"} <= {*dir(dqcodec)} and "open" not in dqcodec.__all__
    for name in dqcodec.__all__:
        assert getattr(dqcodec, name) is not None
    assert dqcodec.Archive is Archive and dqcodec.info is library.info
    with pytest.raises(AttributeError):
        dqcodec.nothing  # noqa: B018


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, ">u2"])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4), (1, 1)])
def test_arrays_come_back(shape, dtype):
    pixels = RNG.integers(0, np.iinfo(dtype).max, shape, endpoint=True).astype(dtype)
    restored = dqcodec.decompress(dqcodec.compress(pixels))
    assert restored.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(restored, pixels[..., 0] if shape[2:] == (1,) else pixels)
    assert np.array_equal(dqcodec.decompress(dqcodec.compress(pixels[::-1])), restored[::-1])


@pytest.mark.parametrize(
    "pixels", [np.zeros((2, 2)), np.zeros((2, 2), bool), np.zeros(4, np.uint8), np.zeros((2, 2, 5), np.uint8),
               np.zeros((0, 2), np.uint8), np.zeros((1, 2, 2, 3), np.uint8),
               np.ma.masked_array(np.zeros((2, 2), np.uint8), np.eye(2))]
)  # fmt: skip
def test_arrays_that_are_no_images_are_refused(pixels):
    with pytest.raises(UnsupportedImageError):
        dqcodec.compress(pixels)


def test_the_library_takes_paths_and_bytes_with_the_same_result(folder):
    source = pngs.write(COLORS, before=pngs.chunk(b"tEXt", b"Comment\0hello"))
    (folder / "a.png").write_bytes(source)
    dqc = dqcodec.compress(source)
    assert (
        dqc
        == dqcodec.compress("a.png")
        == dqcodec.compress(folder / "a.png", models=[])
        == dqcodec.compress(bytearray(source))
    )
    (folder / "a.png.dqc").write_bytes(dqc)
    assert np.array_equal(dqcodec.decompress("a.png.dqc"), COLORS)
    assert dqcodec.info("a.png.dqc") == dqcodec.info(dqc) == dqcodec.info(memoryview(dqc))
    assert b"hello" in dqcodec.decompress_png(dqc) and png.read(dqcodec.decompress_png(folder / "a.png.dqc")).same(
        png.read(source)
    )
    assert len(dqcodec.compress(source, strip=True)) < len(dqc)
    assert dqcodec.decompress_png(dqcodec.compress(source, exact=True)) == source
    with pytest.raises(dqcodec.UnknownModelError):
        dqcodec.compress(source, models="nothing")
    with pytest.raises(UnsupportedImageError, match="limit"):
        dqcodec.compress(COLORS, max_pixels=10)
    with pytest.raises(UnsupportedImageError, match="limit"):
        dqcodec.decompress(dqc, max_pixels=10)


@pytest.mark.parametrize("tail", [b"", b"odd"])
@pytest.mark.parametrize("color_type, bit_depth, channels", [(0, 1, 2), (0, 4, 2), (2, 8, 4), (3, 2, 4), (2, 16, 4)])
def test_palettes_and_colour_keys_are_resolved(color_type, bit_depth, channels, tail):
    key = bytes(6 if color_type == 2 else 2)
    source = pngs.random(RNG, 6, 7, color_type, bit_depth, before=pngs.chunk(b"tRNS", key), end=tail)
    pixels = dqcodec.decompress(dqcodec.compress(source))
    assert pixels.shape == (6, 7, channels) and pixels.dtype == (np.uint16 if bit_depth == 16 else np.uint8)
    if bit_depth < 16:
        assert np.array_equal(looks(Image.fromarray(pixels)), looks(Image.open(io.BytesIO(source))))


def test_archives_are_mappings(folder):
    stream = io.BytesIO()
    writer = archive.Writer(stream)
    sources = [codec.read(pngs.write(COLORS)), codec.read(pngs.write(COLORS[:5]))]
    members = archive_group.Member("a.png"), archive_group.Member("b.png")
    writer.add(
        archive_group.pack_group(archive_group.ArchiveGroup(members, (0, 1), (codec.encode(sources, []).group,)))
    )
    writer.finish()
    (folder / "set.dqc").write_bytes(stream.getvalue())
    with dqcodec.Archive("set.dqc") as images:
        assert list(images) == ["a.png", "b.png"] and png.read(images["b.png"]).pixels.shape == (5, 17, 3)
    for read in (dqcodec.decompress, dqcodec.decompress_png, dqcodec.info):
        with pytest.raises(FormatError, match="Archive"):
            read("set.dqc")


def test_an_archive_holds_images_of_every_source_under_their_names(folder):
    Image.fromarray(COLORS).save("a.png")
    images = {"z.png": COLORS, "b/a.png": "a.png", "b/c": Image.fromarray(COLORS[:5]), "d": pngs.write(COLORS)}
    data = dqcodec.compress_archive(images)
    assert data == dqcodec.compress_archive(iter(images.items()), dqcodec.model_names())
    with dqcodec.Archive(io.BytesIO(data)) as back:
        assert list(back) == list(images)
        for name, wanted in zip(images, (COLORS, COLORS, COLORS[:5], COLORS)):
            assert np.array_equal(back.read(name), wanted)
        assert back["d"] == back["z.png"]


def test_equal_images_are_coded_once_in_an_archive():
    one, many = (dqcodec.compress_archive({str(n): COLORS for n in range(count)}) for count in (1, 20))
    assert len(many) < len(one) + 20 * 16


def test_an_archive_of_no_images_is_one():
    with dqcodec.Archive(io.BytesIO(dqcodec.compress_archive({}))) as images:
        assert list(images) == []


@pytest.mark.parametrize(
    "names",
    [
        [""],
        ["/a"],
        ["a//b"],
        ["a/../b"],
        ["."],
        ["a\0b"],
        ["a" * 5000],
        ["a", "a"],
        ["a", "a/b"],
        ["a/b", "a"],
        ["\ud800"],
        ["\udcc3\udca9"],
    ],
)
def test_names_that_no_files_could_have_are_refused(names):
    with pytest.raises(ValueError, match=r"^'[^']+' (cannot be the name|is the name of)|^'' cannot be the name"):
        dqcodec.compress_archive((name, COLORS) for name in names)


def test_what_is_no_name_or_no_model_is_a_type_error():
    for name in (1, b"a.png", Path("a.png")):
        with pytest.raises(TypeError, match="is no name"):
            dqcodec.compress_archive({name: COLORS})
    for models in (5, [None], [b"photo"]):
        with pytest.raises(TypeError, match="is no model"):
            dqcodec.compress(COLORS, models)


def test_a_name_of_bytes_that_are_not_utf8_comes_back_as_the_system_gives_it():
    name = os.fsdecode(b"a\xff.png")
    with dqcodec.Archive(io.BytesIO(dqcodec.compress_archive({name: COLORS}))) as images:
        assert list(images) == [name] and np.array_equal(images.read(name), COLORS)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_pillow_images_come_back_in_their_mode(mode):
    image = pillow(mode)
    restored = Image.open(io.BytesIO(dqcodec.compress(image)))
    assert restored.mode == mode and np.array_equal(looks(restored), looks(image))


@pytest.mark.parametrize("format", ["png", "gif", "webp", "tiff", "dqc"])
def test_a_pillow_image_of_several_frames_is_refused_and_its_file_is_not_if_it_is_a_png(folder, format):
    source = pngs.animated(COLORS, [((0, 0), COLORS[:4])])
    if format == "dqc":
        data = dqcodec.compress(source)
    else:
        frames = [Image.fromarray(COLORS), Image.fromarray(COLORS[::-1])]
        data = saved(frames[0], format, save_all=True, append_images=frames[1:])
    with Image.open(io.BytesIO(data)) as image:
        for frame in (0, 1):
            image.seek(frame)
            with pytest.raises(UnsupportedImageError, match="2 frames"):
                dqcodec.compress(image)
        assert np.array_equal(looks(Image.fromarray(dqcodec.decompress(dqcodec.compress(image.copy())))), looks(image))
    if format == "png":
        assert png.read(dqcodec.decompress_png(dqcodec.compress(data))).same(png.read(data))


def animations():
    """PNGs of three frames, or two and a default image apart, whole and such as are kept verbatim."""
    frames = [((1, 2), COLORS[:4, :5] + 1), ((0, 0), COLORS[::-1])]
    for is_first in (True, False):
        for tail in (b"", b"tail"):
            yield pngs.animated(
                COLORS, frames, is_first=is_first, end=tail, before=pngs.chunk(b"tEXt", b"Comment\0hello")
            )
    animation = Image.open(io.BytesIO(pngs.animated(COLORS, frames)))
    images = [frame.copy() for frame in ImageSequence.Iterator(animation)]
    for disposal in (0, 1, 2):
        yield saved(
            images[0], "png", save_all=True, append_images=images[1:], duration=[30, 40, 50], disposal=disposal, blend=1
        )


@pytest.mark.parametrize("source", list(animations()))
def test_frames_are_those_of_pillows_own_png_and_known_before_anything_is_decoded(source, monkeypatch):
    dqc, reference = dqcodec.compress(source), Image.open(io.BytesIO(source))
    with monkeypatch.context() as patch:
        patch.setattr(codec, "decompress", None)
        image = Image.open(io.BytesIO(dqc))
        assert (image.n_frames, image.is_animated, image.default_image) == (3, True, reference.default_image)
        assert image.info == reference.info and image.tell() == 0
        image.seek(0)
        for frame in (-1, 3):
            with pytest.raises(EOFError):
                image.seek(frame)
    count = 0
    for frame, expected in zip(ImageSequence.Iterator(image), ImageSequence.Iterator(reference), strict=True):
        assert frame.info == expected.info and frame.tell() == expected.tell() == count
        assert (frame.mode, frame.tobytes()) == (expected.mode, expected.tobytes())
        count += 1
    assert count == 3 and image.format == "DQC"
    image = Image.open(io.BytesIO(dqc))
    for frame in (2, 0, 1):
        image.seek(frame)
        reference.seek(frame)
        assert image.tobytes() == reference.tobytes() and image.info == reference.info


@pytest.mark.parametrize("source", list(animations()))
def test_an_animation_is_no_array(source):
    dqc = dqcodec.compress(source)
    with pytest.raises(UnsupportedImageError, match="decompress_png"):
        dqcodec.decompress(dqc)
    restored = dqcodec.decompress_png(dqc)
    assert [frame.tobytes() for frame in ImageSequence.Iterator(Image.open(io.BytesIO(restored)))] == [
        frame.tobytes() for frame in ImageSequence.Iterator(Image.open(io.BytesIO(source)))
    ]
    with pytest.raises(UnsupportedImageError, match="animation"):
        export.from_png(restored, "npy")


def test_an_animation_of_one_frame_is_an_array():
    assert np.array_equal(dqcodec.decompress(dqcodec.compress(pngs.animated(COLORS, []))), COLORS)


def test_the_options_of_an_archive_reach_its_images():
    text, packing = pngs.chunk(b"tEXt", b"a\0b"), pngs.chunk(b"iDOT", bytes(4))
    data = pngs.write(COLORS, before=packing + text)

    def image(**options):
        with dqcodec.Archive(io.BytesIO(dqcodec.compress_archive({"a.png": data}, **options))) as images:
            return images["a.png"]

    assert image(exact=True) == data != image()
    assert text in image() and text not in image(strip=True)
    with pytest.raises(UnsupportedImageError, match="limit of 9 pixels"):
        image(max_pixels=9)
    with pytest.raises(ValueError, match="fast"):
        image(fast=True, best=True)


def test_pillow_keeps_what_was_changed_before_loading():
    buffer = io.BytesIO()
    image = Image.fromarray(COLORS.astype(np.uint8)).quantize(9)
    image.save(buffer, "PNG", icc_profile=b"profile", transparency=0, dpi=(9, 9))
    images = [Image.open(io.BytesIO(data)) for data in (buffer.getvalue(), dqcodec.compress(buffer.getvalue()))]
    for image in images:
        del image.info["icc_profile"], image.info["transparency"]
        image.info["comment"] = "new"
        image.putpalette(bytes(range(27)))
    png_image, ours = images
    assert png_image.info == ours.info and "icc_profile" not in ours.info and ours.info["comment"] == "new"
    for mode in ("RGB", "RGBA"):
        assert ours.convert(mode).tobytes() == png_image.convert(mode).tobytes()


def test_pillow_verifies_a_short_file_by_decoding_it():
    dqc = dqcodec.compress(COLORS)
    Image.open(io.BytesIO(dqc)).verify()
    for position in range(len(dqc) // 2, len(dqc)):
        damaged = bytearray(dqc)
        damaged[position] ^= 4
        with Image.open(io.BytesIO(damaged)) as image, pytest.raises(OSError):
            image.verify()


def test_pillow_verifies_without_decoding(folder, monkeypatch):
    dqc = dqcodec.compress(np.zeros((257, 256), np.uint8))
    stored = dqcodec.compress(pngs.write(COLORS, end=b"tail"))
    monkeypatch.setattr(codec, "decode", None)
    for data in (dqc, stored):
        for position in (*range(len(data) // 2, len(data), 7), len(data) - 1):
            damaged = bytearray(data)
            damaged[position] ^= 4
            with Image.open(io.BytesIO(damaged)) as image, pytest.raises(OSError, match="damaged"):
                image.verify()
        (folder / "a.dqc").write_bytes(data)
        image = Image.open("a.dqc")
        image.verify()
        with pytest.raises(ValueError, match="closed"):
            image.load()


@pytest.mark.parametrize("source", [pngs.write(COLORS), pngs.animated(COLORS, [((0, 0), COLORS[:4])])])
def test_an_image_that_is_not_loaded_is_pickled_as_its_file(folder, source):
    (folder / "a.dqc").write_bytes(dqcodec.compress(source))
    image = dqcodec.open("a.dqc")
    image.info["more"] = 1
    for twin in (pickle.loads(pickle.dumps(image)), copy.deepcopy(image)):
        assert (twin.size, twin.mode, twin.n_frames, twin.info) == (image.size, image.mode, image.n_frames, image.info)
        assert twin.filename == image.filename
        twin.seek(image.n_frames - 1)
        reference = Image.open(io.BytesIO(source))
        reference.seek(image.n_frames - 1)
        assert twin.tobytes() == reference.tobytes()
    image.load()
    assert pickle.loads(pickle.dumps(image)).tobytes() == image.tobytes()


def test_models_are_one_or_several_by_name_by_file_or_loaded(folder):
    program = programs.program(programs.AUTOREGRESSIVE)
    path = programs.path(programs.AUTOREGRESSIVE)
    pixels = programs.smooth(np.random.default_rng(0), 1, 24, 32)[0].astype(np.uint8)
    payload = autoregressive.encode([pixels], program).data
    dqc = group(pixels, Method.AUTOREGRESSIVE, payload, program.id).pack()
    for models in (program, [program], path, str(path), [path], iter([str(path)])):
        assert np.array_equal(dqcodec.decompress(dqc, models), pixels)
    for models in ((), "photo", ["photo"]):
        with pytest.raises(dqcodec.UnknownModelError, match="no model (with id|'photo')"):
            dqcodec.decompress(dqc, models)


def test_every_named_error_is_public():
    named = {
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.DqcodecError)
    }
    assert named <= {*dqcodec.__all__} and all(getattr(dqcodec, name) is getattr(errors, name) for name in named)


def test_pillow_images_keep_transparency_profile_and_exif():
    palette = pillow("P")
    palette.info["transparency"] = palette.getpixel((0, 0))
    key = pillow("RGB")
    key.info |= {"transparency": tuple(COLORS[0, 0].tolist()), "icc_profile": b"profile"}
    gray = pillow("L")
    gray.info |= {"transparency": 40, "exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"}
    for image in (palette, key, gray):
        restored = Image.open(io.BytesIO(dqcodec.compress(image)))
        restored.load()
        assert np.array_equal(looks(restored), looks(image)) and (looks(restored)[..., 3] == 0).any()
        assert restored.info.get("icc_profile") == image.info.get("icc_profile")
        assert ("exif" in restored.info) == ("exif" in image.info)
    for mode in ("CMYK", "F", "I", "YCbCr"):
        with pytest.raises(UnsupportedImageError, match=f"mode {mode}"):
            dqcodec.compress(Image.new(mode, (3, 3)))


@pytest.mark.parametrize("color_type, bit_depth", pngs.KINDS)
@pytest.mark.parametrize("tail", [b"", b"stored"])
def test_pillow_opens_by_the_header_and_loads_what_the_png_holds(folder, color_type, bit_depth, tail):
    source = pngs.random(
        RNG, 20, 30, color_type, bit_depth, before=pngs.chunk(b"tEXt", b"Comment\0" + b"ab" * 3000), end=tail
    )
    dqc = dqcodec.compress(source)
    (folder / "a.png.dqc").write_bytes(dqc)
    reference = Image.open(io.BytesIO(source))
    for image in (Image.open("a.png.dqc"), dqcodec.open("a.png.dqc"), Image.open(io.BytesIO(dqc))):
        assert (image.format, image.size, image.mode) == ("DQC", reference.size, reference.mode)
        assert image.info["Comment"] == reference.info["Comment"]
        assert image.tobytes() == reference.tobytes() and image.getpalette() == reference.getpalette()
        assert image.format == "DQC"
    damaged = bytearray(dqc)
    damaged[-6] ^= 1
    broken = Image.open(io.BytesIO(damaged))
    assert broken.size == (30, 20)
    with pytest.raises(OSError, match="damaged"):
        broken.load()


def test_pillow_tells_of_transparency_before_an_image_is_loaded():
    ramp = Image.fromarray((np.add.outer(np.arange(64), 4 * np.arange(64)) // 2 % 200).astype(np.uint8))
    ramp.putpalette([value for shade in range(256) for value in (shade, shade, shade * 3 % 256)])
    stream = io.BytesIO()
    ramp.save(stream, "PNG", transparency=bytes([0, 128] + [255] * 100))
    dqc = dqcodec.compress(stream.getvalue())
    reference = Image.open(stream)
    assert Image.open(io.BytesIO(dqc)).info == reference.info
    assert Image.open(io.BytesIO(dqc)).has_transparency_data and reference.has_transparency_data
    assert Image.open(io.BytesIO(dqc)).palette.palette == reference.palette.palette
    assert pickle.loads(pickle.dumps(Image.open(io.BytesIO(dqc)))).convert("RGBA") == reference.convert("RGBA")


def test_pillow_reads_no_payload_to_open(folder):
    dqc = dqcodec.compress(RNG.integers(0, 256, (60, 60, 3)).astype(np.uint8))

    class File(io.BytesIO):
        taken = 0

        def read(self, count=-1):
            data = super().read(count)
            self.taken += len(data)
            return data

    file = File(dqc)
    image = Image.open(file)
    assert image.size == (60, 60) and file.taken < 5000 < len(dqc)
    (folder / "a.dqc").write_bytes(dqc)
    with Image.open("a.dqc") as image:
        assert image.load() is not None


@pytest.mark.parametrize("place", ["before", "after"])
def test_exif_and_texts_are_those_of_the_png_before_the_pixels_are_loaded(place):
    orientation = pngs.chunk(b"eXIf", b"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0" + bytes(4))
    source = pngs.write(COLORS, **{place: orientation + pngs.chunk(b"tEXt", b"Comment\0hello")})
    for data in (source, dqcodec.compress(source)):
        assert dict(Image.open(io.BytesIO(data)).getexif()) == {274: 6}
        assert Image.open(io.BytesIO(data)).text == {"Comment": "hello"}
        image = Image.open(io.BytesIO(data))
        image.load()
        assert dict(image.getexif()) == {274: 6} and image.text == {"Comment": "hello"}


def test_pillow_opens_animations_and_refuses_what_is_no_dqc_file():
    source = pngs.animated(COLORS, [((0, 0), COLORS[:4])])
    image = Image.open(io.BytesIO(dqcodec.compress(source)))
    assert image.mode == "RGB" and image.load() and image.n_frames == 2
    dqc = dqcodec.compress(COLORS)
    for data in (dqc[:5], dqc[:6], dqc[:4] + b"\xff" + dqc[5:], dqc[:5] + b"\xff" * 20, archive.MAGIC + b"\1" * 40):
        with pytest.raises(UnidentifiedImageError):
            Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    "mode, format, options",
    [("1", "bmp", {}), ("L", "bmp", {}), ("P", "bmp", {}), ("RGB", "bmp", {}), ("L", "ppm", {}), ("1", "ppm", {}),
     ("RGB", "ppm", {}), ("P", "tiff", {}), ("LA", "tiff", {}), ("RGBA", "tiff", {}), ("I;16", "tiff", {}), ("P", "gif", {}),
     ("RGBA", "webp", {"lossless": True, "exact": True}), ("RGB", "webp", {}), ("L", "jpeg", {}), ("RGB", "jpeg", {})],
)  # fmt: skip
def test_files_of_other_formats_are_taken_as_pixels(mode, format, options):
    data = saved(pillow(mode), format, **options)
    converted, given = Image.open(io.BytesIO(foreign.to_png(data))), Image.open(io.BytesIO(data))
    assert np.array_equal(looks(converted), looks(given)) and converted.mode == given.mode


@pytest.mark.parametrize("header", ["P6\n%d %d\n%d\n", "P6\r# a\r%d %d\r%d\r", "P6#a\r#b\n%d#c\n%d %010d "])
def test_all_16_bits_of_a_ppm_are_taken_whatever_its_header_looks_like(header):
    pixels = RNG.integers(0, 1 << 16, (4, 5, 3)).astype(np.uint16)
    data = (header % (5, 4, 65535)).encode() + pixels.astype(">u2").tobytes()
    assert np.array_equal(dqcodec.decompress(dqcodec.compress(data, [])), pixels)


def test_exact_refuses_files_of_which_only_the_pixels_would_come_back():
    with pytest.raises(UnsupportedImageError, match="exact"):
        dqcodec.compress(saved(pillow("RGB"), "bmp"), [], exact=True)


def test_a_tiff_whose_profile_is_cut_off_is_corrupt():
    content = saved(pillow("RGB"), "tiff", compression="tiff_lzw", icc_profile=bytes(range(256)) * 20)
    assert foreign.to_png(content)
    with pytest.raises(CorruptError):
        foreign.to_png(content[:-2000])


@pytest.mark.parametrize("pixels", [COLORS, COLORS[..., 0], RNG.integers(0, 1 << 16, (5, 6, 4)).astype(np.uint16)])
def test_npy_files_come_back_and_cut_ones_are_named_errors(pixels):
    for array in (pixels, np.asfortranarray(pixels), pixels.astype(pixels.dtype.newbyteorder(">"))):
        stream = io.BytesIO()
        np.save(stream, array)
        back = np.load(io.BytesIO(export.from_png(foreign.to_png(stream.getvalue()), "npy")))
        assert back.dtype == pixels.dtype and np.array_equal(back, pixels)
    for cut in range(0, 130, 7):
        with pytest.raises((CorruptError, UnsupportedImageError)):
            foreign.to_png(stream.getvalue()[:cut])


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': (",
        "  {'a':1}\n b",
        "(" * 3000,
        "{'descr':'|u1','fortran_order':False,'shape':(True,2)}",
        "{'descr':'|u1','fortran_order':False,'shape':(9999999999,9999999999,9)}",
        "{'descr':[('a','<u1')],'fortran_order':False,'shape':(2,)}",
    ],
)
def test_headers_of_npy_files_that_mislead_numpy_are_named_errors(header):
    with pytest.raises((CorruptError, UnsupportedImageError)):
        foreign.to_png(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(4))


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def tagged(data, tag, value):
    """A little-endian TIFF file with another first value of a tag."""
    entries = struct.unpack_from("<I", data, 4)[0] + 2
    places = range(entries, entries + 12 * struct.unpack_from("<H", data, entries - 2)[0], 12)
    (place,) = (each for each in places if struct.unpack_from("<H", data, each)[0] == tag)
    kind, count = struct.unpack_from("<HI", data, place + 2)
    assert kind == 3  # numbers of 2 bytes; two of them fit in the entry
    place = place + 8 if count < 3 else struct.unpack_from("<I", data, place + 8)[0]
    return data[:place] + struct.pack("<H", value) + data[place + 2 :]


def refused():
    yield "straight alpha", tagged(saved(pillow("RGBA"), "tiff"), 338, 1)  # the colours are multiplied by alpha
    yield "straight alpha", tagged(saved(pillow("RGBA"), "tiff"), 338, 0)  # a fourth sample of any meaning
    yield "straight alpha", tagged(saved(pillow("LA"), "tiff"), 338, 0)
    yield "16-bit colours", tagged(saved(pillow("P"), "tiff"), 320, 1)
    clear = pillow("RGBA")
    clear.putalpha(9)
    yield "fourth sample", saved(clear, "bmp")  # Pillow writes alpha as what it does not read
    frames = {"save_all": True, "append_images": [pillow("P").rotate(90)]}
    yield "several images", saved(pillow("P"), "gif", **frames)
    yield "several images", saved(pillow("P"), "tiff", **frames)
    yield "several images", saved(pillow("RGB"), "webp", **frames)
    yield "several images", saved(pillow("RGB"), "mpo", save_all=True, append_images=[pillow("RGB")])
    yield from (("several images", 2 * saved(pillow(mode), "ppm")) for mode in ("1", "L", "RGB"))
    yield "several images", 2 * (b"P5 3 2 65535\n" + bytes(range(65, 77)))
    for header in (b"P6#c\n1 1 255\n", b"\n#c\nP6 1 1 255\n"):
        yield "several images", b"P6 1 1 255\nabc" + header + b"abc"
    yield "several images", saved(pillow("RGB"), "tiff", tiffinfo={330: 8})  # such as a camera's raw file
    yield "mode CMYK", saved(pillow("RGB").convert("CMYK"), "jpeg")
    yield "unsigned integers", saved(pillow("L"), "tiff", tiffinfo={339: 2})
    yield "0 is white", tagged(saved(Image.new("I;16", (3, 3)), "tiff"), 262, 0)  # Pillow inverts 8 bits only
    yield "32 bits a sample", saved(Image.new("F", (3, 3)), "tiff")
    yield "32 bits a sample", saved(Image.new("I", (3, 3)), "tiff")
    yield "is not an image", npy(np.zeros((3, 3)))
    yield "is not an image", npy(np.zeros((3, 3, 3, 3), np.uint8))
    yield "objects", npy(np.array([{}]))
    yield "maximum of 255", b"P5 2 2 15\n" + bytes(4)
    yield "maximum of 255", b"P6 1 1\r# a comment\r100\r" + bytes(3)
    yield "not a PNG", b"P6 1 1 +65535 " + bytes(6)
    yield "truncated", b"P5 2 2 65535\n" + bytes(7)
    yield "decode", saved(pillow("RGB"), "bmp")[:99]
    yield "not a PNG, BMP", b""
    yield "limit", saved(Image.new("1", (2000, 2000)), "bmp")


def test_a_fourth_byte_in_a_bmp_that_says_nothing_is_no_sample():
    for alpha in (0, 255):
        image = pillow("RGBA")
        image.putalpha(alpha)
        back = np.asarray(Image.open(io.BytesIO(foreign.to_png(saved(image, "bmp")))))
        assert np.array_equal(back, np.asarray(image)[..., :3])


@pytest.mark.parametrize("reason, data", list(refused()))
def test_conversions_that_would_not_be_exact_are_refused(reason, data):
    with pytest.raises((UnsupportedImageError, CorruptError), match=reason) as caught:
        foreign.to_png(data, 1 << 20)
    assert "\n" not in str(caught.value)


def test_the_images_of_a_long_file_are_not_counted(monkeypatch):
    def count(_):
        raise AssertionError("this takes minutes for a long file")

    monkeypatch.setattr(TiffImageFile, "n_frames", property(count))
    with pytest.raises(UnsupportedImageError, match="several images"):
        foreign.to_png(saved(pillow("L"), "tiff", save_all=True, append_images=[pillow("L")]))


@pytest.mark.parametrize("format", names.FORMATS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_format_gives_every_sample_or_says_that_it_cannot(format, dtype, channels):
    pixels = RNG.integers(0, np.iinfo(dtype).max, (5, 6, channels), endpoint=True).astype(dtype)
    source = png.write(conversion.from_array(pixels))
    try:
        written = export.from_png(source, format)
    except UnsupportedImageError as error:
        assert "exactly" in str(error) and (format in ("bmp", "ppm") and channels in (2, 4) or dtype == np.uint16)
        return
    back = np.load(io.BytesIO(export.from_png(foreign.to_png(written), "npy")))
    if format == "webp":  # has no gray
        back, pixels = looks(Image.fromarray(back)), looks(Image.fromarray(pixels[..., 0] if channels == 1 else pixels))
    assert np.array_equal(back.reshape(pixels.shape), pixels)


def test_animations_and_large_images_are_refused_by_formats_that_cannot_hold_them():
    with pytest.raises(UnsupportedImageError, match="animation"):
        export.from_png(pngs.animated(COLORS, [((0, 0), COLORS)]), "tiff")
    with pytest.raises(UnsupportedImageError, match="webp"):
        export.from_png(png.write(conversion.from_array(np.zeros((1, 20000), np.uint8))), "webp")


def test_sources_that_are_removed_must_be_png_files():
    with pytest.raises(UnsupportedImageError, match="not a PNG file"):
        foreign.to_png(saved(pillow("RGB"), "bmp"), is_whole=True)
    source = pngs.write(COLORS)
    assert foreign.to_png(source, is_whole=True) is source


def test_a_pillow_image_is_loaded_before_it_is_taken():
    orientation = pngs.chunk(b"eXIf", b"MM\0*\0\0\0\x08" + bytes(6))
    behind = Image.open(io.BytesIO(pngs.write(COLORS, after=orientation)))
    assert orientation in dqcodec.decompress_png(dqcodec.compress(behind, []))
    icon = pngs.write(np.zeros((16, 16, 3), np.uint8) + np.arange(16)[:, None, None])
    file = b"icns" + struct.pack(">I", len(icon) + 16) + b"icp4" + struct.pack(">I", len(icon) + 8) + icon
    image = Image.open(io.BytesIO(file))
    assert image.mode == "RGBA"  # until it is loaded
    assert dqcodec.decompress_png(dqcodec.compress(image, [])) == dqcodec.decompress_png(dqcodec.compress(icon, []))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
@pytest.mark.parametrize(
    "info",
    [{"icc_profile": "sRGB"}, {"exif": {274: 6}}, *({"transparency": key} for key in ("x", 1.5, -1, 300, [1, 2, 3], (-1, 0, 0)))],
)  # fmt: skip
def test_malformed_facts_of_a_pillow_image_are_errors_of_one_line(mode, info):
    image = pillow(mode)
    image.info |= info
    with pytest.raises(UnsupportedImageError, match="malformed|not bytes"):
        dqcodec.compress(image, [])


@pytest.mark.parametrize("wrong", [5, None, ["a.dqc"]])
def test_what_is_neither_bytes_nor_a_path_is_a_typeerror(wrong):
    for call in (dqcodec.decompress, dqcodec.decompress_png, dqcodec.info, dqcodec.Archive):
        with pytest.raises(TypeError):
            call(wrong)


def test_a_missing_file_is_an_oserror():
    with pytest.raises(OSError):
        dqcodec.open("missing.dqc")
    with pytest.raises(OSError):
        dqcodec.compress(os.path.join("missing", "a.png"))
