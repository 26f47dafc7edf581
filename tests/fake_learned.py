"""A stand-in for `dqcodec.methods.learned` that wins every time: the payload is a key of the layers, kept short by a
shared table, so that codec and CLI are tested without a model."""

import hashlib
import sys
import types
from dataclasses import dataclass

import numpy as np

from dqcodec.base.errors import CorruptError
from dqcodec.methods.report import ModelReport


@dataclass(eq=False)
class Program:
    name: str = "fake"
    id: bytes = b"fake-id!"
    channels: int = 3
    bits: int = 8
    kind: str = "flow"


def install(monkeypatch, error: Exception | None = None, wrong: bool = False) -> None:
    """Put the fake in place of the real module; `error` is raised by encode, `wrong` makes decode lie."""
    table = {}

    def choose(layers, programs):
        channels = {each.shape[2] for each in layers}
        return next((program for program in programs if channels == {program.channels}), None)

    def encode(layers, program, particles):
        if error:
            raise error
        key = hashlib.sha256(b"".join(pixels.tobytes() for pixels in layers)).digest()[:2]
        table[key] = [pixels.copy() for pixels in layers]
        return key, ModelReport(tuple(3.46 * pixels.size for pixels in layers), 0, 12.0, 0.5)

    def decode(payload, shapes, program, **told):
        if payload not in table:
            raise CorruptError("no such payload")
        return [pixels ^ np.uint8(wrong) for pixels in table[payload]]

    def sample_bits(parts, program):
        return sum(3.46 * pixels.size for pixels in parts)

    module = types.ModuleType("dqcodec.methods.learned")
    module.choose, module.encode, module.decode = choose, encode, decode
    module.sample, module.sample_bits = list, sample_bits
    monkeypatch.setitem(sys.modules, "dqcodec.methods.learned", module)
    monkeypatch.setattr("dqcodec.methods.learned", module, raising=False)
