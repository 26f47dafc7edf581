"""Files that earlier versions wrote decode to the same pixels and metadata, with the models of then; tiny ones encode to the
same bytes. The compiler of loops is not the only witness of that."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from golden import cases
from golden.cases import SHIPPED, TINY

from dqcodec import png
from dqcodec.codec import codec
from dqcodec.codec.archive import Archive
from dqcodec.exact.program import load_program
from dqcodec.format.archive_group import Member
from dqcodec.format.layer import Method

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted({*GOLDEN.glob("*.dqc")} - {*GOLDEN.glob("archive*.dqc")})
MODELS = {"model-mixing": "autoregressive", "particles": "uniform"}
CASES = cases.cases()


def test_the_golden_files_of_whole_images_are_all_there():
    methods = {"stored", "classical", "mixing", "pixel-mixing", "trained-mixing", "autoregressive", "model-mixing"}
    assert {path.stem for path in FILES} == methods | {
        "particles",
        "uniform",
        "gaussian",
        "bipartite",
        "ard",
        "alternating",
        "interlaced",
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_file_decodes_to_its_image(path):
    def find_program(model_id):
        program = load_program(GOLDEN / f"{MODELS.get(path.stem, path.stem)}.safetensors")
        assert program.id == model_id
        return program

    source = png.read((GOLDEN / "image.png").read_bytes())
    restored = png.read(codec.decompress(path.read_bytes(), find_program)[0])
    assert restored.same(source)


def golden_make():
    spec = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_golden_archive_decodes_to_its_files():
    program, make = load_program(GOLDEN / "autoregressive.safetensors"), golden_make()
    for salvage in (False, True):
        with Archive(GOLDEN / "archive.dqc", {program.id: program}.__getitem__, salvage=salvage) as archive:
            assert list(archive) == list(make.members()) and not archive.damage
            for name, data in make.members().items():
                assert (
                    archive[name] == data
                    if archive.kind(name) == "verbatim"
                    else png.read(archive[name]).same(png.read(data))
                )
            assert archive.member("b.png") == Member("b.png", -4 * 10**9, 0o601)
            assert [count for _, count in archive.group_sizes] == [1, 4, 1] and archive.kind("notes.txt") == "verbatim"
            assert archive["odd.png"] == make.members()["odd.png"]


def test_an_archive_that_is_made_today_holds_what_the_golden_one_holds(tmp_path):
    program = load_program(GOLDEN / "autoregressive.safetensors")
    (tmp_path / "made.dqc").write_bytes(golden_make().archived())
    with (
        Archive(tmp_path / "made.dqc", {program.id: program}.__getitem__) as made,
        Archive(GOLDEN / "archive.dqc", {program.id: program}.__getitem__) as golden,
    ):
        assert dict(made) == dict(golden)
        assert [count for _, count in made.group_sizes] == [count for _, count in golden.group_sizes]
        assert [made.member(name) for name in made] == [golden.member(name) for name in golden]


def test_the_golden_archive_with_a_model_decodes_with_its_base():
    base, source = load_program(GOLDEN / "autoregressive.safetensors"), (TINY / "autoregressive.png").read_bytes()
    for salvage in (False, True):
        with Archive(GOLDEN / "archive-model.dqc", {base.id: base}.__getitem__, salvage=salvage) as archive:
            assert list(archive) == ["own.png", "base.png"] and not archive.damage
            assert all(png.read(each).same(png.read(source)) for each in archive.values())
            (model,) = archive.models_of(archive.group(0))
            assert model == golden_make().changed_model() and not archive.models_of(archive.group(1))


# --- tiny ones


def test_there_are_tiny_golden_files_for_every_case_method_and_shipped_model():
    assert {path.stem for path in TINY.glob("*.dqc")} == {path.stem for path in TINY.glob("*.png")} == CASES.keys()
    assert {case.method for case in CASES.values()} == set(Method)
    assert {path.stem for path in SHIPPED} <= CASES.keys()


def check(name: str) -> None:
    """A tiny golden file decodes to its image, and encodes to the same bytes."""
    case, file, source = CASES[name], (TINY / f"{name}.dqc").read_bytes(), (TINY / f"{name}.png").read_bytes()
    restored = codec.decompress(file, cases.find_program)[0]
    if case.has_recipe or case.method == Method.STORED:
        assert restored == source
    else:
        assert png.read(restored).same(png.read(source))
    if case.is_reproducible and case.is_written:
        assert cases.encode(case, source) == file


@pytest.mark.parametrize("name", CASES)
def test_a_tiny_golden_file_decodes_to_its_image_and_encodes_to_the_same_bytes(name):
    check(name)


def test_tiny_golden_files_decode_and_encode_alike_without_the_compiler():
    script = """
import numpy as np, numba, test_golden
assert numba.config.DISABLE_JIT
with np.errstate(over="ignore"):  # hashes wrap
    for name, case in test_golden.CASES.items():
        if case.is_quick:
            test_golden.check(name)
            print(name)
"""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [name for name, case in CASES.items() if case.is_quick]
