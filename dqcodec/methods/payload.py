"""What every method returns for layers, and how much time it may spend."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How long coding may take.

    best: methods that are slow both ways are tried on large layers too. particles: of a flow, 1 to MAX_PARTICLES; more take
    less and longer, both ways. quick: an estimate of the size is enough.
    """

    best: bool = False
    particles: int = 1
    quick: bool = False


@dataclass(frozen=True)
class ModelReport:
    """Where the bits of a payload went that a model made.

    layer_bits: of each layer, the exact program's own bound: -log2 p(x+u) + log2 q(u|x), with several particles the
    importance-weighted one, or -log2 P(x) where that is known.
    seed_bits: of what lies at the bottom of the stack to pay for the first loan; initial_bits: what it costs beyond
    the bound. grid_bits: what integer grids and tables cost.
    """

    layer_bits: tuple[float, ...]
    seed_bits: int
    initial_bits: float
    grid_bits: float
    particles: int = 1

    @property
    def vi_bits(self) -> float:
        """The bound, of all layers."""
        return sum(self.layer_bits)


@dataclass(frozen=True)
class Payload:
    """The bytes of some layers. sizes: the bytes due to each layer, or () if the method cannot tell. report: of the model."""

    data: bytes
    sizes: tuple[float, ...] = ()
    report: ModelReport | None = None
