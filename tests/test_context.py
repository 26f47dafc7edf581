"""The exact context equals the float one, integer for integer, however much of the tiles is known."""

import itertools

import numpy as np
import programs
import pytest
import torch

from dqcodec.base.compiled import compiled
from dqcodec.context import context as contexts
from dqcodec.context.context import TilePixels, log_spreads
from dqcodec.context.least_squares import predictor
from dqcodec.flows import context as flows
from dqcodec.flows.planes import differences
from dqcodec.frozen.autoregressive import (
    FEATURE_PLACES,
    GRID,
    INPUT_BOUND,
    MOMENT_WEIGHTS,
    NEIGHBOURS,
    REACH,
    SLOPE,
    inputs,
)

SHAPES = [(1, 1), (1, 2), (1, 9), (9, 1), (2, 2), (3, 3), (9, 11), (6, 30)]
TILES = [(1, 1), (3, 2), (4, 5), (5, 11), (9, 4), (8, 8)]
FEATURES = 3
UNKNOWN = 1 << 14  # what no pixel holds; the table of logarithms is made longer, so that it too is seen in the results
LOGARITHMS = np.concatenate([log_spreads(), np.full(1 << 20, 7777, np.int32)])
NO_PREDICTOR = predictor(np.empty((0, 2), np.int64), 0, 1)

context = compiled(contexts.context)
standards = np.vectorize(compiled(contexts.standardised), otypes=[np.float32])


def images(channels: int, bits: int, height: int, width: int) -> dict[str, np.ndarray]:
    """(H, W, C) symbols."""
    rng, top = np.random.default_rng(height * width + bits), (1 << bits) - 1
    shape = (height, width, channels)
    board = np.broadcast_to(np.indices((height, width)).sum(0)[..., None] % 2 * top, shape).copy()
    smooth = programs.smooth(rng, 1, *shape)[0] >> 8 - bits
    return {"noise": rng.integers(0, top + 1, shape), "board": board, "white": np.full(shape, top), "smooth": smooth}


def float_context(x: np.ndarray, bits: int, features: np.ndarray) -> tuple[np.ndarray, ...]:
    """(inputs, neighbours' features, 8 mean, 64 spread, standardised planes), each (H W, ...), in integers."""
    height, width, _ = x.shape
    c = flows.context(torch.from_numpy(x.transpose(2, 0, 1)[None].copy()).float(), bits)
    told = flows.gather_features(torch.from_numpy(features.reshape(height * width, -1)).float(), 1, height, width)
    parts = c.inputs * GRID, told, c.moments.sums, c.moments.spreads, c.standard * GRID
    return tuple(part.numpy().reshape(height * width, -1) for part in parts)


def of_tiles(tiles: list[np.ndarray], bits: int, features: list[np.ndarray]) -> list[np.ndarray]:
    """float_context of each tile alone, joined."""
    return [np.concatenate(parts) for parts in zip(*(float_context(x, bits, f) for x, f in zip(tiles, features)))]


def planes_of(tiles: list[np.ndarray]) -> np.ndarray:
    """(pixels, P)"""
    planes = [differences(torch.from_numpy(x.transpose(2, 0, 1)[None].copy()).float())[0].numpy() for x in tiles]
    return np.concatenate([plane.reshape(len(plane), -1).T for plane in planes])


def random_features(tiles: list[np.ndarray]) -> list[np.ndarray]:
    rng, bound = np.random.default_rng(len(tiles)), INPUT_BOUND
    return [rng.integers(-bound, bound + 1, (*x.shape[:2], FEATURES)) for x in tiles]


def places_of(tiles: list[np.ndarray]) -> np.ndarray:
    """All pixels: (position, row, column, the tile's width, its number)."""
    places = [(y, x, tile.shape[1], number) for number, tile in enumerate(tiles) for y, x in np.ndindex(tile.shape[:2])]
    return np.array([(cell, *place) for cell, place in enumerate(places)])


def exact_context(pixels: TilePixels, places: np.ndarray, bits: int, planes: np.ndarray) -> tuple[np.ndarray, ...]:
    """The exact context of some pixels, as float_context gives it. All their neighbours are known. planes: their own (N, P)."""
    channels = planes.shape[1]
    seen = context(pixels, NO_PREDICTOR, places, LOGARITHMS, bits)
    mean, spread = seen.moments.transpose(1, 2, 0)
    own = inputs(channels)
    assert seen.inputs.dtype == np.float32 and seen.moments.dtype == np.int32
    assert (seen.predictions == 8 * seen.moments[:, 0]).all() and not seen.log_errors.any()
    return (
        seen.inputs[:own].T,
        seen.inputs[own:].T,
        mean,
        spread,
        standards(*(a.astype(np.int64) for a in (planes, mean, spread))),
    )


def fronts(places: np.ndarray):
    """Those of each front, in causal order."""
    diagonals = places[:, 2] + SLOPE * places[:, 1]
    for diagonal in np.unique(diagonals):
        yield places[diagonals == diagonal]


def assert_front_by_front(tiles: list[np.ndarray], bits: int) -> None:
    """No pixel that is unknown yet is seen: such pixels hold values that would show."""
    planes, features = planes_of(tiles), random_features(tiles)
    expected, told = of_tiles(tiles, bits, features), np.concatenate([f.reshape(-1, FEATURES) for f in features])
    pixels = TilePixels.blank(*planes.shape, FEATURES)
    pixels.planes[:] = UNKNOWN
    pixels.features[:] = UNKNOWN
    for places in fronts(places_of(tiles)):
        cells = places[:, 0]
        for ours, theirs in zip(exact_context(pixels, places, bits, planes[cells]), expected, strict=True):
            assert np.array_equal(ours, theirs[cells])
        pixels.planes[cells], pixels.features[cells] = planes[cells], told[cells]


@pytest.mark.parametrize("channels, bits", [(1, 1), (1, 8), (3, 5), (3, 8)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_exact_context_is_the_float_one_front_by_front(channels, bits, shape):
    for x in images(channels, bits, *shape).values():
        assert_front_by_front([x], bits)


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_tiles_are_independent(tile):
    for channels in (1, 3):
        assert_front_by_front(programs.cut(images(channels, 8, 9, 11)["noise"], tile), 8)


@pytest.mark.parametrize("channels", [1, 3])
def test_tiles_of_any_shapes_are_independent(channels):
    assert_front_by_front([images(channels, 8, *shape)["noise"] for shape in SHAPES + SHAPES[::-2]], 8)


@pytest.mark.parametrize("channels, bits", [(1, 1), (1, 8), (3, 5), (3, 8)])
def test_all_pixels_at_once_have_the_same_context(channels, bits):
    for shape, name in itertools.product([(1, 1), (1, 9), (9, 1), (9, 11)], ("noise", "smooth")):
        for tile in (shape, (2, 3)):
            tiles = programs.cut(images(channels, bits, *shape)[name], tile)
            planes, features = planes_of(tiles), random_features(tiles)
            pixels = TilePixels.blank(*planes.shape, FEATURES)
            pixels.planes[:] = planes
            pixels.features[:] = np.concatenate([f.reshape(-1, FEATURES) for f in features])
            ours = exact_context(pixels, places_of(tiles), bits, planes)
            for a, b in zip(ours, of_tiles(tiles, bits, features), strict=True):
                assert np.array_equal(a, b)


@pytest.mark.parametrize("channels", [1, 3])
def test_inputs_of_networks_are_bounded_integers(channels):
    for x in images(channels, 8, 9, 11).values():
        seen = float_context(x, 8, *random_features([x]))[0]
        assert seen.shape[-1] == inputs(channels)
        assert np.array_equal(seen, np.rint(seen)) and np.abs(seen).max() <= INPUT_BOUND


def test_neighbours_come_before_their_pixel_in_raster_order_and_in_fronts():
    for dy, dx in (*NEIGHBOURS, *FEATURE_PLACES):
        assert 0 <= dy <= REACH and abs(dx) <= REACH and (dy, -dx) > (0, 0)
        assert SLOPE * dy - dx > 0
    assert len(set(NEIGHBOURS)) == len(NEIGHBOURS) and sum(MOMENT_WEIGHTS) == 8


def test_at_borders_known_pixels_stand_in():
    """In a single row, the first pixel has only the middle value as context, and the others the pixels to their left."""
    pixels, places = TilePixels.blank(10, 1, FEATURES), places_of([np.zeros((2, 5, 1))])
    means = []
    for n, value in enumerate([10, 20, 30, 40, 50, 0]):
        means.append(int(context(pixels, NO_PREDICTOR, places[n : n + 1], LOGARITHMS, 8).moments[0, 0, 0]))
        pixels.planes[n] = value
    # west, its twins above and the second to the left: weights 7 and 1
    # in the next row: north, its twins to the left, and the one to its right
    assert means == [8 * 128, 8 * 10, 7 * 20 + 10, 7 * 30 + 20, 7 * 40 + 30, 7 * 10 + 20]


def test_the_spread_of_every_range_has_a_logarithm():
    """Of black and white neighbours in any pattern."""
    pixels, places = TilePixels.blank(15, 1, FEATURES), places_of([np.zeros((3, 5, 1))])
    middle = places[(places[:, 1] == 2) & (places[:, 2] == 2)]
    near = [12 + dx - 5 * dy for dy, dx in NEIGHBOURS[: len(MOMENT_WEIGHTS)]]
    for pattern in itertools.product((-255, 255), repeat=len(MOMENT_WEIGHTS)):
        pixels.planes[near, 0] = pattern
        seen = context(pixels, NO_PREDICTOR, middle, log_spreads(), 8)
        mean, spread = seen.moments[0, :, 0]
        assert mean == np.dot(MOMENT_WEIGHTS, pattern)
        assert spread == np.dot(MOMENT_WEIGHTS, np.abs(8 * np.array(pattern) - mean)) + 32 < len(log_spreads())
        assert abs(seen.inputs[len(NEIGHBOURS), 0] / GRID - np.log2(spread / 64)) < 0.12


def test_planes_of_integers_are_standardised_in_single_precision():
    """Every operation alone, as numpy rounds it."""
    spreads = np.arange(32, 64 * 255 + 33, 2)
    for mean in range(3, 2041, 40):
        freed = np.float32(800 - mean) * (np.float32(256) / spreads.astype(np.float32))
        expected = np.floor(freed + np.float32(0.5)).clip(-INPUT_BOUND, INPUT_BOUND)
        assert expected.dtype == np.float32 and np.array_equal(standards(100, mean, spreads), expected)
