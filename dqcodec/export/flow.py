"""Export of flows: integer weights and integer tables."""

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.base.errors import ModelError
from dqcodec.exact import model_file
from dqcodec.exact.model_file import Tensors
from dqcodec.export.quantise import Ranges, grid_of, integers, stored
from dqcodec.flows import couplings
from dqcodec.flows.autoregressive import AffineAutoregressive, Reversed
from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine
from dqcodec.flows.dequantizers import FlowDequantizer, UniformDequantizer
from dqcodec.flows.model import DequantizedModel
from dqcodec.flows.networks import AutoregressiveNet, MaskedConv2d, ResidualBlock, ResidualNet
from dqcodec.flows.transforms import Conv1x1
from dqcodec.frozen.flow import INPUT_BITS, LOG_SCALE_BITS, LOG_SCALE_BOUND, PRECISION, SHEAR_BITS, R

GRID_BITS = 14  # K: the density's latents lie on a grid of 2^-14
NOISE_GRID_BITS = 11  # the dequantizer's grid; a finer one only borrows more bits, unless u's is finer
MAX_FRACTION_BITS = 11  # bits of a learned u: finer cells of its sigmoid would need finer noise
WEIGHT_BITS = 8  # of the trunks
OUTPUT_WEIGHT_BITS = 14  # of each net's last convolution
MAX_LEVEL = 4095  # activations take at most 12 bits
_CELL_BITS = 4  # tables resolve a sixteenth of a unit


@torch.no_grad()
def export_bytes(model: DequantizedModel, name: str, tile: int | None, calibration: Tensor, card: dict) -> bytes:
    """The model file's bytes; see export.program."""
    if not tile or tile % 2 ** len(model.density.levels):
        raise ModelError(f"the tile's side must be a multiple of {2 ** len(model.density.levels)}, not {tile}")
    density, dequantizer = model.density, model.dequantizer
    ranges = Ranges()
    with ranges.watching(model, nn.Conv2d | ResidualBlock), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same model gives the same file
        model.bound(calibration)
    tensors = _shared_tables(unit_bits := model.bits - 2)
    fraction_bits, noise_grid_bits = GRID_BITS - unit_bits, NOISE_GRID_BITS
    if is_learned := isinstance(dequantizer, FlowDequantizer):
        fraction_bits = min(fraction_bits, MAX_FRACTION_BITS)
        noise_grid_bits = max(noise_grid_bits, fraction_bits + 2)  # the sigmoid's cells are 16 units wide at least
    for level, chain in enumerate(density.levels):
        nets = 0
        for transform in list(chain.transforms)[1:]:
            prefix = f"density.{level}.{nets}"
            if isinstance(transform, Conv1x1):
                tensors |= _conv1x1(prefix, transform)
            else:
                tensors |= _residual_net(
                    f"{prefix}.net", transform.net, ranges, _location_scale_grids(transform.net, GRID_BITS)
                )
                nets += 1
    transforms = []
    if is_learned:
        tensors |= _dequantizer_tables(fraction_bits, noise_grid_bits)
        tensors["features.matrix"] = dequantizer.features.matrix.numpy().astype(np.int8)
        tensors["features.log2_gain"] = dequantizer.features.log2_gain.numpy().astype(np.int8)
        if dequantizer.context_net is not None:
            outputs = dequantizer.context_net.conv_out.out_channels
            grids = np.full(outputs, INPUT_BITS)
            tensors |= _residual_net("context", dequantizer.context_net, ranges, grids)
        # sampling runs the chain from its end
        transforms = [t for t in reversed(dequantizer.transforms.transforms) if hasattr(t, "net")]
        for index, transform in enumerate(transforms):
            net = transform.net
            write = _autoregressive_net if isinstance(net, AutoregressiveNet) else _residual_net
            tensors |= write(f"dequantizer.{index}", net, ranges, _location_scale_grids(net, noise_grid_bits))
    description = {
        "name": name,
        "channels": density.channels,
        "bits": model.bits,
        "tile": tile,
        "grid_bits": GRID_BITS,
        "noise_grid_bits": noise_grid_bits,
        "unit_bits": unit_bits,
        "fraction_bits": fraction_bits,
        "dequantizer": _kind(dequantizer, transforms),
        "dequantizer_transforms": len(transforms),
        "context_channels": _context_channels(dequantizer),
        "subflows": [sum(isinstance(t, Conv1x1) for t in chain.transforms) for chain in density.levels],
        "card": card,
    }
    if any(isinstance(transform, Reversed) for transform in transforms):
        description["alternating"] = True
    return model_file.dump("flow", description, tensors)


def _kind(dequantizer, transforms) -> str:
    if isinstance(dequantizer, UniformDequantizer):
        return "uniform"
    kinds = {ConditionalAffine: "gaussian", AffineCoupling: "bipartite", AffineAutoregressive: "ard"}
    return kinds[type(transforms[0])]


def _context_channels(dequantizer) -> int:
    context_net = getattr(dequantizer, "context_net", None)
    return 0 if context_net is None else context_net.conv_out.out_channels


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
    return stored(name, weight, bias, shift, np.int8 if np.abs(weight).max() < 128 else np.int32)


def _residual_net(name: str, net: ResidualNet, ranges: Ranges, grid_out: np.ndarray) -> Tensors:
    convs = [conv for block in net.blocks for conv in (block.conv1, block.conv2)]
    level = _level(convs)
    h_grid = grid_of(level, max(ranges[m] for m in (net.conv_in, *net.blocks)))

    def uniform(grid, conv):
        return np.full(conv.out_channels, grid)

    tensors = {f"{name}.level": np.array(level)}
    tensors |= _store(
        f"{name}.in",
        _quantised(net.conv_in.weight, net.conv_in.bias, WEIGHT_BITS, INPUT_BITS, uniform(h_grid, net.conv_in)),
    )
    for index, block in enumerate(net.blocks):
        grid = grid_of(level, ranges[block.conv1])
        tensors |= _store(
            f"{name}.{index}.1",
            _quantised(block.conv1.weight, block.conv1.bias, WEIGHT_BITS, h_grid, uniform(grid, block.conv1)),
        )
        tensors |= _store(
            f"{name}.{index}.2",
            _quantised(block.conv2.weight, block.conv2.bias, WEIGHT_BITS, grid, uniform(h_grid, block.conv2)),
        )
    out = _quantised(net.conv_out.weight, net.conv_out.bias, OUTPUT_WEIGHT_BITS, h_grid, grid_out)
    return tensors | _store(f"{name}.out", out)


def _autoregressive_net(name: str, net: AutoregressiveNet, ranges: Ranges, grid_out: np.ndarray) -> Tensors:
    level = _level([net.conv_mid])
    largest = ranges[net.conv_in] + ranges[net.conv_context] + ranges[net.conv_mid]
    grid = grid_of(level, largest)
    hidden = np.full(net.conv_mid.out_channels, grid)
    context = torch.nn.functional.pad(net.conv_context.weight, (1, 1, 1, 1))
    joint = torch.cat([net.conv_in.masked_weight(), context], 1)
    weight, bias, shift = _quantised(joint, net.conv_in.bias + net.conv_context.bias, WEIGHT_BITS, INPUT_BITS, hidden)
    split = net.conv_in.in_channels
    tensors = {f"{name}.level": np.array(level)}
    tensors |= _store(f"{name}.in", (weight[:, :split], bias, shift))
    tensors |= _store(f"{name}.context", (weight[:, split:, 1:2, 1:2], np.zeros_like(bias), shift))
    tensors |= _store(
        f"{name}.mid", _quantised(net.conv_mid.masked_weight(), net.conv_mid.bias, WEIGHT_BITS, grid, hidden)
    )
    order = net.conv_out.order
    out = _quantised(net.conv_out.masked_weight()[order], net.conv_out.bias[order], OUTPUT_WEIGHT_BITS, grid, grid_out)
    return tensors | _store(f"{name}.out", out)


def _level(convs: list[nn.Conv2d]) -> int:
    """The largest activation for which every sum of these convolutions stays below 2^24, thus exact in float32."""
    largest_sum = 1
    for conv in convs:
        weight = conv.masked_weight() if isinstance(conv, MaskedConv2d) else conv.weight
        quantised, _, _ = _quantised(weight, torch.zeros(len(weight)), WEIGHT_BITS, 20, np.zeros(len(weight), int))
        largest_sum = max(largest_sum, int(np.abs(quantised).sum((1, 2, 3)).max()))
    # an eighth of the range is left to biases
    return min(MAX_LEVEL, (1 << 24) * 7 // 8 // largest_sum)


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


def _law(name: str, cdf, low: float, high: float, grid_bits: int) -> Tensors:
    """A table law for a distribution given by its cdf, cells of 2^-4 from low to high, tails in the end cells."""
    edges = np.arange(low, high, 2.0**-_CELL_BITS)
    bounds = np.concatenate([[0.0], cdf(edges), [1.0]])
    first = int(low * 2**_CELL_BITS) - 1
    return {
        f"{name}.frequencies": _frequencies(np.diff(bounds)),
        f"{name}.grid": np.array([first, grid_bits - _CELL_BITS], np.int32),
    }


def _shared_tables(unit_bits: int) -> Tensors:
    bound = LOG_SCALE_BOUND
    raw = np.arange(-bound, bound + 1) / 2**LOG_SCALE_BITS
    log_scale = couplings.LOG_SCALE_BOUND * np.tanh(raw / couplings.LOG_SCALE_BOUND)
    scales = np.round(R * np.exp(log_scale)).astype(np.int32)
    return {"scales": scales} | _law("logistic", lambda z: 1 / (1 + np.exp(-z)), -14.0, 14.0, GRID_BITS)


def _dequantizer_tables(fraction_bits: int, grid_bits: int) -> Tensors:
    u = np.arange(1, 2**fraction_bits) / 2**fraction_bits
    edges = np.round(np.log(u / (1 - u)) * 2**grid_bits).astype(np.int32)
    normal = _law("normal", lambda z: torch.special.ndtr(torch.from_numpy(z)).numpy(), -6.0, 6.0, grid_bits)
    # the dummy cell below zero is never used: a distance is not negative
    tail = _law("tail", lambda d: 1 - np.exp(-d), 0.0, 14.0, grid_bits)
    return {"sigmoid.edges": edges} | normal | tail
