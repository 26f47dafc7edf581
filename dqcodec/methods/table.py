"""The table of methods: one row for each method that codes layers.

The module of a method has functions `encode` and `decode` with the signatures of Row. Layers are arrays (H, W, C)
uint8. A module is imported at its first use.
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
    """A method.

    number: in the format. module: its name in dqcodec.methods. needs: the kind of program that it codes with, or None.
    is_slow: coding and decoding take long, so it codes large layers only with Effort.best.
    """

    number: Method
    module: str
    needs: str | None = None
    is_slow: bool = False

    def encode(
        self, layers: Sequence[np.ndarray], program: Program | None = None, effort: Effort = Effort()
    ) -> Payload:
        """The payload of layers.

        Raises LatentOverflow, StackUnderflow (a flow cannot code these layers), ParticlesError (it cannot use this
        number of particles).
        """
        return self._module().encode(layers, program, effort)

    def decode(
        self, data: bytes, shapes: Sequence[tuple[int, int, int]], program: Program | None = None
    ) -> list[np.ndarray]:
        """The layers of these shapes: the inverse of encode. Raises CorruptError, or numpy's errors, for a damaged
        payload."""
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
        Row(Method.PIXEL_MIXING, "pixel_mixing", is_slow=True),
    )
}


def rows_of(program: Program) -> list[Row]:
    """The methods that code with a program, the fastest first."""
    return sorted((row for row in METHODS.values() if row.needs == program.kind), key=lambda row: row.is_slow)


def own(program: Program) -> Row:
    """The fastest method that codes with a program."""
    return rows_of(program)[0]


def encode(
    method: Method, layers: Sequence[np.ndarray], program: Program | None = None, effort: Effort = Effort()
) -> Payload:
    """The payload of layers by a method; errors: see Row.encode."""
    return METHODS[method].encode(layers, program, effort)


def decode(
    data: bytes, layer: Layer, shapes: Sequence[tuple[int, int, int]], find_program: FindProgram
) -> list[np.ndarray]:
    """The layers of a payload, all coded by the method and the model of `layer`.

    Raises CorruptError (the payload is damaged, or the model or the shapes do not fit), UnknownModelError.
    """
    row, program = METHODS[layer.method], None
    if row.needs:
        program = find_program(layer.model_id)
        if row not in rows_of(program):
            raise CorruptError("the model is of another kind than the method needs")
        if not all(map(program.fits, shapes)):
            raise CorruptError("the image does not fit the model")
    try:
        layers = row.decode(data, shapes, program)
    except DqcodecError:
        raise
    except (ValueError, IndexError, ArithmeticError) as error:  # a damaged payload
        raise CorruptError(f"the payload does not decode ({error})") from error
    if [pixels.shape for pixels in layers] != list(shapes):
        raise CorruptError("the payload decodes to another shape")
    return layers
