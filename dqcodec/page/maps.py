"""Bits as colours: maps, their legend, and the histogram of code lengths as SVG."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dqcodec import png

_ANCHORS = ("#0b0724", "#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#fcfdbf")  # dark: few bits; light: many
_SHOWN_SIDE = 1024  # pixels of the longest side of a picture in a page
_MOST_SHARE = 0.999  # of the samples of a plane lie within the scale
_BINS_A_BIT, _MOST_BITS = 2, 16
# of the histogram: its width; left and lower end of the bars; the tallest bar
_WIDTH, _LEFT, _BASE, _TALLEST = 640, 44, 190, 178


def scale(planes: Sequence[np.ndarray]) -> int:
    """The bits of a sample at the end of the scale: a whole number that few samples exceed."""
    return max(1, math.ceil(max(float(np.quantile(plane, _MOST_SHARE)) for plane in planes)))


def colored(bits: np.ndarray, most: int) -> np.ndarray:
    """Bits (H, W) as colours (H, W, 3) uint8; `most` bits and more have the last colour."""
    levels = np.clip(bits * (255 / most), 0, 255).round().astype(np.uint8)
    return _palette()[levels]


def legend(most: int) -> str:
    """The scale as HTML."""
    stops = ", ".join(_ANCHORS)
    marks = "".join(f"<span>{value:g}</span>" for value in (0, most / 4, most / 2, 3 * most / 4))
    note = "bits a sample; brighter pixels took more"
    return (
        f'<div class="legend"><div class="ramp" style="background:linear-gradient(to right, {stops})"></div>'
        f'<div class="marks">{marks}<span>{most}+</span></div><figcaption>{note}</figcaption></div>'
    )


def shown(pixels: np.ndarray) -> np.ndarray:
    """Pixels (H, W) or (H, W, C), reduced for a page to the means of squares."""
    step = -(-max(pixels.shape[:2]) // _SHOWN_SIDE)
    if step == 1:
        return pixels
    rows, columns = (np.arange(0, side, step) for side in pixels.shape[:2])
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(np.float64), rows, 0), columns, 1)
    counts = np.outer(np.diff(np.append(rows, pixels.shape[0])), np.diff(np.append(columns, pixels.shape[1])))
    means = sums / counts.reshape(*counts.shape, *[1] * (pixels.ndim - 2))
    return means.round().astype(pixels.dtype) if pixels.dtype.kind == "u" else means


def data_uri(pixels: np.ndarray) -> str:
    """Pixels (H, W, 1 to 4) uint8 as a PNG in a data URI."""
    data = png.write(png.plain(np.ascontiguousarray(pixels)))
    return "data:image/png;base64," + base64.b64encode(data).decode()


def histogram(planes: Sequence[np.ndarray]) -> str:
    """Code lengths of samples, as SVG: the share of samples, and the share of all bits, in each half bit."""
    values = np.clip(np.concatenate([plane.ravel() for plane in planes]), 0, None)
    bins = np.minimum((values * _BINS_A_BIT).astype(int), _MOST_BITS * _BINS_A_BIT - 1)
    count = max(4, int(bins.max()) + 1)
    total = float(values.sum(dtype=np.float64)) or 1.0
    shares = np.bincount(bins, minlength=count) / len(values)
    of_bits = np.bincount(bins, values, minlength=count) / total
    top = max(shares.max(), of_bits.max())
    parts = [
        f'<svg id="histogram" viewBox="0 0 {_WIDTH} {_BASE + 38}" role="img" aria-label="histogram of code lengths">',
        *(_grid_line(share, top) for share in (0, top / 2, top)),
    ]
    for number in range(count):
        parts += _bars(number, count, {"samples": shares[number], "bits": of_bits[number]}, top)
    parts.append(f'<text x="{_WIDTH}" y="{_BASE + 32}" text-anchor="end">bits of a sample</text></svg>')
    return "".join(parts)


def _grid_line(share: float, top: float) -> str:
    """The line of the histogram at a share, with its label. top: the largest share."""
    y = _BASE - share / top * _TALLEST
    return (
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * share:.3g} %</text>'
    )


def _bars(number: int, count: int, shares: Mapping[str, float], top: float) -> list[str]:
    """The bars of one of `count` bins, and the label below some bins. shares: of the samples, and of the bits."""
    step, low, parts = (_WIDTH - _LEFT) / count, number / _BINS_A_BIT, []
    x, is_last = _LEFT + number * step, number == _MOST_BITS * _BINS_A_BIT - 1
    span = f"{low:g} or more" if is_last else f"{low:g} to {low + 1 / _BINS_A_BIT:g}"
    for (series, share), offset in zip(shares.items(), (0.08, 0.5)):
        tall = share / top * _TALLEST
        parts.append(
            f'<rect class="{series}" x="{x + offset * step:.1f}" y="{_BASE - tall:.1f}" width="{0.42 * step:.1f}" '
            f'height="{tall:.1f}"><title>{span} bits: {100 * share:.1f} % of all {series}</title></rect>'
        )
    if number % _BINS_A_BIT == 0 and (count <= 24 or number % (2 * _BINS_A_BIT) == 0):
        parts.append(f'<text x="{x:.1f}" y="{_BASE + 16}" text-anchor="middle">{low:g}</text>')
    return parts


def _palette() -> np.ndarray:
    """256 colours, uint8 (256, 3)."""
    anchors = np.array([[int(color[place : place + 2], 16) for place in (1, 3, 5)] for color in _ANCHORS])
    places = np.linspace(0, len(anchors) - 1, 256)
    columns = [np.interp(places, np.arange(len(anchors)), anchors[:, channel]) for channel in range(3)]
    return np.stack(columns, 1).round().astype(np.uint8)
