"""Animations: frames come back with every way to dispose and to blend, and see the canvas that earlier frames left."""

import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import png
from dqcodec.base.errors import CorruptError
from dqcodec.codec import codec, source
from dqcodec.codec.group import encode_sets
from dqcodec.format.canvas import Canvas, Spot
from dqcodec.format.layer import Method
from dqcodec.format.split import Split, Step
from dqcodec.methods import animation, pixel_mixing

KEEP, CLEAR, RESTORE = range(3)  # dispose_op
REPLACE, OVER = range(2)  # blend_op
SIZE = 12, 15
RNG = np.random.default_rng(0)

corners = st.tuples(st.integers(0, SIZE[0] - 1), st.integers(0, SIZE[1] - 1))
placed = st.builds(
    lambda corner, image, is_low, stays, is_over, clear: (
        Spot((image, 0), SIZE, *corner, stays, is_over, clear),
        (1, 1) if is_low else (SIZE[0] - corner[0], SIZE[1] - corner[1]),
    ),
    corners, st.integers(0, 2), st.booleans(), st.booleans(), st.booleans(), st.none() | st.just(0),
)  # fmt: skip


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    return RNG.integers(0, 200, (height, width, channels)).astype(np.uint8)


def compressed(default: np.ndarray, frames: list, **options) -> int:
    """The bytes of an animation's .dqc file. The animation comes back, and its method is animation."""
    data = pngs.animated(default, frames, **options)
    dqc, report = codec.compress(data)
    assert report.method == Method.ANIMATION.label
    assert png.read(codec.decompress(dqc, {}.__getitem__)[0]).same(png.read(data))
    return len(dqc)


@settings(max_examples=60)
@given(st.lists(placed, min_size=1, max_size=6), st.integers(1, 4), st.integers(1, 256), st.integers(0))
def test_layers_at_any_spots_of_several_canvases_come_back_together(placed, channels, colors, seed):
    rng = np.random.default_rng(seed)
    layers = [rng.integers(0, colors, (*size, channels)).astype(np.uint8) for _, size in placed]
    clears = {spot.canvas: spot.clear for spot, _ in placed}  # a canvas has one
    spots = [spot._replace(clear=clears[spot.canvas]) for spot, _ in placed]
    payload = animation.encode(layers, spots=spots)
    assert sum(payload.sizes) == len(payload.data) and len(payload.sizes) == len(layers)
    found = [spot._replace(clear=None) for spot in spots]  # the payload says it
    decoded = animation.decode(payload.data, [layer.shape for layer in layers], spots=found)
    assert all(np.array_equal(*pair) for pair in zip(decoded, layers, strict=True))


def test_the_canvas_keeps_what_apng_keeps():
    canvas, whole = Canvas((2, 3), 0), Spot((0, 0), (2, 3), 0, 0, True, False)
    assert canvas.is_blank
    canvas.draw(whole._replace(stays=False), np.full((2, 3), 5, np.uint32))
    assert canvas.is_blank
    canvas.draw(whole, np.full((2, 3), 7, np.uint32))
    canvas.draw(whole._replace(left=1, is_over=True), np.array([[0, 8], [9, 0]], np.uint32))
    canvas.draw(whole._replace(top=1, left=2), np.array([[0]], np.uint32))
    assert not canvas.is_blank
    assert canvas.region(whole, 2, 3).tolist() == [[7, 7, 8], [7, 9, 0]]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_frame_that_changes_little_costs_little(channels):
    background = noise(40, 50, channels)
    moved = background.copy()
    moved[10:14, 20:24] = noise(4, 4, channels)
    alone = compressed(background, [((0, 0), background)])
    assert compressed(background, [((0, 0), moved), ((3, 5), moved[3:, 5:])]) < alone + 200
    assert alone < 1.15 * len(pixel_mixing.encode([background]).data) + 200


def test_frames_lie_where_their_control_chunks_say():
    ways = [(RESTORE, REPLACE), (CLEAR, OVER), (KEEP, 9)]
    frames = [((number, 2), noise(3, 4)) for number in range(3)]
    image = source.read(pngs.animated(noise(*SIZE), frames, ways=ways))
    assert image.spots(Split(Step.PLAIN), 5) == [
        Spot((5, 0), SIZE, 0, 0, stays=False, is_over=False),
        Spot((5, 0), SIZE, 0, 2, stays=True, is_over=True),
        Spot((5, 0), SIZE, 1, 2, stays=True, is_over=False),
        Spot((5, 0), SIZE, 2, 2, stays=False, is_over=False),
    ]


@pytest.mark.parametrize("color_type, bit_depth", pngs.KINDS)
def test_animations_of_all_kinds_come_back_alone_and_together(color_type, bit_depth):
    ways = [(KEEP, REPLACE), (CLEAR, OVER), (RESTORE, OVER), (KEEP, OVER)]
    chunks = pngs.chunk(b"tRNS", b"\0\xff") if color_type == 3 else b""
    files = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        first, *others = rng.integers(0, 1 << bit_depth, (5, 9, 11, pngs.SAMPLES[color_type]))
        frames = [((number, 2), samples[number:, 2 : 10 - number]) for number, samples in enumerate(others)]
        files.append(pngs.animated(first, frames, bit_depth, color_type, bool(seed), before=chunks, ways=ways))
    for data in files:
        assert png.read(codec.decompress(codec.compress(data)[0], {}.__getitem__)[0]).same(png.read(data))
    files.append(pngs.write(RNG.integers(0, 9, (9, 11, 3))))
    sources = [source.read(data) for data in files]
    numbers = sorted(number for numbers, _ in encode_sets(sources, []) for number in numbers)
    assert numbers == [0, 1, 2]


def test_a_canvas_has_the_transparent_pixel_that_is_most_frequent():
    samples = np.array([[[9, 0], [9, 0], [1, 0], [7, 255]]])
    image = source.read(pngs.animated(samples, [((0, 0), samples)]))
    assert [spot.clear for spot in image.spots(Split(Step.PLAIN), 0)] == [9, 9]  # alpha first
    assert [spot.clear for spot in image.spots(Split(Step.PLAIN, True), 0)] == [9, 0, 9, 0]
    opaque = source.read(pngs.animated(samples[..., :1], [((0, 0), samples[..., :1])]))
    assert {spot.clear for spot in opaque.spots(Split(Step.PLAIN), 0)} == {None}


@settings(max_examples=60)
@given(st.binary(max_size=60))
def test_any_bytes_decode_to_all_shapes_or_are_corrupt(data):
    shapes = [(5, 7, 3), (1, 1, 3), (4, 2, 3)]
    spots = [Spot((0, 0), (5, 7), 0, 0, True, True), *[Spot((0, 0), (5, 7), 1, 2, False, False)] * 2]
    try:
        assert [pixels.shape for pixels in animation.decode(data, shapes, spots=spots)] == shapes
    except CorruptError:
        pass


@pytest.mark.parametrize("head", ["", "00", "0000", "0009", "8180808010" + "08", "80"])
def test_heads_that_cannot_be_are_corrupt(head):
    with pytest.raises(CorruptError):
        animation.decode(bytes.fromhex(head), [(2, 2, 1)], spots=[Spot((0, 0), (2, 2), 0, 0, True, True)])
