"""The exact autoregressive density: twin of dqcodec.flows.autoregressive_density.

It codes an image pixel by pixel, or rather a front of pixels at a time, none of which needs another. A symbol of n slots
is coded by popping r < n and pushing its first slot + r below the total. These pops borrow bits: near the image's
end, which is coded first, fronts are coded in chunks small enough for what the stack holds by then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dqcodec.ans import uniform
from dqcodec.ans.protocol import BitStack
from dqcodec.base.compiled import compiled
from dqcodec.base.errors import ModelError
from dqcodec.base.threads import in_threads
from dqcodec.exact.autoregressive.context import Canvas, context, enter, log_spreads
from dqcodec.exact.autoregressive.context_net import ContextNet, head_sums, tell
from dqcodec.exact.autoregressive.fronts import Fronts
from dqcodec.exact.autoregressive.heads import code
from dqcodec.exact.autoregressive.learning import LearningLinears
from dqcodec.exact.autoregressive.mixture import (
    LOG2_SCALE_GRID,
    LOGIT_GRID,
    MEAN_GRID,
    TOTAL,
    TOTAL_BITS,
    MixtureTables,
)
from dqcodec.exact.mixing.context_mixing import Mixer
from dqcodec.exact.mixing.model_mixing import Canvases, code_front

_LEAST_PART = 96  # pixels of a front that are worth a thread
_NONE = np.zeros((0, 0), np.int64)
_LEAST_TILE, _LARGEST_TILE = 8, 1 << 12  # a side


@dataclass(frozen=True)
class Description:
    """What the metadata says of a program, apart from its tensors.

    tile: (rows, columns) of the tiles to cut an image into. mixtures: components of each mixture. head_grid:
    the heads' activations are in 2^-head_grid. rate_bits: the last layers learn by steps of 2^-rate_bits.
    """

    name: str
    channels: int
    bits: int
    tile: tuple[int, int]
    features: int
    blocks: int
    mixtures: int
    head_grid: int
    rate_bits: int
    card: dict

    def __post_init__(self):
        numbers = (self.bits, *self.tile, self.features, self.blocks, self.mixtures, self.head_grid, self.rate_bits)
        if self.channels not in (1, 3) or any(type(n) is not int for n in numbers) or type(self.name) is not str:
            raise ModelError("the program's description holds a wrong value")
        if not (1 <= self.bits <= 8 and 1 <= self.features <= 256 and 0 <= self.blocks <= 64 and 1 <= self.mixtures <= 32):
            raise ModelError("the program's description holds a value out of range")
        if not (-16 <= self.head_grid <= 16 and 1 <= self.rate_bits <= 32):
            raise ModelError("the program's description holds a value out of range")
        if type(self.card) is not dict or len(self.tile) != 2 or not _LEAST_TILE <= min(self.tile) <= max(self.tile) <= _LARGEST_TILE:
            raise ModelError("the program's description holds a wrong value")


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

    @property
    def bits(self) -> float:
        """-log2 P of all tiles."""
        return float(self.tile_bits.sum())


class AutoregressiveProgram:
    """A trained autoregressive model as an exact codec for tiles (H, W, C) that are told nothing of each other.

    Attributes:
        id: see exact.identity. tile: see Description. card: what is told of the model.
    """

    kind = "autoregressive"

    def __init__(self, description: Description, tensors: dict[str, np.ndarray], id: bytes = bytes(8)):
        self.description, self.id = description, id
        self.name, self.channels, self.bits = description.name, description.channels, description.bits
        self.tile, self.card = description.tile, description.card
        self.net = ContextNet(
            self.channels, description.features, description.blocks, description.mixtures, tensors
        )
        self.tables = MixtureTables.checked(*(tensors[f"mixture.{name}"] for name in MixtureTables._fields))

    def slots(self, tiles: Sequence[np.ndarray]) -> Slots:
        """What is to be coded for tiles, uint8."""
        walk = _Walk(self, [tile.shape[:2] for tile in tiles])
        walk.canvas.planes[:] = np.concatenate([_planes(tile) for tile in tiles])
        slots = [walk.code(walk.fronts.places(front)) for front in walk.fronts_learnt()]
        return Slots(np.concatenate(slots), walk.fronts)

    def push(self, stack: BitStack, slots: Slots) -> None:
        """Code tiles given by their slots.

        Raises:
            StackUnderflow: the stack's seed is too small.
        """
        bounds = slots.fronts.bounds
        for front in range(len(slots.fronts) - 1, -1, -1):
            starts, sizes = slots.slots[bounds[front] : bounds[front + 1]].transpose(2, 0, 1)
            for chunk in reversed(list(slots.fronts.chunks(front))):
                remainders = uniform.pop(stack, sizes[chunk].ravel())
                stack.push(starts[chunk].ravel() + remainders, TOTAL)

    def pop(self, stack: BitStack, shapes: Sequence[tuple[int, int]]) -> list[np.ndarray]:
        """Undo push: the uint8 tiles.

        Raises:
            StackUnderflow: not what push left.
        """
        walk = _Walk(self, shapes)
        for front in walk.fronts_learnt():
            places = walk.fronts.places(front)
            for chunk in walk.fronts.chunks(front):
                wanted = stack.pop(TOTAL, (chunk.stop - chunk.start, self.channels))
                starts, sizes = walk.code(places[chunk], wanted).transpose(2, 0, 1)
                uniform.push(stack, (wanted - starts).ravel(), sizes.ravel())
        return walk.tiles()


    def mix(self, tiles: Sequence[np.ndarray], mixer: Mixer) -> None:
        """Code tiles, uint8, by context mixing with this model; go on writing the mixer's code."""
        shapes = [tile.shape[:2] for tile in tiles]
        canvases, walk = Canvases(shapes, self.channels), _Walk(self, shapes)
        canvases.enter(tiles)
        walk.canvas.planes[:] = np.concatenate([_planes(tile) for tile in tiles])
        walk.mix(mixer, canvases, is_sought=False)

    def unmix(self, shapes: Sequence[tuple[int, int]], mixer: Mixer) -> list[np.ndarray]:
        """Undo mix: the uint8 tiles; any code gives some."""
        walk = _Walk(self, shapes)
        walk.mix(mixer, Canvases(shapes, self.channels), is_sought=True)
        return walk.tiles()


class _Walk:
    """A walk through tiles, front by front in the order of decoding: what encoder and decoder do alike."""

    def __init__(self, program: AutoregressiveProgram, shapes: Sequence[tuple[int, int]]):
        d, self.net, self.tables = program.description, program.net, program.tables
        self._bits = d.bits
        self._shapes, self.fronts = shapes, Fronts(shapes, d.bits)
        self.canvas = Canvas(self.fronts.pixels, d.channels, d.features)
        biases = np.ldexp(np.repeat([LOGIT_GRID, MEAN_GRID, LOG2_SCALE_GRID], d.mixtures).astype(np.float64), -d.rate_bits)
        self._out = LearningLinears(self.net.out, np.stack([np.ldexp(biases, -d.head_grid), biases]))
        self._taught = np.zeros(self._out.matrices.shape)

    def fronts_learnt(self) -> Iterator[int]:
        """The fronts, in order; the last layers learn after each."""
        for front in range(len(self.fronts)):
            yield front
            self._out.step(self._taught)
            self._taught[:] = 0

    def tiles(self) -> list[np.ndarray]:
        """The canvas's, uint8 (H, W, C)."""
        ends = np.cumsum([height * width for height, width in self._shapes])[:-1]
        return [_pixels(planes, shape) for planes, shape in zip(np.split(self.canvas.planes, ends), self._shapes)]

    def mix(self, mixer: Mixer, canvases: Canvases, *, is_sought: bool) -> None:
        """Code all fronts by context mixing; see model_mixing."""
        for front in self.fronts_learnt():
            self._taught += code_front(
                self.net.weights, self._out.matrices, self.tables, log_spreads(), self._bits, self.canvas.planes,
                self.canvas.features, self.fronts.places(front), mixer, canvases.samples, canvases.bounds, is_sought,
            )

    def code(self, places: np.ndarray, wanted: np.ndarray | None = None) -> np.ndarray:
        """Code pixels of a front: their slots (N, P, 2), int32.

        wanted: slots (N, P) whose symbols are sought and entered into the canvas; without, the canvas has them.
        """
        slots = np.empty((len(places), self.canvas.planes.shape[1], 2), np.int32)

        def code_part(part: slice) -> np.ndarray:
            sought = _NONE if wanted is None else wanted[part]
            constants = self.net.weights, self._out.matrices, self.tables, log_spreads(), self._bits
            return _code(*constants, self.canvas.planes, self.canvas.features, places[part], sought, slots[part])

        for taught in in_threads(code_part, len(places), _LEAST_PART):
            self._taught += taught
        return slots


@compiled
def _code(net, matrices, tables, log_spreads, bits, planes, features, places, wanted, slots):
    """Code pixels at places; planes and features: the canvas's. Sets slots; returns what that teaches the last layers."""
    count, channels = len(places), planes.shape[1]
    seen, moments = context(planes, features, places, bits, log_spreads)
    values = np.empty((count, channels), np.int16)
    for n in range(count):
        for p in range(channels):
            values[n, p] = planes[places[n, 0], p]
    taught = np.zeros(matrices.shape)
    sums = head_sums(net, seen)
    standards = code(net, sums, matrices, tables, log_spreads, moments, bits, wanted, values, slots, taught)
    enter(planes, features, places, values, tell(net, seen, standards))
    return taught


def _planes(pixels: np.ndarray) -> np.ndarray:
    """(H, W, C) -> int16 (H W, P): G, R - G, B - G, or gray."""
    planes = pixels.reshape(-1, pixels.shape[2]).astype(np.int16)
    if planes.shape[1] == 3:
        planes = planes[:, [1, 0, 2]]
        planes[:, 1:] -= planes[:, :1]
    return planes


def _pixels(planes: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Undo _planes: uint8 (H, W, C)."""
    if planes.shape[1] == 3:
        planes = planes[:, [1, 0, 2]]
        planes[:, ::2] += planes[:, 1:2]
    return planes.astype(np.uint8).reshape(*shape, -1)
