"""The page of inspect shows where a coder's bits go; the maps add up to what the coder writes; a browser draws it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import programs
import pytest
from click.testing import CliRunner
from PIL import Image

from dqcodec import png
from dqcodec.bench import peers
from dqcodec.codec import codec, conversion, group, zoo
from dqcodec.codec.source import read
from dqcodec.command.cli import main
from dqcodec.format import archive
from dqcodec.format.layer import Method
from dqcodec.methods import table
from dqcodec.page import lengths, maps

RNG = np.random.default_rng(0)
LAYERS = [RNG.integers(0, 40, shape, np.uint8) for shape in ((13, 17, 3), (9, 5, 3))]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.parametrize("method", [Method.AUTOREGRESSIVE, Method.MIXING, Method.MODEL_MIXING])
def test_the_bits_of_all_samples_are_the_length_of_the_code(method):
    program = programs.tiled(8, 16) if table.METHODS[method].needs else None
    payload = table.encode(method, LAYERS, program)
    bits = table.code_lengths(method, LAYERS, program)
    assert [each.shape for each in bits] == [each.shape for each in LAYERS] and min(map(np.min, bits)) >= 0
    total = sum(float(each.sum(dtype=np.float64)) for each in bits)
    if payload.report:
        assert np.allclose([each.sum(dtype=np.float64) for each in bits], payload.report.layer_bits, rtol=1e-6)
    else:
        assert abs(8 * len(payload.data) - total) < 64


def test_a_sample_that_surprises_takes_more_bits():
    layer = np.full((12, 12, 1), 7, np.uint8)
    layer[6, 5] = 200
    for method, program in ((Method.MIXING, None), (Method.AUTOREGRESSIVE, programs.program("autoregressive", 1))):
        (bits,) = table.code_lengths(method, [layer], program)
        assert bits[6, 5, 0] > 3 * np.median(bits)


def test_layers_have_the_names_that_info_gives(quick_folder):
    gray = np.random.default_rng(0).integers(0, 255, (20, 20, 1), np.uint8).repeat(3, axis=2)
    data = codec.compress(png.write(conversion.from_array(gray)))[0]
    assert [layer.name for layer in lengths.layer_bits(data, zoo.find)] == [
        layer.name for layer in codec.info(data).layers
    ]


def test_methods_without_a_map_are_spread_evenly(quick_folder):
    pixels = np.add.outer(np.arange(30), np.arange(40)).astype(np.uint8)
    coded = group.encode([read(png.write(conversion.from_array(pixels)))], [])
    (layer,) = lengths.layer_bits(coded.group.pack(), zoo.find)
    assert layer.is_even and layer.bound_bits is None and layer.method == "classical"
    assert np.isclose(layer.coded_bits, 8 * len(coded.group.payloads[0])) and np.ptp(layer.bits) == 0


def test_maps_keep_the_mean_and_end_at_the_last_colour():
    bits = RNG.random((2500, 1300)).astype(np.float32)
    small = maps.shown(bits)
    assert small.shape == (834, 434) and abs(small[:-1, :-1].mean() - bits.mean()) < 0.01
    colors = maps.colored(np.array([[0.0, 4.0, 9.0]]), 4)
    assert colors.shape == (1, 3, 3) and np.array_equal(colors[0, 1], colors[0, 2])
    assert maps.scale([np.zeros((2, 2))]) == 1 and maps.scale([np.full((9, 9), 3.2)]) == 4


@pytest.fixture
def page(quick_folder, monkeypatch):
    """The page of a small image, by a small model, and what the command told."""
    (quick_folder / "models").mkdir()
    shutil.copy(programs.path("autoregressive"), quick_folder / "models" / "small.safetensors")
    monkeypatch.setattr(peers, "PEERS", (peers.PngAsGiven(), peers.WebP(), peers.JpegXl(7)))
    rows, columns = np.indices((48, 64))
    image = np.stack([rows * 5, columns * 3, rows + columns], 2) + RNG.integers(0, 9, (48, 64, 3))
    Image.fromarray(image.astype(np.uint8)).save("a<b>.png")
    told = CliRunner().invoke(main, ["inspect", "a<b>.png", "-o", "a.html", "--map", "bits.png"])
    assert told.exit_code == 0, told.output
    return (quick_folder / "a.html").read_text(), told


def test_the_page_is_self_contained_and_names_what_it_shows(page):
    text, told = page
    assert "<script" not in text and not re.findall(r'(?:src|href)="(?!data:)', text) and "http" not in text
    assert "a&lt;b&gt;.png" in text and "a<b>" not in text
    for wanted in ('id="picture"', 'id="map"', 'id="plane-2"', 'id="histogram"', "WebP", "red"):
        assert wanted in text
    assert png.read_header(Path("bits.png").read_bytes())[:2] == (64, 48) and "bits.png: from 0 bits" in told.stderr


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path")
def test_a_browser_draws_the_page(page, tmp_path):
    shot = tmp_path / "shot.png"
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}/b",
        "--window-size=1200,2400", f"--screenshot={shot}", (tmp_path / "a.html").as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    drawn = np.asarray(Image.open(shot).convert("RGB")).reshape(-1, 3)
    seen = {tuple(color) for color in np.unique(drawn, axis=0).tolist()}
    picture, bits = (np.asarray(Image.open(name).convert("RGB")) for name in ("a<b>.png", "bits.png"))
    for image in (picture, bits):  # enlarged without blending, so most of its colours are on the page
        colors = {tuple(color) for color in image.reshape(-1, 3).tolist()}
        assert len(colors & seen) > 0.9 * len(colors)
    assert {(59, 111, 182), (217, 119, 63)} <= seen  # the histogram's bars


def test_inspect_shows_names_that_are_no_text(quick_folder):
    Image.fromarray(RNG.integers(0, 256, (3, 3), np.uint8)).save("a.png")
    os.rename("a.png", b"\xff\n.png")
    assert CliRunner().invoke(main, ["inspect", "\udcff\n.png", "-o", "a.html"]).exit_code == 0
    assert r"<h1>\udcff\n.png</h1>" in (quick_folder / "a.html").read_text("utf-8")


def test_inspect_says_in_one_line_what_it_cannot_show(quick_folder):
    run = CliRunner().invoke
    Image.fromarray(RNG.integers(0, 256, (3, 3), np.uint8)).save("a.png")
    assert run(main, ["inspect", "a.png"]).exit_code == 2
    for name in ("bad.png", "old.html"):
        (quick_folder / name).write_bytes(b"no image")
    for arguments in (["bad.png", "-o", "a.html"], ["nothing.png", "-o", "a.html"], ["a.png", "-o", "old.html"]):
        told = run(main, ["inspect", *arguments])
        assert told.exit_code == 3 and told.stderr.count("\n") == 1 and not (quick_folder / "a.html").exists()
    (quick_folder / "set.dqc").write_bytes(archive.START)
    assert "set.dqc: it is an archive; `decompress --only" in run(main, ["inspect", "set.dqc", "-o", "a.html"]).stderr
    told = run(main, ["inspect", ".", "-o", "a.html"])
    assert told.exit_code == 2 and ". is a folder; inspect takes one image" in told.stderr
    for option, name in (("-o", "a.png"), ("--map", "m.jpg")):
        told = run(main, ["inspect", "bad.png", option, f"new/{name}"])
        assert (
            told.exit_code == 2
            and f"new/{name}: the output is a" in told.stderr
            and not (quick_folder / "new").exists()
        )
