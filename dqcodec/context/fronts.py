"""The order in which an autoregressive density codes the pixels of tiles: fronts, and chunks of these.

Diagonal d of a tile is its pixels with x + SLOPE y = d, counted from the tile's corner; none of them needs another. A
front is a diagonal of all tiles of a batch, ordered by tile, then by row. Batches of tiles follow each other. A batch
takes tiles until its fronts have FRONT pixels on average. The last front is coded first. Coding a chunk borrows bits,
which must lie on the stack already, so chunks are small while few pixels are coded.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.base.compiled import compiled, part_of_loop
from dqcodec.frozen.autoregressive import BITS_FOR_ONE, FRONT, LEAST_CHUNK, SHALLOW_CHUNK, SLOPE


class Fronts:
    """The fronts of tiles (height, width). bits: of a sample.

    Attributes:
        shapes: of the tiles.
        pixels: the number of all pixels.
        bounds: front f has the pixels bounds[f] to bounds[f + 1] - 1 of the order, int64 (F + 1,).
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], bits: int = 8):
        self.shapes = shapes
        tiles = np.array(shapes, np.int64).reshape(-1, 2)
        areas = tiles.prod(1)
        corners = np.cumsum(areas) - areas
        self.pixels = int(areas.sum())
        self._pixels_for_one, self._largest_chunk = BITS_FOR_ONE // bits, SHALLOW_CHUNK if bits < 8 else self.pixels
        # tiles, corners, the number of the first tile, the diagonal
        self._fronts: list[tuple[np.ndarray, np.ndarray, int, int]] = []
        sizes = []
        for batch in _batches(tiles):
            pixels = np.zeros(_diagonals(tiles[batch]).max(), np.int64)
            _sizes(tiles[batch], pixels)
            used = np.flatnonzero(pixels)  # narrow tiles leave gaps
            sizes.append(pixels[used])
            self._fronts += [(tiles[batch], corners[batch], batch.start, int(diagonal)) for diagonal in used]
        self.bounds = np.append(0, np.cumsum(np.concatenate(sizes)))

    def __len__(self) -> int:
        return len(self._fronts)

    def places(self, front: int) -> np.ndarray:
        """The places of a front's pixels, int64 (N, 5): position among all pixels, row,
        column, the tile's width and number.

        Positions count pixels tile by tile, row by row.
        """
        places = np.empty((self.bounds[front + 1] - self.bounds[front], 5), np.int64)
        _places(*self._fronts[front], places)
        return places

    def tiles(self) -> np.ndarray:
        """The number of each pixel's tile, in the order of fronts, int64 (pixels,)."""
        return np.concatenate([self.places(front)[:, 4] for front in range(len(self))])

    def batch(self, front: int) -> tuple[np.ndarray, int, int]:
        """A front's batch of tiles, int64 (T, 2), the number of its first tile, and the front's diagonal."""
        tiles, _, first, diagonal = self._fronts[front]
        return tiles, first, diagonal

    def until(self, windows: Sequence[tuple[slice, slice] | None]) -> int:
        """The number of fronts that hold all pixels in the windows: (rows, columns) for each tile; None has no
        pixels."""
        diagonals = np.array(
            [window[1].stop - 1 + SLOPE * (window[0].stop - 1) if window else -1 for window in windows], np.int64
        )  # of each window's last pixel
        for front in range(len(self) - 1, -1, -1):
            tiles, first, diagonal = self.batch(front)
            if (diagonals[first : first + len(tiles)] == diagonal).any():
                return front + 1
        return 0

    def chunks(self, front: int) -> Iterator[slice]:
        """The chunks of a front, in the order of decoding, as slices of its places."""
        end = int(self.bounds[front + 1] - self.bounds[front])
        coded, cuts = self.pixels - int(self.bounds[front + 1]), [end]
        while cuts[-1]:
            size = max(LEAST_CHUNK, min(self._largest_chunk, coded // self._pixels_for_one))
            cuts.append(max(0, cuts[-1] - size))
            coded += cuts[-2] - cuts[-1]
        return (slice(*pair) for pair in zip(cuts[:0:-1], cuts[-2::-1]))


def _diagonals(tiles: np.ndarray) -> np.ndarray:
    """The number of diagonals of each tile."""
    return tiles[:, 1] + SLOPE * (tiles[:, 0] - 1)


def _batches(tiles: np.ndarray) -> Iterator[slice]:
    first = pixels = longest = 0
    for last, (area, diagonals) in enumerate(zip(tiles.prod(1).tolist(), _diagonals(tiles).tolist())):
        pixels, longest = pixels + area, max(longest, diagonals)
        if pixels >= FRONT * longest or last == len(tiles) - 1:
            yield slice(first, last + 1)
            first, pixels, longest = last + 1, 0, 0


@part_of_loop
def _rows(height: int, width: int, diagonal: int) -> tuple[int, int]:
    """The rows of a tile that have a pixel on a diagonal: from, to."""
    return max(0, (diagonal - width + SLOPE) // SLOPE), min(height, diagonal // SLOPE + 1)


@compiled
def _sizes(tiles: np.ndarray, sizes: np.ndarray) -> None:
    """Add the number of pixels on each diagonal to sizes."""
    for tile in range(len(tiles)):
        height, width = tiles[tile, 0], tiles[tile, 1]
        for diagonal in range(width + SLOPE * (height - 1)):
            start, stop = _rows(height, width, diagonal)
            sizes[diagonal] += max(0, stop - start)


@compiled
def _places(tiles: np.ndarray, corners: np.ndarray, first: int, diagonal: int, places: np.ndarray) -> None:
    n = 0
    for tile in range(len(tiles)):
        height, width = tiles[tile, 0], tiles[tile, 1]
        start, stop = _rows(height, width, diagonal)
        for y in range(start, stop):
            x = diagonal - SLOPE * y
            places[n, 0], places[n, 1], places[n, 2] = corners[tile] + y * width + x, y, x
            places[n, 3], places[n, 4] = width, first + tile
            n += 1
