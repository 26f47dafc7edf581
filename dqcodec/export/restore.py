"""From an exact program back to a model in real numbers, so that a program can be trained further.

A program does not say on which grids the activations of its trunk lie: any grid gives the same function. Each grid is
chosen so that the rows of the weights have norms near 1, which Muon keeps.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.functional import hardtanh

from dqcodec.exact.autoregressive.changes import without_half
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.exact.networks import Linear
from dqcodec.export.quantise import CONTEXT_BITS, mixture_grids, paired_columns
from dqcodec.flows.autoregressive_density import AutoregressiveDensity, Sizes
from dqcodec.flows.model import AutoregressiveModel


@dataclass(frozen=True)
class Twin:
    """An exact layer and its twin in real numbers.

    Attributes:
        name: of the layer's tensors. columns: the place of each of its inputs among the twin's, (I,).
        grid_in, grid_out: bits of inputs and outputs; grid_out is a number or (O,).
    """

    name: str
    exact: Linear
    real: nn.Linear
    columns: np.ndarray
    grid_in: int
    grid_out: np.ndarray | int

    @property
    def weight_grid(self) -> np.ndarray:
        """The bits of each output's weights, (O,)."""
        return self.exact.shift + self.grid_out - self.grid_in

    def weight(self, values: np.ndarray) -> np.ndarray:
        """Values (O, I) at the places of the twin's weights -> in units of the exact weights, float64."""
        return values[:, self.columns] * np.exp2(self.weight_grid)[:, None]

    def bias(self, values: np.ndarray) -> np.ndarray:
        """Values (O,) of the twin's bias -> in units of the exact bias, float64."""
        return values * np.exp2(self.weight_grid + self.grid_in)


@torch.no_grad()
def restore(program: AutoregressiveProgram) -> tuple[AutoregressiveModel, list[Twin]]:
    """The model in real numbers whose weights are those of the program, and the pairs of layers.

    Its activations are clamped to the program's bounds, so that training stays within them.
    """
    net, about = program.net, program.description
    sizes = Sizes(
        width=net.first.outputs,
        blocks=about.blocks,
        head=net.out[0].inputs,
        features=about.features,
        mixtures=about.mixtures,
    )
    density = AutoregressiveDensity(
        about.channels, about.bits, sizes, least_squares=about.least_squares, learning=len(about.learning)
    )
    twins = _twins(program, density)
    for twin in twins:
        exact, scale = twin.exact, np.exp2(-twin.weight_grid)
        weight = np.zeros((exact.outputs, exact.inputs))
        weight[:, twin.columns] = exact.weight[..., 0, 0] * scale[:, None]
        twin.real.weight.copy_(torch.from_numpy(weight))
        if twin.real.bias is not None:
            twin.real.bias.copy_(torch.from_numpy(without_half(exact) * np.exp2(-twin.grid_in) * scale))
    _bound(density, {twin.name: program.net.level * 2.0**-twin.grid_out for twin in twins if ".out." not in twin.name})
    return AutoregressiveModel(density), twins


def _bound(density: AutoregressiveDensity, bounds: Mapping[str, float]) -> None:
    """Clamp activations, by hardtanh, whose gradient is the fastest. bounds: the largest
    output of each layer, by its name.
    """
    net = density.net

    def clamp(module: nn.Module, bound: float) -> None:
        module.register_forward_hook(lambda _, __, output: hardtanh(output, -bound, bound))

    clamp(net.linear_in, bounds["net.in"])
    for index, block in enumerate(net.blocks):
        clamp(block, bounds["net.in"])
        clamp(block.linear1, bounds[f"net.{index}.1"])
        clamp(block.linear2, bounds[f"net.{index}.2"])
    for linear in net.linear_out:
        linear.register_forward_pre_hook(
            lambda _, inputs: hardtanh(inputs[0], -bounds["net.heads"], bounds["net.heads"])
        )


def _twins(program: AutoregressiveProgram, density: AutoregressiveDensity) -> list[Twin]:
    layers, real, head_grid = program.net.layers, density.net, program.description.head_grid
    trunk_grid = _grid_out(layers["net.in"], CONTEXT_BITS)
    places = {
        "net.features": (real.linear_features, CONTEXT_BITS, CONTEXT_BITS),
        "net.in": (real.linear_in, CONTEXT_BITS, trunk_grid),
        "net.heads": (real.linear_heads, trunk_grid, head_grid),
    }
    for index, block in enumerate(real.blocks):
        grid = _grid_out(layers[f"net.{index}.1"], trunk_grid)
        places[f"net.{index}.1"] = block.linear1, trunk_grid, grid
        places[f"net.{index}.2"] = block.linear2, grid, trunk_grid
    for plane, linear in enumerate(real.linear_known, 1):
        places[f"net.known.{plane}"] = linear, CONTEXT_BITS, head_grid
    for plane, linear in enumerate(real.linear_out):
        places[f"net.out.{plane}"] = linear, head_grid, mixture_grids(program.description.mixtures)
    planes = {f"net.known.{plane}": plane for plane in range(1, program.channels)}
    return [
        Twin(name, layer, places[name][0], paired_columns(planes.get(name, 0), layer.inputs), *places[name][1:])
        for name, layer in layers.items()
    ]


def _grid_out(layer: Linear, grid_in: int) -> int:
    """The bits of a layer's outputs that bring the norms of its rows nearest to 1."""
    norms = np.sqrt((layer.weight.astype(np.float64) ** 2).sum((1, 2, 3))) * np.exp2(grid_in - layer.shift)
    return round(np.log2(max(np.sqrt((norms**2).mean()), 2.0**-30)))
