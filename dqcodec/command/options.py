"""The options of the commands: a dataclass for each command with many options.

A field is an option. `option` describes it for click. `takes` gives a command an object of the dataclass.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import click

from dqcodec.base.errors import RegionError
from dqcodec.codec.effort import Effort
from dqcodec.codec.region import Region
from dqcodec.command.names import FORMATS
from dqcodec.png import MAX_PIXELS

paths = click.argument("paths", metavar="PATH...", nargs=-1, required=True)
existing = click.Path(exists=True, path_type=Path)
_new = click.Path(path_type=Path)
_new_file = click.Path(dir_okay=False, path_type=Path)
COUNT = click.IntRange(min=1)
DEVICES = "auto", "cpu", "cuda"
_AUTO = {"default": "auto", "show_default": True}


class _Duration(click.ParamType):
    """A time with its unit, such as 90s, 10m or 1.5h, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        """The seconds, more than 0."""
        try:
            seconds = float(value[:-1]) * {"s": 1, "m": 60, "h": 3600}[value[-1:]]
        except (ValueError, KeyError):
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} is not a time, such as 90s, 10m or 1.5h", param, context)
        return seconds


class _Address(click.ParamType):
    """The address of a Dask scheduler: tcp://host:8786, or host:8786."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> str:
        """The address as it is; a text that cannot be one is a usage error."""
        if not re.fullmatch(r"(\w+://)?([^/:]+|\[[0-9a-fA-F:.]+\]):\d+", value):
            self.fail(f"{value!r} is not the address of a Dask scheduler, such as tcp://host:8786", param, context)
        return value


class _Geometry(click.ParamType):
    """A region of an image."""

    name = "geometry"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Region:
        """The region of a text; a wrong text is a usage error."""
        try:
            return value if isinstance(value, Region) else Region.parse(value)
        except RegionError as error:
            self.fail(str(error), param, context)


def option(*names: str, **attributes: Any) -> Any:
    """A field for a click option, with click's default."""
    unset = False if attributes.get("is_flag") else () if attributes.get("multiple") else None
    default = attributes.get("default", unset)
    return dataclasses.field(default=default, metadata={"names": names, "attributes": attributes})


class _CodecName(click.Choice):
    """The name of a codec under test. The codecs are imported when their names are needed."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:
        """All names, in the order of reports."""
        from dqcodec.bench.catalogue import standard_names

        return tuple(standard_names())


def _max_pixels() -> Any:
    text = f"Refuse images of more pixels (default {MAX_PIXELS})."
    return option("--max-pixels", type=COUNT, default=MAX_PIXELS, metavar="N", help=text)


def _models(text: str) -> Any:
    return option("-m", "--model", metavar="NAME|FILE", multiple=True, help=text)


def takes(kind: type) -> Callable:
    """A decorator: the command takes the options of a dataclass and gets them as one object, `options`.

    In the help, the dataclass's own options come before those of its bases.
    """
    fields = {each.name: each for each in dataclasses.fields(kind) if each.metadata}
    own_first = dict.fromkeys(name for each in kind.__mro__ for name in each.__dict__.get("__annotations__", ()))
    ordered = [fields[name] for name in own_first if name in fields]

    def decorate(command: Callable) -> Callable:
        @functools.wraps(command)
        def wrapped(*arguments: Any, **values: Any) -> Any:
            options = kind(**{name: values.pop(name) for name in fields})
            return command(*arguments, options=options, **values)

        for each in reversed(ordered):
            names, attributes = each.metadata["names"], each.metadata["attributes"]
            wrapped = click.option(*names, each.name, **attributes)(wrapped)
        return wrapped

    return decorate


@dataclass(frozen=True, kw_only=True)
class Showing:
    """The options of commands that print what files hold."""

    recursive: bool = option("-r", "--recursive", is_flag=True, help="Take the files below folders.")
    as_json: bool = option("--json", is_flag=True, help="Print one JSON object a line on stdout.")
    max_pixels: int = _max_pixels()


@dataclass(frozen=True, kw_only=True)
class Inspecting:
    """The options of `inspect`."""

    output: str | None = option("-o", "--output", metavar="FILE.html|-", help="Write the page here; - is stdout.")
    map: str | None = option("--map", metavar="FILE.png", help="Write the map alone, a pixel for each pixel.")
    force: bool = option("-f", "--force", is_flag=True, help="Overwrite existing files.")
    models: tuple[str, ...] = _models("Use only this model (repeatable).")
    best: bool = option("--best", is_flag=True, help="Try slow methods.")
    max_pixels: int = _max_pixels()


@dataclass(frozen=True, kw_only=True)
class Running(Showing):
    """The options of commands that work on many files; all of `verify`."""

    processes: int = option(
        "-j", "--jobs", type=COUNT, default=1, metavar="N", help="Do N files at a time (default 1)."
    )
    models: tuple[str, ...] = _models("Also look here for the model (repeatable).")
    cluster: str | None = option(
        "--cluster", type=_Address(), metavar="ADDRESS", help="Work on a Dask cluster: tcp://host:8786."
    )
    quiet: bool = option("-q", "--quiet", is_flag=True, help="Print errors only.")
    verbose: bool = option("-v", "--verbose", is_flag=True, help="Print where the bytes go and what is left out.")

    working_folder: Path = Path()  # where relative paths start

    def __post_init__(self) -> None:
        """Raise UsageError for options that exclude each other."""
        if self.quiet and self.verbose:
            raise click.UsageError("-q and -v exclude each other")

    def placed(self) -> Self:
        """The same options for all workers: those of a cluster need full paths."""
        if not self.cluster:
            return self
        here = Path.cwd()
        models = tuple(str(here / name) if (here / name).is_file() else name for name in self.models)
        return dataclasses.replace(self, models=models, working_folder=here)


@dataclass(frozen=True, kw_only=True)
class Converting(Running):
    """The options of commands that write files."""

    output: str | None = option("-o", "--output", metavar="FILE|DIR|-", help="Write here; - is stdout.")
    force: bool = option("-f", "--force", is_flag=True, help="Overwrite existing files.")
    update: bool = option(
        "-u", "--update", is_flag=True, help="Do what is missing, or older than its source; leave out the rest."
    )
    rm: bool = option("--rm", is_flag=True, help="Remove each source once its output is checked.")

    @property
    def may_replace(self) -> bool:
        """Whether an output may take the place of a file that was there before. With
        --update, only older ones are left.
        """
        return self.force or self.update

    @property
    def writing(self) -> dict[str, bool]:
        """Options of atomic.write. The worker of a cluster may be lost after it has written a file."""
        return {"force": self.may_replace, "may_repeat": bool(self.cluster)}


@dataclass(frozen=True, kw_only=True)
class Compressing(Converting):
    """The options of `compress`."""

    models: tuple[str, ...] = _models("Use only this model (repeatable).")
    strip: bool = option("--strip", is_flag=True, help="Leave out texts, times and Exif.")
    exact: bool = option("--exact", is_flag=True, help="Keep the PNG file byte for byte.")
    broken: str = option(
        "--broken", type=click.Choice(["refuse", "keep"]), default="refuse",
        help="Refuse (default) or keep damaged PNGs.",
    )  # fmt: skip
    fast: bool = option("--fast", is_flag=True, help="Use small models only: faster both ways.")
    best: bool = option("--best", is_flag=True, help="Use large models, try slow methods: slower both ways.")
    no_verify: bool = option("--no-verify", is_flag=True, help="Do not decode the result to check it.")
    others: str = option(
        "--others", type=click.Choice(["leave", "keep"]), default="leave",
        help="Leave out (default) or keep other files.",
    )  # fmt: skip
    group: int | None = option("--group", type=COUNT, metavar="N", help="Code at most N images together.")
    learn: float | None = option(
        "--learn", type=_Duration(), metavar="TIME", help="Train an archive's own model for TIME: 10m, 90s."
    )

    @property
    def reading(self) -> dict[str, Any]:
        """The options of codec.source.read."""
        return {"strip": self.strip, "exact": self.exact}

    @property
    def effort(self) -> Effort:
        """How much time coding may take."""
        return Effort.of(fast=self.fast, best=self.best)

    @property
    def is_whole(self) -> bool:
        """Whether files must be kept with all they hold; see foreign.to_png."""
        return self.rm or self.exact

    @property
    def keep_broken(self) -> bool:
        """Whether damaged PNGs are kept."""
        return self.broken == "keep"

    @property
    def keep_others(self) -> bool:
        """Whether other files than images go into an archive."""
        return self.others == "keep"


@dataclass(frozen=True, kw_only=True)
class Decompressing(Converting):
    """The options of `decompress`."""

    repack: bool = option("--repack", is_flag=True, help="Write new PNGs, also if --exact kept their bytes.")
    only: tuple[str, ...] = option(
        "--only",
        metavar="GLOB",
        multiple=True,
        help="Take only these files of archives: a name, a folder, or a pattern.",
    )
    crop: Region | None = option(
        "--crop", type=_Geometry(), metavar="WxH+X+Y", help="Decode only these pixels; X, Y: left, top."
    )
    salvage: bool = option("--salvage", is_flag=True, help="Save undamaged images of archives; list the lost ones.")
    format: str = option(
        "--format", type=click.Choice(FORMATS), default="png", help="Write this format if it can hold the same pixels."
    )

    @property
    def ending(self) -> str:
        """The ending of images' names, see names.image_name: `.png`, or `.640x480+0+0.ppm`."""
        return f".{self.crop}.{self.format}" if self.crop else f".{self.format}"


@dataclass(frozen=True, kw_only=True)
class Training:
    """The options of `train`."""

    output: Path = option("-o", "--output", metavar="RUN", required=True, type=_new, help="Folder of the run.")
    config: Path | None = option(
        "--config", type=existing, metavar="FILE", help="Settings in TOML; see RUN/config.toml for all."
    )
    overrides: tuple[str, ...] = option(
        "--set", metavar="KEY=VALUE", multiple=True, help="Change a setting: data.crop=64."
    )
    minutes: float | None = option(
        "--minutes", type=click.FloatRange(min=0, min_open=True), help="Minutes to train, resumed runs included."
    )
    images: int | None = option("--images", type=COUNT, help="Crops to train on, resumed runs included.")
    resume: bool = option("--resume", is_flag=True, help="Continue RUN where it stopped.")
    init: str | None = option(
        "--init", metavar="MODEL|RUN", help="Start from a model, by name or file, or from another run's weights."
    )
    seed: int | None = option("--seed", type=click.IntRange(min=0), help="The same as --set training.seed=N.")
    device: str = option("--device", type=click.Choice(DEVICES), **_AUTO, help="Where to train.")
    amp: str = option("--amp", type=click.Choice(["auto", "on", "off"]), **_AUTO, help="Train in bfloat16.")
    quiet: bool = option("-q", "--quiet", is_flag=True, help="Print errors only.")

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that replace those of the configuration."""
        return self.overrides + (() if self.seed is None else (f"training.seed={self.seed}",))


@dataclass(frozen=True, kw_only=True)
class Benching:
    """The options of `bench`."""

    output: Path | None = option(
        "-o", "--output", type=_new_file, metavar="FILE.json", help="Write all rows and totals as JSON."
    )
    markdown: Path | None = option("--markdown", type=_new_file, metavar="FILE.md", help="Write the table of totals.")
    figure: Path | None = option("--figure", type=_new_file, metavar="FILE.png", help="Draw size against speed.")
    codecs: tuple[str, ...] = option(
        "--codec", type=_CodecName(), multiple=True, help="Measure only this codec (repeatable)."
    )
    models: tuple[str, ...] = _models("Add dqcodec with only this model (repeatable).")
    threads: int = option(
        "--threads", type=COUNT, default=1, metavar="N", help="Threads of each codec that can use several (default 1)."
    )
    repeat: int = option(
        "--repeat",
        type=COUNT,
        default=1,
        metavar="N",
        help="Code each image N times and take the best time (default 1).",
    )
    force: bool = option("-f", "--force", is_flag=True, help="Overwrite existing files.")
    as_json: bool = option("--json", is_flag=True, help="Print JSON on stdout, not the table.")
    quiet: bool = option("-q", "--quiet", is_flag=True, help="Print the result only.")

    @property
    def targets(self) -> list[Path]:
        """The files to write."""
        return [target for target in (self.output, self.markdown, self.figure) if target]
