"""Exact programs, loaded from model files: flows and autoregressive models. Their modules
are imported when one is loaded.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from dqcodec.ans.protocol import BitStack, ImageCodec
from dqcodec.base.errors import ModelError


class Program(ImageCodec, Protocol):
    """A trained model as an exact codec.

    kind: `flow` or `autoregressive`. id: 8 bytes, see exact.identity. name, card: the model's name, and facts about it.
    codes_all: it can code all layers that fit. Otherwise coding may raise StackUnderflow or LatentOverflow.
    """

    kind: str
    id: bytes
    name: str
    card: dict
    codes_all: bool

    def fits(self, shape: tuple[int, int, int]) -> bool:
        """Whether layers of this shape (H, W, C) can be coded."""

    def code_length(self, parts: Sequence[np.ndarray]) -> float:
        """The bits that parts of layers, (H, W, C) uint8, take; infinity if the model cannot code them."""

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Decode images, uint8 (count, H, W, C) below 2^bits, from a stack of random bits; raises StackUnderflow."""


FindProgram = Callable[[bytes], Program]  # model id -> program; raises UnknownModelError


def load_program(path: Path) -> Program:
    """Read a model file.

    Raises ModelError: not a model file, of an unknown format or kind, not valid, or not proven
    exact; OSError: the file cannot be read.
    """
    from dqcodec.exact import model_file

    return model_file.load(path, _program)


def _program(description: dict, tensors: dict[str, np.ndarray], id: bytes) -> Program:
    from dqcodec.exact.autoregressive import description as autoregressive
    from dqcodec.exact.autoregressive.learning_net import LearningRule
    from dqcodec.exact.autoregressive.program import AutoregressiveProgram
    from dqcodec.exact.flow import description as flow
    from dqcodec.exact.flow.program import FlowProgram

    # the first model files were flows, without a kind
    match description.pop("kind", "flow"):
        case "flow":
            description["subflows"] = tuple(description["subflows"])
            return FlowProgram(flow.Description(**description), tensors, id)
        case "autoregressive":
            description["tile"] = tuple(description["tile"])
            description["learning"] = tuple(LearningRule(*rule) for rule in description.get("learning", ()))
            return AutoregressiveProgram(autoregressive.Description(**description), tensors, id)
        case kind:
            raise ModelError(f"a model of the unknown kind {kind!r}")
