"""The dequantized model: P(x) = integral of p(v) over the bin of x, bounded through q(u|x)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows import objectives
from dqcodec.flows.autoregressive_density import AutoregressiveDensity, PosteriorDequantizer
from dqcodec.flows.densities import Density
from dqcodec.flows.dequantizers import Dequantizer


class DequantizedModel(nn.Module):
    """A dequantizer q(u|x) and a density p(v) over symbols x of shape (B, C, H, W), 0 .. 2^bits - 1, as floats."""

    def __init__(self, dequantizer: Dequantizer, density: Density, bits: int):
        super().__init__()
        self.dequantizer, self.density, self.bits = dequantizer, density, bits

    def log_weight(
        self, x: Float[Tensor, "B C H W"], noise: Float[Tensor, "B ..."] | None = None
    ) -> Float[Tensor, "B"]:
        """log w = log p(x + u) - log q(u|x), u ~ q(u|x) made from the noise, fresh where none is given; nats."""
        u, log_q = self.dequantizer.sample(x, noise)
        return self.density.log_prob(self.dequantizer.value(x, u)) - log_q

    def log_weights(self, x: Float[Tensor, "B C H W"], samples: int) -> Float[Tensor, "K B"]:
        """K independent log weights of each image, nats."""
        return self.log_weight(x.repeat(samples, 1, 1, 1)).view(samples, len(x))

    def bound(self, x: Float[Tensor, "B C H W"], samples: int = 1, alpha: float = 1.0) -> Float[Tensor, "B"]:
        """The Renyi-alpha bound on log P(x) from K samples: vi (alpha 1), iw (0), VR-max (-inf), nats.

        VR-max takes gradients of the largest weight's sample alone.
        """
        if alpha == -math.inf:
            return self.log_weight(x, self._best_noise(x, samples))
        return objectives.renyi(self.log_weights(x, samples), alpha)

    @torch.no_grad()
    def _best_noise(self, x, samples):
        """The noise of each image's largest weight among K samples."""
        repeated = x.repeat(samples, 1, 1, 1)
        noise = self.dequantizer.noise(repeated)
        best = self.log_weight(repeated, noise).view(samples, len(x)).argmax(0)
        return noise.view(samples, len(x), *noise.shape[1:])[best, torch.arange(len(x), device=x.device)]

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """x ~ P(x): the symbol in whose bin v ~ p(v) lies, the nearest one where v lies in none."""
        v = self.density.sample(n, height, width)
        return self.dequantizer.bins.quantize(v).clamp(0, 2**self.bits - 1)

    @torch.no_grad()
    def initialise(self, x: Float[Tensor, "B C H W"]) -> None:
        """Data-dependent initialisation on a first batch."""
        self.dequantizer.initialise(x)
        self.density.initialise(self.dequantizer.value(x, torch.rand_like(x)))


class AutoregressiveModel(DequantizedModel):
    """An autoregressive density with its own posterior as dequantizer: every bound is log P(x), which needs no sample."""

    def __init__(self, density: AutoregressiveDensity):
        super().__init__(PosteriorDequantizer(density), density, density.bits)

    def bound(self, x, samples=1, alpha=1.0):
        return self.density.log_mass(x)

    def log_weights(self, x, samples):
        return self.density.log_mass(x).expand(samples, -1)

    def sample(self, n, height, width):
        return self.density.quantize(self.density.sample(n, height, width))


def bits_per_dim(log_prob: Float[Tensor, "B"], dims: int) -> Float[Tensor, "B"]:
    """nats of log-probability -> bits per dimension of code."""
    return -log_prob / (dims * math.log(2))
