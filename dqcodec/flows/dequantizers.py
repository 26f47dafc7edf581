"""The paper's dequantizers q(u|x): uniform, Gaussian (logit-normal), bipartite flow, autoregressive flow (ARD).

A learned dequantizer is a small conditional flow on the squeezed image: eps is normal or logistic, conditional transforms
map eps to y, and u = sigmoid(y) for hypercube bins. Training and compression only sample, from eps to u, so that only
this direction must be fast.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.autoregressive import AffineAutoregressive, Reversed
from dqcodec.flows.context import log2_linear, planes, standardised
from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine, ReverseChannels
from dqcodec.flows.densities import logistic_log_prob, normal_log_prob
from dqcodec.flows.networks import INPUT_BOUND, NETS, AutoregressiveDenseNet, AutoregressiveNet
from dqcodec.flows.transforms import Chain, Images, PerImage, Transform, haar_ycocg_sums, sum_dims
from dqcodec.frozen.autoregressive import SPREAD_FLOOR
from dqcodec.frozen.flow import AROUND


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
        """v = x + u."""
        return x + u

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


class PixelFeatures(nn.Module):
    """Squeezed pixels, decorrelated by integer sums: Haar and, for RGB, YCoCg-like.

    Each feature has a gain, a power of two. `initialise` sets the gains so that each feature has a standard deviation
    of about one.
    """

    def __init__(self, channels: int, bits: int):
        super().__init__()
        self.register_buffer("matrix", haar_ycocg_sums(channels), persistent=False)
        self.register_buffer("log2_gain", torch.zeros(4 * channels))
        self.channels = 4 * channels
        self.offset = 2 ** (bits - 1)

    def sums(self, x: Images) -> Float[Tensor, "B 4*C H//2 W//2"]:
        """The features without gains: integers, as floats."""
        return F.conv2d(F.pixel_unshuffle(x - self.offset, 2), self.matrix[..., None, None])

    def forward(self, x: Images) -> Float[Tensor, "B 4*C H//2 W//2"]:
        """The features, gains included."""
        return self.sums(x) * torch.exp2(self.log2_gain)[:, None, None]

    @torch.no_grad()
    def initialise(self, x: Images) -> None:
        """Set the gains from a batch of symbols."""
        self.log2_gain.copy_(-self.sums(x).std((0, 2, 3)).clamp_min(0.25).log2().round())


class StandardFeatures(nn.Module):
    """Squeezed pixels, each normalised by the mean and spread of its eight neighbours, and the log2 of the spreads; 8 C channels.

    They show how the density around changes within a bin: by the distance to the mean, over the spread.
    """

    def __init__(self, channels: int, bits: int):
        super().__init__()
        self.channels = 8 * channels

    @torch.no_grad()
    def forward(self, x: Images) -> Float[Tensor, "B 8*C H//2 W//2"]:
        """The features. Outside of the image lie the pixels of its border."""
        y = planes(x)
        padded, (height, width) = F.pad(y, (1, 1, 1, 1), mode="replicate"), y.shape[2:]
        near = [padded[:, :, dy : dy + height, dx : dx + width] for dy, dx in AROUND]
        sums = sum(near)  # 8 times the mean
        spreads = sum((8 * each - sums).abs() for each in near) + SPREAD_FLOOR  # 64 times the spread
        features = [standardised(y, sums, spreads), log2_linear(spreads / 64)]
        return F.pixel_unshuffle(torch.cat(features, 1), 2)

    def initialise(self, x: Images) -> None:
        """Nothing to do."""


FEATURES = {"haar": PixelFeatures, "standard": StandardFeatures}


class Dequantizer(nn.Module):
    """q(u|x), where u is a place in the bin of x. Symbols x are 0 .. 2^bits - 1 as floats.

    Args:
        bins: a key of BINS.
    """

    def __init__(self, bins: str = "hypercube"):
        super().__init__()
        self.bins = BINS[bins]()

    def noise(self, x: Images) -> Float[Tensor, "B ..."]:
        """Fresh randomness for sample(x). Its shape depends on the dequantizer."""
        raise NotImplementedError

    def sample(self, x: Images, noise: Float[Tensor, "B ..."] | None = None) -> tuple[Images, PerImage]:
        """u ~ q(u|x) -> (u, log q(u|x)), nats.

        u is a function of x and the noise; None draws new noise.
        """
        raise NotImplementedError

    def log_prob(self, u: Images, x: Images) -> PerImage:
        """log q(u|x), nats."""
        raise NotImplementedError

    def value(self, x: Images, u: Images) -> Images:
        """The point v of the bin of x at the place u."""
        return self.bins.value(x, u)

    def initialise(self, x: Images) -> None:
        """Data-dependent initialisation on a batch of symbols. The default does nothing."""


class UniformDequantizer(Dequantizer):
    """u uniform in [0, 1)^D (Theis et al. 2016): log q(u|x) = 0."""

    def noise(self, x: Images) -> Float[Tensor, "B ..."]:
        """Uniform in [0, 1), of the shape of x."""
        return torch.rand_like(x)

    def sample(self, x: Images, noise: Float[Tensor, "B ..."] | None = None) -> tuple[Images, PerImage]:
        """u is the noise itself."""
        return self.noise(x) if noise is None else noise, x.new_zeros(len(x))

    def log_prob(self, u: Images, x: Images) -> PerImage:
        """0 for every image."""
        return x.new_zeros(len(x))


class FlowDequantizer(Dequantizer):
    """u = bin(y), where y is a conditional flow of noise eps on the squeezed shape (B, 4C, H/2, W/2).

    Args:
        features: of x. context_net: makes the context from the features; None takes the features as the context.
        transforms: from y to eps, conditional on the context. bins: a key of BINS. noise: "normal" or "logistic". With logistic noise u
            can be uniform exactly, because the sigmoid is the distribution function; with normal noise it takes 0.0137 bpd.
    """

    def __init__(
        self,
        features: PixelFeatures | StandardFeatures,
        context_net: nn.Module | None,
        transforms: Chain,
        bins: str,
        noise: str = "normal",
    ):
        super().__init__(bins)
        self.features, self.transforms = features, transforms
        self.is_logistic = noise == "logistic"
        self.context_net = context_net

    def initialise(self, x: Images) -> None:
        """Initialise the features."""
        self.features.initialise(x)

    def context(self, x: Images) -> Float[Tensor, "B K H//2 W//2"]:
        """The context of the transforms, within [0, INPUT_BOUND] if it comes from a network."""
        features = self.features(x)
        return features if self.context_net is None else self.context_net(features).clamp(0, INPUT_BOUND)

    def noise(self, x: Images) -> Float[Tensor, "B ..."]:
        """eps, (B, 4C, H/2, W/2)."""
        batch, channels, height, width = x.shape
        shape = batch, 4 * channels, height // 2, width // 2
        if self.is_logistic:
            return torch.logit(torch.rand(shape, device=x.device, dtype=x.dtype), eps=torch.finfo(x.dtype).eps / 2)
        return torch.randn(shape, device=x.device, dtype=x.dtype)

    def _noise_log_prob(self, eps: Float[Tensor, "B ..."]) -> PerImage:
        return logistic_log_prob(eps) if self.is_logistic else normal_log_prob(eps)

    def sample(self, x: Images, noise: Float[Tensor, "B ..."] | None = None) -> tuple[Images, PerImage]:
        """eps -> y -> u, one pass; (u, log q(u|x)), nats."""
        eps = self.noise(x) if noise is None else noise
        y, log_det = self.transforms.inverse(eps, self.context(x))
        u, bin_log_det = self.bins.from_real(F.pixel_shuffle(y, 2))
        return u, self._noise_log_prob(eps) + log_det + bin_log_det

    def log_prob(self, u: Images, x: Images) -> PerImage:
        """u -> y -> eps; log q(u|x), nats."""
        y, bin_log_det = self.bins.to_real(u)
        eps, log_det = self.transforms(F.pixel_unshuffle(y, 2), self.context(x))
        return self._noise_log_prob(eps) + log_det + bin_log_det


def gaussian_dequantizer(
    channels: int,
    bits: int,
    width: int,
    blocks: int,
    bins: str = "hypercube",
    net: str = "residual",
    features: str = "haar",
    noise: str = "normal",
) -> Dequantizer:
    """The conditional logit-normal with diagonal covariance.

    width and blocks are those of its network, net is a key of NETS, bins a key of BINS, features a key of FEATURES; for noise see
    FlowDequantizer.
    """
    seen = FEATURES[features](channels, bits)
    transform = ConditionalAffine(NETS[net](seen.channels, 8 * channels, width, blocks))
    return FlowDequantizer(seen, None, Chain([transform]), bins, noise)


def bipartite_dequantizer(
    channels: int,
    bits: int,
    width: int,
    blocks: int,
    subflows: int,
    context_channels: int,
    bins: str = "hypercube",
    net: str = "residual",
    features: str = "haar",
    noise: str = "normal",
) -> Dequantizer:
    """Affine couplings over eps, given a context (the paper's equation (coupling_layer); Ho et al. 2019).

    width and blocks are those of each network; for net, bins, features and noise see gaussian_dequantizer.
    """
    half = 2 * channels
    transforms = []
    for _ in range(subflows):
        coupling = AffineCoupling(NETS[net](half, 2 * half, width, blocks, context_channels), half)
        transforms += [ReverseChannels(), coupling]
    seen = FEATURES[features](channels, bits)
    context_net = _context_net(net, seen.channels, context_channels, width, blocks)
    return FlowDequantizer(seen, context_net, Chain(transforms), bins, noise)


def autoregressive_dequantizer(
    channels: int,
    bits: int,
    width: int,
    blocks: int,
    subflows: int,
    context_channels: int,
    channels_per_group: int,
    bins: str = "hypercube",
    net: str = "residual",
    alternating: bool = False,
    features: str = "haar",
    noise: str = "normal",
) -> Dequantizer:
    """ARD: autoregressive steps over eps, given a context (the paper's equation (iaf)).

    With `alternating`, every second step, counted from eps, runs in reverse order. width and blocks are those of the
    context network, and blocks is the depth of dense ARMs; for net, bins, features and noise see gaussian_dequantizer.
    """
    sizes = (4 * channels, channels_per_group, context_channels)
    nets = [
        AutoregressiveDenseNet(*sizes, blocks) if net == "dense" else AutoregressiveNet(*sizes) for _ in range(subflows)
    ]
    transforms: list[Transform] = [AffineAutoregressive(arm) for arm in nets]
    if alternating:
        for place in range(subflows - 2, -1, -2):  # the last transform is nearest to eps
            transforms[place] = Reversed(transforms[place])
    seen = FEATURES[features](channels, bits)
    context_net = _context_net(net, seen.channels, context_channels, width, blocks)
    return FlowDequantizer(seen, context_net, Chain(transforms), bins, noise)


def _context_net(net: str, features: int, channels: int, width: int, blocks: int) -> nn.Module:
    """Features -> a context of `channels` channels. Its last convolution begins at random instead of zero.

    The layers that read the context start at zero already; if the context were zero, too, no gradient would flow.
    """
    context_net = NETS[net](features, channels, width, blocks)
    context_net.conv_out.reset_parameters()
    return context_net
