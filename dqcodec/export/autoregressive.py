"""Export of autoregressive models: weights on the finest grids whose sums are proven exact in float32."""

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.exact import model_file
from dqcodec.exact.autoregressive import mixture
from dqcodec.exact.autoregressive.context import GRID
from dqcodec.exact.autoregressive.context import STANDARD_BOUND as BOUND
from dqcodec.flows.autoregressive_density import ContextNet, ResidualLayer
from dqcodec.flows.model import AutoregressiveModel

_TILE = [128, 1024]  # more rows would gain a few thousandths of a rate, and make shorter vectors
_RATE_BITS = 9  # of the last layers' steps while coding; of few bits samples teach less, and steps are smaller
_LEVEL = 2047  # activations take at most 11 bits
_HEADROOM = 1.5  # activations may grow by this over the calibration batch before they are clamped
_SUM_BITS = 23.9  # sums stay below 2^24 with what rounding of weights adds
_INPUT_BITS = int(np.log2(GRID))

Tensors = dict[str, np.ndarray]


@torch.no_grad()
def export_bytes(model: AutoregressiveModel, name: str, tile: int | None, calibration: Tensor, card: dict) -> bytes:
    """The model file's bytes.

    Args:
        tile: side of the tiles that images are cut into; None: 128 rows of 1024.
        calibration: pixels (B, C, H, W) that show the network's activation ranges.
    """
    density, net = model.density, model.density.net
    ranges = _activation_ranges(model, calibration)
    planes = density.channels
    tensors = {"net.level": np.array(_LEVEL)} | _mixture_tables()
    trunk_grid = _grid(max(ranges[module] for module in (net.linear_in, *net.blocks)))
    told = net.linear_features
    tensors |= _linear("net.features", told.weight, told.bias, _INPUT_BITS, BOUND, _INPUT_BITS)
    tensors |= _linear("net.in", net.linear_in.weight, net.linear_in.bias, _INPUT_BITS, BOUND, trunk_grid)
    trunk_bound = _LEVEL / 2.0**trunk_grid
    for index, block in enumerate(net.blocks):
        grid = _grid(ranges[block.linear1])
        tensors |= _linear(f"net.{index}.1", block.linear1.weight, block.linear1.bias, trunk_grid, trunk_bound, grid)
        tensors |= _linear(f"net.{index}.2", block.linear2.weight, block.linear2.bias, grid, _LEVEL / 2.0**grid, trunk_grid)
    head_grid = _grid(ranges["heads"])
    tensors |= _heads(net, trunk_grid, trunk_bound, head_grid)
    grids = np.log2([mixture.LOGIT_GRID, mixture.MEAN_GRID, mixture.LOG2_SCALE_GRID]).astype(int).repeat(net.mixtures)
    for plane, out in enumerate(net.linear_out):
        tensors |= _linear(f"net.out.{plane}", out.weight, out.bias, head_grid, _LEVEL / 2.0**head_grid, grids)
    description = {
        "name": name, "channels": planes, "bits": density.bits, "tile": [tile, tile] if tile else _TILE,
        "features": told.out_features, "blocks": len(net.blocks), "mixtures": net.mixtures,
        "head_grid": head_grid, "rate_bits": _RATE_BITS + (8 - density.bits) // 2, "card": card,
    }
    return model_file.dump("autoregressive", description, tensors)


def _interleaved(weight: Tensor) -> Tensor:
    """The columns of planes as they are, and of the same within one spread, in pairs."""
    return weight.unflatten(1, (2, -1)).transpose(1, 2).flatten(1)


def _activation_ranges(model: AutoregressiveModel, calibration: Tensor) -> dict:
    """The largest |output| of every layer, and of all heads together ("heads")."""
    ranges, handles = {}, []

    def record(key, values):
        ranges[key] = max(ranges.get(key, 0.0), float(values.abs().max()))

    for module in model.modules():
        if isinstance(module, nn.Linear | ResidualLayer):
            handles.append(module.register_forward_hook(lambda m, i, o: record(m, o)))
    for out in model.density.net.linear_out:
        handles.append(out.register_forward_hook(lambda m, i, o: record("heads", i[0])))
    try:
        model.bound(calibration)
    finally:
        for handle in handles:
            handle.remove()
    return ranges


def _grid(largest: float) -> int:
    """The finest grid, in bits, on which a value of that size, with headroom, is an integer up to _LEVEL."""
    return int(np.floor(np.log2(_LEVEL / max(largest * _HEADROOM, 2.0**-8))))


def _sum_grid(bound: np.ndarray, grid_out: np.ndarray | int) -> np.ndarray:
    """Per output the finest grid, in bits, on which sums up to `bound` are exact in float32, and finer than the output."""
    # an output that hardly varies, as the one logit of one component, is no reason for a grid on which its rounding is large
    largest = np.maximum(bound, np.maximum(2.0**-8, np.exp2(np.negative(np.float64(grid_out)))))
    return np.maximum(np.floor(_SUM_BITS - np.log2(largest)).astype(int), np.add(grid_out, 1))


def _linear(name: str, weight: Tensor, bias: Tensor, grid_in: int, bound_in: float, grid_out: np.ndarray | int) -> Tensors:
    """The tensors of an exact.networks.Linear. grid_in, grid_out: bits; bound_in: of |input|."""
    weight, bias = weight.double().numpy(), bias.double().numpy()
    sum_grid = _sum_grid(np.abs(weight).sum(1) * bound_in + np.abs(bias), grid_out)
    return _stored(name, weight, bias, sum_grid - grid_in, sum_grid, sum_grid - grid_out)


def _heads(net: ContextNet, grid_in: int, bound_in: float, grid_out: int) -> Tensors:
    """The heads' part of the trunk, and what they see of the planes before: each pair enters one sum."""
    weight, bias = (t.double().numpy() for t in (net.linear_heads.weight, net.linear_heads.bias))
    known = [_interleaved(linear.weight).double().numpy() for linear in net.linear_known]
    nothing = np.zeros((len(weight) // len(net.linear_out), 1))
    known_bound = np.concatenate([np.abs(part).sum(1) * BOUND for part in (nothing, *known)])
    sum_grid = _sum_grid(np.abs(weight).sum(1) * bound_in + known_bound + np.abs(bias), grid_out)
    tensors = _stored("net.heads", weight, bias, sum_grid - grid_in, sum_grid, sum_grid - grid_out)
    for plane, (part, grid) in enumerate(zip(known, np.split(sum_grid, len(net.linear_out))[1:]), 1):
        tensors |= _stored(f"net.known.{plane}", part, None, grid - _INPUT_BITS, grid, grid - grid_out)
    return tensors


def _stored(name, weight, bias, weight_grid, sum_grid, shift) -> Tensors:
    integers = np.round(weight * np.exp2(weight_grid)[:, None]).astype(np.int32)
    biases = np.zeros(len(weight), np.int64)
    if bias is not None:
        biases = np.round(bias * np.exp2(sum_grid)).astype(np.int64) + (np.int64(1) << (shift - 1))
    return {f"{name}.weight": integers, f"{name}.bias": biases, f"{name}.shift": shift.astype(np.int8)}


def _mixture_tables() -> Tensors:
    cells = (np.arange(mixture.SIGMOID_CELLS) + 0.5 - mixture.SIGMOID_CELLS // 2) / mixture.SIGMOID_GRID
    logits = np.arange(mixture.LOGIT_RANGE + 1) / mixture.LOGIT_GRID
    scales = np.arange(mixture.LOG2_SCALE_LOW, mixture.LOG2_SCALE_HIGH + 1) / mixture.LOG2_SCALE_GRID
    tables = {
        "sigmoid": 2**16 / (1 + np.exp(-cells)), "weight": 2**16 * np.exp(-logits),
        "inverse_scale": 2**mixture.INVERSE_SCALE_BITS * np.exp2(-scales),
    }
    return {f"mixture.{name}": np.round(table).astype(np.int32) for name, table in tables.items()}
