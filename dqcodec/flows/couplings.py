"""Affine couplings (Dinh et al. 2017; the paper's equation 13).

All of them compute z = (x - m) exp(-log_scale), where a network gives m and log_scale: the translation t and log s of
equation 13, which is written in the direction from latents to data.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.transforms import Features, Images, PerImage, Transform, sum_dims

LOG_SCALE_BOUND = 3.0  # nats


def location_and_log_scale(raw: Float[Tensor, "B _ H W"]) -> tuple[Images, Images]:
    """A network's output (B, 2 C, H, W) -> (m, log_scale), with log_scale = 3 tanh(raw / 3), nats."""
    m, raw_scale = raw.chunk(2, 1)
    return m, LOG_SCALE_BOUND * torch.tanh(raw_scale / LOG_SCALE_BOUND)


class AffineCoupling(Transform):
    """The first `kept` channels x1 stay; the other channels become z2 = (x2 - m(x1)) exp(-log_scale(x1)).

    In a multi-level flow with a standard base, the last coupling of a level is the split prior p(x2 | x1): after it,
    z2 leaves the flow.

    Args:
        net: net(x1, context) gives (B, 2 (C - kept), H, W).
    """

    def __init__(self, net: nn.Module, kept: int):
        super().__init__()
        self.net, self.kept = net, kept

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """z = [x1, (x2 - m(x1)) exp(-log_scale(x1))]."""
        x1, x2 = x[:, : self.kept], x[:, self.kept :]
        m, log_scale = location_and_log_scale(self.net(x1, context))
        return torch.cat([x1, (x2 - m) * torch.exp(-log_scale)], 1), -sum_dims(log_scale)

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """x = [z1, z2 exp(log_scale(z1)) + m(z1)]."""
        z1, z2 = z[:, : self.kept], z[:, self.kept :]
        m, log_scale = location_and_log_scale(self.net(z1, context))
        return torch.cat([z1, z2 * torch.exp(log_scale) + m], 1), -sum_dims(log_scale)


class ConditionalAffine(Transform):
    """z = (x - m(context)) exp(-log_scale(context)), the only transform of the Gaussian dequantizer.

    Args:
        net: net(context) gives (B, 2C, H, W).
    """

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """z = (x - m) exp(-log_scale)."""
        m, log_scale = location_and_log_scale(self.net(context))
        return (x - m) * torch.exp(-log_scale), -sum_dims(log_scale)

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """x = z exp(log_scale) + m."""
        m, log_scale = location_and_log_scale(self.net(context))
        return z * torch.exp(log_scale) + m, -sum_dims(log_scale)


class ReverseChannels(Transform):
    """Channels in reverse order, so that the next coupling changes the channels that this one kept."""

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """x with its channels in reverse order; this is its own inverse."""
        return x.flip(1), x.new_zeros(len(x))

    inverse = forward
