"""The autoregressive transform of ARD (the paper's equation 14; Kingma et al. 2016)."""

import torch
from torch import nn

from dqcodec.flows.couplings import location_and_log_scale
from dqcodec.flows.transforms import Features, Images, PerImage, Transform, sum_dims


class AffineAutoregressive(Transform):
    """x = m(z_<, context) + exp(log_scale(z_<, context)) z.

    inverse is one parallel pass, and a dequantizer samples with it. forward solves a triangular system by fixed-point
    iteration. Element d is right after at most d steps, and a step that changes nothing has found the solution.

    Args:
        net: an autoregressive network; net(z, context) gives (B, 2C, H, W).
    """

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """z -> x in one pass."""
        m, log_scale = location_and_log_scale(self.net(z, context))
        return z * torch.exp(log_scale) + m, -sum_dims(log_scale)

    @torch.no_grad()
    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """x -> z by fixed-point iteration; no gradient."""
        z = torch.zeros_like(x)
        for _ in range(x[0].numel() + 1):
            m, log_scale = location_and_log_scale(self.net(z, context))
            previous, z = z, (x - m) * torch.exp(-log_scale)
            if torch.equal(previous, z):
                break
        return z, -sum_dims(log_scale)


class Reversed(Transform):
    """A transform on the reverse order of channels, rows and columns.

    Kingma et al. (2016) reverse the order in every second step.
    """

    def __init__(self, transform: Transform):
        super().__init__()
        self.transform = transform

    @property
    def net(self) -> nn.Module:
        """The network of the transform inside."""
        return self.transform.net

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """Reverse x, apply the transform, reverse the result."""
        z, log_det = self.transform(*_reversed(x, context))
        return z.flip(1, 2, 3), log_det

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """Reverse z, undo the transform, reverse the result."""
        x, log_det = self.transform.inverse(*_reversed(z, context))
        return x.flip(1, 2, 3), log_det


def _reversed(x: Images, context: Features | None) -> tuple[Images, Features | None]:
    """x in reverse order, and the context with reversed rows and columns: context channels have no order."""
    return x.flip(1, 2, 3), None if context is None else context.flip(2, 3)
