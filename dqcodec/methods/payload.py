"""What every method takes and returns: Effort, Payload and ModelReport."""

import math
from dataclasses import dataclass

_FAST, _USUAL = 40_000, 100_000  # multiplications a pixel


@dataclass(frozen=True)
class Effort:
    """How much time coding and decoding may take.

    fast: use small models only. best: use large models, and try slow methods on large layers too. quick: an estimate of
    the size is enough.
    """

    fast: bool = False
    best: bool = False
    quick: bool = False

    def __post_init__(self):
        if self.fast and self.best:
            raise ValueError("fast and best exclude each other")

    @property
    def multiplications(self) -> float:
        """The largest number of multiplications a pixel that a model's network may take."""
        return _FAST if self.fast else math.inf if self.best else _USUAL


@dataclass(frozen=True)
class ModelReport:
    """Where the bits of a model's payload are.

    layer_bits: the bound of the exact program for each layer: -log2 P(x) if the model gives it; otherwise the vi bound
    -log2 p(x+u) + log2 q(u|x). seed_bits: of the stack's seed, which the first pops borrow. initial_bits: what the seed
    costs beyond the bound. grid_bits: what integer grids and tables cost beyond the bound.
    """

    layer_bits: tuple[float, ...]
    seed_bits: int
    initial_bits: float
    grid_bits: float

    @property
    def vi_bits(self) -> float:
        """The bound of all layers, in bits."""
        return sum(self.layer_bits)


@dataclass(frozen=True)
class Payload:
    """The code of some layers.

    data: its bytes. sizes: the bytes of each layer, or () if the method does not know them. report: of the model, or
    None.
    """

    data: bytes
    sizes: tuple[float, ...] = ()
    report: ModelReport | None = None
