"""How much time coding and decoding may take."""

from __future__ import annotations

import math
from enum import Enum


class Effort(Enum):
    """FAST: use small models only. BEST: use large models, and try slow methods on large
    layers too; coding and decoding take longer.

    The value is `multiplications`.
    """

    FAST = 40_000
    USUAL = 100_000
    BEST = math.inf

    @classmethod
    def of(cls, *, fast: bool = False, best: bool = False) -> Effort:
        """The effort that a caller asks for. Raises ValueError: both."""
        if fast and best:
            raise ValueError("fast and best exclude each other")
        return cls.FAST if fast else cls.BEST if best else cls.USUAL

    @property
    def multiplications(self) -> float:
        """The largest number of multiplications a pixel that a model's network may take."""
        return self.value
