"""The typed configuration of a model and its training, read from TOML; unknown keys are refused in one line."""

import tomllib
from pathlib import Path
from typing import Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dqcodec.errors import DqcodecError


class ConfigError(DqcodecError):
    """A configuration that cannot be read or holds an unknown key or a wrong value."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Data(Section):
    """What the model sees. crop: side of the training crops, a multiple of 2^levels."""

    channels: Literal[1, 3] = 3
    bits: int = Field(8, ge=1, le=8)
    crop: int = Field(32, ge=2)
    flips: bool = True


class DequantizerConfig(Section):
    """q(u|x). width and blocks: of its context net; subflows: of the bipartite and ARD kinds."""

    kind: Literal["uniform", "gaussian", "bipartite", "ard"] = "gaussian"
    bins: Literal["hypercube", "half_infinite"] = "hypercube"
    width: int = 32
    blocks: int = 2
    subflows: int = 1
    context_channels: int = 24
    channels_per_group: int = 4


class Level(Section):
    """One level of the flow density. width and blocks: of each coupling's net."""

    subflows: int = 6
    width: int = 48
    blocks: int = 2


class DensityConfig(Section):
    """p(v). levels are the flow's; the Gaussians are for images of the crop's size."""

    kind: Literal["diagonal", "covariance", "flow"] = "flow"
    levels: list[Level] = [Level(), Level()]


class ObjectiveConfig(Section):
    """Renyi bound with K samples: alpha 1 is vi, 0 is iw, -inf is VR-max."""

    alpha: float = Field(1.0, le=1.0)
    samples: int = Field(1, ge=1)


class Training(Section):
    """Muon (Jordan et al. 2024) for the convolutions or Adam for all; the rate decays linearly in the last part."""

    optimiser: Literal["muon", "adam"] = "muon"
    learning_rate: float = 4e-3
    muon_learning_rate: float = 0.02
    warmup_steps: int = 200
    decay_fraction: float = Field(0.5, ge=0, le=1)
    batch: int = 32
    clip_norm: float = 1.0
    ema: float = 0.998


class Config(Section):
    name: str = "model"
    data: Data = Data()
    dequantizer: DequantizerConfig = DequantizerConfig()
    density: DensityConfig = DensityConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    training: Training = Training()


def load(path: Path | None, overrides: tuple[str, ...] = ()) -> Config:
    """A config from a TOML file (or the defaults), with ``section.key=value`` overrides, values in TOML syntax.

    Raises:
        ConfigError: unreadable file, unknown key, wrong value.
    """
    source = "the defaults" if path is None else path
    try:
        tree = {} if path is None else tomllib.loads(Path(path).read_text())
        for override in overrides:
            key, _, value = override.partition("=")
            section = tree
            *parents, leaf = key.strip().split(".")
            for parent in parents:
                section = section.setdefault(parent, {})
            section[leaf] = _toml_value(value)
        return Config.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{source}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (OSError, tomllib.TOMLDecodeError, AttributeError, TypeError) as error:
        raise ConfigError(f"{source}: {error}") from None


def _toml_value(text: str):
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def dump(config: Config) -> str:
    """The resolved config as TOML."""
    return tomli_w.dumps(config.model_dump())
