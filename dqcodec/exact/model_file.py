"""Model files: an exact program as safetensors (integer tensors), with a JSON description in the metadata.

No code in the file is run. When a program is loaded, every bound that exactness needs is proven again.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dqcodec.base.errors import ModelError
from dqcodec.exact.identity import file_id

_FORMAT = 1

Tensors = dict[str, np.ndarray]
Made = TypeVar("Made")


def dump(kind: str, description: dict, tensors: Tensors) -> bytes:
    """The bytes of a model file. kind: `flow` or `autoregressive`; description: JSON values."""
    # safetensors writes the memory of an array, so its order must be C
    tensors = {key: np.asarray(tensor, order="C") for key, tensor in sorted(tensors.items())}
    return save(
        tensors, metadata={"dqcodec": json.dumps(description | {"format": _FORMAT, "kind": kind}, sort_keys=True)}
    )


def load(path: Path, make: Callable[[dict, Tensors, bytes], Made]) -> Made:
    """make(description, int64 tensors, id) of a model file.

    Raises ModelError: not a model file, of an unknown format, not valid, or not proven
    exact; OSError: the file cannot be read.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            description = json.loads((file.metadata() or {}).get("dqcodec", "null"))
            tensors = {name: _integers(name, file.get_tensor(name)) for name in file.keys()}
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except (SafetensorError, ValueError, TypeError, AttributeError, RecursionError) as error:  # numpy lacks some dtypes
        raise ModelError(f"{path}: not a model file: {error}") from None
    if not isinstance(description, dict) or description.pop("format", None) != _FORMAT:
        raise ModelError(f"{path}: not a model file of format {_FORMAT}")
    try:
        return make(description, tensors, file_id(path))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelError(f"{path}: the model file is not valid: {error}") from None
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def is_typed(description: Any) -> bool:
    """Whether the fields of a dataclass have exactly the types of their annotations: int,
    bool, str, dict, or tuples of one.
    """

    def fits(value: object, kind: Any) -> bool:
        if get_origin(kind) is tuple:
            return type(value) is tuple and all(fits(each, get_args(kind)[0]) for each in value)
        return type(value) is kind

    return all(fits(getattr(description, name), kind) for name, kind in get_type_hints(type(description)).items())


def _integers(name: str, tensor: np.ndarray) -> np.ndarray:
    """The tensor as int64; raises ModelError unless it holds integers below 2^53, which all proofs of bounds need."""
    if (
        tensor.dtype.kind not in "iu"
        or not tensor.size
        or not -(1 << 53) < int(tensor.min()) <= int(tensor.max()) < 1 << 53
    ):
        raise ModelError(f"the tensor {name!r} does not hold integers below 2^53")
    return tensor.astype(np.int64)
