"""The paper's dequantizers q(u|x): uniform, Gaussian (logit-normal), bipartite flow, autoregressive flow (ARD).

A learned dequantizer is a small conditional flow on the squeezed image: eps is normal or logistic, conditional
transforms map eps to y, and u = sigmoid(y) for hypercube bins. Training and compression only sample, from eps to u, so
only this direction must be fast.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.autoregressive import AffineAutoregressive, Reversed
from dqcodec.flows.bins import BINS
from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine, ReverseChannels
from dqcodec.flows.densities import logistic_log_prob, logistic_sample, normal_log_prob
from dqcodec.flows.features import FEATURES, PixelFeatures, StandardFeatures
from dqcodec.flows.networks import INPUT_BOUND, NETS, AutoregressiveDenseNet, AutoregressiveNet
from dqcodec.flows.transforms import Chain, Images, Noise, PerImage, Transform


class Dequantizer(nn.Module):
    """q(u|x), where u is a place in the bin of x. Symbols x are 0 .. 2^bits - 1 as floats.

    Args:
        bins: a key of BINS.
    """

    def __init__(self, bins: str = "hypercube"):
        super().__init__()
        self.bins = BINS[bins]()

    def noise(self, x: Images) -> Noise:
        """Fresh randomness for sample(x). Its shape depends on the dequantizer."""
        raise NotImplementedError

    def sample(self, x: Images, noise: Noise | None = None) -> tuple[Images, PerImage]:
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
    """Uniform dequantization, u in [0, 1)^D (Theis et al. 2016): log q(u|x) = 0."""

    def noise(self, x: Images) -> Noise:
        """Uniform in [0, 1), of the shape of x."""
        return torch.rand_like(x)

    def sample(self, x: Images, noise: Noise | None = None) -> tuple[Images, PerImage]:
        """u is the noise itself."""
        return self.noise(x) if noise is None else noise, x.new_zeros(len(x))

    def log_prob(self, u: Images, x: Images) -> PerImage:
        """0 for every image."""
        return x.new_zeros(len(x))


class FlowDequantizer(Dequantizer):
    """u = sigmoid(y) for hypercube bins; y, (B, 4C, H/2, W/2), is a conditional flow of noise eps: the paper's equation 12.

    Two things differ from the equation. The base q(eps) is fixed, standard normal or logistic; the paper's depends on x
    and is a diagonal Gaussian. The flow runs on the squeezed image, so the order of an autoregressive step is that of
    its channels (places in 2 x 2 blocks within each plane), then rows, then columns.

    Args:
        features: of x. context_net: makes the context from the features; None takes the features as the context.
        transforms: from y to eps, conditional on the context. bins: a key of BINS.
        noise: the distribution of eps, "normal" or "logistic". The sigmoid is the distribution function of logistic
            noise, so with it u can be uniform exactly. If y is normal, as after one affine step of normal noise, u is
            at best almost uniform, which costs 0.0137 bpd where the posterior is uniform.
    """

    def __init__(
        self,
        features: PixelFeatures | StandardFeatures,
        context_net: nn.Module | None,
        transforms: Chain,
        bins: str,
        noise: str,
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

    def noise(self, x: Images) -> Noise:
        """eps, (B, 4C, H/2, W/2)."""
        batch, channels, height, width = x.shape
        shape = batch, 4 * channels, height // 2, width // 2
        if self.is_logistic:
            return logistic_sample(shape, x)
        return torch.randn(shape, device=x.device, dtype=x.dtype)

    def _noise_log_prob(self, eps: Noise) -> PerImage:
        return logistic_log_prob(eps) if self.is_logistic else normal_log_prob(eps)

    def sample(self, x: Images, noise: Noise | None = None) -> tuple[Images, PerImage]:
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


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all learned dequantizers have in common.

    channels, bits: of x. width, blocks: of each residual network; blocks is the depth of dense networks. net: a key of
    networks.NETS. features: a key of features.FEATURES. bins: a key of bins.BINS. noise: see FlowDequantizer.
    """

    channels: int
    bits: int
    width: int
    blocks: int
    net: str = "residual"
    features: str = "haar"
    bins: str = "hypercube"
    noise: str = "normal"

    def network(self, inputs: int, outputs: int, context_channels: int = 0) -> nn.Module:
        """An untrained network from `inputs` channels and a context to `outputs` channels."""
        return NETS[self.net](inputs, outputs, self.width, self.blocks, context_channels)

    def flow(self, transforms: list[Transform], context_channels: int) -> FlowDequantizer:
        """The dequantizer with these transforms, from y to eps, conditional on a context that a network computes.

        The network's last convolution starts at random, not at zero: the layers that read the context start at zero
        already, and no gradient would flow through both.
        """
        features = FEATURES[self.features](self.channels, self.bits)
        context_net = self.network(features.channels, context_channels)
        context_net.conv_out.reset_parameters()
        return FlowDequantizer(features, context_net, Chain(transforms), self.bins, self.noise)


def gaussian_dequantizer(settings: Settings) -> FlowDequantizer:
    """The conditional logit-normal (the paper's Gaussian dequantization), with diagonal covariance."""
    features = FEATURES[settings.features](settings.channels, settings.bits)
    transform = ConditionalAffine(settings.network(features.channels, 8 * settings.channels))
    return FlowDequantizer(features, None, Chain([transform]), settings.bins, settings.noise)


def bipartite_dequantizer(settings: Settings, *, subflows: int, context_channels: int) -> FlowDequantizer:
    """Affine couplings over eps, given a context (the paper's equation 13; Flow++, Ho et al. 2019)."""
    half = 2 * settings.channels
    transforms: list[Transform] = []
    for _ in range(subflows):
        transforms += [ReverseChannels(), AffineCoupling(settings.network(half, 2 * half, context_channels), half)]
    return settings.flow(transforms, context_channels)


def autoregressive_dequantizer(
    settings: Settings, *, subflows: int, context_channels: int, channels_per_group: int, alternating: bool = False
) -> FlowDequantizer:
    """ARD: autoregressive steps over eps, given a context (the paper's equation 14).

    channels_per_group: see networks.AutoregressiveNet. alternating: every second step, counted from eps, runs in
    reverse order.
    """
    sizes = (4 * settings.channels, channels_per_group, context_channels)
    transforms: list[Transform] = [
        AffineAutoregressive(
            AutoregressiveDenseNet(*sizes, settings.blocks) if settings.net == "dense" else AutoregressiveNet(*sizes)
        )
        for _ in range(subflows)
    ]
    if alternating:
        for place in range(subflows - 2, -1, -2):  # the last transform is nearest to eps
            transforms[place] = Reversed(transforms[place])
    return settings.flow(transforms, context_channels)
