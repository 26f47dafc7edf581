"""What a learned dequantizer sees of the symbols x: features at half the height and width.

Their exact twins are in dqcodec.exact.flow.features.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.context import Moments
from dqcodec.flows.planes import differences
from dqcodec.flows.transforms import Images, haar_ycocg_sums
from dqcodec.frozen.autoregressive import SPREAD_FLOOR
from dqcodec.frozen.flow import AROUND


class PixelFeatures(nn.Module):
    """Squeezed pixels, decorrelated by integer sums: the Haar transform and, for RGB, one
    that is like YCoCg. 4 C channels.

    Each feature has a gain, a power of two. `initialise` sets the gains so that each feature has a standard deviation
    of about one.
    """

    def __init__(self, channels: int, bits: int):
        super().__init__()
        self.register_buffer("matrix", haar_ycocg_sums(channels), persistent=False)
        self.register_buffer("log2_gain", torch.zeros(4 * channels))
        self.channels = 4 * channels
        self.offset = 2 ** (bits - 1)

    def sums(self, x: Images) -> Float[Tensor, "B 4*C H//2 W//2"]:
        """The features without gains: integers, as floats."""
        return F.conv2d(F.pixel_unshuffle(x - self.offset, 2), self.matrix[..., None, None])

    def forward(self, x: Images) -> Float[Tensor, "B 4*C H//2 W//2"]:
        """The features, gains included."""
        return self.sums(x) * torch.exp2(self.log2_gain)[:, None, None]

    @torch.no_grad()
    def initialise(self, x: Images) -> None:
        """Set the gains from a batch of symbols."""
        self.log2_gain.copy_(-self.sums(x).std((0, 2, 3)).clamp_min(0.25).log2().round())


class StandardFeatures(nn.Module):
    """Squeezed pixels, each normalised by the mean and spread of its eight neighbours, and
    the log2 of the spreads; 8 C channels.

    A pixel's distance to the mean, divided by the spread, shows how fast the density changes within its bin.
    """

    def __init__(self, channels: int, bits: int):
        super().__init__()
        self.channels = 8 * channels

    @torch.no_grad()
    def forward(self, x: Images) -> Float[Tensor, "B 8*C H//2 W//2"]:
        """The features. Pixels of the border also stand for those outside of the image."""
        y = differences(x)
        padded, (height, width) = F.pad(y, (1, 1, 1, 1), mode="replicate"), y.shape[2:]
        near = [padded[:, :, dy : dy + height, dx : dx + width] for dy, dx in AROUND]
        sums = sum(near)
        moments = Moments(sums, sum((8 * each - sums).abs() for each in near) + SPREAD_FLOOR)
        return F.pixel_unshuffle(torch.cat([moments.standardise(y), moments.log_spread], 1), 2)

    def initialise(self, x: Images) -> None:
        """Nothing to do."""


FEATURES = {"haar": PixelFeatures, "standard": StandardFeatures}
