import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import click
import fake_learned
import numpy as np
import pngs
import programs
import pytest
from click.testing import CliRunner
from PIL import Image, ImageSequence

import dqcodec
from dqcodec import png
from dqcodec.base.errors import ModelError, UnknownModelError
from dqcodec.codec import archive_group, choose, codec, export, foreign, zoo
from dqcodec.codec.archive import Archive
from dqcodec.command import names
from dqcodec.command.cli import main
from dqcodec.format import archive

PIXELS = (np.add.outer(np.arange(30) * 3, np.arange(40))[..., None] + np.arange(3) * 9).astype(np.uint8)
SOURCE = pngs.write(PIXELS)
DEEP = pngs.random(np.random.default_rng(0), 4, 5, 2, 16, end=b"tail")  # comes back byte for byte


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty working folder, and no models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zoo, "directory", lambda: tmp_path / "models")
    return tmp_path


def run(*arguments, data=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=data, catch_exceptions=False)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_decompress_gives_back_the_file_that_compress_took(folder):
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
        (folder / f"in/{index}.png").write_bytes(pngs.random(np.random.default_rng(index), 4, 5, 2, 16, end=b"tail"))
    (folder / "in/bad.png").write_bytes(b"no png")
    results = {jobs: run("compress", "-r", "in", "-o", f"out{jobs}", "-j", jobs, "--json") for jobs in (1, 2)}
    written = {
        jobs: {path.name: path.read_bytes() for path in (folder / f"out{jobs}").rglob("*.dqc")} for jobs in (1, 2)
    }
    assert written[1] == written[2] and len(written[1]) == 3
    assert [result.exit_code for result in results.values()] == [1, 1]
    told = {
        jobs: [json.loads(line)["source"] for line in result.stdout.splitlines()] for jobs, result in results.items()
    }
    assert told[1] == told[2] and len(told[1]) == 4


def test_both_commands_read_and_write_standard_streams():
    there = run("compress", "-", data=DEEP)
    back = run("decompress", "-", "-o", "-", "-q", data=there.stdout_bytes)
    assert back.stdout_bytes == DEEP and back.stderr == "" and back.exit_code == 0


def test_a_command_goes_on_after_failures_and_exits_with_1_or_3(folder):
    (folder / "a.png").write_bytes(b"no png")
    (folder / "b.png").write_bytes(SOURCE)
    result = run("compress", "a.png", "missing.png", "b.png")
    assert result.exit_code == 1 and tree(folder) == ["a.png", "b.png", "b.png.dqc"]
    assert "dqcodec: a.png: not a PNG, BMP" in result.stderr and "missing.png: No such file" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("2 failed")
    assert run("compress", "a.png").exit_code == 3
    (folder / "b.png.dqc").write_bytes((folder / "b.png.dqc").read_bytes()[:-1])
    broken = run("decompress", "b.png.dqc", "-o", "c.png")
    assert broken.exit_code == 3 and broken.stderr.count("\n") == 1 and tree(folder) == ["a.png", "b.png", "b.png.dqc"]


@pytest.mark.parametrize(
    "arguments", [["compress", "-r"], ["compress", "-o", "set.dqc"], ["decompress", "-r"], ["verify", "-r"]]
)
def test_quiet_still_says_why_nothing_was_done(folder, arguments):
    (folder / "in").mkdir()
    (folder / "in/a.txt").write_bytes(b"no image")
    told = run(*arguments, "-q", "in")
    assert told.exit_code == 3 and told.stderr.startswith("0 files, 1 left out (not a ")
    failed = run(*arguments, "-q", "missing.png", "missing.dqc")
    assert failed.exit_code == 3 and failed.stderr.count("\n") == failed.stderr.count("No such file") == 2


def test_no_command_overwrites_a_file_without_force(folder):
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
    assert run("compress", "--fast", "--best", "b.png").exit_code == 2


def test_outputs_of_a_folder_lie_in_the_same_tree(folder):
    (folder / "in/deep").mkdir(parents=True)
    for name in ("in/a.png", "in/deep/b.png"):
        (folder / name).write_bytes(SOURCE)
    assert run("compress", "-r", "in", "-o", "out").exit_code == 0
    assert run("decompress", "-r", "out", "-o", "back/").exit_code == 0
    assert [name for name in tree(folder) if name.startswith("back")] == ["back/a.png", "back/deep/b.png"]
    assert run("compress", "-r", "back/deep", "-o", "x", "--json", "-f").exit_code == 0


def every_kind():
    """PNGs of every kind, by name, in nested folders: interlaced, animated, with metadata, or bytes after the end."""
    rng, note = np.random.default_rng(0), pngs.chunk(b"tEXt", b"Comment\0hello") + pngs.chunk(b"prVt", b"own")
    found = {}
    for number, (color_type, bit_depth) in enumerate(pngs.KINDS):
        folder = ["", "a/", "a/b/", "b/a/"][number % 4]
        samples = rng.integers(0, 1 << bit_depth, (5, 4, pngs.SAMPLES[color_type]))
        kind, deep = color_type, {"bit_depth": bit_depth}
        found[f"{folder}{number}.png"] = pngs.write(samples, color_type=kind, before=note, **deep)
        found[f"{folder}{number}-interlaced.png"] = pngs.write(
            samples, color_type=kind, interlace=True, idats=2, **deep
        )
        found[f"{folder}{number}-tail.png"] = pngs.write(samples, color_type=kind, after=note, end=b"tail", **deep)
        frames = [((1, 0), samples[1:]), ((0, 0), samples[::-1])]
        found[f"{folder}{number}-animated.png"] = pngs.animated(samples, frames, color_type=kind, **deep)
    return found


@pytest.mark.parametrize("options", [[], ["--exact"]])
def test_a_tree_of_every_kind_comes_back_and_each_broken_file_gets_a_line(folder, quick, options):
    images = every_kind()
    broken = {"a/x.png": b"no png", "y.png": SOURCE[:-9], "b/a/z.png": SOURCE.replace(b"IDAT", b"IDAt")}
    for number, (name, data) in enumerate((images | broken).items()):
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod([0o644, 0o600, 0o755][number % 3])
        os.utime(path, ns=(0, 10**18 + number))
    before = stamps(folder / "in")
    there = run("compress", "-q", "-r", "in", "-o", "packed/", *options)
    told = [line.removeprefix("dqcodec: in/").split(": ")[0] for line in there.stderr.splitlines()]
    assert there.exit_code == 1 and told == sorted(broken)
    assert tree(folder / "packed") == sorted(f"{name}.dqc" for name in images)
    assert run("decompress", "-q", "-r", "packed", "-o", "out/").exit_code == 0
    assert stamps(folder / "out") == {name: before[name] for name in images}
    for name, data in images.items():
        restored = (folder / "out" / name).read_bytes()
        assert restored == data if options else png.read(restored).same(png.read(data))


def test_json_gives_one_object_a_file(folder, monkeypatch):
    fake_learned.install(monkeypatch)
    monkeypatch.setattr(zoo, "names", lambda: ["fake"])
    monkeypatch.setattr(zoo, "locate", Path)
    monkeypatch.setattr(zoo, "load", lambda name: fake_learned.Program())
    (folder / "a.png").write_bytes(SOURCE)
    (folder / "b.png").write_bytes(b"no png")
    good, bad = map(json.loads, run("compress", "--json", "a.png", "b.png").stdout.splitlines())
    assert good["target"] == "a.png.dqc" and good["learned"]["initial_bits"] == 12.0 and good["bpd"] > 0
    assert bad["source"] == "b.png" and bad["target"] == "b.png.dqc" and bad["error"].startswith("not a PNG, BMP")
    assert run("compress", "--json", "a.png", "-o", "-").exit_code == 2
    info = json.loads(run("info", "--json", "a.png.dqc").stdout)
    assert (info["method"], info["width"], info["model_id"]) == ("flow", 40, b"fake-id!".hex())
    verbose = run("compress", "-fv", "a.png").stderr
    assert "bpd (limit 3.46) verified" in verbose and "grid_bits 0.5" in verbose


def test_files_and_archives_name_the_chunks_that_they_leave_out(folder, quick):
    (folder / "in").mkdir()
    (folder / "in/a.png").write_bytes(pngs.write(PIXELS, before=pngs.chunk(b"iDOT", bytes(28))))
    for target in ("a.dqc", "set.dqc"):
        arguments = ("compress", "in/a.png" if target == "a.dqc" else "in", "-o", target, "-f")
        assert "left out iDOT" in run(*arguments).stderr
        first, *total = map(json.loads, run(*arguments, "--json").stdout.splitlines())
        assert first["dropped"] == ["iDOT"] and all(each["dropped"] == {"iDOT": 1} for each in total)
    assert "iDOT" not in run("compress", "in/a.png", "-o", "a.dqc", "-fv", "--exact").stderr
    assert "left out iDOT" in run("decompress", "a.dqc", "-o", "b.png", "--repack").stderr


def test_animations_are_taken_with_all_frames_or_not_at_all(folder, quick):
    frames = [Image.fromarray(PIXELS), Image.fromarray(PIXELS[::-1])]
    for name in ("a.png", "a.gif", "a.webp", "a.tiff"):
        frames[0].save(name, save_all=True, append_images=frames[1:], lossless=True)
    result = run("compress", "a.gif", "a.png", "a.webp", "a.tiff")
    assert result.exit_code == 1 and result.stderr.count("file holds several images") == 3
    assert [path.name for path in folder.glob("*.dqc")] == ["a.png.dqc"]
    assert "\n  pictures       2 (the default image and 1 further frame)\n" in run("info", "a.png.dqc").stdout
    refused = run("decompress", "a.png.dqc", "--format", "tiff", "-o", "b.tiff")
    assert refused.exit_code == 3 and "animation" in refused.stderr and not (folder / "b.tiff").exists()
    run("decompress", "a.png.dqc", "-o", "b.png")
    with Image.open("b.png") as image:
        assert [frame.tobytes() for frame in ImageSequence.Iterator(image)] == [frame.tobytes() for frame in frames]


def test_info_shows_broken_files(folder):
    (folder / "a.dqc").write_bytes(b"nothing")
    result = run("info", "a.dqc", "missing.dqc")
    assert result.exit_code == 3 and "a.dqc: not a .dqc file" in result.stderr


def test_strip_drops_metadata_exact_keeps_every_byte_and_repack_does_not(folder):
    source = pngs.write(PIXELS, before=pngs.chunk(b"tEXt", b"Comment\0hello"), interlace=True)
    (folder / "a.png").write_bytes(source)
    assert run("compress", "--exact", "a.png").exit_code == 0
    assert json.loads(run("info", "--json", "a.png.dqc").stdout)["exact"]
    assert "RGB by classical" in run("info", "a.png.dqc").stdout
    assert run("decompress", "a.png.dqc", "-o", "b.png").exit_code == 0 and (folder / "b.png").read_bytes() == source
    assert run("decompress", "--repack", "a.png.dqc", "-o", "c.png").exit_code == 0
    assert (folder / "c.png").read_bytes() != source and png.read((folder / "c.png").read_bytes()).same(
        png.read(source)
    )
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
    (folder / "models/photo-9a129038.safetensors").write_bytes(b"weights")
    assert zoo.names() == ["photo"] and zoo.locate("photo").name == "photo-9a129038.safetensors"
    with pytest.raises(UnknownModelError, match=f"{bytes(8).hex()}; at hand: photo "):
        zoo.find(bytes(8))
    assert zoo.locate(zoo.file_id(zoo.locate("photo")).hex()) == zoo.locate("photo")
    with pytest.raises(UnknownModelError, match="no model"):
        zoo.locate(bytes(8).hex())
    with pytest.raises(UnknownModelError, match="no model 'cifar10'"):
        zoo.load("cifar10")


def test_models_of_one_name_are_all_at_hand_under_their_whole_names(folder):
    (folder / "models").mkdir()
    files = {}
    for name in ("photo-9a129038", "photo-11112222", "gray-33334444", "photo"):
        (folder / f"models/{name}.safetensors").write_bytes(name.encode())
        files[name] = folder / f"models/{name}.safetensors"
    assert zoo.names() == ["gray", "photo-11112222", "photo-9a129038", "photo"]
    assert [zoo.locate(name) for name in ("gray", "gray-33334444", "photo-9a129038", "photo")] == [
        files[name] for name in ("gray-33334444", "gray-33334444", "photo-9a129038", "photo")
    ]
    files["photo"].unlink()
    with pytest.raises(
        UnknownModelError, match="several models are named 'photo'; at hand: gray, photo-11112222, photo-9"
    ):
        zoo.load("photo")
    for name in ("photo-11112222", "photo-9a129038"):  # each is looked at, and is no model
        with pytest.raises(ModelError, match=name):
            zoo.find(zoo.file_id(files[name]))


def test_a_model_that_is_not_what_its_name_says_is_never_used(folder):
    """A file that a damaged model codes could not be decoded by any other installation."""
    models = [programs.described(programs.AUTOREGRESSIVE, rate_bits=bits) for bits in (31, 32)]
    paths = [folder / f"own-{hashlib.sha256(model).hexdigest()[:8]}.safetensors" for model in models]
    paths[0].write_bytes(models[0])
    assert zoo.load(paths[0]).name == "own"
    paths[1].write_bytes(models[0])
    with pytest.raises(ModelError, match="damaged"):
        zoo.load(paths[1])


def test_a_model_file_that_was_replaced_is_read_again(folder):
    """What it codes then would need a model that is nowhere any more."""
    path = folder / "own.safetensors"
    for bits in (1, 8):
        path.write_bytes(programs.data(programs.AUTOREGRESSIVE, 1, bits=bits))
        assert zoo.load(path).id == zoo.find(zoo.file_id(path), path).id == zoo.file_id(path)


def test_models_are_listed_with_cards_and_found_by_id_or_path(folder, monkeypatch):
    card = {"license": "CC0", "vi_bpd": 3.4}
    module = types.ModuleType("dqcodec.exact.program")
    module.load_program = lambda path: fake_learned.Program(path.name.split("-")[0], zoo.file_id(path), card=card)
    monkeypatch.setitem(sys.modules, "dqcodec.exact.program", module)
    fake_learned.install(monkeypatch)
    zoo._load.cache_clear()
    (folder / "models").mkdir()
    (folder / "models/photo-9a129038.safetensors").write_bytes(b"weights")
    listed = json.loads(run("models", "--json").stdout)
    assert listed == {"name": "photo", "id": zoo.file_id(zoo.locate("photo")).hex(), "bytes": 7, **card}
    assert [line.split() for line in run("models").stdout.splitlines()] == [
        ["name", "for", "bytes", "bpd"], ["photo", "RGB", "photographs", "7"],
    ]  # fmt: skip

    (folder / "a.png").write_bytes(SOURCE)
    (folder / "other.safetensors").write_bytes(b"other weights")
    assert "(limit" in run("compress", "a.png", "-m", "other.safetensors").stderr
    lost = run("decompress", "a.png.dqc", "-o", "b.png")
    assert lost.exit_code == 3 and "no model with id" in lost.stderr and "photo" in lost.stderr
    other_id = zoo.file_id(folder / "other.safetensors").hex()
    assert f"\n  model          {other_id} (not at hand: -m FILE)\n" in run("info", "a.png.dqc").stdout
    assert run("compress", "a.png", "-m", listed["id"], "-o", "own.dqc").exit_code == 0  # a whole id is a name, too
    told = run("info", "own.dqc").stdout
    assert f"\n  model          photo ({listed['id'][:8]})\n" in told and " by photo " in told
    assert run("decompress", "a.png.dqc", "-o", "b.png", "-m", "other.safetensors").exit_code == 0
    assert np.array_equal(png.read((folder / "b.png").read_bytes()).pixels, PIXELS)


def test_a_line_says_that_no_models_are_at_hand():
    result = run("models")
    assert result.exit_code == 0 and "no models in" in result.stderr


@pytest.mark.parametrize("name", [None, *main.commands])
def test_every_command_has_help_under_a_screen(name):
    arguments = [name, "--help"] if name else ["--help"]
    text = run(*arguments).stdout
    assert text.count("\n") <= 40 and "help" in text
    command = main.commands[name] if name else main
    assert command.help and all(option.help for option in command.params if isinstance(option, click.Option))


def test_help_imports_nothing_heavy():
    heavy = {"numpy", "numba", "torch", "rich", "constriction", "PIL.PngImagePlugin"}
    code = f"import sys, dqcodec.command.cli, dqcodec; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(dqcodec.__file__).parents[1], timeout=60)


STAMPS = {"a.png": (0o640, 1_000_000_000_123_456_789), "deep/b.png": (0o600, -5), "deep/er/c.png": (0o444, 1 << 60)}


def grow(folder, count=3, **options):
    """A tree `in` with images of all kinds, some of which are stored."""
    for number, (name, (mode, mtime_ns)) in enumerate(list(STAMPS.items())[:count]):
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pngs.random(np.random.default_rng(number), 4, 5, 2, 16, end=b"tail") if options else SOURCE)
        path.chmod(mode)
        os.utime(path, ns=(0, mtime_ns))


def stamps(folder):
    status = {name: (folder / name).stat() for name in tree(folder)}
    return {name: (each.st_mode & 0o777, each.st_mtime_ns) for name, each in status.items()}


def break_group(path, number):
    """Damage one group of an archive."""
    with Archive(path) as packed:
        sizes = [size for size, _ in packed.group_sizes]
    data = bytearray(path.read_bytes())
    data[len(archive.MAGIC) + 1 + sum(sizes[:number]) + sizes[number] // 2] ^= 1
    path.write_bytes(data)


def test_a_tree_with_broken_files_becomes_an_archive_and_comes_back(folder, quick):
    grow(folder)
    broken = {"in/x.png": b"no png", "in/deep/y.png": SOURCE[:-9], "in/z.png": SOURCE.replace(b"IDAT", b"IDAt")}
    for name, data in broken.items():
        (folder / name).write_bytes(data)
    there = run("compress", "in", "-o", "set.dqc")
    *errors, total = there.stderr.splitlines()
    assert there.exit_code == 1 and {line.split(": ")[1] for line in errors} == {*broken} and len(errors) == 3
    assert "set.dqc: 3 images in 1 group, " in total and total.endswith(" bpd verified, 3 failed")
    back = run("decompress", "set.dqc")
    assert back.exit_code == 0 and back.stderr == "set.dqc -> set: 3 images ok\n"
    images = [f"{top}/{name}" for top in ("in", "set") for name in STAMPS]
    assert stamps(folder / "set") == STAMPS and tree(folder) == sorted(["set.dqc", *broken, *images])
    for name in STAMPS:
        assert png.read((folder / "set" / name).read_bytes()).same(png.read(SOURCE))
    again = run("decompress", "set.dqc")
    assert again.exit_code == 3 and again.stderr.count("exists") == 3
    assert run("decompress", "set.dqc", "-f", "-o", "other/").exit_code == 0 and stamps(folder / "other") == STAMPS
    assert run("decompress", "set.dqc", "-o", "-").exit_code == 2
    assert run("decompress", "-", data=(folder / "set.dqc").read_bytes()).exit_code == 3
    assert run("decompress", "-", "-o", "x", data=(folder / "set.dqc").read_bytes()).exit_code == 0
    assert stamps(folder / "x") == STAMPS


def test_an_archive_is_written_whole_or_not_at_all(folder, quick, monkeypatch):
    grow(folder, 1)
    (folder / "set.dqc").write_bytes(b"mine")
    assert run("compress", "in", "-o", "set.dqc").exit_code == 3 and (folder / "set.dqc").read_bytes() == b"mine"
    assert run("compress", "in", "-o", "set.dqc", "-f").exit_code == 0
    (folder / "in/a.png").chmod(0o644)
    (folder / "in/a.png").write_bytes(b"no png")
    nothing = run("compress", "in", "-o", "none.dqc")
    assert nothing.exit_code == 3 and nothing.stderr.endswith("0 files, 1 failed\n")
    assert tree(folder) == ["in/a.png", "set.dqc"]

    (folder / "in/a.png").write_bytes(SOURCE)
    monkeypatch.setattr(archive.Writer, "finish", lambda self: None)  # an index that cannot be read
    broken = run("compress", "--rm", "in", "-o", "none.dqc")
    assert broken.exit_code == 3 and "cannot be read back" in broken.stderr and tree(folder) == ["in/a.png", "set.dqc"]


def test_one_file_is_no_archive_and_group_is_for_archives(folder, quick):
    grow(folder, 1)
    assert run("compress", "in/a.png", "-o", "a.dqc").exit_code == 0
    assert not archive.is_archive((folder / "a.dqc").read_bytes())
    for arguments in (["in/a.png", "-o", "b.dqc", "--group", 2], ["in/a.png", "-", "-o", "b.dqc"]):
        assert run("compress", *arguments).exit_code == 2
    assert run("decompress", "a.dqc", "--only", "*").exit_code == 2
    assert run("compress", "in", "in/a.png", "-o", "b.dqc").exit_code == 2  # two of one name


def test_groups_are_bounded_by_images_by_pixels_and_by_the_time_to_decode_them(folder, quick, monkeypatch):
    (folder / "in").mkdir()
    side, names = 64, [f"{number}.png" for number in range(6)]
    for number, name in enumerate(names):
        pixels = np.full((side, side, 1), number)
        pixels[0, 0] = 9
        (folder / "in" / name).write_bytes(pngs.write(pixels))

    def sizes(*options) -> list[int]:
        assert run("compress", "in", "-o", "set.dqc", "-f", *options).exit_code == 0
        with Archive("set.dqc") as packed:
            assert list(packed) == names
            return [count for _, count in packed.group_sizes]

    assert sizes() == [6] and sizes("--group", 4) == [4, 2]
    assert sizes("--max-pixels", 3 * side**2) == [3, 3]
    monkeypatch.setattr(archive_group, "GROUP_SECONDS", 2.5 * side**2 * archive_group.SAMPLE_SECONDS)
    assert sizes() == [2, 2, 2]
    monkeypatch.setattr(archive_group, "GROUP_SECONDS", 0)
    assert sizes() == [1] * 6
    (folder / "in/3.png").write_bytes((folder / "in/0.png").read_bytes())  # shares a group, for nothing
    names.insert(1, names.pop(3))
    assert sizes() == [2, 1, 1, 1, 1]


def test_files_that_cannot_be_packed_do_not_change_the_groups_of_others(folder, quick):
    (folder / "in").mkdir()
    for number in range(4):
        (folder / f"in/{number}.png").write_bytes(pngs.write(np.full((4, 4, 1), number)))
    assert run("compress", "in", "-o", "whole.dqc", "--group", 2).exit_code == 0
    (folder / "in/0a.png").write_bytes(pngs.write(PIXELS)[:60])
    assert run("compress", "in", "-o", "part.dqc", "--group", 2).exit_code == 1
    with Archive("whole.dqc") as whole, Archive("part.dqc") as part:
        assert part.group_sizes == whole.group_sizes and {**part} == {**whole}


def test_several_processes_give_the_same_archive_and_the_same_images(folder):
    grow(folder, stored=True)
    for jobs in (1, 2):
        packed = run("compress", "in", "-o", f"{jobs}.dqc", "--group", 1, "-j", jobs)
        assert packed.exit_code == 0, packed.stderr
        assert run("decompress", f"{jobs}.dqc", "-j", jobs).exit_code == 0
    assert (folder / "1.dqc").read_bytes() == (folder / "2.dqc").read_bytes()
    for top in ("1", "2"):
        assert stamps(folder / top) == STAMPS
        assert all((folder / top / name).read_bytes() == (folder / "in" / name).read_bytes() for name in STAMPS)


def test_only_takes_what_matches_and_decodes_nothing_else(folder, quick):
    grow(folder)
    assert run("compress", "in", "-o", "set.dqc", "--group", 1, "-q").stderr == ""
    break_group(folder / "set.dqc", 0)
    some = run("decompress", "set.dqc", "-o", "some", "--only", "deep/*", "--only", "*/c.png")
    assert some.exit_code == 0 and tree(folder / "some") == ["deep/b.png", "deep/er/c.png"]
    none = run("decompress", "set.dqc", "-o", "none", "--only", "nothing")
    assert none.exit_code == 3 and "no image's name matches nothing" in none.stderr and not (folder / "none").exists()
    assert run("decompress", "set.dqc", "--only", "*", "--rm").exit_code == 2


def test_damage_stays_in_its_group(folder, quick):
    grow(folder)
    run("compress", "in", "-o", "set.dqc", "--group", 1)
    good = run("verify", "set.dqc", "-v")
    assert good.exit_code == 0 and good.stderr.count(" ok") == 4 and good.stderr.endswith("set.dqc: 3 images ok\n")
    break_group(folder / "set.dqc", 1)
    bad, listed = run("verify", "set.dqc", "--json"), run("list", "set.dqc", "--json")
    *images, total = map(json.loads, bad.stdout.splitlines())
    assert bad.exit_code == 1 and total == {"source": "set.dqc", "images": 2, "failed": 1}
    for each in (images, map(json.loads, listed.stdout.splitlines())):
        assert {image["name"]: "error" in image for image in each} == dict(zip(STAMPS, (False, True, False)))
    listed = run("list", "set.dqc")
    assert listed.exit_code == 1 and listed.stdout.count("RGB 8 bit") == 2 and "deep/b.png: damaged" in listed.stderr
    told = json.loads(run("info", "set.dqc", "--json").stdout)
    assert told["methods"] == {"classical": 2} and told["damage"] == ["group 1: damaged group of files"]
    rest = run("decompress", "set.dqc", "--rm")
    assert rest.exit_code == 1 and tree(folder / "set") == ["a.png", "deep/er/c.png"] and (folder / "set.dqc").exists()


def test_damage_to_the_index_loses_nothing_and_is_reported(folder, quick):
    grow(folder)
    run("compress", "in", "-o", "set.dqc", "--group", 1)
    (folder / "set.dqc").write_bytes((folder / "set.dqc").read_bytes()[:-1] + b"x")
    checked = run("verify", "set.dqc")
    assert (
        checked.exit_code == 1 and "set.dqc: damaged: its index" in checked.stderr and "3 images ok" in checked.stderr
    )
    back = run("decompress", "set.dqc")
    assert back.exit_code == 0 and "index is damaged" in back.stderr and stamps(folder / "set") == STAMPS
    listed = run("list", "set.dqc")
    assert listed.exit_code == 1 and listed.stdout.count("RGB 8 bit") == 3 and "index is damaged" in listed.stderr
    shown = run("info", "set.dqc")
    assert shown.exit_code == 1 and "  damage       its index is damaged; 20 bytes " in shown.stdout


def test_salvage_gets_what_is_whole_and_lists_what_is_lost(folder, quick):
    grow(folder)
    run("compress", "in", "-o", "set.dqc", "--group", 1)
    whole = (folder / "set.dqc").read_bytes()
    with Archive("set.dqc") as packed:
        ends = np.cumsum([5, *(size for size, _ in packed.group_sizes)])
    (folder / "set.dqc").write_bytes(
        b"junk" + whole[4 : ends[1]] + whole[ends[1] + 9 : ends[3] + 9]
    )  # start, group 1 and end
    for command in (["decompress", "set.dqc"], ["verify", "set.dqc"]):
        assert run(*command).exit_code == 3 and tree(folder) == sorted(["set.dqc", *(f"in/{name}" for name in STAMPS)])
    back = run("decompress", "--salvage", "set.dqc")
    assert back.exit_code == 1 and tree(folder / "set") == ["a.png", "deep/er/c.png"]
    assert "group 1 is lost, and the names are not known" in back.stderr and "its end is missing" in back.stderr
    assert "set.dqc -> set: 2 images ok" in back.stderr and (folder / "set.dqc").exists()
    (folder / "set.dqc").write_bytes(whole[: ends[1] + 20] + b"damage" + whole[ends[1] + 26 :])
    back = run("decompress", "--salvage", "set.dqc", "-f")
    assert back.exit_code == 1 and "set.dqc: deep/b.png: lost: group 1 is damaged" in back.stderr
    assert run("decompress", "--salvage", "--rm", "set.dqc").exit_code == 2
    (folder / "in/a.png").unlink()
    run("compress", "in", "-o", "other.dqc")
    (folder / "set.dqc").write_bytes(whole + (folder / "other.dqc").read_bytes())
    assert "--salvage gets the undamaged images" in run("decompress", "set.dqc").stderr
    assert run("decompress", "--salvage", "set.dqc", "-o", "both").exit_code == 0
    assert tree(folder / "both") == sorted([*STAMPS, *(f"archive-2/{name}" for name in list(STAMPS)[1:])])


def test_swapped_groups_are_reported(folder, quick):
    (folder / "in").mkdir()
    for number in range(2):
        (folder / f"in/{number}.png").write_bytes(pngs.write(np.full((1, 1, 3), number), end=b"stored"))
    run("compress", "in", "-o", "set.dqc", "--group", 1)
    data = (folder / "set.dqc").read_bytes()
    with Archive("set.dqc") as packed:
        (one, _), (two, _) = packed.group_sizes
    assert one == two
    (folder / "set.dqc").write_bytes(data[:5] + data[5 + one : 5 + 2 * one] + data[5 : 5 + one] + data[5 + 2 * one :])
    assert run("verify", "set.dqc").exit_code == 1
    assert run("decompress", "set.dqc").exit_code == 3 and not (folder / "set").exists()
    assert run("decompress", "--salvage", "set.dqc").exit_code == 0
    assert all((folder / top / "0.png").read_bytes() == (folder / "in/0.png").read_bytes() for top in ("in", "set"))


def test_others_keep_and_broken_keep_store_files_verbatim(folder, quick):
    grow(folder, 1, stored=True)
    broken = DEEP[:-5]
    for name, data in {
        "notes.txt": b"text" * 99,
        "photo.jpg": b"\xff\xd8 no image",
        "deep/empty": b"",
        "b.png": broken,
        "c.png": broken,
    }.items():
        (folder / "in" / name).parent.mkdir(exist_ok=True)
        (folder / "in" / name).write_bytes(data)
    names = tree(folder / "in")
    default = run("compress", "in", "-o", "set.dqc")
    assert default.exit_code == 1 and default.stderr.count("\n") == 3 and "1 image in" in default.stderr
    others = run("compress", "in", "-o", "set.dqc", "-f", "--others", "keep")
    assert others.exit_code == 1 and "4 files" in others.stderr and "3 verbatim" in others.stderr
    both = run("compress", "in", "-o", "set.dqc", "-f", "--others", "keep", "--broken", "keep", "-v")
    assert both.exit_code == 0 and "in/b.png" in both.stderr and "(verbatim)" in both.stderr
    listed = run("list", "set.dqc")
    assert listed.exit_code == 0 and listed.stdout.count("B verbatim") == 5 and "396 B verbatim" in listed.stdout
    assert json.loads(run("info", "--json", "set.dqc").stdout)["methods"] == {"verbatim": 4, "stored": 1, "repeated": 1}
    assert run("verify", "set.dqc").stderr == "set.dqc: 6 files ok, 5 verbatim\n"
    for options in ([], ["--format", "bmp", "-o", "bmp"]):
        assert run("decompress", "set.dqc", *options).exit_code == bool(options)  # 16 bits do not go into a BMP
    assert tree(folder / "set") == names
    assert all((folder / "in" / name).read_bytes() == (folder / "set" / name).read_bytes() for name in names)
    assert [name for name in names if name != "a.png"] == tree(folder / "bmp")
    with Archive("set.dqc") as packed:
        assert (
            packed["notes.txt"] == b"text" * 99
            and packed.kind("notes.txt") == "verbatim"
            and packed.kind("a.png") == "image"
        )
    assert run("compress", "in/a.png", "--others", "keep").exit_code == 2
    assert run("compress", "in", "-o", "in/photo.jpg.dqc", "--others", "keep").exit_code == 1
    assert (
        run("compress", "in", "-o", "in/photo.jpg.dqc", "--others", "keep", "-f").exit_code == 2
    )  # it would hold itself


def test_list_and_info_show_archives_and_files(folder, quick):
    grow(folder)
    for name in list(STAMPS)[1:]:
        (folder / "in" / name).chmod(0o644)
        (folder / "in" / name).write_bytes(pngs.write(PIXELS, before=pngs.chunk(b"tEXt", name.encode() + b"\0")))
    (folder / "in/gray.png").write_bytes(pngs.random(np.random.default_rng(0), 3, 7, 0, 4, end=b"stored"))
    run("compress", "in", "-o", "set.dqc")
    run("compress", "in/gray.png", "-o", "gray.dqc")
    lines, size = run("list", "set.dqc", "gray.dqc").stdout.splitlines(), (folder / "gray.dqc").stat().st_size
    assert lines[0] == "set.dqc:" and len(lines) == 6 and lines[1].endswith("a.png") and " 2001-09-09 " in lines[1]
    assert lines[5].split()[:5] == ["7", "x", "3", "gray", "4"] and lines[5].endswith(f"gray.dqc  {size} B -> gray")
    first, *_ = map(json.loads, run("list", "--json", "set.dqc").stdout.splitlines())
    mode, mtime_ns = STAMPS["a.png"]
    assert first == {
        "source": "set.dqc", "name": "a.png", "width": 40, "height": 30, "color": "RGB", "bit_depth": 8,
        "method": "classical", "mode": mode, "mtime_ns": mtime_ns,
    }  # fmt: skip
    told = json.loads(run("info", "--json", "set.dqc").stdout)
    assert (told["images"], told["groups"], told["methods"]) == (4, 1, {"repeated": 2, "classical": 1, "stored": 1})
    assert "methods      2 repeated, 1 classical, 1 stored\n" in run("info", "set.dqc").stdout


def test_an_archive_without_files_is_no_failure(folder):
    data = dqcodec.compress_archive({})
    (folder / "empty.dqc").write_bytes(data)
    told = run("info", "empty.dqc")
    assert told.exit_code == 0 and told.stdout.split() == "empty.dqc images 0 groups 0 group bytes 0".split()
    listed = run("list", "empty.dqc")
    assert listed.exit_code == 0 and not listed.output
    assert run("verify", "empty.dqc").stderr == "empty.dqc: 0 images ok\n"
    for command in (["verify"], ["decompress"], ["decompress", "--salvage"]):
        assert run(*command, "empty.dqc").exit_code == 0
        assert run(*command, "empty.dqc", "missing.dqc").exit_code == 1
    assert run("decompress", "empty.dqc", "--only", "a").exit_code == 3
    (folder / "empty.dqc").write_bytes(data[:-1])
    assert {run(command, "empty.dqc").exit_code for command in ("verify", "list", "decompress")} == {3}


def test_verify_decodes_files_and_writes_nothing(folder, quick):
    grow(folder)
    run("compress", "-r", "in", "-o", "out/")
    before = tree(folder)
    assert run("verify", "-r", "out").stderr.count(" ok (classical)\n") == 3
    data = bytearray((folder / "out/a.png.dqc").read_bytes())
    data[-8] ^= 1
    (folder / "out/a.png.dqc").write_bytes(data)
    bad = run("verify", "-r", "out", "missing.dqc")
    assert bad.exit_code == 1 and bad.stderr.endswith("2 failed\n") and "out/a.png.dqc: damaged" in bad.stderr
    assert tree(folder) == before


def test_json_of_archives_is_an_object_a_file_and_one_for_all(folder, quick):
    grow(folder)
    (folder / "in/x.png").write_bytes(b"no png")
    *images, total = map(json.loads, run("compress", "in", "-o", "set.dqc", "--json").stdout.splitlines())
    assert [(each["source"], each["target"], "error" in each) for each in images] == [
        *((f"in/{name}", "set.dqc", False) for name in STAMPS), ("in/x.png", "set.dqc", True),
    ]  # fmt: skip
    assert total["images"] == 3 and total["failed"] == 1 and total["dqc_bytes"] == (folder / "set.dqc").stat().st_size
    *images, total = map(json.loads, run("decompress", "set.dqc", "--json").stdout.splitlines())
    assert [(each["name"], each["target"]) for each in images] == [(name, f"set/{name}") for name in STAMPS]
    assert total == {"source": "set.dqc", "target": "set", "images": 3, "failed": 0}


def test_rm_removes_what_is_in_the_archive_and_then_the_archive(folder, quick, monkeypatch):
    grow(folder)
    (folder / "in/x.png").write_bytes(b"no png")
    Image.new("L", (5, 5)).save("in/y.bmp")
    assert run("compress", "--rm", "in", "in/y.bmp", "-o", "set.dqc").exit_code == 1
    assert tree(folder) == ["in/x.png", "in/y.bmp", "set.dqc"]
    assert run("compress", "--rm", "in/y.bmp").exit_code == 3 and (folder / "in/y.bmp").exists()
    assert run("decompress", "--rm", "set.dqc").exit_code == 0
    assert tree(folder) == sorted(["in/x.png", "in/y.bmp", *(f"set/{name}" for name in STAMPS)])

    def change(self):
        os.utime("set/a.png", ns=(0, 0))
        return finish(self)

    finish = archive.Writer.finish
    monkeypatch.setattr(archive.Writer, "finish", change)
    changed = run("compress", "--rm", "set", "-o", "set.dqc")
    assert changed.exit_code == 1 and tree(folder / "set") == ["a.png"] and "changed meanwhile" in changed.stderr


def test_extraction_does_not_go_through_links(folder, quick):
    grow(folder)
    run("compress", "in", "-o", "set.dqc")
    for outside in ("outside", "out"):
        (folder / outside).mkdir()
    (folder / "outside/file").write_bytes(b"mine")
    (folder / "out/a.png").symlink_to("../outside/file")
    (folder / "out/deep").symlink_to("../outside")
    for arguments in ([], ["-f"]):
        result = run("decompress", "set.dqc", "-o", "out", *arguments)
        assert result.exit_code == 3 and result.stderr.count("symbolic link") == 3
    assert tree(folder / "outside") == ["file"] and (folder / "outside/file").read_bytes() == b"mine"
    (folder / "link").symlink_to("fresh")
    (folder / "fresh").mkdir()
    assert run("decompress", "set.dqc", "-o", "link").exit_code == 0 and tree(folder / "fresh") == sorted(STAMPS)


def test_links_in_a_tree_are_left_out_and_counted(folder, quick):
    grow(folder, 1)
    (folder / "in/link.png").symlink_to("a.png")
    os.mkfifo(folder / "in/pipe.png")
    told = run("compress", "in", "-o", "set.dqc", "-v").stderr
    assert "in/link.png: left out" in told and "in/pipe.png: left out" in told and "1 image in 1 group" in told
    told = run("compress", "-r", "in", "-o", "out/").stderr
    assert told.endswith("2 left out (special file: 1, symbolic link: 1)\n") and tree(folder / "out") == ["a.png.dqc"]


def test_unprintable_names_are_escaped(folder, quick):
    names = [os.fsdecode(b"\xff.png"), "new\nline.png", "\x1b[2J.png"]
    (folder / "in").mkdir()
    for name in names:
        (folder / "in" / name).write_bytes(SOURCE)
    assert run("compress", "in", "-o", "set.dqc").exit_code == 0
    listed = run("list", "set.dqc").stdout
    assert listed.count("\n") == 3 and "\x1b" not in listed and "new\\nline.png" in listed
    assert len(run("list", "--json", "set.dqc").stdout.splitlines()) == 3
    result = run("decompress", "set.dqc", "-v")
    assert result.exit_code == 0 and tree(folder / "set") == sorted(names) and "\x1b" not in result.stderr


def test_a_killed_command_leaves_no_file_under_the_final_name(folder):
    (folder / "in").mkdir()
    for number in range(300):
        source = pngs.random(np.random.default_rng(number), 20, 20, 2, 16, end=b"tail")
        (folder / f"in/{number}.png").write_bytes(source)
    command = [sys.executable, "-m", "dqcodec", "compress", "in", "-o", "set.dqc", "--group", "1"]
    variables = os.environ | {"PYTHONPATH": str(Path(dqcodec.__file__).parents[1])}
    process = subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list(folder.glob(".set.dqc.*.tmp")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert not (folder / "set.dqc").exists() and list(folder.glob(".set.dqc.*.tmp")) and len(tree(folder / "in")) == 300


def test_other_files_are_taken_as_pixels_and_given_back_in_other_formats(folder, quick):
    Image.fromarray(PIXELS).save("a.bmp")
    result = run("compress", "a.bmp")
    assert result.exit_code == 0 and f"a.bmp {(folder / 'a.bmp').stat().st_size} -> " in result.stderr
    assert run("decompress", "a.bmp.dqc").exit_code == 0
    assert np.array_equal(png.read((folder / "a.png").read_bytes()).pixels, PIXELS)
    for format in names.FORMATS[1:]:
        told = run("decompress", "a.bmp.dqc", "--format", format, "-f")
        assert told.exit_code == 0 and ", pixels only" in told.stderr
        pixels = export.from_png(foreign.to_png((folder / f"a.{format}").read_bytes()), "npy")
        assert np.array_equal(np.load(io.BytesIO(pixels)), PIXELS)
    (folder / "deep.png").write_bytes(DEEP)
    assert run("compress", "deep.png", "a.png", "-o", "set.dqc").exit_code == 0
    bmp = run("decompress", "set.dqc", "--format", "bmp")
    assert (
        bmp.exit_code == 1 and "bmp cannot hold 16-bit RGB exactly" in bmp.stderr and tree(folder / "set") == ["a.bmp"]
    )
    assert bmp.stderr.endswith("set.dqc -> set: 1 image ok, pixels only of 1 image, 1 failed\n")


@pytest.fixture(scope="module")
def model():
    import programs

    return programs.path(programs.AUTOREGRESSIVE)


def test_a_model_is_sampled(folder, model):
    arguments = ["sample", model, "--count", 3, "--side", 8]
    assert run(*arguments, "-o", "a.png").exit_code == 0
    sheet = png.read((folder / "a.png").read_bytes())
    assert sheet.pixels.shape == (16, 16, 3) and sheet.pixels[:8].std() > 0 and not sheet.pixels[8:, 8:].any()
    again = run(*arguments, "-o", "a.png")
    assert again.exit_code == 3 and "exists" in again.stderr
    assert run(*arguments, "-o", "-").stdout_bytes == (folder / "a.png").read_bytes()
    assert run(*arguments, "-o", "-", "--seed", 1).stdout_bytes != (folder / "a.png").read_bytes()
    assert run("sample", "nothing", "-o", "b.png").exit_code == 2
    assert "name it .png" in run("sample", model, "-o", "b.jpg").stderr


def test_an_archive_by_a_model_comes_back(folder, model, quick, monkeypatch):
    monkeypatch.setattr(choose, "by_webp", lambda pixels, search: None)  # the model is bad
    monkeypatch.setattr("dqcodec.codec.candidates.is_icon", lambda *_: False)
    monkeypatch.setattr(
        "dqcodec.codec.group.encode_sets",
        lambda sources, *rest: [([0, 1, 2], codec.encode(sources, *rest))],
    )
    rng = np.random.default_rng(0)
    (folder / "in").mkdir()
    for number in range(3):
        (folder / f"in/{number}.png").write_bytes(pngs.random(rng, 9, 8, before=pngs.chunk(b"tEXt", b"a\0b")))
    monkeypatch.setattr(
        "dqcodec.codec.choose.Choice.size", property(lambda self: 1e9 if self.entry.skeleton is None else 1)
    )
    assert run("compress", "in", "-o", "set.dqc", "-m", model).exit_code == 0
    assert json.loads(run("info", "--json", "set.dqc").stdout)["models"] == {zoo.file_id(model).hex(): 3}
    lost = run("decompress", "set.dqc")
    assert lost.exit_code == 3 and "no model with id" in lost.stderr
    assert run("decompress", "set.dqc", "-m", model, "--only", "2.png").exit_code == 0
    source, back = (png.read((folder / top / "2.png").read_bytes()) for top in ("in", "set"))
    assert source.same(back)
