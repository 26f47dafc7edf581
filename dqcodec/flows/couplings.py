"""Affine couplings (Dinh et al. 2017), one form for all: z = (x - m) exp(-log_scale), [m, log_scale] from a net."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.transforms import Transform, sum_dims

LOG_SCALE_BOUND = 3.0


def location_and_log_scale(raw: Float[Tensor, "B 2C H W"]) -> tuple[Tensor, Tensor]:
    """A net's output -> (m, log_scale); log_scale = 3 tanh(raw / 3)."""
    m, raw_scale = raw.chunk(2, 1)
    return m, LOG_SCALE_BOUND * torch.tanh(raw_scale / LOG_SCALE_BOUND)


class AffineCoupling(Transform):
    """The first `kept` channels x1 pass; the others become z2 = (x2 - m(x1)) exp(-log_scale(x1)).

    ``net(x1, context)`` gives (B, 2 (C - kept), H, W). With a standard base density, the last coupling of a
    level followed by factoring z2 out is the split prior p(x2 | x1).
    """

    def __init__(self, net: nn.Module, kept: int):
        super().__init__()
        self.net, self.kept = net, kept

    def forward(self, x, context=None):
        x1, x2 = x[:, : self.kept], x[:, self.kept :]
        m, log_scale = location_and_log_scale(self.net(x1, context))
        return torch.cat([x1, (x2 - m) * torch.exp(-log_scale)], 1), -sum_dims(log_scale)

    def inverse(self, z, context=None):
        z1, z2 = z[:, : self.kept], z[:, self.kept :]
        m, log_scale = location_and_log_scale(self.net(z1, context))
        return torch.cat([z1, z2 * torch.exp(log_scale) + m], 1), -sum_dims(log_scale)


class ConditionalAffine(Transform):
    """z = (x - m(context)) exp(-log_scale(context)) for all of x: the Gaussian dequantizer's only transform."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, x, context=None):
        m, log_scale = location_and_log_scale(self.net(context))
        return (x - m) * torch.exp(-log_scale), -sum_dims(log_scale)

    def inverse(self, z, context=None):
        m, log_scale = location_and_log_scale(self.net(context))
        return z * torch.exp(log_scale) + m, -sum_dims(log_scale)


class Reverse(Transform):
    """Channels in reverse order, so that the next coupling changes what this one kept."""

    def forward(self, x, context=None):
        return x.flip(1), x.new_zeros(len(x))

    inverse = forward
