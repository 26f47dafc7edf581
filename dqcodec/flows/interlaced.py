"""An interlaced flow: mixture couplings on the pixels of a coarse image and of ever finer ones.

A level knows the first pixel of each 2 x 2 block of an image, x1. It codes the three others, one place of the blocks
after the other. Each place is a coupling z2 = F(x2 | x1), where F is the distribution function of a mixture of
logistics (Flow++, Ho et al. 2019); then x2 is known, too, and joins x1. Each pixel changes once and the base is uniform
on [0, 1), so a coupling is also a split prior p(x2 | x1). Within a pixel the planes G, R, B follow each other.

A coupling sees the bins of x1, not the values: the place of a value in its bin is the dequantizer's noise.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.context.interlacing import reflected
from dqcodec.flows.context import Moments
from dqcodec.flows.densities import Density
from dqcodec.flows.mixture import LogisticMixture, mixture_around, start_evenly
from dqcodec.flows.networks import Network, ResidualBlock, leaky
from dqcodec.flows.planes import coding_order, differences, order
from dqcodec.flows.transforms import Features, Images, PerImage, sum_dims
from dqcodec.frozen.autoregressive import SPREAD_FLOOR
from dqcodec.frozen.interlaced import MEAN_NEIGHBOURS, NEIGHBOURS, PLACES, REACH, SPREAD_WEIGHTS


class Seen(NamedTuple):
    """What a coupling sees of the known pixels around each of its own pixels; (h, w) = (H, W) / 2.

    moments: of the nearest known pixels. inputs: of the network, F = (n + 2) P for n neighbours.
    """

    moments: Moments
    inputs: Float[Tensor, "B F h w"]


@torch.no_grad()
def seen(y: Float[Tensor, "B P H W"], number: int, bits: int) -> Seen:
    """What coupling `number` of a level sees. y: planes of symbols; pixels that are not known yet have no effect."""
    place, (height, width) = PLACES[number], y.shape[2:]
    rows, columns = (torch.from_numpy(reflected(side)).to(y.device) for side in (height, width))
    padded = y[:, :, rows][..., columns]
    starts = [(REACH + place[0] + dy, REACH + place[1] + dx) for dy, dx in NEIGHBOURS[number]]
    near = torch.stack(
        [padded[:, :, top : top + height - 1 : 2, left : left + width - 1 : 2] for top, left in starts], 1
    )
    sums = 2 * near[:, :MEAN_NEIGHBOURS].sum(1)
    weights = torch.tensor(SPREAD_WEIGHTS, dtype=y.dtype, device=y.device)[:, None, None, None]
    away = (8 * near[:, : len(SPREAD_WEIGHTS)] - sums[:, None]).abs()
    moments = Moments(sums, (weights * away).sum(1) / 2 + SPREAD_FLOOR)
    return Seen(moments, torch.cat([moments.standardise_near(near), moments.log_spread, moments.level(bits)], 1))


class CouplingNet(Network):
    """(what a coupling sees, its own pixels) -> raw mixture parameters of each plane, 3 K: logits, means, log2 scales.

    A 1x1 convolution and residual blocks are the trunk; each plane has a head. A head also sees the earlier planes of
    the pixel.

    Args:
        width, blocks: of the trunk. head: width of each head. mixtures: K.
    """

    def __init__(self, planes: int, width: int, blocks: int, head: int, mixtures: int):
        super().__init__()
        self.mixtures = mixtures
        self.conv_in = nn.Conv2d((len(NEIGHBOURS[0]) + 2) * planes, width, 1)
        self.blocks = nn.ModuleList(ResidualBlock(width) for _ in range(blocks))
        self.conv_heads = nn.Conv2d(width, planes * head, 1)
        self.conv_known = nn.ModuleList(nn.Conv2d(2 * plane, head, 1, bias=False) for plane in range(1, planes))
        self.conv_out = nn.ModuleList(nn.Conv2d(head, 3 * mixtures, 1) for _ in range(planes))
        for conv in self.conv_out:
            start_evenly(conv)

    def last_layers(self) -> list[nn.Module]:
        """Those of the planes."""
        return [*self.conv_out]

    def forward(self, inputs: Features, standard: Float[Tensor, "B P h w"]) -> list[Float[Tensor, "B _ h w"]]:
        """The parameters of each plane, (B, 3 K, h, w). standard: the coupling's own planes, normalised."""
        with self._trunk_precision(inputs):
            h = self.conv_in(inputs)
            for block in self.blocks:
                h = block(h)
            heads = self.conv_heads(leaky(h))
        heads = heads.to(inputs.dtype).chunk(len(self.conv_out), 1)
        return [self.raw(head, standard[:, :plane], plane) for plane, head in enumerate(heads)]

    def raw(self, head: Features, known: Float[Tensor, "B _ h w"], plane: int) -> Float[Tensor, "B _ h w"]:
        """The parameters of a plane, (B, 3 K, h, w). head: its part of the trunk. known: the
        earlier planes, normalised.
        """
        if plane:
            head = head + self.conv_known[plane - 1](torch.cat([known, known.clamp(-1, 1)], 1))
        return self.conv_out[plane](leaky(head))


class InterlacedFlow(Density):
    """The density of this module. Symbols and values v = x + u are (B, C, H, W), C = 1 or 3,
    H and W multiples of 2^levels.

    The coarsest image is uniform in [0, 2^bits).

    Args:
        bits: of the symbols. levels: (width, blocks) of each level's networks, the finest
            first. head, mixtures: see CouplingNet.
    """

    def __init__(self, channels: int, bits: int, levels: list[tuple[int, int]], head: int, mixtures: int):
        super().__init__()
        self.channels, self.bits = channels, bits
        self.levels = nn.ModuleList(
            nn.ModuleList(CouplingNet(channels, width, blocks, head, mixtures) for _ in PLACES)
            for width, blocks in levels
        )

    def log_prob(self, v: Images) -> PerImage:
        """log p(v), nats; v in [0, 2^bits)."""
        return self._sum(v, lambda mixture, part: mixture.log_density(part - 0.5, self.bits))

    def log_mass(self, x: Images) -> PerImage:
        """log P(x), nats, the integral of p over the bins of x: the bound that the posterior
        as a dequantizer would reach.
        """
        return self._sum(x, lambda mixture, part: mixture.log_mass(part, self.bits))

    def _sum(self, v: Images, term: Callable[[LogisticMixture, Tensor], Tensor]) -> PerImage:
        """The sum over all pixels of term(mixture, value)."""
        y, v = differences(v.detach().floor()), coding_order(v)
        total = v.new_zeros(len(v))
        for level in self.levels:
            for number, (net, (row, column)) in enumerate(zip(level, PLACES)):
                mixture = self._mixture(net, seen(y, number, self.bits), y[:, :, row::2, column::2])
                total = total + sum_dims(term(mixture, v[:, row::2, column::2]))
            y, v = y[:, :, ::2, ::2], v[:, ::2, ::2]
        return total - v[0].numel() * self.bits * math.log(2)

    def _mixture(self, net: CouplingNet, c: Seen, own: Float[Tensor, "B P h w"]) -> LogisticMixture:
        """The mixtures of a coupling's own pixels, (B, h, w, C, K). That of a plane depends
        on the earlier planes of `own`.
        """
        raw = torch.stack(net(c.inputs, c.moments.standardise(own)), 1)
        center = c.moments.mean
        center[:, 1:] += own[:, :1]  # the planes R and B are coded as differences from G
        around = (part.permute(0, 2, 3, 1) for part in (center, c.moments.spread, c.moments.log_spread))
        return mixture_around(raw.permute(0, 3, 4, 1, 2), *around)

    @torch.no_grad()
    def sample(self, n: int, height: int, width: int) -> Float[Tensor, "n C H W"]:
        """v ~ p(v): the coarsest image, then level after level. See Density.sample for errors."""
        step = 2 ** len(self.levels)
        if height % step or width % step:
            raise ValueError(f"an interlaced flow of {len(self.levels)} levels has no images of {(height, width)}")
        v = torch.zeros(n, self.channels, height, width, device=next(self.parameters()).device)
        coarsest = v[:, :, ::step, ::step]
        coarsest.copy_(torch.rand_like(coarsest) * 2**self.bits)
        for level in reversed(self.levels):
            step //= 2
            self._sample_level(level, v[:, :, ::step, ::step])
        return v

    def _sample_level(self, level: nn.ModuleList, v: Images) -> None:
        """Set the pixels that a level codes. v: a view of the level's image, in which the
        first pixel of each block is set.
        """
        for number, (net, (row, column)) in enumerate(zip(level, PLACES)):
            own, c = v[:, :, row::2, column::2], seen(differences(v.floor()), number, self.bits)
            for plane, channel in enumerate(order(self.channels)):
                mixture = self._mixture(net, c, differences(own.floor()))
                factor = LogisticMixture(*(part[..., plane, :] for part in mixture))
                noise = torch.rand(2, *own[:, 0].shape, device=v.device)
                x = (factor.sample(noise[0], self.bits) + 0.5).floor().clamp(0, 2**self.bits - 1)
                own[:, channel] = factor.sample_inside(noise[1], self.bits, x) + 0.5

    def initialise(self, v: Images) -> None:
        """Nothing to do: what couplings see is normalised already."""
