"""The networks of couplings, dequantizers and autoregressive steps.

Residual networks and `AutoregressiveNet` have an integer twin in dqcodec.exact.flow.networks: they only use
convolutions, leaky rectifiers, sums and clamps. The paper's dense networks, `DenseNet` and `AutoregressiveDenseNet`,
have none; models with them can be trained and evaluated, but not exported.
"""

from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dqcodec.flows.transforms import Features, Images
from dqcodec.frozen.flow import INPUT_RANGE
from dqcodec.frozen.networks import LEAK

INPUT_BOUND = float(INPUT_RANGE)  # inputs are clamped to [-8, 8]; the integer twin proves its ranges from this
HIGHPASS_GAIN = 4.0


def leaky(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """max(x, x / 8).

    A network of plain ReLUs can die in training if its gradient is weak, and it never recovers.
    """
    return F.leaky_relu(x, LEAK)


Layer = TypeVar("Layer", bound=nn.Module)


def zeroed(layer: Layer) -> Layer:
    """The layer, which starts at zero."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


_BLUR = torch.tensor([1.0, 2.0, 1.0]) / 4


def highpass(x: Images) -> Images:
    """4 (x - blur(x)), clamped like x. blur is the binomial filter [1 2 1] / 4 along both axes, zero padded.

    In natural images fine detail is far weaker than the local mean. The network sees both at similar strength. The
    kernel holds powers of two, so that the result is exact on integers.
    """
    channels = x.shape[1]
    kernel = torch.outer(_BLUR, _BLUR).to(x).expand(channels, 1, 3, 3)
    return (HIGHPASS_GAIN * (x - F.conv2d(x, kernel, padding=1, groups=channels))).clamp(-INPUT_BOUND, INPUT_BOUND)


class Network(nn.Module):
    """Base of the networks of transforms and densities.

    If `bfloat16` is set, all products but those of the last layers run in bfloat16, for training where that is faster.
    Outputs stay float32.
    """

    bfloat16 = False

    def last_layers(self) -> list[nn.Module]:
        """The layers whose sums are the outputs."""
        return [self.conv_out]

    def _trunk_precision(self, x: Tensor) -> torch.autocast:
        return torch.autocast(x.device.type, torch.bfloat16, enabled=self.bfloat16)


class ResidualBlock(nn.Module):
    """x + conv1x1(leaky(conv3x3(leaky(x)))), the identity at initialisation. It keeps the shape."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = zeroed(nn.Conv2d(channels, channels, 1))

    def forward(self, x: Features) -> Features:
        """x (B, channels, H, W) -> the same shape."""
        return x + self.conv2(leaky(self.conv1(leaky(x))))


class ResidualNet(Network):
    """conv3x3 over [x, highpass(x), context], residual blocks, leaky, conv1x1. The last convolution starts at zero.

    Args:
        in_channels: I, of x. out_channels: O. channels: width of the blocks. context_channels: K, of the optional
            context, which the network does not filter.
    """

    def __init__(self, in_channels: int, out_channels: int, channels: int, blocks: int, context_channels: int = 0):
        super().__init__()
        self.conv_in = nn.Conv2d(2 * in_channels + context_channels, channels, 3, padding=1)
        self.blocks = nn.ModuleList(ResidualBlock(channels) for _ in range(blocks))
        self.conv_out = zeroed(nn.Conv2d(channels, out_channels, 1))

    def forward(self, x: Float[Tensor, "B I H W"], context: Features | None = None) -> Float[Tensor, "B O H W"]:
        """x (B, I, H, W), context (B, K, H, W) -> (B, O, H, W). x is clamped to [-8, 8]."""
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        parts = [x, highpass(x)] + ([] if context is None else [context])
        with self._trunk_precision(x):
            h = self.conv_in(torch.cat(parts, 1))
            for block in self.blocks:
                h = block(h)
        return self.conv_out(leaky(h).to(x))


class DenseLayer(nn.Module):
    """[h, relu(conv3x3(relu(conv1x1(h))))]: adds `growth` channels."""

    def __init__(self, channels: int, growth: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 1)
        self.conv2 = nn.Conv2d(channels, growth, 3, padding=1)

    def forward(self, h: Features) -> Float[Tensor, "B _ H W"]:
        """h (B, channels, H, W) -> (B, channels + growth, H, W)."""
        return torch.cat([h, F.relu(self.conv2(F.relu(self.conv1(h))))], 1)


class DenseNet(Network):
    """The paper's networks (Hoogeboom et al. 2019): dense layers, then conv3x3, which starts at zero. No integer twin.

    Args:
        in_channels: I, of x. out_channels: O. channels: how many all layers together add. depth: the number of layers.
        context_channels: K, of the optional context.
    """

    def __init__(self, in_channels: int, out_channels: int, channels: int, depth: int, context_channels: int = 0):
        super().__init__()
        inputs = in_channels + context_channels
        widths = [inputs + channels * layer // depth for layer in range(depth + 1)]
        self.layers = nn.Sequential(*(DenseLayer(a, b - a) for a, b in zip(widths, widths[1:])))
        self.conv_out = zeroed(nn.Conv2d(widths[-1], out_channels, 3, padding=1))

    def forward(self, x: Float[Tensor, "B I H W"], context: Features | None = None) -> Float[Tensor, "B O H W"]:
        """x (B, I, H, W), context (B, K, H, W) -> (B, O, H, W). x is clamped to [-8, 8]."""
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        with self._trunk_precision(x):
            h = self.layers(x if context is None else torch.cat([x, context], 1))
        return self.conv_out(h.to(x))


NETS = {"residual": ResidualNet, "dense": DenseNet}


class MaskedConv2d(nn.Conv2d):
    """A convolution that is autoregressive in C x H x W order (the paper's appendix; Song et al. 2019).

    Input and output channels form `groups` groups of equal size, one for each autoregressive channel. Group i of the
    output sees groups < i at all positions, and group i at the positions before its own in raster order. It also sees
    its own position unless `strict` is set.
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
        """The weight, with zeros where the mask forbids a connection."""
        return self.weight * self.mask

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O H W"]:
        """The masked convolution; it keeps height and width."""
        return F.conv2d(x, self.masked_weight(), self.bias, padding=self.padding)


class MaskedOutput(MaskedConv2d):
    """The last layer of an ARM: a masked 1x1 convolution that starts at zero.

    Each group has two outputs, m and a raw log-scale. The result holds first all m, then all log-scales.
    """

    def __init__(self, in_channels: int, groups: int):
        super().__init__(in_channels, 2 * groups, 1, groups, strict=False)
        self.register_buffer("order", torch.arange(2 * groups).view(-1, 2).T.flatten(), persistent=False)
        zeroed(self)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B _ H W"]:
        """x (B, I, H, W) -> [m, raw log-scale], (B, 2 groups, H, W)."""
        return super().forward(x)[:, self.order]


class AutoregressiveNet(Network):
    """The ARM of the paper's equation 14, [m, s] = ARM(eps, h), masked in C x H x W order.

    The outputs of channel c at a position depend on eps at strictly earlier places, and on the context h within the
    convolutions' reach. The 2C output channels are first all m, then all raw log-scales.
    """

    def __init__(self, in_channels: int, channels_per_group: int, context_channels: int):
        super().__init__()
        groups, hidden = in_channels, in_channels * channels_per_group
        self.conv_in = MaskedConv2d(in_channels, hidden, 3, groups, strict=True)
        self.conv_context = nn.Conv2d(context_channels, hidden, 1)
        self.conv_mid = MaskedConv2d(hidden, hidden, 3, groups, strict=False)
        self.conv_out = MaskedOutput(hidden, in_channels)

    def forward(self, x: Images, context: Features) -> Float[Tensor, "B 2*C H W"]:
        """eps (B, C, H, W), h (B, K, H, W) -> [m, raw log-scale], (B, 2C, H, W)."""
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        with self._trunk_precision(x):
            h = leaky(self.conv_in(x) + self.conv_context(context))
            h = leaky(h + self.conv_mid(h))
        return self.conv_out(h.to(x))


class MaskedDenseLayer(nn.Module):
    """A dense layer that adds `growth` channels to each group. No group sees a later one, see MaskedConv2d."""

    def __init__(self, groups: int, channels: int, growth: int):
        super().__init__()
        self.groups = groups
        self.conv1 = MaskedConv2d(groups * channels, groups * channels, 1, groups, strict=False)
        self.conv2 = MaskedConv2d(groups * channels, groups * growth, 3, groups, strict=False)

    def forward(self, h: Float[Tensor, "B _ H W"]) -> Float[Tensor, "B _ H W"]:
        """Append the new channels to each group of h."""
        new = F.relu(self.conv2(F.relu(self.conv1(h))))
        return torch.cat([part.unflatten(1, (self.groups, -1)) for part in (h, new)], 2).flatten(1, 2)


class AutoregressiveDenseNet(Network):
    """The ARM with dense layers: one strictly masked convolution, then masked dense layers. No integer twin.

    Args:
        in_channels: C, the number of groups. channels_per_group: how many all layers together give each group.
        context_channels: K. depth: the number of layers, the first convolution included.
    """

    def __init__(self, in_channels: int, channels_per_group: int, context_channels: int, depth: int):
        super().__init__()
        widths = [-(-channels_per_group * layer // depth) for layer in range(1, depth + 1)]
        first, last = in_channels * widths[0], in_channels * widths[-1]
        self.conv_in = MaskedConv2d(in_channels, first, 3, in_channels, strict=True)
        self.conv_context = nn.Conv2d(context_channels, first, 1)
        self.layers = nn.Sequential(*(MaskedDenseLayer(in_channels, a, b - a) for a, b in zip(widths, widths[1:])))
        self.conv_out = MaskedOutput(last, in_channels)

    def forward(self, x: Images, context: Features) -> Float[Tensor, "B 2*C H W"]:
        """eps (B, C, H, W), h (B, K, H, W) -> [m, raw log-scale], (B, 2C, H, W)."""
        x = x.clamp(-INPUT_BOUND, INPUT_BOUND)
        with self._trunk_precision(x):
            h = self.layers(F.relu(self.conv_in(x) + self.conv_context(context)))
        return self.conv_out(h.to(x))
