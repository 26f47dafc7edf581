"""A configuration that is written and read again is the same; an unknown setting is an error of one line."""

import math

import pytest

from dqcodec.training import config
from dqcodec.training.build import build
from dqcodec.training.config import ConfigError


def test_the_resolved_config_reads_back(tmp_path):
    overrides = ("dequantizer.kind=ard", "objective.alpha=-inf", "density.levels=[{subflows=2}]", "data.crop=16")
    resolved = config.load(None, overrides)
    (tmp_path / "config.toml").write_text(config.dump(resolved))
    assert config.load(tmp_path / "config.toml") == resolved
    assert resolved.objective.alpha == -math.inf and resolved.density.levels[0].subflows == 2


@pytest.mark.parametrize(
    "override",
    [
        "data.colour=1",
        "nosuch=1",
        "data=3",
        "data.bits=9",
        "objective.alpha=1.5",
        "dequantizer.kind=other",
        "data.crop",
        "data.crop=31",
        "density.levels=[]",
        "dequantizer.bins=half_infinite",
        "training.optimiser.x=1",
        "density.kind=autoregressive",
        "dequantizer.kind=posterior",
        "density.net=other",
        "training.learning_rate=0",
        "training.muon_learning_rate=-1",
    ],
)
def test_what_is_unknown_or_wrong_is_refused_in_one_line(override):
    with pytest.raises(ConfigError) as error:
        config.load(None, (override,))
    assert "\n" not in str(error.value) and str(error.value)


def test_an_unknown_setting_is_called_so():
    with pytest.raises(ConfigError, match="^settings: data.crap: there is no such setting$"):
        config.load(None, ("data.crap=3",))


def test_a_missing_file_is_named_once(tmp_path):
    with pytest.raises(ConfigError, match="^[^ ]*none.toml: No such file or directory$"):
        config.load(tmp_path / "none.toml")


def test_an_interlaced_flow_in_half_infinite_bins_is_refused():
    bins = ("data.bits=1", "dequantizer.bins=half_infinite", "dequantizer.kind=ard")
    with pytest.raises(ConfigError, match="hypercube"):
        config.load(None, ("density.kind=interlaced", *bins))


def test_uniform_noise_in_half_infinite_bins_is_refused():
    bins = ("data.bits=1", "dequantizer.bins=half_infinite")
    assert build(config.load(None, bins))
    with pytest.raises(ConfigError, match="does not cover"):
        config.load(None, (*bins, "dequantizer.kind=uniform"))


@pytest.mark.parametrize(
    "overrides",
    [
        ("density.kind=autoregressive", "dequantizer.kind=posterior", "data.bits=1", "dequantizer.bins=half_infinite"),
        ("density.kind=covariance", "density.net=dense"),
        ("density.kind=interlaced", "density.net=dense"),
    ],
)
def test_choices_without_effect_are_refused(overrides):
    with pytest.raises(ConfigError, match="hypercube bins|for density.kind = flow"):
        config.load(None, overrides)


@pytest.mark.parametrize("q", ["uniform", "gaussian", "bipartite", "ard"])
@pytest.mark.parametrize("p", ["diagonal", "covariance", "flow", "interlaced"])
def test_what_is_written_builds_the_same_model_and_nothing_else(q, p, tmp_path):
    """Settings without effect are left out, and all others are kept."""
    overrides = (
        "data.bits=1",
        "dequantizer.width=7",
        "dequantizer.blocks=1",
        "dequantizer.subflows=3",
        "density.width=9",
    )
    overrides += (
        "dequantizer.channels_per_group=3",
        "density.head=5",
        "density.levels=[{subflows=2, width=6, blocks=1}]",
    )
    resolved = config.load(None, (*overrides, "data.crop=4", f"dequantizer.kind={q}", f"density.kind={p}"))
    path = tmp_path / "config.toml"
    path.write_text(config.dump(resolved))
    again = config.load(path)
    assert config.dump(again) == path.read_text()
    assert ("subflows = 3" in path.read_text()) == (q in ("bipartite", "ard"))
    shapes = [{name: t.shape for name, t in build(each).state_dict().items()} for each in (resolved, again)]
    assert shapes[0] == shapes[1]


def test_a_program_fixes_settings_that_overrides_still_change(tmp_path):
    (tmp_path / "config.toml").write_text("[training]\nbatch = 3\nseed = 2\n[data]\nbits = 1\n")
    fixed = config.Config.model_validate({"data": {"bits": 5}, "training": {"batch": 4}})
    loaded = config.load(tmp_path / "config.toml", ("training.batch=5",), fixed)
    assert (loaded.data.bits, loaded.training.batch, loaded.training.seed) == (5, 5, 2)


@pytest.mark.parametrize("content", ["x =", "[data]\nsize = 3", "\x00"])
def test_a_broken_file_is_named(tmp_path, content):
    path = tmp_path / "broken.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match="broken.toml"):
        config.load(path)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="absent"):
        config.load(tmp_path / "absent.toml")


@pytest.mark.parametrize("kind", ["uniform", "gaussian", "bipartite", "ard"])
@pytest.mark.parametrize("density", ["diagonal", "covariance", "flow"])
@pytest.mark.parametrize("bits", [1, 5, 8])
def test_every_choice_builds(kind, density, bits):
    overrides = (f"dequantizer.kind={kind}", f"density.kind={density}", f"data.bits={bits}", "data.crop=4")
    model = build(config.load(None, overrides))
    assert sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("bits", [1, 5, 8])
def test_an_autoregressive_density_builds_with_its_posterior_at_any_crop(channels, bits):
    overrides = ("density.kind=autoregressive", "dequantizer.kind=posterior", f"data.channels={channels}")
    model = build(config.load(None, (*overrides, f"data.bits={bits}", "data.crop=7")))
    assert sum(parameter.numel() for parameter in model.parameters()) and model.bits == bits
