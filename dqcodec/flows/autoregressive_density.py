"""An autoregressive density over pixels, and the one dequantizer that loses nothing with it.

p(v) = prod_i p(v_i | floor(v_<i)) in raster order, the planes G, R, B of a pixel one after the other, each factor a mixture
of logistics. As v_i is told nothing of v_<i but the bins they lie in, the mass of a bin is a difference of the
mixture's distribution function, and the posterior p(u|x) is a product of truncated mixtures: with q(u|x) = p(u|x)
every bound of the paper is log P(x) itself, and coding needs no loan.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.context import Context, context, gather_features
from dqcodec.flows.densities import Density
from dqcodec.flows.dequantizers import Dequantizer
from dqcodec.flows.mixture import LogisticMixture
from dqcodec.flows.networks import leaky
from dqcodec.flows.transforms import sum_dims
from dqcodec.frozen import autoregressive as frozen
from dqcodec.frozen.autoregressive import FEATURE_PLACES, STANDARD_BOUND, inputs

_MEAN_BOUND = frozen.MEAN_BOUND / frozen.MEAN_GRID  # of a component's mean, in spreads from the local mean
_LOG2_SCALE_RANGE = frozen.LOG2_SCALE_LOW / frozen.LOG2_SCALE_GRID, frozen.LOG2_SCALE_HIGH / frozen.LOG2_SCALE_GRID


class ResidualLayer(nn.Module):
    """x + linear(leaky(linear(leaky(x)))), the identity at initialisation."""

    def __init__(self, width: int):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, width), nn.Linear(width, width)
        nn.init.zeros_(self.linear2.weight)
        nn.init.zeros_(self.linear2.bias)

    def forward(self, x: Float[Tensor, "N W"]) -> Float[Tensor, "N W"]:
        return x + self.linear2(leaky(self.linear1(leaky(x))))


class ContextNet(nn.Module):
    """Context -> raw mixture parameters (N, planes, 3 K), one pixel at a time.

    A trunk of residual layers, then a head per plane, which also sees the planes of this pixel before its own.

    Args:
        features: how many numbers each pixel, its own value included, tells its successors; they come to these by
            `gather_features`. mixtures: K.
    """

    def __init__(self, planes: int, width: int, blocks: int, head: int, features: int, mixtures: int):
        super().__init__()
        self.mixtures = mixtures
        own = inputs(planes)
        self.linear_features = nn.Linear(own + planes, features)
        self.linear_in = nn.Linear(own + len(FEATURE_PLACES) * features, width)
        self.blocks = nn.ModuleList(ResidualLayer(width) for _ in range(blocks))
        self.linear_heads = nn.Linear(width, planes * head)
        self.linear_known = nn.ModuleList(nn.Linear(2 * plane, head, bias=False) for plane in range(1, planes))
        self.linear_out = nn.ModuleList(nn.Linear(head, 3 * mixtures) for _ in range(planes))
        spread = torch.linspace(-1.0, 1.0, mixtures) if mixtures > 1 else torch.zeros(1)
        for linear in self.linear_out:
            nn.init.zeros_(linear.weight)
            linear.bias.data.copy_(torch.cat([torch.zeros(mixtures), spread / 4, spread - 1]))

    def forward(self, c: Context, shape: tuple[int, int, int]) -> Float[Tensor, "N P 3K"]:
        """shape: (B, H, W) of the N = B H W pixels."""
        told = leaky(self.linear_features(torch.cat([c.inputs, c.standard], 1))).clamp(-STANDARD_BOUND, STANDARD_BOUND)
        h = self.linear_in(torch.cat([c.inputs, gather_features(told, *shape)], 1))
        for block in self.blocks:
            h = block(h)
        heads = self.linear_heads(leaky(h)).chunk(len(self.linear_out), 1)
        known = [None, *(linear(self.known(c.standard[:, : i + 1])) for i, linear in enumerate(self.linear_known))]
        parts = [linear(leaky(head if extra is None else head + extra)) for head, extra, linear in zip(heads, known, self.linear_out)]
        return torch.stack(parts, 1)

    @staticmethod
    def known(standard: Float[Tensor, "N p"]) -> Float[Tensor, "N 2p"]:
        """What a head sees of the planes before its own."""
        return torch.cat([standard, standard.clamp(-1, 1)], 1)


class AutoregressiveDensity(Density):
    """See the module. Symbols and values are (B, C, H, W), C 1 or 3; v = x + u."""

    def __init__(self, channels: int, bits: int, width: int, blocks: int, head: int, features: int, mixtures: int):
        super().__init__()
        self.channels, self.bits = channels, bits
        self.net = ContextNet(channels, width, blocks, head, features, mixtures)

    def mixture(self, x: Float[Tensor, "B C H W"]) -> LogisticMixture:
        """The factors (B, H, W, C, K) of p given the symbols before; C in the order G, R, B."""
        batch, channels, height, width = x.shape
        c = context(x, self.bits)
        logits, mean, log2_scale = self.net(c, (batch, height, width)).chunk(3, -1)
        mean = c.mean[..., None] + c.spread[..., None] * mean.clamp(-_MEAN_BOUND, _MEAN_BOUND)
        if channels == 3:  # the planes R and B are coded less G
            mean = mean + (c.target[:, :1] * torch.tensor([0.0, 1.0, 1.0], device=x.device))[..., None]
        log2_scale = (c.log_spread[..., None] + log2_scale).clamp(*_LOG2_SCALE_RANGE)
        parts = torch.log_softmax(logits, -1), mean, torch.exp2(-log2_scale)
        return LogisticMixture(*(part.view(batch, height, width, channels, -1) for part in parts))

    def log_mass(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B"]:
        """log P(x), nats."""
        return sum_dims(self.mixture(x).log_mass(coding_order(x), self.bits))

    def log_prob(self, v):
        return sum_dims(self.mixture(self.quantize(v)).log_prob(coding_order(v) - 0.5, self.bits))

    def quantize(self, v: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """The symbols in whose bins v lies; the outer bins are infinite."""
        return v.floor().clamp(0, 2**self.bits - 1)

    @torch.no_grad()
    def sample(self, n, height, width):
        """One pass of the network per pixel and plane: slow, meant for small images."""
        device = next(self.parameters()).device
        v = torch.zeros(n, self.channels, height, width, device=device)
        planes = [1, 0, 2] if self.channels == 3 else [0]
        for y in range(height):
            for x in range(width):
                for place, channel in enumerate(planes):
                    mixture = self.mixture(self.quantize(v[:, :, : y + 1]))
                    here = LogisticMixture(*(part[:, y, x, place] for part in mixture))
                    v[:, channel, y, x] = here.sample(torch.rand(n, device=device), self.bits) + 0.5
        return v

    def initialise(self, v):
        """Nothing: the context is standardised already."""


class PosteriorDequantizer(Dequantizer):
    """q(u|x) = p(u|x) under an autoregressive density: with it log p(x+u) - log q(u|x) = log P(x), whatever u is.

    In the outer bins u is unbounded.
    """

    def __init__(self, density: AutoregressiveDensity):
        super().__init__()
        self._density = [density]  # a reference: the parameters are the density's

    def noise(self, x):
        return torch.rand_like(x)

    def sample(self, x, noise=None):
        density = self._density[0]
        noise = self.noise(x) if noise is None else noise
        mixture, symbols = density.mixture(x), coding_order(x)
        y = mixture.sample(coding_order(noise), density.bits, symbols)
        log_q = sum_dims(mixture.log_prob(y, density.bits) - mixture.log_mass(symbols, density.bits))
        return plane_order(y + 0.5 - symbols), log_q

    def log_prob(self, u, x):
        density = self._density[0]
        mixture, symbols = density.mixture(x), coding_order(x)
        return sum_dims(mixture.log_prob(coding_order(x + u) - 0.5, density.bits) - mixture.log_mass(symbols, density.bits))


def coding_order(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B H W C"]:
    """Channels last, R G B as G R B."""
    x = x.permute(0, 2, 3, 1)
    return x[..., [1, 0, 2]] if x.shape[-1] == 3 else x


def plane_order(y: Float[Tensor, "B H W C"]) -> Float[Tensor, "B C H W"]:
    """Undo coding_order."""
    return (y[..., [1, 0, 2]] if y.shape[-1] == 3 else y).permute(0, 3, 1, 2)
