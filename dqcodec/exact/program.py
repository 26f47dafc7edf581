"""Exact programs: what model files hold, flows and autoregressive densities."""

from pathlib import Path

from dqcodec.base.errors import ModelError
from dqcodec.exact import model_file
from dqcodec.exact.autoregressive import program as autoregressive
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.flow import program as flow
from dqcodec.exact.flow.program import FlowProgram
from dqcodec.exact.model_file import Tensors

Program = FlowProgram | AutoregressiveProgram


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
