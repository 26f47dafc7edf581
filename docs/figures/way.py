"""The way of a photograph through the codec, as one picture; every panel shows what the codec really computes.

python docs/figures/way.py      writes docs/figures/way.png; needs pip install -e '.[bench,demo]'
"""

import io
from importlib.resources import files
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from PIL import Image

import dqcodec
from dqcodec.exact.autoregressive.program import AutoregressiveProgram
from dqcodec.frozen.autoregressive import NEIGHBOURS, TOTAL, TOTAL_BITS

PHOTOGRAPH = Path(str(files("skimage.data") / "coffee.png"))  # CC0, by Rachel Michetti
PICTURE = Path(__file__).with_suffix(".png")

_INK, _QUIET, _ACCENT, _PALE = "#1f2933", "#6b7785", "#d1495b", "#e4e9ee"
_GREEN, _BLUE = "#2a9d8f", "#2f6690"
_SIZE = (13.2, 2.85)  # inches
_ROW, _COLUMN = 150, 205  # the pixel whose coding is shown
_BEFORE, _BESIDE = 40, 40  # rows and columns around it that the model sees for the picture
_SYMBOLS = 256
_FAN = 0.026  # how far the planes are spread, of the picture's width


def main() -> None:
    data = PHOTOGRAPH.read_bytes()
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    program = dqcodec.load_model("photo")
    packed = dqcodec.compress(data, "photo")
    if not np.array_equal(dqcodec.decompress(packed), pixels):
        raise SystemExit("the pixels differ")
    figure = draw(pixels, program, len(data), packed)
    figure.savefig(PICTURE, dpi=150, facecolor="white")


def draw(pixels: np.ndarray, program: AutoregressiveProgram, png_bytes: int, packed: bytes) -> Figure:
    """The picture. pixels: (H, W, 3) uint8; packed: their .dqc file."""
    starts, sizes = law(program, pixels)
    symbol = int(pixels[_ROW, _COLUMN, 1])
    figure = Figure(figsize=_SIZE)
    photograph = _image(figure, (0.008, 0.17, 0.165, 0.54), pixels)
    photograph.add_patch(Rectangle((_COLUMN - 9, _ROW - 9), 18, 18, facecolor="none", edgecolor=_ACCENT, lw=1.6))
    _title(figure, 0.0905, "photograph", f"{pixels.shape[1]} × {pixels.shape[0]}, PNG {png_bytes:,} bytes")
    planes = _planes(figure, pixels)
    _title(figure, 0.2475, "planes", "G, R − G, B − G")
    context = _context(figure, pixels)
    _title(figure, 0.391, "context", f"{len(NEIGHBOURS)} pixels known already")
    network = _network(figure, program)
    _title(figure, 0.521, "network", "integers: exact anywhere")
    mixture = _mixture(figure, sizes, symbol)
    _title(figure, 0.659, "mixture", "probability of each value of G")
    stack = _stack(figure, starts, sizes, symbol)
    _title(figure, 0.799, "stack", f"a value owns slots of 2{_superscript(TOTAL_BITS)}")
    file = _image(figure, (0.872, 0.17, 0.122, 0.54), costs(program, pixels), cmap="magma", vmin=0, vmax=24)
    _title(figure, 0.934, "file", f"{len(packed):,} bytes")
    file.text(
        0.5, -0.08, "bits that each pixel takes", transform=file.transAxes, ha="center", va="top", color=_QUIET, size=8
    )
    panels = (photograph, planes, context, network, mixture, stack, file)
    for left, right in zip(panels, panels[1:]):
        _arrow(figure, left.get_position().x1 + (_FAN if left is planes else 0), right.get_position().x0)
    return figure


def law(program: AutoregressiveProgram, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first slot and the number of slots of every value that G may have at the pixel; int (256,) both.

    What comes before a pixel decides its law: all values are tried there.
    """
    part = pixels[_ROW - _BEFORE : _ROW + 1, _COLUMN - _BESIDE : _COLUMN + _BESIDE].copy()
    place = _BEFORE * part.shape[1] + _BESIDE
    found = []
    for value in range(_SYMBOLS):
        part[_BEFORE, _BESIDE, 1] = value
        slots = program.slots([part])
        found.append(slots.slots[_order(slots) == place, 0][0])
    starts, sizes = np.array(found).T
    assert starts[0] == 0 and sizes.sum() == TOTAL and (starts[1:] == np.cumsum(sizes)[:-1]).all()
    return starts, sizes


def costs(program: AutoregressiveProgram, pixels: np.ndarray) -> np.ndarray:
    """-log2 P of each pixel, given those before it, bits, (H, W)."""
    slots = program.slots([pixels])
    bits = np.empty(pixels.shape[0] * pixels.shape[1])
    bits[_order(slots)] = (TOTAL_BITS - np.log2(slots.slots[..., 1])).sum(1)
    return bits.reshape(pixels.shape[:2])


def _order(slots) -> np.ndarray:
    """Where the pixels lie in the image, in the order of coding."""
    return np.concatenate([slots.fronts.places(front)[:, 0] for front in range(len(slots.fronts))])


def _planes(figure: Figure, pixels: np.ndarray) -> Axes:
    red, green, blue = np.moveaxis(pixels.astype(int), 2, 0)
    for number, (plane, low, high) in enumerate(((blue - green, -128, 128), (red - green, -128, 128), (green, 0, 255))):
        box = (0.194 + _FAN / 2 * (2 - number), 0.23 + 0.075 * (number - 1), 0.082, 0.42)
        front = _image(figure, box, plane[::2, ::2], cmap="gray", vmin=low, vmax=high, edge="white")
    return front


def _context(figure: Figure, pixels: np.ndarray) -> Axes:
    """The neighbourhood, magnified: what is known in colour, the neighbours framed, what is not known yet hatched."""
    rows, columns = 3, 4
    part = pixels[_ROW - rows : _ROW + 2, _COLUMN - columns : _COLUMN + columns + 1].copy()
    axes = _image(figure, (0.333, 0.17, 0.116, 0.54), part)
    for y in range(part.shape[0]):
        for x in range(part.shape[1]):
            if y > rows or (y == rows and x >= columns):
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor="white", edgecolor=_PALE, lw=0.6))
            elif (rows - y, x - columns) in NEIGHBOURS:
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor="none", edgecolor=_INK, lw=0.8))
    axes.add_patch(Rectangle((columns - 0.5, rows - 0.5), 1, 1, facecolor=_ACCENT, edgecolor="white", lw=1.1))
    axes.text(columns, rows, "?", ha="center", va="center", color="white", weight="bold", size=10)
    return axes


def _network(figure: Figure, program: AutoregressiveProgram) -> Axes:
    axes = _bare(figure, (0.474, 0.20, 0.094, 0.50))
    layers = (5, 7, 7, 4)
    places = [[(i, (j + 0.5) / 7 + (7 - count) / 14) for j in range(count)] for i, count in enumerate(layers)]
    for left, right in zip(places, places[1:]):
        for a in left:
            for b in right:
                axes.plot(*zip(a, b), color=_BLUE, lw=0.35, alpha=0.45, zorder=1)
    for i, layer in enumerate(places):
        axes.scatter(
            *zip(*layer), s=26, color=_BLUE if i < 3 else _ACCENT, zorder=2, edgecolors="white", linewidths=0.6
        )
    axes.set(xlim=(-0.3, 3.3), ylim=(0, 1))
    axes.text(
        0.5, -0.07, "its last layer goes on learning,\nin the decoder as in the encoder",
        transform=axes.transAxes, ha="center", va="top", color=_QUIET, size=8,
    )  # fmt: skip
    return axes


def _window(sizes: np.ndarray, symbol: int) -> np.ndarray:
    """The values that have nearly all of the probability, and the symbol."""
    likely = np.flatnonzero(sizes > TOTAL / 700)
    return np.arange(max(0, min(likely[0], symbol) - 2), min(_SYMBOLS, max(likely[-1], symbol) + 3))


def _mixture(figure: Figure, sizes: np.ndarray, symbol: int) -> Axes:
    axes = _bare(figure, (0.600, 0.24, 0.118, 0.46))
    values = _window(sizes, symbol)
    colors = [_ACCENT if value == symbol else _GREEN for value in values]
    axes.bar(values, sizes[values] / TOTAL, width=0.86, color=colors)
    axes.set_xlim(values[0] - 1, values[-1] + 1)
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set_color(_QUIET)
    ticks = sorted({int(values[0]) + 2, symbol, int(values[-1]) - 2})
    axes.set_xticks(ticks)
    axes.tick_params(bottom=True, labelbottom=True, length=2, labelsize=8, colors=_QUIET)
    bits = TOTAL_BITS - np.log2(sizes[symbol])
    axes.text(
        0.5,
        -0.2,
        f"here {symbol}: {bits:.2f} bits",
        transform=axes.transAxes,
        ha="center",
        va="top",
        color=_ACCENT,
        size=8,
    )
    return axes


def _stack(figure: Figure, starts: np.ndarray, sizes: np.ndarray, symbol: int) -> Axes:
    axes = _bare(figure, (0.752, 0.20, 0.092, 0.50))
    values = _window(sizes, symbol)
    low, high = starts[values[0]], starts[values[-1]] + sizes[values[-1]]
    for value in values:
        bottom, top = ((edge - low) / (high - low) for edge in (starts[value], starts[value] + sizes[value]))
        color = _ACCENT if value == symbol else _GREEN
        axes.add_patch(Rectangle((0, bottom), 1, top - bottom, facecolor=color, edgecolor="white", lw=0.5))
    bottom, top = ((edge - low) / (high - low) for edge in (starts[symbol], starts[symbol] + sizes[symbol]))
    middle = (bottom + top) / 2
    axes.annotate(
        "", (1.05, middle), (1.5, middle), arrowprops={"arrowstyle": "-|>", "color": _ACCENT, "lw": 1.2}, zorder=3
    )
    axes.text(1.58, middle, f"{sizes[symbol]:,}\nslots", color=_ACCENT, size=8, va="center", linespacing=1.1)
    axes.set(xlim=(-0.1, 3.1), ylim=(0, 1))
    axes.text(
        0.5, -0.07, "pop r < n, push start + r:\nbits-back", transform=axes.transAxes, ha="center", va="top",
        color=_QUIET, size=8,
    )  # fmt: skip
    return axes


def _image(figure: Figure, box, pixels: np.ndarray, edge: str = _PALE, **style) -> Axes:
    axes = figure.add_axes(box, anchor="C")
    axes.imshow(pixels, interpolation="nearest", **style)
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(color=edge, linewidth=1)
    return axes


def _bare(figure: Figure, box) -> Axes:
    axes = figure.add_axes(box)
    axes.set(xticks=[], yticks=[])
    axes.patch.set_visible(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def _title(figure: Figure, x: float, name: str, detail: str) -> None:
    figure.text(x, 0.855, name, ha="center", va="bottom", color=_INK, size=13, weight="bold")
    figure.text(x, 0.825, detail, ha="center", va="top", color=_QUIET, size=8.5)


def _arrow(figure: Figure, start: float, end: float) -> None:
    figure.add_artist(
        FancyArrowPatch(
            (start + 0.004, 0.44),
            (end - 0.004, 0.44),
            transform=figure.transFigure,
            arrowstyle="-|>",
            mutation_scale=11,
            color=_QUIET,
            lw=1.3,
        )  # fmt: skip
    )


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


if __name__ == "__main__":
    main()
