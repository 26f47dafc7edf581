"""Export of flows: integer weights and integer tables."""

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.base.errors import ModelError
from dqcodec.exact import model_file
from dqcodec.exact.model_file import Tensors
from dqcodec.export.autoregressive import mixture_tables
from dqcodec.export.quantise import Ranges, grid_of, integers, stored
from dqcodec.flows import couplings
from dqcodec.flows.autoregressive import AffineAutoregressive, Reversed
from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine
from dqcodec.flows.densities import FlowDensity
from dqcodec.flows.dequantizers import Dequantizer, FlowDequantizer
from dqcodec.flows.features import PixelFeatures
from dqcodec.flows.interlaced import CouplingNet, InterlacedFlow
from dqcodec.flows.model import DequantizedModel
from dqcodec.flows.networks import AutoregressiveNet, ResidualBlock, ResidualNet
from dqcodec.flows.transforms import Chain, Conv1x1
from dqcodec.frozen import autoregressive as frozen
from dqcodec.frozen.flow import INPUT_BITS, LOG_SCALE_BITS, LOG_SCALE_BOUND, PRECISION, SHEAR_BITS, R

GRID_BITS = 14  # K: the density's latents lie on a grid of 2^-14
NOISE_GRID_BITS = 11  # the dequantizer's grid; a finer one only borrows more bits, unless u's is finer
MAX_FRACTION_BITS = 11  # bits of a learned u: finer cells of its sigmoid would need finer noise
WEIGHT_BITS = 10  # of the trunks; fewer bits make files larger, more do not make them smaller
OUTPUT_WEIGHT_BITS = 14  # of each net's last convolution
LEVEL = 4095  # activations take 12 bits


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
    of_dequantizer, how = _dequantizer(dequantizer, ranges, fraction_bits, noise_grid_bits)
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
    return model_file.dump("flow", description | how, _scales() | of_density | of_dequantizer)


def _parts(density: FlowDensity | InterlacedFlow) -> list[list[nn.Module]]:
    """The transforms, or the networks, of each level."""
    return [list(level.transforms if isinstance(level, Chain) else level) for level in density.levels]


def _affine_couplings(density: FlowDensity, ranges: Ranges) -> Tensors:
    """The tensors of a flow with affine couplings and a logistic base."""
    tensors = _law("logistic", _logistic, -12.0, 12.0, 5, GRID_BITS)
    for level, transforms in enumerate(_parts(density)):
        nets = 0
        for transform in transforms[1:]:
            prefix = f"density.{level}.{nets}"
            if isinstance(transform, Conv1x1):
                tensors |= _conv1x1(prefix, transform)
            else:
                tensors |= _residual_net(
                    f"{prefix}.net", transform.net, ranges, _location_scale_grids(transform.net, GRID_BITS)
                )
                nets += 1
    return tensors


def _mixture_couplings(density: InterlacedFlow, ranges: Ranges) -> Tensors:
    """The tensors of an interlaced flow."""
    tensors = mixture_tables()
    for level, nets in enumerate(_parts(density)):
        for number, net in enumerate(nets):
            tensors |= _coupling_net(f"density.{level}.{number}", net, ranges)
    return tensors


def _dequantizer(
    dequantizer: Dequantizer, ranges: Ranges, fraction_bits: int, grid_bits: int
) -> tuple[Tensors, dict[str, object]]:
    """(the tensors of a dequantizer, what the description says of it)."""
    if not isinstance(dequantizer, FlowDequantizer):
        return {}, {"dequantizer": "uniform", "dequantizer_transforms": 0, "context_channels": 0}
    tensors = _dequantizer_tables(fraction_bits, grid_bits, dequantizer.is_logistic)
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
    kinds = {ConditionalAffine: "gaussian", AffineCoupling: "bipartite", AffineAutoregressive: "ard"}
    how = {
        "dequantizer": kinds[type(transforms[0])],
        "dequantizer_transforms": len(transforms),
        "context_channels": context_channels,
    }
    if any(isinstance(transform, Reversed) for transform in transforms):  # what is usual is left out
        how["alternating"] = True
    if not is_haar:
        how["features"] = "standard"
    if dequantizer.is_logistic:
        how["noise"] = "logistic"
    return tensors, how


def _location_scale_grids(net: nn.Module, grid_bits: int) -> np.ndarray:
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


def _store(name: str, quantised: tuple[np.ndarray, ...]) -> Tensors:
    weight, bias, shift = quantised
    return stored(name, weight, bias, shift, np.int16 if np.abs(weight).max() < 1 << 15 else np.int32)


def _trunk(name: str, net: ResidualNet | CouplingNet, ranges: Ranges, grid_in: int) -> tuple[Tensors, int]:
    """(the tensors of an exact.networks.Trunk, the grid of its activations)."""
    h_grid = grid_of(LEVEL, max(ranges[m] for m in (net.conv_in, *net.blocks)))

    def uniform(grid, conv):
        return np.full(conv.out_channels, grid)

    tensors = {f"{name}.level": np.array(LEVEL)}
    tensors |= _store(
        f"{name}.in",
        _quantised(net.conv_in.weight, net.conv_in.bias, WEIGHT_BITS, grid_in, uniform(h_grid, net.conv_in)),
    )
    for index, block in enumerate(net.blocks):
        grid = grid_of(LEVEL, ranges[block.conv1])
        tensors |= _store(
            f"{name}.{index}.1",
            _quantised(block.conv1.weight, block.conv1.bias, WEIGHT_BITS, h_grid, uniform(grid, block.conv1)),
        )
        tensors |= _store(
            f"{name}.{index}.2",
            _quantised(block.conv2.weight, block.conv2.bias, WEIGHT_BITS, grid, uniform(h_grid, block.conv2)),
        )
    return tensors, h_grid


def _residual_net(name: str, net: ResidualNet, ranges: Ranges, grid_out: np.ndarray) -> Tensors:
    tensors, h_grid = _trunk(name, net, ranges, INPUT_BITS)
    out = _quantised(net.conv_out.weight, net.conv_out.bias, OUTPUT_WEIGHT_BITS, h_grid, grid_out)
    return tensors | _store(f"{name}.out", out)


def _coupling_net(name: str, net: CouplingNet, ranges: Ranges) -> Tensors:
    input_bits = int(np.log2(frozen.GRID))
    tensors, h_grid = _trunk(name, net, ranges, input_bits)
    grid = grid_of(LEVEL, ranges[net.conv_heads] + max((ranges[conv] for conv in net.conv_known), default=0.0))
    planes, width = len(net.conv_out), net.conv_heads.in_channels
    grids = np.log2([frozen.LOGIT_GRID, frozen.MEAN_GRID, frozen.LOG2_SCALE_GRID]).astype(int).repeat(net.mixtures)
    for plane, (weight, bias) in enumerate(zip(net.conv_heads.weight.chunk(planes), net.conv_heads.bias.chunk(planes))):
        known = net.conv_known[plane - 1].weight if plane else weight[:, :0]
        # the trunk and the earlier planes enter one sum, so their weights are in units of it
        joint = torch.cat([weight, known * 2.0 ** (h_grid - input_bits)], 1)
        weight, bias, shift = _quantised(joint, bias, OUTPUT_WEIGHT_BITS, h_grid, np.full(len(joint), grid))
        tensors |= _store(f"{name}.heads.{plane}", (weight[:, :width], bias, shift))
        if plane:
            tensors |= _store(f"{name}.known.{plane}", (weight[:, width:], np.zeros_like(bias), shift))
        out = net.conv_out[plane]
        tensors |= _store(f"{name}.out.{plane}", _quantised(out.weight, out.bias, OUTPUT_WEIGHT_BITS, grid, grids))
    return tensors


def _autoregressive_net(name: str, net: AutoregressiveNet, ranges: Ranges, grid_out: np.ndarray) -> Tensors:
    largest = ranges[net.conv_in] + ranges[net.conv_context] + ranges[net.conv_mid]
    grid = grid_of(LEVEL, largest)
    hidden = np.full(net.conv_mid.out_channels, grid)
    context = torch.nn.functional.pad(net.conv_context.weight, (1, 1, 1, 1))
    joint = torch.cat([net.conv_in.masked_weight(), context], 1)
    weight, bias, shift = _quantised(joint, net.conv_in.bias + net.conv_context.bias, WEIGHT_BITS, INPUT_BITS, hidden)
    split = net.conv_in.in_channels
    tensors = {f"{name}.level": np.array(LEVEL)}
    tensors |= _store(f"{name}.in", (weight[:, :split], bias, shift))
    tensors |= _store(f"{name}.context", (weight[:, split:, 1:2, 1:2], np.zeros_like(bias), shift))
    tensors |= _store(
        f"{name}.mid", _quantised(net.conv_mid.masked_weight(), net.conv_mid.bias, WEIGHT_BITS, grid, hidden)
    )
    order = net.conv_out.order
    out = _quantised(net.conv_out.masked_weight()[order], net.conv_out.bias[order], OUTPUT_WEIGHT_BITS, grid, grid_out)
    return tensors | _store(f"{name}.out", out)


def _conv1x1(name: str, conv: Conv1x1) -> Tensors:
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


def _frequencies(mass: np.ndarray) -> np.ndarray:
    """Positive integers that sum to 2^P, near the given masses."""
    total = 1 << PRECISION
    f = np.maximum(1, np.round(mass / mass.sum() * total)).astype(np.int64)
    f[f.argmax()] += total - f.sum()
    return f.astype(np.int32)


def _law(name: str, cdf, low: float, high: float, cell_bits: int, grid_bits: int) -> Tensors:
    """A table law for a distribution given by its cdf, cells of 2^-cell_bits from low to high, tails in the end cells."""
    edges = np.arange(low, high, 2.0**-cell_bits)
    bounds = np.concatenate([[0.0], cdf(edges), [1.0]])
    first = int(low * 2**cell_bits) - 1
    return {
        f"{name}.frequencies": _frequencies(np.diff(bounds)),
        f"{name}.grid": np.array([first, grid_bits - cell_bits], np.int32),
    }


def _logistic(z: np.ndarray) -> np.ndarray:
    """The distribution function of the standard logistic."""
    return 1 / (1 + np.exp(-z))


def _scales() -> Tensors:
    bound = LOG_SCALE_BOUND
    raw = np.arange(-bound, bound + 1) / 2**LOG_SCALE_BITS
    log_scale = couplings.LOG_SCALE_BOUND * np.tanh(raw / couplings.LOG_SCALE_BOUND)
    return {"scales": np.round(R * np.exp(log_scale)).astype(np.int32)}


def _dequantizer_tables(fraction_bits: int, grid_bits: int, is_logistic: bool) -> Tensors:
    u = np.arange(1, 2**fraction_bits) / 2**fraction_bits
    edges = np.round(np.log(u / (1 - u)) * 2**grid_bits).astype(np.int32)
    if is_logistic:
        noise = _law("logistic_noise", _logistic, -12.0, 12.0, 5, grid_bits)
    else:
        noise = _law("normal", lambda z: torch.special.ndtr(torch.from_numpy(z)).numpy(), -5.0, 5.0, 6, grid_bits)
    # the dummy cell below zero is never used: a distance is not negative
    tail = _law("tail", lambda d: 1 - np.exp(-d), 0.0, 14.0, 4, grid_bits)
    return {"sigmoid.edges": edges} | noise | tail
