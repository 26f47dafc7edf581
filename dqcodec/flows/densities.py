"""Densities p(v) of the paper: diagonal Gaussian, full-covariance Gaussian, multi-level flow."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.couplings import AffineCoupling
from dqcodec.flows.networks import NETS
from dqcodec.flows.transforms import Chain, Conv1x1, Rescale, Squeeze, haar_ycocg, sum_dims

_LEAST_SPREAD = 1e-3  # of data, in latent units, that initialisation scales to one
_SAMPLES_PER_DIM = 8  # that tell a covariance well


class Density(nn.Module):
    """A density over v of shape (B, C, H, W)."""

    first_batch = 256  # images that it is best initialised on

    def log_prob(self, v: Float[Tensor, "B C H W"]) -> Float[Tensor, "B"]:
        """log p(v), nats."""
        raise NotImplementedError

    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """v ~ p(v), in float32. The Gaussians have one height and width alone.

        Raises:
            ValueError: the density has no images of that shape.
        """
        raise NotImplementedError

    def initialise(self, v: Float[Tensor, "B C H W"]) -> None:
        """Data-dependent initialisation on a first batch."""
        raise NotImplementedError


def normal_log_prob(z: Float[Tensor, "B ..."]) -> Float[Tensor, "B"]:
    """Standard normal, nats, summed over dimensions."""
    return sum_dims(-0.5 * z * z - 0.5 * math.log(2 * math.pi))


def logistic_log_prob(z: Float[Tensor, "B ..."]) -> Float[Tensor, "B"]:
    """Standard logistic, nats, summed over dimensions."""
    return sum_dims(-z - 2 * F.softplus(-z))


class Gaussian(Density):
    """What the two Gaussians share: a fixed shape (C, H, W) and the unit of v."""

    def __init__(self, shape: tuple[int, int, int], offset: float, unit: float):
        super().__init__()
        self.shape, self.rescale = shape, Rescale(offset, unit)

    def _check(self, height: int, width: int) -> None:
        if (height, width) != self.shape[1:]:
            raise ValueError(f"this Gaussian has images of {self.shape[1:]} alone, not of {(height, width)}")


class DiagonalGaussian(Gaussian):
    """Independent normals with learned mean and log-scale."""

    def __init__(self, shape: tuple[int, int, int], offset: float, unit: float):
        super().__init__(shape, offset, unit)
        self.mean = nn.Parameter(torch.zeros(shape))
        self.log_scale = nn.Parameter(torch.zeros(shape))

    def log_prob(self, v):
        y, log_det = self.rescale(v)
        return normal_log_prob((y - self.mean) * torch.exp(-self.log_scale)) - self.log_scale.sum() + log_det

    @torch.no_grad()
    def sample(self, n, height, width):
        self._check(height, width)
        eps = torch.randn(n, *self.shape, device=self.mean.device)
        return self.rescale.inverse(self.mean + eps * torch.exp(self.log_scale))[0]

    @torch.no_grad()
    def initialise(self, v):
        y, _ = self.rescale(v)
        self.mean.copy_(y.mean(0))
        self.log_scale.copy_(y.std(0, correction=0).clamp_min(_LEAST_SPREAD).log())


class CovarianceGaussian(Gaussian):
    """Full covariance: precision L L^T, L lower triangular with exp(log_diagonal) on its diagonal."""

    def __init__(self, shape: tuple[int, int, int], offset: float, unit: float):
        super().__init__(shape, offset, unit)
        dims = math.prod(shape)
        self.first_batch = max(Density.first_batch, _SAMPLES_PER_DIM * dims)
        self.mean = nn.Parameter(torch.zeros(dims))
        self.log_diagonal = nn.Parameter(torch.zeros(dims))
        self.lower = nn.Parameter(torch.zeros(dims, dims))

    def cholesky(self) -> Float[Tensor, "D D"]:
        """L of the precision."""
        return self.lower.tril(-1) + torch.diag(self.log_diagonal.exp())

    def log_prob(self, v):
        y, log_det = self.rescale(v)
        z = (y.flatten(1) - self.mean) @ self.cholesky()
        return normal_log_prob(z) + self.log_diagonal.sum() + log_det

    @torch.no_grad()
    def sample(self, n, height, width):
        self._check(height, width)
        eps = torch.randn(n, len(self.mean), device=self.mean.device)
        y = self.mean + torch.linalg.solve_triangular(self.cholesky(), eps, upper=False, left=False)
        return self.rescale.inverse(y.view(n, *self.shape))[0]

    def initialise(self, v):
        y = self.rescale(v)[0].flatten(1).double()
        self.fit(len(y), y.sum(0), y.T @ y)

    @torch.no_grad()
    def fit(self, count: int, total: Float[Tensor, "D"], products: Float[Tensor, "D D"]) -> None:
        """At the moments of v, the best Gaussian for it; a covariance of few samples is shrunk to its diagonal.

        Args:
            total, products: the sum of y and of y y^T over `count` samples, y = v in latent units, D = C H W; float64.
        """
        mean = total / count
        covariance = products / count - mean.outer(mean)
        diagonal = covariance.diagonal().clamp_min(_LEAST_SPREAD**2).diag()
        shrinkage = (len(mean) / (len(mean) + count)) ** 2
        lower = torch.linalg.cholesky(torch.linalg.inv((1 - shrinkage) * covariance + shrinkage * diagonal))
        self.mean.copy_(mean)
        self.log_diagonal.copy_(lower.diagonal().log())
        self.lower.copy_(lower.tril(-1))


class FlowDensity(Density):
    """A multi-level flow (Kingma and Dhariwal 2018) to a standard logistic base.

    A level: squeeze, `subflows` times (1x1 convolution, affine coupling), then a coupling that makes the factored
    out half standard given the other half (the split prior). The last level keeps nothing.

    Args:
        channels: of the image. levels: per level (subflows, net channels, net blocks). net: of dqcodec.flows.networks.
    """

    def __init__(
        self, channels: int, levels: list[tuple[int, int, int]], offset: float, unit: float, net: str = "residual"
    ):
        super().__init__()
        self.channels = channels
        self.rescale = Rescale(offset, unit)
        self.levels = nn.ModuleList()
        for subflows, width, blocks in levels:
            transforms = [Squeeze()]
            weight, channels = haar_ycocg(channels), 4 * channels
            half = channels // 2
            for subflow in range(subflows):
                transforms.append(Conv1x1(weight, scaled=subflow == 0))
                transforms.append(AffineCoupling(NETS[net](half, 2 * half, width, blocks), half))
                weight = torch.eye(channels)[torch.randperm(channels)]
            transforms.append(AffineCoupling(NETS[net](half, 2 * half, width, blocks), half))
            self.levels.append(Chain(transforms))
            channels = half

    def log_prob(self, v):
        h, total = self.rescale(v)
        for level in self.levels:
            h, log_det = level(h)
            h, out = h.chunk(2, 1)
            total = total + log_det + logistic_log_prob(out)
        return total + logistic_log_prob(h)

    @torch.no_grad()
    def sample(self, n, height, width):
        depth = len(self.levels)
        if height % 2**depth or width % 2**depth:
            raise ValueError(f"a flow of {depth} levels has no images of {(height, width)}")
        shape = (n, self.channels * 2**depth, height >> depth, width >> depth)
        h = self._sample_base(shape)
        for level in reversed(self.levels):
            h, _ = level.inverse(torch.cat([h, self._sample_base(h.shape)], 1))
        return self.rescale.inverse(h)[0]

    def _sample_base(self, shape):
        u = torch.rand(shape, device=next(self.parameters()).device)
        return torch.logit(u, eps=torch.finfo(u.dtype).eps / 2)

    @torch.no_grad()
    def initialise(self, v):
        """Scale the rows of each level's first 1x1 convolution so that its outputs have unit variance on v."""
        h, _ = self.rescale(v)
        for level in self.levels:
            squeeze, conv = level.transforms[:2]
            z, _ = conv(squeeze(h)[0])
            conv.set_weight(conv.weight() / z.std((0, 2, 3)).clamp_min(_LEAST_SPREAD)[:, None])
            h = level(h)[0].chunk(2, 1)[0]
