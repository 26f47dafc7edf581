"""What every method returns: Payload and ModelReport."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

MALFORMED = "malformed payload"  # of a CorruptError


@dataclass(frozen=True)
class ModelReport:
    """What the bits of a model's payload are spent on.

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

    @classmethod
    def of(cls, heads: Sequence[bytes], code: bytes, ends: Sequence[int]) -> Payload:
        """The payload of layers with a head each, and one code after all heads.

        ends: the ends of the layers' parts of the code; the last layer gets the rest.
        """
        parts = itertools.pairwise([0, *ends[:-1], len(code)])
        return cls(b"".join([*heads, code]), tuple(len(head) + end - begin for head, (begin, end) in zip(heads, parts)))
