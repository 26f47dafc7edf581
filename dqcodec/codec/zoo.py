"""Models at hand: the `*.safetensors` files beside the package, and any that the user names by path.

A model is named by its file, `<name>-<sha8>.safetensors`, and identified in .dqc files by its id, the first 8 bytes of
the SHA-256 of the whole file.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dqcodec.base.errors import ModelError, UnknownModelError
from dqcodec.exact.identity import file_id

if TYPE_CHECKING:
    from dqcodec.exact.program import Program

    Model = str | os.PathLike | Program

SUFFIX = ".safetensors"
_PACKAGE = Path(__file__).resolve().parents[1]


def directory() -> Path:
    """Where models are kept: `models/` in the installed package, or else at the top of the repository."""
    installed = _PACKAGE / "models"
    return installed if installed.is_dir() else _PACKAGE.parent / "models"


def paths() -> dict[str, Path]:
    """Name -> file of every model in `directory()`, sorted by name."""
    return {_name(path): path for path in sorted(directory().glob(f"*{SUFFIX}"))}


def names() -> list[str]:
    return list(paths())


def locate(name_or_path: str | os.PathLike) -> Path:
    """The file of a model given by its name or by a path ending in .safetensors; raises UnknownModelError."""
    path = Path(name_or_path)
    if path.suffix == SUFFIX and path.is_file():
        return path
    known = paths()
    if name_or_path not in known:
        raise UnknownModelError(f"no model {name_or_path!r}; {_at_hand(known)}")
    return known[name_or_path]


def load(name_or_path: str | os.PathLike) -> Program:
    """The program of a model, loaded once in a process; raises UnknownModelError, ModelError."""
    return _load(locate(name_or_path).resolve())


def find(model_id: bytes, named: Model | Iterable[Model] = ()) -> Program:
    """The program whose file has this id, among the `named` models (names, files or loaded programs, or one) and
    `directory()`; raises UnknownModelError."""
    given = listed(named)
    for model in given:
        if not is_name(model) and model.id == model_id:
            return model
    for path in [*map(locate, filter(is_name, given)), *paths().values()]:
        if file_id(path.resolve()) == model_id:
            return _load(path.resolve())
    raise UnknownModelError(f"no model with id {model_id.hex()}; {_at_hand(paths())} (name another with -m FILE)")


def listed(models: Model | Iterable[Model]) -> list[Model]:
    """Models that are given as one or as several."""
    return list(models) if isinstance(models, Iterable) and not is_name(models) else [models]


def is_name(model: Model) -> bool:
    """Whether a model is given by its name or file, not loaded."""
    return isinstance(model, str | os.PathLike)


@functools.cache
def _load(path: Path) -> Program:
    from dqcodec.exact.program import load_program

    try:
        program = load_program(path)
    except OSError as error:
        raise ModelError(f"cannot read model {path}: {error.strerror or error}") from error
    program.name = _name(path)
    return program


def _name(path: Path) -> str:
    return re.sub(r"-[0-9a-f]{8}$", "", path.stem)


def _at_hand(known: dict[str, Path]) -> str:
    listed = ", ".join(f"{name} {file_id(path.resolve()).hex()}" for name, path in known.items())
    return f"at hand: {listed}" if listed else f"no models in {directory()}"
