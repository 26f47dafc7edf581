"""Laws of local least squares: the definition, causality, independence of tiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec.context.least_squares import LANES
from dqcodec.context.predictions import predict_tiles
from dqcodec.frozen.autoregressive import PREDICTION_BITS, SLOPE

NEAR = [(0, -1), (1, 0), (1, -1), (1, 1), (0, -2), (2, 0)]  # (rows up, columns to the right)
NEAR_WEIGHTS = np.array([2, 2, 1, 1, 1, 1]) / 8
DECAY, RIDGE = 27 / 32, 1 / 4
COLUMN_WEIGHTS = {2: 9 / 16, 1: 3 / 4}  # of columns to the right; to the left (3 / 4)^distance


def drawn(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Smooth planes (B, H, W, P) with noise: G, and two differences."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[1], : shape[2]]
    smooth = 60 * np.sin(x[..., None] / rng.uniform(2, 9, shape[3]) + y[..., None] / rng.uniform(2, 9, shape[3]))
    planes = smooth + rng.normal(0, 4, shape)
    planes[..., 0] += 128
    return np.rint(planes).clip(0 if shape[3] == 1 else -255, 255).astype(np.int16)


def near(planes: np.ndarray, y: int, x: int, p: int) -> np.ndarray:
    """The nearest neighbours of a pixel; at borders, those of the specification."""
    start = 128 if p == 0 else 0
    if y == x == 0:
        return np.full(len(NEAR), float(start))
    values = []
    for up, right in NEAR:
        if y == 0 and up:  # nothing above: W
            up, right = 0, -1
        elif x == 0 and not up:  # nothing to the left: N
            up, right = 1, 0
        values.append(planes[y - min(up, y), min(max(x + right, 0), planes.shape[1] - 1), p])
    return np.array(values, float)


def regressors(planes, y, x, p):
    """(the regressors, the mean, the inverse spread) of a pixel's plane."""
    values = near(planes, y, x, p)
    mean = NEAR_WEIGHTS @ values
    row = list(values[:5] - mean)
    for other in range(p):
        west, north = near(planes, y, x, other)[:2]
        row += [planes[y, x, other] - (west + north) / 2, (west - north) / 2]
    return np.array(row), mean, 1 / (NEAR_WEIGHTS @ abs(values - mean) + 0.5)


def defined(planes: np.ndarray, p: int) -> np.ndarray:
    """The predictions of a tile's plane (H, W), straight from the definition, in float64."""
    height, width = planes.shape[:2]
    rows = {(y, x): regressors(planes, y, x, p) for y in range(height) for x in range(width)}
    out = np.empty((height, width))
    for (y, x), (here, mean, _) in rows.items():
        matrix, right = RIDGE * np.eye(len(here)), np.zeros(len(here))
        for (other, column), (row, its_mean, gain) in rows.items():
            if other < y and column <= x + 2:
                weight = DECAY ** (y - 1 - other) * COLUMN_WEIGHTS.get(column - x, 0.75 ** (x - column))
            elif other == y and column < x:
                weight = DECAY ** (x - 1 - column)
            else:
                continue
            matrix += weight * gain * np.outer(row, row)
            right += weight * gain * row * (planes[other, column, p] - its_mean)
        out[y, x] = mean + np.linalg.solve(matrix, right) @ here
    return out


@pytest.mark.parametrize("shape", [(1, 9, 11, 1), (1, 6, 8, 3), (1, 1, 9, 3), (1, 9, 1, 3), (1, 7, 2, 1)])
def test_predictions_are_the_ridge_regression_of_the_definition(shape):
    planes = drawn(1, shape)
    predictions = predict_tiles(planes, 8)[0] / 2**PREDICTION_BITS
    for p in range(shape[3]):
        low = 0 if p == 0 else -255
        assert abs(predictions[..., p] - defined(planes[0], p).clip(low, 255)).max() < 0.02


@settings(max_examples=20)
@given(st.integers(0, 1 << 30), st.integers(0, 2 * LANES), st.integers(0, 15))
def test_no_prediction_depends_on_a_later_pixel(seed, y, x):
    planes = drawn(seed, (1, 2 * LANES + 1, 16, 3))
    changed = planes.copy()
    changed[0, y, x] += 7
    rows, columns = np.mgrid[: 2 * LANES + 1, :16]
    earlier = columns + SLOPE * rows <= x + SLOPE * y
    before, after = (predict_tiles(each, 8)[0] for each in (planes, changed))
    assert (before == after)[earlier].all(axis=0)[0]  # the pixel's own R and B are predicted from its G
    earlier[y, x] = False
    assert (before == after)[earlier].all()


@settings(max_examples=10)
@given(st.integers(0, 1 << 30))
def test_tiles_are_predicted_alone(seed):
    planes = drawn(seed, (3, LANES + 3, 9, 1))
    together = predict_tiles(planes, 8)
    alone = np.concatenate([predict_tiles(planes[i : i + 1], 8) for i in range(3)])
    assert (together == alone).all()


@settings(max_examples=20)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 3]))
def test_predictions_stay_within_the_planes(seed, channels):
    rng = np.random.default_rng(seed)
    values = rng.choice([0, 255], (1, 12, 12, channels)).astype(np.int16)
    values[..., 1:] -= values[..., :1]
    predictions = predict_tiles(values, 8) / 2**PREDICTION_BITS
    assert 0 <= predictions[..., 0].min() and abs(predictions).max() <= 255
