"""The order in which an autoregressive density codes pixels: fronts, and chunks of these.

A front are the pixels of all tiles where x + SLOPE y, counted from the tile's corner, is the same: none needs another. The
last front is coded first. Coding a chunk borrows bits, which must lie on the stack already: while few pixels are
coded, chunks are small.
"""

import numpy as np

from dqcodec.exact.context import SLOPE

_LEAST_CHUNK = 2  # pixels
_PIXELS_FOR_ONE = 16  # coded pixels whose bits suffice for a loan of one more, at 4 bits a pixel and more


class Fronts:
    """y, x: the pixels of an image (H, W) cut into tiles, front by front; order: where they lie in raster order.

    chunks: per front, in the order of decoding, its chunks as slices of y and x.
    """

    def __init__(self, shape: tuple[int, int], tile: tuple[int, int]):
        y, x = (a.ravel() for a in np.indices(shape, np.int32))
        front = x % tile[1] + SLOPE * (y % tile[0])
        self.order = np.argsort(front, kind="stable").astype(np.int32)
        self.y, self.x = y[self.order], x[self.order]
        counts = np.bincount(front)
        ends = np.cumsum(counts[counts > 0]).tolist()
        self.chunks = [_chunks(begin, end, len(y)) for begin, end in zip([0, *ends], ends)]


def _chunks(begin: int, end: int, pixels: int) -> list[slice]:
    """A front's pixels from begin to end, cut into chunks; pixels: of the image."""
    chunks = []
    while begin < end:
        size = max(_LEAST_CHUNK, (pixels - end) // _PIXELS_FOR_ONE)
        chunks.append(slice(max(begin, end - size), end))
        end = chunks[-1].start
    return chunks[::-1]
