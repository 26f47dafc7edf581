"""From the tensors of a model file to the exact dequantizer and density of a flow.

All raise ModelError: tensors do not fit together, or their sums are not proven exact.
"""

import numpy as np

from dqcodec.base.errors import ModelError
from dqcodec.exact.flow.densities import FlowDensity
from dqcodec.exact.flow.dequantizers import FlowDequantizer, SigmoidCells, UniformDequantizer
from dqcodec.exact.flow.description import Description
from dqcodec.exact.flow.features import PixelFeatures, StandardFeatures
from dqcodec.exact.flow.interlaced import InterlacedFlow
from dqcodec.exact.flow.mixture_coupling import CouplingNet, MixtureCoupling
from dqcodec.exact.flow.networks import AutoregressiveNet, ResidualNet
from dqcodec.exact.flow.steps import Reversed, SampledAffine, SampledAutoregressive, SampledCoupling, Step
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.exact.flow.transforms import Affine, AffineCoupling, Conv1x1
from dqcodec.exact.mixture import MixtureTables
from dqcodec.exact.model_file import Tensors
from dqcodec.frozen.flow import INPUT_BOUND, LOCATION_BOUND, LOG_SCALE_BOUND
from dqcodec.frozen.interlaced import PLACES


def _law(tensors: Tensors, name: str, unbounded: bool = True) -> TableLaw:
    """The table of the tensors `name`.*."""
    first, low_bits = (int(number) for number in tensors[f"{name}.grid"])
    return TableLaw(tensors[f"{name}.frequencies"].astype(np.int64), first, low_bits, unbounded)


def _location_scale_bounds(channels: int) -> tuple[np.ndarray, np.ndarray]:
    high = np.repeat([LOCATION_BOUND, LOG_SCALE_BOUND], channels).astype(np.float64)
    return -high, high


def density(d: Description, tensors: Tensors) -> FlowDensity | InterlacedFlow:
    """The density of a model file."""
    return _interlaced(d, tensors) if d.mixtures else _affine(d, tensors)


def _interlaced(d: Description, tensors: Tensors) -> InterlacedFlow:
    tables = MixtureTables.load(tensors)
    levels = [
        [
            MixtureCoupling(
                CouplingNet(tensors, f"density.{level}.{number}", d.channels, d.mixtures), tables, number, d.bits
            )
            for number in range(len(PLACES))
        ]
        for level in range(len(d.subflows))
    ]
    return InterlacedFlow(levels, d.channels, d.bits, d.fraction_bits)


def _affine(d: Description, tensors: Tensors) -> FlowDensity:
    affine = Affine(tensors["scales"])
    levels, channels = [], d.channels
    for level, subflows in enumerate(d.subflows):
        channels *= 4
        half, transforms = channels // 2, []
        for subflow in range(subflows + 1):  # the last one has no 1x1 convolution: it is the split prior
            name = f"density.{level}.{subflow}"
            if subflow < subflows:
                transforms.append(_conv1x1(tensors, name, channels))
            net = ResidualNet(tensors, f"{name}.net", half, 0, *_location_scale_bounds(half))
            transforms.append(AffineCoupling(net, half, affine, d.grid_bits))
        levels.append(transforms)
        channels = half
    return FlowDensity(
        levels,
        _law(tensors, "logistic"),
        d.channels,
        offset=1 << (d.bits - 1),
        unit_bits=d.unit_bits,
        fraction_bits=d.fraction_bits,
        grid_bits=d.grid_bits,
    )


def _conv1x1(tensors: Tensors, name: str, channels: int) -> Conv1x1:
    permutation = tensors[f"{name}.permutation"]
    if len(permutation) != channels:
        raise ModelError(f"{name}: a 1x1 convolution does not fit its place")
    sizes = tensors.get(f"{name}.sizes")
    negative = tensors[f"{name}.negative"].astype(bool) if sizes is not None else np.zeros(channels, bool)
    if negative.shape != (channels,):
        raise ModelError(f"{name}: a 1x1 convolution does not fit its place")
    return Conv1x1(permutation.tolist(), tensors[f"{name}.lower"], tensors[f"{name}.upper"], sizes, negative)


def dequantizer(d: Description, tensors: Tensors) -> UniformDequantizer | FlowDequantizer:
    """The dequantizer of a model file."""
    if d.dequantizer == "uniform":
        return UniformDequantizer(d.fraction_bits)
    affine = Affine(tensors["scales"])
    features, seen = _features(d, tensors)
    context_net = None
    if d.dequantizer != "gaussian":
        context_net = ResidualNet(tensors, "context", seen, 0, 0, np.full(d.context_channels, INPUT_BOUND))
    steps = [_step(d, tensors, f"dequantizer.{index}", seen, affine) for index in range(d.dequantizer_transforms)]
    if d.alternating:
        steps[1::2] = [Reversed(step) for step in steps[1::2]]
    cells = SigmoidCells(tensors["sigmoid.edges"], _law(tensors, "tail"))
    if cells.cells != 1 << d.fraction_bits:
        raise ModelError("the sigmoid's cells do not fit the bits of u")
    is_logistic = d.noise == "logistic"
    noise = _law(tensors, "logistic_noise" if is_logistic else "normal", unbounded=False)
    return FlowDequantizer(
        features, context_net, steps, noise, cells, grid_bits=d.noise_grid_bits, is_logistic=is_logistic
    )


def _features(d: Description, tensors: Tensors) -> tuple[PixelFeatures | StandardFeatures, int]:
    """The dequantizer's features, and their number."""
    if d.features == "standard":
        return StandardFeatures(), 8 * d.channels
    features = PixelFeatures(tensors["features.matrix"], tensors["features.log2_gain"], 1 << (d.bits - 1))
    if len(features.matrix) != 4 * d.channels:
        raise ModelError("the pixel features do not fit the image's channels")
    return features, 4 * d.channels


def _step(d: Description, tensors: Tensors, name: str, seen: int, affine: Affine) -> Step:
    """One step of the dequantizer; its `sample` goes from eps towards y. seen: the number of features."""
    channels, half = 4 * d.channels, 2 * d.channels
    match d.dequantizer:
        case "gaussian":
            return SampledAffine(ResidualNet(tensors, name, seen, 0, *_location_scale_bounds(channels)), affine)
        case "bipartite":
            net = ResidualNet(tensors, name, half, d.context_channels, *_location_scale_bounds(half))
            return SampledCoupling(AffineCoupling(net, half, affine, d.noise_grid_bits))
        case "ard":
            net = AutoregressiveNet(tensors, name, channels, *_location_scale_bounds(channels))
            if net.conv_context.inputs != d.context_channels:
                raise ModelError(f"{name}: a network's context does not fit its place")
            return SampledAutoregressive(net, affine, d.noise_grid_bits)
    raise ModelError(f"unknown dequantizer {d.dequantizer!r}")
