"""Mixtures of logistics over one pixel value (Salimans et al. 2017), in bins of unit width around the symbols.

The first and the last bin extend to infinity. Shapes: parameters (..., K), values (...).
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.frozen import autoregressive as frozen

_MEAN_BOUND = frozen.MEAN_BOUND / frozen.MEAN_GRID  # distance of a component's mean from the local mean, in spreads
_LOG2_SCALE_RANGE = frozen.LOG2_SCALE_LOW / frozen.LOG2_SCALE_GRID, frozen.LOG2_SCALE_HIGH / frozen.LOG2_SCALE_GRID
LEAST_MASS = 1 / frozen.TOTAL  # of a symbol, because the exact coder gives each symbol at least one slot


class LogisticMixture(NamedTuple):
    """K logistics with log weights (nats), means and inverse scales, in pixel steps.

    The bin of the symbol x is [x - 1/2, x + 1/2). A small uniform part gives every bin at least LEAST_MASS.
    """

    log_weight: Float[Tensor, "... K"]
    mean: Float[Tensor, "... K"]
    inverse_scale: Float[Tensor, "... K"]

    def log_mass(self, x: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """Log mass of the bins of the symbols x, nats; at least log(LEAST_MASS)."""
        return self._log_sum(_sigmoid_rise(*self._bin(x, bits)), bits)

    def log_prob(self, y: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """Log density at y, nats: that of the logistics and of the uniform part."""
        z = (y[..., None] - self.mean) * self.inverse_scale
        log_mixture = torch.logsumexp(self.log_weight + self.inverse_scale.log() - z - 2 * F.softplus(-z), -1)
        inside = ((y >= -0.5) & (y < 2**bits - 0.5)).to(y)
        return torch.log(log_mixture.exp() * (1 - 2**bits * LEAST_MASS) + inside * LEAST_MASS)

    def log_density(self, y: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """Log density at y in the range [-1/2, 2^bits - 1/2), nats, of the distribution
        without mass outside of the range.

        In an outer bin, the density is that of log_prob times a factor, so that the bin has the mass of log_mass;
        in all other bins it is that of log_prob.
        """
        x = (y + 0.5).detach().floor().clamp(0, 2**bits - 1)
        outer = (x == 0) | (x == 2**bits - 1)
        log_prob = self.log_prob(y, bits)
        if not outer.any():
            return log_prob
        at_border = LogisticMixture(*(part[outer] for part in self))
        inside = at_border._log_sum(_sigmoid_rise(*at_border._ends(x[outer])), bits)
        gain = at_border.log_mass(x[outer], bits) - inside
        return log_prob.masked_scatter(outer, log_prob[outer] + gain)

    def sample(
        self, quantile: Float[Tensor, "..."], bits: int, x: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """y ~ the mixture. Given x, y ~ its part in the bin of x.

        Args:
            quantile: uniform noise in [0, 1). y is a function of it.
        """
        if x is None:
            everywhere = torch.full_like(self.mean, -math.inf), torch.full_like(self.mean, math.inf)
            return self._sample(quantile, *everywhere, -0.5, 2.0**bits, bits)
        return self._into_bin(self._sample(quantile, *self._bin(x, bits), x - 0.5, 1.0, bits), x, bits)

    def sample_inside(self, quantile: Float[Tensor, "..."], bits: int, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """y ~ the density of log_density in the bin of x. See sample."""
        y = self._sample(quantile, *self._ends(x), x - 0.5, 1.0, bits)
        return y.maximum(x - 0.5).minimum(x + 0.5 - 2.0**bits * torch.finfo(y.dtype).eps)

    def _sample(
        self,
        quantile: Float[Tensor, "..."],
        low: Float[Tensor, "... K"],
        high: Float[Tensor, "... K"],
        begin: Float[Tensor, "..."] | float,
        width: float,
        bits: int,
    ) -> Float[Tensor, "..."]:
        """y ~ the components, each cut to its part from `low` to `high`, see _ends, and the
        uniform part on [begin, begin + width).

        The quantile picks a component, the uniform part being the last one, and then the place in it.
        """
        low, high = torch.sigmoid(low), torch.sigmoid(high)
        mass = self.log_weight.exp() * (high - low) * (1 - 2**bits * LEAST_MASS)
        mass = F.pad(mass, (0, 1), value=LEAST_MASS * width)
        reached = (mass / mass.sum(-1, keepdim=True)).cumsum(-1)
        k = (quantile[..., None] >= reached[..., :-1]).sum(-1, keepdim=True)
        before = F.pad(reached, (1, 0)).gather(-1, k)
        rest = (quantile[..., None] - before) / (reached.gather(-1, k) - before)
        chosen = k.clamp_max(self.mean.shape[-1] - 1)
        low, high, mean, inverse_scale = (t.gather(-1, chosen) for t in (low, high, self.mean, self.inverse_scale))
        y = mean + torch.logit(low + rest * (high - low), eps=torch.finfo(low.dtype).eps) / inverse_scale
        is_uniform = (k != chosen)[..., 0]
        return torch.where(is_uniform, begin + rest[..., 0] * width, y[..., 0])

    def _into_bin(self, y: Float[Tensor, "..."], x: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """y, clamped to the bin of x: rounding may take it out."""
        eps = 2.0**bits * torch.finfo(y.dtype).eps
        y = torch.where(x == 0, y, y.maximum(x - 0.5))
        return torch.where(x == 2**bits - 1, y, y.minimum(x + 0.5 - eps))

    def _bin(self, x: Float[Tensor, "..."], bits: int) -> tuple[Float[Tensor, "... K"], Float[Tensor, "... K"]]:
        """The lower and the upper end of the bins of x; see _ends."""
        low, high = self._ends(x)
        first, last = (x == 0)[..., None], (x == 2**bits - 1)[..., None]
        return low.masked_fill(first, -math.inf), high.masked_fill(last, math.inf)

    def _ends(self, x: Float[Tensor, "..."]) -> tuple[Float[Tensor, "... K"], Float[Tensor, "... K"]]:
        """x - 1/2 and x + 1/2, in scales from each component's mean."""
        centre, half = (x[..., None] - self.mean) * self.inverse_scale, 0.5 * self.inverse_scale
        return centre - half, centre + half

    def _log_sum(self, masses: Float[Tensor, "... K"], bits: int) -> Float[Tensor, "..."]:
        """Log mass of a bin, nats, from the components' masses in it."""
        return torch.log((masses * self.log_weight.exp()).sum(-1) * (1 - 2**bits * LEAST_MASS) + LEAST_MASS)


def _sigmoid_rise(low: Float[Tensor, "..."], high: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """sigmoid(high) - sigmoid(low), precise far to the right, too: there both are nearly 1."""
    return torch.sigmoid(high.minimum(-low)) - torch.sigmoid(low.minimum(-high))


def start_evenly(layer: nn.Conv2d | nn.Linear) -> None:
    """Let a network's last layer, of 3 K outputs, give K components of equal weight, side by side, before training."""
    mixtures = len(layer.bias) // 3
    places = torch.linspace(-1.0, 1.0, mixtures) if mixtures > 1 else torch.zeros(1)
    nn.init.zeros_(layer.weight)
    layer.bias.data.copy_(torch.cat([torch.zeros(mixtures), places / 4, places - 1]))


def mixture_around(
    raw: Float[Tensor, "... _"],
    center: Float[Tensor, "..."],
    spread: Float[Tensor, "..."],
    log_spread: Float[Tensor, "..."],
) -> LogisticMixture:
    """The mixtures of a network's raw outputs (..., 3 K): logits, means in spreads from the
    center, log2 scales in spreads.

    center, spread: pixel steps. log_spread: log2 of the spread.
    """
    logits, mean, log2_scale = raw.chunk(3, -1)
    mean = center[..., None] + spread[..., None] * mean.clamp(-_MEAN_BOUND, _MEAN_BOUND)
    log2_scale = (log_spread[..., None] + log2_scale).clamp(*_LOG2_SCALE_RANGE)
    return LogisticMixture(torch.log_softmax(logits, -1), mean, torch.exp2(-log2_scale))
