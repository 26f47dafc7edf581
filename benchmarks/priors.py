"""Learn what the method trained mixing knows before its first pixel, from icons and from drawings that are made here.

    python benchmarks/priors.py FOLDER... -o dqcodec/frozen/trained_mixing.npz

The file is a part of the .dqc format: another one needs another number of the method. The shipped one is from the icons of the
Tango project, 16 x 16 and 32 x 32, which are in the public domain.

Mixers code one layer after the other. They keep what they learn, except what they know of a layer's own contexts. Weights are
averaged over the last pass. Rows that stand for the same row of the table are averaged, weighted by how much they changed.
"""

import argparse
import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from dqcodec.codec.source import read
from dqcodec.exact.mixing import priors
from dqcodec.exact.mixing.pixel_mixing import code_layer, new_mixers, writer
from dqcodec.exact.mixing.pixels import Pixels, bits_of, stride_of
from dqcodec.exact.mixing.priors import UNTRAINED, Prior
from dqcodec.frozen import trained_mixing as constants
from dqcodec.frozen.mixing import FINE_STRETCH
from dqcodec.frozen.pixel_mixing import DEFAULT_PERIODS, FIRST_WEIGHT

DRAWINGS, LAYERS, SEED = 200, 800, 1
LATE = 2000  # samples that count as done in the last pass: weights change slowly
SCALE = 4  # drawings are made larger, then reduced
WEIGHTS = ("hit_weights", "weights", "finals")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    files = [path.read_bytes() for folder in arguments.folders for path in sorted(folder.rglob("*.png"))]
    rng = np.random.default_rng(SEED)
    layers = [layer for data in [*files, *(drawing(rng) for _ in range(DRAWINGS))] for layer in layers_of(data)]
    table = {}
    for channels in (1, 3, 4):
        alike = [layer for layer in layers if layer.shape[2] == channels]
        random.Random(SEED).shuffle(alike)
        table |= {f"{name}{channels}": part for name, part in learned(alike[:LAYERS]).items()}
    np.savez_compressed(arguments.output, **table)


def layers_of(data: bytes) -> Iterator[np.ndarray]:
    """The layers of an image that mixing may code, in all views."""
    source = read(data)
    for split in source.splits:
        yield from (layer for layer in source.layers(split) if layer.dtype == np.uint8 and np.ptp(layer))


def learned(layers: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The parts of the table from layers with one number of channels."""
    prior = UNTRAINED._replace(
        weights=np.full((constants.ROWS, constants.INPUTS), FIRST_WEIGHT, np.int32),
        finals=np.full((32, constants.SETS), 65536 // constants.SETS, np.int32),
        errors=np.full((constants.LAW_ROWS, constants.LAWS), 8 << 24, np.uint32),
    )
    for done in (0, LATE):
        sums = {name: np.zeros(getattr(prior, name).shape) for name in (*WEIGHTS, "errors")}
        changes = {name: np.full(len(getattr(prior, name)), 1e-9) for name in WEIGHTS}
        for layer in layers:
            after = coded(layer, prior._replace(done=done))
            for name in WEIGHTS:
                sums[name] += getattr(after, name)
                changes[name] += np.abs(getattr(after, name).astype(np.int64) - getattr(prior, name)).sum(1)
            sums["errors"] += after.errors >> 10
            prior = after
    means = {name: total / len(layers) for name, total in sums.items()}
    return {
        "hit_weights": joined(means["hit_weights"], changes["hit_weights"], priors.HIT_ROWS),
        "weights": joined(means["weights"], changes["weights"], priors.WEIGHT_ROWS),
        "finals": joined(means["finals"], changes["finals"], np.arange(32)),
        "errors": error_codes(means["errors"]),
        **{name: logits(getattr(prior, name)) for name in ("hit_trust", "maps", "trust")},
    }


def coded(layer: np.ndarray, prior: Prior) -> Prior:
    """What mixers know after a layer (H, W, C) uint8."""
    bits, pixels = bits_of(layer), Pixels.of([layer])
    hits, mixer = new_mixers(pixels.shapes, prior)
    periods = [up * stride_of(layer.shape[1]) + left for up, left in DEFAULT_PERIODS]
    code_layer(hits, mixer, writer(pixels.shapes, [bits]), pixels.layer(0, bits, periods))
    network = mixer.network
    return Prior(
        hits.weights,
        hits.trust,
        network.weights,
        network.finals,
        mixer.maps,
        mixer.trust,
        mixer.laws.errors,
        prior.done,
    )


def joined(weights: np.ndarray, changes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of weights of the table, int8: means of the mixer's rows that stand for the same one."""
    shares, sums = np.bincount(rows, changes), np.zeros((rows.max() + 1, weights.shape[1]))
    np.add.at(sums, rows, weights * changes[:, None])
    return np.rint(sums / shares[:, None] / priors.WEIGHT_STEP).clip(-127, 127).astype(np.int8)


def logits(counters: np.ndarray) -> np.ndarray:
    """Logits of counters in the table, int8."""
    steps = np.rint(FINE_STRETCH[counters >> 16] / priors.LOGIT_STEP).clip(-127, 127)
    return np.where(counters & 1023, steps, priors.UNSEEN).astype(np.int8)


def error_codes(errors: np.ndarray) -> np.ndarray:
    """Codes of mean absolute errors in the table, uint8."""
    exponents = np.floor(np.log2(errors.clip(8))) - 3
    return (8 * exponents + np.floor(errors.clip(8) / 2**exponents) - 8).astype(np.uint8)


def drawing(rng: np.random.Generator) -> bytes:
    """A PNG of shapes and letters with smooth or soft edges: RGBA, gray and alpha, of a palette, or on white."""
    side = int(rng.choice([16, 24, 32, 48, 64, 64]))
    background = (0, 0, 0, 0) if rng.random() < 0.75 else (*rng.integers(0, 256, 3).tolist(), 255)
    image, colors = Image.new("RGBA", (side * SCALE, side * SCALE), background), rng.integers(0, 256, (5, 3)).tolist()
    is_soft = rng.random() < 0.4
    for _ in range(int(rng.integers(1, 9))):
        image = Image.alpha_composite(image, shape(rng, image.width, colors, is_soft=is_soft))
    image = image.resize((side, side), Image.Resampling.LANCZOS if rng.random() < 0.5 else Image.Resampling.BOX)
    kind = rng.random()
    if kind < 0.35:
        count = int(rng.choice([16, 32, 64, 128, 256]))
        image = image.quantize(count, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    elif kind < 0.5:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    elif kind < 0.55:
        image = image.convert("LA")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def shape(rng: np.random.Generator, side: int, colors: Sequence[Sequence[int]], *, is_soft: bool) -> Image.Image:
    """A shape or letters, RGBA, perhaps shaded, perhaps blurred."""
    layer = Image.new("RGBA", (side, side))
    draw, alpha = ImageDraw.Draw(layer), int(rng.choice([255, 255, 255, rng.integers(40, 255)]))
    color = (*colors[rng.integers(5)], alpha)
    (left, right), (top, bottom) = np.sort(rng.integers(0, side, (2, 2)), axis=1).tolist()
    box = left, top, right + SCALE, bottom + SCALE
    match rng.integers(6):
        case 0:
            draw.rectangle(box, color)
        case 1:
            draw.ellipse(box, color)
        case 2:
            draw.rounded_rectangle(box, 2 * SCALE, color, (*colors[0], 255), SCALE)
        case 3:
            draw.polygon([tuple(corner) for corner in rng.integers(0, side, (rng.integers(3, 6), 2)).tolist()], color)
        case 4:
            draw.arc(box, int(rng.integers(360)), int(rng.integers(360)), color, int(rng.integers(1, 4)) * SCALE)
        case _:
            letters = chr(rng.integers(65, 91)) * 2
            draw.text((left // 2, top // 2), letters, color, ImageFont.load_default(size=side // 3))
    if rng.random() < 0.35:
        slope = np.linspace(rng.random(), rng.random(), side)[:, None] * np.ones((1, side))
        slope = (slope if rng.random() < 0.5 else slope.T)[..., None]
        samples = np.asarray(layer).astype(np.float64)
        samples[..., :3] = samples[..., :3] * (0.5 + 0.5 * slope) + 40 * (1 - slope)
        layer = Image.fromarray(samples.clip(0, 255).astype(np.uint8))
    if is_soft and rng.random() < 0.4:
        layer = layer.filter(ImageFilter.GaussianBlur(SCALE * 2 * rng.random()))
    return layer


if __name__ == "__main__":
    main()
