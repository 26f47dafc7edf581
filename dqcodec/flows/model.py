"""The dequantized model: P(x) = integral of p(v) over the bin of x, bounded through q(u|x)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows import objectives
from dqcodec.flows.densities import Density
from dqcodec.flows.dequantizers import Dequantizer


class DequantizedModel(nn.Module):
    """A dequantizer q(u|x) and a density p(v) over symbols x of shape (B, C, H, W), 0 .. 2^bits - 1, as floats."""

    def __init__(self, dequantizer: Dequantizer, density: Density, bits: int):
        super().__init__()
        self.dequantizer, self.density, self.bits = dequantizer, density, bits

    def log_weights(self, x: Float[Tensor, "B C H W"], samples: int) -> Float[Tensor, "K B"]:
        """log w_k = log p(x + u_k) - log q(u_k|x), u_k ~ q(u|x), nats."""
        repeated = x.repeat(samples, 1, 1, 1)
        u, log_q = self.dequantizer.sample(repeated)
        log_p = self.density.log_prob(self.dequantizer.value(repeated, u))
        return (log_p - log_q).view(samples, len(x))

    def bound(self, x: Float[Tensor, "B C H W"], samples: int = 1, alpha: float = 1.0) -> Float[Tensor, "B"]:
        """The Renyi-alpha bound on log P(x) from K samples: vi (alpha 1), iw (0), VR-max (-inf), nats.

        VR-max takes gradients of the largest weight's sample alone.
        """
        return objectives.renyi(self.log_weights(x, samples), alpha)

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """v ~ p(v); floor(v) is x for hypercube bins."""
        return self.density.sample(n, height, width)

    @torch.no_grad()
    def initialise(self, x: Float[Tensor, "B C H W"]) -> None:
        """Data-dependent initialisation on a first batch."""
        if hasattr(self.dequantizer, "features"):
            self.dequantizer.features.initialise(x)
        if hasattr(self.density, "initialise"):
            self.density.initialise(self.dequantizer.value(x, torch.rand_like(x)))


def bits_per_dim(log_prob: Float[Tensor, "B"], dims: int) -> Float[Tensor, "B"]:
    """nats of log-probability -> bits per dimension of code."""
    return -log_prob / (dims * math.log(2))
