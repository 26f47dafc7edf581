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
