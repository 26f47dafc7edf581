"""A stand-in for the methods that code with a model, which wins every time: the payload is a key of the layers, kept short
by a shared table, so that codec and CLI are tested without a model."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.codec import candidates
from dqcodec.format.layer import Method
from dqcodec.methods.payload import ModelReport, Payload
from dqcodec.methods.table import METHODS, Row


@dataclass(eq=False)
class Program:
    name: str = "fake"
    id: bytes = b"fake-id!"
    channels: int = 3
    bits: int = 8
    kind: str = "flow"
    card: dict = field(default_factory=dict)
    codes_all: bool = False

    def fits(self, shape):
        return shape[2] == self.channels

    def code_length(self, parts):
        return 16.0  # as long as a payload


@dataclass(frozen=True)
class Fake(Row):
    """A row of the table of methods with a module of its own."""

    module: SimpleNamespace = None


def install(monkeypatch, error: Exception | None = None, wrong: bool = False, see: Callable = len) -> None:
    """Put the fake in place of the real methods; `error` is raised by encode, `wrong` makes decode lie. see: called with the
    layers of each payload."""
    monkeypatch.setattr(candidates, "is_icon", lambda *_: False)
    table = {}

    def encode(layers, program):
        see(layers)
        if error:
            raise error
        key = hashlib.sha256(b"".join(pixels.tobytes() for pixels in layers)).digest()[:2]
        table[key] = [pixels.copy() for pixels in layers]
        return Payload(key, report=ModelReport(tuple(3.46 * pixels.size for pixels in layers), 0, 12.0, 0.5))

    def decode(payload, shapes, program):
        if payload not in table:
            raise CorruptError("no such payload")
        return [pixels ^ np.uint8(wrong) for pixels in table[payload]]

    for number, kind in ((Method.FLOW, "flow"), (Method.AUTOREGRESSIVE, "autoregressive")):
        monkeypatch.setitem(METHODS, number, Fake(number, kind, module=SimpleNamespace(encode=encode, decode=decode)))
    monkeypatch.delitem(METHODS, Method.MODEL_MIXING)
