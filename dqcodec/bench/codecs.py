"""What a codec under test is."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from dqcodec.bench.images import Original


@dataclass(frozen=True)
class ModelParts:
    """Where bits went that a model coded. The limit is the model's own bound; the parts beyond it, and `other` (rounding
    to words, lengths), make up the rest of the file."""

    limit: float
    initial: float
    grids: float
    container: float
    metadata: float
    other: float


@dataclass(frozen=True)
class ModelBits(ModelParts):
    """The parts of one file, in bits, and the model that coded it."""

    model: str


@dataclass(frozen=True)
class Coded:
    """A compressed file. method: dqcodec's choice; others have but one. `model` where a model coded it."""

    data: bytes
    method: str | None = None
    model: ModelBits | None = None


class Codec(ABC):
    """Both directions of one codec. Objects are light until `prepare`, and travel to the process that uses them.

    Attributes:
        name: for --codec. title: for people.
        encodes: False for files taken as they are. threaded: whether it can use several threads.
        requires: package it needs, beyond those that dqcodec itself needs.
        channels, bit_depths: of the pixels that it takes. models: files that it codes with.
    """

    name: str
    title: str
    encodes = True
    threaded = False
    requires: str | None = None
    channels: tuple[int, ...] = (1, 2, 3, 4)
    bit_depths: tuple[int, ...] = (8, 16)
    models: Sequence[Path] = ()

    def is_installed(self) -> bool:
        return self.requires is None or importlib.util.find_spec(self.requires) is not None

    def takes(self, source: Original) -> bool:
        return source.pixels.shape[2] in self.channels and 8 * source.pixels.itemsize in self.bit_depths

    @abstractmethod
    def version(self) -> str:
        """Of the library behind it; only where installed."""

    def prepare(self, threads: int) -> None:
        """Import and load what the work needs, so that it is not timed. Called once, in the process that works."""

    @abstractmethod
    def encode(self, source: Original) -> Coded: ...

    @abstractmethod
    def decode(self, data: bytes) -> np.ndarray:
        """Pixels (H, W, C), or (H, W) for gray."""
