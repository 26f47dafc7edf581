"""The table of methods: one row for each method that codes layers.

The module of a method has functions `encode` and `decode` with the signatures of Row. Layers are arrays (H, W, C)
uint8. The method experts also takes uint16, and always decodes uint16. A module is imported at its first use.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.exact.boxes import Window
from dqcodec.exact.program import FindProgram, Program
from dqcodec.format.canvas import Spot
from dqcodec.format.container import Layer, Method
from dqcodec.methods.payload import Effort, Payload


@dataclass(frozen=True)
class Row:
    """A method.

    number: in the format. module: its name in dqcodec.methods. needs: the kind of program that it codes with, or None.
    is_slow: coding and decoding take long, so it codes large layers only with Effort.best. in_parts: its module has
    `decode_windows`, which decodes a part of a layer in less time than all of it. has_lengths: its module has
    `code_lengths`, which says where the bits go. has_canvas: its functions also take the `spots` of layers on the canvas of an animation.
    """

    number: Method
    module: str
    needs: str | None = None
    is_slow: bool = False
    in_parts: bool = False
    has_lengths: bool = False
    has_canvas: bool = False

    def encode(
        self,
        layers: Sequence[np.ndarray],
        program: Program | None = None,
        effort: Effort = Effort(),
        spots: Sequence[Spot] = (),
    ) -> Payload:
        """The payload of layers. spots: of each layer, if the method has a canvas.

        Raises LatentOverflow, StackUnderflow (a flow cannot code these layers).
        """
        return self._module().encode(layers, program, effort, *self._of_canvas(spots))

    def decode(
        self,
        data: bytes,
        shapes: Sequence[tuple[int, int, int]],
        program: Program | None = None,
        spots: Sequence[Spot] = (),
    ) -> list[np.ndarray]:
        """The layers of these shapes: the inverse of encode. Raises CorruptError, or numpy's errors, for a damaged
        payload."""
        return self._module().decode(data, shapes, program, *self._of_canvas(spots))

    def decode_windows(
        self,
        data: bytes,
        shapes: Sequence[tuple[int, int, int]],
        windows: Sequence[Window | None],
        program: Program | None = None,
    ) -> list[np.ndarray | None]:
        """The pixels in a window of each layer of these shapes; None for a layer without a window. Errors: those of
        decode."""
        if self.in_parts:
            return self._module().decode_windows(data, shapes, windows, program)
        layers = self.decode(data, shapes, program)
        return [window and pixels[window] for pixels, window in zip(layers, windows)]

    def code_lengths(self, layers: Sequence[np.ndarray], program: Program | None = None) -> list[np.ndarray] | None:
        """The bits of each sample of layers that are coded together, float32 (H, W, C) each; None if the method does
        not say where its bits go."""
        return self._module().code_lengths(layers, program) if self.has_lengths else None

    def _of_canvas(self, spots: Sequence[Spot]) -> tuple[Sequence[Spot], ...]:
        return (spots,) if self.has_canvas else ()

    def _module(self) -> ModuleType:
        return importlib.import_module(f"dqcodec.methods.{self.module}")


METHODS = {
    row.number: row
    for row in (
        Row(Method.CLASSICAL, "classical", in_parts=True),
        Row(Method.FLOW, "flow", needs="flow"),
        Row(Method.AUTOREGRESSIVE, "autoregressive", needs="autoregressive", in_parts=True, has_lengths=True),
        Row(Method.MIXING, "mixing", is_slow=True, has_lengths=True),
        Row(Method.MODEL_MIXING, "model_mixing", needs="autoregressive", is_slow=True, has_lengths=True),
        Row(Method.PIXEL_MIXING, "pixel_mixing", is_slow=True),
        Row(Method.TRAINED_MIXING, "trained_mixing", is_slow=True),
        Row(Method.EXPERTS, "experts"),
        Row(Method.JPEG, "jpeg"),
        Row(Method.ANIMATION, "animation", is_slow=True, has_canvas=True),
    )
}


def rows_of(program: Program) -> list[Row]:
    """The methods that code with a program, the fastest first."""
    return sorted((row for row in METHODS.values() if row.needs == program.kind), key=lambda row: row.is_slow)


def own(program: Program) -> Row:
    """The fastest method that codes with a program."""
    return rows_of(program)[0]


def encode(
    method: Method,
    layers: Sequence[np.ndarray],
    program: Program | None = None,
    effort: Effort = Effort(),
    spots: Sequence[Spot] = (),
) -> Payload:
    """The payload of layers by a method; arguments and errors: see Row.encode."""
    return METHODS[method].encode(layers, program, effort, spots)


def decode(
    data: bytes,
    layer: Layer,
    shapes: Sequence[tuple[int, int, int]],
    find_program: FindProgram,
    spots: Sequence[Spot] = (),
) -> list[np.ndarray]:
    """The layers of a payload, all coded by the method and the model of `layer`.

    Raises CorruptError (the payload is damaged, or the model or the shapes do not fit), UnknownModelError.
    """
    row, program = _coder(layer, shapes, find_program)
    with _damage():
        layers = row.decode(data, shapes, program, spots)
    if [pixels.shape for pixels in layers] != list(shapes):
        raise CorruptError("the payload decodes to another shape")
    return layers


def decode_windows(
    data: bytes,
    layer: Layer,
    shapes: Sequence[tuple[int, int, int]],
    windows: Sequence[Window | None],
    find_program: FindProgram,
) -> list[np.ndarray | None]:
    """The pixels (H, W, C) in a window (rows, columns) of each layer of a payload; None without a window. Errors: those
    of decode."""
    row, program = _coder(layer, shapes, find_program)
    with _damage():
        return row.decode_windows(data, shapes, windows, program)


def _coder(
    layer: Layer, shapes: Sequence[tuple[int, int, int]], find_program: FindProgram
) -> tuple[Row, Program | None]:
    """The method and the program of a layer; raises CorruptError, UnknownModelError."""
    row = METHODS[layer.method]
    if not row.needs:
        return row, None
    program = find_program(layer.model_id)
    if row not in rows_of(program):
        raise CorruptError("the model is of another kind than the method needs")
    if not all(map(program.fits, shapes)):
        raise CorruptError("the image does not fit the model")
    return row, program


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Errors that a damaged payload may raise become CorruptError."""
    try:
        yield
    except DqcodecError:
        raise
    except (ValueError, IndexError, ArithmeticError) as error:
        raise CorruptError(f"the payload does not decode ({error})") from error
