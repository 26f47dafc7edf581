"""An autoregressive density over pixels, and its exact posterior as the dequantizer.

p(v) = prod_i p(v_i | floor(v_<i)) in raster order; the planes G, R, B of a pixel follow each other. Each factor is a
mixture of logistics. Since v_i depends only on the bins of v_<i, the mass of a bin is a difference of the mixture's
distribution function, and the posterior p(u|x) is a product of truncated mixtures: given x, u_i does not depend on
u_<i. With q(u|x) = p(u|x) every bound of the paper equals log P(x), and coding borrows little: log2 n bits for a symbol
of n slots. The paper has no such density; P(x) is a discretised mixture of logistics (Salimans et al. 2017).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.context import Context, context, gather_features
from dqcodec.flows.densities import Density
from dqcodec.flows.dequantizers import Dequantizer
from dqcodec.flows.mixture import LogisticMixture, mixture_around, start_evenly
from dqcodec.flows.networks import Network, leaky, zeroed
from dqcodec.flows.planes import coding_order, image_order, order
from dqcodec.flows.transforms import Images, PerImage, sum_dims
from dqcodec.frozen.autoregressive import FEATURE_PLACES, PREDICTED, STANDARD_BOUND, inputs, predicted_inputs


class ResidualLayer(nn.Module):
    """x + linear(leaky(linear(leaky(x)))), the identity at initialisation."""

    def __init__(self, width: int):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, width), zeroed(nn.Linear(width, width))

    def forward(self, x: Float[Tensor, "N W"]) -> Float[Tensor, "N W"]:
        """x (N, width) -> the same shape."""
        return x + self.linear2(leaky(self.linear1(leaky(x))))


class Sizes(NamedTuple):
    """The sizes of a ContextNet.

    width, blocks: of the trunk. head: width of each head. features: how many features of a pixel later pixels see
    (`gather_features`). mixtures: K.
    """

    width: int
    blocks: int
    head: int
    features: int
    mixtures: int


class ContextNet(Network):
    """Context -> raw mixture parameters (N, planes, 3 K): logits, means, log2 scales. It works pixel by pixel.

    A trunk of residual layers is followed by one head for each plane. A head also sees the earlier planes of the pixel.

    Args:
        least_squares: whether the net sees predictions by local least squares.
    """

    def __init__(self, planes: int, sizes: Sizes, *, least_squares: bool = False):
        super().__init__()
        width, blocks, head, features, mixtures = sizes
        self.mixtures, self.least_squares = mixtures, least_squares
        own = inputs(planes)
        trunk, heads = (predicted_inputs(planes), PREDICTED) if least_squares else (0, 0)
        self.linear_features = nn.Linear(own + planes, features)
        self.linear_in = nn.Linear(own + len(FEATURE_PLACES) * features + trunk, width)
        self.blocks = nn.ModuleList(ResidualLayer(width) for _ in range(blocks))
        self.linear_heads = nn.Linear(width, planes * head)
        self.linear_known = nn.ModuleList(nn.Linear(2 * plane + heads, head, bias=False) for plane in range(1, planes))
        self.linear_out = nn.ModuleList(nn.Linear(head, 3 * mixtures) for _ in range(planes))
        for linear in self.linear_out:
            start_evenly(linear)

    def last_layers(self) -> list[nn.Module]:
        """Those of the planes."""
        return [*self.linear_out]

    def forward(self, c: Context, shape: tuple[int, int, int]) -> Float[Tensor, "N P _"]:
        """Raw mixture parameters, (N, planes, 3 K). shape: (B, H, W) of the N = B H W pixels."""
        with self._trunk_precision(c.inputs):
            heads = self._trunk(c, shape)
        heads = heads.to(c.inputs.dtype).chunk(len(self.linear_out), 1)
        raw = []
        for plane, linear_out in enumerate(self.linear_out):
            head = heads[plane]
            if plane > 0:
                head = head + self.linear_known[plane - 1](self.known(c, plane))
            raw.append(linear_out(leaky(head)))
        return torch.stack(raw, 1)

    def _trunk(self, c: Context, shape: tuple[int, int, int]) -> Float[Tensor, "N PH"]:
        features = leaky(self.linear_features(torch.cat([c.inputs, c.standard], 1)))
        features = features.clamp(-STANDARD_BOUND, STANDARD_BOUND)
        seen = [c.inputs, gather_features(features, *shape)]
        if self.least_squares:
            seen += [self._predicted(c, 0), *(self._errors(c, plane) for plane in range(1, c.target.shape[1]))]
        h = self.linear_in(torch.cat(seen, 1))
        for block in self.blocks:
            h = block(h)
        return self.linear_heads(leaky(h))

    def known(self, c: Context, plane: int) -> Float[Tensor, "N K"]:
        """The inputs of a plane's head from the pixel itself.

        They are the normalised values of the earlier planes, the same clamped to [-1, 1], and, with least squares, the
        prediction of the head's own plane.
        """
        standard = c.standard[:, :plane]
        predicted = [self._predicted(c, plane)] if self.least_squares else []
        return torch.cat([standard, standard.clamp(-1, 1), *predicted], 1)

    def _predicted(self, c: Context, plane: int) -> Float[Tensor, "N 4"]:
        """A plane's prediction, normalised, the same clamped to [-1, 1], and the errors around."""
        standard = c.prediction.standard[:, plane : plane + 1]
        return torch.cat([standard, standard.clamp(-1, 1), self._errors(c, plane)], 1)

    @staticmethod
    def _errors(c: Context, plane: int) -> Float[Tensor, "N 2"]:
        """log2 of the errors around a plane's pixels, and the same less the log spread."""
        log_error = c.prediction.log_error[:, plane : plane + 1]
        relative = log_error - c.moments.log_spread[:, plane : plane + 1]
        return torch.cat([log_error, relative], 1).clamp(-STANDARD_BOUND, STANDARD_BOUND)


class AutoregressiveDensity(Density):
    """The density of this module. Symbols and values v = x + u are (B, C, H, W) with C = 1 or 3.

    Args:
        bits: of the symbols. learning: how many layers, beside the last ones, learn while the integer
            program codes. For the others see ContextNet.
    """

    def __init__(self, channels: int, bits: int, sizes: Sizes, *, least_squares: bool = False, learning: int = 0):
        super().__init__()
        self.channels, self.bits, self.learning = channels, bits, learning
        self.net = ContextNet(channels, sizes, least_squares=least_squares)

    def mixture(self, x: Images) -> LogisticMixture:
        """The factors of p, (B, H, W, C, K), each given the symbols before it. The order of C is G, R, B."""
        batch, channels, height, width = x.shape
        c = context(x, self.bits, least_squares=self.net.least_squares)
        raw = self.net(c, (batch, height, width))
        center = c.prediction.value if self.net.least_squares else c.moments.mean
        if channels == 3:  # the planes R and B are coded as differences from G
            center = center + c.target[:, :1] * torch.tensor([0.0, 1.0, 1.0], device=x.device)
        mixture = mixture_around(raw, center, c.moments.spread, c.moments.log_spread)
        return LogisticMixture(*(part.view(batch, height, width, channels, -1) for part in mixture))

    def log_mass(self, x: Images) -> PerImage:
        """log P(x), nats."""
        return sum_dims(self.mixture(x).log_mass(coding_order(x), self.bits))

    def log_prob(self, v: Images) -> PerImage:
        """log p(v), nats."""
        return sum_dims(self.mixture(self.quantize(v)).log_prob(coding_order(v) - 0.5, self.bits))

    def quantize(self, v: Images) -> Images:
        """The symbols in whose bins v lies. The outer bins are infinite."""
        return v.floor().clamp(0, 2**self.bits - 1)

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """v ~ p(v). It takes one pass of the network for each pixel and plane: only for small images."""
        device = next(self.parameters()).device
        v = torch.zeros(n, self.channels, height, width, device=device)
        for y in range(height):
            for x in range(width):
                for place, channel in enumerate(order(self.channels)):
                    mixture = self.mixture(self.quantize(v[:, :, : y + 1]))
                    here = LogisticMixture(*(part[:, y, x, place] for part in mixture))
                    v[:, channel, y, x] = here.sample(torch.rand(n, device=device), self.bits) + 0.5
        return v

    def initialise(self, v: Images) -> None:
        """Nothing to do: the context is normalised already."""


class PosteriorDequantizer(Dequantizer):
    """q(u|x) = p(u|x) under an autoregressive density: log p(x+u) - log q(u|x) = log P(x) for every u.

    In the outer bins u is unbounded.
    """

    def __init__(self, density: AutoregressiveDensity):
        super().__init__()
        self._density = [density]  # in a list: so the density's parameters are registered once, not twice

    def noise(self, x: Images) -> Images:
        """Uniform in [0, 1), of the shape of x."""
        return torch.rand_like(x)

    def value(self, x: Images, u: Images) -> Images:
        """v = x + u."""
        return x + u

    def sample(self, x: Images, noise: Images | None = None) -> tuple[Images, PerImage]:
        """u ~ p(u|x) -> (u, log q(u|x)), nats."""
        density = self._density[0]
        noise = self.noise(x) if noise is None else noise
        mixture, symbols = density.mixture(x), coding_order(x)
        y = mixture.sample(coding_order(noise), density.bits, symbols)
        log_q = sum_dims(mixture.log_prob(y, density.bits) - mixture.log_mass(symbols, density.bits))
        return image_order(y + 0.5 - symbols), log_q

    def log_prob(self, u: Images, x: Images) -> PerImage:
        """log q(u|x), nats."""
        density = self._density[0]
        mixture, symbols = density.mixture(x), coding_order(x)
        y = coding_order(x + u) - 0.5
        return sum_dims(mixture.log_prob(y, density.bits) - mixture.log_mass(symbols, density.bits))
