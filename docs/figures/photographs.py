"""Each photograph's size beside JPEG XL's, from the committed results.

python docs/figures/photographs.py      writes docs/figures/photographs.png; needs pip install -e '.[bench]'
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from measured import by_image, totals  # noqa: E402

PICTURE = Path(__file__).with_suffix(".png")

_INK, _QUIET, _PALE = "#1f2933", "#6b7785", "#e4e9ee"
_LABELS = {"dqcodec": "dqcodec", "jxl-e7": "JPEG XL -e 7", "webp": "WebP -z 9"}
_COLORS = {"dqcodec": "#d1495b", "jxl-e7": "#2f6690", "webp": "#2a9d8f"}
_BASE = "jxl-e9"


def main() -> None:
    figure = Figure(figsize=(13.2, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, "photos_test", "photos_test: 23 photographs")
    _panel(right, "kodak", "Kodak: 24 scans of film")
    left.set_ylabel("size beside JPEG XL -e 9", color=_INK)
    left.yaxis.set_major_formatter(lambda value, _: f"{value:+.0f} %".replace("-", "−") if value else "0")
    figure.savefig(PICTURE, dpi=150, facecolor="white")


def _panel(axes: Axes, name: str, title: str) -> None:
    """A column a photograph, those first where dqcodec gains most."""
    codecs = [codec for codec in _LABELS if codec in totals(name)]
    base = np.array(by_image(name, _BASE))
    change = {codec: 100 * (np.array(by_image(name, codec)) / base - 1) for codec in codecs}
    order = np.argsort(change["dqcodec"])
    places = np.arange(len(order))
    axes.vlines(places, 0, change["dqcodec"][order], color=_COLORS["dqcodec"], lw=5, alpha=0.22, zorder=1)
    for codec in reversed(codecs):
        mean = 100 * (totals(name)[codec]["bytes"] / base.sum() - 1)
        label = f"{_LABELS[codec]}: {mean:+.1f} % in all".replace("-", "−").replace(" −e", " -e").replace(" −z", " -z")
        axes.plot(places, change[codec][order], "o", ms=5.5, color=_COLORS[codec], label=label, zorder=2)
    axes.axhline(0, color=_INK, lw=1, zorder=1)
    axes.set_title(title, color=_INK, weight="bold", loc="left")
    axes.set_xticks([])
    axes.set_xlim(-0.7, len(order) - 0.3)
    axes.tick_params("y", length=0, colors=_QUIET)
    axes.grid(axis="y", color=_PALE)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.margins(y=0.14)
    style = {"frameon": False, "labelcolor": _INK, "fontsize": 9, "handletextpad": 0.1, "columnspacing": 1.2}
    axes.legend(loc="upper left", ncols=len(codecs), reverse=True, **style)


if __name__ == "__main__":
    main()
