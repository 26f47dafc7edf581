"""Dequantizers q(u|x) of the paper: uniform, Gaussian (logit-normal), bipartite flow, autoregressive (ARD).

A dequantizer is a small conditional flow on the squeezed image: u = bin(y), y -> eps by conditional transforms,
eps standard normal. Sampling runs them from eps to u; only that direction must be fast.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.autoregressive import AffineAutoregressive, Reversed
from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine, Reverse
from dqcodec.flows.densities import normal_log_prob
from dqcodec.flows.networks import INPUT_BOUND, NETS, AutoregressiveDenseNet, AutoregressiveNet
from dqcodec.flows.transforms import Chain, sum_dims


class Hypercube:
    """B(x) = {x + u : u in [0, 1)^D}: u = sigmoid(y), v = x + u."""

    def from_real(self, y: Tensor) -> tuple[Tensor, Float[Tensor, "B"]]:
        """y -> (u, log|det dy/du|)."""
        # far out the float sigmoid is 0 or 1, and 1 is another bin's
        limits = torch.finfo(y.dtype)
        u = torch.sigmoid(y).clamp(limits.tiny, 1 - limits.eps / 2)
        return u, sum_dims(F.softplus(y) + F.softplus(-y))

    def to_real(self, u: Tensor) -> tuple[Tensor, Float[Tensor, "B"]]:
        """u -> (y, log|det dy/du|)."""
        y = torch.logit(u)
        return y, sum_dims(F.softplus(y) + F.softplus(-y))

    def value(self, x: Tensor, u: Tensor) -> Tensor:
        """v in B(x)."""
        return x + u

    def quantize(self, v: Tensor) -> Tensor:
        """The x whose bin holds v."""
        return v.floor()


class HalfInfinite:
    """B(x) = {x u : u > 0} for x in {-1, 1} (Winkler et al. 2019), given as bits {0, 1}: u = softplus(y)."""

    def from_real(self, y):
        return F.softplus(y).clamp_min(torch.finfo(y.dtype).tiny), sum_dims(F.softplus(-y))

    def to_real(self, u):
        y = u + torch.log(-torch.expm1(-u))
        return y, sum_dims(F.softplus(-y))

    def value(self, x, u):
        return (2 * x - 1) * u

    def quantize(self, v):
        return (v > 0).to(v)


BINS = {"hypercube": Hypercube, "half_infinite": HalfInfinite}


class PixelFeatures(nn.Module):
    """Squeezed pixels, decorrelated by integer sums (Haar and, for RGB, YCoCg-like) times powers of two.

    The gains are set on a first batch so that each feature has about unit spread.
    """

    def __init__(self, channels: int, bits: int):
        super().__init__()
        haar = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])
        colour = torch.tensor([[1, 1, 1], [1, 0, -1], [-1, 2, -1]]) if channels == 3 else torch.eye(channels).long()
        matrix = torch.einsum("kq,dc->kdcq", haar, colour).reshape(4 * channels, 4 * channels)
        self.register_buffer("matrix", matrix.float(), persistent=False)
        self.register_buffer("log2_gain", torch.zeros(4 * channels))
        self.offset = 2 ** (bits - 1)

    def sums(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B 4C H/2 W/2"]:
        return F.conv2d(F.pixel_unshuffle(x - self.offset, 2), self.matrix[..., None, None])

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B 4C H/2 W/2"]:
        return self.sums(x) * torch.exp2(self.log2_gain)[:, None, None]

    @torch.no_grad()
    def initialise(self, x: Float[Tensor, "B C H W"]) -> None:
        self.log2_gain.copy_(-self.sums(x).std((0, 2, 3)).clamp_min(0.25).log2().round())


class Dequantizer(nn.Module):
    """q(u|x), u in the bin of x. x holds pixel symbols 0 .. 2^bits - 1 as floats."""

    def __init__(self, bins: str = "hypercube"):
        super().__init__()
        self.bins = BINS[bins]()

    def noise(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B ..."]:
        """All that is random in sample(x)."""
        raise NotImplementedError

    def sample(
        self, x: Float[Tensor, "B C H W"], noise: Float[Tensor, "B ..."] | None = None
    ) -> tuple[Float[Tensor, "B C H W"], Float[Tensor, "B"]]:
        """u ~ q(u|x) -> (u, log q(u|x)), nats; u is a function of the noise, fresh where none is given."""
        raise NotImplementedError

    def log_prob(self, u: Float[Tensor, "B C H W"], x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B"]:
        """log q(u|x), nats."""
        raise NotImplementedError

    def value(self, x: Float[Tensor, "B C H W"], u: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """The point v of the bin of x that u names."""
        return self.bins.value(x, u)

    def initialise(self, x: Float[Tensor, "B C H W"]) -> None:
        """Data-dependent initialisation on a first batch, where there is any."""


class UniformDequantizer(Dequantizer):
    """u uniform in [0, 1)^D (Theis et al. 2016)."""

    def noise(self, x):
        return torch.rand_like(x)

    def sample(self, x, noise=None):
        return self.noise(x) if noise is None else noise, x.new_zeros(len(x))

    def log_prob(self, u, x):
        return x.new_zeros(len(x))


class FlowDequantizer(Dequantizer):
    """u = bin(y), y a conditional flow of eps ~ N(0, 1), on squeezed shape; context = features of x."""

    def __init__(self, features: PixelFeatures, context_net: nn.Module | None, transforms: Chain, bins: str):
        super().__init__(bins)
        self.features, self.transforms = features, transforms
        self.context_net = context_net

    def initialise(self, x):
        self.features.initialise(x)

    def context(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K H/2 W/2"]:
        features = self.features(x)
        return features if self.context_net is None else self.context_net(features).clamp(0, INPUT_BOUND)

    def noise(self, x):
        """eps ~ N(0, 1), of the squeezed shape."""
        batch, channels, height, width = x.shape
        return torch.randn(batch, 4 * channels, height // 2, width // 2, device=x.device, dtype=x.dtype)

    def sample(self, x, noise=None):
        eps = self.noise(x) if noise is None else noise
        y, log_det = self.transforms.inverse(eps, self.context(x))
        u, bin_log_det = self.bins.from_real(F.pixel_shuffle(y, 2))
        return u, normal_log_prob(eps) + log_det + bin_log_det

    def log_prob(self, u, x):
        y, bin_log_det = self.bins.to_real(u)
        eps, log_det = self.transforms(F.pixel_unshuffle(y, 2), self.context(x))
        return normal_log_prob(eps) + log_det + bin_log_det


def gaussian_dequantizer(
    channels: int, bits: int, width: int, blocks: int, bins: str = "hypercube", net: str = "residual"
) -> Dequantizer:
    """Conditional logit-normal with diagonal covariance."""
    transform = ConditionalAffine(NETS[net](4 * channels, 8 * channels, width, blocks))
    return FlowDequantizer(PixelFeatures(channels, bits), None, Chain([transform]), bins)


def bipartite_dequantizer(
    channels: int, bits: int, width: int, blocks: int, subflows: int, context_channels: int,
    bins: str = "hypercube", net: str = "residual",
) -> Dequantizer:
    """Couplings over eps given a context (the paper's equation (coupling_layer); Ho et al. 2019)."""
    half = 2 * channels
    transforms = []
    for _ in range(subflows):
        transforms += [Reverse(), AffineCoupling(NETS[net](half, 2 * half, width, blocks, context_channels), half)]
    context_net = NETS[net](4 * channels, context_channels, width, blocks)
    _start_at_random(context_net)
    return FlowDequantizer(PixelFeatures(channels, bits), context_net, Chain(transforms), bins)


def autoregressive_dequantizer(
    channels: int, bits: int, width: int, blocks: int, subflows: int, context_channels: int,
    channels_per_group: int, bins: str = "hypercube", net: str = "residual", alternating: bool = False,
) -> Dequantizer:
    """ARD (the paper's equation (iaf)); alternating: every second step from eps on is reversed."""
    sizes = (4 * channels, channels_per_group, context_channels)
    nets = [
        AutoregressiveDenseNet(*sizes, blocks) if net == "dense" else AutoregressiveNet(*sizes) for _ in range(subflows)
    ]
    transforms = [AffineAutoregressive(arm) for arm in nets]
    if alternating:
        transforms[-2::-2] = [Reversed(step) for step in transforms[-2::-2]]
    context_net = NETS[net](4 * channels, context_channels, width, blocks)
    _start_at_random(context_net)
    return FlowDequantizer(PixelFeatures(channels, bits), context_net, Chain(transforms), bins)


def _start_at_random(net: nn.Module) -> None:
    """A context must not start at zero: what reads it starts at zero already, and then no gradient would flow."""
    net.conv_out.reset_parameters()
