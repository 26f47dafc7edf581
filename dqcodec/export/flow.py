"""Export of flows: integer weights and integer tables."""

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.base.errors import ModelError
from dqcodec.exact import model_file
from dqcodec.exact.model_file import Tensors
from dqcodec.export import tables
from dqcodec.export.quantise import CONTEXT_BITS, Ranges, grid_of, integers, mixture_grids, stored
from dqcodec.flows.autoregressive import AffineAutoregressive, Reversed
from dqcodec.flows.bins import Hypercube
from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine, ReverseChannels
from dqcodec.flows.densities import FlowDensity
from dqcodec.flows.dequantizers import Dequantizer, FlowDequantizer, UniformDequantizer
from dqcodec.flows.features import PixelFeatures
from dqcodec.flows.interlaced import CouplingNet, InterlacedFlow
from dqcodec.flows.model import DequantizedModel
from dqcodec.flows.networks import (
    AutoregressiveDenseNet,
    AutoregressiveNet,
    DenseNet,
    MaskedConv2d,
    ResidualBlock,
    ResidualNet,
)
from dqcodec.flows.transforms import Chain, Conv1x1
from dqcodec.frozen.flow import INPUT_BITS, LOG_SCALE_BITS, SHEAR_BITS, R

GRID_BITS = 14  # K: the density's latents lie on a grid of 2^-14
NOISE_GRID_BITS = 11  # the dequantizer's grid; a finer one only borrows more bits, unless u's is finer
MAX_FRACTION_BITS = 11  # bits of a learned u: finer cells of its sigmoid would need finer noise
WEIGHT_BITS = 10  # of the trunks; fewer bits make files larger, more do not make them smaller
OUTPUT_WEIGHT_BITS = 14  # of each net's last convolution
LEVEL = 4095  # activations take 12 bits


def has_exact_twin(model: DequantizedModel) -> bool:
    """Whether a flow consists of the parts that exact programs have, in their order.
    Subclasses may compute something else.
    """
    density, dequantizer, bits = model.density, model.dequantizer, model.bits
    if type(density) is FlowDensity:
        fits = (density.rescale.offset, density.rescale.unit) == (2.0 ** (bits - 1), 2.0 ** (bits - 2))
    else:
        fits = type(density) is InterlacedFlow and density.bits == bits
    has_dense_nets = any(isinstance(module, DenseNet | AutoregressiveDenseNet) for module in model.modules())
    return fits and not has_dense_nets and type(dequantizer.bins) is Hypercube and _kind(dequantizer) is not None


def _kind(dequantizer: Dequantizer) -> str | None:
    """The name of a dequantizer in descriptions; None if no exact program has it."""
    if type(dequantizer) is UniformDequantizer:
        return "uniform"
    if type(dequantizer) is not FlowDequantizer:
        return None
    types = [type(transform) for transform in dequantizer.transforms.transforms]
    if dequantizer.context_net is None:
        return "gaussian" if set(types) == {ConditionalAffine} else None
    if types and types == [ReverseChannels, AffineCoupling] * (len(types) // 2):
        return "bipartite"
    plain, alternate = set(types[::-1][::2]), set(types[::-1][1::2])  # counted from eps
    of_one_order = alternate <= {AffineAutoregressive} or alternate == {Reversed}
    return "ard" if plain == {AffineAutoregressive} and of_one_order else None


@torch.no_grad()
def export_bytes(model: DequantizedModel, name: str, tile: int | None, calibration: Tensor, card: dict) -> bytes:
    """The model file's bytes; see export.program."""
    density, dequantizer = model.density, model.dequantizer
    if not tile or tile % 2 ** len(density.levels):
        raise ModelError(f"the tile's side must be a multiple of {2 ** len(density.levels)}, not {tile}")
    ranges = Ranges()
    with ranges.watching(model, nn.Conv2d | ResidualBlock), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same model gives the same file
        model.bound(calibration)
    unit_bits = model.bits - 2
    fraction_bits, noise_grid_bits = GRID_BITS - unit_bits, NOISE_GRID_BITS
    if isinstance(dequantizer, FlowDequantizer):
        fraction_bits = min(fraction_bits, MAX_FRACTION_BITS)
        noise_grid_bits = max(noise_grid_bits, fraction_bits + 2)  # the sigmoid's cells are 16 units wide at least
    is_interlaced = isinstance(density, InterlacedFlow)
    of_density = _mixture_couplings(density, ranges) if is_interlaced else _affine_couplings(density, ranges)
    of_dequantizer, described = _dequantizer(dequantizer, ranges, fraction_bits, noise_grid_bits)
    description = {
        "name": name,
        "channels": density.channels,
        "bits": model.bits,
        "tile": tile,
        "grid_bits": GRID_BITS,
        "noise_grid_bits": noise_grid_bits,
        "unit_bits": unit_bits,
        "fraction_bits": fraction_bits,
        "subflows": [sum(isinstance(part, Conv1x1 | CouplingNet) for part in level) for level in _parts(density)],
        "card": card,
    }
    if is_interlaced:
        description["mixtures"] = density.levels[0][0].mixtures
    return model_file.dump("flow", description | described, tables.scales() | of_density | of_dequantizer)


def _parts(density: FlowDensity | InterlacedFlow) -> list[list[nn.Module]]:
    """The transforms, or the networks, of each level."""
    return [list(level.transforms if isinstance(level, Chain) else level) for level in density.levels]


def _affine_couplings(density: FlowDensity, ranges: Ranges) -> Tensors:
    """The tensors of a flow with affine couplings and a logistic base."""
    tensors = tables.logistic("logistic", GRID_BITS)
    for level, transforms in enumerate(_parts(density)):
        nets = 0
        for transform in transforms[1:]:
            name = f"density.{level}.{nets}"
            if isinstance(transform, Conv1x1):
                tensors |= _conv1x1(name, transform)
            else:
                grids = _location_scale_grids(transform.net, GRID_BITS)
                tensors |= _residual_net(f"{name}.net", transform.net, ranges, grids)
                nets += 1
    return tensors


def _mixture_couplings(density: InterlacedFlow, ranges: Ranges) -> Tensors:
    """The tensors of an interlaced flow."""
    tensors = tables.mixture()
    for level, nets in enumerate(_parts(density)):
        for number, net in enumerate(nets):
            tensors |= _coupling_net(f"density.{level}.{number}", net, ranges)
    return tensors


def _dequantizer(
    dequantizer: Dequantizer, ranges: Ranges, fraction_bits: int, grid_bits: int
) -> tuple[Tensors, dict[str, object]]:
    """(the tensors of a dequantizer, its part of the description)."""
    if not isinstance(dequantizer, FlowDequantizer):
        return {}, {"dequantizer": _kind(dequantizer), "dequantizer_transforms": 0, "context_channels": 0}
    tensors = tables.dequantizer(fraction_bits, grid_bits, is_logistic=dequantizer.is_logistic)
    if is_haar := isinstance(dequantizer.features, PixelFeatures):
        tensors["features.matrix"] = dequantizer.features.matrix.numpy().astype(np.int8)
        tensors["features.log2_gain"] = dequantizer.features.log2_gain.numpy().astype(np.int8)
    context_channels = 0
    if dequantizer.context_net is not None:
        context_channels = dequantizer.context_net.conv_out.out_channels
        tensors |= _residual_net("context", dequantizer.context_net, ranges, np.full(context_channels, INPUT_BITS))
    # sampling runs the chain from its end
    transforms = [t for t in reversed(dequantizer.transforms.transforms) if hasattr(t, "net")]
    for index, transform in enumerate(transforms):
        net = transform.net
        write = _autoregressive_net if isinstance(net, AutoregressiveNet) else _residual_net
        tensors |= write(f"dequantizer.{index}", net, ranges, _location_scale_grids(net, grid_bits))
    described = {
        "dequantizer": _kind(dequantizer),
        "dequantizer_transforms": len(transforms),
        "context_channels": context_channels,
    }
    if any(isinstance(transform, Reversed) for transform in transforms):  # defaults are left out
        described["alternating"] = True
    if not is_haar:
        described["features"] = "standard"
    if dequantizer.is_logistic:
        described["noise"] = "logistic"
    return tensors, described


def _location_scale_grids(net: nn.Module, grid_bits: int) -> np.ndarray:
    """The grids of the outputs of an affine layer's network, in bits: m and the raw log-scales."""
    half = net.conv_out.out_channels // 2
    return np.repeat([grid_bits, LOG_SCALE_BITS], half)


def _quantised(weight: Tensor, bias: Tensor, bits: int, grid_in: int, grid_out: np.ndarray) -> tuple[np.ndarray, ...]:
    """(weight, bias, shift) of exact.networks.Conv: per output channel the finest power-of-two grid that fits bits."""
    weight, bias = weight.double().numpy(), bias.double().numpy()
    largest = np.maximum(np.abs(weight).max((1, 2, 3)), 2.0**-20)
    grid = bits - 1 - np.ceil(np.log2(largest * (1 + 2.0**-bits))).astype(int)
    # the sum must be finer than the output, so that there is something to round
    grid = np.clip(grid, grid_out - grid_in + 1, grid_out - grid_in + 40)
    return integers(weight, bias, grid, grid_in, grid_out)


def _stored(name: str, weight: np.ndarray, bias: np.ndarray, shift: np.ndarray) -> Tensors:
    """The tensors of a layer, weights in int16 if they fit."""
    return stored(name, weight, bias, shift, np.int16 if np.abs(weight).max() < 1 << 15 else np.int32)


def _conv(name: str, conv: nn.Conv2d, bits: int, grid_in: int, grid_out: np.ndarray | int) -> Tensors:
    """The tensors of a convolution. bits: of its weights; the grids of inputs and outputs are in bits, too."""
    weight = conv.masked_weight() if isinstance(conv, MaskedConv2d) else conv.weight
    return _stored(name, *_quantised(weight, conv.bias, bits, grid_in, np.broadcast_to(grid_out, len(weight))))


def _trunk(name: str, net: ResidualNet | CouplingNet, ranges: Ranges, grid_in: int) -> tuple[Tensors, int]:
    """(the tensors of an exact.flow.networks.Trunk, the grid of its activations)."""
    trunk_grid = grid_of(LEVEL, max(ranges[layer] for layer in (net.conv_in, *net.blocks)))
    tensors = {f"{name}.level": np.array(LEVEL)} | _conv(f"{name}.in", net.conv_in, WEIGHT_BITS, grid_in, trunk_grid)
    for index, block in enumerate(net.blocks):
        grid = grid_of(LEVEL, ranges[block.conv1])
        tensors |= _conv(f"{name}.{index}.1", block.conv1, WEIGHT_BITS, trunk_grid, grid)
        tensors |= _conv(f"{name}.{index}.2", block.conv2, WEIGHT_BITS, grid, trunk_grid)
    return tensors, trunk_grid


def _residual_net(name: str, net: ResidualNet, ranges: Ranges, grid_out: np.ndarray) -> Tensors:
    """The tensors of an exact.flow.networks.ResidualNet."""
    tensors, trunk_grid = _trunk(name, net, ranges, INPUT_BITS)
    return tensors | _conv(f"{name}.out", net.conv_out, OUTPUT_WEIGHT_BITS, trunk_grid, grid_out)


def _coupling_net(name: str, net: CouplingNet, ranges: Ranges) -> Tensors:
    """The tensors of an exact.flow.mixture_coupling.CouplingNet."""
    tensors, trunk_grid = _trunk(name, net, ranges, CONTEXT_BITS)
    grid = grid_of(LEVEL, ranges[net.conv_heads] + max((ranges[conv] for conv in net.conv_known), default=0.0))
    planes, width = len(net.conv_out), net.conv_heads.in_channels
    for plane, (weight, bias) in enumerate(zip(net.conv_heads.weight.chunk(planes), net.conv_heads.bias.chunk(planes))):
        known = net.conv_known[plane - 1].weight if plane else weight[:, :0]
        # the trunk and the earlier planes add to one sum, so the weights of both are in its units
        joint = torch.cat([weight, known * 2.0 ** (trunk_grid - CONTEXT_BITS)], 1)
        weight, bias, shift = _quantised(joint, bias, OUTPUT_WEIGHT_BITS, trunk_grid, np.full(len(joint), grid))
        tensors |= _stored(f"{name}.heads.{plane}", weight[:, :width], bias, shift)
        if plane:
            tensors |= _stored(f"{name}.known.{plane}", weight[:, width:], np.zeros_like(bias), shift)
        out, out_grids = net.conv_out[plane], mixture_grids(net.mixtures)
        tensors |= _conv(f"{name}.out.{plane}", out, OUTPUT_WEIGHT_BITS, grid, out_grids)
    return tensors


def _autoregressive_net(name: str, net: AutoregressiveNet, ranges: Ranges, grid_out: np.ndarray) -> Tensors:
    """The tensors of an exact.flow.networks.AutoregressiveNet."""
    grid = grid_of(LEVEL, ranges[net.conv_in] + ranges[net.conv_context] + ranges[net.conv_mid])
    hidden = np.full(net.conv_mid.out_channels, grid)
    context = nn.functional.pad(net.conv_context.weight, (1, 1, 1, 1))
    joint = torch.cat([net.conv_in.masked_weight(), context], 1)  # both add to one sum
    weight, bias, shift = _quantised(joint, net.conv_in.bias + net.conv_context.bias, WEIGHT_BITS, INPUT_BITS, hidden)
    split = net.conv_in.in_channels
    tensors = {f"{name}.level": np.array(LEVEL)}
    tensors |= _stored(f"{name}.in", weight[:, :split], bias, shift)
    tensors |= _stored(f"{name}.context", weight[:, split:, 1:2, 1:2], np.zeros_like(bias), shift)
    tensors |= _conv(f"{name}.mid", net.conv_mid, WEIGHT_BITS, grid, grid)
    order, out = net.conv_out.order, net.conv_out
    quantised = _quantised(out.masked_weight()[order], out.bias[order], OUTPUT_WEIGHT_BITS, grid, grid_out)
    return tensors | _stored(f"{name}.out", *quantised)


def _conv1x1(name: str, conv: Conv1x1) -> Tensors:
    """The tensors of an exact.flow.transforms.Conv1x1."""
    permutation, lower, diagonal, upper = (factor.double().numpy() for factor in conv.factors())
    tensors = {
        f"{name}.permutation": permutation.astype(np.int32),
        f"{name}.lower": np.round(np.tril(lower, -1) * 2**SHEAR_BITS).astype(np.int32),
        f"{name}.upper": np.round(np.triu(upper, 1) * 2**SHEAR_BITS).astype(np.int32),
    }
    if conv.scaled:
        tensors[f"{name}.sizes"] = np.maximum(1, np.round(R / np.abs(diagonal))).astype(np.int32)
        tensors[f"{name}.negative"] = (diagonal < 0).astype(np.uint8)
    return tensors
