"""Config -> untrained model."""

from dqcodec.flows.autoregressive_density import AutoregressiveDensity, Sizes
from dqcodec.flows.densities import CovarianceGaussian, Density, DiagonalGaussian, FlowDensity
from dqcodec.flows.dequantizers import (
    Dequantizer,
    Settings,
    UniformDequantizer,
    autoregressive_dequantizer,
    bipartite_dequantizer,
    gaussian_dequantizer,
)
from dqcodec.flows.interlaced import InterlacedFlow
from dqcodec.flows.model import AutoregressiveModel, DequantizedModel
from dqcodec.training.config import Config


def build(config: Config) -> DequantizedModel:
    """The untrained model of a configuration."""
    channels, bits = config.data.channels, config.data.bits
    if config.density.kind == "autoregressive":
        d = config.density
        sizes = Sizes(width=d.width, blocks=d.blocks, head=d.head, features=d.features, mixtures=d.mixtures)
        return AutoregressiveModel(
            AutoregressiveDensity(channels, bits, sizes, least_squares=d.least_squares, learning=d.learning)
        )
    return DequantizedModel(_dequantizer(config, channels, bits), _density(config, channels, bits), bits)


def _dequantizer(config: Config, channels: int, bits: int) -> Dequantizer:
    q = config.dequantizer
    settings = Settings(
        channels=channels,
        bits=bits,
        width=q.width,
        blocks=q.blocks,
        net=q.net,
        features=q.features,
        bins=q.bins,
        noise=q.noise,
    )
    match q.kind:
        case "uniform":
            return UniformDequantizer(q.bins)
        case "gaussian":
            return gaussian_dequantizer(settings)
        case "bipartite":
            return bipartite_dequantizer(settings, subflows=q.subflows, context_channels=q.context_channels)
        case "ard":
            return autoregressive_dequantizer(
                settings,
                subflows=q.subflows,
                context_channels=q.context_channels,
                channels_per_group=q.channels_per_group,
                alternating=q.alternating,
            )


def _density(config: Config, channels: int, bits: int) -> Density:
    # map pixels 0 .. 2^bits to [-2, 2); half-infinite bins are centred already
    offset, unit = (0.0, 1.0) if config.dequantizer.bins == "half_infinite" else (2.0 ** (bits - 1), 2.0 ** (bits - 2))
    shape = (channels, config.data.crop, config.data.crop)
    match config.density.kind:
        case "diagonal":
            return DiagonalGaussian(shape, offset, unit)
        case "covariance":
            return CovarianceGaussian(shape, offset, unit)
        case "flow":
            levels = [(level.subflows, level.width, level.blocks) for level in config.density.levels]
            return FlowDensity(channels, levels, offset, unit, config.density.net)
        case "interlaced":
            sizes = [(level.width, level.blocks) for level in config.density.levels]
            return InterlacedFlow(channels, bits, sizes, config.density.head, config.density.mixtures)
