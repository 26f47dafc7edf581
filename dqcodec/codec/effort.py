"""How much time coding and decoding may take."""

import math
from dataclasses import dataclass

_FAST, _USUAL = 40_000, 100_000  # multiplications a pixel


@dataclass(frozen=True)
class Effort:
    """fast: use small models only. best: use large models, and try slow methods on large layers too; coding and decoding
    take longer. Raises ValueError: both."""

    fast: bool = False
    best: bool = False

    def __post_init__(self):
        if self.fast and self.best:
            raise ValueError("fast and best exclude each other")

    @property
    def multiplications(self) -> float:
        """The largest number of multiplications a pixel that a model's network may take."""
        return _FAST if self.fast else math.inf if self.best else _USUAL
