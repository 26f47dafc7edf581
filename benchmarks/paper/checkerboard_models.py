"""The models of the binary checkerboard: two dimensions, as (B, 2, 1, 1), so that dqcodec's flows apply unchanged.

What is new here is small: dense networks in place of convolutions, and flows that do not squeeze. The counts follow the
paper's appendix (8 subflows for p, 4 for q, 16 context channels); its networks, DenseNets of depth 12 and 192 channels,
become two hidden layers.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine
from dqcodec.flows.densities import CovarianceGaussian, Density, DiagonalGaussian, normal_log_prob
from dqcodec.flows.dequantizers import Dequantizer, UniformDequantizer
from dqcodec.flows.model import DequantizedModel
from dqcodec.flows.transforms import Chain, Rescale, Transform

DENSITIES = ("diagonal", "covariance", "flow")
DEQUANTIZERS = ("uniform", "normal", "flow")

_SHAPE = (2, 1, 1)
_OFFSET, _UNIT = 1.0, 0.5  # [0, 2) to [-2, 2), as dqcodec.training.build does for one bit
_WIDTH = 64
_CONTEXT = 16
_DENSITY_SUBFLOWS, _DEQUANTIZER_SUBFLOWS = 8, 4


class PointNet(nn.Module):
    """(x, context) -> (B, out, 1, 1), two hidden layers; zero at initialisation."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, _WIDTH), nn.SiLU(), nn.Linear(_WIDTH, _WIDTH), nn.SiLU(), nn.Linear(_WIDTH, outputs)
        )
        nn.init.zeros_(self.layers[-1].weight)
        nn.init.zeros_(self.layers[-1].bias)

    def forward(self, x: Float[Tensor, "B C 1 1"], context: Float[Tensor, "B K 1 1"] | None = None) -> Tensor:
        inputs = x if context is None else torch.cat([x, context], 1)
        return self.layers(inputs.flatten(1))[..., None, None]


class Linear(Transform):
    """z = W x: what a 1x1 convolution is in two dimensions. A rotation at initialisation."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(2, 2)).Q)

    def _log_det(self, x):
        (a, b), (c, d) = self.weight
        return (a * d - b * c).abs().log().expand(len(x))

    def forward(self, x, context=None):
        return (x.flatten(1) @ self.weight.T)[..., None, None], self._log_det(x)

    def inverse(self, z, context=None):
        return (z.flatten(1) @ torch.linalg.inv(self.weight).T)[..., None, None], self._log_det(z)


class Rotation(Transform):
    """A rotation by a learned angle: between a dequantizer's couplings, where the inverse must be cheap."""

    def __init__(self):
        super().__init__()
        self.angle = nn.Parameter(2 * math.pi * torch.rand(()))

    def _turn(self, x, angle):
        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack([cos, sin, -sin, cos]).view(2, 2)
        return (x.flatten(1) @ matrix)[..., None, None], x.new_zeros(len(x))

    def forward(self, x, context=None):
        return self._turn(x, self.angle)

    def inverse(self, z, context=None):
        return self._turn(z, -self.angle)


class PointFlow(Density):
    """Subflows (linear map, affine coupling) to a standard normal."""

    def __init__(self):
        super().__init__()
        transforms = [Rescale(_OFFSET, _UNIT)]
        for _ in range(_DENSITY_SUBFLOWS):
            transforms += [Linear(), AffineCoupling(PointNet(1, 2), 1)]
        self.transforms = Chain(transforms)

    def log_prob(self, v):
        z, log_det = self.transforms(v)
        return normal_log_prob(z) + log_det

    @torch.no_grad()
    def sample(self, n, height, width):
        return self.transforms.inverse(torch.randn(n, *_SHAPE))[0]

    def initialise(self, v):
        pass


class PointDequantizer(Dequantizer):
    """u = sigmoid(y), y a conditional flow of eps ~ N(0, 1) in two dimensions."""

    def __init__(self, transforms: list[nn.Module], context_net: nn.Module):
        super().__init__()
        self.transforms, self.context_net = Chain(transforms), context_net

    def context(self, x: Float[Tensor, "B 2 1 1"]) -> Float[Tensor, "B K 1 1"]:
        return self.context_net(2 * x.flatten(1) - 1)[..., None, None]

    def noise(self, x):
        return torch.randn_like(x)

    def sample(self, x, noise=None):
        eps = self.noise(x) if noise is None else noise
        y, log_det = self.transforms.inverse(eps, self.context(x))
        u, bin_log_det = self.bins.from_real(y)
        return u, normal_log_prob(eps) + log_det + bin_log_det

    def log_prob(self, u, x):
        y, bin_log_det = self.bins.to_real(u)
        eps, log_det = self.transforms(y, self.context(x))
        return normal_log_prob(eps) + log_det + bin_log_det


def build(density: str, dequantizer: str) -> DequantizedModel:
    """The untrained model of a pair."""
    return DequantizedModel(_dequantizer(dequantizer), _density(density), bits=1)


def _density(kind):
    match kind:
        case "diagonal":
            return DiagonalGaussian(_SHAPE, _OFFSET, _UNIT)
        case "covariance":
            return CovarianceGaussian(_SHAPE, _OFFSET, _UNIT)
        case "flow":
            return PointFlow()


def _dequantizer(kind):
    # A conditional diagonal Gaussian is the base of the flow, as in the paper, and alone the normal dequantizer. The flow's
    # rotations start at random: where the best q has independent coordinates, as beside a diagonal p, couplings between
    # these have no gradient, and the flow stays normal.
    context_net = nn.Sequential(nn.Linear(2, _CONTEXT), nn.SiLU())
    base = ConditionalAffine(PointNet(_CONTEXT, 4))
    match kind:
        case "uniform":
            return UniformDequantizer()
        case "normal":
            return PointDequantizer([base], context_net)
        case "flow":
            couplings = [(Rotation(), AffineCoupling(PointNet(1 + _CONTEXT, 2), 1)) for _ in range(_DEQUANTIZER_SUBFLOWS)]
            return PointDequantizer([part for pair in couplings for part in pair] + [base], context_net)
