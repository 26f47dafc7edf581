"""Bijections x <-> z between data and latents.

forward maps data to latents. Both directions return log|det dz/dx| of the forward map, in nats, shape (B,).
"""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

Images = Float[Tensor, "B C H W"]
Latents = Float[Tensor, "B D h w"]  # of any shape: a squeeze changes it
Features = Float[Tensor, "B K H W"]  # a context of K channels
PerImage = Float[Tensor, "B"]
Noise = Float[Tensor, "B ..."]  # of a dequantizer, which chooses the shape


class Transform(nn.Module):
    """A bijection x <-> z of floats. It may depend on a context, (B, K, H, W). Most
    transforms keep the shape (B, C, H, W).
    """

    def forward(self, x: Images, context: Features | None = None) -> tuple[Latents, PerImage]:
        """x -> (z, log|det dz/dx|), nats."""
        raise NotImplementedError

    def inverse(self, z: Latents, context: Features | None = None) -> tuple[Images, PerImage]:
        """z -> (x, log|det dz/dx|), nats: the log_det of forward at x, which gives a sampler the density of its sample."""
        raise NotImplementedError


def sum_dims(x: Float[Tensor, "B ..."]) -> PerImage:
    """Sum over all dimensions of each image."""
    return x.flatten(1).sum(1)


class Squeeze(Transform):
    """(B, C, H, W) -> (B, 4C, H/2, W/2), H and W even (Dinh et al. 2017).

    Channel 4c + 2i + j of the result holds pixel (i, j) of each 2x2 block of channel c.
    """

    def forward(self, x: Images, context: Features | None = None) -> tuple[Latents, PerImage]:
        """x (B, C, H, W) -> (z (B, 4C, H/2, W/2), 0)."""
        return F.pixel_unshuffle(x, 2), x.new_zeros(len(x))

    def inverse(self, z: Latents, context: Features | None = None) -> tuple[Images, PerImage]:
        """z (B, 4C, H/2, W/2) -> (x (B, C, H, W), 0)."""
        return F.pixel_shuffle(z, 2), z.new_zeros(len(z))


class Rescale(Transform):
    """z = (x - offset) / unit, from pixel values to latent units.

    unit is a power of two, so that the map is exact on integers.
    """

    def __init__(self, offset: float, unit: float):
        super().__init__()
        self.offset, self.unit = offset, unit

    def _log_det(self, x: Images) -> PerImage:
        return x.new_full((len(x),), -math.log(self.unit) * x[0].numel())

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """z = (x - offset) / unit; log_det = -D log(unit)."""
        return (x - self.offset) / self.unit, self._log_det(x)

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """x = unit z + offset."""
        return z * self.unit + self.offset, self._log_det(z)


class Conv1x1(Transform):
    """z = W x at every position, W = P L D U with unit triangular L and U (Kingma and Dhariwal 2018).

    With scaled=False, D is not trained: the volume change stays constant. With D = 1, the integer program needs no
    scale transform.

    Args:
        weight: the initial W, (C, C), invertible.
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
        """Replace W: factor it into P, L, D and U."""
        p, lower, upper = torch.linalg.lu(weight.double())
        diagonal = upper.diagonal()
        self.permutation.copy_(p.argmax(1))  # (P y)_i = y_{permutation_i}
        self.sign.copy_(diagonal.sign())
        self.log_diagonal.copy_(diagonal.abs().log())
        self.lower.copy_(lower.tril(-1))
        self.upper.copy_((upper / diagonal[:, None]).triu(1))

    def factors(self) -> tuple[Int[Tensor, "C"], Float[Tensor, "C C"], Float[Tensor, "C"], Float[Tensor, "C C"]]:
        """(permutation, L, diagonal of D, U); (P y)_i = y[permutation_i]."""
        eye = torch.eye(len(self.lower), device=self.lower.device)
        diagonal = self.sign * self.log_diagonal.exp()
        return self.permutation, self.lower.tril(-1) + eye, diagonal, self.upper.triu(1) + eye

    def weight(self) -> Float[Tensor, "C C"]:
        """W = P L D U."""
        permutation, lower, diagonal, upper = self.factors()
        return (lower @ (diagonal[:, None] * upper))[permutation]

    def _log_det(self, x: Images) -> PerImage:
        return (self.log_diagonal.sum() * x[0, 0].numel()).expand(len(x))

    def forward(self, x: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """z = W x; log_det = H W log|det W|."""
        return F.conv2d(x, self.weight()[..., None, None]), self._log_det(x)

    def inverse(self, z: Images, context: Features | None = None) -> tuple[Images, PerImage]:
        """x = W^-1 z."""
        return F.conv2d(z, torch.linalg.inv(self.weight())[..., None, None]), self._log_det(z)


class Chain(Transform):
    """Several transforms in sequence. The first one is nearest to the data."""

    def __init__(self, transforms: Iterable[Transform]):
        super().__init__()
        self.transforms = nn.ModuleList(transforms)

    def forward(self, x: Images, context: Features | None = None) -> tuple[Latents, PerImage]:
        """Apply all transforms, the first one first."""
        log_det = x.new_zeros(len(x))
        for transform in self.transforms:
            x, contribution = transform(x, context)
            log_det = log_det + contribution
        return x, log_det

    def inverse(self, z: Latents, context: Features | None = None) -> tuple[Images, PerImage]:
        """Undo all transforms, the last one first."""
        log_det = z.new_zeros(len(z))
        for transform in reversed(self.transforms):
            z, contribution = transform.inverse(z, context)
            log_det = log_det + contribution
        return z, log_det


def haar_ycocg(channels: int) -> Float[Tensor, "D D"]:
    """Orthogonal start for the 1x1 convolution after a squeeze, (4 C, 4 C).

    It is the Haar transform of each 2x2 block, times a YCoCg-like rotation if there are 3 channels (RGB). The first
    C outputs are the block means, the others are details.
    """
    return _product(_HAAR / 2.0, F.normalize(_ycocg(channels).float()))


def haar_ycocg_sums(channels: int) -> Float[Tensor, "D D"]:
    """The same transform without normalisation. All entries are integers, as floats."""
    return _product(_HAAR, _ycocg(channels)).float()


_HAAR = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])


def _ycocg(channels: int) -> Int[Tensor, "C C"]:
    return torch.tensor([[1, 1, 1], [1, 0, -1], [-1, 2, -1]]) if channels == 3 else torch.eye(channels).long()


def _product(haar: Num[Tensor, "4 4"], colour: Num[Tensor, "C C"]) -> Num[Tensor, "4*C 4*C"]:
    """The matrix from channels (channel, place in the block) to outputs (detail, colour)."""
    outputs = haar.shape[0] * colour.shape[0]
    return torch.einsum("kq,dc->kdcq", haar, colour).reshape(outputs, outputs)
