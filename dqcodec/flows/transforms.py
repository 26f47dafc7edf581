"""Bijections. forward is data -> latent; both directions also give log|det dz/dx| of the forward map, in nats."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

LogDet = Float[Tensor, "B"]


class Transform(nn.Module):
    """A bijection x <-> z on (B, C, H, W), perhaps conditional on a context."""

    def forward(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, LogDet]:
        """x -> (z, log|det dz/dx|)."""
        raise NotImplementedError

    def inverse(self, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, LogDet]:
        """z -> (x, log|det dz/dx|): the same log_det as forward at that x, so that a sampler knows its density."""
        raise NotImplementedError


def sum_dims(x: Float[Tensor, "B ..."]) -> LogDet:
    return x.flatten(1).sum(1)


class Squeeze(Transform):
    """(B, C, H, W) -> (B, 4C, H/2, W/2): channel 4c + 2i + j is pixel (i, j) of each 2x2 block (Dinh et al. 2017)."""

    def forward(self, x, context=None):
        return F.pixel_unshuffle(x, 2), x.new_zeros(len(x))

    def inverse(self, z, context=None):
        return F.pixel_shuffle(z, 2), z.new_zeros(len(z))


class Rescale(Transform):
    """z = (x - offset) / unit, both fixed: pixel values to the latent unit. unit is a power of two."""

    def __init__(self, offset: float, unit: float):
        super().__init__()
        self.offset, self.unit = offset, unit

    def _log_det(self, x):
        return x.new_full((len(x),), -math.log(self.unit) * x[0].numel())

    def forward(self, x, context=None):
        return (x - self.offset) / self.unit, self._log_det(x)

    def inverse(self, z, context=None):
        return z * self.unit + self.offset, self._log_det(z)


class Conv1x1(Transform):
    """z = W x at every position, W = P L D U, L and U unit triangular (Kingma and Dhariwal 2018).

    With ``scaled`` off, D stays one: the volume is kept, and the exact twin needs no scale transform.
    """

    def __init__(self, weight: Float[Tensor, "C C"], scaled: bool = True):
        super().__init__()
        channels = len(weight)
        self.register_buffer("permutation", torch.empty(channels, dtype=torch.long))
        self.register_buffer("sign", torch.empty(channels))
        self.lower = nn.Parameter(torch.empty(channels, channels))
        self.upper = nn.Parameter(torch.empty(channels, channels))
        self.log_diagonal = nn.Parameter(torch.empty(channels), requires_grad=scaled)
        self.scaled = scaled
        self.set_weight(weight)

    @torch.no_grad()
    def set_weight(self, weight: Float[Tensor, "C C"]) -> None:
        p, lower, upper = torch.linalg.lu(weight.double())
        diagonal = upper.diagonal()
        self.permutation.copy_(p.argmax(1))  # (P y)_i = y_{permutation_i}
        self.sign.copy_(diagonal.sign())
        self.log_diagonal.copy_(diagonal.abs().log())
        self.lower.copy_(lower.tril(-1))
        self.upper.copy_((upper / diagonal[:, None]).triu(1))

    def factors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(permutation, L, diagonal, U), L and U with their unit diagonals."""
        eye = torch.eye(len(self.lower), device=self.lower.device)
        return self.permutation, self.lower.tril(-1) + eye, self.sign * self.log_diagonal.exp(), self.upper.triu(1) + eye

    def weight(self) -> Float[Tensor, "C C"]:
        permutation, lower, diagonal, upper = self.factors()
        return (lower @ (diagonal[:, None] * upper))[permutation]

    def _log_det(self, x):
        return (self.log_diagonal.sum() * x[0, 0].numel()).expand(len(x))

    def forward(self, x, context=None):
        return F.conv2d(x, self.weight()[..., None, None]), self._log_det(x)

    def inverse(self, z, context=None):
        return F.conv2d(z, torch.linalg.inv(self.weight())[..., None, None]), self._log_det(z)


class Chain(Transform):
    """Transforms one after the other, the first one nearest to the data."""

    def __init__(self, transforms):
        super().__init__()
        self.transforms = nn.ModuleList(transforms)

    def forward(self, x, context=None):
        log_det = x.new_zeros(len(x))
        for transform in self.transforms:
            x, contribution = transform(x, context)
            log_det = log_det + contribution
        return x, log_det

    def inverse(self, z, context=None):
        log_det = z.new_zeros(len(z))
        for transform in reversed(self.transforms):
            z, contribution = transform.inverse(z, context)
            log_det = log_det + contribution
        return z, log_det


def haar_ycocg(channels: int) -> Float[Tensor, "4C 4C"]:
    """Orthogonal start for the 1x1 convolution after a squeeze: Haar in each 2x2 block, times a YCoCg-like
    rotation when the channels are RGB. All block means come first, then all details."""
    haar = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2.0
    colour = torch.eye(channels)
    if channels == 3:
        colour = F.normalize(torch.tensor([[1.0, 1, 1], [1, 0, -1], [-1, 2, -1]]))
    return torch.einsum("kq,dc->kdcq", haar, colour).reshape(4 * channels, 4 * channels)
