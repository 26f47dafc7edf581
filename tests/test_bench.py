"""The bench counts only what it verified; its sums, table, JSON and figure say the same."""

import json
import os
import struct
from io import BytesIO

import click
import numpy as np
import pngs
import pytest
from click.testing import CliRunner
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

from dqcodec import png
from dqcodec.bench import codecs, figure, images, metadata, peers, worker
from dqcodec.bench.codecs import Codec, Coded
from dqcodec.bench.machine import machine
from dqcodec.bench.measure import measure
from dqcodec.bench.ours import Dqcodec, _model_bits
from dqcodec.bench.report import BenchReport
from dqcodec.codec import zoo
from dqcodec.codec.report import CompressReport
from dqcodec.command.cli import main

RAMP = np.add.outer(np.arange(24) * 3, np.arange(31) * 2)[..., None]
COLOR = pngs.write((RAMP + np.arange(3) * 9) % 256)
GRAY = pngs.write(RAMP % 256)
NOISE = np.random.default_rng(0)


class InThisProcess:
    """A stand-in for worker.Worker in this process, so that patches of tests hold."""

    def __init__(self, codec, options):
        codec.prepare(options.threads)
        self._codec, self._options = codec, options

    def measure(self, image):
        return measure(self._codec, image, self._options.repeat)

    def close(self):
        pass


class Dies(Codec):
    name = title = "dies"

    def version(self):
        return "0"

    def encode(self, source):
        os._exit(3)

    def decode(self, data):
        raise AssertionError("nothing was encoded")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with a colour and a gray image, and no models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zoo, "directory", lambda: tmp_path / "models")
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/a.png").write_bytes(COLOR)
    (tmp_path / "in/deep/b.png").write_bytes(GRAY)
    return tmp_path


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(worker, "Worker", InThisProcess)


def run(*arguments):
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


def test_all_outputs_of_a_measurement_agree(folder):
    arguments = ("in", "--codec", "png", "--codec", "webp", "-o", "r.json", "--markdown", "t.md")
    result = run(*arguments)
    assert result.exit_code == 0 and result.stdout == (folder / "t.md").read_text()
    report = json.loads((folder / "r.json").read_text())
    assert [(row["codec"], row["image"]) for row in report["rows"]] == [
        ("png", "in/a.png"),
        ("webp", "in/a.png"),
        ("png", "in/deep/b.png"),
        ("webp", "in/deep/b.png"),
    ]
    assert all(row["verified"] and row["bytes"] > 0 and row["peak_memory_bytes"] > 1e6 for row in report["rows"])
    for total in report["totals"]:
        rows = [row for row in report["rows"] if row["codec"] == total["codec"]]
        for key in ("bytes", "png_bytes"):
            assert total[key] == sum(row[key] for row in rows)
        assert total["decode_seconds"] == sum(row["decode"]["wall"] for row in rows)
        assert total["bpd"] == pytest.approx(8 * total["bytes"] / (24 * 31 * 4)) and total["images"] == 2
        shown = next(line for line in result.stdout.splitlines() if line.startswith(f"| {total['title']} "))
        cells = [cell.strip() for cell in shown.strip("|").split("|")]
        assert cells[1:5] == ["2", str(total["bytes"]), f"{total['bpd']:.3f}", f"{100 * total['ratio']:.1f}"]
    assert report["totals"][0]["bytes"] == len(COLOR) + len(GRAY) and report["totals"][0]["encode_mp_s"] is None
    assert str(folder) not in (folder / "r.json").read_text()
    again = run(*arguments)
    assert again.exit_code == 3 and "exists (-f overwrites it)" in again.stderr and again.stderr.count("\n") == 1


def test_the_figure_is_drawn(in_this_process, folder):
    pytest.importorskip("matplotlib")
    assert run("in", "--codec", "png", "--codec", "webp", "--codec", "dqcodec", "--figure", "f.png").exit_code == 0
    assert png.read((folder / "f.png").read_bytes(), decode=False).header.width > 500


def test_a_codec_with_wrong_pixels_is_an_error_and_not_counted(monkeypatch, in_this_process):
    decode = peers.WebP.decode
    monkeypatch.setattr(peers.WebP, "decode", lambda self, data: decode(self, data) ^ np.uint8(1))
    result = run("in", "--codec", "webp", "--codec", "png", "--json")
    assert result.exit_code == 1 and "in/a.png: webp: NOT LOSSLESS" in result.stderr
    report = json.loads(result.stdout)
    assert [row["verified"] for row in report["rows"] if row["codec"] == "webp"] == [False, False]
    lying = next(total for total in report["totals"] if total["codec"] == "webp")
    assert (lying["images"], lying["errors"], lying["bytes"], lying["bpd"]) == (0, 2, 0, None)
    assert run("in", "--codec", "webp").exit_code == 3


def test_a_codec_that_is_wrong_in_one_of_several_runs_is_an_error(monkeypatch, in_this_process, folder):
    decode, calls = peers.WebP.decode, []

    def lie_at_first(self, data):
        calls.append(data)
        return decode(self, data) ^ np.uint8(len(calls) == 1)

    monkeypatch.setattr(peers.WebP, "decode", lie_at_first)
    assert "NOT LOSSLESS" in run(folder / "in/a.png", "--codec", "webp", "--repeat", 3).stderr


def test_a_codec_whose_process_dies_is_an_error_of_each_image():
    found = images.find([images.Path("in")])
    of_images = worker.run([Dies(), peers.PngAsGiven()], found, worker.Options(), print)
    rows = [row for of_image in of_images for row in of_image]
    assert [row.error for row in rows] == ["the codec's process died (exit code 3)", None] * 2
    assert [row.image for row in rows] == ["in/a.png"] * 2 + ["in/deep/b.png"] * 2 and rows[1].measured


def with_metadata(as_text: bool) -> tuple[bytes, metadata.Metadata]:
    """A PNG of noise, and its metadata: Exif, in a chunk or in a text, a profile, and XMP behind the pixels."""
    icc, xmp = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(), b"<x/>" * 9
    exif = Image.Exif()
    exif[0x010F] = "maker"
    content = exif.tobytes().removeprefix(b"Exif\0\0")
    text, buffer = PngInfo(), BytesIO()
    if as_text:
        text.add_text(
            "Raw profile type exif", f"\nexif\n{len(content):8}\n{content[:30].hex()}\n{content[30:].hex()}\n", zip=True
        )
    text.add_itxt("XML:com.adobe.xmp", xmp.decode())
    pixels = NOISE.integers(0, 256, (8, 9, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, "PNG", pnginfo=text, icc_profile=icc, exif=b"" if as_text else content)
    return buffer.getvalue(), metadata.Metadata(icc, content, xmp)


@pytest.mark.parametrize("as_text", (False, True))
def test_webp_and_jpeg_xl_keep_the_metadata_that_they_can_hold(as_text, tmp_path):
    imagecodecs = pytest.importorskip("imagecodecs")
    data, known = with_metadata(as_text)
    (tmp_path / "a.png").write_bytes(data)
    source = images.read(tmp_path / "a.png")
    assert source.metadata == metadata.of(data) == known
    webp, jpegxl = peers.WebP(), peers.JpegXl(3)
    jpegxl.prepare(1)
    coded = webp.encode(source).data
    with Image.open(BytesIO(coded)) as image:
        found = image.info
        assert (found["icc_profile"], found["exif"].removeprefix(b"Exif\0\0"), found["xmp"]) == (
            known.icc,
            known.exif,
            known.xmp,
        )
    assert images.same(source.pixels, webp.decode(coded))
    coded = jpegxl.encode(source).data
    assert images.same(source.pixels, jpegxl.decode(coded))
    boxes = {}
    while coded:
        size, kind = struct.unpack(">I4s", coded[:8])
        boxes[coded[8:12] if kind == b"brob" else kind] = coded[12:size]
        coded = coded[size:]
    assert imagecodecs.brotli_decode(boxes[b"Exif"]) == bytes(4) + known.exif
    assert imagecodecs.brotli_decode(boxes[b"xml "]) == known.xmp


def test_a_damaged_text_is_no_metadata():
    for text in ("", "exif", "exif\n2\nff", "exif\ntwo\nffff", "exif\n2\nffgg"):
        info, buffer = PngInfo(), BytesIO()
        info.add_text("Raw profile type exif", text)
        Image.new("L", (3, 2)).save(buffer, "PNG", pnginfo=info)
        assert metadata.of(buffer.getvalue()) == metadata.Metadata()


@pytest.mark.parametrize("color_type, bit_depth", pngs.KINDS)
def test_every_codec_codes_every_kind_of_png_or_says_that_it_does_not(color_type, bit_depth, monkeypatch, folder):
    pytest.importorskip("imagecodecs")
    pytest.importorskip("oxipng")
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    (folder / "a.png").write_bytes(pngs.random(NOISE, 9, 12, color_type, bit_depth))
    for codec in (Dqcodec(), *peers.PEERS):
        codec.prepare(1)
        row = measure(codec, images.Image(folder / "a.png", "a.png"))
        assert row.error is None and (row.measured is None) != (row.unsupported is None)
        assert row.measured or bit_depth == 16 and codec.name in ("webp", "qoi") or codec.name == "jpeg-ls"


def test_pixels_are_compared_by_colour_whatever_their_form():
    gray = NOISE.integers(0, 256, (3, 4, 1)).astype(np.uint8)
    color = images.with_color(gray)
    assert images.same(gray, color) and images.same(color, gray.astype(np.uint16) * 257)
    assert images.same(gray[..., 0], color) and not images.same(gray[..., 0], color ^ np.uint8([0, 0, 1]))
    assert images.same(gray, np.concatenate([color, np.full_like(gray, 255)], axis=2))
    assert not images.same(gray, color ^ np.uint8([0, 0, 1])) and not images.same(gray, gray.transpose(1, 0, 2))


def test_a_missing_peer_is_skipped_with_a_note(monkeypatch, in_this_process):
    find_spec = codecs.importlib.util.find_spec
    monkeypatch.setattr(codecs.importlib.util, "find_spec", lambda name: None if name == "oxipng" else find_spec(name))
    result = run("in", "--codec", "oxipng", "--codec", "png")
    assert result.exit_code == 0 and "oxipng -o 6 is skipped: it needs pip install 'dqcodec[bench]'" in result.stdout
    assert run("in", "--codec", "oxipng").exit_code == 3


def test_an_unsupported_image_is_noted_and_is_no_error(in_this_process, folder):
    (folder / "in/deep.png").write_bytes(pngs.random(NOISE, 9, 12, 0, 16))
    result = run("in", "--codec", "png", "--codec", "webp")
    assert result.exit_code == 0 and "webp: n/a for 1 image: takes no 16-bit gray" in result.stdout
    assert "Not every codec coded every image" in result.stdout and "webp n/a" in result.stderr


def test_a_missing_matplotlib_is_an_error_before_the_work(monkeypatch):
    monkeypatch.setattr(codecs.importlib.util, "find_spec", lambda name: None)
    result = run("in", "--figure", "f.png")
    assert result.exit_code == 3 and "pip install 'dqcodec[bench]'" in result.stderr and result.stderr.count("\n") == 1


def test_a_damaged_image_gives_one_line_for_all_codecs(in_this_process, folder):
    (folder / "in/c.png").write_bytes(COLOR[:-20])
    result = run("in", "--codec", "png", "--codec", "webp", "-q")
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert "in/c.png: png, webp: cannot be read: truncated PNG" in result.stderr


def test_dqcodec_takes_part_and_says_what_it_chose(in_this_process):
    rows = json.loads(run("in", "--codec", "dqcodec", "--json", "--repeat", 2).stdout)["rows"]
    assert [(row["method"], row["verified"], row["limit_bpd"]) for row in rows] == [
        ("classical", True, None),
        ("experts", True, None),
    ]


def test_the_parts_of_a_models_bits_add_up_to_the_file(folder):
    compressed = CompressReport(
        method="flow", model="photo", candidates={}, layers=(), width=31, height=24, samples=3, dims=31 * 24 * 3, verified=False, seconds=1.0, dropped=(),
        png_bytes=2000, dqc_bytes=1000, payload_bytes=900, chunk_bytes=50, recipe_bytes=10, container_bytes=40,
        learned={"vi_bpd": 3.0, "coded_bpd": 3.2, "seed_bits": 900, "initial_bits": 400.0, "grid_bits": 80.0},
    )  # fmt: skip
    bits = _model_bits(compressed)
    parts = bits.limit + bits.initial + bits.grids + bits.container + bits.metadata + bits.other
    assert parts == pytest.approx(8000) and bits.limit == 3.0 * 31 * 24 * 3 and bits.container == 320

    class Modelled(peers.PngAsGiven):
        def encode(self, source):
            return Coded(source.data, "flow", bits)

    row = measure(Modelled(), images.Image(folder / "in/a.png", "a.png"))
    assert row.as_dict()["limit_bpd"] == 3.0
    report = BenchReport([Modelled()], worker.Options(), machine(), [], [row])
    assert "a model coded 1 of 1 image, at" in report.notes()[-1] and "limit 3.0000 and initial" in report.notes()[-1]
    total = report.totals[0].model
    assert total.limit == 3.0 and total.initial == pytest.approx(400 / (31 * 24 * 3))


def test_images_are_found_in_folders_once_and_named_without_the_machine(folder):
    found = images.find([folder / "in", folder / "in/a.png", folder / "in/deep"])
    assert [image.name for image in found] == ["in/a.png", "in/deep/b.png"]


def test_the_front_leaves_out_what_another_codec_beats():
    assert figure._front([(1, 50), (2, 60), (3, 40), (4, 45), (5, 90), (5, 91)]) == [(3, 40), (4, 45), (5, 90)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.png"], ["models"], ["in", "--codec", "zip"], ["in", "-m", "none"], ["in", "-m", "bad.safetensors"],
        ["in", "--figure", "f.txt"], ["in", "-o", "x", "--markdown", "x"],
    ],
)  # fmt: skip
def test_wrong_usage_exits_2(arguments, folder):
    (folder / "models").mkdir()
    (folder / "bad.safetensors").write_bytes(b"no model")
    assert run(*arguments).exit_code == 2


def test_help_has_examples():
    text = run("--help").stdout
    assert "dqcodec bench photos/ -o bench.json" in text and text.count("\n") <= 40
    assert all(option.help for option in main.commands["bench"].params if isinstance(option, click.Option))


@pytest.mark.parametrize("ways", [[(0, 0)], [(0, 1), (1, 1), (2, 1)]])
def test_animations_are_measured_by_what_is_shown(in_this_process, folder, ways):
    first = NOISE.integers(0, 256, (8, 9, 4)) | [[[0, 0, 0, 255]]]
    frames = [((1, 2), first[:5, 1:4] // 2), ((0, 0), first), ((0, 0), first)]
    (folder / "in/a.png").write_bytes(pngs.animated(first, frames, ways=ways))
    assert run("in/a.png", "--codec", "webp", "--codec", "dqcodec", "-o", "r.json").exit_code == 0
    rows = {row["codec"]: row for row in json.loads((folder / "r.json").read_text())["rows"]}
    assert rows["webp"]["verified"] and rows["dqcodec"]["verified"]
    assert (rows["dqcodec"]["width"], rows["dqcodec"]["height"]) == (9, 4 * 8)


def test_codecs_without_animations_say_so(in_this_process, folder):
    pytest.importorskip("imagecodecs")
    first = NOISE.integers(0, 256, (8, 9, 4)) | [[[0, 0, 0, 255]]]
    (folder / "in/a.png").write_bytes(pngs.animated(first, [((0, 0), first), ((0, 0), first)], ways=[(0, 0)]))
    assert run("in/a.png", "--codec", "dqcodec", "--codec", "jxl-e3", "-o", "r.json").exit_code == 0
    rows = {row["codec"]: row for row in json.loads((folder / "r.json").read_text())["rows"]}
    assert rows["jxl-e3"]["unsupported"] == "takes no animated 8-bit RGBA"


def test_a_file_that_no_codec_can_read_is_told_once(folder, in_this_process):
    (folder / "a.bmp").write_bytes(b"BM no image")
    result = run("a.bmp", "--codec", "png", "--codec", "webp")
    assert result.exit_code == 3 and "- 1 image, " in result.stdout
    assert result.stderr == "dqcodec: a.bmp: png, webp: cannot be read: not a PNG file\n"
    assert "cannot be read" not in result.stdout
