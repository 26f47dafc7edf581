"""A flow with its dequantizer as an exact program, loaded from a model file."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from dqcodec.ans.bits_back import BitsBack
from dqcodec.ans.protocol import BitStack
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import LatentOverflow
from dqcodec.exact.boxes import Box, cut, part, sides
from dqcodec.exact.flow import loading
from dqcodec.exact.flow.description import Description
from dqcodec.exact.flow.interlaced import InterlacedFlow
from dqcodec.exact.model_file import Tensors


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
        self.codec = BitsBack(loading.dequantizer(description, tensors), loading.density(description, tensors))

    @property
    def lends(self) -> bool:
        """Whether the density knows P(x), so that it can code the first tiles, which lend bits to the others."""
        return isinstance(self.codec.density, InterlacedFlow)

    def fits(self, shape: tuple[int, int, int]) -> bool:
        """Whether the program codes layers of a shape (H, W, C)."""
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
        """Pixels x = floor(v), v ~ p(v), clamped to their range: uint8 (count, height, width, C).

        Raises LatentOverflow, StackUnderflow.
        """
        v = self.codec.density.sample(stack, count, height, width)
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
