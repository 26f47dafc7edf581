"""Tiny golden files: NAME.png, of 16 x 12 pixels or so, and NAME.dqc, for each method, split, packing and model.

What is here needs no torch. How an image is coded is said in full, as the choice of a method is no part of the format.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pngs

from dqcodec import png
from dqcodec.codec.source import Source
from dqcodec.codec.trial import multiplications
from dqcodec.exact.identity import file_id
from dqcodec.exact.jpeg.blocks import block_count
from dqcodec.exact.jpeg.decoding import SAMPLINGS, Jpeg, component_size
from dqcodec.exact.jpeg.tables import standard
from dqcodec.exact.mixing.experts import Kind
from dqcodec.exact.program import Program, load_program
from dqcodec.format import split
from dqcodec.format.canvas import Spot
from dqcodec.format.container import Group, owners, sample_checksum
from dqcodec.format.head import Entry
from dqcodec.format.layer import LEARNED, Layer, Method
from dqcodec.format.split import Split, Step
from dqcodec.format.values import Values
from dqcodec.frozen.jpeg import CHROMA, LUMA
from dqcodec.methods import experts, table
from dqcodec.png import dictionary, exact

HERE = Path(__file__).parent
TINY = HERE / "tiny"
_MODELS = HERE.parents[1] / "models"
FLOWS = ("uniform", "gaussian", "bipartite", "ard", "alternating", "interlaced")
SHIPPED = sorted([*_MODELS.glob("*.safetensors"), *(_MODELS / "earlier").glob("*.safetensors")])
EXAMPLE = np.array([[128, 129, 131, 130], [127, 130, 133, 131], [126, 129, 132, 140]])[..., None]  # of docs/format.md


@dataclass(frozen=True)
class Case:
    """png: makes the file. model: its file. is_reproducible: the bytes follow from the format and this package alone, not from
    what libwebp, zlib or liblzma of some release make. is_quick: without compiled loops, too. is_written: the package makes such
    files; it only reads others. is_short: as a short file. kind: of the layers that
    experts code."""

    png: Callable[[], bytes]
    method: Method
    model: Path | None = None
    split: Split = Split(Step.PLAIN)
    has_recipe: bool = False
    is_reproducible: bool = True
    is_quick: bool = True
    is_written: bool = True
    is_short: bool = False
    kind: Kind = Kind.NARROW


def smooth(height: int, width: int, channels: int, bits: int = 8, noise: float = 2, seed: int = 0) -> np.ndarray:
    """Slopes with some noise and a dark corner, (H, W, C) integers of `bits` bits."""
    rng = np.random.default_rng(seed)
    y, x = np.arange(height)[:, None, None], np.arange(width)[:, None]
    scale = 2.0 ** (bits - 8)
    levels = rng.uniform(60, 200, channels) + rng.uniform(-3, 3, channels) * y + rng.uniform(-3, 3, channels) * x
    pixels = ((levels + rng.normal(0, noise, levels.shape)) * scale).round().clip(0, (1 << bits) - 1).astype(np.int64)
    pixels[: height // 3, : width // 3] >>= 2
    return pixels


def planes(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Slanted planes with sharp edges before a background of 0, (H, W, 1) integers of 16 bits."""
    rng = np.random.default_rng(seed)
    y, x = np.arange(height)[:, None], np.arange(width)
    pixels = np.zeros((height, width))
    for far in (50000, 30000, 5000):
        plane = far + rng.uniform(-30, 30) * y + rng.uniform(-30, 30) * x
        (top, left), part = rng.uniform(0, 0.6, 2), 0.5
        inside = (
            (y >= top * height)
            & (y < (top + part) * height)
            & (x + y // 2 >= left * width)
            & (x < (left + part) * width)
        )
        pixels = np.where(inside, plane, pixels)
    return pixels.round().astype(np.int64)[..., None]


def flat(height: int, width: int, count: int, seed: int = 0) -> np.ndarray:
    """Patches of the numbers below count, (H, W, 1)."""
    rng = np.random.default_rng(seed)
    patches = rng.integers(0, count, (-(-height // 3), -(-width // 4), 1))
    return patches.repeat(3, 0).repeat(4, 1)[:height, :width]


def tiled(height: int, width: int, side: int) -> np.ndarray:
    """A dither of two values that repeats after `side` rows and columns, (height, width, 1)."""
    tile = np.random.default_rng(5).random((side, side)) < np.linspace(0, 0.9, side)
    return np.tile(tile, (height // side + 1, width // side + 1))[:height, :width, None].astype(np.uint8)


def decoded(height: int, width: int, channels: int) -> np.ndarray:
    """What a JPEG decoder makes of few coefficients, (H, W, 1 or 3), with a pixel changed."""
    rng = np.random.default_rng(7)
    sampling = SAMPLINGS[1 if channels == 3 else 0]
    sizes = [(height, width)] + [component_size(height, width, sampling)] * (channels - 1)
    levels = [rng.integers(-3, 4, (*map(block_count, size), 64)) * (rng.random(64) < 0.2) for size in sizes]
    tables = (standard(LUMA, 60), standard(CHROMA, 60))
    pixels = Jpeg(sampling, tables, tuple(each.astype(np.int16) for each in levels)).pixels(height, width)
    pixels[5, 6] ^= 3
    return pixels


def many() -> np.ndarray:
    """300 values of 16 bits, far from each other, (12, 25, 1)."""
    return 200 * np.random.default_rng(4).permutation(300).reshape(12, 25, 1)


def left_out() -> np.ndarray:
    """RGBA of few colours: blue is red, alpha is full, (16, 20, 4)."""
    red, green = 30 * flat(16, 20, 3), 40 + flat(16, 20, 5, seed=2)
    return np.concatenate([red, green, red, np.full_like(red, 255)], axis=2)


def profiles() -> bytes:
    """Chunks with compressed contents: a colour profile, texts, and a profile in hexadecimal digits."""
    exif = b"Exif\0\0II*\0" + bytes(range(90))
    dump = b"\nexif\n%8d\n" % len(exif) + b"".join(
        exif[n : n + 36].hex().encode() + b"\n" for n in range(0, len(exif), 36)
    )
    contents = {
        b"iCCP": (b"ICC profile\0\0", bytes(100) + b"acspMSFT" + dictionary.srgb_curve()[:900], 6),
        b"zTXt": (b"Raw profile type exif\0\0", dump, 9),
        b"iTXt": (b"Comment\0\1\0en\0Comment\0", b"so long, and thanks for all the fish, all the fish " * 9, 5),
    }
    return b"".join(
        pngs.chunk(kind, start + zlib.compress(content, level)) for kind, (start, content, level) in contents.items()
    )


def soft(side: int) -> np.ndarray:
    """A shaded disc with a soft edge on nothing, (side, side, 4)."""
    y, x = np.mgrid[:side, :side] - side / 2 + 0.5
    alpha = (255 * (side / 2 - 1 - np.hypot(y, x)) / 3).clip(0, 255).round()
    colors = np.stack([180 + 3 * y, 90 - 2 * x, 60 + y + x], axis=-1) * (alpha > 0)[..., None]
    return np.concatenate([colors, alpha[..., None]], axis=-1).astype(np.int64)


def noise(height: int, width: int, channels: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (height, width, channels))


def text(body: bytes) -> bytes:
    return pngs.chunk(b"tEXt", b"Comment\0" + body)


def palette(is_transparent: bool) -> bytes:
    """Of 14 colours in disorder, some of which no pixel has, as 8-bit indices."""
    rng = np.random.default_rng(8)
    chunks = pngs.chunk(b"PLTE", rng.permutation(200)[:42].astype(np.uint8).tobytes())
    chunks += pngs.chunk(b"tRNS", bytes([0, 128, 255, 7])) if is_transparent else b""
    samples = flat(5, 9, 14, seed=1)
    return png_of(samples, 3, 8, chunks)


def appearing() -> bytes:
    """Of 14 colours with alpha, all used, in the order in which they appear."""
    samples = flat(5, 20, 14, seed=1)
    found, first, indices = np.unique(samples, return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(first))
    rng = np.random.default_rng(9)
    chunks = pngs.chunk(b"PLTE", rng.permutation(200)[: 3 * len(found)].astype(np.uint8).tobytes())
    chunks += pngs.chunk(b"tRNS", bytes([0, 255, 7]))
    return png_of(ranks[indices].reshape(samples.shape), 3, 8, chunks)


def sorted_palette() -> bytes:
    """Of 13 colours, sorted by alpha, red, green and blue, one of which no pixel has."""
    table = np.random.default_rng(10).integers(0, 4, (13, 4)) * 85
    table = np.array(sorted(map(tuple, table.tolist())))[:, [1, 2, 3, 0]].astype(np.uint8)
    samples = np.random.default_rng(11).integers(0, 13, (6, 12, 1))
    chunks = pngs.chunk(b"PLTE", table[:, :3].tobytes()) + pngs.chunk(b"tRNS", table[:, 3].tobytes())
    return png_of(np.where(samples == 6, 7, samples), 3, 8, chunks)


def shades() -> bytes:
    """A slope of 20 shades of gray, more opaque where they are brighter, in a palette in disorder."""
    order = np.random.default_rng(12).permutation(20)
    table = np.empty((20, 4), np.uint8)
    table[order] = 12 * np.arange(20)[:, None]
    samples = order[np.add.outer(np.arange(20), np.arange(30)) * 2 // 5]
    chunks = pngs.chunk(b"PLTE", table[:, :3].tobytes()) + pngs.chunk(b"tRNS", table[:, 3].tobytes())
    return png_of(samples[..., None], 3, 8, chunks)


def frequent() -> bytes:
    """Chunks that have codes of their own, and chunks that are like them."""
    kinds = (b"gAMA", (45455).to_bytes(4, "big")), (b"sBIT", b"\b"), (b"gAMA", bytes(4)), (b"tRNS", bytes(2))
    return b"".join(pngs.chunk(*each) for each in kinds)


def png_of(samples: np.ndarray, color_type: int, bit_depth: int, before: bytes) -> bytes:
    """A PNG that has the palette that it is given."""
    height, width, _ = samples.shape
    stream = pngs.chunk(b"IDAT", b"".join(pngs.pieces(samples, bit_depth)))
    return pngs.SIGNATURE + pngs.header(width, height, bit_depth, color_type) + before + stream + pngs.chunk(b"IEND")


def animation() -> bytes:
    frames = [((1, 2), smooth(3, 2, 4, seed=5)), ((0, 0), smooth(4, 5, 4, seed=6))]
    return pngs.animated(smooth(4, 5, 4, seed=4), frames, between=text(b"between"), is_first=False)


def moving(channels: int, color_type: int | None = None, between: bytes = b"") -> bytes:
    """Frames of every way to be disposed of and blended: a square moves over a background, 0 is transparent."""
    background = flat(12, 15, 5, seed=7) * 20 + 30 + np.arange(channels)
    frames = []
    for number in range(6):
        samples = background[number : number + 7, 2 : 12 - number].copy()
        samples[1:3, number : number + 3] = np.arange(channels) * 9 + 200
        samples[4:, ::2] = 0 if number % 2 else samples[4:, ::2]
        frames.append(((number, 2), samples))
    ways = [(0, 0), (0, 1), (1, 1), (2, 0), (2, 1), (1, 0)]
    return pngs.animated(background, frames, color_type=color_type, ways=ways, between=between)


def _golden(name: str) -> Path:
    return HERE / f"{name}.safetensors"


def _flow(name: str, *, is_quick: bool = False, is_written: bool = True) -> Case:
    """Of tiles of two shapes, and strips."""
    pixels = smooth(5, 43, 3, noise=30, seed=2)
    return Case(lambda: pngs.write(pixels), Method.FLOW, _golden(name), is_quick=is_quick, is_written=is_written)


def _shipped(path: Path) -> Case:
    program = program_of(path)
    if (
        table.rows_of(program)[0].number == Method.FLOW
    ):  # eight tiles of the least height, of noise: its code is large enough to be lent from
        pixels = noise(program.multiple, 8 * program.tile, program.channels)
        is_written = path.parent == _MODELS  # mixing coded what was lent in files of earlier models
        return Case(lambda: pngs.write(pixels), Method.FLOW, path, is_quick=False, is_written=is_written)
    pixels, is_quick = smooth(10, 12, program.channels) >> 8 - program.bits, multiplications(program) <= 100_000
    return Case(lambda: pngs.write(pixels, program.bits), Method.AUTOREGRESSIVE, path, is_quick=is_quick)


@cache
def program_of(path: Path) -> Program:
    return load_program(path)


def cases() -> dict[str, Case]:
    """By their names."""
    method, step = Method, Step
    ranks = Split(step.PLAIN, values=Values.RANKS)
    return {
        "stored": Case(lambda: pngs.write(smooth(4, 6, 3), tail=b"after"), method.STORED),
        "raw": Case(lambda: pngs.write(noise(5, 6, 3), before=text(b"raw")), method.CLASSICAL),
        "webp": Case(lambda: pngs.write(smooth(10, 12, 2)), method.CLASSICAL, is_reproducible=False),
        "webp-rgb": Case(lambda: pngs.write(smooth(10, 12, 3)), method.CLASSICAL, is_reproducible=False),
        "deflate": Case(
            lambda: pngs.write(noise(2, 3, 1), before=pngs.chunk(b"tEXt", b"Software\0Matplotlib version 3.9, https://matplotlib.org/")),
            method.CLASSICAL, is_reproducible=False,
        ),
        "profiles": Case(lambda: pngs.write(noise(2, 3, 1), before=profiles()), method.CLASSICAL, is_reproducible=False),
        "lzma": Case(lambda: pngs.write(noise(2, 3, 1), before=text(b"long " * 999)), method.CLASSICAL, is_reproducible=False),
        "exact": Case(
            lambda: pngs.write(noise(9, 7, 3), interlace=True, idats=3, before=text(b"exact")), method.CLASSICAL, has_recipe=True
        ),
        "example": Case(lambda: pngs.write(EXAMPLE), method.AUTOREGRESSIVE, _golden("gray")),
        "autoregressive": Case(lambda: pngs.write(smooth(12, 16, 3)), method.AUTOREGRESSIVE, _golden("autoregressive")),
        "autoregressive-gray": Case(lambda: pngs.write(smooth(12, 16, 1)), method.AUTOREGRESSIVE, _golden("gray")),
        "autoregressive-alpha": Case(
            lambda: pngs.write(smooth(5, 30, 2)), method.AUTOREGRESSIVE, _golden("gray"), Split(step.PLAIN, True)
        ),
        "model-mixing": Case(lambda: pngs.write(smooth(6, 9, 3)), method.MODEL_MIXING, _golden("autoregressive")),
        # tiles of 24 columns and of 4, and of 40 rows, which are more than LANES
        "least-squares": Case(lambda: pngs.write(smooth(4, 28, 3)), method.AUTOREGRESSIVE, _golden("least-squares")),
        "least-squares-gray": Case(
            lambda: pngs.write(smooth(42, 5, 1)), method.AUTOREGRESSIVE, _golden("least-squares-gray"), is_quick=False
        ),
        # more than one step of 256 pixels
        "learning": Case(
            lambda: pngs.write(smooth(18, 24, 3)), method.AUTOREGRESSIVE, _golden("learning"), is_quick=False
        ),
        "learning-gray": Case(
            lambda: pngs.write(smooth(29, 26, 1)), method.AUTOREGRESSIVE, _golden("learning-gray"), is_quick=False
        ),
        "least-squares-mixing": Case(lambda: pngs.write(smooth(3, 5, 3)), method.MODEL_MIXING, _golden("least-squares")),
        "example-mixing": Case(lambda: pngs.write(EXAMPLE), method.MIXING),
        "mixing": Case(lambda: pngs.write(smooth(6, 9, 3)), method.MIXING),
        "mixing-gray-alpha": Case(lambda: pngs.write(smooth(4, 6, 2)), method.MIXING),
        "mixing-rgba": Case(lambda: pngs.write(smooth(4, 6, 4)), method.MIXING),
        "mixing-1-bit": Case(lambda: pngs.write(flat(11, 19, 2), 1), method.MIXING),
        "pixel-mixing": Case(
            lambda: pngs.write(flat(14, 30, 5)[..., 0][..., None] * np.array([40, 30, 20])), method.PIXEL_MIXING, is_quick=False
        ),
        "pixel-mixing-smooth": Case(lambda: pngs.write(smooth(6, 9, 3)), method.PIXEL_MIXING),
        "pixel-mixing-gray-alpha": Case(lambda: pngs.write(smooth(4, 6, 2)), method.PIXEL_MIXING),
        "pixel-mixing-rgba": Case(lambda: pngs.write(smooth(4, 6, 4)), method.PIXEL_MIXING),
        "pixel-mixing-1-bit": Case(lambda: pngs.write(flat(11, 19, 2), 1), method.PIXEL_MIXING),
        "pixel-mixing-periods": Case(lambda: pngs.write(tiled(92, 96, 16), 1), method.PIXEL_MIXING, is_quick=False),
        "pixel-mixing-frames": Case(animation, method.PIXEL_MIXING, split=Split(step.PLAIN), is_quick=False),
        "trained-mixing": Case(lambda: pngs.write(smooth(4, 6, 3)), method.TRAINED_MIXING),
        "trained-mixing-gray": Case(lambda: pngs.write(smooth(5, 7, 1)), method.TRAINED_MIXING),
        "trained-mixing-gray-alpha": Case(lambda: pngs.write(smooth(4, 6, 2)), method.TRAINED_MIXING),
        "trained-mixing-rgba": Case(lambda: pngs.write(smooth(4, 6, 4)), method.TRAINED_MIXING),
        "trained-mixing-icon": Case(lambda: pngs.write(soft(20)), method.TRAINED_MIXING, is_quick=False),
        "trained-mixing-periods": Case(lambda: pngs.write(tiled(92, 96, 16), 1), method.TRAINED_MIXING, is_quick=False),
        "short": Case(lambda: pngs.write(smooth(3, 5, 1), before=frequent()), method.PIXEL_MIXING, is_short=True),
        "short-palette": Case(appearing, method.PIXEL_MIXING, split=Split(step.COLORS), is_quick=False, is_short=True),
        "short-frames": Case(lambda: moving(1), method.ANIMATION, is_quick=False, is_short=True),
        "palette-sorted": Case(sorted_palette, method.MIXING, split=Split(step.COLORS), is_quick=False),
        "palette-shades": Case(shades, method.MIXING, split=ranks, is_quick=False),
        "palette-indices": Case(lambda: pngs.write(flat(12, 10, 16), 4, 3), method.MIXING),
        "palette-colors": Case(lambda: palette(False), method.MIXING, split=Split(step.COLORS), is_quick=False),
        "palette-alpha": Case(lambda: palette(True), method.MIXING, split=Split(step.COLORS), is_quick=False, is_written=False),
        "16-bit-scaled": Case(lambda: pngs.write(257 * smooth(5, 6, 1), 16), method.MIXING, split=Split(step.SCALED)),
        "16-bit-bytes": Case(lambda: pngs.write(smooth(3, 5, 4, 16), 16), method.MIXING, split=Split(step.BYTES, True)),
        "16-bit-residual": Case(lambda: pngs.write(smooth(4, 5, 3, 16), 16), method.MIXING, split=Split(step.RESIDUAL)),
        "16-bit-autoregressive": Case(
            lambda: pngs.write(smooth(5, 6, 3, 16), 16), method.AUTOREGRESSIVE, _golden("autoregressive"), Split(step.BYTES)
        ),
        "ranks": Case(lambda: pngs.write(257 * flat(5, 9, 7) + 3 * flat(5, 9, 4, seed=2), 16), method.MIXING, split=ranks),
        "ranks-pairs": Case(
            lambda: pngs.write(many(), 16), method.MIXING, split=Split(step.PAIRS, values=ranks.values), is_quick=False
        ),
        "ranks-rgba": Case(lambda: pngs.write(left_out()), method.MIXING, split=ranks, is_quick=False),
        "indices": Case(lambda: pngs.write(left_out()), method.MIXING, split=Split(step.PLAIN, values=Values.INDICES)),
        "experts": Case(lambda: pngs.write(smooth(9, 13, 3, 16), 16), method.EXPERTS, split=Split(step.WHOLE)),
        "experts-alpha": Case(lambda: pngs.write(16 * smooth(6, 7, 4, 12), 16), method.EXPERTS, split=Split(step.WHOLE, True)),
        "experts-wide": Case(lambda: pngs.write(smooth(9, 40, 1, 16), 16), method.EXPERTS, split=Split(step.WHOLE), kind=Kind.WIDE),
        "experts-wide-rgb": Case(
            lambda: pngs.write(smooth(5, 7, 3, 12), 16), method.EXPERTS, split=Split(step.WHOLE), kind=Kind.WIDE
        ),
        "experts-sharp": Case(lambda: pngs.write(planes(20, 40), 16), method.EXPERTS, split=Split(step.WHOLE), kind=Kind.SHARP),
        "experts-sharp-rgb": Case(
            lambda: pngs.write(smooth(6, 9, 3, 16), 16), method.EXPERTS, split=Split(step.WHOLE), kind=Kind.SHARP
        ),
        "experts-8-bit": Case(lambda: pngs.write(smooth(5, 12, 2)), method.EXPERTS, split=Split(step.PLAIN)),
        "jpeg": Case(lambda: pngs.write(decoded(21, 35, 3)), method.JPEG, is_quick=False, is_written=False),  # with a finer table
        "jpeg-rgb": Case(lambda: pngs.write(decoded(21, 35, 3)), method.JPEG, is_quick=False),
        "jpeg-gray": Case(lambda: pngs.write(decoded(16, 24, 1)), method.JPEG, is_quick=False),
        "jpeg-cut": Case(lambda: pngs.write(decoded(48, 64, 1)[5:, 3:]), method.JPEG, is_quick=False),
        "tail": Case(lambda: pngs.write(smooth(5, 7, 1), tail=pngs.chunk(b"IEND")), method.MIXING, is_quick=False),
        "animation": Case(animation, method.MIXING, split=Split(step.PLAIN, True), is_quick=False),
        "animation-gray": Case(lambda: moving(1), method.ANIMATION),
        "animation-indices": Case(lambda: moving(1, 3), method.ANIMATION, is_quick=False),
        "animation-rgb": Case(lambda: moving(3), method.ANIMATION, is_quick=False),
        "animation-rgba": Case(lambda: moving(4), method.ANIMATION, is_quick=False),
        "animation-alpha": Case(lambda: moving(2), method.ANIMATION, split=Split(step.PLAIN, True), is_quick=False),
        **{name: _flow(name, is_quick=name == "uniform", is_written=False) for name in FLOWS},  # mixing codes what is lent
        **{f"{name}-trained-mixing": _flow(name, is_written=name != "interlaced") for name in FLOWS},
        "interlaced-own-loan": _flow("interlaced"),
        "particles": _flow("uniform", is_written=False),
        **{path.stem: _shipped(path) for path in SHIPPED},
    }  # fmt: skip


def encode(case: Case, data: bytes) -> bytes:
    """The .dqc file of a PNG file, coded as the case says."""
    image = png.read(data)
    if case.method == Method.STORED:
        return Group((Entry(),), (data,)).pack()
    model_id = file_id(case.model) if case.method in LEARNED else b""
    source = Source(image, data)
    view = source.views[case.split.values]
    rasters = [case.split.apply(raster, view.image.skeleton) for raster in view.image.rasters]
    entry = Entry(
        split.skeleton(image, case.split), case.split,
        tuple(tuple(Layer(case.method, model_id) for _ in layers) for layers in rasters),
        exact.find(data, image) if case.has_recipe else b"", values=view.code,
    )  # fmt: skip
    layers = [layer for layers in rasters for layer in layers]
    spots = source.spots(case.split, 0)
    payloads = tuple(
        _payload(case, [layers[number] for _, number in owned], [spots[number] for _, number in owned])
        for owned in owners([entry])
    )
    made = Group((entry,), payloads, sample_checksum(image.rasters))
    return (made.shortened() if case.is_short else made).pack()


def _payload(case: Case, layers: list[np.ndarray], spots: list[Spot]) -> bytes:
    if case.method == Method.EXPERTS:
        return experts.encode_as(layers, [case.kind] * len(layers)).data
    program = program_of(case.model) if case.method in LEARNED else None
    return table.encode(case.method, layers, program, spots=spots).data


def find_program(model_id: bytes) -> Program:
    paths = [*HERE.glob("*.safetensors"), *SHIPPED]
    return program_of(next(path for path in paths if file_id(path) == model_id))
