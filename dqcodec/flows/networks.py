"""The networks of couplings, dequantizers and densities.

ResidualNet and AutoregressiveNet have exact twins in dqcodec.exact.networks: convolutions, leaky rectifiers, sums and clamps
become sums of integers. DenseNet and AutoregressiveDenseNet, the paper's own, have none: a model with them can be trained and
evaluated, not exported.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.frozen.flow import INPUT_RANGE
from dqcodec.frozen.networks import LEAK

INPUT_BOUND = float(INPUT_RANGE)  # what a network sees is clamped to [-8, 8]
HIGHPASS_GAIN = 4.0


def leaky(x: Tensor) -> Tensor:
    """max(x, x / 8). A network of plain ReLUs whose gradient is weak can die in training, and then stays dead."""
    return F.leaky_relu(x, LEAK)


_BLUR = torch.tensor([1.0, 2.0, 1.0]) / 4


def highpass(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    """4 (x - blur(x)), clamped like x, blur = the binomial [1 2 1]/4 in both axes, zero padded.

    Natural images are ill-conditioned: fine detail is far weaker than the local mean. Given both, a network
    sees detail at the mean's strength. The kernel is dyadic, thus exact on integers.
    """
    channels = x.shape[1]
    kernel = torch.outer(_BLUR, _BLUR).to(x).expand(channels, 1, 3, 3)
    return (HIGHPASS_GAIN * (x - F.conv2d(x, kernel, padding=1, groups=channels))).clamp(-INPUT_BOUND, INPUT_BOUND)


class Network(nn.Module):
    """Base of the networks of transforms. Where `bfloat16` is set (in training, on machines that are fast at it), all
    but the last convolution run in it; outputs, and all that is done with them, stay float32."""

    bfloat16 = False

    def _trunk_precision(self, x: Tensor) -> torch.autocast:
        return torch.autocast(x.device.type, torch.bfloat16, enabled=self.bfloat16)


class ResidualBlock(nn.Module):
    """x + conv1x1(leaky(conv3x3(leaky(x)))), the identity at initialisation."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 1)
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        return x + self.conv2(leaky(self.conv1(leaky(x))))


class ResidualNet(Network):
    """conv3x3 over [x, highpass(x), context], residual blocks, leaky, conv1x1 (zero at initialisation).

    Args:
        in_channels: of x. context_channels: of an optional second input, taken as it is.
    """

    def __init__(self, in_channels: int, out_channels: int, channels: int, blocks: int, context_channels: int = 0):
        super().__init__()
        self.conv_in = nn.Conv2d(2 * in_channels + context_channels, channels, 3, padding=1)
        self.blocks = nn.ModuleList(ResidualBlock(channels) for _ in range(blocks))
        self.conv_out = nn.Conv2d(channels, out_channels, 1)
        nn.init.zeros_(self.conv_out.weight)
        nn.init.zeros_(self.conv_out.bias)

    def forward(
        self, x: Float[Tensor, "B I H W"], context: Float[Tensor, "B K H W"] | None = None
    ) -> Float[Tensor, "B O H W"]:
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        parts = [x, highpass(x)] + ([] if context is None else [context])
        with self._trunk_precision(x):
            h = self.conv_in(torch.cat(parts, 1))
            for block in self.blocks:
                h = block(h)
        return self.conv_out(leaky(h).to(x))


class DenseLayer(nn.Module):
    """[h, relu(conv3x3(relu(conv1x1(h))))]: `growth` channels more."""

    def __init__(self, channels: int, growth: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 1)
        self.conv2 = nn.Conv2d(channels, growth, 3, padding=1)

    def forward(self, h: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C+growth H W"]:
        return torch.cat([h, F.relu(self.conv2(F.relu(self.conv1(h))))], 1)


class DenseNet(Network):
    """The paper's networks: the densely connected ones of Hoogeboom et al. 2019, dense layers, then conv3x3 (zero at
    initialisation). They have no exact twin.

    Args:
        channels: that all dense layers add. depth: how many there are. context_channels: of an optional second input.
    """

    def __init__(self, in_channels: int, out_channels: int, channels: int, depth: int, context_channels: int = 0):
        super().__init__()
        inputs = in_channels + context_channels
        widths = [inputs + channels * layer // depth for layer in range(depth + 1)]
        self.layers = nn.Sequential(*(DenseLayer(a, b - a) for a, b in zip(widths, widths[1:])))
        self.conv_out = nn.Conv2d(widths[-1], out_channels, 3, padding=1)
        nn.init.zeros_(self.conv_out.weight)
        nn.init.zeros_(self.conv_out.bias)

    def forward(
        self, x: Float[Tensor, "B I H W"], context: Float[Tensor, "B K H W"] | None = None
    ) -> Float[Tensor, "B O H W"]:
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        with self._trunk_precision(x):
            h = self.layers(x if context is None else torch.cat([x, context], 1))
        return self.conv_out(h.to(x))


NETS = {"residual": ResidualNet, "dense": DenseNet}


class MaskedConv2d(nn.Conv2d):
    """A convolution that is autoregressive in C x H x W order (the paper's appendix; Song et al. 2019).

    Input and output channels come in `groups` groups of equal size, one per autoregressive channel. Group i of
    the output sees groups < i everywhere and, of group i, the positions before its own in raster order; its own
    position too unless `strict`.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, groups: int, *, strict: bool):
        super().__init__(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
        before = torch.zeros(kernel_size * kernel_size)
        centre = kernel_size * kernel_size // 2
        before[: centre + (not strict)] = 1
        group_in = torch.arange(in_channels) // (in_channels // groups)
        group_out = torch.arange(out_channels) // (out_channels // groups)
        earlier = (group_in[None] < group_out[:, None]).float()[..., None]
        same = (group_in[None] == group_out[:, None]).float()[..., None]
        mask = (earlier + same * before).view(out_channels, in_channels, kernel_size, kernel_size)
        self.register_buffer("mask", mask, persistent=False)

    def masked_weight(self) -> Float[Tensor, "O I k k"]:
        return self.weight * self.mask

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O H W"]:
        return F.conv2d(x, self.masked_weight(), self.bias, padding=self.padding)


class MaskedOutput(MaskedConv2d):
    """The last layer of an ARM, masked, 1x1, zero at initialisation: two outputs a group, of which all m come first."""

    def __init__(self, in_channels: int, groups: int):
        super().__init__(in_channels, 2 * groups, 1, groups, strict=False)
        self.register_buffer("order", torch.arange(2 * groups).view(-1, 2).T.flatten(), persistent=False)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B 2G H W"]:
        return super().forward(x)[:, self.order]


class AutoregressiveNet(Network):
    """The ARM of the paper's equation (iaf): [m, s] = ARM(eps, h), masked in C x H x W order.

    Output o of channel c depends on eps at strictly earlier places alone, and on the whole context h.
    Output channels are grouped: (2, C) per position, first all of m, then all raw log-scales.
    """

    def __init__(self, in_channels: int, channels_per_group: int, context_channels: int):
        super().__init__()
        groups, hidden = in_channels, in_channels * channels_per_group
        self.conv_in = MaskedConv2d(in_channels, hidden, 3, groups, strict=True)
        self.conv_context = nn.Conv2d(context_channels, hidden, 1)
        self.conv_mid = MaskedConv2d(hidden, hidden, 3, groups, strict=False)
        self.conv_out = MaskedOutput(hidden, in_channels)

    def forward(
        self, x: Float[Tensor, "B C H W"], context: Float[Tensor, "B K H W"]
    ) -> Float[Tensor, "B 2C H W"]:
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        with self._trunk_precision(x):
            h = leaky(self.conv_in(x) + self.conv_context(context))
            h = leaky(h + self.conv_mid(h))
        return self.conv_out(h.to(x))


class MaskedDenseLayer(nn.Module):
    """A dense layer whose every group of channels sees none after it, see MaskedConv2d; it adds `growth` a group."""

    def __init__(self, groups: int, channels: int, growth: int):
        super().__init__()
        self.groups = groups
        self.conv1 = MaskedConv2d(groups * channels, groups * channels, 1, groups, strict=False)
        self.conv2 = MaskedConv2d(groups * channels, groups * growth, 3, groups, strict=False)

    def forward(self, h: Float[Tensor, "B GC H W"]) -> Float[Tensor, "B GC+Ggrowth H W"]:
        new = F.relu(self.conv2(F.relu(self.conv1(h))))
        return torch.cat([part.unflatten(1, (self.groups, -1)) for part in (h, new)], 2).flatten(1, 2)


class AutoregressiveDenseNet(Network):
    """The ARM with dense layers: a strictly masked convolution, then masked dense layers.

    Args:
        channels_per_group: that all layers add to each of the in_channels groups. depth: layers, the first included.
    """

    def __init__(self, in_channels: int, channels_per_group: int, context_channels: int, depth: int):
        super().__init__()
        widths = [-(-channels_per_group * layer // depth) for layer in range(1, depth + 1)]
        first, last = in_channels * widths[0], in_channels * widths[-1]
        self.conv_in = MaskedConv2d(in_channels, first, 3, in_channels, strict=True)
        self.conv_context = nn.Conv2d(context_channels, first, 1)
        self.layers = nn.Sequential(*(MaskedDenseLayer(in_channels, a, b - a) for a, b in zip(widths, widths[1:])))
        self.conv_out = MaskedOutput(last, in_channels)

    def forward(
        self, x: Float[Tensor, "B C H W"], context: Float[Tensor, "B K H W"]
    ) -> Float[Tensor, "B 2C H W"]:
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        with self._trunk_precision(x):
            h = self.layers(F.relu(self.conv_in(x) + self.conv_context(context)))
        return self.conv_out(h.to(x))
