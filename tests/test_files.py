import os
import stat
import sys
from pathlib import Path

import pytest

from dqcodec.command import files
from dqcodec.command.files import Job


def plan(sources, output=None, **options):
    return files.plan([str(source) for source in sources], output and str(output), files.compressed_name, **options)


@pytest.mark.parametrize(
    "name, restored",
    [("a.png.dqc", "a.png"), ("a.PNG.dqc", "a.PNG"), ("a.dqc", "a.png"), ("a", "a.png"), ("a.png", "a.png.png"),
     ("a.bmp.dqc", "a.png"), ("a.b.dqc", "a.b.png"), ("a.JPG.dqc", "a.png")],
)
def test_decompressed_names(name, restored):
    assert files.decompressed_name(Path(name)) == restored


@pytest.mark.parametrize("name, restored", [("a.png.dqc", "a.ppm"), ("a.PPM.dqc", "a.PPM"), ("a.dqc", "a.ppm")])
def test_decompressed_names_of_other_formats(name, restored):
    assert files.decompressed_name(Path(name), ".ppm") == restored


def test_outputs_stand_beside_inputs_or_where_o_says(tmp_path):
    a, b = Path("x/a.png"), Path("y/b.png")
    assert plan([a, b]) == [Job(a, Path("x/a.png.dqc")), Job(b, Path("y/b.png.dqc"))]
    assert plan([a], tmp_path) == [Job(a, tmp_path / "a.png.dqc")]
    assert plan([a, b], tmp_path / "new") == [Job(a, tmp_path / "new/a.png.dqc"), Job(b, tmp_path / "new/b.png.dqc")]
    assert plan([a], tmp_path / "c.dqc") == [Job(a, tmp_path / "c.dqc")]
    assert plan([a], "new/") == [Job(a, Path("new/a.png.dqc"))]
    assert plan(["-"]) == [Job(None, None)] and plan([a], "-") == [Job(a, None)]
    assert plan(["-"], "c.dqc") == [Job(None, Path("c.dqc"))]


def test_recursion_mirrors_trees(tmp_path):
    for name in ("a.png", "in/b.PNG", "in/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    jobs = plan([tmp_path], "out", recursive=True, suffix=".png")
    assert [job.target for job in jobs] == [Path("out/a.png.dqc"), Path("out/in/b.PNG.dqc")]


def test_what_is_no_regular_file_in_a_tree_is_left_out(tmp_path):
    for name in ("tree/a.png", "outside/b.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / "tree/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "tree/file.png").symlink_to(tmp_path / "outside/b.png")
    (tmp_path / "tree/text").symlink_to(tmp_path / "outside/b.png")
    os.mkfifo(tmp_path / "tree/pipe.png")
    skipped = []
    jobs = plan([tmp_path / "tree"], recursive=True, suffix=".png", skip=lambda path: skipped.append(path.name))
    assert [job.source.name for job in jobs] == ["a.png"] and skipped == ["file.png", "folder", "pipe.png"]
    assert [job.source.name for job in plan([tmp_path / "tree/file.png"])] == ["file.png"]


def test_names_in_an_archive_are_relative_sorted_and_all_different(tmp_path):
    for name in ("one/b.png", "one/a/c.png", "one/a-c.png", "two/b.png", "three/b.png/x.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    planned = files.plan_archive([one, "x/d.bmp"], ".png")
    assert [name for _, name in planned] == ["a-c.png", "a/c.png", "b.png", "d.png"]
    assert planned[3] == (Path("x/d.bmp"), "d.png")
    for sources in ([one, two], ["x/d.bmp", "d.png"], [one, three], ["-", one]):
        with pytest.raises(ValueError):
            files.plan_archive(sources, ".png")


def test_what_makes_an_archive(tmp_path):
    folder = str(tmp_path)
    assert files.is_for_archive([folder], "x.dqc") and files.is_for_archive(["a", "b"], "x.dqc")
    for sources, output in [(["a"], "x.dqc"), ([folder], None), ([folder], "x"), ([folder], "-")]:
        assert not files.is_for_archive(sources, output)
    (tmp_path / "x.dqc").mkdir()
    assert not files.is_for_archive([folder], str(tmp_path / "x.dqc"))


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a/..", "a//b", "a/./b", ".", "a/"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(OSError):
        files.below(tmp_path, name)


def test_what_lies_below_a_folder_is_not_reached_through_links(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    (tmp_path / "real/inside").symlink_to("elsewhere")
    (tmp_path / "real/dangling.png").symlink_to("nothing")
    assert files.below(tmp_path / "out", "a/b.png") == tmp_path / "out/a/b.png"
    for name in ("inside/b.png", "dangling.png"):
        with pytest.raises(OSError, match="symbolic link"):
            files.below(tmp_path / "out", name)


def test_a_file_that_changed_after_it_was_read_is_not_removed(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x")
    _, stamp = files.read(path)
    os.utime(path, ns=(0, stamp.mtime_ns + 1))
    with pytest.raises(OSError, match="changed"):
        files.remove(path, stamp)
    os.utime(path, ns=(0, stamp.mtime_ns))
    files.remove(path, stamp)
    assert not path.exists()


def test_impossible_times_do_not_keep_a_file_from_being_written(tmp_path):
    files.write(tmp_path / "a", b"x", stamp=files.Stamp(0o644, 1 << 80))
    assert (tmp_path / "a").read_bytes() == b"x"


def test_plans_without_one_output_for_each_input_are_refused(tmp_path):
    (tmp_path / "file").touch()
    for sources, output in [
        (["x/a.png", "y/a.png"], tmp_path),
        (["a.png", "b.png"], "-"),
        (["a.png", "b.png"], tmp_path / "file"),
        (["-", "-"], None),
        (["a.png"], "./a.png"),
        ([tmp_path], None),
    ]:
        with pytest.raises(ValueError):
            plan(sources, output)


def test_write_keeps_mode_and_time_and_makes_directories(tmp_path):
    source, target = tmp_path / "a", tmp_path / "deep/er/b"
    source.write_bytes(b"x")
    source.chmod(0o640)
    os.utime(source, (1_000_000_000, 1_000_000_000))
    data, stamp = files.read(source)
    files.write(target, data * 4, stamp=stamp)
    status = target.stat()
    assert target.read_bytes() == b"xxxx"
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o640, 1_000_000_000)


def test_write_overwrites_only_with_force_and_only_regular_files(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        files.write(target, b"new")
    assert target.read_bytes() == b"old"
    files.write(target, b"new", force=True)
    assert target.read_bytes() == b"new"
    for special in (tmp_path, Path(os.devnull)):
        with pytest.raises(FileExistsError):
            files.write(special, b"new", force=True)


def test_write_follows_links(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    files.write(tmp_path / "link", b"new", force=True)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch, step, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        files.write(tmp_path / "a", b"data")
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_neither_read_nor_written(monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(OSError, match="terminal"):
        files.read(None)
    with pytest.raises(OSError, match="terminal"):
        files.check_target(None, force=True)
