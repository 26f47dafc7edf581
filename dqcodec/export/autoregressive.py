"""Export of autoregressive models: weights on the finest grids whose sums are proven exact in float32."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dqcodec.exact import model_file
from dqcodec.exact.model_file import Tensors
from dqcodec.export import tables
from dqcodec.export.quantise import CONTEXT_BITS, Ranges, grid_of, integers, mixture_grids, paired_columns, stored
from dqcodec.flows.autoregressive_density import ContextNet, ResidualLayer
from dqcodec.flows.model import AutoregressiveModel
from dqcodec.frozen import autoregressive as frozen

_TILE = [512, 1024]  # rows, columns; small tiles cost bits, because no pixel sees another tile
_RATE_BITS = 9  # the last layers learn by steps of 2^-9, and by smaller ones for samples of fewer than 8 bits
_HEAD_RATE_BITS, _DEEPER_RATE_BITS = 4, 6  # the same of the heads and of the layers before; log2 of the width is added
_GRADIENT, _GRADIENTS_BELOW = 32, 0.95  # 95 % of a layer's gradients are rounded to integers below 32
_LEVEL = 2047  # activations have at most 11 bits
_SUM_BITS = 22.9  # sums stay below 2^23, rounded weights included, so the weights of layers that learn may double


@torch.no_grad()
def export_bytes(model: AutoregressiveModel, name: str, tile: int | None, calibration: Tensor, card: dict) -> bytes:
    """The model file's bytes.

    Args:
        tile: side of the tiles that images are cut into; None: 512 rows of 1024 pixels.
        calibration: pixels (B, C, H, W) that show the network's activation ranges.
    """
    density, net = model.density, model.density.net
    ranges = Ranges()
    with ranges.watching(model, nn.Linear | ResidualLayer, *((out, "heads") for out in net.linear_out)):
        model.bound(calibration)
    head_grid = grid_of(_LEVEL, ranges["heads"])
    layers = _layers(net, ranges, head_grid)
    description = {
        "name": name,
        "channels": density.channels,
        "bits": density.bits,
        "tile": [tile, tile] if tile else _TILE,
        "features": net.linear_features.out_features,
        "blocks": len(net.blocks),
        "mixtures": net.mixtures,
        "head_grid": head_grid,
        "rate_bits": _RATE_BITS + (8 - density.bits) // 2,
        "card": card,
        "least_squares": net.least_squares,
        "learning": _learning_rules(model, calibration, layers[::-1][: density.learning]),
    }
    return model_file.dump("autoregressive", description, _tensors(net, layers, head_grid))


class _Layer(NamedTuple):
    """A layer of the network, and the bits of its inputs and outputs."""

    name: str
    real: nn.Linear
    grid_in: int
    grid_out: int


def _layers(net: ContextNet, ranges: Ranges, head_grid: int) -> list[_Layer]:
    """The layers that can learn, from the first one on: those of the trunk, and the heads."""
    trunk_grid = grid_of(_LEVEL, max(ranges[module] for module in (net.linear_in, *net.blocks)))
    layers = [_Layer("net.in", net.linear_in, CONTEXT_BITS, trunk_grid)]
    for index, block in enumerate(net.blocks):
        grid = grid_of(_LEVEL, ranges[block.linear1])
        layers.append(_Layer(f"net.{index}.1", block.linear1, trunk_grid, grid))
        layers.append(_Layer(f"net.{index}.2", block.linear2, grid, trunk_grid))
    return [*layers, _Layer("net.heads", net.linear_heads, trunk_grid, head_grid)]


def _tensors(net: ContextNet, layers: Sequence[_Layer], head_grid: int) -> Tensors:
    """All tensors of the model file."""
    *trunk, heads = layers
    features = net.linear_features.weight, net.linear_features.bias
    tensors = {"net.level": np.array(_LEVEL)} | tables.mixture()
    tensors |= _linear("net.features", *features, CONTEXT_BITS, frozen.STANDARD_BOUND, CONTEXT_BITS)
    for layer in trunk:
        bound = frozen.STANDARD_BOUND if layer.name == "net.in" else _LEVEL / 2.0**layer.grid_in
        tensors |= _linear(layer.name, layer.real.weight, layer.real.bias, layer.grid_in, bound, layer.grid_out)
    tensors |= _heads(net, heads.grid_in, _LEVEL / 2.0**heads.grid_in, head_grid)
    grids = mixture_grids(net.mixtures)
    for plane, out in enumerate(net.linear_out):
        tensors |= _linear(f"net.out.{plane}", out.weight, out.bias, head_grid, _LEVEL / 2.0**head_grid, grids)
    return tensors


def _learning_rules(model: AutoregressiveModel, calibration: Tensor, layers: Sequence[_Layer]) -> list[list[int]]:
    """How layers learn while coding, the heads first; see exact.autoregressive.learning_net.LearningRule."""
    sizes: dict[str, float] = {}

    def see(name: str, gradients: tuple[Tensor, ...]) -> None:
        sizes[name] = np.quantile(gradients[0].abs().numpy(), _GRADIENTS_BELOW)

    handles = [
        layer.real.register_full_backward_hook(lambda _, __, gradients, name=layer.name: see(name, gradients))
        for layer in layers
    ]
    with torch.enable_grad():
        model.bound(calibration).sum().backward()
    for handle in handles:
        handle.remove()
    model.zero_grad()
    rules, width_bits = [], int(np.log2(model.density.net.linear_in.out_features))
    for index, layer in enumerate(layers):
        unit = max(sizes[layer.name] * frozen.GRADIENT_GRID * 2.0**-layer.grid_out, 2.0**-16)
        rate_bits = width_bits + (_HEAD_RATE_BITS if index == 0 else _DEEPER_RATE_BITS)
        rules.append([int(np.floor(np.log2(_GRADIENT / unit))), rate_bits - layer.grid_out, layer.grid_in])
    return rules


def _sum_grid(bound: np.ndarray, grid_out: np.ndarray | int) -> np.ndarray:
    """For each output the finest grid, in bits, on which sums up to `bound` are exact in
    float32; finer than the output's.
    """
    # an output that hardly varies, such as the logit of a lone component, must not get too fine a grid
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
    """The heads' layers that see the trunk, and those that see earlier planes. Both add to
    one sum, so they share its grid.
    """
    weight, bias = (t.double().numpy() for t in (net.linear_heads.weight, net.linear_heads.bias))
    known = [
        linear.weight.double().numpy()[:, paired_columns(plane, linear.in_features)]
        for plane, linear in enumerate(net.linear_known, 1)
    ]
    nothing = np.zeros((len(weight) // len(net.linear_out), 1))
    known_bound = np.concatenate([np.abs(part).sum(1) * frozen.STANDARD_BOUND for part in (nothing, *known)])
    sum_grid = _sum_grid(np.abs(weight).sum(1) * bound_in + known_bound + np.abs(bias), grid_out)
    tensors = stored("net.heads", *integers(weight, bias, sum_grid - grid_in, grid_in, grid_out))
    for plane, (part, grid) in enumerate(zip(known, np.split(sum_grid, len(net.linear_out))[1:]), 1):
        tensors |= stored(f"net.known.{plane}", *integers(part, None, grid - CONTEXT_BITS, CONTEXT_BITS, grid_out))
    return tensors
