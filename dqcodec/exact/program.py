"""Exact programs: what model files hold, flows and autoregressive densities."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from dqcodec.ans.protocol import BitStack, ImageCodec
from dqcodec.base.errors import ModelError
from dqcodec.exact import model_file
from dqcodec.exact.autoregressive import program as autoregressive
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.flow import program as flow
from dqcodec.exact.flow.program import FlowProgram
from dqcodec.exact.model_file import Tensors


class Program(ImageCodec, Protocol):
    """A trained model as an exact codec.

    kind: what the model file says it is. id: the model file's, see exact.identity. card: facts about the model.
    codes_all: it codes whatever fits; else pushing may raise StackUnderflow or LatentOverflow whatever the stack holds.
    """

    kind: str
    id: bytes
    name: str
    card: dict
    codes_all: bool

    def fits(self, shape: tuple[int, int, int]) -> bool:
        """Whether layers of a shape (H, W, C) can be coded at all."""

    def code_length(self, parts: Sequence[np.ndarray]) -> float:
        """The bits that parts of layers (H, W, C), uint8, take; infinity if the model cannot code them."""

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Images that a stack of noise decodes to, uint8 (count, H, W, C) below 2^bits."""


FindProgram = Callable[[bytes], Program]  # model id -> program; raises UnknownModelError


def load_program(path: Path) -> Program:
    """Read a model file.

    Raises:
        ModelError: not a model file, of an unknown format, or its exactness is not proven.
    """
    return model_file.load(path, _program)


def _program(description: dict, tensors: Tensors, id: bytes) -> Program:
    # the first model files, all of them flows, do not say what they are
    match description.pop("kind", "flow"):
        case "flow":
            return FlowProgram(flow.Description(**description | {"subflows": tuple(description["subflows"])}), tensors, id)
        case "autoregressive":
            return AutoregressiveProgram(autoregressive.Description(**description | {"tile": tuple(description["tile"])}), tensors, id)
        case kind:
            raise ModelError(f"a model of the unknown kind {kind!r}")
