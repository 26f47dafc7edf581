"""The paper's objectives: estimates of bounds on log P(x), nats, from K samples.

Each takes K log importance weights of each image, log w_k = log p(v_k) - log q(u_k|x), where u_k ~ q(u|x) and v_k is
the point of the bin of x at the place u_k: x + u_k for hypercube bins. DequantizedModel.log_weights makes them.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from dqcodec.flows.transforms import PerImage


def vi(log_weights: Float[Tensor, "K B"]) -> PerImage:
    """Variational bound, the paper's equations 5 and 6: the mean log weight."""
    return log_weights.mean(0)


def iw(log_weights: Float[Tensor, "K B"]) -> PerImage:
    """Importance-weighted bound, the paper's equations 7 and 8; Burda et al. 2016."""
    return torch.logsumexp(log_weights, 0) - math.log(len(log_weights))


def renyi(log_weights: Float[Tensor, "K B"], alpha: float) -> PerImage:
    """Variational Rényi bound, the paper's equation 10; Li and Turner 2016.

    alpha = 1 is vi, alpha = 0 is iw, alpha = -inf is VR-max, equation 11. For 0 <= alpha <= 1 its mean is
    at most log P(x); for alpha < 0 the mean may exceed it, the more the larger K is. Measure with iw.

    Raises ValueError: alpha > 1.
    """
    if not alpha <= 1:
        raise ValueError(f"alpha must be at most 1, not {alpha}")
    if alpha == 1:
        return vi(log_weights)
    if alpha == -math.inf:
        return log_weights.max(0).values
    return iw((1 - alpha) * log_weights) / (1 - alpha)
