"""A flow with its dequantizer as an exact program, loaded from a model file."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from dqcodec.ans.bits_back import BitsBack
from dqcodec.ans.protocol import BitStack
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import LatentOverflow, ModelError
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
    StandardFeatures,
    UniformDequantizer,
)
from dqcodec.exact.flow.interlaced import InterlacedFlow
from dqcodec.exact.flow.mixture_coupling import CouplingNet, MixtureCoupling
from dqcodec.exact.flow.tables import TableLaw
from dqcodec.exact.flow.transforms import Affine, AffineCoupling, Conv1x1
from dqcodec.exact.mixture import MixtureTables
from dqcodec.exact.model_file import Tensors
from dqcodec.exact.networks import AutoregressiveNet, ResidualNet
from dqcodec.frozen.flow import INPUT_BOUND, LOCATION_BOUND, LOG_SCALE_BOUND
from dqcodec.frozen.interlaced import CELL_BITS, PLACES


@dataclass(frozen=True)
class Description:
    """The metadata of a flow's model file: all that is not a tensor.

    channels, bits: of the pixels. tile: side of a tile, pixels. grid_bits, noise_grid_bits: grids of latents and of the
    dequantizer. unit_bits: a latent unit is 2^unit_bits pixel steps. fraction_bits: bits of u. dequantizer: uniform,
    gaussian, bipartite or ard, with dequantizer_transforms steps. subflows: the number of subflows of each level. card:
    facts about the model. alternating: every second step of the dequantizer is reversed.
    """

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
    alternating: bool = False
    features: str = "haar"
    noise: str = "normal"
    mixtures: int = 0

    def __post_init__(self):
        """Raise ModelError unless all values are valid."""
        numbers = (
            self.bits, self.tile, self.grid_bits, self.noise_grid_bits, self.fraction_bits, self.context_channels,
            self.dequantizer_transforms, self.mixtures,
        )  # fmt: skip
        is_valid = (
            type(self.channels) is int
            and self.channels in (1, 3)
            and all(type(number) is int and number >= 0 for number in numbers)
            and type(self.alternating) is bool
            and (self.dequantizer == "ard" or not self.alternating)
            and type(self.unit_bits) is int
            and self.unit_bits >= -1
            and type(self.name) is str
            and type(self.card) is dict
            and 1 <= self.bits <= 8
            and max(self.tile, self.context_channels) <= 1 << 12
            and all(type(number) is int and number >= 1 for number in self.subflows)
            and self.dequantizer_transforms >= (self.dequantizer != "uniform")
            and 1 <= len(self.subflows) <= 8
            and 8 <= self.noise_grid_bits <= self.grid_bits <= 20
            and 1 <= self.fraction_bits <= 15
            and self.features in ("haar", "standard")
            and self.noise in ("normal", "logistic")
            and self.mixtures <= 32
            and (not self.mixtures or self.fraction_bits >= CELL_BITS and set(self.subflows) == {len(PLACES)})
        )
        if not is_valid:
            raise ModelError("the program's description has an invalid value")
        if self.grid_bits < self.unit_bits + self.fraction_bits or self.tile % self.multiple or self.tile < 1:
            raise ModelError("the program's grids do not fit together")

    @property
    def multiple(self) -> int:
        """Sides of tiles are multiples of this."""
        return 1 << len(self.subflows)


class FlowProgram:
    """A trained flow with its dequantizer, as an exact codec for tiles of pixels.

    Attributes:
        id: 8 bytes, see exact.identity. codec: pushes and pops int64 tiles (B, H, W, C), at the vi bound. tile: side of
        a full tile, pixels. multiple: sides of tiles are multiples of it. card: facts about the model.
    """

    kind = "flow"
    codes_all = False

    def __init__(self, description: Description, tensors: Tensors, id: bytes = bytes(8)):
        """Make the program of a model file's content; raises ModelError: not valid, or not proven exact."""
        self.description, self.id = description, id
        self.name, self.channels, self.bits = description.name, description.channels, description.bits
        self.tile, self.multiple, self.card = description.tile, description.multiple, description.card
        self.codec = BitsBack(_dequantizer(description, tensors), _density(description, tensors))

    def fits(self, shape: tuple[int, int, int]) -> bool:
        """Whether layers of this shape (H, W, C) can be coded."""
        return shape[2] == self.channels and min(shape[:2]) >= self.multiple

    def code_length(self, parts: Sequence[np.ndarray]) -> float:
        """The vi bound of parts of layers, (H, W, C) uint8, in bits, estimated by their tiles; infinity if a latent
        overflows."""
        tiles = self.layout([pixels.shape[:2] for pixels in parts])[1]
        try:
            bits = float(bound(parts, tiles, self.codec).sum())
        except LatentOverflow:
            return float("inf")
        return bits * sum(pixels.size for pixels in parts) / sum(part(parts, box).size for box in tiles)

    def layout(self, sizes: Sequence[tuple[int, int]]) -> tuple[list[Box], list[Box]]:
        """(strips outside of all tiles, tiles with the largest first) of layers of these (height, width). A part of the
        format."""
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
        """Code tiles (B, H, W, C) uint8. Raises LatentOverflow, StackUnderflow."""
        self.codec.push(stack, x.astype(np.int64))

    def pop_images(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """The inverse of push_images: int64 (count, height, width, C)."""
        return self.codec.pop(stack, count, height, width)

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Pixels x = floor(v), v ~ p(v), clamped to their range: uint8 (count, height, width, C)."""
        v = self.codec.density.pop(stack, count, height, width)
        return self.codec.dequantizer.quantize(v).clip(0, (1 << self.bits) - 1).astype(np.uint8)


def stacked(layers: Sequence[np.ndarray], boxes: Sequence[Box]) -> np.ndarray:
    """Tiles of one shape as one array, (B, H, W, C) int64."""
    return np.stack([part(layers, box) for box in boxes]).astype(np.int64)


def bound(layers: Sequence[np.ndarray], tiles: Sequence[Box], codec: BitsBack) -> np.ndarray:
    """The bits that the codec takes for each tile, (tiles,) float64. Raises LatentOverflow.

    Tiles are coded on a stack of random bits, and the code is dropped.
    """
    bits = []
    for _, boxes in groupby(tiles, sides):
        x = stacked(layers, list(boxes))
        bits.append(codec.push(Stack(np.random.Generator(np.random.PCG64(0)).bytes(8 * x.size + 64)), x))
    return np.concatenate(bits)


def _law(tensors, name: str, unbounded: bool = True) -> TableLaw:
    """The table of the tensors `name`.*."""
    first, low_bits = (int(number) for number in tensors[f"{name}.grid"])
    return TableLaw(tensors[f"{name}.frequencies"].astype(np.int64), first, low_bits, unbounded)


def _location_scale_bounds(channels: int) -> tuple[np.ndarray, np.ndarray]:
    high = np.repeat([LOCATION_BOUND, LOG_SCALE_BOUND], channels).astype(np.float64)
    return -high, high


def _density(d: Description, tensors) -> FlowDensity | InterlacedFlow:
    return _interlaced(d, tensors) if d.mixtures else _affine(d, tensors)


def _interlaced(d: Description, tensors) -> InterlacedFlow:
    tables = MixtureTables.checked(*(tensors[f"mixture.{name}"] for name in MixtureTables._fields))
    levels = [
        [
            MixtureCoupling(
                CouplingNet(tensors, f"density.{level}.{number}", d.channels, d.mixtures), tables, number, d.bits
            )
            for number in range(len(PLACES))
        ]
        for level in range(len(d.subflows))
    ]
    return InterlacedFlow(levels, d.channels, d.bits, d.fraction_bits)


def _affine(d: Description, tensors) -> FlowDensity:
    affine = Affine(tensors["scales"])
    levels, channels = [], d.channels
    for level, subflows in enumerate(d.subflows):
        channels *= 4
        half, transforms = channels // 2, []
        for subflow in range(subflows + 1):  # the last one has no 1x1 convolution: it is the split prior
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
    features, seen = _features(d, tensors)
    context_net = None
    if d.dequantizer != "gaussian":
        context_net = ResidualNet(tensors, "context", seen, 0, 0, np.full(d.context_channels, INPUT_BOUND))
    transforms = [
        _sampled(d, tensors, f"dequantizer.{index}", channels, seen, affine)
        for index in range(d.dequantizer_transforms)
    ]
    if d.alternating:
        transforms[1::2] = [Reversed(step) for step in transforms[1::2]]
    cells = SigmoidCells(tensors["sigmoid.edges"], _law(tensors, "tail"))
    is_logistic, grids = d.noise == "logistic", (d.noise_grid_bits, d.fraction_bits)
    noise = _law(tensors, "logistic_noise" if is_logistic else "normal", unbounded=False)
    return FlowDequantizer(features, context_net, transforms, noise, cells, *grids, is_logistic=is_logistic)


def _features(d: Description, tensors) -> tuple[PixelFeatures | StandardFeatures, int]:
    """The dequantizer's features, and their number."""
    if d.features == "standard":
        return StandardFeatures(), 8 * d.channels
    features = PixelFeatures(tensors["features.matrix"], tensors["features.log2_gain"], 1 << (d.bits - 1))
    if len(features.matrix) != 4 * d.channels:
        raise ModelError("the pixel features do not fit the image's channels")
    return features, 4 * d.channels


def _sampled(d: Description, tensors, name: str, channels: int, seen: int, affine: Affine):
    """One step of the dequantizer; its `sample` goes from eps towards y. seen: the number of features."""
    half = channels // 2
    match d.dequantizer:
        case "gaussian":
            return SampledAffine(ResidualNet(tensors, name, seen, 0, *_location_scale_bounds(channels)), affine)
        case "bipartite":
            net = ResidualNet(tensors, name, half, d.context_channels, *_location_scale_bounds(half))
            return SampledCoupling(AffineCoupling(net, half, affine, d.noise_grid_bits))
        case "ard":
            net = AutoregressiveNet(tensors, name, channels, *_location_scale_bounds(channels))
            if net.conv_context.inputs != d.context_channels:
                raise ModelError(f"{name}: a network's context does not fit its place")
            return SampledAutoregressive(net, affine, d.noise_grid_bits)
    raise ModelError(f"unknown dequantizer {d.dequantizer!r}")
