"""The order in which an autoregressive density codes the pixels of tiles: fronts, and chunks of these.

A front are the pixels of all tiles where x + SLOPE y, counted from the tile's corner, is the same: none needs another.
Within it tiles follow each other, and rows within a tile. The last front is coded first. Coding a chunk borrows bits,
which must lie on the stack already: while few pixels are coded, chunks are small.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.compiled import compiled
from dqcodec.exact.context import SLOPE

_LEAST_CHUNK = 2  # pixels
_PIXELS_FOR_ONE = 16  # coded pixels whose bits suffice for a loan of one more, at 4 bits a pixel and more


class Fronts:
    """Of tiles (height, width), whose pixels lie one tile after the other, row by row.

    Attributes:
        pixels: how many they are. bounds: front f has the pixels bounds[f] to bounds[f + 1] of the order, (F + 1,).
    """

    def __init__(self, shapes: Sequence[tuple[int, int]]):
        self._tiles = np.array(shapes, np.int64).reshape(-1, 2)
        areas = self._tiles.prod(1)
        self.pixels = int(areas.sum())
        self._corners = np.cumsum(areas) - areas
        sizes = np.zeros((self._tiles[:, 1] + SLOPE * (self._tiles[:, 0] - 1)).max(), np.int64)
        _sizes(self._tiles, sizes)
        self._turns = np.flatnonzero(sizes)  # x + SLOPE y of each front: narrow tiles leave gaps
        self.bounds = np.append(0, np.cumsum(sizes[self._turns]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def places(self, front: int) -> np.ndarray:
        """Where its pixels lie: int64 (N, 4), the position among all pixels, row, column, and the tile's width."""
        places = np.empty((self.bounds[front + 1] - self.bounds[front], 4), np.int64)
        _places(self._tiles, self._corners, self._turns[front], places)
        return places

    def chunks(self, front: int) -> Iterator[slice]:
        """The chunks of a front, in the order of decoding, as slices of its places."""
        end = int(self.bounds[front + 1] - self.bounds[front])
        coded, cuts = self.pixels - int(self.bounds[front + 1]), [end]
        while cuts[-1]:
            size = max(_LEAST_CHUNK, coded // _PIXELS_FOR_ONE)
            cuts.append(max(0, cuts[-1] - size))
            coded += cuts[-2] - cuts[-1]
        return (slice(*pair) for pair in zip(cuts[:0:-1], cuts[-2::-1]))


@compiled
def _rows(height: int, width: int, turn: int) -> tuple[int, int]:
    """The rows of a tile that have a pixel where x + SLOPE y = turn: from, to."""
    return max(0, (turn - width + SLOPE) // SLOPE), min(height, turn // SLOPE + 1)


@compiled
def _sizes(tiles: np.ndarray, sizes: np.ndarray) -> None:
    """Add to each turn's size, how many pixels it has."""
    for tile in range(len(tiles)):
        height, width = tiles[tile, 0], tiles[tile, 1]
        for turn in range(width + SLOPE * (height - 1)):
            start, stop = _rows(height, width, turn)
            sizes[turn] += max(0, stop - start)


@compiled
def _places(tiles: np.ndarray, corners: np.ndarray, turn: int, places: np.ndarray) -> None:
    n = 0
    for tile in range(len(tiles)):
        height, width = tiles[tile, 0], tiles[tile, 1]
        start, stop = _rows(height, width, turn)
        for y in range(start, stop):
            x = turn - SLOPE * y
            places[n, 0], places[n, 1], places[n, 2], places[n, 3] = corners[tile] + y * width + x, y, x, width
            n += 1
