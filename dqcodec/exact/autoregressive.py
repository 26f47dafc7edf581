"""The exact autoregressive density: twin of dqcodec.flows.autoregressive_density.

It codes an image pixel by pixel, or rather a front of pixels at a time, none of which needs another. A symbol of n slots
is coded by popping r < n and pushing its first slot + r below the total. These pops borrow bits: near the image's
end, which is coded first, fronts are coded in chunks small enough for what the stack holds by then.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dqcodec.ans import uniform
from dqcodec.ans.stack import Stack
from dqcodec.errors import ModelError
from dqcodec.exact.context import Canvas
from dqcodec.exact.context_net import ContextNet
from dqcodec.exact.fronts import Fronts
from dqcodec.exact.learning import LearningLinear
from dqcodec.exact.mixture import (
    LOG2_SCALE_GRID,
    LOGIT_GRID,
    MEAN_GRID,
    TOTAL,
    TOTAL_BITS,
    Coded,
    Mixture,
    MixtureTables,
)

_LEAST_TILE = 8  # a side: what lies around tiles takes memory too


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
        if type(self.card) is not dict or len(self.tile) != 2 or min(self.tile) < _LEAST_TILE:
            raise ModelError("the program's description holds a wrong value")


@dataclass(frozen=True)
class Slots:
    """The first slot and the number of slots of every symbol, int32 (C, pixels): planes G, R, B, pixels by fronts."""

    starts: np.ndarray
    sizes: np.ndarray
    fronts: Fronts

    @property
    def bits(self) -> float:
        """-log2 P of the image."""
        return TOTAL_BITS * self.sizes.size - float(np.log2(self.sizes).sum(dtype=np.float64))


class AutoregressiveProgram:
    """A trained autoregressive model as an exact codec for images (H, W, C) cut into tiles of (rows, columns).

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
        self.tables = MixtureTables(*(tensors[f"mixture.{name}"] for name in ("sigmoid", "weight", "inverse_scale")))

    def slots(self, pixels: np.ndarray, tile: tuple[int, int]) -> Slots:
        """What is to be coded for pixels."""
        coder = _FrontCoder(self, pixels.shape[:2], tile)
        values = _planes(pixels)[:, coder.fronts.order]
        starts, sizes = np.empty((2, *values.shape), np.int32)
        for chunks in coder.fronts.chunks:
            for chunk in coder.begin(chunks):
                for plane in range(self.channels):
                    symbols = values[plane, chunk] + _offset(values[:, chunk], plane)
                    coded = coder.mixture(plane).at(symbols)
                    coder.enter(plane, symbols, coded)
                    starts[plane, chunk], sizes[plane, chunk] = coded.starts, coded.sizes
            coder.end()
        return Slots(starts, sizes, coder.fronts)

    def push(self, stack: Stack, slots: Slots) -> None:
        """Code an image given by its slots.

        Raises:
            StackUnderflow: the stack's seed is too small.
        """
        for front in reversed(slots.fronts.chunks):
            for chunk in reversed(front):
                remainders = uniform.pop(stack, slots.sizes[:, chunk].ravel())
                stack.push(slots.starts[:, chunk].ravel() + remainders, TOTAL)

    def pop(self, stack: Stack, shape: tuple[int, int], tile: tuple[int, int]) -> np.ndarray:
        """Undo push: the uint8 pixels (H, W, C).

        Raises:
            StackUnderflow: not what push left.
        """
        coder = _FrontCoder(self, shape, tile)
        pixels = np.empty((shape[0] * shape[1], self.channels), np.uint8)
        for chunks in coder.fronts.chunks:
            for chunk in coder.begin(chunks):
                slots = stack.pop(TOTAL, (self.channels, chunk.stop - chunk.start)).astype(np.int32)
                starts, sizes = np.empty((2, *slots.shape), np.int32)
                for plane in range(self.channels):
                    mixture = coder.mixture(plane)
                    symbols = mixture.find(slots[plane])
                    coded = mixture.at(symbols)
                    coder.enter(plane, symbols, coded)
                    starts[plane], sizes[plane] = coded.starts, coded.sizes
                uniform.push(stack, (slots - starts).ravel(), sizes.ravel())
            pixels[coder.fronts.order[slice(chunks[0].start, chunks[-1].stop)]] = _pixels(coder.end())
        return pixels.reshape(*shape, self.channels)


class _FrontCoder:
    """A walk through an image, front by front in the order of decoding: what encoder and decoder do alike.

    For every front: `begin` gives its chunks; for every plane of a chunk, in order, `mixture` gives its law and `enter`
    takes its symbols; `end` lets the front be known, and the last layers learn.
    """

    def __init__(self, program: AutoregressiveProgram, shape: tuple[int, int], tile: tuple[int, int]):
        d, self.net, self.tables = program.description, program.net, program.tables
        self.planes, self.bits, self.fronts = d.channels, d.bits, Fronts(shape, tile)
        self.canvas = Canvas(d.channels, d.features, d.bits, shape, tile)
        biases = np.ldexp(np.repeat([LOGIT_GRID, MEAN_GRID, LOG2_SCALE_GRID], d.mixtures).astype(np.float64), -d.rate_bits)
        rates = np.stack([np.ldexp(biases, -d.head_grid), biases], 1)
        self.out = [LearningLinear(linear, rates) for linear in self.net.out]

    def begin(self, chunks: list[slice]) -> Iterator[slice]:
        front = slice(chunks[0].start, chunks[-1].stop)
        count = front.stop - front.start
        self._places = self.canvas.places(self.fronts.y[front], self.fronts.x[front])
        self._seen, self._moments = self.canvas.context(self._places)
        self._sums = self.net.head_sums(self._seen, self.canvas.read_features(self._places))
        self._values = np.empty((self.planes, count), np.int32)
        self._known = np.empty((2 * self.planes, count), np.float32)
        for chunk in chunks:
            self._part = slice(chunk.start - front.start, chunk.stop - front.start)
            self._local = self._moments if len(chunks) == 1 else self._moments.part(self._part)
            yield chunk

    def mixture(self, plane: int) -> Mixture:
        """The distribution functions of a plane of the chunk."""
        self._head = self.net.head(plane, self._sums[:, self._part], self._known[:, self._part])
        local = self._local.sums[plane], self._local.spreads[plane], self._local.log_spread[plane]
        offset = _offset(self._values[:, self._part], plane)
        return Mixture(self.tables, self.out[plane](self._head), *local, offset, self.bits)

    def enter(self, plane: int, symbols: np.ndarray, coded: Coded) -> None:
        """The symbols of a plane of the chunk."""
        values = self._values[:, self._part]
        np.subtract(symbols, _offset(values, plane), out=values[plane])
        self.net.tell(self._known[:, self._part], plane, self._local.standard(values[plane], plane))
        self.out[plane].observe(coded.gradient(self._local.spreads[plane]), self._head)

    def end(self) -> np.ndarray:
        """-> the planes (C, N) of the front."""
        self.canvas.write(self._places, self._values)
        self.canvas.write_features(self._places, self.net.tells(self._seen, self._known))
        for out in self.out:
            out.step()
        return self._values


def _offset(planes: np.ndarray, plane: int) -> np.ndarray | int:
    """What a plane's values lack to be symbols: R and B come less G."""
    return planes[0] if plane else 0


def _planes(pixels: np.ndarray) -> np.ndarray:
    """(H, W, C) -> int32 (P, pixels): G, R - G, B - G, or gray."""
    flat = pixels.reshape(-1, pixels.shape[2]).T.astype(np.int32)
    return flat if len(flat) == 1 else np.stack([flat[1], flat[0] - flat[1], flat[2] - flat[1]])


def _pixels(planes: np.ndarray) -> np.ndarray:
    """Undo _planes: (pixels, C)."""
    if len(planes) == 1:
        return planes.T
    green = planes[0]
    return np.stack([planes[1] + green, green, planes[2] + green], 1)
