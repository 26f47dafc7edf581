"""The causal context of a pixel, exact: twin of dqcodec.flows.context, on the integers that networks see.

Most arrays are (features, N): one column a pixel, so that arithmetic runs along pixels. All numbers are integers carried in
float32, below 2^24; what is not, is one multiplication or division that IEEE 754 rounds the same everywhere.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

# (rows up, columns to the right); the first ones, the nearest, give the local mean and spread
NEIGHBOURS = (
    (0, -1), (1, 0), (1, -1), (1, 1), (0, -2), (2, 0),
    (0, -3), (1, -3), (1, -2), (1, 2), (2, -2), (2, -1), (2, 1), (2, 2), (3, -1), (3, 0), (3, 1),
)  # fmt: skip
MOMENT_WEIGHTS = (2, 2, 1, 1, 1, 1)  # eighths
REACH = 3
FEATURE_PLACES = ((0, -1), (0, -2), (1, -1), (1, 0), (1, 1), (2, 0))
SLOPE = 3  # no neighbour lies further to the right than SLOPE - 1 a row: pixels of equal x + SLOPE y are independent

GRID = 32  # what networks see is in steps of 1/32 ...
STANDARD_BOUND = 8  # ... and within [-8, 8]
SPREAD_FLOOR = 32  # half a pixel step, in 64ths: what is added to a spread

_BOUND = np.float32(STANDARD_BOUND * GRID)
_NEAR = len(MOMENT_WEIGHTS)
_WEIGHTS = np.array([MOMENT_WEIGHTS], np.float32)
_MEAN_WEIGHTS = _WEIGHTS / np.float32(8)
_MAX_SPREAD = 64 * 255 + SPREAD_FLOOR  # a mean absolute deviation is at most half a range of 510
_WEST, _NORTH = NEIGHBOURS.index((0, -1)), NEIGHBOURS.index((1, 0))
_LEFT = np.array([i for i, (dy, _) in enumerate(NEIGHBOURS) if dy == 0])[:, None]
_ABOVE = np.array([i for i, (dy, _) in enumerate(NEIGHBOURS) if dy > 0])[:, None]


def inputs(planes: int) -> int:
    """How many inputs the context of a pixel with so many planes has, without its neighbours' features."""
    return planes * (len(NEIGHBOURS) + 2) + 2


@cache
def _log_spreads() -> np.ndarray:
    """Piecewise linear log2 of spread / 64, in steps of 1/GRID, for every spread; the table starts at 0."""
    mantissa, exponent = np.frexp(np.arange(_MAX_SPREAD + 1) / 64)
    return np.floor((exponent + 2 * mantissa - 2) * GRID).astype(np.float32)


@dataclass(frozen=True)
class Moments:
    """The local mean and spread of N pixels: sums 8 mean, spreads 64 spread, log_spread in steps of 1/GRID; (P, N)."""

    sums: np.ndarray
    spreads: np.ndarray
    gain: np.ndarray
    log_spread: np.ndarray

    @classmethod
    def of(cls, sums: np.ndarray, spreads: np.ndarray) -> "Moments":
        return cls(sums, spreads, np.float32(256) / spreads, _log_spreads().take(spreads.astype(np.int32)))

    def part(self, columns: slice) -> "Moments":
        """Those of some of the pixels."""
        return Moments(*(a[:, columns] for a in (self.sums, self.spreads, self.gain, self.log_spread)))

    def standard(self, values: np.ndarray, plane: int) -> np.ndarray:
        """A plane's values (N,), freed of mean and spread, in steps of 1/GRID."""
        out = values.astype(np.float32)
        out *= 8
        out -= self.sums[plane]
        out *= self.gain[plane]
        out += np.float32(0.5)
        np.floor(out, out=out)
        return out.clip(-_BOUND, _BOUND, out=out)


class Places:
    """Pixels (N,): where they lie on a canvas, and which of them lie at the top, left and right border of their tile."""

    def __init__(self, cells: np.ndarray, top: np.ndarray, left: np.ndarray, right: np.ndarray):
        self.cells = cells
        self.top, self.left, self.right = (np.flatnonzero(border) for border in (top, left, right))


class Canvas:
    """An image as far as it is known: planes, and the features that pixels tell their successors.

    It is cut into tiles of (rows, columns), from the top left, which know nothing of each other. Above, left and right
    of a tile lie REACH more rows or columns, which repeat its border, so that a neighbour is a fixed offset away.
    """

    def __init__(self, planes: int, features: int, bits: int, shape: tuple[int, int], tile: tuple[int, int]):
        self.shape, self.tile = shape, tile
        tiles_down, tiles_across = (-(-side // tile_side) for side, tile_side in zip(shape, tile))
        self._stride = shape[1] + 2 * REACH * tiles_across
        cells = (shape[0] + REACH * tiles_down) * self._stride
        self._planes = np.zeros((cells, planes), np.float32)  # times 8
        self._features = np.zeros((cells, features), np.int16)
        self._start = np.zeros(planes, np.float32)
        self._start[0] = 8 << (bits - 1)
        self._level_gain = np.float32(2.0 ** (8 - bits) / 16)
        self._offsets, self._feature_offsets = (
            np.array([dx - dy * self._stride for dy, dx in places]) for places in (NEIGHBOURS, FEATURE_PLACES)
        )

    def places(self, y: np.ndarray, x: np.ndarray) -> Places:
        (down, row), (across, column) = np.divmod(y, self.tile[0]), np.divmod(x, self.tile[1])
        cells = (y + REACH * (1 + down)) * self._stride + x + REACH * (1 + 2 * across)
        right = (column == self.tile[1] - 1) | (x == self.shape[1] - 1)
        return Places(cells, row == 0, column == 0, right)

    def write(self, places: Places, values: np.ndarray) -> None:
        """Set the planes (P, N) of pixels, and what of the border repeats them."""
        cells, planes = places.cells, self._planes
        values = (values.astype(np.float32) * 8).T
        planes[cells] = values
        for edge, step in ((places.left, -1), (places.right, 1)):
            if len(edge):
                for distance in range(step, step * (REACH + 1), step):
                    planes[cells[edge] + distance] = values[edge]
        if len(places.top):
            around = np.concatenate([cells[places.top] + dx for dx in range(-REACH, REACH + 1)])
            for row in range(1, REACH + 1):
                planes[around - row * self._stride] = planes[around]

    def context(self, places: Places) -> tuple[np.ndarray, Moments]:
        """(what networks see of the neighbours' planes (inputs, N), local moments); all neighbours must be known."""
        c = self._planes.take(places.cells + self._offsets[:, None], axis=0)
        self._stand_in(c, places)
        n, count, planes = c.shape
        flat = c.reshape(n, -1)
        sums = _MEAN_WEIGHTS @ flat[:_NEAR]
        flat -= sums
        spreads = _WEIGHTS @ np.abs(flat[:_NEAR])
        spreads += np.float32(SPREAD_FLOOR)
        flat *= np.float32(256) / spreads
        flat += np.float32(0.5)
        np.floor(flat, out=flat)
        seen = np.empty((inputs(planes), count), np.float32)
        c.transpose(0, 2, 1).clip(-_BOUND, _BOUND, out=seen[: n * planes].reshape(n, planes, count))
        moments = Moments.of(*(np.ascontiguousarray(a.reshape(count, planes).T) for a in (sums, spreads)))
        seen[n * planes : (n + 1) * planes] = moments.log_spread
        level = seen[(n + 1) * planes : -2]
        np.subtract(moments.sums, self._start[:, None], out=level)
        level[0] *= self._level_gain
        np.floor(level[0], out=level[0])
        level.clip(-_BOUND, _BOUND, out=level)
        seen[-2:] = 0
        seen[-2, places.top] = seen[-1, places.left] = GRID
        return seen, moments

    def write_features(self, places: Places, features: np.ndarray) -> None:
        """Set what pixels tell, (features, N)."""
        self._features[places.cells] = features.T.astype(np.int16)

    def read_features(self, places: Places) -> np.ndarray:
        """What the neighbours tell, float32 (N, 6 features)."""
        told = self._features.take(places.cells[:, None] + self._feature_offsets, axis=0)
        return told.reshape(len(told), -1).astype(np.float32)

    def _stand_in(self, c: np.ndarray, places: Places) -> None:
        """Replace neighbours that are not known where the border repeats them."""
        top, left = places.top, places.left
        if len(left):
            c[_LEFT, left] = c[_NORTH, left]
        if len(top):
            c[_ABOVE, top] = c[_WEST, top]
            if len(left):
                c[:, np.intersect1d(top, left)] = self._start
