"""A flow with its dequantizer as an exact program, as its model file has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from dqcodec.ans.bits_back import BitsBack, CoupledBitsBack
from dqcodec.ans.protocol import BitStack
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import LatentOverflow, ModelError, ParticlesError
from dqcodec.exact.boxes import Box, cut, part, sides
from dqcodec.exact.flow.densities import FlowDensity
from dqcodec.exact.flow.dequantizers import (
    FlowDequantizer,
    PixelFeatures,
    Reversed,
    SampledAffine,
    SampledAutoregressive,
    SampledCoupling,
    SigmoidCells,
    UniformDequantizer,
)
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.exact.flow.transforms import Affine, AffineCoupling, Conv1x1
from dqcodec.exact.model_file import Tensors
from dqcodec.exact.networks import AutoregressiveNet, ResidualNet
from dqcodec.frozen.flow import INPUT_BOUND, LOCATION_BOUND, LOG_SCALE_BOUND, MAX_PARTICLES


@dataclass(frozen=True)
class Description:
    """What the metadata says of a program, apart from its tensors."""

    name: str
    channels: int
    bits: int
    tile: int
    grid_bits: int
    noise_grid_bits: int
    unit_bits: int
    fraction_bits: int
    dequantizer: str
    dequantizer_transforms: int
    context_channels: int
    subflows: tuple[int, ...]
    card: dict
    alternating: bool = False  # every second of the dequantizer's transforms is reversed

    def __post_init__(self):
        numbers = (
            self.dequantizer_transforms,
            self.bits, self.tile, self.grid_bits, self.noise_grid_bits, self.fraction_bits,
            self.context_channels,
        )
        if self.channels not in (1, 3) or any(type(n) is not int or n < 0 for n in numbers):
            raise ModelError("the program's description holds a wrong value")
        if type(self.alternating) is not bool or (self.alternating and self.dequantizer != "ard"):
            raise ModelError("the program's description holds a wrong value")
        if type(self.unit_bits) is not int or self.unit_bits < -1:
            raise ModelError("the program's description holds a wrong value")
        if not (type(self.name) is str and type(self.card) is dict and 1 <= self.bits <= 8):
            raise ModelError("the program's description holds a wrong value")
        if max(self.tile, self.context_channels) > 1 << 12:
            raise ModelError("the program's description holds a wrong value")
        if any(type(n) is not int or n < 1 for n in self.subflows) or self.dequantizer_transforms < (self.dequantizer != "uniform"):
            raise ModelError("the program's description holds a wrong value")
        if not (1 <= len(self.subflows) <= 8 and 8 <= self.noise_grid_bits <= self.grid_bits <= 20 and 1 <= self.fraction_bits <= 15):
            raise ModelError("the program's description holds a value out of range")
        if self.grid_bits < self.unit_bits + self.fraction_bits or self.tile % self.multiple or self.tile < 1:
            raise ModelError("the program's grids do not fit together")

    @property
    def multiple(self) -> int:
        """Tile sides are multiples of this."""
        return 1 << len(self.subflows)


class FlowProgram:
    """A trained flow with its dequantizer as an exact codec for pixel tiles.

    Attributes:
        id: see exact.identity. codec: pushes and pops int64 tiles (B, H, W, C), at the vi bound.
        tile: side of a full tile. multiple: tile sides are multiples of it. card: what is told of the model.
    """

    kind = "flow"
    codes_all = False

    def __init__(self, description: Description, tensors: Tensors, id: bytes = bytes(8)):
        self.description, self.id = description, id
        self.name, self.channels, self.bits = description.name, description.channels, description.bits
        self.tile, self.multiple, self.card = description.tile, description.multiple, description.card
        self.codec = BitsBack(_dequantizer(description, tensors), _density(description, tensors))

    def fits(self, shape: tuple[int, int, int]) -> bool:
        return shape[2] == self.channels and min(shape[:2]) >= self.multiple

    def code_length(self, parts: Sequence[np.ndarray]) -> float:
        """The vi bound, by the parts' full tiles."""
        tiles = self.layout([pixels.shape[:2] for pixels in parts])[1]
        try:
            bits = float(bound(parts, tiles, self.codec).sum())
        except LatentOverflow:
            return float("inf")
        return bits * sum(pixels.size for pixels in parts) / sum(part(parts, box).size for box in tiles)

    def layout(self, sizes: Sequence[tuple[int, int]]) -> tuple[list[Box], list[Box]]:
        """(strips that no tile covers, tiles, the largest first) of layers (height, width). A part of the format."""
        strips, tiles = [], []
        for number, (height, width) in enumerate(sizes):
            core_height, core_width = height - height % self.multiple, width - width % self.multiple
            if core_width < width:
                strips.append((number, slice(0, height), slice(core_width, width)))
            if core_height < height:
                strips.append((number, slice(core_height, height), slice(0, core_width)))
            tiles += cut(number, (core_height, core_width), (self.tile, self.tile))
        return strips, sorted(tiles, key=sides, reverse=True)

    def push_images(self, stack: BitStack, x: np.ndarray) -> None:
        self.codec.push(stack, x.astype(np.int64))

    def pop_images(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        return self.codec.pop(stack, count, height, width)

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Pixels x = floor(v), v ~ p(v), may lie out of range: they are clamped."""
        v = self.codec.density.pop(stack, count, height, width)
        return self.codec.dequantizer.quantize(v).clip(0, (1 << self.bits) - 1).astype(np.uint8)

    def coupled(self, particles: int) -> BitsBack | CoupledBitsBack:
        """The codec at the importance-weighted bound of that many coupled particles, 1 to MAX_PARTICLES; of one it is `codec`.

        Raises:
            ParticlesError: the number is out of range, or the dequantizer is not the uniform one: samples of another are no
            bijections of a uniform word, which particles are coupled by.
        """
        if not 1 <= particles <= MAX_PARTICLES:
            raise ParticlesError(f"{particles} particles: there are 1 to {MAX_PARTICLES}")
        if particles == 1:
            return self.codec
        if self.description.dequantizer != "uniform":
            raise ParticlesError(f"the model {self.name} has no uniform dequantizer, so that it codes with one particle only")
        return CoupledBitsBack(self.codec.dequantizer, self.codec.density, particles)


def stacked(layers: Sequence[np.ndarray], boxes: Sequence[Box]) -> np.ndarray:
    """Tiles of one shape, (B, H, W, C) int64."""
    return np.stack([part(layers, box) for box in boxes]).astype(np.int64)


def bound(layers: Sequence[np.ndarray], tiles: Sequence[Box], coder: BitsBack | CoupledBitsBack) -> np.ndarray:
    """The bits that the coder takes for each tile, on a stack of noise: the code is not kept. Raises LatentOverflow."""
    bits = []
    for _, boxes in groupby(tiles, sides):
        x = stacked(layers, list(boxes))
        bits.append(coder.push(Stack(np.random.Generator(np.random.PCG64(0)).bytes(8 * x.size + 64)), x))
    return np.concatenate(bits)


def _law(tensors, name: str, unbounded: bool = True) -> TableLaw:
    first, low_bits = (int(number) for number in tensors[f"{name}.grid"])
    return TableLaw(tensors[f"{name}.frequencies"].astype(np.int64), first, low_bits, unbounded)


def _location_scale_bounds(channels: int) -> tuple[np.ndarray, np.ndarray]:
    high = np.repeat([LOCATION_BOUND, LOG_SCALE_BOUND], channels).astype(np.float64)
    return -high, high


def _density(d: Description, tensors) -> FlowDensity:
    affine = Affine(tensors["scales"])
    levels, channels = [], d.channels
    for level, subflows in enumerate(d.subflows):
        channels *= 4
        half, transforms = channels // 2, []
        for subflow in range(subflows + 1):  # the last one, with no 1x1 convolution, is the split prior
            name = f"density.{level}.{subflow}"
            if subflow < subflows:
                transforms.append(_conv1x1(tensors, name, channels))
            net = ResidualNet(tensors, f"{name}.net", half, 0, *_location_scale_bounds(half))
            transforms.append(AffineCoupling(net, half, affine, d.grid_bits))
        levels.append(transforms)
        channels = half
    return FlowDensity(
        levels, _law(tensors, "logistic"), d.channels, 1 << (d.bits - 1), d.unit_bits, d.fraction_bits, d.grid_bits
    )


def _conv1x1(tensors, name: str, channels: int) -> Conv1x1:
    permutation = tensors[f"{name}.permutation"]
    if len(permutation) != channels:
        raise ModelError(f"{name}: a 1x1 convolution does not fit its place")
    sizes = tensors.get(f"{name}.sizes")
    negative = tensors[f"{name}.negative"].astype(bool) if sizes is not None else np.zeros(channels, bool)
    if negative.shape != (channels,):
        raise ModelError(f"{name}: a 1x1 convolution does not fit its place")
    return Conv1x1(permutation.tolist(), tensors[f"{name}.lower"], tensors[f"{name}.upper"], sizes, negative)


def _dequantizer(d: Description, tensors):
    if d.dequantizer == "uniform":
        return UniformDequantizer(d.fraction_bits)
    affine = Affine(tensors["scales"])
    channels = 4 * d.channels
    features = PixelFeatures(tensors["features.matrix"], tensors["features.log2_gain"], 1 << (d.bits - 1))
    if len(features.matrix) != channels:
        raise ModelError("the pixel features do not fit the image's channels")
    context_net = None
    if d.dequantizer != "gaussian":
        context_net = ResidualNet(tensors, "context", channels, 0, 0, np.full(d.context_channels, INPUT_BOUND))
    transforms = [
        _sampled(d, tensors, f"dequantizer.{index}", channels, affine) for index in range(d.dequantizer_transforms)
    ]
    if d.alternating:
        transforms[1::2] = [Reversed(step) for step in transforms[1::2]]
    cells = SigmoidCells(tensors["sigmoid.edges"], _law(tensors, "tail"))
    normal = _law(tensors, "normal", unbounded=False)
    return FlowDequantizer(features, context_net, transforms, normal, cells, d.noise_grid_bits, d.fraction_bits)


def _sampled(d: Description, tensors, name: str, channels: int, affine: Affine):
    """One conditional transform, in the order of sampling (eps first)."""
    half = channels // 2
    match d.dequantizer:
        case "gaussian":
            return SampledAffine(ResidualNet(tensors, name, channels, 0, *_location_scale_bounds(channels)), affine)
        case "bipartite":
            net = ResidualNet(tensors, name, half, d.context_channels, *_location_scale_bounds(half))
            return SampledCoupling(AffineCoupling(net, half, affine, d.noise_grid_bits))
        case "ard":
            net = AutoregressiveNet(tensors, name, channels, *_location_scale_bounds(channels))
            if net.conv_context.inputs != d.context_channels:
                raise ModelError(f"{name}: a network's context does not fit its place")
            return SampledAutoregressive(net, affine, d.noise_grid_bits)
    raise ModelError(f"unknown dequantizer {d.dequantizer!r}")
