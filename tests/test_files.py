import os
import stat
import sys
from pathlib import Path

import pytest

from dqcodec import files
from dqcodec.files import Job


def plan(sources, output=None, **options):
    return files.plan([str(source) for source in sources], output and str(output), files.compressed_name, **options)


@pytest.mark.parametrize(
    "name, restored",
    [("a.png.dqc", "a.png"), ("a.PNG.dqc", "a.PNG"), ("a.dqc", "a.png"), ("a", "a.png"), ("a.png", "a.png.png")],
)
def test_decompressed_names(name, restored):
    assert files.decompressed_name(name) == restored


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
    files.write(target, b"data", like=source)
    status = target.stat()
    assert target.read_bytes() == b"data"
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
