"""The exact autoregressive density: twin of dqcodec.flows.autoregressive_density.

It codes a front of pixels at a time; none of these needs another. To code a symbol of n slots, it pops r < n and pushes
the symbol's first slot + r below the total. These pops borrow bits. The image's end is coded first, when the stack
holds little, so its fronts are coded in small chunks.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dqcodec.ans import uniform
from dqcodec.ans.protocol import BitStack
from dqcodec.base.threads import single_thread
from dqcodec.context.fronts import Fronts
from dqcodec.exact.autoregressive.context_net import ContextNet
from dqcodec.exact.autoregressive.description import Description
from dqcodec.exact.autoregressive.learning_net import check_learning
from dqcodec.exact.autoregressive.walk import Walk, by_tiles
from dqcodec.exact.boxes import Window, whole
from dqcodec.exact.mixture import MixtureTables
from dqcodec.frozen.autoregressive import TOTAL, TOTAL_BITS


@dataclass(frozen=True)
class Slots:
    """The first slot and the number of slots of every symbol, int32 (pixels, C, 2): pixels by fronts, planes G, R, B."""

    slots: np.ndarray
    fronts: Fronts

    @property
    def tile_bits(self) -> np.ndarray:
        """-log2 P of each tile, float64."""
        bits = TOTAL_BITS * self.slots.shape[1] - np.log2(self.slots[..., 1]).sum(1, dtype=np.float64)
        return np.bincount(self.fronts.tiles(), bits)

    def sample_bits(self) -> list[np.ndarray]:
        """-log2 P of each sample of each tile, float64 (H, W, C), channels as in the image."""
        places = np.concatenate([self.fronts.places(front)[:, 0] for front in range(len(self.fronts))])
        bits = np.empty(self.slots.shape[:2])
        bits[places] = TOTAL_BITS - np.log2(self.slots[..., 1])
        return by_tiles(bits, self.fronts.shapes)

    @property
    def bits(self) -> float:
        """-log2 P of all tiles."""
        return float(self.tile_bits.sum())


class AutoregressiveProgram:
    """A trained autoregressive model as an exact codec for tiles (H, W, C). No tile sees another.

    Attributes:
        id: see exact.identity.
        tile, card: see Description.
    """

    kind = "autoregressive"
    codes_all = True

    def __init__(self, description: Description, tensors: dict[str, np.ndarray], id: bytes = bytes(8)):
        self.description, self.id = description, id
        self.name, self.channels, self.bits = description.name, description.channels, description.bits
        self.tile, self.card = description.tile, description.card
        self.net = ContextNet(
            self.channels,
            description.features,
            description.blocks,
            description.mixtures,
            tensors,
            least_squares=description.least_squares,
        )
        check_learning(self.net, description.learning)
        self.tables = MixtureTables.load(tensors)

    def fits(self, shape: tuple[int, int, int]) -> bool:
        """Whether the program codes layers of a shape (H, W, C)."""
        return shape[2] == self.channels

    def code_length(self, parts: Sequence[np.ndarray]) -> float:
        """The bits of parts of layers, each uint8 (H, W, C), coded one after the other: -log2 P."""
        with single_thread():
            return self.slots(parts).bits

    def push_images(self, stack: BitStack, x: np.ndarray) -> None:
        """Code pixels (B, H, W, C), each image alone. Raises ValueError: wrong values; StackUnderflow."""
        if (x >> self.bits).any():
            raise ValueError(f"pixels that are no {self.bits}-bit ones")
        for image in reversed(x.astype(np.uint8)):
            self.push(stack, self.slots([image]))

    def pop_images(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Undo push_images: int64 (count, height, width, C). Raises StackUnderflow."""
        return np.concatenate([self.pop(stack, [(height, width)]) for _ in range(count)]).astype(np.int64)

    def sample(self, stack: BitStack, count: int, height: int, width: int) -> np.ndarray:
        """Images learn nothing from each other: else all would drift the same way."""
        return self.pop_images(stack, count, height, width).astype(np.uint8)

    def slots(self, tiles: Sequence[np.ndarray]) -> Slots:
        """The slots of tiles, uint8 (H, W, C)."""
        walk = Walk(self, [tile.shape[:2] for tile in tiles])
        walk.enter(tiles)
        slots = [walk.code(walk.fronts.places(front)) for front in walk.learning_fronts()]
        return Slots(np.concatenate(slots), walk.fronts)

    def push(self, stack: BitStack, slots: Slots) -> None:
        """Code tiles given by their slots.

        Raises StackUnderflow: the stack's seed is too small.
        """
        bounds = slots.fronts.bounds
        for front in range(len(slots.fronts) - 1, -1, -1):
            starts, sizes = slots.slots[bounds[front] : bounds[front + 1]].transpose(2, 0, 1)
            for chunk in reversed(list(slots.fronts.chunks(front))):
                remainders = uniform.pop(stack, sizes[chunk].ravel())
                stack.push(starts[chunk].ravel() + remainders, TOTAL)

    def pop(self, stack: BitStack, shapes: Sequence[tuple[int, int]]) -> list[np.ndarray]:
        """Undo push: the uint8 tiles.

        Raises StackUnderflow: not what push left.
        """
        return self.pop_windows(stack, shapes, list(map(whole, shapes)))[0]

    def pop_windows(
        self, stack: BitStack, shapes: Sequence[tuple[int, int]], windows: Sequence[Window | None]
    ) -> tuple[list[np.ndarray], bool]:
        """Undo push up to the last front with a pixel in the window of its tile; None has no pixels.

        Returns the uint8 tiles, whose later pixels have any value, and whether all fronts are decoded.

        Raises StackUnderflow: not what push left.
        """
        walk = Walk(self, shapes)
        count = walk.fronts.until(windows)
        for front in itertools.islice(walk.learning_fronts(), count):
            places = walk.fronts.places(front)
            for chunk in walk.fronts.chunks(front):
                wanted = stack.pop(TOTAL, (chunk.stop - chunk.start, self.channels))
                starts, sizes = walk.code(places[chunk], wanted).transpose(2, 0, 1)
                uniform.push(stack, (wanted - starts).ravel(), sizes.ravel())
        return walk.tiles(), count == len(walk.fronts)
