"""Export of autoregressive models: weights on the finest grids whose sums are proven exact in float32."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.exact import model_file
from dqcodec.exact.model_file import Tensors
from dqcodec.export.quantise import Ranges, grid_of, integers, stored
from dqcodec.flows.autoregressive_density import ContextNet, ResidualLayer
from dqcodec.flows.model import AutoregressiveModel
from dqcodec.frozen import autoregressive as frozen

_TILE = [128, 1024]  # more rows would gain a few thousandths of a rate, and make shorter vectors ...
_TALL_TILE = [512, 1024]  # ... which matter less the larger a network is
_LARGE = 1 << 15  # weights
_RATE_BITS = 9  # of the last layers' steps while coding; samples of few bits teach less, so steps are smaller
_NET_RATE_BITS = 11  # the same of the layers before them
_GRADIENT, _GRADIENTS_BELOW = 32, 0.95  # this part of a layer's gradients is smaller
_LEVEL = 2047  # activations have at most 11 bits
_SUM_BITS = (
    23.9  # sums stay below 2^24 with what rounding of weights adds; sums of layers that learn have room to double
)
_INPUT_BITS = int(np.log2(frozen.GRID))


@torch.no_grad()
def export_bytes(model: AutoregressiveModel, name: str, tile: int | None, calibration: Tensor, card: dict) -> bytes:
    """The model file's bytes.

    Args:
        tile: side of the tiles that images are cut into; None: rows of 1024 pixels, 128 or, for large networks, 512.
        calibration: pixels (B, C, H, W) that show the network's activation ranges.
    """
    density, net = model.density, model.density.net
    ranges = Ranges()
    with ranges.watching(model, nn.Linear | ResidualLayer, *((out, "heads") for out in net.linear_out)):
        model.bound(calibration)
    planes = density.channels
    tensors = {"net.level": np.array(_LEVEL)} | _mixture_tables()
    trunk_grid = grid_of(_LEVEL, max(ranges[module] for module in (net.linear_in, *net.blocks)))
    told = net.linear_features
    tensors |= _linear("net.features", told.weight, told.bias, _INPUT_BITS, frozen.STANDARD_BOUND, _INPUT_BITS)
    tensors |= _linear(
        "net.in", net.linear_in.weight, net.linear_in.bias, _INPUT_BITS, frozen.STANDARD_BOUND, trunk_grid
    )
    trunk_bound = _LEVEL / 2.0**trunk_grid
    for index, block in enumerate(net.blocks):
        grid = grid_of(_LEVEL, ranges[block.linear1])
        tensors |= _linear(f"net.{index}.1", block.linear1.weight, block.linear1.bias, trunk_grid, trunk_bound, grid)
        tensors |= _linear(
            f"net.{index}.2", block.linear2.weight, block.linear2.bias, grid, _LEVEL / 2.0**grid, trunk_grid
        )
    head_grid = grid_of(_LEVEL, ranges["heads"])
    tensors |= _heads(net, trunk_grid, trunk_bound, head_grid)
    layers = [(net.linear_heads, trunk_grid, head_grid)]
    for block in reversed(net.blocks):
        grid = grid_of(_LEVEL, ranges[block.linear1])
        layers += [(block.linear2, grid, trunk_grid), (block.linear1, trunk_grid, grid)]
    layers.append((net.linear_in, _INPUT_BITS, trunk_grid))
    grids = np.log2([frozen.LOGIT_GRID, frozen.MEAN_GRID, frozen.LOG2_SCALE_GRID]).astype(int).repeat(net.mixtures)
    for plane, out in enumerate(net.linear_out):
        tensors |= _linear(f"net.out.{plane}", out.weight, out.bias, head_grid, _LEVEL / 2.0**head_grid, grids)
    description = {
        "name": name,
        "channels": planes,
        "bits": density.bits,
        "tile": [tile, tile] if tile else _tile(net),
        "features": told.out_features,
        "blocks": len(net.blocks),
        "mixtures": net.mixtures,
        "head_grid": head_grid,
        "rate_bits": _RATE_BITS + (8 - density.bits) // 2,
        "card": card,
        "least_squares": net.least_squares,
        "learning": _lessons(model, calibration, layers[: density.learning]),
    }
    return model_file.dump("autoregressive", description, tensors)


def _lessons(
    model: AutoregressiveModel, calibration: Tensor, layers: Sequence[tuple[nn.Linear, int, int]]
) -> list[list[int]]:
    """How layers learn while coding, see exact.autoregressive.learning_net.Lesson. layers: with bits of inputs and outputs."""
    lessons, sizes = [], {}

    def see(layer: nn.Linear, _: object, gradients: tuple[Tensor, ...]) -> None:
        sizes[layer] = np.quantile(gradients[0].abs().numpy(), _GRADIENTS_BELOW)

    handles = [layer.register_full_backward_hook(see) for layer, _, _ in layers]
    with torch.enable_grad():
        model.bound(calibration).sum().backward()
    for handle in handles:
        handle.remove()
    model.zero_grad()
    for layer, grid_in, grid_out in layers:
        unit = sizes[layer] * frozen.GRADIENT_GRID * 2.0**-grid_out
        lessons.append([int(np.floor(np.log2(_GRADIENT / unit))), _NET_RATE_BITS - grid_out, grid_in])
    return lessons


def _tile(net: ContextNet) -> list[int]:
    return _TALL_TILE if sum(weight.numel() for weight in net.parameters()) > _LARGE else _TILE


def _interleaved(weight: Tensor, plane: int) -> Tensor:
    """The columns of earlier planes as they are, and of the same within one spread, in pairs; then those of the prediction."""
    known, predicted = weight.split([2 * plane, weight.shape[1] - 2 * plane], 1)
    return torch.cat([known.unflatten(1, (2, -1)).transpose(1, 2).flatten(1), predicted], 1)


def _sum_grid(bound: np.ndarray, grid_out: np.ndarray | int) -> np.ndarray:
    """Per output the finest grid, in bits, on which sums up to `bound` are exact in float32, and finer than the output."""
    # an output that hardly varies, such as the only logit of one component, must not make the grid coarse
    largest = np.maximum(bound, np.maximum(2.0**-8, np.exp2(np.negative(np.float64(grid_out)))))
    return np.maximum(np.floor(_SUM_BITS - np.log2(largest)).astype(int), np.add(grid_out, 1))


def _linear(
    name: str, weight: Tensor, bias: Tensor, grid_in: int, bound_in: float, grid_out: np.ndarray | int
) -> Tensors:
    """The tensors of an exact.networks.Linear. grid_in, grid_out: bits; bound_in: of |input|."""
    weight, bias = weight.double().numpy(), bias.double().numpy()
    sum_grid = _sum_grid(np.abs(weight).sum(1) * bound_in + np.abs(bias), grid_out)
    return stored(name, *integers(weight, bias, sum_grid - grid_in, grid_in, grid_out))


def _heads(net: ContextNet, grid_in: int, bound_in: float, grid_out: int) -> Tensors:
    """The heads' part of the trunk, and what they see of the planes before: each pair enters one sum."""
    weight, bias = (t.double().numpy() for t in (net.linear_heads.weight, net.linear_heads.bias))
    known = [_interleaved(linear.weight, plane).double().numpy() for plane, linear in enumerate(net.linear_known, 1)]
    nothing = np.zeros((len(weight) // len(net.linear_out), 1))
    known_bound = np.concatenate([np.abs(part).sum(1) * frozen.STANDARD_BOUND for part in (nothing, *known)])
    sum_grid = _sum_grid(np.abs(weight).sum(1) * bound_in + known_bound + np.abs(bias), grid_out)
    tensors = stored("net.heads", *integers(weight, bias, sum_grid - grid_in, grid_in, grid_out))
    for plane, (part, grid) in enumerate(zip(known, np.split(sum_grid, len(net.linear_out))[1:]), 1):
        tensors |= stored(f"net.known.{plane}", *integers(part, None, grid - _INPUT_BITS, _INPUT_BITS, grid_out))
    return tensors


def _mixture_tables() -> Tensors:
    cells = (np.arange(frozen.SIGMOID_CELLS) + 0.5 - frozen.SIGMOID_CELLS // 2) / frozen.SIGMOID_GRID
    logits = np.arange(frozen.LOGIT_RANGE + 1) / frozen.LOGIT_GRID
    scales = np.arange(frozen.LOG2_SCALE_LOW, frozen.LOG2_SCALE_HIGH + 1) / frozen.LOG2_SCALE_GRID
    tables = {
        "sigmoid": 2**16 / (1 + np.exp(-cells)),
        "weight": 2**16 * np.exp(-logits),
        "inverse_scale": 2**frozen.INVERSE_SCALE_BITS * np.exp2(-scales),
    }
    return {f"mixture.{name}": np.round(table).astype(np.int32) for name, table in tables.items()}
