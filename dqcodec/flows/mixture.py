"""Mixtures of logistics over one pixel value (Salimans et al. 2017), in bins of unit width around the symbols.

The first and the last bin extend to infinity. Shapes: parameters (..., K), values (...).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from dqcodec.frozen.autoregressive import TOTAL

LEAST_MASS = 1 / TOTAL  # of a symbol, because the exact coder gives each symbol at least one slot


class LogisticMixture(NamedTuple):
    """K logistics with log weights (nats), means and inverse scales, in pixel steps.

    The bin of the symbol x is [x - 1/2, x + 1/2). A small uniform part gives every bin at least LEAST_MASS.
    """

    log_weight: Float[Tensor, "... K"]
    mean: Float[Tensor, "... K"]
    inverse_scale: Float[Tensor, "... K"]

    def log_mass(self, x: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """Log mass of the bins of the symbols x, nats; at least log(LEAST_MASS)."""
        low, high = self._bin(x, bits)
        mass = ((high - low) * self.log_weight.exp()).sum(-1)
        return torch.log(mass * (1 - 2**bits * LEAST_MASS) + LEAST_MASS)

    def log_prob(self, y: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """Log density at y, nats: that of the logistics and of the uniform part."""
        z = (y[..., None] - self.mean) * self.inverse_scale
        log_mixture = torch.logsumexp(self.log_weight + self.inverse_scale.log() - z - 2 * F.softplus(-z), -1)
        inside = ((y >= -0.5) & (y < 2**bits - 0.5)).to(y)
        return torch.log(log_mixture.exp() * (1 - 2**bits * LEAST_MASS) + inside * LEAST_MASS)

    def sample(
        self, quantile: Float[Tensor, "..."], bits: int, x: Float[Tensor, "..."] | None = None
    ) -> Float[Tensor, "..."]:
        """y ~ the mixture. Given x, y ~ its part in the bin of x.

        Args:
            quantile: uniform noise in [0, 1), which y is a function of.
        """
        low, high, begin, width = torch.zeros_like(self.mean), torch.ones_like(self.mean), -0.5, 2.0**bits
        if x is not None:
            (low, high), begin, width = self._bin(x, bits), x - 0.5, 1.0
        # the noise picks a component (the uniform part is the last one), then the place in it
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

    def _into_bin(self, y: Float[Tensor, "..."], x: Float[Tensor, "..."], bits: int) -> Float[Tensor, "..."]:
        """y, clamped to the bin of x: rounding may take it out."""
        eps = 2.0**bits * torch.finfo(y.dtype).eps
        y = torch.where(x == 0, y, y.maximum(x - 0.5))
        return torch.where(x == 2**bits - 1, y, y.minimum(x + 0.5 - eps))

    def _bin(self, x: Float[Tensor, "..."], bits: int) -> tuple[Float[Tensor, "... K"], Float[Tensor, "... K"]]:
        """Each component's distribution function at the lower and the upper end of the bins of x."""
        centre = (x[..., None] - self.mean) * self.inverse_scale
        low = torch.sigmoid(centre - 0.5 * self.inverse_scale)
        high = torch.sigmoid(centre + 0.5 * self.inverse_scale)
        return low.masked_fill((x == 0)[..., None], 0.0), high.masked_fill((x == 2**bits - 1)[..., None], 1.0)
