"""What the command takes, leaves out, refuses and removes; its standard streams, pipes and devices."""

import contextlib
import errno
import functools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pngs
import pytest
from click.testing import CliRunner
from PIL import Image
from test_broken import BROKEN

import dqcodec
from dqcodec.codec import codec, zoo
from dqcodec.codec.report import DecodedReport
from dqcodec.command import atomic, kinds, names, removal, temporary
from dqcodec.command.cli import main
from dqcodec.command.compress import compress_bytes
from dqcodec.command.options import Compressing, Decompressing
from dqcodec.command.plan import Job
from dqcodec.command.results import FileResult, RunReport
from dqcodec.command.run import Work
from dqcodec.command.stamp import Stamp
from dqcodec.command.unpacking import Unpacking
from dqcodec.command.update import pending
from dqcodec.format import archive, container

MODEL = "a-00000000.safetensors"
SOURCE = pngs.random(np.random.default_rng(0), 4, 5, 2, 16, end=b"tail")  # comes back byte for byte
OTHER = pngs.random(np.random.default_rng(1), 4, 5, 2, 16, end=b"tail")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(dqcodec.__file__).parents[1])}


@pytest.fixture(autouse=True)
def folder(quick_folder):
    return quick_folder


def run(*arguments, data=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=data, catch_exceptions=False)


def shell(command, **variables):
    """A command line in which $dqcodec is the command."""
    variables = ENVIRONMENT | {"dqcodec": f"{sys.executable} -m dqcodec"} | variables
    return subprocess.run(["bash", "-c", command], env=variables, capture_output=True, timeout=120)


def grow(folder, names, data=SOURCE):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_starts_of_files_are_those_of_the_formats():
    assert kinds.DQC.starts == (container.SHORT_MAGIC,) and kinds.ARCHIVE.starts == (archive.MAGIC,)
    assert all(magic.startswith(container.SHORT_MAGIC) for magic in (container.MAGIC, archive.MAGIC))


IMAGES = [".png", "a.apng", "b", "c.jpg", "in/d.png"]
OTHERS = ["e.jpg", "f.webp", "in/g"]


@pytest.fixture
def mixed(folder):
    """A folder `in` of PNGs with and without their suffix, other files, a link, a pipe and an empty folder."""
    grow(folder / "in", IMAGES)
    grow(folder / "in", OTHERS, b"other")
    (folder / "in/h.png").symlink_to("b")
    (folder / "in/empty").mkdir()
    os.mkfifo(folder / "in/pipe")
    return folder


@pytest.mark.parametrize("arguments", [["in", "-o", "set.dqc"], ["-r", "in", "-o", "out/"]])
def test_a_folder_names_every_file_that_it_leaves_out(mixed, arguments):
    told = run("compress", *arguments, "-v")
    hint = "; name BMP, TIFF, JPEG ... files to compress their pixels"
    total = f"6 left out (empty folder: 1, not a PNG file: 3, special file: 1, symbolic link: 1{hint})\n"
    assert told.exit_code == 0 and told.stderr.endswith(total)
    for name in [*OTHERS, "h.png", "empty", "pipe"]:
        assert told.stderr.count(f"in/{name}: left out (") == 1
    brief = run("compress", *arguments, "-f").stderr
    assert brief.endswith(total) and brief.count("left out") == 1
    lines = [json.loads(line) for line in run("compress", *arguments, "-f", "--json").stdout.splitlines()]
    left_out = {line["source"]: line["left_out"] for line in lines if "left_out" in line}
    assert left_out == {f"in/{name}": "not a PNG file" for name in OTHERS} | {
        "in/h.png": "symbolic link", "in/empty": "empty folder", "in/pipe": "special file",
    }  # fmt: skip


def test_update_does_what_is_missing_or_older_than_its_source_and_nothing_else(folder):
    grow(folder / "in", ["a.png", "b.png", "c.png", "d.png"])
    for source in (folder / "in").iterdir():
        os.utime(source, (0, 1000))
    update = ["compress", "-r", "in", "-o", "out/", "-u"]
    assert run(*update).exit_code == 0
    done = folder / "out/a.png.dqc"
    kept = done.stat().st_ino
    (folder / "out/b.png.dqc").unlink()
    (folder / "in/c.png").write_bytes(OTHER)
    os.utime(folder / "in/c.png", (0, 1001))
    os.utime(folder / "in/d.png", (0, 999))
    told = run(*update)
    newer = "dqcodec: in/d.png: out/d.png.dqc is newer than its source (-f overwrites it)\n"
    assert told.exit_code == 1 and newer in told.stderr
    assert told.stderr.endswith(", 1 failed, 1 left out (done before: 1)\n")
    assert run("decompress", "-r", "out", "-o", "back/").exit_code == 0
    assert {name: (folder / "back" / name).read_bytes() for name in tree(folder / "in")} == {
        "a.png": SOURCE, "b.png": SOURCE, "c.png": OTHER, "d.png": SOURCE,
    }  # fmt: skip
    assert run(*update, "-f").exit_code == 0 and done.stat().st_ino == kept
    told = run(*update)
    assert told.exit_code == 0 and told.stderr == "0 files, 4 left out (done before: 4)\n"


@pytest.mark.parametrize("grain", [10**9, 10**7, 100])
def test_update_knows_its_outputs_where_the_file_system_cuts_times(folder, monkeypatch, grain):
    grow(folder, ["a.png", "a.png.dqc"])
    source, stat_of, output = (
        1_700_000_001_987_654_321,
        os.stat,
        SimpleNamespace(st_mode=stat.S_IFREG, st_ctime_ns=10**18),
    )
    os.utime("a.png", ns=(source, source))
    monkeypatch.setattr(os, "stat", lambda path, **how: output if path == Path("a.png.dqc") else stat_of(path, **how))
    job = Job(Path("a.png"), Path("a.png.dqc"))
    output.st_mtime_ns = source // grain * grain
    assert pending([job], force=False) == ([], [(job.source, "done before")])
    output.st_ctime_ns += 1  # a file system that keeps whole times: the source has changed
    assert pending([job], force=False) == ([job], [])
    output.st_ctime_ns, output.st_mtime_ns = 10**18, (source // grain - 1) * grain
    assert pending([job], force=False) == ([job], [])
    output.st_mtime_ns = (source // grain + 1) * grain
    ((newer,), _) = pending([job], force=False)
    assert "newer than its source" in newer.error


def test_update_takes_no_folder_for_an_output(folder):
    grow(folder, ["a.png"])
    (folder / "a.png.dqc").mkdir()
    os.utime(folder / "a.png.dqc", (0, os.stat("a.png").st_mtime))
    told = run("compress", "a.png", "-u")
    assert told.exit_code == 3 and "a.png.dqc" in told.stderr


def test_update_restores_what_is_missing_of_a_tree(folder):
    grow(folder / "in", ["a.png", "b/c.png"])
    assert run("compress", "-r", "in", "-o", "out/").exit_code == 0
    restore = ["decompress", "-r", "out", "-o", "back/", "-u"]
    assert run(*restore).exit_code == 0
    (folder / "back/b/c.png").unlink()
    told = run(*restore)
    assert told.exit_code == 0 and told.stderr.endswith(" 1 left out (done before: 1)\n")
    assert {name: (folder / "back" / name).read_bytes() for name in tree(folder / "in")} == {
        "a.png": SOURCE, "b/c.png": SOURCE,
    }  # fmt: skip


def test_update_removes_no_source_that_was_done_before(folder):
    grow(folder, ["a.png"])
    assert run("compress", "a.png").exit_code == 0
    assert run("compress", "a.png", "-u", "--rm").exit_code == 0 and (folder / "a.png").exists()


def test_update_is_not_for_archives(folder):
    grow(folder / "in", ["a.png"])
    told = run("compress", "in", "-o", "set.dqc", "-u")
    assert told.exit_code == 2 and "--update is for files" in told.stderr and not (folder / "set.dqc").exists()
    assert run("compress", "in", "-o", "set.dqc").exit_code == 0
    told = run("decompress", "set.dqc", "-u")
    assert told.exit_code == 2 and "--update is for files" in told.stderr and not (folder / "set").exists()


def test_a_group_of_another_state_of_the_folder_is_damage_though_it_has_the_same_place(folder):
    archives = []
    for data in (SOURCE, OTHER):
        grow(folder / "in", ["a.png"])
        grow(folder / "in", ["b.png"], data)
        for name in ("a.png", "b.png"):
            os.utime(folder / "in" / name, (0, 1000 + (name == "b.png" and data == OTHER)))
        assert run("compress", "in", "-o", "set.dqc", "-f", "--group", "1").exit_code == 0
        archives.append((folder / "set.dqc").read_bytes())
    first, second = ([*re.finditer(b"\x89DQG", data)] for data in archives)
    places = [mark.start() for mark in first]
    assert len(archives[0]) == len(archives[1]) and places == [mark.start() for mark in second] and len(places) == 2
    index = archives[0].index(b"\x89DQI")
    mixed = archives[0][: places[1]] + archives[1][places[1] : index] + archives[0][index:]
    assert run("verify", "set.dqc").exit_code == 0
    (folder / "set.dqc").write_bytes(mixed)
    assert run("verify", "set.dqc").exit_code == 1


def test_pngs_of_any_name_come_back_under_their_names_from_an_archive(mixed):
    assert run("compress", "in", "-o", "set.dqc").exit_code == 0 and run("decompress", "set.dqc").exit_code == 0
    assert tree(mixed / "set") == IMAGES
    assert all((mixed / "set" / name).read_bytes() == SOURCE for name in IMAGES)


def test_pngs_of_any_name_come_back_under_their_names_from_files(folder):
    given = ["a.png", "b", "c.scan", "d.PNG", ".e"]
    grow(folder, given)
    assert run("compress", *given).exit_code == 0
    back = run("decompress", *(f"{name}.dqc" for name in given), "-o", "back/")
    assert back.exit_code == 0 and tree(folder / "back") == sorted(given)
    assert " comes back as " not in back.stderr and " written as " not in back.stderr


def test_a_name_that_changes_is_told_both_ways(folder):
    grow(folder, ["misnamed.jpg"])
    Image.new("RGB", (3, 2)).save("photo.bmp")
    Image.new("RGB", (3, 2)).save("bitmap.png", "BMP")
    told = run("compress", "misnamed.jpg", "photo.bmp", "bitmap.png").stderr.splitlines()
    assert told[0].endswith("verified, comes back as misnamed.png")
    assert told[1].endswith("verified, pixels only, comes back as photo.png")
    assert told[2].endswith("verified, pixels only")
    told = run("compress", "bitmap.png", "-o", "new/b.dqc").stderr
    assert told.endswith("verified, pixels only, comes back as b (name it bitmap.png.dqc to get bitmap.png)\n")
    told = run("decompress", "misnamed.jpg.dqc", "photo.bmp.dqc", "-o", "back/").stderr.splitlines()
    assert told[0].endswith(", written as misnamed.png") and told[1].endswith(", written as photo.png")
    packed = run("compress", "misnamed.jpg", "photo.bmp", "bitmap.png", "-o", "set.dqc", "-v").stderr
    assert packed.count("pixels only, there photo.png") == packed.count(" there ") == 1
    assert packed.endswith(", pixels only of 2 images\n")
    with dqcodec.Archive("set.dqc") as packed:
        assert {*packed} == {"bitmap.png", "misnamed.jpg", "photo.png"}


def test_only_takes_a_name_of_a_file_or_a_folder_as_it_is_before_it_is_a_pattern(folder):
    odd = ["[1].png", "*.png", "?", "a[b]/c.png"]
    grow(folder / "in", [*odd, "1.png", "x"])
    run("compress", "in", "-o", "set.dqc")
    for number, name in enumerate(odd):
        assert run("decompress", "set.dqc", "--only", name, "-o", f"out{number}").exit_code == 0
        assert tree(folder / f"out{number}") == [name]
    assert run("decompress", "set.dqc", "--only", "[1]*", "-o", "one").exit_code == 0
    assert tree(folder / "one") == ["1.png"]
    for number, name in enumerate(("a[b]", "a[b]/")):
        assert run("decompress", "set.dqc", "--only", name, "-o", f"below{number}").exit_code == 0
        assert tree(folder / f"below{number}") == ["a[b]/c.png"]


def test_only_finds_names_in_every_locale(folder):
    grow(folder / "in", ["\u00e9.png", "f.png"])
    run("compress", "in", "-o", "set.dqc")
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for number, pattern in enumerate(["\u00e9.png", "\u00e9*"]):
        done = shell(f"$dqcodec decompress set.dqc --only '{pattern}' -o out{number}", **plain)
        assert done.returncode == 0 and tree(folder / f"out{number}") == ["\u00e9.png"]


def test_an_archive_of_all_files_replaces_the_folder_and_says_what_it_cannot_hold(mixed):
    told = run("compress", "in", "-o", "set.dqc", "--others", "keep", "--rm")
    assert told.exit_code == 0
    assert told.stderr.endswith("3 left out (empty folder: 1, special file: 1, symbolic link: 1)\n")
    assert tree(mixed / "in") == [] and run("decompress", "set.dqc").exit_code == 0
    assert {name: (mixed / "set" / name).read_bytes() for name in tree(mixed / "set")} == (
        dict.fromkeys(IMAGES, SOURCE) | dict.fromkeys(OTHERS, b"other")
    )


def test_verification_of_a_folder_tries_what_claims_to_be_a_dqc_file(folder):
    grow(folder / "in", ["a.png"])
    run("compress", "in/a.png", "-o", "in/a")
    grow(folder / "in", ["b.dqc"], b"no .dqc")
    checked = run("verify", "-r", "in")
    assert checked.exit_code == 1 and "in/a ok" in checked.stderr and "in/b.dqc: not a .dqc file" in checked.stderr
    assert checked.stderr.endswith("1 failed, 1 left out (not a .dqc file: 1)\n")


def test_broken_pngs_are_kept_and_named_if_asked(folder):
    for number, data in enumerate(BROKEN.values()):
        grow(folder, [f"in/{number}.png"], data)
    for arguments in (["in", "-o", "set.dqc"], ["-r", "in", "-o", "out/"]):
        refused = run("compress", *arguments)
        assert refused.exit_code == 3 and refused.stderr.count("in/") == 4
        kept = run("compress", *arguments, "--broken", "keep")
        assert kept.exit_code == 0 and kept.stderr.count(", a broken PNG: ") == 4
        assert (", 4 verbatim, 4 broken, " in kept.stderr) == (arguments[0] == "in")
        assert run("compress", *arguments, "--broken", "keep", "-fq").stderr == ""
    assert (
        run("verify", "set.dqc").exit_code == run("list", "set.dqc").exit_code == run("info", "set.dqc").exit_code == 0
    )
    assert run("decompress", "set.dqc").exit_code == run("decompress", "-r", "out").exit_code == 0
    for number, data in enumerate(BROKEN.values()):
        assert (folder / f"set/{number}.png").read_bytes() == (folder / f"out/{number}.png").read_bytes() == data


def test_rm_keeps_a_file_that_took_the_place_of_its_source(folder, monkeypatch):
    grow(folder, ["a.png", "other"])
    compress = codec.compress

    def replace(*arguments, **options):
        for name in ("a.png", "other"):
            os.utime(name, (10**9, 10**9))
        os.replace("other", "a.png")
        return compress(*arguments, **options)

    os.utime("a.png", (10**9, 10**9))
    monkeypatch.setattr(codec, "compress", replace)
    result = run("compress", "--rm", "a.png")
    assert result.exit_code == 1 and (folder / "a.png").exists() and (folder / "a.png.dqc").exists()
    assert "written, but it has changed meanwhile" in result.stderr


def test_rm_keeps_an_archive_in_which_not_all_bytes_were_read(folder):
    grow(folder, ["in/a.png", "in/b.png", "c.png"])
    run("compress", "in", "-o", "set.dqc")
    run("compress", "c.png")
    for more in ("c.png.dqc", "c.png"):
        whole = (folder / "set.dqc").read_bytes()
        (folder / "mix.dqc").write_bytes(whole + (folder / more).read_bytes())
        result = run("decompress", "mix.dqc", "--rm", "-f")
        assert result.exit_code == 1 and tree(folder / "mix") == ["a.png", "b.png"] and (folder / "mix.dqc").exists()
        assert "mix.dqc: written, but the archive is damaged and is not removed" in result.stderr
    assert run("decompress", "set.dqc", "--rm").exit_code == 0 and not (folder / "set.dqc").exists()


@pytest.mark.parametrize(
    "option", [["--only", "*"], ["--crop", "1x1+0+0"], ["--format", "bmp"], ["--repack"], ["--salvage"]]
)
def test_rm_does_not_go_with_an_option_that_leaves_something_out(folder, option):
    grow(folder, ["in/a.png"])
    run("compress", "--exact", "in", "-o", "set.dqc")
    result = run("decompress", "set.dqc", "--rm", *option)
    assert result.exit_code == 2 and option[0] in result.stderr and (folder / "set.dqc").exists()


@pytest.mark.parametrize("inputs", [["p/a.dqc", "p/b.dqc"], ["-r", "p"]])
def test_salvage_takes_several_archives(folder, inputs):
    grow(folder, ["in/1.png", "in/2.png"])
    for name in ("a", "b"):
        run("compress", "in", "-o", f"p/{name}.dqc")
    assert run("decompress", "--salvage", *inputs, "-o", "out").exit_code == 0
    assert tree(folder / "out") == ["a/1.png", "a/2.png", "b/1.png", "b/2.png"]


@pytest.mark.parametrize(
    "change", [os.unlink, lambda path: os.truncate(path, 40), lambda path: shutil.copy("c.dqc", path)]
)
def test_an_archive_that_changes_before_its_turn_fails_alone(folder, monkeypatch, change):
    grow(folder, ["a/a.png", "b/b.png", "c/c.png"])
    for name in "abc":
        run("compress", name, "-o", f"{name}.dqc", "-q")
    shutil.rmtree("a")
    write = atomic.write

    def change_b(*arguments, **options):
        monkeypatch.setattr(atomic, "write", write)
        change("b.dqc")
        write(*arguments, **options)

    monkeypatch.setattr(atomic, "write", change_b)
    result = run("decompress", "-f", "a.dqc", "b.dqc", "c.dqc")
    assert result.exit_code == 1 and result.stderr.count("dqcodec: b.dqc: ") == 1 and "1 failed" in result.stderr
    assert tree(folder / "a") == ["a.png"] and "c.dqc -> c: 1 image ok" in result.stderr


def test_no_command_calls_joined_archives_whole(folder):
    grow(folder, ["in/a.png", "other/b.png"])
    for name in ("in", "other"):
        run("compress", name, "-o", f"{name}.dqc")
    (folder / "set.dqc").write_bytes((folder / "in.dqc").read_bytes() + (folder / "other.dqc").read_bytes())
    for command in ("verify", "list", "info"):
        for options in ([], ["--json"]):
            told = run(command, "set.dqc", *options)
            assert told.exit_code == 1 and "several archives are joined" in told.stdout + told.stderr
    assert run("decompress", "set.dqc").exit_code == 3
    assert run("decompress", "set.dqc", "--salvage").exit_code == 0 and len(tree(folder / "set")) == 2


@pytest.mark.parametrize(
    "command", [["verify"], ["decompress", "-f", "--salvage"], ["decompress", "-f", "--salvage", "--only", "nothing"]]
)
def test_the_total_of_an_archive_counts_images_and_names_damage_to_the_archive_apart(folder, command):
    for number in range(3):
        grow(folder, [f"in/{number}.png"], pngs.write(np.full((1, 1, 3), number), end=b"tail"))
    run("compress", "in", "-o", "set.dqc", "--group", 1)
    whole = (folder / "set.dqc").read_bytes()
    (folder / "set.dqc").write_bytes(whole[: len(whole) // 2])
    told = run(*command, "set.dqc", "--json")
    *lines, total = map(json.loads, told.stdout.splitlines())
    losses = sum("error" in line and "damaged: " in line["error"] for line in lines)
    assert told.exit_code and total["failed"] == sum("error" in line for line in lines) - losses
    assert total["damage"] and losses == 1 + (command == ["verify"])
    failed = f", {total['failed']} failed" if total["failed"] else ""
    assert run(*command, "set.dqc").stderr.endswith(f" ok{failed}, the archive is damaged\n")


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("place", range(len(archive.START)))
def test_an_archive_with_a_damaged_start_leads_to_salvage(folder, place, bit):
    grow(folder, ["in/a.png"])
    run("compress", "in", "-o", "set.dqc")
    data = bytearray((folder / "set.dqc").read_bytes())
    data[place] ^= 1 << bit
    (folder / "set.dqc").write_bytes(data)
    is_known = place == len(archive.MAGIC)  # an archive of another version; what looks at damaged ones salvages it
    for command in (["decompress", "-o", "set"], ["verify"], ["list"], ["info"], ["decompress", "--crop", "1x1+0+0"]):
        told = run(*command, "set.dqc")
        is_salvaged = is_known and command == ["verify"]
        assert told.exit_code == (1 if is_salvaged else 3), command
        assert told.stderr.count("damaged: " if is_salvaged else "--salvage") == 1, command
    assert run("decompress", "set.dqc", "--salvage").exit_code == 0
    assert (folder / "set/a.png").read_bytes() == SOURCE


@pytest.mark.parametrize("command", [["decompress"], ["verify"], ["list"], ["info"]])
def test_an_archive_without_its_start_or_behind_other_bytes_leads_to_salvage(folder, command):
    grow(folder, ["in/a.png", "in/b.png"])
    (folder / "in/b.png").write_bytes(OTHER)
    run("compress", "in", "-o", "set.dqc", "--group", 1)
    whole = (folder / "set.dqc").read_bytes()
    for data, saved in ((whole[50:], ["b.png"]), (b"other bytes" + whole, ["a.png", "b.png"])):
        (folder / "set.dqc").write_bytes(data)
        told = run(*command, "set.dqc")
        assert told.exit_code == 3 and told.stderr.count("--salvage") == 1
        run("decompress", "set.dqc", "--salvage", "-o", "back", "-f")
        assert tree(folder / "back") == saved


def test_salvage_does_not_call_a_file_of_one_image_damaged(folder):
    grow(folder, ["a.png"])
    run("compress", "a.png", "-o", "a.dqc")
    told = run("decompress", "a.dqc", "--salvage", "-o", "out")
    assert told.exit_code == 3 and told.stderr == (
        "dqcodec: a.dqc: --salvage is for archives, and this file holds one image\n"
    )


def test_only_on_a_missing_file_says_that_it_is_missing(folder):
    told = run("decompress", "missing.dqc", "--only", "x")
    assert told.exit_code == 3 and "missing.dqc: No such file" in told.stderr


@pytest.mark.parametrize("arguments", [["h", "-o", "h.dqc"], ["-r", "h", "-o", "out/"]])
def test_rm_removes_all_names_of_a_file(folder, arguments):
    grow(folder, ["h/a.png"])
    for name in ("b", "c"):
        os.link("h/a.png", f"h/{name}.png")
    result = run("compress", *arguments, "--rm")
    assert result.exit_code == 0 and tree(folder / "h") == [], result.stderr


def test_rm_keeps_the_other_name_of_a_file_that_changed(folder):
    grow(folder, ["a.png"])
    os.link("a.png", "b.png")
    stamp = Stamp.at("a.png")
    removal.remove(folder / "a.png", stamp)
    (folder / "b.png").write_bytes(b"new")
    with pytest.raises(OSError, match="changed meanwhile"):
        removal.remove(folder / "b.png", stamp)


def test_rm_says_that_a_source_cannot_be_removed(folder, monkeypatch):
    grow(folder, ["a.png"])

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("dqcodec.command.removal.os.unlink", refuse)
    with pytest.raises(OSError, match=r"^it cannot be removed: Permission denied$"):
        removal.remove(folder / "a.png", Stamp.at(folder / "a.png"))


@pytest.mark.parametrize(
    "arguments", [["a.png", "-o", "-"], ["-"], ["a.png", "-o", os.devnull], ["a.png", "-o", "/dev/stdout"]]
)
def test_rm_is_for_files_that_become_files(folder, arguments):
    grow(folder, ["a.png"])
    assert run("compress", "--rm", *arguments, data=SOURCE).exit_code == 2 and (folder / "a.png").exists()


def test_rm_keeps_sources_whose_archive_goes_to_a_device(folder):
    grow(folder, ["in/a.png"])
    (folder / "set.dqc").symlink_to(os.devnull)
    assert run("compress", "in", "-o", "set.dqc", "--rm").exit_code == 2 and (folder / "in/a.png").exists()


def test_files_that_would_share_an_output_fail_alone(folder):
    grow(folder, ["in/a.jpg", "in/a.png", "in/b.png"])
    assert run("compress", "-r", "in", "--rm").exit_code == 0
    back = run("decompress", "-r", "in")
    assert back.exit_code == 1 and back.stderr.count("in/a.png would be the output of 2 inputs") == 2
    assert (folder / "in/b.png").exists() and not (folder / "in/a.png").exists()
    assert run("decompress", "in/a.jpg.dqc", "-o", "in/a").exit_code == run("decompress", "in/a.png.dqc").exit_code == 0


def test_force_replaces_no_other_input_of_the_same_command(folder):
    grow(folder, ["in/a.png", "in/a.png.dqc", "in/b.png"])
    packed = run("compress", "-r", "in", "-f", "--rm")
    assert packed.exit_code == 1 and "in/a.png: in/a.png.dqc would replace the input in/a.png.dqc" in packed.stderr
    assert tree(folder / "in") == ["a.png", "a.png.dqc.dqc", "b.png.dqc"]
    run("compress", "in/a.png", "-o", "c.dqc")
    grow(folder, ["c.dqc.dqc"], (folder / "c.dqc").read_bytes())
    assert run("decompress", "c.dqc.dqc", "c.dqc", "-f", "--rm").exit_code == 1
    assert (folder / "c").read_bytes() == SOURCE and not (folder / "c.dqc").exists() and (folder / "c.dqc.dqc").exists()
    assert run("decompress", "c.dqc.dqc").exit_code == 0 and (folder / "c.dqc").read_bytes() == SOURCE


def test_outputs_that_a_link_leads_to_one_file_fail_both(folder):
    grow(folder, ["d/x/a.png", "d/y/a.png", "d/b.png"])
    (folder / "p/y").mkdir(parents=True)
    (folder / "p/x").symlink_to("y")
    result = run("compress", "-r", "d", "-o", "p", "-f", "--rm")
    assert result.exit_code == 1 and result.stderr.count("/a.png.dqc would be the output of 2 inputs") == 2
    assert tree(folder / "d") == ["x/a.png", "y/a.png"] and tree(folder / "p") == ["b.png.dqc"]


@pytest.mark.parametrize("other", [SOURCE, OTHER])
@pytest.mark.parametrize("existed", [False, True])
def test_force_overwrites_no_output_of_the_same_command(folder, monkeypatch, existed, other):
    """A folder in which upper and lower case name the same file, as on some systems."""
    below = names.below
    monkeypatch.setattr("dqcodec.command.unpacking.below", lambda folder, name: below(folder, name.lower()))
    grow(folder, ["in/A.png"])
    grow(folder, ["in/a.png"], other)
    run("compress", "in", "-o", "set.dqc", "--group", 1)
    grow(folder, ["set/a.png"] if existed else [], b"old")
    ahead = [*Unpacking.plan(Job(Path("set.dqc"), Path("set")), Decompressing(force=True)).tasks()]
    result = run("decompress", "set.dqc", "-f", "--rm")
    assert result.exit_code == 1 and "a.png was not there before this command" in result.stderr
    assert (folder / "set.dqc").exists() and (folder / "set/a.png").read_bytes() == SOURCE
    assert all(result.error for task in ahead for result in task())


def test_force_overwrites_no_output_behind_a_link_that_comes_meanwhile(folder, monkeypatch):
    grow(folder, ["d/x/a.png"])
    grow(folder, ["d/y/a.png"], OTHER)
    (folder / "p/y").mkdir(parents=True)
    compress = codec.compress

    def link(*arguments, **options):
        Path("p/x").is_symlink() or Path("p/x").symlink_to("y")
        return compress(*arguments, **options)

    monkeypatch.setattr(codec, "compress", link)
    result = run("compress", "-r", "d", "-o", "p", "-f", "--rm")
    assert result.exit_code == 1 and "was not there before this command" in result.stderr
    assert tree(folder / "d") == ["y/a.png"] and len(tree(folder / "p")) == 1


def test_a_worker_of_a_cluster_overwrites_what_was_there_under_other_numbers(folder):
    grow(folder, ["a"], b"old")
    atomic.write(folder / "a", b"new", force=True, former=(-1, -1), may_repeat=True)
    assert (folder / "a").read_bytes() == b"new"
    with pytest.raises(FileExistsError, match="was not there before"):
        atomic.write(folder / "a", b"other", force=True, former=(), may_repeat=True)


def test_images_of_an_archive_that_would_share_a_file_fail_alone(folder):
    grow(folder, ["in/a", "in/a.png", "in/b.png"])
    assert run("compress", "in", "-o", "set.dqc").exit_code == 0
    result = run("decompress", "set.dqc", "--format", "ppm", "--json")
    told = {each.get("name"): each.get("error") for each in map(json.loads, result.stdout.splitlines())}
    assert (
        result.exit_code == 1 and "same .ppm file" in told["a"] and told["a"] == told["a.png"] and told["b.png"] is None
    )
    assert [path.name for path in (folder / "set").iterdir()] == ["b.ppm"]


def test_work_that_is_repeated_finds_its_own_output(folder):
    """A cluster repeats the work of a worker that was lost before its result came."""
    grow(folder, ["in/a.png", "in/b.png"])
    options = Compressing(max_pixels=99, cluster="tcp://host:8786")
    work = Work(functools.partial(compress_bytes, options=options), kinds.check_image, options)
    task = work.task(Job(Path("in/a.png"), Path("a.dqc")))
    (first,), (again,) = task(), task()
    assert first.error is None and again.error is None and again.report.dqc_bytes == first.report.dqc_bytes
    assert "exists (-f" in work.task(Job(Path("in/a.png"), Path("a.dqc")))()[0].error
    assert run("compress", "in", "-o", "set.dqc").exit_code == 0
    unpacking = Unpacking.plan(Job(Path("set.dqc"), Path("set")), Decompressing(cluster="tcp://host:8786"))
    (task,) = unpacking.tasks()
    assert task() == task() and all(result.error is None for result in task())


def test_a_file_that_is_only_checked_is_left_to_the_workers(folder):
    options = Decompressing(processes=2)
    work = Work(lambda data: (data, DecodedReport("mixing", len(data))), lambda start: None, options)
    task = work.task(Job(Path("a.dqc"), is_written=False))
    grow(folder, ["a.dqc"])
    (result,) = task()
    assert result.error is None and result.target is None


def test_an_archive_never_replaces_its_own_input(folder):
    grow(folder, ["in/a.png", "b.dqc", "c/set.dqc"])
    assert run("compress", "-f", "in", "b.dqc", "-o", "b.dqc").exit_code == 2
    assert (folder / "b.dqc").read_bytes() == SOURCE
    assert run("compress", "c", "-o", "set.dqc").exit_code == 0
    packed = (folder / "set.dqc").read_bytes()
    result = run("decompress", "-f", "set.dqc", "-o", ".")
    assert result.exit_code == 3 and "replace an input" in result.stderr and (folder / "set.dqc").read_bytes() == packed


def test_force_lets_no_archive_replace_another_input(folder):
    grow(folder, ["in/b.dqc", "in/c.png"])
    assert run("compress", "in", "-o", "set.dqc").exit_code == 0
    (folder / "set").mkdir()
    assert run("compress", "in/c.png", "-o", "set/b.dqc").exit_code == 0
    result = run("decompress", "-f", "set.dqc", "set/b.dqc")
    assert result.exit_code == 1 and "set/b.dqc would replace an input" in result.stderr
    assert tree(folder / "set") == ["b", "b.dqc", "c.png"] and (folder / "set/b").read_bytes() == SOURCE


def test_what_is_no_image_is_refused_by_its_first_bytes_and_what_is_too_large_by_its_size(folder):
    grow(folder, ["a.png", "c.png"], SOURCE)
    grow(folder, ["b.png", "t.dqc"], b"text")
    for name in ("b.png", "c.png", "t.dqc"):
        os.truncate(name, 1 << 40)
    result = run("compress", "b.png", "c.png", "a.png")
    assert result.exit_code == 1 and tree(folder) == ["a.png", "a.png.dqc", "b.png", "c.png", "t.dqc"]
    assert "b.png: not a PNG, BMP" in result.stderr and "c.png: it has 1099511627776 bytes, more than" in result.stderr
    for command in ("decompress", "verify", "list", "info"):
        refused = run(command, "t.dqc")
        assert refused.exit_code == 3 and refused.stderr == "dqcodec: t.dqc: not a .dqc file\n"


def test_the_output_of_a_folder_is_a_folder_even_for_one_file(folder):
    grow(folder, ["in/deep/a.png", "b.png"])
    assert (
        run("compress", "-r", "in", "-o", "out").exit_code
        == run("decompress", "-r", "out", "-o", "back").exit_code
        == 0
    )
    assert tree(folder / "out") == ["deep/a.png.dqc"] and tree(folder / "back") == ["deep/a.png"]
    run("compress", "in", "-o", "sets/s.dqc")
    assert run("decompress", "-r", "sets", "-o", "all").exit_code == 0 and tree(folder / "all") == ["s/deep/a.png"]
    for output in ("b.png", "-"):  # even with -f, no file of another run is replaced
        assert run("compress", "-r", "in", "-f", "-o", output).exit_code == 2
    assert (folder / "b.png").read_bytes() == SOURCE


def test_an_impossible_name_fails_its_own_file_only(folder):
    (folder / "loop").symlink_to("loop")
    name = "x" * 249 + ".png"  # with .dqc one byte too long
    grow(folder, [name, "a.png"])
    result = run("compress", name, "loop", "y" * 300, "a.png/b", "a.png")
    assert result.exit_code == 1 and (folder / "a.png.dqc").exists()
    *errors, _, total = result.stderr.splitlines()
    assert len(errors) == 4 and all(line.startswith("dqcodec: ") for line in errors) and total.endswith("4 failed")
    assert sum("File name too long" in line for line in errors) == 2
    assert (
        run("compress", "a.png", "-o", "z" * 256).exit_code
        == run("decompress", "a.png.dqc", "-o", "z" * 256).exit_code
        == 3
    )


@pytest.mark.parametrize("arguments", [["in", "-o", "in/set.dqc", "--others", "keep"], ["-r", "in"]])
def test_files_that_are_being_written_are_left_out_of_a_folder(folder, arguments):
    left = ".set.dqc.4194305-01234567.tmp"  # of a process that was killed: no system gives such a number
    grow(folder, ["in/a.png", f"in/{left}", f"in/.b.png.{os.getpid()}-01234567.tmp"])
    told = run("compress", *arguments)
    assert told.exit_code == 0 and told.stderr.endswith(", 2 left out (temporary file: 2)\n")
    assert (folder / "in" / left).exists() == (arguments[0] == "-r")


@pytest.mark.parametrize("command", [["compress"], ["decompress"], ["verify"]])
def test_an_empty_name_is_not_the_current_folder(folder, command):
    grow(folder, ["a.png"])
    told = run(*command, "-r", "")
    assert told.exit_code == 2 and "an input has no name" in told.stderr and tree(folder) == ["a.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compress", "a.png", "-o", "new/out.png"], "new/out.png: the output is a .dqc file; name it new/out.png.dqc"),
        (["decompress", "a.dqc", "-o", "new/c.bmp"], "c.bmp: the output is a PNG file; name it .png, or give --format bmp"),
        (["decompress", "a.dqc", "-o", "new/c.JPG"], "c.JPG: the output is a PNG file; name it .png\n"),
        (["decompress", "a.dqc", "--format", "ppm", "-o", "new/o.png"], "the output is a PPM file; name it .ppm, or give"),
        (["decompress", "set.dqc", "-o", "new/x.png"], "new/x.png: the output is a folder; name it without .png"),
        (["compress", "a.png", "in/b.png", "-o", "new/x.png"], "the output is a folder; name it without .png"),
        (["compress", "a.png", "in/b.png", "-o", "-"], "standard output takes one file, not 2 files: give a folder"),
        (["decompress", "set.dqc", "-o", "-"], "set.dqc is an archive: give a folder with -o, or leave out -o"),
        (["compress", "in"], "in is a folder: -r compresses each file in it, -o in.dqc makes one archive"),
        (["info", "in"], "in is a folder: -r takes the files in it"),
        (["list", "in"], "in is a folder: -r takes the files in it"),
        (["compress", "a.png", "-q", "-v"], "-q and -v exclude each other"),
        (["compress", "a.png", "--learn", "9s"], "--learn is for archives: give a folder or several files, and -o FILE.dqc"),
        (["decompress", "a.dqc", "--crop", "0x10+0+0"], "the region 0x10+0+0 has no pixels"),
        (["compress", "in/b.png", "in/b.bmp", "-o", "new.dqc"], "would both be b.png in the archive: rename one of them"),
        (["compress", "in/b.png", "b.png", "-o", "new.dqc"], "would both be b.png in the archive: give a folder that"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_any_work_with_what_to_do(folder, arguments, message):
    grow(folder, ["a.png", "b.png", "in/b.png"])
    Image.new("L", (3, 2)).save("in/b.bmp")
    run("compress", "a.png", "-o", "a.dqc")
    run("compress", "a.png", "b.png", "-o", "set.dqc")
    before = tree(folder)
    told = run(*arguments)
    assert told.exit_code == 2 and message in told.stderr and tree(folder) == before


def test_names_with_the_right_suffix_or_none_of_an_image_are_taken(folder):
    grow(folder, ["a.png"])
    (folder / "a.jpg").mkdir()  # a folder may have any name
    assert run("compress", "a.png", "-o", "a.1").exit_code == run("compress", "a.png", "-o", "a.jpg").exit_code == 0
    for name in ("b.PNG", "b.apng", "b", "b.raw"):
        assert run("decompress", "a.1", "-o", name).exit_code == 0 and (folder / name).read_bytes() == SOURCE


@pytest.mark.parametrize(
    ("command", "name", "message"),
    [
        ("decompress", "a.png", "a.png: it is a PNG file, not a .dqc file; `compress` makes one"),
        ("compress", "a.dqc", "a.dqc: it is a .dqc file already; `decompress` reads it"),
    ],
)
def test_a_file_of_the_other_kind_leads_to_the_other_command(folder, command, name, message):
    grow(folder, ["a.png"])
    run("compress", "a.png", "-o", "a.dqc")
    told = run(command, name, "-o", "out")
    assert told.exit_code == 3 and told.stderr == f"dqcodec: {message}\n"


def test_fast_refuses_a_model_that_is_not_small(folder, monkeypatch):
    grow(folder, ["a.png"])
    cards = {"big": {"multiplications_per_pixel": 64032}, "small": {"multiplications_per_pixel": 31616}, "own": {}}
    programs = {name: SimpleNamespace(card=card, fits=lambda shape: False) for name, card in cards.items()}
    monkeypatch.setattr(zoo, "load", programs.__getitem__)
    monkeypatch.setattr(zoo, "locate", Path)
    monkeypatch.setattr(zoo, "names", lambda: [*cards])
    told = run("compress", "a.png", "--fast", "-m", "big")
    assert told.exit_code == 2 and "big is none: leave out --fast or -m big" in told.stderr
    for options in (["--fast"], ["--fast", "-m", "small"], ["--fast", "-m", "own"], ["-m", "big"]):
        assert run("compress", "a.png", "-f", *options).exit_code == 0


def test_an_error_that_begins_with_the_files_name_has_it_once(folder):
    grow(folder, ["in/a.png", "set.dqc"])
    assert run("compress", "in", "-o", "set.dqc").stderr == "dqcodec: set.dqc exists (-f overwrites it)\n"


def test_totals_say_what_becomes_of_the_bytes(folder):
    grow(folder, ["a.png", "b.png", "in/c.png", "in/d.png"])
    size = 2 * len(SOURCE)
    assert f"\n2 files, {size} -> {size + 20} B 1" in run("compress", "a.png", "b.png").stderr
    assert run("verify", "a.png.dqc", "b.png.dqc").stderr.endswith(f"\n2 files ok, {size + 20} -> {size} B\n")
    run("compress", "in", "-o", "set.dqc")
    assert run("verify", "set.dqc", "a.png.dqc", "b.png.dqc").stderr.endswith("\n4 images in 3 files ok\n")


def test_list_and_info_take_folders(folder):
    grow(folder, ["in/a.png", "in/b/c.png"])
    run("compress", "-r", "in", "-o", "out/")
    for command in ("list", "info"):
        told = run(command, "-r", "out")
        assert told.exit_code == 0 and "out/a.png.dqc" in told.stdout and "out/b/c.png.dqc" in told.stdout
        nothing = run(command, "-r", "in")
        assert nothing.exit_code == 3 and nothing.stderr == "0 files, 2 left out (not a .dqc file: 2)\n"


def test_info_says_in_words_whether_the_file_comes_back_byte_for_byte(folder):
    grow(folder, ["a.png"])
    run("compress", "a.png", "-o", "a.dqc")
    assert "\n  exact          yes: the PNG file byte for byte\n" in run("info", "a.dqc").stdout
    assert "rasters" not in run("info", "a.dqc").stdout
    assert json.loads(run("info", "--json", "a.dqc").stdout)["rasters"] == 1


def test_wrong_usage_is_told_on_one_line_and_escaped(folder):
    grow(folder, ["x\n\x1b[31m/a.png"])
    told = run("compress", "x\n\x1b[31m")
    assert told.exit_code == 2 and r"Error: x\n\x1b[31m is a folder: -r compresses each file" in told.stderr


def test_empty_files_are_called_empty(folder):
    grow(folder, ["a.png", "b.dqc"], b"")
    told = [run("compress", "a.png"), *(run(command, "b.dqc") for command in ("decompress", "verify", "list", "info"))]
    assert all(each.exit_code == 3 and "the file is empty" in each.stderr for each in told)


@pytest.mark.parametrize("command", ["compress", "decompress"])
def test_an_output_needs_a_name(folder, command):
    grow(folder, ["a.png"])
    result = run(command, "a.png", "-o", "")
    assert result.exit_code == 2 and "no name" in result.stderr


def test_info_escapes_names(folder):
    name = "\x1b[2J.dqc"
    grow(folder, ["a.png"])
    run("compress", "a.png", "-o", name)
    assert "\x1b" not in run("info", name).stdout and "\\x1b[2J.dqc\n" in run("info", name).stdout


@pytest.fixture
def piped():
    """A path from which data can be read once, as `<(cat FILE)` gives."""
    ends = []

    def pipe(data):
        reader, writer = os.pipe()
        ends.append(reader)
        os.write(writer, data)
        os.close(writer)
        return f"/dev/fd/{reader}"

    yield pipe
    for reader in ends:
        os.close(reader)


def test_streams_are_read_once(folder, piped):
    grow(folder, ["a.png"])
    run("compress", "a.png")
    packed = (folder / "a.png.dqc").read_bytes()
    assert run("decompress", piped(packed)).stdout_bytes == SOURCE
    assert run("decompress", piped(packed), "-o", "out").exit_code == 0 and (folder / "out").read_bytes() == SOURCE
    assert run("decompress", "/dev/stdin", "-o", "/dev/stdout", data=packed).stdout_bytes == SOURCE
    assert run("compress", piped(SOURCE)).stdout_bytes == packed
    several = run("verify", piped(packed), "-", "a.png.dqc", data=packed)
    assert several.exit_code == 0 and several.stderr.count(" ok (stored)\n") == 3


def test_pipes_and_devices_are_inputs_and_outputs(folder):
    grow(folder, ["a.png"])
    os.mkfifo("pipe")
    run("compress", "a.png")
    for command in (
        "cat a.png.dqc > pipe & $dqcodec decompress pipe -o /dev/fd/1 > out",
        "$dqcodec decompress a.png.dqc -o pipe & cat pipe > out",
    ):
        result = shell(command)
        assert result.returncode == 0 and (folder / "out").read_bytes() == SOURCE, (command, result.stderr)
    assert run("compress", "a.png", "-o", os.devnull).exit_code == 0
    assert run("compress", "a.png", "a.png.dqc", "-o", os.devnull).exit_code == 2


def test_pipes_do_not_go_into_an_archive_and_are_not_read(folder, piped):
    grow(folder, ["a.png"])
    pipe = piped(SOURCE)
    for arguments in (["a.png", pipe], ["a.png", "-"]):
        told = run("compress", *arguments, "-o", "set.dqc", "-f")
        assert told.exit_code == 2 and "does not go into an archive" in told.stderr
    assert Path(pipe).read_bytes() == SOURCE and not (folder / "set.dqc").exists()


def test_an_archives_images_do_not_go_into_pipes(folder):
    grow(folder, ["in/a.png", "in/b.png"])
    run("compress", "in", "-o", "set.dqc")
    (folder / "set").mkdir()
    os.mkfifo("set/a.png")
    told = run("decompress", "set.dqc", "--rm", "-f")
    assert told.exit_code == 1 and "set/a.png is a pipe or a device" in told.stderr and (folder / "set.dqc").exists()


def test_archives_are_read_from_streams(folder):
    grow(folder, ["in/a.png", "in/b.png"])
    run("compress", "in", "-o", "set.dqc")
    packed = (folder / "set.dqc").read_bytes()
    assert run("list", "-", data=packed).stdout.count(".png\n") == 2
    assert json.loads(run("info", "-", "--json", data=packed).stdout)["images"] == 2
    assert run("verify", "-", data=packed).stderr == "<stdin>: 2 images ok\n"
    assert run("decompress", "-", "-o", "out", "--only", "b*", data=packed).exit_code == 0 and tree(folder / "out") == [
        "b.png"
    ]
    nowhere = run("decompress", "-", data=packed)
    assert nowhere.exit_code == 3 and "give a folder with -o" in nowhere.stderr
    run("compress", "in/a.png", "-o", "a.dqc")
    assert run("list", "-", data=(folder / "a.dqc").read_bytes()).stdout.split()[-3] == "<stdin>"
    assert run("info", "-", data=packed).stdout.startswith("<stdin>\n")


def test_work_goes_on_with_closed_or_full_standard_streams(folder):
    grow(folder, ["a.png", "b.png"])
    for number, streams in enumerate(["2> /dev/full", "<&- >&- 2>&-"]):
        result = shell(f"$dqcodec compress a.png missing.png b.png -o {number}/ {streams}")
        assert (
            result.returncode == 1 and result.stderr == b"" and tree(folder / str(number)) == ["a.png.dqc", "b.png.dqc"]
        )
    for command in (
        "compress - -o x <&-",
        "compress a.png -o - >&-",
        "info 0/a.png.dqc > /dev/full",
        "--help > /dev/full",
        "compress --help > /dev/full",
    ):
        result = shell(f"$dqcodec {command}")
        assert result.returncode in (1, 3) and result.stderr.count(b"\n") == 1, (command, result.stderr)


@pytest.mark.parametrize("command", ["info", "info --json", "list", "verify --json"])
def test_a_failure_of_standard_output_is_blamed_on_no_file(folder, command):
    grow(folder, ["a.png"])
    run("compress", "a.png")
    full = shell(f"$dqcodec {command} a.png.dqc > /dev/full")
    assert full.returncode == 1 and full.stderr == b"dqcodec: standard output: No space left on device\n"
    assert shell(f"$dqcodec {command} a.png.dqc | true").stderr == b""


def test_an_output_that_cannot_be_written_is_named_beside_its_source(folder):
    grow(folder, ["a.png", "file"])
    cases = {"file/b": "Not a directory", "/dev/full": "No space left on device", "x" * 300: "File name too long"}
    for target, reason in cases.items():
        assert run("compress", "a.png", "-o", target).stderr == f"dqcodec: a.png: cannot write {target}: {reason}\n"
    full = shell("$dqcodec compress a.png -o - > /dev/full")
    assert full.stderr == b"dqcodec: a.png: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "a.png", "--map", "a.png"],
        ["inspect", "a.png", "-o", "link.png"],
        ["bench", "--codec", "png", ".", "-o", "a.png"],
        ["bench", "--codec", "png", "a.png", "--markdown", "./a.png"],
    ],
)
def test_no_command_overwrites_its_own_input(folder, arguments):
    grow(folder, ["a.png"])
    (folder / "link.png").symlink_to("a.png")
    result = run(*arguments, "-f")
    assert result.exit_code == 2 and "would replace its own input" in result.stderr
    assert (folder / "a.png").read_bytes() == SOURCE


@pytest.mark.parametrize(
    "arguments",
    [
        ["compress", "a.png", "-m", MODEL, "-o", "link"],
        ["compress", "in", "-m", f"./{MODEL}", "-o", "link.dqc"],
        ["decompress", "a.dqc", "-m", MODEL, "-o", MODEL],
        ["inspect", "a.png", "-m", MODEL, "--map", MODEL],
        ["sample", MODEL, "-o", MODEL],
        ["bench", "--codec", "png", "a.png", "-m", MODEL, "-o", MODEL],
    ],
)
def test_no_command_overwrites_a_model_that_it_uses(folder, monkeypatch, arguments):
    grow(folder, ["a.png", "in/b.png", "a.dqc", MODEL])
    for link in ("link", "link.dqc"):
        (folder / link).symlink_to(MODEL)
    monkeypatch.setattr(zoo, "load", lambda name: None)
    result = run(*arguments, "-f")
    assert result.exit_code == 2 and "would replace a model" in result.stderr
    assert (folder / MODEL).read_bytes() == SOURCE


def test_no_archive_replaces_a_model_that_decompress_was_given(folder):
    grow(folder, [f"in/{MODEL}", "in/c.png", MODEL])
    assert run("compress", "in", "--others", "keep", "-o", "set.dqc").exit_code == 0
    (folder / "in" / MODEL).unlink()
    (folder / MODEL).write_bytes(b"a model")
    result = run("decompress", "-f", "set.dqc", "-m", MODEL, "-o", ".")
    assert result.exit_code == 1 and f"{MODEL} would replace an input or a model" in result.stderr
    assert (folder / MODEL).read_bytes() == b"a model" and (folder / "c.png").exists()


def test_inspect_does_not_write_its_page_and_its_map_to_one_place(folder):
    grow(folder, ["a.png"])
    for output, place in (("-", "-"), ("x", "./x")):
        result = run("inspect", "a.png", "-o", output, "--map", place)
        assert result.exit_code == 2 and "need different files" in result.stderr and tree(folder) == ["a.png"]


def test_a_working_folder_that_was_removed_is_named(folder):
    result = shell("mkdir gone && cd gone && rmdir ../gone && $dqcodec compress a.png")
    assert result.stderr == b"dqcodec: the working folder: No such file or directory\n"


def test_a_file_that_is_named_twice_is_verified_once(folder):
    grow(folder, ["in/a.png", "in/b.png"])
    run("compress", "in", "-o", "set.dqc")
    assert run("verify", "set.dqc", "set.dqc").stderr == "set.dqc: 2 images ok\n"


def test_the_results_of_a_run_are_sorted_by_source():
    results = [FileResult(source, name=str(number)) for number in range(3) for source in ("a.dqc", "b.dqc")]
    runs = RunReport(results).by_source()
    assert {source: run.results for source, run in runs.items()} == {"a.dqc": results[::2], "b.dqc": results[1::2]}


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_names_that_the_locale_cannot_encode_are_escaped_and_kept(folder, variables):
    names = sorted([os.fsencode("\u00e9.png"), b"\xff.png"])
    for name in names:
        grow(folder / "in", [os.fsdecode(name)])
    result = shell(
        "$dqcodec compress in -o set.dqc && $dqcodec list set.dqc && $dqcodec decompress set.dqc -v",
        LC_ALL="C",
        **variables,
    )
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(os.fsencode(folder / "set"))) == names
    assert run("list", "set.dqc").stdout.count("\u00e9.png") == 1  # the archive does not depend on the locale


def test_the_lines_of_an_archive_say_what_a_file_was_and_its_bpd(folder):
    grow(folder, ["in/a.png"])
    (folder / "in/notes.txt").write_text("notes")
    told = run("compress", "in", "-o", "set.dqc", "--others", "keep", "--json")
    image, notes, _ = map(json.loads, told.stdout.splitlines())
    assert image["is_png"] and image["bpd"] == 8 * image["dqc_bytes"] / image["dims"]
    assert not notes["is_png"] and "bpd" not in notes


def test_a_time_that_the_file_system_holds_comes_back(folder):
    time = 13_569_465_600 * 10**9  # in 2400
    grow(folder, ["a.png"])
    with contextlib.suppress(OverflowError, OSError):
        os.utime("a.png", ns=(time, time))
    assert run("compress", "a.png").exit_code == 0
    assert os.stat("a.png.dqc").st_mtime_ns == os.stat("a.png").st_mtime_ns
    assert "done before: 1" in run("compress", "-u", "a.png").stderr


def test_a_locked_temporary_file_is_not_removed(folder):
    fcntl = pytest.importorskip("fcntl")
    grow(folder, ["a.png"])
    names = [f".a.png.dqc.{os.getpid()}-{number:08x}.tmp" for number in range(2)]
    for name in names:
        (folder / name).touch()
    temporary._leftovers.cache_clear()
    with open(names[0], "rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run("compress", "a.png").exit_code == 0
        assert [(folder / name).exists() for name in names] == [True, False]
