"""The optimisers of a model's parameters, and the average of its weights."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from dqcodec.flows.networks import Network
from dqcodec.training.config import Training
from dqcodec.training.muon import Muon

_LEAST_INPUTS = 8  # of a layer, for Muon


def optimisers(model: nn.Module, settings: Training) -> list[torch.optim.Optimizer]:
    """Adam for all parameters, or Muon for the weights of most layers and Adam for the rest.

    Muon skips the last layer of each network, because its noise would reach the latents, and layers with few inputs.
    The full learning rate of each parameter group is its `base_lr`.
    """
    last = {layer for net in model.modules() if isinstance(net, Network) for layer in net.last_layers()}
    matrices = [
        module.weight
        for module in model.modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
        and settings.optimiser == "muon"
        and module not in last
        and module.weight[0].numel() >= _LEAST_INPUTS
    ]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    result = [torch.optim.Adam(others, settings.learning_rate, betas=(0.9, settings.adam_beta2))]
    if matrices:
        result.append(Muon(matrices, settings.muon_learning_rate, settings.muon_weight_decay))
    for optimiser in result:
        for group in optimiser.param_groups:
            group["base_lr"] = group["lr"]
    return result


def update(optimisers: Iterable[torch.optim.Optimizer], rate: float) -> None:
    """Take a step of each optimiser. rate: the part of the full learning rates."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["base_lr"] * rate
        optimiser.step()


def averaging(decay: float) -> Callable:
    """The update rule of an exponential moving average, for torch's AveragedModel.

    The decay starts small and grows to `decay`, so that early averages are not dominated by the initial weights.
    """

    def average_of(averages, currents, count):
        weight = 1 - min(decay, (1 + int(count)) / (10 + int(count)))
        for average, current in zip(averages, currents):
            if average.is_floating_point():
                average.lerp_(current, weight)
            else:
                average.copy_(current)

    return average_of
