"""The paper's objectives, as bounds on log P(x) in nats from log importance weights log w_k = log p(x+u_k) - log q(u_k|x)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def vi(log_weights: Float[Tensor, "K B"]) -> Float[Tensor, "B"]:
    """Variational bound, equation (elbo): the mean log weight."""
    return log_weights.mean(0)


def iw(log_weights: Float[Tensor, "K B"]) -> Float[Tensor, "B"]:
    """Importance-weighted bound, equation (iw_specific); Burda et al. 2015."""
    return torch.logsumexp(log_weights, 0) - math.log(len(log_weights))


def renyi(log_weights: Float[Tensor, "K B"], alpha: float) -> Float[Tensor, "B"]:
    """Variational Renyi bound, equation (vr_general), for any alpha <= 1; Li and Turner 2016.

    alpha = 1 is vi, 0 is iw, -inf is VR-max, equation (vr_max_bound). Below 0 it may exceed log P(x).
    """
    if not alpha <= 1:
        raise ValueError(f"alpha must be at most 1, not {alpha}")
    if alpha == 1:
        return vi(log_weights)
    if alpha == -math.inf:
        return log_weights.max(0).values
    return iw((1 - alpha) * log_weights) / (1 - alpha)
