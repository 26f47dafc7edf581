"""The description of a flow's program: its model file's metadata."""

from dataclasses import dataclass

from dqcodec.base.errors import ModelError
from dqcodec.exact.model_file import is_typed
from dqcodec.frozen.interlaced import CELL_BITS, PLACES


@dataclass(frozen=True)
class Description:
    """The metadata of a flow's model file: all that is not a tensor.

    Attributes:
        channels, bits: of the pixels. tile: side of a tile, pixels.
        grid_bits, noise_grid_bits: of the grids of latents and of the dequantizer.
        unit_bits: a latent unit is 2^unit_bits pixel steps. fraction_bits: of u.
        dequantizer: uniform, gaussian, bipartite or ard, with dequantizer_transforms steps. alternating: every second
            step is reversed. features: what it sees, haar or standard. noise: the law of its eps, normal or logistic.
        subflows: of each level; for mixture couplings, the couplings.
        mixtures: components of each mixture; 0 for affine couplings.
        card: facts about the model.
    """

    name: str
    channels: int
    bits: int
    tile: int
    grid_bits: int
    noise_grid_bits: int
    unit_bits: int
    fraction_bits: int
    dequantizer: str
    dequantizer_transforms: int
    context_channels: int
    subflows: tuple[int, ...]
    card: dict
    alternating: bool = False
    features: str = "haar"
    noise: str = "normal"
    mixtures: int = 0

    def __post_init__(self):
        """Raise ModelError unless all values are valid."""
        if not (is_typed(self) and self._is_in_range()):
            raise ModelError("the program's description has an invalid value")
        if self.grid_bits < self.unit_bits + self.fraction_bits or self.tile % self.multiple:
            raise ModelError("the program's grids do not fit together")

    def _is_in_range(self) -> bool:
        is_mixture = self.mixtures > 0
        return (
            self.channels in (1, 3)
            and 1 <= self.bits <= 8
            and 1 <= self.tile <= 1 << 12
            and 8 <= self.noise_grid_bits <= self.grid_bits <= 20
            and self.unit_bits >= -1
            and (CELL_BITS if is_mixture else 1) <= self.fraction_bits <= 15
            and self.dequantizer_transforms >= (self.dequantizer != "uniform")
            and 0 <= self.context_channels <= 1 << 12
            and 1 <= len(self.subflows) <= 8
            and (set(self.subflows) == {len(PLACES)} if is_mixture else min(self.subflows) >= 1)
            and (self.dequantizer == "ard" or not self.alternating)
            and self.features in ("haar", "standard")
            and self.noise in ("normal", "logistic")
            and 0 <= self.mixtures <= 32
        )

    @property
    def multiple(self) -> int:
        """Sides of tiles are multiples of this."""
        return 1 << len(self.subflows)
