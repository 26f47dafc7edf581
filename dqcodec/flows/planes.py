"""The planes of pixels that models code: G, R - G, B - G, or gray. The twin of dqcodec.context.planes."""

import torch
from jaxtyping import Float
from torch import Tensor

from dqcodec.flows.transforms import Images


def order(channels: int) -> list[int]:
    """The channels in the order of coding: G, R, B. The same order leads back."""
    return [1, 0, 2] if channels == 3 else [0]


def differences(x: Images) -> Images:
    """RGB -> planes G, R - G, B - G. Gray stays as it is."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    return torch.stack([green, red - green, blue - green], 1)


def coding_order(x: Images) -> Float[Tensor, "B H W C"]:
    """Channels last, in the order of coding."""
    return x.permute(0, 2, 3, 1)[..., order(x.shape[1])]


def image_order(y: Float[Tensor, "B H W C"]) -> Images:
    """The inverse of coding_order."""
    return y[..., order(y.shape[-1])].permute(0, 3, 1, 2)
