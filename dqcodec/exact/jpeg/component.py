"""One component of an image: its blocks, its table, and the levels that a search found."""

from collections.abc import Sequence

import numpy as np

from dqcodec.exact.jpeg import decoding, fitting
from dqcodec.exact.jpeg.blocks import block_count, padded, pooled
from dqcodec.exact.jpeg.decoding import Sampling
from dqcodec.exact.jpeg.fitting import Aim, Plane, Workspace

# Searches for the blocks that do not fit yet: (deviation in spreads, factor of the
# variances) in turn, candidates, sweeps.
_PASSES = (((1.0, 1.0), (1.0, 10.0)), 8, 0), (((0.4, 1.0), (2.5, 1.0), (1.0, 0.1)), 8, 0), (((1.0, 1.0),), 64, 4)
_HOPELESS = 0.2  # blocks that fit after the first searches


class Component:
    """The blocks of a component of an image.

    Attributes:
        size, shape: its rows and columns of samples, and of blocks.
        table: its steps, int64 (64,).
        levels: int16 (rows, columns, 64).
    """

    def __init__(self, height: int, width: int, sampling: Sampling) -> None:
        """height, width: of the image. sampling: of the component."""
        self.sampling, self.size = sampling, decoding.component_size(height, width, sampling)
        self.shape = block_count(self.size[0]), block_count(self.size[1])
        self.table = np.ones(64, np.int64)
        self.levels = np.zeros((*self.shape, 64), np.int16)

    def start(self, samples: np.ndarray) -> None:
        """Set the levels by samples (rows, columns)."""
        self.levels = fitting.rounded(padded(samples).astype(np.float64), self.table)

    def fit(self, low: np.ndarray, high: np.ndarray, start: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Find levels of the wanted blocks (rows, columns) whose pixels are within bounds.

        Args:
            low, high, start: bounds and guesses at all pixels, int64 (H, W).

        Returns which of all blocks fit or were not wanted.
        """
        is_fancy = int(self.sampling.interpolates(self.size[1]))
        low, high, start = (np.ascontiguousarray(each, np.int64) for each in (low, high, start))
        aim = Aim(low, high, start, *self.sampling[:2], *self.size, is_fancy, 0)
        plane = Plane(self.table, self.levels, decoding.samples(self.levels, self.table))

        fits = self._search(aim, plane, np.zeros(self.shape, bool), wanted, (), 1, 0)
        for search in _PASSES:
            fits |= self._search(aim, plane, fits, ~fits, *search) & ~fits
            if fits.all() or fits.mean() < _HOPELESS:
                break
        return fits

    def _search(
        self, aim: Aim, plane: Plane, fits: np.ndarray, wanted: np.ndarray, trials: Sequence, most: int, sweeps: int
    ) -> np.ndarray:
        """Search once, with variances of the blocks that fit; which of all blocks fit then or were not wanted."""
        variances = fitting.variances_of(self.levels[fits], self.table)
        spreads = np.reshape(trials, (-1, 2)) * [fitting.spread(self.table, variances), 1.0]
        return fitting.fit(aim, plane, wanted, variances, spreads, sweeps, Workspace.new(most))

    def wrong(self, pixels: np.ndarray) -> np.ndarray:
        """The number of wrong pixels in each block, (rows, columns). pixels: whether each is wrong, bool (H, W)."""
        return pooled(pixels, 8 * self.sampling.rows, 8 * self.sampling.columns)
