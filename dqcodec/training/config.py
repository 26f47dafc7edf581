"""The typed configuration of a model and its training, read from TOML. An unknown key is an error of one line."""

import tomllib
from pathlib import Path
from typing import Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dqcodec.base.errors import DqcodecError


class ConfigError(DqcodecError):
    """A configuration is not readable, or has an unknown key or a wrong value."""


class Section(BaseModel):
    """A table of the configuration. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class Data(Section):
    """The data that the model sees.

    bits: how many high bits of each 8-bit sample are kept. crop: side of the training crops, pixels.
    flips: mirror half of the crops.
    """

    channels: Literal[1, 3] = 3
    bits: int = Field(8, ge=1, le=8)
    crop: int = Field(32, ge=2)
    flips: bool = True


class DequantizerConfig(Section):
    """q(u|x).

    kind: "posterior" is p(u|x), for the autoregressive density only, which has it in closed form. bins: "half_infinite"
    (Winkler et al. 2019) is for binary data, bits = 1, and for kinds of q that cover all u > 0. width, blocks: of the
    networks; in dense networks, blocks is the depth. The ARM of an ARD takes its width from channels_per_group, and a
    residual ARM has a fixed depth: there width and blocks are of the context's network. subflows, context_channels: of
    the bipartite and ARD kinds. channels_per_group: of the ARM, for each autoregressive channel. alternating: every
    second step of an ARD runs in reverse order. features: what a learned q sees of x: "haar", sums and differences in 2
    x 2 blocks, or "standard", pixels normalised by the mean and spread of their neighbours. noise: the distribution of
    a learned q's eps. With "logistic" noise q can be uniform, with "normal" noise only almost uniform.
    """

    kind: Literal["uniform", "gaussian", "bipartite", "ard", "posterior"] = "gaussian"
    bins: Literal["hypercube", "half_infinite"] = "hypercube"
    net: Literal["residual", "dense"] = "residual"
    width: int = Field(32, ge=1)
    blocks: int = Field(2, ge=0)
    subflows: int = Field(1, ge=1)
    context_channels: int = Field(24, ge=1)
    channels_per_group: int = Field(4, ge=1)
    alternating: bool = False
    features: Literal["haar", "standard"] = "haar"
    noise: Literal["normal", "logistic"] = "normal"


class Level(Section):
    """One level of a flow density.

    width, blocks: of each coupling's network; in dense networks, blocks is the depth. subflows: of kind "flow".
    """

    subflows: int = Field(6, ge=1)
    width: int = Field(48, ge=1)
    blocks: int = Field(2, ge=0)


class DensityConfig(Section):
    """p(v).

    kind: "flow" has the paper's affine couplings and a logistic base, "interlaced" mixture couplings and a uniform
    base. levels: of both flows, the finest first. net: of kind "flow". The two Gaussians only have images of the crop's
    size. width, blocks: of the trunk of the autoregressive density. head: width of each plane's head, also in an
    interlaced flow. features: how many features of a pixel later pixels see. mixtures: components of each mixture, also
    in an interlaced flow. least_squares: whether the net sees predictions by local least squares. learning: how many
    layers of the exported net learn while it codes, beside the last ones: first the heads, then the layers before them,
    from the last one back.
    """

    kind: Literal["diagonal", "covariance", "flow", "interlaced", "autoregressive"] = "flow"
    net: Literal["residual", "dense"] = "residual"
    levels: list[Level] = Field([Level(), Level()], min_length=1, max_length=8)
    width: int = Field(64, ge=1)
    blocks: int = Field(2, ge=0)
    head: int = Field(32, ge=1)
    features: int = Field(16, ge=1)
    mixtures: int = Field(3, ge=1)
    least_squares: bool = False
    learning: int = Field(0, ge=0)


class ObjectiveConfig(Section):
    """The Rényi bound of order alpha with K = samples. alpha = 1 is vi, 0 is iw, -inf is VR-max."""

    alpha: float = Field(1.0, le=1.0)
    samples: int = Field(1, ge=1)


class Training(Section):
    """The optimiser: Muon (Jordan et al. 2024) for most layers and Adam for the rest, or Adam for all.

    The learning rate decays linearly in the last part of the budget, decay_fraction. Step i draws its crops and its
    noise from (seed, i) only. Validation crops do not depend on the seed.
    """

    optimiser: Literal["muon", "adam"] = "muon"
    learning_rate: float = Field(2e-3, gt=0)
    adam_beta2: float = Field(0.99, ge=0, lt=1)
    muon_learning_rate: float = Field(0.012, gt=0)
    muon_weight_decay: float = Field(0.3, ge=0)
    warmup_steps: int = Field(200, ge=1)
    decay_fraction: float = Field(0.5, ge=0, le=1)
    batch: int = Field(32, ge=1)
    clip_norm: float = Field(1.0, gt=0)
    ema: float = Field(0.998, ge=0, lt=1)
    seed: int = Field(0, ge=0)
    validation_crops: int = Field(256, ge=1)


class Config(Section):
    """The whole configuration: model, objective and training. `name` is the default name of exported models."""

    name: str = "model"
    data: Data = Data()
    dequantizer: DequantizerConfig = DequantizerConfig()
    density: DensityConfig = DensityConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    training: Training = Training()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "Config":
        levels = len(self.density.levels) if self.density.kind in ("flow", "interlaced") else 0
        squeezes = max(levels, self.dequantizer.kind not in ("uniform", "posterior"))
        if self.data.crop % 2**squeezes:
            raise ValueError(f"data.crop must be a multiple of {2**squeezes}")
        if self.dequantizer.bins == "half_infinite" and self.data.bits != 1:
            raise ValueError("half-infinite bins are for binary data: data.bits = 1")
        if self.dequantizer.bins == "half_infinite" and self.dequantizer.kind == "uniform":
            raise ValueError("uniform noise does not cover half-infinite bins")
        if self.density.net == "dense" and not all(level.blocks for level in self.density.levels):
            raise ValueError("a dense net has at least one layer: density.levels.blocks >= 1")
        if self.dequantizer.net == "dense" and not self.dequantizer.blocks:
            raise ValueError("a dense net has at least one layer: dequantizer.blocks >= 1")
        if self.density.kind == "interlaced" and self.dequantizer.bins != "hypercube":
            raise ValueError("an interlaced flow has hypercube bins")
        if self.dequantizer.bins == "half_infinite" and self.dequantizer.kind == "posterior":
            raise ValueError("the posterior dequantizer has hypercube bins")
        if self.density.net == "dense" and self.density.kind != "flow":
            raise ValueError("density.net is for density.kind = flow")
        if (self.dequantizer.kind == "posterior") != (self.density.kind == "autoregressive"):
            raise ValueError("the posterior dequantizer and the autoregressive density need each other")
        return self

    @property
    def default_tile(self) -> int | None:
        """Side of a flow's tiles: 64, or 2^levels if that is more. None for autoregressive models, see export.program."""
        return None if self.density.kind == "autoregressive" else max(64, 2 ** len(self.density.levels))


def load(path: Path | str | None, overrides: tuple[str, ...] = (), fixed: Config | None = None) -> Config:
    """The configuration of a TOML file, or the defaults if path is None.

    Args:
        overrides: settings that replace those of the file, as `section.key=value` with values in TOML syntax.
        fixed: what it sets explicitly replaces settings of the file, before the overrides do.

    Raises ConfigError: the file is not readable, or has an unknown key or a wrong value.
    """
    source = "settings" if path is None else path
    try:
        tree = {} if path is None else tomllib.loads(Path(path).read_text())
        for section, value in fixed.model_dump(exclude_unset=True).items() if fixed else ():
            tree[section] = tree.get(section, {}) | value if isinstance(value, dict) else value
        for override in overrides:
            key, equals, value = override.partition("=")
            if not equals:
                raise ConfigError(f"expected section.key=value, not {override!r}")
            section = tree
            *parents, leaf = key.strip().split(".")
            for parent in parents:
                section = section.setdefault(parent, {})
            section[leaf] = _toml_value(value)
        return Config.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        problem = "there is no such setting" if first["type"] == "extra_forbidden" else first["msg"]
        parts = [str(source), ".".join(map(str, first["loc"])), problem]
        raise ConfigError(": ".join(filter(None, parts))) from None
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError, TypeError) as error:
        raise ConfigError(f"{source}: {error}") from None


def _toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


_LEARNED = ("bins", "net", "width", "blocks", "features", "noise")
_FLOW = (*_LEARNED, "subflows", "context_channels")
_USED = {  # section -> kind -> the settings that have an effect
    "dequantizer": {
        "uniform": (),
        "posterior": (),
        "gaussian": _LEARNED,
        "bipartite": _FLOW,
        "ard": (*_FLOW, "channels_per_group", "alternating"),
    },
    "density": {
        "diagonal": (),
        "covariance": (),
        "flow": ("net", "levels"),
        "interlaced": ("levels", "head", "mixtures"),
        "autoregressive": ("width", "blocks", "head", "features", "mixtures", "least_squares", "learning"),
    },
}


def dump(config: Config) -> str:
    """The configuration as TOML: all settings that have an effect, defaults included."""
    tree = config.model_dump()
    for name, used in _USED.items():
        section = tree[name]
        tree[name] = {key: section[key] for key in section if key in ("kind", *used[section["kind"]])}
    if config.density.kind == "interlaced":
        for level in tree["density"]["levels"]:
            del level["subflows"]
    if config.training.optimiser == "adam":
        tree["training"] = {key: value for key, value in tree["training"].items() if not key.startswith("muon_")}
    return tomli_w.dumps(tree)
