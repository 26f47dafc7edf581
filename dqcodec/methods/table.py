"""The methods by which layers become payloads, and payloads layers: one row for each.

A method's module has the functions `encode` and `decode` that a row has. Layers are arrays (H, W, C), uint8. Modules are
imported when they are first needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.format.container import Layer, Method
from dqcodec.methods.payload import Effort, Payload

if TYPE_CHECKING:
    from types import ModuleType

    from dqcodec.exact.program import FindProgram, Program


@dataclass(frozen=True)
class Row:
    """A method. number: in the format. module: its name in dqcodec.methods. needs: the kind of program that it codes with.
    is_slow: both ways, so that large layers are not coded by it unless that is asked for."""

    number: Method
    module: str
    needs: str | None = None
    is_slow: bool = False

    def encode(
        self, layers: Sequence[np.ndarray], program: Program | None = None, effort: Effort = Effort()
    ) -> Payload:
        """The payload of layers.

        Raises LatentOverflow, StackUnderflow if a flow cannot code them, ParticlesError if it takes no such number of
        particles.
        """
        return self._module().encode(layers, program, effort)

    def decode(
        self, data: bytes, shapes: Sequence[tuple[int, int, int]], program: Program | None = None
    ) -> list[np.ndarray]:
        """Undo encode; raises CorruptError, and what numpy raises, for a payload that no encoder wrote."""
        return self._module().decode(data, shapes, program)

    def _module(self) -> ModuleType:
        return importlib.import_module(f"dqcodec.methods.{self.module}")


METHODS = {
    row.number: row
    for row in (
        Row(Method.CLASSICAL, "classical"),
        Row(Method.FLOW, "flow", needs="flow"),
        Row(Method.AUTOREGRESSIVE, "autoregressive", needs="autoregressive"),
        Row(Method.MIXING, "mixing", is_slow=True),
        Row(Method.MODEL_MIXING, "model_mixing", needs="autoregressive", is_slow=True),
    )
}


def rows_of(program: Program) -> list[Row]:
    """The methods that code with a program, its own first."""
    return sorted((row for row in METHODS.values() if row.needs == program.kind), key=lambda row: row.is_slow)


def own(program: Program) -> Row:
    """The fastest method that codes with a program."""
    return rows_of(program)[0]


def encode(
    method: Method, layers: Sequence[np.ndarray], program: Program | None = None, effort: Effort = Effort()
) -> Payload:
    """The payload of layers by a method; see Row.encode."""
    return METHODS[method].encode(layers, program, effort)


def decode(
    data: bytes, layer: Layer, shapes: Sequence[tuple[int, int, int]], find_program: FindProgram
) -> list[np.ndarray]:
    """The layers of a payload, all coded as `layer` says; raises CorruptError if they are not of these shapes."""
    row, program = METHODS[layer.method], None
    if row.needs:
        program = find_program(layer.model_id)
        if row not in rows_of(program):
            raise CorruptError("the model is of another kind than the file says")
        if not all(map(program.fits, shapes)):
            raise CorruptError("the image does not fit the model")
    try:
        layers = row.decode(data, shapes, program)
    except DqcodecError:
        raise
    except (ValueError, IndexError, ArithmeticError) as error:  # a payload that no encoder wrote
        raise CorruptError(f"the payload does not decode ({error})") from error
    if [pixels.shape for pixels in layers] != list(shapes):
        raise CorruptError("the payload decodes to another shape")
    return layers
