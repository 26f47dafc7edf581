import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import png
from dqcodec.base.errors import CorruptError
from dqcodec.codec.source import Source
from dqcodec.format import palette
from dqcodec.format.head import Entry
from dqcodec.format.split import Split, Step, skeleton

quick = settings(max_examples=60)


def image(color_type, bit_depth, samples, chunks=()):
    header = png.Header(samples.shape[1], samples.shape[0], color_type, bit_depth)
    return png.Png(header, png.Skeleton(header, (chunks, ())), (samples,))


def source_of(image):
    return Source(image, b"")


def assert_every_split_is_undone(source):
    tried = source_of(source)
    for split in tried.splits:
        found = tried.views[split.values]
        view = found.image
        arrays = split.apply(view.pixels, view.skeleton)
        assert {array.dtype for array in arrays} == {np.dtype(np.uint16 if split.step == Step.WHOLE else np.uint8)}
        assert [array.shape for array in arrays] == split.shapes(source.pixels.shape[:2], view.skeleton)
        assert len(arrays) == len(split.names(view.skeleton)) == len(split.modelled(view.skeleton))
        assert Entry(skeleton(source, split), split, values=found.code).undo([arrays]).same(source)


@quick
@given(st.sampled_from(pngs.KINDS), st.integers(1, 9), st.integers(1, 9), st.integers(0), st.booleans())
def test_every_split_is_undone(kind, height, width, seed, has_alphas):
    color_type, bit_depth = kind
    rng = np.random.default_rng(seed)
    dtype = np.uint16 if bit_depth == 16 else np.uint8
    samples = rng.integers(0, 1 << bit_depth, (height, width, pngs.SAMPLES[color_type])).astype(dtype)
    chunks = (png.Chunk(b"PLTE", rng.bytes(3 << min(8, bit_depth))),) if color_type == 3 else ()
    chunks += (png.Chunk(b"tRNS", rng.bytes(2)),) if has_alphas else ()
    assert_every_split_is_undone(image(color_type, bit_depth, samples, chunks))


@pytest.mark.parametrize(
    "has_alphas, split",
    [(False, Split(Step.COLORS)), (True, Split(Step.COLORS)), (True, Split(Step.COLORS, alpha=True))],
)
def test_a_palette_comes_back_from_colours_with_alpha_together_or_apart(has_alphas, split):
    rng = np.random.default_rng(2)
    chunks = (
        png.Chunk(b"PLTE", bytes([1, 2, 3, 1, 2, 3, 7, 8, 9])),
        *([png.Chunk(b"tRNS", bytes([9, 0]))] if has_alphas else []),
    )
    entries = [0, 2] if not has_alphas else [0, 1, 2]  # without alphas the first two colours are equal
    source = image(3, 8, rng.choice(entries, (6, 5, 1)).astype(np.uint8), chunks)
    layers = split.apply(source.pixels, source.skeleton)
    assert [layer.shape for layer in layers] == split.shapes((6, 5), source.skeleton)
    assert split.undo([layers], skeleton(source, split)).same(source)


def test_scaled_samples_are_bytes_and_others_are_whole_or_cut_if_small():
    scaled = np.arange(60).reshape(4, 5, 3).astype(np.uint16) * np.uint16(257)
    assert source_of(image(2, 16, scaled)).splits == [Split(Step.SCALED)]
    scaled[3, 4, 2] ^= 1
    assert source_of(image(2, 16, scaled)).splits == [Split(Step.WHOLE), Split(Step.BYTES), Split(Step.RESIDUAL)]
    assert_every_split_is_undone(image(2, 16, scaled))


def test_smooth_samples_have_small_residuals():
    slope = np.add.outer(np.arange(50), np.arange(40))[..., None].astype(np.uint16) * np.uint16(31) + np.uint16(60000)
    high, low = Split(Step.RESIDUAL).apply(slope % np.uint16(65535), image(0, 16, slope).skeleton)
    assert high[1:, 1:].max() == 0 and low[1:, 1:].max() <= 62


def test_models_do_not_code_indices_and_whole_samples():
    for color_type, bit_depth in pngs.KINDS:
        samples = np.zeros((16, 20, pngs.SAMPLES[color_type]), np.uint16 if bit_depth == 16 else np.uint8)
        if bit_depth == 16:
            samples += np.random.default_rng(1).permutation(320).astype(np.uint16).reshape(16, 20, 1)
            samples[0] += np.arange(samples.shape[2], dtype=np.uint16)
        source = image(color_type, bit_depth, samples, (png.Chunk(b"PLTE", bytes(768)),))
        assert bool(source_of(source).splits_for_models) == (color_type != 3 and bit_depth < 16)


@quick
@given(
    st.integers(1, 256),
    st.integers(1, 60),
    st.sampled_from([3, 4]),
    st.sampled_from(["any", "sorted", "first"]),
    st.integers(0),
)
def test_a_palette_is_coded_by_the_colours_that_are_used(count, used, channels, order, seed):
    rng = np.random.default_rng(seed)
    entries = rng.integers(0, 256, (count, channels), np.uint8)
    entries[count // 2 :, 3:] |= 255 * (seed & 1)
    indices = rng.integers(0, min(used, count), (6, 10, 1)).astype(np.uint8)
    if order == "sorted":
        entries = np.unique(entries, axis=0)
        indices %= np.uint8(len(entries)) if len(entries) < 256 else 255
    chunks = [png.Chunk(b"PLTE", entries[:, :3].tobytes())]
    chunks += [png.Chunk(b"tRNS", entries[:-1, 3].tobytes())] if channels == 4 else []
    source = image(3, 8, indices, tuple(chunks))
    colors = palette.table(source.skeleton)[indices[..., 0]]
    compact = palette.compact(source.skeleton, [colors])
    assert palette.expand(compact, [colors]) == source.skeleton
    assert len(compact.find(b"PLTE")) <= len(source.skeleton.find(b"PLTE")) + 3 + len(entries)


def test_a_palette_in_order_takes_no_bytes():
    entries = np.repeat(np.arange(0, 250, 2, dtype=np.uint8)[:, None], 3, axis=1)
    source = image(3, 8, np.arange(125, dtype=np.uint8)[:, None, None], (png.Chunk(b"PLTE", entries.tobytes()),))
    assert palette.compact(source.skeleton, [entries[:, None]]).find(b"PLTE") == b""


@quick
@given(st.lists(st.tuples(*[st.integers(0, 255)] * 4), min_size=1, max_size=40, unique=True), st.integers(0))
def test_palettes_sorted_by_alpha_and_colour_take_few_bytes(colors, seed):
    entries = np.array(sorted((alpha, *color) for *color, alpha in colors), np.uint8)[:, [1, 2, 3, 0]]
    indices = np.random.default_rng(seed).permutation(len(entries)).astype(np.uint8)[:, None, None]
    used = int(np.flatnonzero(entries[:, 3] < 255).max(initial=-1)) + 1
    chunks = png.Chunk(b"PLTE", entries[:, :3].tobytes()), png.Chunk(b"tRNS", entries[:used, 3].tobytes())
    source = image(3, 8, indices, chunks)
    shown = [entries[indices[..., 0]]]
    compact = palette.compact(source.skeleton, shown)
    assert len(compact.find(b"PLTE")) <= 2 and compact.find(b"tRNS") == b""
    assert palette.expand(compact, shown) == source.skeleton


def test_ambiguous_indices_stay_indices():
    twice = (png.Chunk(b"PLTE", bytes(6)),)
    indices = np.array([[[1], [0]]], np.uint8)
    for samples, chunks in ((indices, twice), (indices * 9, twice), (indices, (*twice, png.Chunk(b"tRNS", bytes(3))))):
        assert source_of(image(3, 8, samples, chunks)).splits == [Split(Step.PLAIN)]


@pytest.mark.parametrize("count", [b"\x63", b"\x01\x63"])
def test_the_number_of_alphas_is_a_varint_of_at_most_all_entries(count):
    source = image(3, 8, np.zeros((1, 2, 1), np.uint8), (png.Chunk(b"PLTE", b""), png.Chunk(b"tRNS", count)))
    with pytest.raises(CorruptError):
        palette.expand(source.skeleton, [np.arange(8, dtype=np.uint8).reshape(1, 2, 4)])


@quick
@given(st.binary(max_size=30))
def test_any_bytes_are_a_palette_or_a_named_error(code):
    source = image(3, 8, np.zeros((2, 2, 1), np.uint8), (png.Chunk(b"PLTE", code),))
    try:
        restored = palette.expand(source.skeleton, [np.arange(12, dtype=np.uint8).reshape(2, 2, 3)])
    except CorruptError as error:
        assert "\n" not in str(error)
    else:
        assert 12 <= len(restored.find(b"PLTE")) <= 768


def test_samples_out_of_range_are_corrupt():
    source = image(0, 4, np.full((2, 2, 1), 15, np.uint8))
    with pytest.raises(CorruptError):
        Split(Step.PLAIN).undo([[source.pixels + np.uint8(1)]], source.skeleton)
