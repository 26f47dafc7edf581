"""The figure: size against speed, one point for each codec."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from dqcodec.bench.report import BenchReport, Total

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS, _PEERS, _FRONT = "tab:red", "tab:blue", "0.75"
_BEHIND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}  # background of a label
_PLACES = [  # places of a label beside its point: offset in points, alignments; the first free one is used
    ((8, 0), "left", "center"), ((-8, 0), "right", "center"), ((0, 8), "center", "bottom"), ((0, -8), "center", "top"),
    ((6, 8), "left", "bottom"), ((6, -8), "left", "top"), ((-6, 8), "right", "bottom"), ((-6, -8), "right", "top"),
]  # fmt: skip


def draw(report: BenchReport) -> bytes:
    """A PNG file: size in percent of the PNG files, against encoding speed and against decoding speed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    totals = [total for total in report.totals if total.images]
    _panel(left, "encoding", [(total.encode_mp_s, total) for total in totals if total.encode_mp_s])
    _panel(right, "decoding", [(total.decode_mp_s, total) for total in totals])
    left.set_ylabel("size, % of the PNG files")
    left.axhline(100, color=_FRONT, linestyle="--", zorder=0)
    right.axhline(100, color=_FRONT, linestyle="--", zorder=0)
    figure.suptitle(_title(report), fontsize="medium")
    figure.draw_without_rendering()  # gives the labels their sizes
    for axes in (left, right):
        _place_labels(axes)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _title(report: BenchReport) -> str:
    options = report.options
    threads = "one thread" if options.threads == 1 else f"at most {options.threads} threads"
    busy = ", busy with other work" if any(total.waited for total in report.totals) else ""
    return (
        f"{report.images} images, {report.machine['processor']}, {threads}{busy}\n"
        "better: lower and further right; grey steps: the Pareto front"
    )


def _panel(axes: Axes, way: str, points: Sequence[tuple[float, Total]]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(f"{way} speed, megapixels a second")
    axes.grid(which="both", alpha=0.2)
    axes.margins(x=0.2, y=0.12)
    front = _front([(speed, 100 * total.ratio) for speed, total in points])
    if front:
        axes.step(*zip(*front), where="pre", color=_FRONT, zorder=1)
    for speed, total in points:
        color = _OURS if total.codec.startswith("dqcodec") else _PEERS
        axes.plot(speed, 100 * total.ratio, "o", color=color, zorder=2)
        point = speed, 100 * total.ratio
        axes.annotate(total.title, point, (0, 0), textcoords="offset points", color=color, size="small", bbox=_BEHIND)


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The Pareto front: the points that no other point beats in both speed and size, slowest first."""
    front: list[tuple[float, float]] = []
    for speed, size in sorted(points, key=lambda point: (-point[0], point[1])):
        if not front or size < front[-1][1]:
            front.append((speed, size))
    return front[::-1]


def _place_labels(axes: Axes) -> None:
    """Move each label to the first place beside its point where it covers no other label and no point."""
    from matplotlib.transforms import Bbox

    taken = [Bbox.from_bounds(*(axes.transData.transform(text.xy) - 4), 8, 8) for text in axes.texts]
    for text in axes.texts:
        for offset, horizontal, vertical in _PLACES:
            text.set(position=offset, horizontalalignment=horizontal, verticalalignment=vertical)
            box = text.get_window_extent()
            if axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max) and not box.count_overlaps(taken):
                break
        taken.append(box)
