"""An archive learns from its own images: programs become real models and back, changes are exact, small, bounded and kept twice."""

import functools
import hashlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pngs
import programs
import pytest
import torch
from click.testing import CliRunner
from effort import little_memory, no_hang
from golden import make
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import AUTOREGRESSIVE, LEARNING, LEAST_SQUARES

import dqcodec
from dqcodec import png
from dqcodec.base.errors import CorruptError, ModelError, UnknownModelError
from dqcodec.codec import own_models, suitability, zoo
from dqcodec.codec.archive import Archive
from dqcodec.command import learning as command
from dqcodec.command.cli import main
from dqcodec.command.options import Compressing
from dqcodec.command.packing import Packing
from dqcodec.exact.autoregressive import changes
from dqcodec.exact.program import load_program
from dqcodec.export.restore import restore
from dqcodec.format.frame import MODEL_MARK
from dqcodec.format.own_model import OwnModel, model_bytes, pack_model, unpack_model
from dqcodec.training import fine_tuning
from dqcodec.training.budget import Budget
from dqcodec.training.progress import Progress

LEARN = command.learn
GOLDEN = Path(__file__).parent / "golden"
KINDS = [(kind, channels) for kind in (AUTOREGRESSIVE, LEAST_SQUARES, LEARNING) for channels in (1, 3)]


def image(number: int, channels: int = 3, side: int = 24) -> np.ndarray:
    """Stripes, which a model that never saw any cannot predict, uint8 (H, W, C)."""
    rng = np.random.default_rng(number)
    y, x = np.indices((side, side))
    level = (x + 2 * y + number) % 7 * 30 + rng.integers(0, 2, (side, side))
    return np.stack([level + 5 * plane for plane in range(channels)], 2).astype(np.uint8)


def noisy(number: int) -> np.ndarray:
    """Noise that is nearly the same in the three planes; a model that has learned this saves much; uint8 (24, 24, 3)."""
    rng = np.random.default_rng(number)
    green = 128 + rng.normal(0, 12, (24, 24, 1)) + 20 * np.sin(np.arange(24) / 5 + number)[:, None, None]
    red, blue = (green + rng.normal(0, 1, green.shape) for _ in range(2))
    return np.concatenate([red, green, blue], 2).round().clip(0, 255).astype(np.uint8)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """A step of few pixels, since models and images are small."""
    monkeypatch.setattr(fine_tuning, "_STEP_PIXELS", 1 << 11)
    monkeypatch.setattr(fine_tuning, "_FISHER_CROPS", 16)


@functools.cache
def base():
    return load_program(GOLDEN / "autoregressive.safetensors")


def no_changes(program) -> dict[str, changes.Rows]:
    rows = {}
    for name, layer in program.net.layers.items():
        drop, weight_step, *biases = np.zeros((2 if name.startswith("net.known.") else 4, layer.outputs), np.int64)
        rows[name] = changes.Rows(drop, weight_step, np.zeros((layer.outputs, layer.inputs), np.int64), *biases)
    return rows


# --- programs and real numbers


@pytest.mark.parametrize(("kind", "channels"), KINDS)
def test_a_program_becomes_a_model_in_real_numbers_of_the_same_rate(kind, channels):
    program = programs.still(channels, kind=kind)
    model, _ = restore(program)
    pixels = programs.calibration(channels)
    real = float(-model.bound(pixels).detach().sum() / np.log(2))
    tiles = [each.permute(1, 2, 0).numpy().astype(np.uint8) for each in pixels]
    assert sum(program.code_length([tile]) for tile in tiles) == pytest.approx(real, rel=0.01)


@pytest.mark.parametrize(("kind", "channels"), KINDS)
def test_a_restored_model_has_its_weights_on_the_programs_grids(kind, channels):
    program = programs.still(channels, kind=kind)
    for twin in restore(program)[1]:
        weight = twin.weight(twin.real.weight.detach().double().numpy())
        assert np.array_equal(weight, twin.exact.weight[..., 0, 0])
        if twin.real.bias is not None:
            bias = twin.bias(twin.real.bias.detach().double().numpy())
            assert np.abs(bias - changes.without_half(twin.exact)).max() <= np.abs(bias).max() * 2.0**-23


@pytest.mark.parametrize(("kind", "channels"), KINDS)
def test_learning_makes_the_images_smaller(kind, channels):
    program, images = programs.still(channels, kind=kind), [image(number, channels) for number in range(6)]
    learned = changes.apply(program, fine_tuning.fine_tune(program, images, Budget(images=400)), bytes(8))
    assert learned.code_length(images) < 0.97 * program.code_length(images)
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float()
    real = float(-restore(learned)[0].bound(pixels).detach().sum())
    assert learned.code_length(images) == pytest.approx(real / np.log(2), rel=0.01)


def test_learning_takes_images_of_all_shapes():
    images = [image(0), image(1)[:3], image(2)[:, :2], image(3, side=70), image(4)[:1, :1]]
    data = fine_tuning.fine_tune(programs.still(), images, Budget(images=40))
    assert changes.apply(programs.still(), data, bytes(8)).code_length(images) > 0


# --- changes


def test_no_changes_change_nothing():
    data = changes.pack(base(), no_changes(base()))
    same = changes.apply(base(), data, b"another.")
    assert same.id == b"another." and same.code_length([image(0)]) == base().code_length([image(0)])


@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 30), size=st.sampled_from([1, 60, 70, 1 << 14, (1 << 34) - 1]))
def test_changes_come_back_as_they_were(seed, size):
    rng, rows, program = np.random.default_rng(seed), no_changes(base()), base()
    head = program.net.out[0].inputs
    for name, each in rows.items():
        plane = int(name[-1]) if name.startswith("net.known.") else 0
        drop = rng.integers(0, changes.MAX_DROP + 1, len(each.drop))
        if plane:
            drop = rows["net.heads"].drop[plane * head : (plane + 1) * head]
        step = rng.integers(0, changes.MAX_STEP + 1, (2, len(drop)))
        biases = () if plane else (step[1], rng.integers(-size, size + 1, len(drop)))
        rows[name] = changes.Rows(drop, step[0], rng.integers(-size, size + 1, each.weights.shape), *biases)
    found = {name: each for name, _, each in changes._parse(program, changes.pack(program, rows))}
    for name, each in rows.items():
        assert all(np.array_equal(*pair) for pair in zip(each, found[name]) if pair[0] is not None)


def test_rows_lose_bits_and_gain_steps_as_the_document_says():
    layer, rows = base().net.first, no_changes(base())["net.in"]
    rows.drop[:], rows.weight_step[:], rows.bias_step[:] = 1, 3, 2
    rows.weights[0, 1], rows.biases[2] = -5, 7
    weight, bias, shift = changes.changed(layer, rows)
    assert weight[0, 1] == (int(layer.weight[0, 1, 0, 0]) + 1 >> 1) - 40
    rest = int(layer.bias[2]) - (1 << int(layer.shift[2]) - 1)
    assert bias[2] == (rest + 1 >> 1) + 28 + (1 << int(shift[2]) - 1) and shift[2] == layer.shift[2] - 1


def test_hostile_changes_are_refused():
    data = make.changed_model().changes
    assert changes.apply(base(), data, bytes(8))
    for wrong in (
        b"",
        data[:-1],
        data + b"\0",
        data[:-1] + b"\x80",
        b"\x80\0" + data[1:],
        b"\x11" + data[1:],
        b"\xff" * len(data),
    ):
        with pytest.raises(CorruptError):
            changes.apply(base(), wrong, bytes(8))
    large = no_changes(base())
    large["net.heads"].weights[1, 1] = 1 << 30
    with pytest.raises(ModelError, match="not proven exact"):
        changes.apply(base(), changes.pack(base(), large), bytes(8))
    large["net.heads"].drop[:] = changes.MAX_DROP
    for plane in (1, 2):
        large[f"net.known.{plane}"].drop[:] = changes.MAX_DROP
    with pytest.raises(CorruptError, match="no bits"):
        changes.apply(base(), changes.pack(base(), large), bytes(8))


@settings(max_examples=100)
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_damaged_changes_give_a_proven_program_or_a_named_error(place, byte):
    data = bytearray(make.changed_model().changes)
    data[place % len(data)] = byte
    with little_memory(1 << 22), no_hang():
        try:
            changes.apply(base(), bytes(data), bytes(8))
        except (CorruptError, ModelError) as error:
            assert "\n" not in str(error)


def test_changes_of_another_kind_of_model_are_refused():
    flow = load_program(GOLDEN / "uniform.safetensors")
    with pytest.raises(ModelError):
        own_models.program_of(OwnModel(flow.id, b""), {flow.id: flow}.__getitem__)


# --- archives


def opened(data: bytes, **options) -> Archive:
    def find(model_id: bytes):
        if model_id != base().id:
            raise UnknownModelError(f"no model with id {model_id.hex()}")
        return base()

    return Archive(io.BytesIO(data), find, **options)


def marks(data: bytes) -> list[int]:
    """Where the copies of the model stand."""
    return [place for place in range(len(data)) if data[place : place + 4] == MODEL_MARK]


@functools.cache
def archived() -> bytes:
    return (GOLDEN / "archive-model.dqc").read_bytes()


def whole(data: bytes, **options) -> dict[str, bool]:
    """Whether each file comes back as it is; False for an error with a name."""
    source, found = png.read((GOLDEN / "tiny/autoregressive.png").read_bytes()), {}
    with opened(data, **options) as archive:
        for name in archive:
            try:
                found[name] = png.read(archive[name]).same(source)
                assert found[name]
            except (CorruptError, UnknownModelError):
                found[name] = False
    return found


def test_an_archive_has_its_model_at_both_ends():
    first, second = marks(archived())
    assert first == 5 and second > len(archived()) // 2
    assert len(archived()) - second - 20 == model_bytes(make.changed_model()) // 2


@pytest.mark.parametrize("salvage", [False, True])
def test_a_flipped_byte_of_a_copy_of_the_model_costs_nothing(salvage):
    size = model_bytes(make.changed_model()) // 2
    for start in marks(archived()):
        for place in [*range(start, start + 40, 3), *range(start + 40, start + size, 397)]:
            damaged = bytearray(archived())
            damaged[place] ^= 4
            assert all(whole(bytes(damaged), salvage=salvage).values())


def test_a_lost_model_costs_only_the_groups_that_need_it_and_is_reported():
    for offset in (4, 20, 200):  # in the archive id, the header, the body
        damaged = bytearray(archived())
        for start in marks(archived()):
            damaged[start + offset] ^= 1
        for salvage in (False, True):
            assert whole(bytes(damaged), salvage=salvage)["base.png"]
        with opened(bytes(damaged), salvage=True) as archive:
            assert archive.damage
    with opened(bytes(damaged)) as archive, pytest.raises(CorruptError, match="model of these files is damaged"):
        archive["own.png"]
    assert whole(bytes(damaged)) == {"own.png": False, "base.png": True}


def test_an_archive_whose_base_is_not_at_hand_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "directory", lambda: tmp_path)
    with Archive(io.BytesIO(archived())) as archive, pytest.raises(UnknownModelError, match=base().id.hex()):
        archive["own.png"]


def test_a_model_of_another_id_is_refused():
    model = make.changed_model()
    header, body = pack_model(model)
    assert unpack_model(header, body) == model
    with pytest.raises(CorruptError):
        unpack_model(pack_model(OwnModel(base().id, b"other"))[0], body)
    with pytest.raises(CorruptError):
        unpack_model(header[:-1], body)


def test_joined_archives_keep_their_models():
    joined = (GOLDEN / "archive.dqc").read_bytes() + archived()
    with opened(joined, salvage=True) as archive:
        assert len(archive) == 8
        assert png.read(archive["archive-2/own.png"]).same(png.read(archive["archive-2/base.png"]))


# --- the command


@pytest.fixture
def folder(quick_folder, monkeypatch):
    """A working folder with a model and a folder of images."""
    (quick_folder / "models").mkdir()
    model = programs.described(AUTOREGRESSIVE, tile=[64, 64], rate_bits=32)
    (quick_folder / "models" / f"base-{hashlib.sha256(model).hexdigest()[:8]}.safetensors").write_bytes(model)
    monkeypatch.setattr(suitability, "MAX_RIVAL_SAMPLES", 0)  # no mixing with the model
    (quick_folder / "in").mkdir()
    for number in range(64):
        (quick_folder / "in" / f"{number:02}.png").write_bytes(pngs.write(noisy(number)))
    return quick_folder


def run(*arguments) -> object:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


LEARNED: dict[int, command.Learned] = {}  # by the number of crops: all folders have the same images and model


def learned(folder, images: int) -> command.Learned:
    inputs = [(path, path.name) for path in sorted((folder / "in").iterdir())]
    if images not in LEARNED:
        LEARNED[images] = LEARN(inputs, Compressing(models=("base",)), Budget(images=images), Progress())
    return LEARNED[images]


def packing(folder, name: str, learned=None, **options) -> Packing:
    return Packing(folder / name, Compressing(models=("base",), group=32, **options), learned)


def test_an_archive_with_a_model_that_pays_is_smaller_and_says_by_how_much(folder):
    inputs = [(path, path.name) for path in sorted((folder / "in").iterdir())]
    plain = packing(folder, "plain.dqc").pack(inputs, map, lambda result: None)
    found = learned(folder, 900)
    report = packing(folder, "set.dqc", learned=found).pack(inputs, map, lambda result: None)
    assert found.is_hopeful and report.learned.saved_bytes > report.learned.bytes == found.report.bytes
    assert report.dqc_bytes < plain.dqc_bytes
    assert plain.dqc_bytes - report.dqc_bytes == pytest.approx(report.learned.saved_bytes - report.learned.bytes, abs=9)
    assert "learned: base" in report.line() and report.as_dict()["learned"]["saved_bytes"]
    with Archive(folder / "set.dqc") as archive:
        assert all(png.read(archive[path.name]).same(png.read(path.read_bytes())) for path, _ in inputs)


def test_a_model_that_does_not_pay_is_left_out(folder):
    inputs = [(path, path.name) for path in sorted((folder / "in").iterdir())[:8]]
    plain = packing(folder, "plain.dqc").pack(inputs, map, lambda result: None)
    found = learned(folder, 1)
    told = []
    for is_hopeful in (False, True):
        hopeless = found._replace(is_hopeful=is_hopeful)
        report = packing(folder, "set.dqc", learned=hopeless, force=True).pack(inputs, map, told.append)
        assert (folder / "set.dqc").read_bytes() == (folder / "plain.dqc").read_bytes()
        assert report.learned.saved_bytes == 0 and report.line().endswith("does not pay")
        assert report.dqc_bytes == plain.dqc_bytes
    assert len(told) == 2 * len(inputs)


def test_all_commands_read_an_archive_with_its_own_model(folder, monkeypatch):
    monkeypatch.setattr(command, "learn", lambda *_: learned(folder, 900))
    done = run("compress", "in", "-o", "set.dqc", "--learn", "1s", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["learned"]["saved_bytes"] > 0
    assert run("verify", "set.dqc").exit_code == 0
    assert len(run("list", "set.dqc").stdout.splitlines()) == 64
    facts = json.loads(run("info", "set.dqc", "--json").stdout)
    assert [*facts["own_models"]] == [*facts["models"]] and facts["own_model_bytes"]
    assert run("decompress", "set.dqc", "-o", "out").exit_code == 0
    for path in (folder / "in").iterdir():
        assert png.read((folder / "out" / path.name).read_bytes()).same(png.read(path.read_bytes()))


def test_the_command_trains_within_its_time(folder):
    done = run("compress", "in", "-o", "set.dqc", "--learn", "0.1s")
    assert done.exit_code == 0 and "learned: base" in done.stderr
    assert run("verify", "set.dqc").exit_code == 0


def test_images_that_no_model_codes_are_packed_without_learning(folder):
    done = run("compress", "in", "-o", "set.dqc", "--learn", "1s", "-m", GOLDEN / "uniform.safetensors")
    assert done.exit_code == 0 and "nothing is learned" in done.stderr
    assert run("list", "set.dqc").exit_code == 0


def test_without_torch_one_line_says_what_is_missing_and_nothing_is_written(folder, monkeypatch):
    monkeypatch.setattr(dqcodec, "training", dqcodec.training)  # importing it again changes the attribute
    for name in [name for name in sys.modules if name.startswith("dqcodec.training")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("compress", "in", "-o", "set.dqc", "--learn", "10m")
    assert done.exit_code != 0 and "pip install 'dqcodec[train]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not (folder / "set.dqc").exists()


@pytest.mark.parametrize("time", ["10", "m", "0s", "-1m", "nan s", "10x", "infs"])
def test_a_time_has_a_unit(folder, time):
    assert run("compress", "in", "-o", "set.dqc", "--learn", time).exit_code == 2


def test_learning_is_for_archives(folder):
    assert run("compress", "in/00.png", "--learn", "1m").exit_code == 2


def test_an_archive_that_is_there_is_refused_before_learning(folder, monkeypatch):
    (folder / "set.dqc").write_bytes(b"mine")
    monkeypatch.setattr(command, "learn", lambda *_: pytest.fail("it learned"))
    assert run("compress", "in", "-o", "set.dqc", "--learn", "1m").exit_code == 3


# --- a model file of one's own


def test_a_run_starts_from_a_model_file(folder):
    sizes = ("--set", "data.crop=8", "--set", "training.validation_crops=4")
    done = run("train", "in", "-o", "run", "--init", "base", "--images", 8, *sizes, "-q")
    assert done.exit_code == 0, done.output
    done = run("export", "run", "-o", "models", "--name", "own")
    assert done.exit_code == 0, done.output
    own, first = load_program(Path(done.stdout.strip())), zoo.load("base")
    parts = [noisy(number) for number in range(4)]
    assert own.code_length(parts) == pytest.approx(first.code_length(parts), rel=0.05)
    assert run("compress", "in", "-o", "set.dqc", "-m", done.stdout.strip(), "--no-verify").exit_code == 0


def test_only_an_autoregressive_model_can_be_trained_further(folder):
    done = run("train", "in", "-o", "run", "--init", GOLDEN / "uniform.safetensors", "--images", 8)
    assert done.exit_code != 0 and "not autoregressive" in done.stderr and not (folder / "run").exists()
    assert run("train", "in", "-o", "run", "--init", "nothing", "--images", 8).exit_code != 0
