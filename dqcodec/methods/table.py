"""The table of methods: one row for each method that codes layers.

The module of a method has these functions:

    encode(layers) -> Payload                                  decode(data, shapes) -> layers
    decode_windows(data, shapes, windows) -> parts of layers   if it decodes a part of a layer in less time than all of it
    code_lengths(layers) -> bits of each sample                if it says where its bits go

Layers are arrays (H, W, C) uint8. The method experts also takes uint16, and always decodes uint16. The last argument is
the program, for a method that needs one, or the spots of the layers, for a method with a canvas. A module is imported
at its first use.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dqcodec.base.errors import CorruptError, DqcodecError
from dqcodec.exact.boxes import Window
from dqcodec.exact.program import FindProgram, Program
from dqcodec.format.canvas import Spot
from dqcodec.format.layer import Layer, Method
from dqcodec.methods.payload import Payload


@dataclass(frozen=True)
class Row:
    """A method.

    number: in the format; its name is that of the module in dqcodec.methods. needs: the kind of program that it codes
    with, or None. is_slow: coding and decoding take long. has_canvas: it codes layers on the canvas of an animation.
    """

    number: Method
    needs: str | None = None
    is_slow: bool = False
    has_canvas: bool = False

    @property
    def module(self) -> Any:
        """The module with its functions."""
        return importlib.import_module(f"dqcodec.methods.{self.number.name.lower()}")

    def more(self, program: Program | None, spots: Sequence[Spot]) -> tuple:
        """The last arguments of its functions: the program and the spots, if it needs them."""
        return (*((program,) if self.needs else ()), *((spots,) if self.has_canvas else ()))


METHODS = {
    row.number: row
    for row in (
        Row(Method.CLASSICAL),
        Row(Method.FLOW, needs="flow"),
        Row(Method.AUTOREGRESSIVE, needs="autoregressive"),
        Row(Method.MIXING),
        Row(Method.MODEL_MIXING, needs="autoregressive", is_slow=True),
        Row(Method.PIXEL_MIXING),
        Row(Method.TRAINED_MIXING),
        Row(Method.EXPERTS),
        Row(Method.JPEG),
        Row(Method.ANIMATION, has_canvas=True),
    )
}


def rows_of(program: Program) -> list[Row]:
    """The methods that code with a program, the fastest first."""
    return sorted((row for row in METHODS.values() if row.needs == program.kind), key=lambda row: row.is_slow)


def encode(
    method: Method, layers: Sequence[np.ndarray], program: Program | None = None, spots: Sequence[Spot] = ()
) -> Payload:
    """The payload of layers by a method. program: if the method needs one. spots: of each layer, if it has a canvas.

    Raises LatentOverflow, StackUnderflow (a flow cannot code these layers).
    """
    row = METHODS[method]
    return row.module.encode(layers, *row.more(program, spots))


def code_lengths(
    method: Method, layers: Sequence[np.ndarray], program: Program | None = None
) -> list[np.ndarray] | None:
    """The bits of each sample of layers that a method codes together, float32 (H, W, C) each; None if
    the method does not say where its bits go.
    """
    row = METHODS[method]
    find = getattr(row.module, "code_lengths", None)
    return find and find(layers, *row.more(program, ()))


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
        layers = row.module.decode(data, shapes, *row.more(program, spots))
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
    if hasattr(row.module, "decode_windows"):
        with _damage():
            return row.module.decode_windows(data, shapes, windows, *row.more(program, ()))
    layers = decode(data, layer, shapes, find_program)
    return [window and pixels[window] for pixels, window in zip(layers, windows)]


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
