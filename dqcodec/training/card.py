"""A model's card: the facts about a model that its file holds."""

import torch
from torch import nn

from dqcodec.flows.model import DequantizedModel
from dqcodec.training.config import Config


def card(model: DequantizedModel, config: Config, minutes: float, steps: int, valid_vi_bpd: float | None) -> dict:
    """The facts that the trainer knows. The user adds data and licence.

    Args:
        minutes: of training. valid_vi_bpd: the vi bound on validation crops, bits per dimension, if it is known.
    """
    facts = {
        "description": _description(config),
        "minutes_trained": round(minutes, 1),
        "steps": steps,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "multiplications_per_pixel": multiplications_per_pixel(model, config),
    }
    return facts if valid_vi_bpd is None else facts | {"valid_vi_bpd": round(valid_vi_bpd, 4)}


def _description(config: Config) -> str:
    density = config.density.kind
    if density == "flow":
        density += " of " + " + ".join(str(level.subflows) for level in config.density.levels) + " subflows"
    if density == "interlaced":
        density += f" flow of {len(config.density.levels)} levels"
    if density == "autoregressive":
        density += f" density of width {config.density.width}"
    return f"{config.dequantizer.kind} dequantizer, {density}, {config.data.channels} x {config.data.bits} bit"


@torch.no_grad()
def multiplications_per_pixel(model: DequantizedModel, config: Config) -> int:
    """Multiplications of the networks' layers per pixel, to code one image once. Masked weights count, too."""
    crop = config.data.crop
    x = torch.zeros(1, config.data.channels, crop, crop, device=next(model.parameters()).device)
    total = 0

    def count(module, inputs, output):
        nonlocal total
        total += module.weight.numel() * (len(output) if output.ndim == 2 else output.shape[2] * output.shape[3])

    layers = [module for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    handles = [layer.register_forward_hook(count) for layer in layers]
    try:
        model.bound(x)
    finally:
        for handle in handles:
            handle.remove()
    return total // crop**2
