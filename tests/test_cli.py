import json
import os
import subprocess
import sys
import types
from pathlib import Path

import click
import fake_learned
import numpy as np
import pngs
import pytest
from click.testing import CliRunner

import dqcodec
from dqcodec import codec, png, zoo
from dqcodec.cli import main
from dqcodec.errors import UnknownModelError

PIXELS = (np.add.outer(np.arange(30) * 3, np.arange(40))[..., None] + np.arange(3) * 9).astype(np.uint8)
SOURCE = pngs.write(PIXELS)
DEEP = pngs.random(np.random.default_rng(0), 4, 5, 2, 16, tail=b"tail")  # comes back byte for byte


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working folder, and no models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zoo, "directory", lambda: tmp_path / "models")
    return tmp_path


def run(*arguments, data=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=data)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_there_and_back(folder):
    (folder / "a.png").write_bytes(DEEP)
    os.utime("a.png", (1_000_000_000, 1_000_000_000))
    there = run("compress", "a.png")
    assert there.exit_code == 0 and there.stdout == "" and "a.png" in there.stderr and "verified" in there.stderr
    (folder / "a.png").unlink()
    assert run("decompress", "a.png.dqc").exit_code == 0
    assert (folder / "a.png").read_bytes() == DEEP and (folder / "a.png").stat().st_mtime == 1_000_000_000


def test_several_processes_give_the_same_files_lines_and_exit_code(folder):
    (folder / "in").mkdir()
    for index in range(3):
        (folder / f"in/{index}.png").write_bytes(pngs.random(np.random.default_rng(index), 4, 5, 2, 16, tail=b"tail"))
    (folder / "in/bad.png").write_bytes(b"no png")
    results = {jobs: run("compress", "-r", "in", "-o", f"out{jobs}", "-j", jobs, "--json") for jobs in (1, 2)}
    written = {jobs: {path.name: path.read_bytes() for path in (folder / f"out{jobs}").rglob("*.dqc")} for jobs in (1, 2)}
    assert written[1] == written[2] and len(written[1]) == 3
    assert [result.exit_code for result in results.values()] == [1, 1]
    told = {jobs: [json.loads(line)["source"] for line in result.stdout.splitlines()] for jobs, result in results.items()}
    assert told[1] == told[2] and len(told[1]) == 4


def test_standard_streams_both_ways():
    there = run("compress", "-", data=DEEP)
    back = run("decompress", "-", "-o", "-", "-q", data=there.stdout_bytes)
    assert back.stdout_bytes == DEEP and back.stderr == "" and back.exit_code == 0


def test_goes_on_after_failures_and_exits_1_or_3(folder):
    (folder / "a.png").write_bytes(b"no png")
    (folder / "b.png").write_bytes(SOURCE)
    result = run("compress", "a.png", "missing.png", "b.png")
    assert result.exit_code == 1 and tree(folder) == ["a.png", "b.png", "b.png.dqc"]
    assert "dqcodec: a.png: not a PNG file" in result.stderr and "missing.png: No such file" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("2 failed")
    assert run("compress", "a.png").exit_code == 3
    (folder / "b.png.dqc").write_bytes((folder / "b.png.dqc").read_bytes()[:-1])
    broken = run("decompress", "b.png.dqc", "-o", "c.png")
    assert broken.exit_code == 3 and broken.stderr.count("\n") == 1 and tree(folder) == ["a.png", "b.png", "b.png.dqc"]


def test_never_overwrites_without_force(folder):
    (folder / "a.png").write_bytes(SOURCE)
    (folder / "a.png.dqc").write_bytes(b"mine")
    assert run("compress", "a.png").exit_code == 3 and (folder / "a.png.dqc").read_bytes() == b"mine"
    assert run("compress", "a.png", "-f").exit_code == 0 and (folder / "a.png.dqc").read_bytes() != b"mine"


def test_rm_removes_sources_after_success_only(folder):
    (folder / "a.png").write_bytes(SOURCE)
    (folder / "b.png").write_bytes(b"no png")
    assert run("compress", "--rm", "a.png", "b.png").exit_code == 1
    assert tree(folder) == ["a.png.dqc", "b.png"]
    assert run("compress", "--rm", "--no-verify", "b.png").exit_code == 2


def test_recursion_mirrors_the_tree(folder):
    (folder / "in/deep").mkdir(parents=True)
    for name in ("in/a.png", "in/deep/b.png"):
        (folder / name).write_bytes(SOURCE)
    assert run("compress", "-r", "in", "-o", "out").exit_code == 0
    assert run("decompress", "-r", "out", "-o", "back/").exit_code == 0
    assert [name for name in tree(folder) if name.startswith("back")] == ["back/a.png", "back/deep/b.png"]
    assert run("compress", "-r", "back/deep", "-o", "x", "--json", "-f").exit_code == 0


def test_json_gives_one_object_a_file(folder, monkeypatch):
    fake_learned.install(monkeypatch)
    monkeypatch.setattr(zoo, "names", lambda: ["fake"])
    monkeypatch.setattr(zoo, "load", lambda name: fake_learned.Program())
    (folder / "a.png").write_bytes(SOURCE)
    (folder / "b.png").write_bytes(b"no png")
    good, bad = map(json.loads, run("compress", "--json", "a.png", "b.png").stdout.splitlines())
    assert good["target"] == "a.png.dqc" and good["learned"]["initial_bits"] == 12.0 and good["bpd"] > 0
    assert bad == {"source": "b.png", "target": "b.png.dqc", "error": "not a PNG file"}
    assert run("compress", "--json", "a.png", "-o", "-").exit_code == 2
    info = json.loads(run("info", "--json", "a.png.dqc").stdout)
    assert (info["method"], info["width"], info["model_id"]) == ("flow", 40, b"fake-id!".hex())
    verbose = run("compress", "-fv", "a.png").stderr
    assert "bpd (limit 3.46) verified" in verbose and "grid_bits 0.5" in verbose


def test_info_tells_of_broken_files(folder):
    (folder / "a.dqc").write_bytes(b"nothing")
    result = run("info", "a.dqc", "missing.dqc")
    assert result.exit_code == 3 and "a.dqc: not a .dqc file" in result.stderr


def test_strip_exact_and_repack(folder):
    source = pngs.write(PIXELS, before=pngs.chunk(b"tEXt", b"Comment\0hello"), interlace=True)
    (folder / "a.png").write_bytes(source)
    assert run("compress", "--exact", "a.png").exit_code == 0
    assert json.loads(run("info", "--json", "a.png.dqc").stdout)["exact"]
    assert "RGB by classical" in run("info", "a.png.dqc").stdout
    assert run("decompress", "a.png.dqc", "-o", "b.png").exit_code == 0 and (folder / "b.png").read_bytes() == source
    assert run("decompress", "--repack", "a.png.dqc", "-o", "c.png").exit_code == 0
    assert (folder / "c.png").read_bytes() != source and png.read((folder / "c.png").read_bytes()).same(png.read(source))
    assert run("compress", "--strip", "a.png", "-o", "s.dqc").exit_code == 0
    assert run("decompress", "s.dqc", "-o", "d.png").exit_code == 0
    assert b"hello" not in (folder / "d.png").read_bytes()
    assert run("compress", "--strip", "--exact", "-f", "a.png").exit_code == 2


def test_max_pixels_limits_the_image(folder):
    (folder / "a.png").write_bytes(SOURCE)
    result = run("compress", "--max-pixels", 100, "a.png")
    assert result.exit_code == 3 and "limit of 100 pixels" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [["compress"], ["compress", "a.png", "-m", "none"], ["compress", "-", "-", "-o", "x"], ["what"], ["compress", "."]],
)
def test_wrong_usage_exits_2(arguments):
    assert run(*arguments).exit_code == 2


def test_unknown_models_are_named_with_what_is_at_hand(folder):
    (folder / "models").mkdir()
    (folder / "models/photo-12345678.safetensors").write_bytes(b"weights")
    assert zoo.names() == ["photo"] and zoo.locate("photo").name == "photo-12345678.safetensors"
    photo_id = zoo.file_id(zoo.locate("photo")).hex()
    with pytest.raises(UnknownModelError, match=f"{bytes(8).hex()}; at hand: photo {photo_id}"):
        zoo.find(bytes(8))
    with pytest.raises(UnknownModelError, match="no model 'cifar10'"):
        zoo.load("cifar10")


def test_models_are_listed_with_cards_and_found_by_id_or_path(folder, monkeypatch):
    class Program(fake_learned.Program):
        card = {"license": "CC0", "vi_bpd": 3.4}

    module = types.ModuleType("dqcodec.exact.program")
    module.load_program = lambda path: Program(path.name.split("-")[0], zoo.file_id(path))
    monkeypatch.setitem(sys.modules, "dqcodec.exact.program", module)
    fake_learned.install(monkeypatch)
    zoo._load.cache_clear()
    (folder / "models").mkdir()
    (folder / "models/photo-12345678.safetensors").write_bytes(b"weights")
    listed = json.loads(run("models", "--json").stdout)
    assert listed == {"name": "photo", "id": zoo.file_id(zoo.locate("photo")).hex(), "bytes": 7, **Program.card}
    assert "photo: id" in run("models").stdout

    (folder / "a.png").write_bytes(SOURCE)
    (folder / "other.safetensors").write_bytes(b"other weights")
    assert "(limit" in run("compress", "a.png", "-m", "other.safetensors").stderr
    lost = run("decompress", "a.png.dqc", "-o", "b.png")
    assert lost.exit_code == 3 and "no model with id" in lost.stderr and "photo" in lost.stderr
    assert run("decompress", "a.png.dqc", "-o", "b.png", "-m", "other.safetensors").exit_code == 0
    assert np.array_equal(png.read((folder / "b.png").read_bytes()).pixels, PIXELS)


def test_no_models_is_said_so():
    result = run("models")
    assert result.exit_code == 0 and "no models in" in result.stderr


@pytest.mark.parametrize("name", [None, *main.commands])
def test_every_command_has_help_under_a_screen(name):
    arguments = [name, "--help"] if name else ["--help"]
    text = run(*arguments).stdout
    assert text.count("\n") <= 40 and "help" in text
    command = main.commands[name] if name else main
    assert command.help and all(option.help for option in command.params if isinstance(option, click.Option))


def test_help_and_the_public_api_import_nothing_heavy():
    heavy = {"numpy", "numba", "PIL", "torch", "rich", "constriction"}
    code = f"import sys, dqcodec.cli, dqcodec; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(dqcodec.__file__).parents[1])
    assert dqcodec.compress is codec.compress and set(dqcodec.__all__) <= set(dir(dqcodec))
    with pytest.raises(AttributeError):
        dqcodec.nothing
