"""A stand-in for `dqcodec.methods.learned` that wins every time: the payload is an XOR of the pixels, kept short by a
shared table, so that codec and CLI are tested without a model."""

import hashlib
import sys
import types
from dataclasses import dataclass

import numpy as np

from dqcodec.errors import CorruptError


@dataclass(frozen=True)
class ModelReport:
    vi_bpd: float
    coded_bpd: float
    initial_bits: float
    grid_bits: float


@dataclass
class Program:
    name: str = "fake"
    id: bytes = b"fake-id!"
    channels: int = 3
    kind: str = "flow"


def install(monkeypatch, error: Exception | None = None, wrong: bool = False) -> None:
    """Put the fake in place of the real module; `error` is raised by encode, `wrong` makes decode lie."""
    table = {}

    def choose(pixels, programs):
        return next((program for program in programs if program.channels == pixels.shape[-1]), None)

    def encode(pixels, program):
        if error:
            raise error
        key = hashlib.sha256(pixels.tobytes()).digest()[:2]
        table[key] = pixels.copy()
        return key, ModelReport(3.46, 3.47, 12.0, 0.5)

    def decode(payload, shape, program):
        if payload not in table:
            raise CorruptError("no such payload")
        pixels = table[payload]
        return pixels ^ np.uint8(wrong)

    module = types.ModuleType("dqcodec.methods.learned")
    module.choose, module.encode, module.decode = choose, encode, decode
    monkeypatch.setitem(sys.modules, "dqcodec.methods.learned", module)
    monkeypatch.setattr("dqcodec.methods.learned", module, raising=False)
