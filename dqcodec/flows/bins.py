"""The bins B(x) of the paper's quantizer P(x|v) = 1[v in B(x)], equation 2.

A symbol x and a place u in its bin give the point v; a bijection maps real numbers y to places u. All are (B, C, H, W)
floats; log-determinants are (B,), in nats.
"""

import torch
import torch.nn.functional as F

from dqcodec.flows.transforms import Images, PerImage, sum_dims


class Hypercube:
    """The paper's bins B(x) = {x + u : u in [0, 1)^D}: v = x + u and u = sigmoid(y)."""

    def from_real(self, y: Images) -> tuple[Images, PerImage]:
        """y -> (u, log|det dy/du|), nats."""
        # for large |y| the float sigmoid is 0 or 1, and 1 belongs to the next bin
        limits = torch.finfo(y.dtype)
        u = torch.sigmoid(y).clamp(limits.tiny, 1 - limits.eps / 2)
        return u, sum_dims(F.softplus(y) + F.softplus(-y))

    def to_real(self, u: Images) -> tuple[Images, PerImage]:
        """u -> (y, log|det dy/du|), nats."""
        y = torch.logit(u)
        return y, sum_dims(F.softplus(y) + F.softplus(-y))

    def value(self, x: Images, u: Images) -> Images:
        """v = x + u, below x + 1: a sum that rounds up to x + 1, which is in the next bin,
        becomes the number before it.
        """
        return torch.minimum(x + u, torch.nextafter(x + 1, x))

    def quantize(self, v: Images) -> Images:
        """The symbol x whose bin holds v."""
        return v.floor()


class HalfInfinite:
    """B(x) = {x u : u > 0} for x in {-1, 1} (Winkler et al. 2019), with u = softplus(y).

    The methods take x as bits {0, 1}.
    """

    def from_real(self, y: Images) -> tuple[Images, PerImage]:
        """y -> (u, log|det dy/du|), nats."""
        return F.softplus(y).clamp_min(torch.finfo(y.dtype).tiny), sum_dims(F.softplus(-y))

    def to_real(self, u: Images) -> tuple[Images, PerImage]:
        """u -> (y, log|det dy/du|), nats."""
        y = u + torch.log(-torch.expm1(-u))
        return y, sum_dims(F.softplus(-y))

    def value(self, x: Images, u: Images) -> Images:
        """v = u for a bit 1, -u for a bit 0."""
        return (2 * x - 1) * u

    def quantize(self, v: Images) -> Images:
        """The bit whose bin holds v."""
        return (v > 0).to(v)


BINS = {"hypercube": Hypercube, "half_infinite": HalfInfinite}
