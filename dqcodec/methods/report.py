"""What the methods that code with a model tell of one image."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelReport:
    """Where the bits of one image went, without the container.

    vi_bpd: the exact program's own bound, bits per dimension: -log2 p(x+u) + log2 q(u|x), or -log2 P(x) where that is
    known. coded_bpd: payload bits per dimension. seed_bits: of what lies at the bottom of the stack to pay for the first
    loan; initial_bits: what it costs beyond the bound. grid_bits: what integer grids and tables cost.
    """

    vi_bpd: float
    coded_bpd: float
    seed_bits: int
    initial_bits: float
    grid_bits: float
