"""What the methods that code with a model tell of the layers of a payload."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelReport:
    """Where a payload's bits went.

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
