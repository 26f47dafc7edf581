"""Mixtures of logistics over one pixel value (Salimans et al. 2017), bins of unit width around the symbols.

The first and the last bin extend to infinity. Shapes: (..., K) parameters, (...) values.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from dqcodec.frozen.autoregressive import TOTAL

LEAST_MASS = 1 / TOTAL  # that the exact coder gives every symbol


class LogisticMixture(NamedTuple):
    """Logistics with log weight (nats), mean and 1 / scale, in pixel steps; the symbol x is the bin [x - 1/2, x + 1/2)."""

    log_weight: Float[Tensor, "... K"]
    mean: Float[Tensor, "... K"]
    inverse_scale: Float[Tensor, "... K"]

    def log_mass(self, x: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """log of the mass of the symbols' bins, nats; each has at least LEAST_MASS."""
        low, high = self._bin(x, bits)
        mass = ((high - low) * self.log_weight.exp()).sum(-1)
        return torch.log(mass * (1 - 2**bits * LEAST_MASS) + LEAST_MASS)

    def log_prob(self, y: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """log density, nats: of the logistics, and of the least mass, which lies evenly over all bins."""
        z = (y[..., None] - self.mean) * self.inverse_scale
        log_mixture = torch.logsumexp(self.log_weight + self.inverse_scale.log() - z - 2 * F.softplus(-z), -1)
        inside = ((y >= -0.5) & (y < 2**bits - 0.5)).to(y)
        return torch.log(log_mixture.exp() * (1 - 2**bits * LEAST_MASS) + inside * LEAST_MASS)

    def sample(self, quantile: Float[Tensor, "..."], bits: int, x: Float[Tensor, "..."] | None = None) -> Float[Tensor, "..."]:
        """y of the mixture or, given x, of its part in the bin of x; quantile: fresh uniform noise in [0, 1)."""
        low, high, begin, width = torch.zeros_like(self.mean), torch.ones_like(self.mean), -0.5, 2.0**bits
        if x is not None:
            (low, high), begin, width = self._bin(x, bits), x - 0.5, 1.0
        # the noise first picks the component, the least mass being the last, then the place in the component
        mass = self.log_weight.exp() * (high - low) * (1 - 2**bits * LEAST_MASS)
        mass = F.pad(mass, (0, 1), value=LEAST_MASS * width)
        reached = (mass / mass.sum(-1, keepdim=True)).cumsum(-1)
        k = (quantile[..., None] >= reached[..., :-1]).sum(-1, keepdim=True)
        before = F.pad(reached, (1, 0)).gather(-1, k)
        rest = (quantile[..., None] - before) / (reached.gather(-1, k) - before)
        chosen = k.clamp_max(self.mean.shape[-1] - 1)
        low, high, mean, inverse_scale = (t.gather(-1, chosen) for t in (low, high, self.mean, self.inverse_scale))
        y = mean + torch.logit(low + rest * (high - low), eps=torch.finfo(low.dtype).eps) / inverse_scale
        even = (k == chosen)[..., 0].logical_not()
        y = torch.where(even, begin + rest[..., 0] * width, y[..., 0])
        return y if x is None else self._into_bin(y, x, bits)

    def _into_bin(self, y, x, bits):
        """y, where rounding has taken it out of the bin of x."""
        eps = 2.0**bits * torch.finfo(y.dtype).eps
        y = torch.where(x == 0, y, y.maximum(x - 0.5))
        return torch.where(x == 2**bits - 1, y, y.minimum(x + 0.5 - eps))

    def _bin(self, x, bits):
        """Each component's distribution function at both ends of the symbols' bins."""
        centre = (x[..., None] - self.mean) * self.inverse_scale
        low = torch.sigmoid(centre - 0.5 * self.inverse_scale)
        high = torch.sigmoid(centre + 0.5 * self.inverse_scale)
        return low.masked_fill((x == 0)[..., None], 0.0), high.masked_fill((x == 2**bits - 1)[..., None], 1.0)
