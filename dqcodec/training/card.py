"""A model's card: what its file tells of it."""

import torch
from torch import nn

from dqcodec.flows.model import DequantizedModel
from dqcodec.training.config import Config


def card(model: DequantizedModel, config: Config, seconds: float, steps: int, valid_vi_bpd: float | None) -> dict:
    """The facts of a card, all that is known to the trainer; data and licence are the user's to add.

    Args:
        seconds: of training. valid_vi_bpd: the vi bound on validation crops, where it is known.
    """
    facts = {
        "description": _description(config),
        "minutes_trained": round(seconds / 60, 1),
        "steps": steps,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "multiplications_per_pixel": multiplications_per_pixel(model, config),
    }
    return facts if valid_vi_bpd is None else facts | {"valid_vi_bpd": round(valid_vi_bpd, 4)}


def _description(config: Config) -> str:
    density = config.density.kind
    if density == "flow":
        density += " of " + " + ".join(str(level.subflows) for level in config.density.levels) + " subflows"
    if density == "autoregressive":
        density += f" density of width {config.density.width}"
    return f"{config.dequantizer.kind} dequantizer, {density}, {config.data.channels} x {config.data.bits} bit"


@torch.no_grad()
def multiplications_per_pixel(model: DequantizedModel, config: Config) -> int:
    """Of the networks' convolutions, per pixel of one image that is coded once; masked weights count."""
    crop = config.data.crop
    x = torch.zeros(1, config.data.channels, crop, crop, device=next(model.parameters()).device)
    total = 0

    def count(module, inputs, output):
        nonlocal total
        total += module.weight.numel() * (len(output) if output.ndim == 2 else output.shape[2] * output.shape[3])

    handles = [module.register_forward_hook(count) for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    try:
        model.bound(x)
    finally:
        for handle in handles:
            handle.remove()
    return total // crop**2
