import contextlib
import dataclasses
import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pngs
import pytest

from dqcodec import png
from dqcodec.base.errors import UnsupportedImageError
from dqcodec.codec.region import Region
from dqcodec.command import atomic, kinds, names, reading, removal, walk
from dqcodec.command import plan as plans
from dqcodec.command.kinds import DQC, PNG
from dqcodec.command.options import Decompressing
from dqcodec.command.plan import Job
from dqcodec.command.stamp import Stamp
from dqcodec.png import chunks

IMAGE = PNG.starts[0]


def find(sources, recursive=False):
    return walk.find([str(source) for source in sources], recursive, PNG)


def plan(sources, output=None, recursive=False):
    return plans.plan(
        find(sources, recursive), output if output is None else str(output), names.compressed_name, names.check_dqc_name
    )


def plan_archive(sources, target="x.dqc", **options):
    return plans.plan_archive(find(sources, recursive=True), Path(target), **options)


@pytest.fixture
def no_root(monkeypatch):
    """A context in which permissions hold, in a folder that becomes the current one."""

    @contextlib.contextmanager
    def dropped(folder):
        monkeypatch.chdir(folder)
        if os.geteuid() != 0:
            yield
            return
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return dropped


def grow(folder, *paths, data=IMAGE):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


@pytest.mark.parametrize(
    "name, restored",
    [("a.png.dqc", "a.png"), ("a.PNG.dqc", "a.PNG"), ("A.PNG.DQC", "A.PNG"), ("a.apng.dqc", "a.apng"),
     ("a.dqc", "a"), ("a.b.dqc", "a.b"), ("a.dqc.dqc", "a.dqc"), (".png.dqc", ".png"), (".hidden.dqc", ".hidden"),
     (".jpg.dqc", ".jpg"), ("a.bmp.dqc", "a.png"), ("a.JPG.dqc", "a.png"), ("a", "a.png"), ("a.png", "a.png.png"),
     (".dqc", ".dqc.png"), ("..dqc", "..dqc.png"), ("...dqc", "...dqc.png")],
)  # fmt: skip
def test_decompress_gives_back_the_whole_name_unless_it_is_of_another_format(name, restored):
    assert names.decompressed_name(name) == restored


@pytest.mark.parametrize(
    "name, restored", [("a.png.dqc", "a.ppm"), ("a.PPM.dqc", "a.PPM"), ("a.dqc", "a.ppm"), ("a.b.dqc", "a.b.ppm")]
)
def test_decompress_names_the_file_after_its_format(name, restored):
    assert names.decompressed_name(name, ".ppm") == restored


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a", "a.b", ".png", "a.4x3+1+2.png"])
@pytest.mark.parametrize("format", names.FORMATS)
def test_a_part_never_has_the_name_of_the_whole(name, format):
    options = Decompressing(crop=Region.parse("4x3+1+2"), format=format)
    assert names.decompressed_name(name + ".dqc", options.ending).endswith(f".4x3+1+2.{format}")
    assert names.decompressed_name(name + ".dqc", options.ending) not in (name, names.png_name(name))


def test_outputs_go_beside_inputs_or_to_the_output_option(tmp_path):
    a, b = Path("x/a.png"), Path("y/b.png")
    assert plan([a, b]) == [Job(a, Path("x/a.png.dqc")), Job(b, Path("y/b.png.dqc"))]
    assert plan([a], tmp_path) == [Job(a, tmp_path / "a.png.dqc")]
    assert plan([a, b], tmp_path / "new") == [Job(a, tmp_path / "new/a.png.dqc"), Job(b, tmp_path / "new/b.png.dqc")]
    assert plan([a], tmp_path / "c.dqc") == [Job(a, tmp_path / "c.dqc")]
    assert plan([a], "new/") == [Job(a, Path("new/a.png.dqc"))]
    assert plan(["-"]) == [Job(None, None)] and plan([a], "-") == [Job(a, None)]
    assert plan(["-"], "c.dqc") == [Job(None, Path("c.dqc"))]


def test_the_image_of_standard_input_is_a_png(tmp_path):
    out = str(tmp_path) + os.sep
    (there,) = plans.plan(walk.find(["-"], False, PNG), out, names.compressed_name, names.check_dqc_name)
    (back,) = plans.plan(
        walk.find(["-"], False, DQC), out, lambda source: names.decompressed_name(source.name), names.check_image_name
    )
    assert (there.target.name, back.target.name) == ("stdin.png.dqc", "stdin.png")
    assert names.decompressed_name(there.target.name) == "stdin.png"


def test_targets_of_a_folder_lie_in_the_same_tree(tmp_path):
    grow(tmp_path, "a.png", "in/b.PNG")
    grow(tmp_path, "in/c.txt", data=b"text")
    jobs = plan([tmp_path], "out", recursive=True)
    assert [job.target for job in jobs] == [Path("out/a.png.dqc"), Path("out/in/b.PNG.dqc")]


def test_pngs_in_a_tree_are_known_by_their_signature_or_claim_to_be_ones_and_start_as_no_other_image(tmp_path):
    taken = [".png", "a.apng", "b", "c.jpg", "in/.hidden"]
    grow(tmp_path, *taken)
    grow(tmp_path, "broken.png", "broken.APNG", data=b"no PNG")
    grow(tmp_path, "d.jpg", "e.webp", "in/text", "in/empty", data=b"")
    grow(tmp_path, "photo.png", data=b"\xff\xd8\xff\xe0 a JPEG file")
    found = find([tmp_path], recursive=True)
    assert [str(relative) for _, relative in found.inputs] == sorted([*taken, "broken.png", "broken.APNG"])
    assert [str(relative) for _, relative in found.others] == ["d.jpg", "e.webp", "in/empty", "in/text", "photo.png"]
    assert {reason for _, reason in found.not_taken} == {"not a PNG file"} and len(found.not_taken) == 5


def test_what_is_no_regular_file_in_a_tree_is_left_out_with_its_reason(tmp_path):
    grow(tmp_path, "tree/a.png", "outside/b.png")
    (tmp_path / "tree/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "tree/file.png").symlink_to(tmp_path / "outside/b.png")
    (tmp_path / "tree/loop").symlink_to("loop")
    (tmp_path / "tree/none").mkdir()
    os.mkfifo(tmp_path / "tree/pipe.png")
    found = find([tmp_path / "tree"], recursive=True)
    assert [relative.name for _, relative in found.inputs] == ["a.png"] and not found.others
    assert [(path.name, reason) for path, reason in found.left_out] == [
        ("file.png", walk.LINK), ("folder", walk.LINK), ("loop", walk.LINK), ("none", walk.EMPTY), ("pipe.png", walk.SPECIAL),
    ]  # fmt: skip
    assert [job.source.name for job in plan([tmp_path / "tree/file.png"])] == ["file.png"]


def test_an_unreadable_folder_is_an_input_that_fails(tmp_path, no_root):
    grow(tmp_path, "tree/in/a.png", "tree/in/text", "tree/b.png", "tree/c")
    (tmp_path / "tree/in").chmod(0o600)
    (tmp_path / "tree/c").chmod(0)
    with no_root(tmp_path):
        found = find(["tree"], recursive=True)
        assert [str(relative) for _, relative in found.inputs] == ["b.png", "c", "in/a.png", "in/text"]
        for source, _ in (found.inputs[1], found.inputs[2], found.inputs[3]):
            with pytest.raises(PermissionError):
                reading.read(source)
        Path("tree").chmod(0)
        (job,) = plan(["tree"], "out/", recursive=True)
        with pytest.raises(PermissionError):
            reading.read(job.source)
        Path("tree").chmod(0o700)


def test_symbolic_links_that_lead_nowhere_fail_when_they_are_read(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (job,) = plan([tmp_path / "loop"])
    with pytest.raises(OSError):
        reading.read(job.source)


def test_names_in_an_archive_are_relative_sorted_and_all_different(tmp_path):
    grow(tmp_path, "one/b.png", "one/a/c.png", "one/a-c.png", "two/b.png", "three/b.png/x.png")
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    images = plan_archive([one, "x/d.bmp"])
    assert [name for _, name in images] == ["a-c.png", "a/c.png", "b.png", "d.png"]
    assert images[3] == (Path("x/d.bmp"), "d.png")
    for sources, message in (
        ([one, two], f"{one}/b.png and {two}/b.png would both be b.png in the archive"),
        (["x/d.bmp", "d.png"], "x/d.bmp and d.png would both be d.png in the archive"),
        ([three, one], "b.png would be a file and a folder in the archive"),
        (["-", one], "standard input does not go into an archive"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            plan_archive(sources)


def test_other_files_go_into_an_archive_if_they_are_to_be_kept(tmp_path):
    grow(tmp_path, "in/a.jpg", "in/b")
    grow(tmp_path, "in/c.jpg", "in/deep/d.txt", data=b"no PNG")
    assert [name for _, name in plan_archive([tmp_path / "in"])] == ["a.jpg", "b"]
    assert [name for _, name in plan_archive([tmp_path / "in"], keep_others=True)] == [
        "a.jpg",
        "b",
        "c.jpg",
        "deep/d.txt",
    ]


def test_nothing_replaces_its_own_input(tmp_path):
    grow(tmp_path, "in/a.png", "in/set.dqc", "b.dqc", data=IMAGE)
    (tmp_path / "link.dqc").symlink_to("b.dqc")
    os.link(tmp_path / "b.dqc", tmp_path / "other.dqc")
    for sources, target in [
        (["in"], "in/set.dqc"),
        (["in/a.png", "b.dqc"], "link.dqc"),
        (["in/a.png", "b.dqc"], "other.dqc"),
    ]:
        with pytest.raises(ValueError, match="own input"):
            plan_archive([tmp_path / source for source in sources], tmp_path / target)
    with pytest.raises(ValueError, match="own input"):
        plan([tmp_path / "b.dqc"], tmp_path / "link.dqc")


def test_a_folder_or_several_files_and_a_dqc_output_make_an_archive(tmp_path):
    folder = str(tmp_path)
    assert plans.is_for_archive([folder], "x.dqc") and plans.is_for_archive(["a", "b"], "x.dqc")
    for sources, output in [(["a"], "x.dqc"), ([folder], None), ([folder], "x"), ([folder], "-")]:
        assert not plans.is_for_archive(sources, output)
    (tmp_path / "x.dqc").mkdir()
    assert not plans.is_for_archive([folder], str(tmp_path / "x.dqc"))


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a/..", "a//b", "a/./b", ".", "a/"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(OSError):
        names.below(tmp_path, name)


def test_what_lies_below_a_folder_is_not_reached_through_links(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    (tmp_path / "real/inside").symlink_to("elsewhere")
    (tmp_path / "real/dangling.png").symlink_to("nothing")
    assert names.below(tmp_path / "out", "a/b.png") == tmp_path / "out/a/b.png"
    for name in ("inside/b.png", "dangling.png"):
        with pytest.raises(OSError, match="symbolic link"):
            names.below(tmp_path / "out", name)


@pytest.fixture
def read(tmp_path):
    """A file that was read, and its stamp."""
    grow(tmp_path, "a", data=b"x")
    os.utime(tmp_path / "a", (10**9, 10**9))
    return tmp_path / "a", reading.read(tmp_path / "a")[1]


def replace(path):
    path.with_name("b").write_bytes(b"y")
    os.replace(path.with_name("b"), path)


def link(path):
    os.rename(path, path.with_name("b"))
    path.symlink_to("b")


@pytest.mark.parametrize(
    "change", [replace, link, lambda path: path.write_bytes(b"y"), lambda path: path.write_bytes(b"xy")]
)
def test_only_the_file_that_was_read_is_removed(read, change):
    path, stamp = read
    mode = path.stat().st_mode
    change(path)
    path.chmod(mode)
    os.utime(path, (10**9, 10**9))  # whoever changes a file may set its times back
    with pytest.raises(OSError, match="not removed"):
        removal.remove(path, stamp)
    assert path.exists()


def test_an_unchanged_file_is_removed(read):
    removal.remove(*read)
    assert not read[0].exists()


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    grow(tmp_path, "a", data=b"x" * 9000)

    def change(start):
        assert start == b"x" * kinds.START_BYTES
        (tmp_path / "a").write_bytes(b"y" * 9000)

    with pytest.raises(OSError, match="changed while"):
        reading.read(tmp_path / "a", check=change)


def test_no_file_is_read_beyond_its_size_or_the_limit(tmp_path, monkeypatch):
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 40)  # a hole: reading it would take all memory

    def refuse(start):
        raise ValueError(len(start))

    with pytest.raises(ValueError, match=str(kinds.START_BYTES)):
        reading.read(tmp_path / "a", check=refuse)
    monkeypatch.setattr(reading, "_MORE_BYTES", 200)
    with pytest.raises(OSError, match="more than the limit of 1000 "):
        reading.read(tmp_path / "a", 100)
    with open("/dev/zero", "rb") as endless:
        monkeypatch.setattr(sys, "stdin", endless)
        endless.buffer = endless
        with pytest.raises(OSError, match="limit of 1000 "):
            reading.read(None, 100)


def test_impossible_times_do_not_keep_a_file_from_being_written(tmp_path):
    atomic.write(tmp_path / "a", b"x", stamp=Stamp(0o644, 1 << 80))
    assert (tmp_path / "a").read_bytes() == b"x"


def test_a_file_may_lie_below_a_thousand_folders_that_are_not_there(tmp_path):
    target, beside = tmp_path / ("a/" * 1100 + "x"), tmp_path / "b"
    atomic.write(target, b"data")
    atomic.write(beside, b"other")
    assert target.read_bytes() == b"data"
    target.unlink()
    os.removedirs(target.parent)  # pytest cannot
    assert [*tmp_path.iterdir()] == [beside]


def test_plans_without_one_output_for_each_input_are_refused(tmp_path):
    (tmp_path / "file").touch()
    for sources, output in [
        (["a.png", "b.png"], "-"),
        (["a.png", "b.png"], tmp_path / "file"),
        (["-", "-"], None),
        ([tmp_path / "file"], tmp_path / "../" / tmp_path.name / "file"),
        ([tmp_path], None),
        (["a.png"], ""),
    ]:
        with pytest.raises(ValueError):
            plan(sources, output)


def test_inputs_that_would_share_an_output_get_an_error_and_others_do_not(tmp_path):
    jobs = plan(["x/a.png", "y/a.png", "y/b.png"], tmp_path)
    assert [job.error is None for job in jobs] == [False, False, True]
    assert all(str(tmp_path / "a.png.dqc") in job.error for job in jobs[:2])


def test_the_same_bytes_written_again_are_found_and_other_bytes_are_not_overwritten(tmp_path):
    target = tmp_path / "a"
    atomic.write(target, b"x", may_repeat=True)
    atomic.write(target, b"x", may_repeat=True)
    with pytest.raises(FileExistsError):
        atomic.write(target, b"y", may_repeat=True)
    with pytest.raises(FileExistsError):
        atomic.write(tmp_path, b"", may_repeat=True)
    assert target.read_bytes() == b"x"


def test_a_png_with_much_behind_its_end_is_refused_before_it_is_read(tmp_path, monkeypatch):
    limit, path = chunks.MAX_TRAILING_BYTES, tmp_path / "a.png"
    for more in (limit, limit + 1):
        image = pngs.write(np.zeros((2, 2, 1), np.uint8))
        path.write_bytes(image)
        os.truncate(path, len(image) + more)
        if more == limit:
            assert png.read(reading.read(path)[0]).skeleton is None
            continue
        monkeypatch.setattr(reading, "_read_stream", None)
        with pytest.raises(UnsupportedImageError, match=f"{limit + 1} bytes follow"):
            reading.read(path)
        with pytest.raises(UnsupportedImageError, match="follow the end"):
            png.read(path.read_bytes())


def test_write_keeps_mode_and_time_and_makes_directories(tmp_path):
    source, target = tmp_path / "a", tmp_path / "deep/er/b"
    source.write_bytes(b"x")
    source.chmod(0o640)
    os.utime(source, (1_000_000_000, 1_000_000_000))
    data, stamp = reading.read(source)
    atomic.write(target, data * 4, stamp=stamp)
    status = target.stat()
    assert target.read_bytes() == b"xxxx"
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o640, 1_000_000_000)


def test_new_folders_survive_a_loss_of_power_with_their_file(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(atomic, "_sync", synced.append)
    atomic.write(tmp_path / "deep/er/b", b"x")
    assert synced == [tmp_path / "deep/er", tmp_path / "deep", tmp_path]
    atomic.write(tmp_path / "deep/er/c", b"x")
    assert synced[3:] == [tmp_path / "deep/er"]


def test_a_folder_that_is_not_synced_is_an_error_unless_the_system_cannot_sync_it(tmp_path, monkeypatch):
    sync = os.fsync
    for number, is_error in ((errno.EIO, True), (errno.ENOSPC, True), (errno.EINVAL, False), (errno.EACCES, False)):

        def fail(descriptor, number=number):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(number, os.strerror(number))
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="cannot write") if is_error else contextlib.nullcontext():
            atomic.write(tmp_path / str(number), b"x")


def test_a_file_keeps_its_owner_or_gives_another_group_no_more_than_all_others(tmp_path, monkeypatch):
    source, asked = tmp_path / "a", []
    source.write_bytes(b"x")
    source.chmod(0o674)
    user, group = source.stat().st_uid, source.stat().st_gid
    stamp = dataclasses.replace(Stamp.at(source), owner=(user + 1, group + 1))
    if os.geteuid() == 0:
        atomic.write(tmp_path / "b", b"x", stamp=stamp)
        status = (tmp_path / "b").stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (user + 1, group + 1, 0o674)

    def refuse(path, *owner):
        asked.append(owner)
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    atomic.write(tmp_path / "c", b"x", stamp=stamp)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o644 and asked == [(-1, group + 1), (user + 1, -1)]
    atomic.write(tmp_path / "d", b"x", stamp=Stamp.at(source))  # its owner needs no change
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o674 and len(asked) == 2


def test_write_overwrites_only_with_force_and_only_regular_files(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        atomic.write(target, b"new")
    assert target.read_bytes() == b"old"
    atomic.write(target, b"new", force=True)
    assert target.read_bytes() == b"new"
    with pytest.raises(FileExistsError):
        atomic.write(tmp_path, b"new", force=True)


def test_pipes_and_devices_are_written_to_and_stay_what_they_are(tmp_path):
    atomic.write(Path(os.devnull), b"new")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        atomic.write(pipe, b"new")
        assert os.read(reader, 9) == b"new" and [*tmp_path.iterdir()] == [pipe]
    finally:
        os.close(reader)


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_while_another_is_written_is_not_overwritten(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    check = atomic.check_target
    monkeypatch.setattr(
        atomic, "check_target", lambda target, **options: None if target.exists() else check(target, **options)
    )
    with pytest.raises(FileExistsError, match="-f overwrites"), atomic.writing(tmp_path / "a") as file:
        file.write(b"new")
        (tmp_path / "a").write_bytes(b"mine")
    assert (tmp_path / "a").read_bytes() == b"mine" and len([*tmp_path.iterdir()]) == 1


def no_links(*_):
    raise OSError(errno.EPERM, "no hard links here")


def test_files_are_written_where_there_are_no_hard_links(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)
    atomic.write(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new" and len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize("name", ["a", "a" * 255, "\u00e9" * 127])
def test_the_next_write_removes_what_a_killed_process_left(tmp_path, name):
    code = """
import os, sys
from pathlib import Path
from dqcodec.command import atomic
with atomic.writing(Path(sys.argv[1])) as file:
    os._exit(1)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(atomic.__file__).parents[2])}
    process = subprocess.run([sys.executable, "-c", code, tmp_path / name], env=environment, timeout=60)
    (left,) = tmp_path.iterdir()
    assert process.returncode == 1 and left.name.startswith(".a." if name == "a" else f".{name[:90]}")
    alive = tmp_path / f".{name[:60]}.{os.getppid()}-01234567.tmp"
    for other in (alive, tmp_path / f".{name[:60]}.tmp", tmp_path / ".other.999999999-01234567.tmp"):
        other.touch()
    same = tmp_path / re.sub(r"\d+-", f"{os.getpid()}-", left.name)  # processes of containers have equal numbers
    same.touch()
    atomic.write(tmp_path / name, b"new")
    assert (
        not left.exists()
        and not same.exists()
        and len([*tmp_path.iterdir()]) == 4
        and (tmp_path / name).read_bytes() == b"new"
    )


def test_write_follows_links(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    atomic.write(tmp_path / "link", b"new", force=True)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch, step, error):
    if step == "replace":
        monkeypatch.setattr(os, "link", no_links)

    def fail(*_):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        atomic.write(tmp_path / "a", b"data")
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_neither_read_nor_written(monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(OSError, match="terminal"):
        reading.read(None)
    with pytest.raises(OSError, match="terminal"):
        atomic.check_target(None, force=True)
