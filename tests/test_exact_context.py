"""The exact context is the float one, integer for integer, whatever of the image is known yet."""

import itertools

import numpy as np
import programs
import pytest
import torch

from dqcodec.exact.context import (
    FEATURE_PLACES,
    GRID,
    MOMENT_WEIGHTS,
    NEIGHBOURS,
    REACH,
    SLOPE,
    STANDARD_BOUND,
    Canvas,
    Moments,
    inputs,
)
from dqcodec.flows import context as flows

SHAPES = [(1, 1), (1, 2), (1, 9), (9, 1), (2, 2), (3, 3), (9, 11), (6, 30)]
TILES = [(1, 1), (3, 2), (4, 5), (5, 11), (9, 4), (8, 8)]
FEATURES = 3


def images(channels: int, bits: int, height: int, width: int) -> dict[str, np.ndarray]:
    """(C, H, W) symbols."""
    rng, top = np.random.default_rng(height * width + bits), (1 << bits) - 1
    shape = (channels, height, width)
    board = np.broadcast_to(np.indices((height, width)).sum(0) % 2 * top, shape).copy()
    smooth = programs.smooth(rng, 1, height, width, channels)[0].transpose(2, 0, 1) >> 8 - bits
    return {"noise": rng.integers(0, top + 1, shape), "board": board, "white": np.full(shape, top), "smooth": smooth}


def float_context(x: np.ndarray, bits: int, features: np.ndarray) -> tuple[np.ndarray, ...]:
    """(inputs, neighbours' features, 8 mean, 64 spread, standardised planes), each (H, W, ...), in integers."""
    _, height, width = x.shape
    c = flows.context(torch.from_numpy(x[None]).float(), bits)
    told = flows.gather_features(torch.from_numpy(features.reshape(-1, height * width).T).float(), 1, height, width)
    parts = c.inputs * GRID, told, c.mean * 8, c.spread * 64, c.standard * GRID
    return tuple(part.numpy().reshape(height, width, -1) for part in parts)


def by_tiles(x: np.ndarray, bits: int, features: np.ndarray, tile: tuple[int, int]) -> list[np.ndarray]:
    """float_context of every tile alone, put together."""
    height, width = x.shape[1:]
    rows = []
    for top in range(0, height, tile[0]):
        boxes = [(slice(None), slice(top, top + tile[0]), slice(left, left + tile[1])) for left in range(0, width, tile[1])]
        tiles = [float_context(np.ascontiguousarray(x[box]), bits, np.ascontiguousarray(features[box])) for box in boxes]
        rows.append([np.concatenate(parts, 1) for parts in zip(*tiles)])
    return [np.concatenate(parts, 0) for parts in zip(*rows)]


def planes_of(x: np.ndarray) -> np.ndarray:
    return flows.planes(torch.from_numpy(x[None]).float())[0].numpy()


def random_features(height: int, width: int) -> np.ndarray:
    bound = STANDARD_BOUND * GRID
    return np.random.default_rng(height).integers(-bound, bound + 1, (FEATURES, height, width))


def exact_context(canvas: Canvas, y: np.ndarray, x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """As float_context, of some pixels, all of whose neighbours are known; values: their planes (P, N)."""
    places = canvas.places(y, x)
    seen, moments = canvas.context(places)
    standard = np.stack([moments.standard(values[plane], plane) for plane in range(len(values))], 1)
    return seen.T, canvas.read_features(places), moments.sums.T, moments.spreads.T, standard


def fronts(height: int, width: int, tile: tuple[int, int]):
    """The pixels (y, x) of each front, in causal order."""
    y, x = (a.ravel() for a in np.mgrid[:height, :width])
    front = x % tile[1] + SLOPE * (y % tile[0])
    for value in np.unique(front):
        yield y[front == value], x[front == value]


def assert_front_by_front(x: np.ndarray, bits: int, tile: tuple[int, int]) -> None:
    """Nothing that is not known yet is seen: there the canvas holds what would show."""
    channels, height, width = x.shape
    values, features = planes_of(x), random_features(height, width)
    expected = by_tiles(x, bits, features, tile)
    canvas = Canvas(channels, FEATURES, bits, (height, width), tile)
    canvas._planes[:] = 1 << 16
    everywhere = canvas.places(*(a.ravel() for a in np.mgrid[:height, :width]))
    canvas.write_features(everywhere, np.full((FEATURES, height * width), 777))
    for y, columns in fronts(height, width, tile):
        for ours, theirs in zip(exact_context(canvas, y, columns, values[:, y, columns]), expected, strict=True):
            assert np.array_equal(ours, theirs[y, columns])
        places = canvas.places(y, columns)
        canvas.write(places, values[:, y, columns])
        canvas.write_features(places, features[:, y, columns])


@pytest.mark.parametrize("channels, bits", [(1, 1), (1, 8), (3, 5), (3, 8)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_exact_context_is_the_float_one_front_by_front(channels, bits, shape):
    for x in images(channels, bits, *shape).values():
        assert_front_by_front(x, bits, shape)


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_tiles_know_nothing_of_each_other(tile):
    for channels in (1, 3):
        assert_front_by_front(images(channels, 8, 9, 11)["noise"], 8, tile)


@pytest.mark.parametrize("channels, bits", [(1, 1), (1, 8), (3, 5), (3, 8)])
def test_all_pixels_at_once_have_the_same_context(channels, bits):
    for shape, name in itertools.product([(1, 1), (1, 9), (9, 1), (9, 11)], ("noise", "smooth")):
        x = images(channels, bits, *shape)[name]
        features = random_features(*shape)
        for tile in (shape, (2, 3)):
            canvas = Canvas(channels, FEATURES, bits, shape, tile)
            y, columns = (a.ravel() for a in np.mgrid[: shape[0], : shape[1]])
            values = planes_of(x).reshape(channels, -1)
            canvas.write(canvas.places(y, columns), values)
            canvas.write_features(canvas.places(y, columns), features.reshape(FEATURES, -1))
            for ours, theirs in zip(exact_context(canvas, y, columns, values), by_tiles(x, bits, features, tile), strict=True):
                assert np.array_equal(ours, theirs.reshape(len(y), -1))


@pytest.mark.parametrize("channels", [1, 3])
def test_what_networks_see_is_bounded_integers(channels):
    for x in images(channels, 8, 9, 11).values():
        seen = float_context(x, 8, random_features(9, 11))[0]
        assert seen.shape[-1] == inputs(channels)
        assert np.array_equal(seen, np.rint(seen)) and np.abs(seen).max() <= STANDARD_BOUND * GRID


def test_neighbours_come_before_their_pixel_in_raster_order_and_in_fronts():
    for dy, dx in (*NEIGHBOURS, *FEATURE_PLACES):
        assert 0 <= dy <= REACH and abs(dx) <= REACH and (dy, -dx) > (0, 0)
        assert SLOPE * dy - dx > 0
    assert len(set(NEIGHBOURS)) == len(NEIGHBOURS) and sum(MOMENT_WEIGHTS) == 8


def test_the_borders_repeat_what_is_known():
    """In a row of its own the first pixel knows the middle alone, the next ones those to their left."""
    canvas, values = Canvas(1, FEATURES, 8, (2, 5), (2, 5)), np.array([10.0, 20, 30, 40, 50])
    sums = []
    for x, value in enumerate(values):
        places = canvas.places(np.array([0]), np.array([x]))
        sums.append(float(canvas.context(places)[1].sums[0, 0]))
        canvas.write(places, np.array([[value]]))
    # west, its twins above and the second to the left: weights 7 and 1
    assert sums == [8 * 128, 8 * 10, 7 * 20 + 10, 7 * 30 + 20, 7 * 40 + 30]
    moments = canvas.context(canvas.places(np.array([1]), np.array([0])))[1]
    assert moments.sums[0, 0] == 7 * 10 + 20  # north, its twins to the left, and the one to its right


def test_the_spread_of_every_range_has_a_logarithm():
    """Of black and white neighbours in any pattern."""
    for pattern in itertools.product((-255, 255), repeat=len(MOMENT_WEIGHTS)):
        c = np.array(pattern) * 8
        sums = (np.array(MOMENT_WEIGHTS) * c).sum() / 8
        spreads = (np.array(MOMENT_WEIGHTS) * np.abs(c - sums)).sum() + 32
        made = Moments.of(np.array([[sums]], np.float32), np.array([[spreads]], np.float32))
        assert abs(made.log_spread[0, 0] / GRID - np.log2(spreads / 64)) < 0.12


def test_planes_of_integers_are_standardised_in_single_precision():
    spreads = np.arange(32, 64 * 255 + 33, 2, dtype=np.float32)[None]
    for sums in range(3, 2041, 8):
        moments = Moments.of(np.full_like(spreads, sums), spreads)
        values = np.full(spreads.shape[1], 100)
        assert np.array_equal(moments.standard(values.astype(np.int32), 0), moments.standard(values.astype(np.float32), 0))
