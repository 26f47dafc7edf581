"""The models of the binary checkerboard. Its two dimensions have the shape (B, 2, 1, 1), so that dqcodec's flows apply.

New here are fully connected networks instead of convolutions, and flows that do not squeeze. The numbers of subflows (8
for p, 4 for q) and of context channels (16) are those of the paper's appendix. Its networks, DenseNets of depth 12 with
192 channels, are replaced by networks with two hidden layers.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine
from dqcodec.flows.densities import CovarianceGaussian, Density, DiagonalGaussian, normal_log_prob
from dqcodec.flows.dequantizers import Dequantizer, UniformDequantizer
from dqcodec.flows.model import DequantizedModel
from dqcodec.flows.transforms import Chain, Features, Images, Noise, PerImage, Rescale, Transform

DENSITIES = ("diagonal", "covariance", "flow")
DEQUANTIZERS = ("uniform", "normal", "flow")

_SHAPE = (2, 1, 1)
_OFFSET, _UNIT = 1.0, 0.5  # [0, 2) to [-2, 2), as dqcodec.training.build does for one bit
_WIDTH = 64
_CONTEXT = 16
_DENSITY_SUBFLOWS, _DEQUANTIZER_SUBFLOWS = 8, 4


class PointNet(nn.Module):
    """(x, context) -> (B, out, 1, 1), with two hidden layers; zero at initialisation."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, _WIDTH), nn.SiLU(), nn.Linear(_WIDTH, _WIDTH), nn.SiLU(), nn.Linear(_WIDTH, outputs)
        )
        nn.init.zeros_(self.layers[-1].weight)
        nn.init.zeros_(self.layers[-1].bias)

    def forward(self, x: Float[Tensor, "B C 1 1"], context: Float[Tensor, "B K 1 1"] | None = None) -> Tensor:
        """x (B, C, 1, 1), context (B, K, 1, 1) -> (B, out, 1, 1)."""
        inputs = x if context is None else torch.cat([x, context], 1)
        return self.layers(inputs.flatten(1))[..., None, None]


class Linear(Transform):
    """z = W x, the 1x1 convolution in two dimensions. A random rotation or reflection at initialisation."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(2, 2)).Q)

    def _log_det(self, x: Images) -> PerImage:
        (a, b), (c, d) = self.weight
        return (a * d - b * c).abs().log().expand(len(x))

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """z = W x."""
        return (x.flatten(1) @ self.weight.T)[..., None, None], self._log_det(x)

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """x = W^-1 z."""
        return (z.flatten(1) @ torch.linalg.inv(self.weight).T)[..., None, None], self._log_det(z)


class Rotation(Transform):
    """A rotation by a learned angle, between the couplings of a dequantizer. Its inverse is cheap."""

    def __init__(self):
        super().__init__()
        self.angle = nn.Parameter(2 * math.pi * torch.rand(()))

    def _rotated(self, x: Images, angle: Tensor) -> tuple[Images, PerImage]:
        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack([cos, sin, -sin, cos]).view(2, 2)
        return (x.flatten(1) @ matrix)[..., None, None], x.new_zeros(len(x))

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """Rotate by the angle."""
        return self._rotated(x, self.angle)

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """Rotate back."""
        return self._rotated(z, -self.angle)


class PointFlow(Density):
    """Subflows (linear map, affine coupling) with a standard normal base."""

    def __init__(self):
        super().__init__()
        transforms = [Rescale(_OFFSET, _UNIT)]
        for _ in range(_DENSITY_SUBFLOWS):
            transforms += [Linear(), AffineCoupling(PointNet(1, 2), 1)]
        self.transforms = Chain(transforms)

    def log_prob(self, v: Images) -> PerImage:
        """log p(v), nats."""
        z, log_det = self.transforms(v)
        return normal_log_prob(z) + log_det

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Images:
        """v ~ p(v)."""
        return self.transforms.inverse(torch.randn(n, *_SHAPE))[0]

    def initialise(self, v: Images) -> None:
        """Nothing to do."""


class PointDequantizer(Dequantizer):
    """u = sigmoid(y), where y is a conditional flow of eps ~ N(0, 1) in two dimensions."""

    def __init__(self, transforms: list[nn.Module], context_net: nn.Module):
        super().__init__()
        self.transforms, self.context_net = Chain(transforms), context_net

    def context(self, x: Float[Tensor, "B 2 1 1"]) -> Float[Tensor, "B K 1 1"]:
        """The context of the transforms."""
        return self.context_net(2 * x.flatten(1) - 1)[..., None, None]

    def noise(self, x: Images) -> Noise:
        """eps ~ N(0, 1), of the shape of x."""
        return torch.randn_like(x)

    def sample(self, x: Images, noise: Noise | None = None) -> tuple[Images, PerImage]:
        """eps -> (u, log q(u|x)), nats."""
        eps = self.noise(x) if noise is None else noise
        y, log_det = self.transforms.inverse(eps, self.context(x))
        u, bin_log_det = self.bins.from_real(y)
        return u, normal_log_prob(eps) + log_det + bin_log_det

    def log_prob(self, u: Images, x: Images) -> PerImage:
        """log q(u|x), nats."""
        y, bin_log_det = self.bins.to_real(u)
        eps, log_det = self.transforms(y, self.context(x))
        return normal_log_prob(eps) + log_det + bin_log_det


def build(density: str, dequantizer: str) -> DequantizedModel:
    """The untrained model of a density and a dequantizer."""
    return DequantizedModel(_dequantizer(dequantizer), _density(density), bits=1)


def _density(kind: str) -> Density:
    match kind:
        case "diagonal":
            return DiagonalGaussian(_SHAPE, _OFFSET, _UNIT)
        case "covariance":
            return CovarianceGaussian(_SHAPE, _OFFSET, _UNIT)
        case "flow":
            return PointFlow()


def _dequantizer(kind: str) -> Dequantizer:
    # The base of the flow is a conditional diagonal Gaussian, as in the paper. Without the flow it is the normal
    # dequantizer. Rotations start at random: with a diagonal p, the best q has independent coordinates; couplings
    # between these have no gradient, and the flow would stay normal.
    context_net = nn.Sequential(nn.Linear(2, _CONTEXT), nn.SiLU())
    base = ConditionalAffine(PointNet(_CONTEXT, 4))
    match kind:
        case "uniform":
            return UniformDequantizer()
        case "normal":
            return PointDequantizer([base], context_net)
        case "flow":
            couplings = [
                (Rotation(), AffineCoupling(PointNet(1 + _CONTEXT, 2), 1)) for _ in range(_DEQUANTIZER_SUBFLOWS)
            ]
            return PointDequantizer([part for pair in couplings for part in pair] + [base], context_net)
