"""Periods of textures, dithers and halftones, found by autocorrelation (Wiener 1930,
Khinchin 1934). Only an encoder needs them.

Differences along rows, and then along columns, leave texture and noise; large ones, at edges, are clipped. Their
autocorrelation has a peak at each period.
"""

import numpy as np

from dqcodec.frozen.pixel_mixing import DEFAULT_PERIODS

_MIN_PIXELS = 1 << 13
_NEAR_ROWS, _NEAR_COLUMNS = 4, 6  # contexts see these places in any case
_MIN_OVERLAP = 0.2  # of the image with itself
_MIN_CORRELATION = 0.1
_CUT = 2  # root mean squares, where differences are clipped
_APART = 3  # of the second period from the first
_MAX_PIXELS = 1 << 20  # later rows are left out


def find_periods(layer: np.ndarray) -> tuple[tuple[int, int], ...]:
    """The two most certain periods, (rows up, columns left), of a layer (H, W, C) uint8;
    defaults replace uncertain ones.
    """
    if layer[..., 0].size < _MIN_PIXELS or min(layer.shape[:2]) < 2:
        return DEFAULT_PERIODS
    texture = layer[: max(2, _MAX_PIXELS // layer.shape[1])].astype(np.float32).mean(-1)
    texture = np.diff(np.diff(texture, axis=0), axis=1)
    bound = _CUT * np.sqrt((texture**2).mean())
    if not bound:
        return DEFAULT_PERIODS
    texture = texture.clip(-bound, bound)
    height, width = texture.shape
    spectrum = np.fft.rfft2(texture, s=(2 * height, 2 * width))
    correlation = np.fft.irfft2(np.abs(spectrum) ** 2, s=(2 * height, 2 * width))[:height] / (texture**2).sum()
    up, left = np.arange(height)[:, None], np.arange(2 * width)
    left = np.where(left < width, left, left - 2 * width)
    overlap = (1 - up / height) * (1 - np.abs(left) / width)
    correlation = np.where(overlap > _MIN_OVERLAP, correlation / np.maximum(overlap, _MIN_OVERLAP), 0)
    correlation[(up <= _NEAR_ROWS) & (np.abs(left) <= _NEAR_COLUMNS)] = 0
    correlation[0, left <= 0] = 0
    found = []
    for _ in range(2):
        row, column = np.unravel_index(correlation.argmax(), correlation.shape)
        if correlation[row, column] < _MIN_CORRELATION:
            break
        period = int(row), int(left[column])
        found.append(period)
        correlation[np.abs(up - period[0]) + np.abs(left - period[1]) <= _APART] = 0
        for multiple in range(2, max(height, width)):
            further, aside = multiple * period[0], multiple * period[1]
            if further >= height or abs(aside) >= width:
                break
            correlation[further, aside] = 0
    return (*found, *DEFAULT_PERIODS)[:2]
