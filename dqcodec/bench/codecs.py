"""The interface of a codec under test."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dqcodec.bench import images
from dqcodec.bench.images import Original


@dataclass(frozen=True)
class ModelParts:
    """What the bits of a file that a model coded were spent on.

    limit: the model's own bound. initial: initial bits. grids: rounding to grids and tables. container: headers and
    checksums. metadata: PNG chunks. other: the rest, such as rounding to words. The sum is the size of the file.
    """

    limit: float
    initial: float
    grids: float
    container: float
    metadata: float
    other: float


@dataclass(frozen=True)
class ModelBits(ModelParts):
    """The parts of one file, bits, and the name of the model that coded it."""

    model: str


@dataclass(frozen=True)
class Coded:
    """A compressed file.

    method: the one that dqcodec chose; other codecs have only one. model: set if a model coded the file.
    """

    data: bytes
    method: str | None = None
    model: ModelBits | None = None


class Codec(ABC):
    """Both directions of one codec. Objects are small until `prepare`; they are pickled to the process that uses them.

    Attributes:
        name: for --codec. title: for people.
        encodes: False if the file is taken as it is. threaded: whether the codec can use several threads.
        requires: the package that it needs in addition to dqcodec's own dependencies.
        channels, bit_depths: of the pixels that it takes. animates: whether it takes animations.
        models: the model files that it codes with.
    """

    name: str
    title: str
    encodes = True
    threaded = False
    requires: str | None = None
    channels: tuple[int, ...] = (1, 2, 3, 4)
    bit_depths: tuple[int, ...] = (8, 16)
    animates = False
    models: Sequence[Path] = ()

    def is_installed(self) -> bool:
        """Whether its package is there."""
        return self.requires is None or importlib.util.find_spec(self.requires) is not None

    def takes(self, source: Original) -> bool:
        """Whether it can code the pixels of the source."""
        if source.frames > 1 and not self.animates:
            return False
        return source.pixels.shape[2] in self.channels and 8 * source.pixels.itemsize in self.bit_depths

    @abstractmethod
    def version(self) -> str:
        """The version of its library. The library must be installed."""

    def prepare(self, threads: int) -> None:  # noqa: B027  most have nothing to load
        """Load what the codec needs, so that this time is not measured. Called once, in the working process."""

    @abstractmethod
    def encode(self, source: Original) -> Coded:
        """Compress the PNG file, or its pixels."""

    def decode(self, data: bytes) -> np.ndarray:
        """The pixels, (H, W, C), or (H, W) if gray; uint8 or uint16. This one decodes PNG files."""
        return images.decode(data)
