"""Views of images: samples <-> ranks of values and indices of colours."""

import numpy as np
import pngs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dqcodec import png
from dqcodec.base.errors import CorruptError
from dqcodec.codec import codec
from dqcodec.codec.views import chain, find_views
from dqcodec.format.values import Map, Values

quick = settings(max_examples=80)


def image(samples, bit_depth=8):
    return png.read(pngs.write(samples, bit_depth))


@quick
@given(
    st.sampled_from([8, 16]),
    st.lists(st.sampled_from(["few", "many", "zero", "full", "one", "first"]), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0),
)
def test_every_view_gives_the_image_again(bit_depth, kinds, height, width, seed):
    rng = np.random.default_rng(seed)
    full = (1 << bit_depth) - 1
    levels = rng.integers(0, full + 1, 5)
    channels = [rng.choice(levels, (height, width))]
    for kind in kinds[1:]:
        channels.append(
            {
                "few": rng.choice(levels, (height, width)),
                "many": rng.integers(0, full + 1, (height, width)),
                "zero": np.zeros((height, width), int),
                "full": np.full((height, width), full),
                "one": np.full((height, width), levels[0]),
                "first": channels[0],
            }[kind]
        )
    source = image(np.stack(channels, axis=-1), bit_depth)
    for kind, view in find_views(source).items():
        if not view.code:
            assert view.image is source and kind == Values.SAMPLES
            continue
        found = Map.unpack(view.code, source.header)
        assert found.kind == kind and found.pack() == view.code
        assert found.view(source.skeleton) == view.image.skeleton
        assert found.undo(view.image, source.skeleton).same(source)


@quick
@given(st.binary(max_size=40), st.sampled_from(pngs.KINDS))
def test_any_bytes_are_a_map_that_packs_again_or_a_named_error(code, kind):
    header = png.Header(3, 2, *kind)
    try:
        found = Map.unpack(code, header)
    except CorruptError as error:
        assert "\n" not in str(error)
    else:
        assert found.pack() == code
        assert 1 <= found.view(png.Skeleton(header)).header.samples <= 4


@pytest.mark.parametrize(
    "modes",
    [(7, 7, 7), (1, 0, 0), (0, 2, 0), (0, 1, 2), (0, 0, 4), (0, 0, 0, 0)],
    ids=["nothing left", "of itself", "of itself too", "of a copy", "of a later one", "of no channel"],
)
def test_modes_that_no_image_has_are_refused(modes):
    number = sum(mode << 3 * channel for channel, mode in enumerate(modes)) | (len(modes) == 4) << 9
    with pytest.raises(CorruptError):
        Map.unpack(number.to_bytes(2, "little"), png.Header(3, 2, 2, 8))


def test_a_place_beyond_its_table_is_refused():
    source = image(np.array([[[3], [9], [200]]]))
    view = find_views(source)[Values.RANKS]
    view.image.pixels[0, 0] = 3
    with pytest.raises(CorruptError):
        Map.unpack(view.code, source.header).undo(view.image, source.skeleton)


def test_gray_that_is_stored_as_opaque_colour_has_one_channel():
    gray = np.add.outer(np.arange(300), np.arange(300)) % 251
    source = image(np.stack([gray, gray, gray, np.full_like(gray, 255)], axis=-1))
    (view,) = find_views(source).values()
    assert view.code == (1 << 3 | 1 << 6 | 7 << 9).to_bytes(2, "little")
    assert view.image.header[2:] == (0, 8) and np.array_equal(view.image.pixels[..., 0], gray)


def test_stretched_photographs_have_ranks_and_others_their_samples():
    rng = np.random.default_rng(0)
    smooth = np.add.outer(np.arange(300), np.arange(300))[..., None] // 5 + rng.integers(0, 30, (300, 300, 1))
    assert list(find_views(image(smooth))) == [Values.SAMPLES]
    stretched = np.round(smooth * 1.6).astype(int)
    (view,) = find_views(image(stretched)).values()
    assert np.array_equal(view.image.pixels, smooth)
    assert list(find_views(image(smooth * 257, 16))) == [Values.SAMPLES]


def test_depth_of_few_values_has_one_layer_of_bytes():
    depth = np.add.outer(np.arange(280), np.arange(280))[..., None] // 3 * 97
    (view,) = find_views(image(depth, 16)).values()
    assert view.image.header[2:] == (0, 8) and view.image.pixels.dtype == np.uint8


@pytest.mark.parametrize("has_alpha", [False, True])
def test_shades_in_a_palette_of_any_order_are_seen_by_brightness(has_alpha):
    rng = np.random.default_rng(0)
    order = rng.permutation(120)
    surface = np.add.outer(np.arange(90), np.arange(90)) // 2 + rng.integers(0, 3, (90, 90))
    shades = np.uint8(60 if has_alpha else 255 * np.arange(120) // 119)[..., None].repeat(3, -1).reshape(-1, 3)
    entries, alphas = np.empty((120, 3), np.uint8), np.empty(120, np.uint8)
    entries[order], alphas[order] = shades, np.arange(120)
    chunks = pngs.chunk(b"PLTE", entries.tobytes()) + pngs.chunk(b"tRNS", alphas.tobytes()) * has_alpha
    data = pngs.write(order[surface][..., None], color_type=3)
    data = data.replace(pngs.chunk(b"PLTE", bytes(range(256)) * 3), chunks)
    source = png.read(data)
    view = find_views(source)[Values.RANKS]
    assert view.image.header[2:] == (0, 8) and np.array_equal(view.image.pixels[..., 0], surface)
    coded, _ = codec.compress(data)
    assert codec.decompress(coded, lambda model_id: None)[0] == png.write(source)
    in_order = pngs.write(surface[..., None], color_type=3)
    assert list(find_views(png.read(in_order))) == [Values.SAMPLES]
    assert len(coded) < len(codec.compress(in_order)[0]) + 400  # the palette's order


def test_each_colour_of_a_chain_is_followed_by_the_nearest_that_is_left():
    colors = np.unique(np.random.default_rng(2).integers(0, 1 << 16, (90, 4)), axis=0)
    ordered = colors[chain(colors)]
    assert sorted(map(tuple, ordered)) == sorted(map(tuple, colors)) and ordered[0].sum() == colors.sum(1).min()
    for place, color in enumerate(ordered[:-1]):
        away = ((ordered[place + 1 :] - color) ** 2).sum(1)
        assert away[0] == away.min()


def test_hues_in_a_palette_of_any_order_are_seen_in_a_chain():
    hues = np.zeros((120, 3), np.uint8)  # of one brightness
    hues[:, 0], hues[:, 2] = 2 * np.arange(120), 240 - 2 * np.arange(120)
    order = np.random.default_rng(0).permutation(120)
    entries = np.empty_like(hues)
    entries[order] = hues
    surface = np.add.outer(np.arange(90), np.arange(90)) // 2
    data = pngs.write(order[surface][..., None], color_type=3)
    data = data.replace(pngs.chunk(b"PLTE", bytes(range(256)) * 3), pngs.chunk(b"PLTE", entries.tobytes()))
    seen = find_views(png.read(data))[Values.RANKS].image.pixels[..., 0].astype(int)
    assert abs(np.diff(seen)).max() == 1


def test_a_file_says_what_its_layers_hold():
    gray = np.add.outer(np.arange(260), np.arange(260)) % 251
    data = pngs.write(np.stack([gray, gray, gray, np.full_like(gray, 255)], axis=-1))
    coded, report = codec.compress(data)
    assert [layer.name for layer in report.layers] == ["gray"]
    assert codec.decompress(coded, lambda model_id: None)[0] == png.write(png.read(data))
