"""The dequantized model P(x), the integral of p(v) over the bin of x (the paper's equation 2). q(u|x) gives bounds on it."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows import objectives
from dqcodec.flows.autoregressive_density import AutoregressiveDensity, PosteriorDequantizer
from dqcodec.flows.densities import Density
from dqcodec.flows.dequantizers import Dequantizer
from dqcodec.flows.transforms import Images, Noise, PerImage


class DequantizedModel(nn.Module):
    """A dequantizer q(u|x) and a density p(v).

    Symbols x are 0 .. 2^bits - 1 as floats, (B, C, H, W).
    """

    def __init__(self, dequantizer: Dequantizer, density: Density, bits: int):
        super().__init__()
        self.dequantizer, self.density, self.bits = dequantizer, density, bits

    def log_weight(self, x: Images, noise: Noise | None = None) -> PerImage:
        """log w = log p(v) - log q(u|x) with one sample u ~ q(u|x), nats: the ratio in the paper's equation 4.

        Args:
            noise: the randomness of u, as `dequantizer.noise` gives it; None draws it anew.
        """
        u, log_q = self.dequantizer.sample(x, noise)
        return self.density.log_prob(self.dequantizer.value(x, u)) - log_q

    def log_weights(self, x: Images, samples: int) -> Float[Tensor, "K B"]:
        """K independent log weights of each image, nats."""
        return self.log_weight(x.repeat(samples, 1, 1, 1)).view(samples, len(x))

    def bound(self, x: Images, samples: int = 1, alpha: float = 1.0) -> PerImage:
        """The Rényi bound of order alpha on log P(x) from K samples, nats.

        alpha = 1 is vi, 0 is iw, -inf is VR-max. VR-max has a gradient through the sample of the largest weight only.

        Raises ValueError: alpha > 1.
        """
        if alpha == -math.inf:
            return self.log_weight(x, self._best_noise(x, samples))
        return objectives.renyi(self.log_weights(x, samples), alpha)

    @torch.no_grad()
    def _best_noise(self, x: Images, samples: int) -> Noise:
        """For each image, the noise that gives the largest weight of K samples."""
        repeated = x.repeat(samples, 1, 1, 1)
        noise = self.dequantizer.noise(repeated)
        best = self.log_weight(repeated, noise).view(samples, len(x)).argmax(0)
        return noise.view(samples, len(x), *noise.shape[1:])[best, torch.arange(len(x), device=x.device)]

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """x ~ P(x): draw v ~ p(v) and take the symbol of its bin.

        Where p has mass outside of all bins, the integrals P(x) add up to less than 1, and the samples differ
        from them: v there gives the nearest symbol.
        """
        v = self.density.sample(n, height, width)
        return self.dequantizer.bins.quantize(v).clamp(0, 2**self.bits - 1)

    @torch.no_grad()
    def initialise(self, x: Images) -> None:
        """Data-dependent initialisation on a batch of symbols."""
        self.dequantizer.initialise(x)
        self.density.initialise(self.dequantizer.value(x, torch.rand_like(x)))


class AutoregressiveModel(DequantizedModel):
    """An autoregressive density with its exact posterior as the dequantizer.

    Every bound is log P(x) itself and needs no sample.
    """

    def __init__(self, density: AutoregressiveDensity):
        super().__init__(PosteriorDequantizer(density), density, density.bits)

    def bound(self, x: Images, samples: int = 1, alpha: float = 1.0) -> PerImage:
        """log P(x), nats, for any alpha and number of samples."""
        return self.density.log_mass(x)

    def log_weights(self, x: Images, samples: int) -> Float[Tensor, "K B"]:
        """log P(x) of each image, K times, nats: all weights are equal."""
        return self.density.log_mass(x).expand(samples, -1)

    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """x ~ P(x). It takes one pass of the network for each pixel and plane."""
        return self.density.quantize(self.density.sample(n, height, width))


def bits_per_dim(log_prob: Float[Tensor, "*B"], dims: int) -> Float[Tensor, "*B"]:
    """Log-probabilities of images, nats -> bits per dimension, for images of `dims` dimensions."""
    return -log_prob / (dims * math.log(2))
