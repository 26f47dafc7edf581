"""Muon (Jordan et al. 2024): momentum with orthogonalised updates, for weight matrices."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

_QUINTIC, _STEPS = (3.4445, -4.7750, 2.0315), 5
_MOMENTUM = 0.95


def orthogonalise(matrix: Tensor) -> Tensor:
    """Approximately the nearest semi-orthogonal matrix: Newton-Schulz steps bring all singular values near 1."""
    a, b, c = _QUINTIC
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Muon(Optimizer):
    """Nesterov momentum; the update of each weight, as a matrix (out, in * k * k), is orthogonalised.

    All updates have the same norm, even where the gradient is weak. Without weight decay, weights that hardly matter
    would grow without bound. With it, singular values stay below about 1.2 max(1, rows/columns)^1/2 / weight_decay; so
    activations keep a range that quantises well.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, weight_decay: float):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                state["momentum"].lerp_(p.grad, 1 - _MOMENTUM)
                direction = p.grad.lerp(state["momentum"], _MOMENTUM).flatten(1)
                rows, columns = direction.shape
                update = orthogonalise(direction) * max(1, rows / columns) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update.view_as(p), alpha=-group["lr"])
