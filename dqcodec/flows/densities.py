"""The paper's densities p(v): diagonal Gaussian, Gaussian with full covariance, multi-level flow."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.couplings import AffineCoupling
from dqcodec.flows.networks import NETS
from dqcodec.flows.transforms import Chain, Conv1x1, Images, PerImage, Rescale, Squeeze, Transform, haar_ycocg, sum_dims

_LEAST_SPREAD = 1e-3  # latent units; initialisation raises smaller standard deviations to this
_SAMPLES_PER_DIM = 8  # enough to estimate a covariance


class Density(nn.Module):
    """A density over v, (B, C, H, W) float, in pixel units."""

    first_batch = 256  # how many images `initialise` should get

    def log_prob(self, v: Images) -> PerImage:
        """log p(v), nats."""
        raise NotImplementedError

    def log_mass(self, x: Images) -> PerImage | None:
        """log P(x), nats: the integral of p over the hypercube bins of symbols x. None if it
        is not known in closed form.
        """
        return None

    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """v ~ p(v), float32. A Gaussian has one fixed height and width.

        Raises ValueError: the density has no images of this shape.
        """
        raise NotImplementedError

    def initialise(self, v: Images) -> None:
        """Data-dependent initialisation on a batch."""
        raise NotImplementedError


def normal_log_prob(z: Float[Tensor, "B ..."]) -> PerImage:
    """Log density of the standard normal, summed over dimensions, nats."""
    return sum_dims(-0.5 * z * z - 0.5 * math.log(2 * math.pi))


def logistic_log_prob(z: Float[Tensor, "B ..."]) -> PerImage:
    """Log density of the standard logistic, summed over dimensions, nats."""
    return sum_dims(-z - 2 * F.softplus(-z))


def logistic_sample(shape: tuple[int, ...], like: Tensor) -> Float[Tensor, "B ..."]:
    """z ~ the standard logistic, with the device and the type of `like`."""
    u = torch.rand(shape, device=like.device, dtype=like.dtype)
    return torch.logit(u, eps=torch.finfo(u.dtype).eps / 2)


class Gaussian(Density):
    """Base of the two Gaussians, for images of one shape (C, H, W). offset, unit: as those of FlowDensity."""

    def __init__(self, shape: tuple[int, int, int], offset: float, unit: float):
        super().__init__()
        self.shape, self.rescale = shape, Rescale(offset, unit)

    def _check(self, height: int, width: int) -> None:
        if (height, width) != self.shape[1:]:
            raise ValueError(f"this Gaussian has only images of {self.shape[1:]}, not of {(height, width)}")


class DiagonalGaussian(Gaussian):
    """Independent normals with learned means and log-scales, (C, H, W) in latent units."""

    def __init__(self, shape: tuple[int, int, int], offset: float, unit: float):
        super().__init__(shape, offset, unit)
        self.mean = nn.Parameter(torch.zeros(shape))
        self.log_scale = nn.Parameter(torch.zeros(shape))

    def log_prob(self, v: Images) -> PerImage:
        """Sum of the normal log densities, nats."""
        y, log_det = self.rescale(v)
        return normal_log_prob((y - self.mean) * torch.exp(-self.log_scale)) - self.log_scale.sum() + log_det

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """mean + scale eps. See Density.sample for errors."""
        self._check(height, width)
        eps = torch.randn(n, *self.shape, device=self.mean.device)
        return self.rescale.inverse(self.mean + eps * torch.exp(self.log_scale))[0]

    @torch.no_grad()
    def initialise(self, v: Images) -> None:
        """Take the mean and standard deviation of the batch."""
        y, _ = self.rescale(v)
        self.mean.copy_(y.mean(0))
        self.log_scale.copy_(y.std(0, correction=0).clamp_min(_LEAST_SPREAD).log())


class CovarianceGaussian(Gaussian):
    """A Gaussian with full covariance over D = C H W dimensions.

    Its precision is L L^T, where L is lower triangular with the diagonal exp(log_diagonal).
    """

    def __init__(self, shape: tuple[int, int, int], offset: float, unit: float):
        super().__init__(shape, offset, unit)
        dims = math.prod(shape)
        self.first_batch = max(Density.first_batch, _SAMPLES_PER_DIM * dims)
        self.mean = nn.Parameter(torch.zeros(dims))
        self.log_diagonal = nn.Parameter(torch.zeros(dims))
        self.lower = nn.Parameter(torch.zeros(dims, dims))

    def cholesky(self) -> Float[Tensor, "D D"]:
        """L of the precision L L^T."""
        return self.lower.tril(-1) + torch.diag(self.log_diagonal.exp())

    def log_prob(self, v: Images) -> PerImage:
        """Log density, nats: z = L^T (y - mean) is standard normal."""
        y, log_det = self.rescale(v)
        z = (y.flatten(1) - self.mean) @ self.cholesky()
        return normal_log_prob(z) + self.log_diagonal.sum() + log_det

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """Solve L^T (y - mean) = eps. See Density.sample for errors."""
        self._check(height, width)
        eps = torch.randn(n, len(self.mean), device=self.mean.device)
        y = self.mean + torch.linalg.solve_triangular(self.cholesky(), eps, upper=False, left=False)
        return self.rescale.inverse(y.view(n, *self.shape))[0]

    def initialise(self, v: Images) -> None:
        """Fit the moments of the batch."""
        y = self.rescale(v)[0].flatten(1).double()
        self.fit(len(y), y.sum(0), y.T @ y)

    @torch.no_grad()
    def fit(self, count: int, total: Float[Tensor, "D"], products: Float[Tensor, "D D"]) -> None:
        """Set the mean and covariance to those of samples. With few samples the covariance shrinks to its diagonal.

        Args:
            count: the number of samples y, which are v in latent units.
            total, products: the sums of y, (D,), and of y y^T, (D, D), over the samples; float64.
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
    """A multi-level flow (Kingma and Dhariwal 2018) with a standard logistic base.

    A level is a squeeze, `subflows` times (1x1 convolution, affine coupling), and the coupling of the split prior. Then
    half of the channels leave the flow as latents, and the next level transforms the other half. After the last level
    that half is latents, too.

    Args:
        channels: of the image. levels: (subflows, width of the networks, depth of the networks) of each level.
        offset, unit: map values to latent units, see transforms.Rescale. 2^(bits - 1) and 2^(bits - 2) map the values
            of hypercube bins to [-2, 2]; half-infinite bins are centred already, so 0 and 1 suit them.
        net: a key of networks.NETS.
    """

    def __init__(
        self, channels: int, levels: list[tuple[int, int, int]], offset: float, unit: float, net: str = "residual"
    ):
        super().__init__()
        self.channels = channels
        self.rescale = Rescale(offset, unit)
        self.levels = nn.ModuleList()
        entering = channels
        for subflows, width, blocks in levels:
            self.levels.append(_level(entering, subflows, width, blocks, net))
            entering *= 2  # a squeeze makes four of each, half of them leave

    def log_prob(self, v: Images) -> PerImage:
        """Log density, nats. H and W are multiples of 2^levels."""
        h, total = self.rescale(v)
        for level in self.levels:
            h, log_det = level(h)
            h, out = h.chunk(2, 1)
            total = total + log_det + logistic_log_prob(out)
        return total + logistic_log_prob(h)

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """Invert all levels from logistic noise. See Density.sample for errors."""
        depth = len(self.levels)
        if height % 2**depth or width % 2**depth:
            raise ValueError(f"a flow of {depth} levels has no images of {(height, width)}")
        h = logistic_sample((n, self.channels * 2**depth, height >> depth, width >> depth), next(self.parameters()))
        for level in reversed(self.levels):
            h, _ = level.inverse(torch.cat([h, logistic_sample(h.shape, h)], 1))
        return self.rescale.inverse(h)[0]

    @torch.no_grad()
    def initialise(self, v: Images) -> None:
        """Scale the rows of each level's first 1x1 convolution, so that its outputs have unit variance on v."""
        h, _ = self.rescale(v)
        for level in self.levels:
            squeeze, conv = level.transforms[:2]
            z, _ = conv(squeeze(h)[0])
            conv.set_weight(conv.weight() / z.std((0, 2, 3)).clamp_min(_LEAST_SPREAD)[:, None])
            h = level(h)[0].chunk(2, 1)[0]


def _level(channels: int, subflows: int, width: int, blocks: int, net: str) -> Chain:
    """One level of a flow, which takes `channels` channels, up to its split prior."""
    weight, half = haar_ycocg(channels), 2 * channels
    transforms: list[Transform] = [Squeeze()]
    for subflow in range(subflows):
        transforms.append(Conv1x1(weight, scaled=subflow == 0))
        transforms.append(AffineCoupling(NETS[net](half, 2 * half, width, blocks), half))
        weight = torch.eye(2 * half)[torch.randperm(2 * half)]
    transforms.append(AffineCoupling(NETS[net](half, 2 * half, width, blocks), half))
    return Chain(transforms)
