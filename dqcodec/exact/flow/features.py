"""What an exact dequantizer sees of pixels: the twins of dqcodec.flows.features, on the networks' input grid."""

import numpy as np

from dqcodec.base.errors import ModelError
from dqcodec.context.context import log_spreads
from dqcodec.context.interlacing import LARGEST_SPREAD, standardised
from dqcodec.context.planes import coding_order, differences
from dqcodec.exact.flow.networks import to_input
from dqcodec.exact.flow.transforms import squeezed
from dqcodec.frozen.autoregressive import GRID, SPREAD_FLOOR
from dqcodec.frozen.flow import AROUND, INPUT_BITS, INPUT_BOUND


class PixelFeatures:
    """Integer sums of squeezed pixels times 2^log2_gain."""

    def __init__(self, matrix: np.ndarray, log2_gain: np.ndarray, offset: int):
        """matrix: int (4 C, 4 C). log2_gain: int (4 C,). offset: subtracted from pixels. Raises ModelError."""
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or log2_gain.shape != matrix.shape[:1]:
            raise ModelError("the pixel features' tensors do not fit together")
        if np.abs(matrix).max() > 8 or np.abs(log2_gain).max() > 16:
            raise ModelError("the pixel features are not proven exact")
        self.matrix, self.offset = matrix.astype(np.int64), offset
        self.log2_gain = log2_gain.astype(np.int64)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Pixels (B, H, W, C) int64 -> features (B, H/2, W/2, 4 C) float32."""
        sums = squeezed(x - self.offset) @ self.matrix.T
        return to_input(sums << (16 + self.log2_gain), 16)


class StandardFeatures:
    """Squeezed pixels, normalised by the mean and spread of their neighbours, and the log2 of the spreads."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Pixels (B, H, W, C) int64 -> features (B, H/2, W/2, 8 C) float32."""
        y, (height, width) = differences(coding_order(x)), x.shape[1:3]
        padded = np.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
        near = [padded[:, dy : dy + height, dx : dx + width] for dy, dx in AROUND]
        sums = sum(near)
        spreads = sum(np.abs(8 * each - sums) for each in near) + SPREAD_FLOOR
        features = [standardised(y, sums, spreads), log_spreads(LARGEST_SPREAD)[spreads]]
        scaled = np.concatenate(features, -1, dtype=np.float32) * np.float32((1 << INPUT_BITS) / GRID)
        return np.clip(squeezed(scaled), -INPUT_BOUND, INPUT_BOUND)
