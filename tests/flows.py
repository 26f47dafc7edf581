"""What the tests of flows share: tiny parts with random parameters, Jacobians, toy images."""

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.flows.autoregressive_density import AutoregressiveDensity, Sizes
from dqcodec.flows.densities import CovarianceGaussian, DiagonalGaussian, FlowDensity
from dqcodec.flows.dequantizers import (
    FlowDequantizer,
    Settings,
    UniformDequantizer,
    autoregressive_dequantizer,
    bipartite_dequantizer,
    gaussian_dequantizer,
)

torch.set_num_threads(1)

TINY = Sizes(width=8, blocks=1, head=4, features=3, mixtures=2)


def ard(settings: Settings, subflows: int, *, alternating: bool = False) -> FlowDequantizer:
    """A tiny autoregressive dequantizer."""
    sizes = {"context_channels": 3, "channels_per_group": 2}
    return autoregressive_dequantizer(settings, subflows=subflows, **sizes, alternating=alternating)


def _binary(bins: str) -> Settings:
    return Settings(channels=1, bits=1, width=4, blocks=1, bins=bins)


DEQUANTIZERS = {
    "uniform": lambda bins: UniformDequantizer(bins),
    "gaussian": lambda bins: gaussian_dequantizer(_binary(bins)),
    "bipartite": lambda bins: bipartite_dequantizer(_binary(bins), subflows=2, context_channels=3),
    "ard": lambda bins: ard(_binary(bins), 2),
    "alternating ard": lambda bins: ard(_binary(bins), 2, alternating=True),
}
DENSITIES = {
    "diagonal": lambda: DiagonalGaussian((1, 2, 2), 2.0, 1.0),
    "covariance": lambda: CovarianceGaussian((1, 2, 2), 2.0, 1.0),
    "flow": lambda: FlowDensity(1, [(2, 4, 1)], 2.0, 1.0),
}


def randomised(module: nn.Module, scale: float = 0.3) -> nn.Module:
    """The module in float64, every trained parameter moved by noise, so that nothing is zero or the identity."""
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(scale * torch.randn_like(parameter))
    return module


def autoregressive_density(channels: int, bits: int, seed: int = 0) -> AutoregressiveDensity:
    """A tiny one with random parameters, in float64."""
    torch.manual_seed(seed)
    return randomised(AutoregressiveDensity(channels, bits, TINY))


def jacobian(function, x: Tensor) -> Tensor:
    """(D, D) of a map between (1, C, H, W) tensors, both in C x H x W order."""
    return torch.autograd.functional.jacobian(lambda flat: function(flat.view(x.shape)).flatten(), x.flatten())


def symbols(*shape: int, bits: int = 1) -> Tensor:
    return torch.randint(0, 2**bits, shape).double()


def near_middle(*shape: int, bits: int) -> Tensor:
    """Symbols (B, C, H, W) of a few values around the middle, none of which surprises a density much."""
    middle, reach = 2 ** (bits - 1), min(2, 2 ** (bits - 1))
    return torch.randint(middle - reach, middle + reach, shape).double()


def smooth_images(count: int, side: int, channels: int, seed: int = 0) -> np.ndarray:
    """(count, side, side, channels) uint8 random walks in both directions."""
    steps = np.random.default_rng(seed).normal(size=(count, side, side, channels))
    return (128 + 6 * steps.cumsum(1).cumsum(2)).clip(0, 255).astype(np.uint8)
