"""What mixing leaves out: splits that another one surely beats."""

import fake_learned
import numpy as np
import pngs
import pytest

from dqcodec import png
from dqcodec.codec import candidates, choose, codec, mixed_splits, trial
from dqcodec.codec.effort import Effort
from dqcodec.codec.suitability import new_part, repeated_part
from dqcodec.codec.views import repeats_colors
from dqcodec.codec.ways import CodedLayer
from dqcodec.format.layer import Layer, Method
from dqcodec.format.split import Split, Step
from dqcodec.format.values import Values
from dqcodec.methods import classical, table
from dqcodec.methods.payload import Payload

BESIDE, APART = Split(Step.PLAIN), Split(Step.PLAIN, alpha=True)
RNG = np.random.default_rng(3)


def blocks(side: int) -> np.ndarray:
    """512 colours, each in one square of this side: (16 side, 32 side, 3)."""
    return np.kron(RNG.integers(0, 256, (16, 32, 3)), np.ones((side, side, 1), int)).astype(np.uint8)


def dithered() -> np.ndarray:
    """300 colours in no order (200, 200, 3)."""
    return RNG.integers(0, 256, (300, 3))[RNG.integers(0, 300, (200, 200))].astype(np.uint8)


def soft(height=80, width=110) -> np.ndarray:
    """A slope with noise, and alpha that has nothing to do with it, (H, W, 4)."""
    slope = np.add.outer(np.arange(height), np.arange(width))[..., None] + RNG.integers(0, 9, (height, width, 3))
    ring = np.hypot(*np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]) * 160
    return np.dstack([slope % 256, ring]).astype(np.uint8)


def coded(method: Method, size: float) -> CodedLayer:
    return CodedLayer(Layer(method), b"", size)


def mixed_splits_of(data: bytes) -> set[Split]:
    """The splits of a lone image in which something is mixed, or coded by experts."""
    return {split for _, split, _ in candidates._mixed({0: codec.read(data)}, set(), {}, set(), Effort.USUAL)}


@pytest.mark.parametrize(("pixels", "is_large"), [(blocks(4), True), (dithered(), False)])
def test_indices_are_mixed_unless_their_table_is_a_large_part_of_the_image(pixels, is_large):
    source = codec.read(pngs.write(pixels))
    (indices,) = [split for split in source.splits if split.step == Step.PAIRS]
    assert mixed_splits.has_large_table(source, indices) == is_large
    assert not mixed_splits.has_large_table(source, Split(Step.PLAIN))


def test_bytes_of_16_bits_are_mixed_only_in_the_view_that_experts_code_smallest():
    few = RNG.integers(0, 1 << 16, 300)[RNG.integers(0, 300, (40, 50, 1))]
    found = mixed_splits_of(pngs.write(few, 16))
    assert {split.values for split in found if split.step == Step.WHOLE} == {Values.RANKS, Values.SAMPLES}
    assert {split.values for split in found if split.step in (Step.BYTES, Step.RESIDUAL)} == {Values.RANKS}


@pytest.mark.parametrize(("colors", "is_mixed"), [(400, True), (1 << 20, False)])
def test_a_large_image_of_16_bits_is_mixed_by_one_step_if_its_colours_repeat(colors, is_mixed):
    pixels = RNG.integers(0, 1 << 16, (colors, 3))[RNG.integers(0, colors, (130, 140))]
    found = mixed_splits_of(pngs.write(pixels, 16))
    of_bytes = [split for split in found if split.step in (Step.BYTES, Step.RESIDUAL)]
    assert [split.values for split in of_bytes] == [Values.SAMPLES] * is_mixed


def test_colours_repeat_if_few_pixels_that_differ_from_neighbours_have_new_ones():
    flat, noise = np.zeros((20, 20, 3), int), RNG.integers(0, 256, (20, 20, 3))
    known = np.tile(noise[:4], (5, 1, 1))
    for pixels, repeats in ((flat, False), (noise, False), (known, True), (known[..., :1], False)):
        assert repeats_colors(png.read(pngs.write(pixels))) == repeats


@pytest.mark.parametrize(("bytes_by_step", "is_tried"), [((100, 114), True), ((100, 116), False)])
def test_alpha_is_mixed_beside_colours_of_16_bits_only_by_steps_that_are_near_the_best(bytes_by_step, is_tried):
    source = codec.read(pngs.write(RNG.integers(0, 1 << 16, (9, 9, 4)), 16))
    steps = (Step.BYTES, Step.RESIDUAL)
    mixed = {
        (0, Split(step, True), layer): [coded(Method.TRAINED_MIXING, size)]
        for step, size in zip(steps, bytes_by_step)
        for layer in range(4)
    }
    assert mixed_splits.may_win(source, Split(Step.RESIDUAL), mixed, {}) == is_tried
    assert mixed_splits.may_win(source, Split(Step.BYTES), mixed, {})


@pytest.mark.parametrize(("model_bytes", "is_tried"), [(3000, False), (1e6, True)])
def test_alpha_that_colours_do_not_foretell_is_mixed_beside_them_only_if_no_model_is_ahead(model_bytes, is_tried):
    source = codec.read(pngs.write(soft()))
    mixed = {(0, APART, layer): [coded(Method.TRAINED_MIXING, 3000)] for layer in range(2)}
    modelled = {(0, APART, 0): [coded(Method.AUTOREGRESSIVE, 0.8 * model_bytes)]}
    assert mixed_splits.may_win(source, APART, {}, modelled)
    assert mixed_splits.may_win(source, BESIDE, {}, modelled)  # nothing is known yet
    assert mixed_splits.may_win(source, BESIDE, mixed, modelled) == is_tried


@pytest.mark.parametrize(("saved", "is_tried"), [(0.3, False), (-0.1, True)])
def test_the_alpha_of_a_drawing_is_settled_if_its_colours_foretell_it(monkeypatch, saved, is_tried):
    """saved: the part of alpha's bytes that mixing saves where it codes alpha beside the colours."""
    source = codec.read(pngs.write(soft()))
    sizes = {(0, APART, 0): 3000, (0, APART, 1): 1000, (0, BESIDE, 0): 4000 - 1000 * saved}
    mixed = {place: [coded(Method.TRAINED_MIXING, size)] for place, size in sizes.items()}
    programs, bits = (
        [fake_learned.Program(kind="autoregressive")],
        {3: 1e9, 1: 8 * 1.4 * 1000},
    )  # of a model, by channels
    monkeypatch.setattr(trial, "drawing_bits", lambda pixels, *_: bits[pixels.shape[2]])
    settled = candidates._far_smaller({0: source}, programs, Effort.USUAL, mixed)
    assert settled == {(0, APART, 0)} | (set() if is_tried else {(0, APART, 1)})
    assert not candidates._far_smaller({0: source}, [], Effort.USUAL, mixed)
    bits[3] = 0.0  # a model codes the colours, so both layers may be smaller apart
    assert not candidates._far_smaller({0: source}, programs, Effort.USUAL, mixed)


@pytest.mark.parametrize(("estimate", "tried"), [(1e9, {3}), (1, {1, 3})])
def test_no_model_is_tried_on_drawn_alpha_that_mixing_codes_in_few_bits(monkeypatch, estimate, tried):
    """estimate: the bits of a drawing by a model. The colours are noise, which no sample can settle."""
    channels = set()
    monkeypatch.setattr(
        candidates, "by_model", lambda layers, *_: channels.add(layers[0].shape[2]) or [[] for _ in layers]
    )
    monkeypatch.setattr(trial, "drawing_bits", lambda *_: estimate)
    pixels = np.dstack([RNG.integers(0, 256, (140, 150, 3)), 255 * (soft(140, 150)[..., 3] > 80)]).astype(np.uint8)
    programs = [fake_learned.Program(kind="autoregressive")]
    ways = candidates.code_together({0: codec.read(pngs.write(pixels))}, programs, Effort.USUAL)
    assert channels == tried and [way.layer.method for way in ways[0, APART, 1]][0] == Method.TRAINED_MIXING


def test_layers_that_leave_a_common_payload_do_not_make_a_split_look_smaller(monkeypatch):
    def common(method, size):
        return CodedLayer(Layer(method), method.name.encode(), size, together=2)

    ways = {
        (0, APART, 0): [common(Method.TRAINED_MIXING, 900), common(Method.EXPERTS, 500)],
        (0, APART, 1): [common(Method.TRAINED_MIXING, 150), common(Method.EXPERTS, 450)],
        (0, BESIDE, 0): [coded(Method.TRAINED_MIXING, 1000)],
    }
    monkeypatch.setattr(table, "encode", lambda *_: Payload(bytes(700)))  # what a layer takes without the other
    source = codec.read(pngs.write(soft()[..., 2:]))
    choices = choose._thorough(0, source, source.splits, ways)
    best = min(choices, key=lambda choice: choice.size)
    assert [each.layer.method for each in best.coded] == [Method.EXPERTS, Method.EXPERTS]
    assert sum(each.bytes for each in best.coded) == 950


@pytest.mark.parametrize(("size", "is_mixed"), [(1e5, True), (1e3, False)])
def test_indices_are_mixed_only_if_they_may_save_more_than_their_table_takes(size, is_mixed):
    source = codec.read(pngs.write(dithered()))
    (indices,) = [split for split in source.splits if split.step == Step.PAIRS]
    mixed = {(0, BESIDE, 0): [coded(Method.TRAINED_MIXING, size)]}
    assert mixed_splits.may_win(source, indices, mixed, {}) == is_mixed
    assert mixed_splits.may_win(source, indices, {}, {})  # nothing is known yet
    part = {(0, APART, 1): [coded(Method.TRAINED_MIXING, 1)]}  # of the layers
    assert mixed_splits.may_win(codec.read(pngs.write(soft())), indices, part, {})


@pytest.mark.parametrize(("part", "is_mixed"), [(0.8, True), (1.0, False)])
def test_a_sample_shows_whether_indices_of_a_large_image_save_more_than_their_table(monkeypatch, part, is_mixed):
    source = codec.read(pngs.write(dithered()))
    (indices,) = [split for split in source.splits if split.step == Step.PAIRS]
    monkeypatch.setattr(trial, "mixing_bits", lambda layers: 1e4 * (part if layers[0].shape[2] == 2 else 1))
    mixed = {(0, BESIDE, 0): [coded(Method.TRAINED_MIXING, 1e4)]}
    assert mixed_splits.may_win(source, indices, mixed, {}) == is_mixed


def test_a_sample_shows_whether_alpha_is_better_beside_the_colours():
    same = np.repeat(RNG.integers(0, 256, (64, 64, 1)), 4, 2).astype(np.uint8)
    assert trial.alpha_ratio([same]) < 0.7 and trial.alpha_ratio([soft(64, 64)]) > 0.98


def searches(monkeypatch, sizes: dict) -> list:
    """The searches of WebP that are made from now on; sizes: the bytes that each finds."""
    made = []

    def by_webp(pixels, search):
        made.append(search)
        return coded(Method.CLASSICAL, sizes[search])

    monkeypatch.setattr(choose, "by_webp", by_webp)
    return made


@pytest.mark.parametrize(
    ("quick", "made"),
    [
        (2000, [classical.QUICK]),
        (1050, [classical.QUICK, classical.THOROUGH]),
        (1000, [classical.QUICK, classical.THOROUGH, classical.SLOWEST]),
    ],
)
def test_webp_searches_on_only_where_it_may_win_and_slowest_where_it_has_won(monkeypatch, quick, made):
    found = searches(
        monkeypatch, {classical.QUICK: quick, classical.THOROUGH: 0.96 * quick, classical.SLOWEST: 0.95 * quick}
    )
    source = codec.read(pngs.write(soft()[..., :3]))
    ways = {(0, BESIDE, 0): [coded(Method.MIXING, 1000)]}
    choices = choose._thorough(0, source, source.splits, ways)
    assert found == made
    assert min(choice.coded[0].bytes for choice in choices) == (0.95 * quick if classical.SLOWEST in made else 1000)


@pytest.mark.parametrize("pixels", [soft(), soft(20, 30), blocks(4)], ids=["soft", "small", "blocks"])
def test_what_is_left_out_never_changes_the_image(pixels):
    data = pngs.write(pixels)
    dqc, report = codec.compress(data)
    assert report.verified and len(dqc) < len(data)


def test_pixels_of_a_layer_that_an_earlier_one_has_are_not_new():
    noise = RNG.integers(0, 256, (2, 40, 50, 3)).astype(np.uint8)
    assert new_part(noise[0]) > 0.9
    assert repeated_part([noise[0], noise[0]]) == 0.5 and repeated_part(noise) == 0
    assert repeated_part([np.pad(noise[0], ((0, 40), (0, 0), (0, 0)))]) < 0.05  # flat pixels are not counted
