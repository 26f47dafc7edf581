"""The description of an autoregressive program: its model file's metadata."""

from dataclasses import dataclass

from dqcodec.base.errors import ModelError
from dqcodec.exact.autoregressive.learning_net import LearningRule
from dqcodec.exact.model_file import is_typed

_LEAST_TILE, _LARGEST_TILE = 8, 1 << 12  # a side


@dataclass(frozen=True)
class Description:
    """The metadata of an autoregressive model file: all that is not a tensor.

    Attributes:
        channels, bits: of the pixels. tile: (rows, columns) of the tiles that an image is cut into.
        features, blocks: of the network. mixtures: components of each mixture.
        head_grid: the heads' activations are in steps of 2^-head_grid.
        rate_bits: the last layers learn by steps of 2^-rate_bits.
        card: facts about the model.
        least_squares: whether local least squares predict pixels.
        learning: how layers of the network learn while coding, from the heads back; the others do not.
    """

    name: str
    channels: int
    bits: int
    tile: tuple[int, int]
    features: int
    blocks: int
    mixtures: int
    head_grid: int
    rate_bits: int
    card: dict
    least_squares: bool = False
    learning: tuple[LearningRule, ...] = ()

    def __post_init__(self):
        """Raise ModelError unless all values are valid."""
        if not (is_typed(self) and self._is_in_range()):
            raise ModelError("the program's description has an invalid value")

    def _is_in_range(self) -> bool:
        return (
            self.channels in (1, 3)
            and 1 <= self.bits <= 8
            and len(self.tile) == 2
            and _LEAST_TILE <= min(self.tile) <= max(self.tile) <= _LARGEST_TILE
            and 1 <= self.features <= 256
            and 0 <= self.blocks <= 64
            and 1 <= self.mixtures <= 32
            and -16 <= self.head_grid <= 16
            and 1 <= self.rate_bits <= 32
            and all(type(number) is int and -32 <= number <= 32 for rule in self.learning for number in rule)
        )
