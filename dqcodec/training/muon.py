"""Muon (Jordan et al. 2024): momentum whose matrices are orthogonalised, for convolution weights."""

import torch
from torch import Tensor
from torch.optim import Optimizer

_QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrix: Tensor, steps: int = 5) -> Tensor:
    """The nearest semi-orthogonal matrix, roughly: singular values go to about 1 by Newton-Schulz steps."""
    a, b, c = _QUINTIC
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Muon(Optimizer):
    """Nesterov momentum, orthogonalised per weight taken as (out, in * k * k).

    Every update has the same norm, however weak the gradient: without weight decay, what hardly matters grows for ever.
    With it, singular values stay below 1 / weight_decay, which also keeps activations in a range that quantises well.
    """

    def __init__(self, params, lr: float, weight_decay: float, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                direction = p.grad.lerp(state["momentum"], group["momentum"]).flatten(1)
                rows, columns = direction.shape
                update = orthogonalise(direction) * max(1, rows / columns) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.view_as(p), alpha=-group["lr"])
