"""The autoregressive transform of ARD (the paper's equation (iaf); Kingma et al. 2016)."""

import torch
from torch import nn

from dqcodec.flows.couplings import location_and_log_scale
from dqcodec.flows.transforms import Transform, sum_dims


class AffineAutoregressive(Transform):
    """x = m(z_<; context) + exp(log_scale(z_<; context)) z. inverse (sampling) is one parallel pass.

    forward solves the triangular system by fixed-point iteration: place d is right after at most d steps,
    and a step that changes nothing has found the solution. It carries no gradient.
    """

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def inverse(self, z, context=None):
        m, log_scale = location_and_log_scale(self.net(z, context))
        return z * torch.exp(log_scale) + m, -sum_dims(log_scale)

    @torch.no_grad()
    def forward(self, x, context=None):
        z = torch.zeros_like(x)
        for _ in range(x[0].numel() + 1):
            m, log_scale = location_and_log_scale(self.net(z, context))
            previous, z = z, (x - m) * torch.exp(-log_scale)
            if torch.equal(previous, z):
                break
        return z, -sum_dims(log_scale)


class Reversed(Transform):
    """A transform in reverse order of places: of channels, rows and columns (as Kingma et al. 2016 turn every second step)."""

    def __init__(self, transform: Transform):
        super().__init__()
        self.transform = transform

    @property
    def net(self) -> nn.Module:
        return self.transform.net

    def forward(self, x, context=None):
        z, log_det = self.transform(*_turned(x, context))
        return z.flip(1, 2, 3), log_det

    def inverse(self, z, context=None):
        x, log_det = self.transform.inverse(*_turned(z, context))
        return x.flip(1, 2, 3), log_det


def _turned(x, context):
    """Of a context, channels are no places."""
    return x.flip(1, 2, 3), None if context is None else context.flip(2, 3)
