"""Models at hand: the `*.safetensors` files that come with the package, and files that the user names by path.

Models of earlier versions lie in the folder `earlier`. They decode their files, and code no new ones. The file name
`<name>-<sha8>.safetensors` gives the model's name and the first 8 digits of its id. A .dqc file refers to a model by
its id, the first 8 bytes of the SHA-256 of the model file.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from dqcodec.base.errors import ModelError, UnknownModelError
from dqcodec.exact.identity import file_id
from dqcodec.exact.program import Program

ModelLike = str | os.PathLike | Program

SUFFIX = ".safetensors"
_NAMED = re.compile(r"(.*?)(?:-([0-9a-f]{8}))?", re.DOTALL)  # a stem: name, first digits of the id
_ID = re.compile(r"[0-9a-f]{16}")
_PACKAGE = Path(__file__).resolve().parents[1]


def directory() -> Path:
    """The folder of the models: `models/` in the installed package, else at the top of the repository."""
    installed = _PACKAGE / "models"
    return installed if installed.is_dir() else _PACKAGE.parent / "models"


def paths() -> dict[str, Path]:
    """Name -> file of each model in `directory()`, sorted by file name.

    If several files have one name, the name of each is its file's, without the suffix: `photo-9a129038`.
    """
    files = sorted(directory().glob(f"*{SUFFIX}"))
    uses = Counter(name for path in files for name in {_name(path), path.stem})
    return {_name(path) if uses[_name(path)] == 1 else path.stem: path for path in files}


def names() -> list[str]:
    """The names of the models in `directory()`."""
    return list(paths())


def locate(name_or_path: str | os.PathLike) -> Path:
    """The file of a model, given by its name, with or without digits, by its id, or by a path that ends
    in .safetensors; raises UnknownModelError.
    """
    path = Path(name_or_path)
    if path.suffix == SUFFIX and path.is_file():
        return path
    known = paths()
    if _ID.fullmatch(str(name_or_path)) and (of_id := _file_of(bytes.fromhex(str(name_or_path)))):
        return of_id
    whole = {file.stem: file for file in known.values()}
    if name_or_path not in known | whole:
        alike = [name for name, file in known.items() if _name(file) == name_or_path]
        which = f"several models are named {name_or_path!r}" if alike else f"no model {name_or_path!r}"
        raise UnknownModelError(f"{which}; {_at_hand(known)}")
    return (known | whole)[name_or_path]


def load(name_or_path: str | os.PathLike) -> Program:
    """Load a model's program; a second call returns the same one unless the file has changed. Raises UnknownModelError,
    ModelError."""
    path = locate(name_or_path).resolve()
    try:
        return _load(path, file_id(path))
    except OSError as error:
        raise ModelError(f"cannot read model {path}: {error.strerror or error}") from error


def find(model_id: bytes, named: ModelLike | Iterable[ModelLike] = ()) -> Program:
    """The program of the model file with this id.

    named: one or several model names, files or loaded programs; they are searched before `directory()`. Raises
    UnknownModelError, ModelError.
    """
    given = listed(named)
    for model in given:
        if not is_name(model) and model.id == model_id:
            return model
    if path := _file_of(model_id, map(locate, filter(is_name, given))):
        return load(path)
    raise UnknownModelError(f"no model with id {model_id.hex()}; {_at_hand(paths())} (name another with -m FILE)")


def name_of(model_id: bytes) -> str | None:
    """The name of the model file with this id in `directory()`, without digits; None if there is none."""
    path = _file_of(model_id)
    return path and _name(path)


def listed(models: ModelLike | Iterable[ModelLike]) -> list[ModelLike]:
    """A list of models, from one model or several; raises TypeError: something else is among them."""
    many = list(models) if isinstance(models, Iterable) and not is_name(models) else [models]
    for model in many:
        if not (is_name(model) or hasattr(model, "id")):
            raise TypeError(f"{model!r} is no model: a name, a path or a loaded program is")
    return many


def is_name(model: ModelLike) -> bool:
    """Whether a model is given by its name or path, not as a loaded program."""
    return isinstance(model, str | os.PathLike)


@functools.cache
def _load(path: Path, model_id: bytes) -> Program:
    """The program of a file that has this id."""
    from dqcodec.exact.program import load_program

    program = load_program(path)
    name, digits = _NAMED.fullmatch(path.stem).groups()
    if digits and not program.id.hex().startswith(digits):  # nobody else could decode what it codes
        raise ModelError(f"{path}: the model file is damaged: its SHA-256 does not begin with {digits}")
    program.name = name
    return program


def _file_of(model_id: bytes, first: Iterable[Path] = ()) -> Path | None:
    """The model file with this id among some files, those at hand and those of earlier versions; None if there is none."""
    earlier = sorted((directory() / "earlier").glob(f"*{SUFFIX}"))
    files = itertools.chain(first, paths().values(), earlier)
    return next((path for path in files if file_id(path.resolve()) == model_id), None)


def _name(path: Path) -> str:
    return _NAMED.fullmatch(path.stem)[1]


def _at_hand(known: dict[str, Path]) -> str:
    """The part of an error message that lists the known models."""
    return f"at hand: {', '.join(known)}" if known else f"no models in {directory()}"
